"""Conversion of typed class names to the type of the label column."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from labeldp._spelling import canonical, spelled_as
from labeldp.columns import is_number, plain_type, type_name
from labeldp.errors import LabelError
from labeldp.privacy import REFUSE, Classes
from labeldp.release.tables._tables import Table


def declared_classes(table: Table, texts: Sequence[str], missing: str = REFUSE) -> Classes:
    """Convert class names to the label space of a table.

    Text in Parquet stays text, and numbers and booleans are parsed in any spelling. Columns of CSV and workbooks have
    no types: classes that are all whole numbers in plain notation are numbers.

    Raises:
        LabelError: The texts do not fit the column's type, or are no space.
    """
    kind = plain_type(table.schema.field(table.label).type)
    if table.has_texts_as_labels or pa.types.is_null(kind):
        whole = all(_is_whole(text) for text in texts)
        return _classes(texts, {text: int(text) for text in texts} if whole else {}, missing)
    if pa.types.is_boolean(kind):
        flags = {text: canonical(text) == "true" for text in texts if canonical(text) in ("true", "false")}
        return _classes(texts, flags, missing, "true and false")
    if is_number(kind):
        whole_numbers = {text: int(canonical(text)) for text in texts if _is_whole(canonical(text))}
        required = f"whole numbers, since the column is stored as {type_name(kind)}"
        return _classes(texts, whole_numbers, missing, required)
    return _classes(texts, {}, missing)


def _classes(
    texts: Sequence[str], values: dict[str, int] | dict[str, bool], missing: str, required: str = ""
) -> Classes:
    """The declared classes; with ``required``, a description of valid names, each must have a value."""
    if required and not set(texts) <= set(values):
        raise LabelError(f"expected the classes to be {required}, found other text; write them as the table does")
    named = missing if missing == REFUSE else spelled_as(missing, texts)
    if named is None:
        raise LabelError(
            f"expected one of the declared classes for missing labels, found {missing!r}; add it to the classes"
        )
    return Classes([values.get(text, text) for text in texts], values.get(named, named))


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text
