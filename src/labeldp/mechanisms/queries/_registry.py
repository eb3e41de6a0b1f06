"""The registry of queries, and what follows from the law of an answer in a certificate."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from labeldp._strict_json import strict_json
from labeldp.errors import InputError
from labeldp.mechanisms.queries._query import Query
from labeldp.privacy import Guarantee, Kinds, LabelSpace

#: All queries by name: one for each final class in this package's files, and those of other distributions.
QUERIES: Kinds[Query] = Kinds(Query, "name", "labeldp.mechanisms.queries", "query")


def promise_of(law: Mapping[str, Any], space: LabelSpace) -> Guarantee:
    """The guarantee of the answer to a query for each row, or each unit, from the parameters in a certificate.

    Raises:
        ValueError: The kind of query is unknown, or its fields are invalid, missing, superfluous or not in canonical
            notation.
    """
    query = QUERIES.of_law(law)
    query.fields().check(law)
    return query.promise_of(law, space)


def charged_law(query: Query, labels_of_a_unit: int) -> dict[str, Any]:
    """The law of a query's answer for a certificate, after a check that others can read it; call it before charging.

    The law of a query of another distribution names that distribution, and its guarantee is recomputed.

    Args:
        query: The query.
        labels_of_a_unit: The largest number of labels of one privacy unit.

    Raises:
        InputError: The query is not registered, or its guarantee does not follow from its law.
    """
    QUERIES.check(type(query))
    package, law = QUERIES.distribution(query.name), query.law(labels_of_a_unit)
    if package is None:
        return law
    law["package"] = package
    if not _follows(query.promise(labels_of_a_unit), law, query.space):
        raise InputError(
            f"expected a guarantee that follows from the law of {query.name!r}, found another, or none; no release of "
            "it could be verified: correct its law, fields or promise_of"
        )
    return law


def _follows(promise: Guarantee, law: Mapping[str, Any], space: LabelSpace) -> bool:
    """True if a law can be written, read back and stored, and gives the guarantee; that may assume more."""
    try:
        found = promise_of(strict_json(json.dumps(law)), space)
        QUERIES.of_law(law).stored(law, space)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return False
    return dataclasses.replace(found, assumptions=()) == dataclasses.replace(promise, assumptions=()) and set(
        found.assumptions
    ) <= set(promise.assumptions)
