"""Classes as a user types them, in the type of the label column."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from labeldp.errors import LabelError
from labeldp.privacy import REFUSE, Classes
from labeldp.release.tables._arrow_storage import plain_type
from labeldp.release.tables._tables import Table


def declared_classes(table: Table, texts: Sequence[str], missing: str = REFUSE) -> Classes:
    """The label space that texts declare for a table.

    Text in Parquet stays text, and numbers and booleans are read as such. CSV has no types: classes that are all
    whole numbers as one writes them are numbers.

    Raises:
        LabelError: The texts do not fit the column's type, or are no space.
    """
    kind = plain_type(table.schema.field(table.label).type)
    if table.kind == "csv" or pa.types.is_null(kind):
        whole = all(_is_whole(text) for text in texts)
        return _classes(texts, {text: int(text) for text in texts} if whole else {}, missing)
    if pa.types.is_boolean(kind):
        return _classes(texts, {"true": True, "false": False}, missing, strict=True)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _classes(texts, {text: int(text) for text in texts if _is_whole(text)}, missing, strict=True)
    return _classes(texts, {}, missing)


def _classes(
    texts: Sequence[str], read: dict[str, int] | dict[str, bool], missing: str, strict: bool = False
) -> Classes:
    if strict and not set(texts) <= set(read):
        raise LabelError("expected classes in the type of the label column, found other text; look at its type")
    if missing != REFUSE and missing not in texts:
        raise LabelError("expected a declared class for missing labels, found another; add it to the classes")
    return Classes([read.get(text, text) for text in texts], read.get(missing, missing))


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text
