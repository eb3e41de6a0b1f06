"""The laws of a query."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from labeldp.mechanisms.queries import Query, charged_law, promise_of
from labeldp.release import Answer, Curator
from labeldp.release.folder import verify
from labeldp.testing._laws import expect

_PROMISED = ("epsilon", "delta", "rho", "trust")


def check_query(query: Query, labels: Any) -> None:
    """Check the laws that every query holds, in memory and in a temporary folder.

    It is registered. Its guarantee follows from its law, which has all fields that the query requires: a law that
    lacks one, has one more or another value is refused. An answer costs what was promised, is verified once it is
    saved, and is read back as it was.

    Args:
        query: A query.
        labels: Labels of its space, as many as it asks about.

    Raises:
        AssertionError: A law does not hold; the message states it.
        InputError: It is not registered, or its guarantee does not follow from its law.

    Example:
        >>> from labeldp import Classes, NoisyHistogram
        >>> check_query(NoisyHistogram(Classes(["no", "yes"]), 1.0), ["no", "yes", "no"])
    """
    law, promise = charged_law(query, 1), query.promise(1)
    found, required = promise_of(law, query.space), query.fields().required
    same = all(getattr(found, name) == getattr(promise, name) for name in _PROMISED)
    expect(same and set(found.assumptions) <= set(promise.assumptions), "a guarantee follows from the law of its query")
    expect(set(required) <= law.keys() - {"kind"}, "a law has all fields that its query requires")
    for name in required:
        without = {each: value for each, value in law.items() if each != name}
        for forged in (without, law | {name: None}, law | {name: [1.5]}):
            expect(_is_refused(forged, query), f"a law without a proper {name!r} is refused")
    for extra in ({"more": "1"}, {"package": "of nobody"}, {"kind": "of nobody"}):
        expect(_is_refused(law | extra, query), f"a law with {extra} is refused")
    _check_answer(query, labels)


def _is_refused(law: dict[str, Any], query: Query) -> bool:
    """True if no guarantee follows from a law."""
    try:
        promise_of(law, query.space)
    except (ValueError, TypeError):
        return True
    return False


def _check_answer(query: Query, labels: Any) -> None:
    """Check the cost of an answer, and that it is stored and read back."""
    promise = query.promise(1)
    curator = Curator(labels, query.space, name="label")
    answer = curator.answer(query)
    expect(curator.spent == (promise.epsilon, promise.delta), "an answer costs what its query promises")
    with TemporaryDirectory() as folder:
        saved = answer.save(Path(folder) / "answer")
        verdict, again = verify(saved), Answer.load(saved)
        expect(verdict.holds, f"an answer is verified once it is saved: {verdict}")
        same = np.array_equal(again.value, answer.value, equal_nan=answer.value.dtype.kind == "f")
        expect(same and again.value.dtype == answer.value.dtype, "an answer is read back as it was saved")
