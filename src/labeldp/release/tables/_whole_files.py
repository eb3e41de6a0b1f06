"""Tables that are read whole: Feather, JSON lines, sheets of Excel, and labels in IDX."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from labeldp._checks import nearest
from labeldp._extras import require_extra
from labeldp.errors import TableError
from labeldp.release.tables._idx import read_idx
from labeldp.release.tables._store import Place, StorePath

#: The only column of a file of labels.
IDX_LABEL = "label"
#: Bytes of JSON in which a type is inferred, and the largest whole number that a cell of Excel holds exactly.
_BLOCK, _EXACT = 1 << 26, 1 << 53
_MIDNIGHT = dt.time(0)


def whole_table(path: Place, kind: str, sheet: str | None) -> pa.Table:
    """The rows of a file.

    Raises:
        TableError: There is no such sheet, or labels in IDX are in a store.
        MissingExtraError: It is a file of Excel, whose reader is not installed.
    """
    return _READERS[kind](path, sheet)


def _feather(path: Place, _: str | None) -> pa.Table:
    from pyarrow import feather  # noqa: PLC0415 (few read such files)

    return _opened(path, feather.read_table)


def _json_lines(path: Place, _: str | None) -> pa.Table:
    from pyarrow import json as lines  # noqa: PLC0415 (few read such files)

    options = lines.ReadOptions(block_size=_BLOCK)
    return _opened(path, lambda file: lines.read_json(file, read_options=options))


def _labels(path: Place, _: str | None) -> pa.Table:
    if isinstance(path, StorePath):
        raise TableError(f"expected labels in IDX on a disk, found {path}; copy the file, or save it as Parquet")
    return pa.table({IDX_LABEL: pa.array(read_idx(path, 1), pa.int64())})


def _excel(path: Place, sheet: str | None) -> pa.Table:
    """The rows of a sheet, whose first row names the columns."""
    require_extra("excel", "python_calamine")
    from python_calamine import CalamineError, CalamineWorkbook  # noqa: PLC0415 (an extra)

    def rows_of(file: BinaryIO) -> list[list[Any]]:
        book = CalamineWorkbook.from_filelike(file)
        return list(book.get_sheet_by_name(_sheet(path, sheet, book.sheet_names)).to_python())

    try:
        rows = _opened(path, rows_of)
    except CalamineError:
        rows = None
    if rows is None:
        raise TableError(f"expected a workbook of Excel in {path.name}, found none that can be read; save it again")
    names = [str(name).strip() for name in rows[0]] if rows else []
    while names and not names[-1] and all(row[len(names) - 1] == "" for row in rows):
        names.pop()
    rows = [row for row in rows[1:] if any(cell != "" for cell in row)]
    if not all(names) or len(set(names)) < len(names):
        raise TableError(
            f"expected different names in the first row of {path.name}, found one twice or none; name them"
        )
    return pa.table([_column([row[place] for row in rows]) for place in range(len(names))], names=names)


def _sheet(path: Place, wanted: str | None, names: Sequence[str]) -> str:
    """The name of the sheet to read."""
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is None or wanted not in names:
        found = "none" if wanted is None else repr(wanted)
        raise TableError(
            f"expected the name of a sheet of {path.name} (--sheet): {', '.join(names)}; found {found}"
            f"{nearest(wanted or '', names)}"
        )
    return wanted


def _column(cells: Sequence[Any]) -> pa.Array:
    """Cells as numbers, flags, dates or times, if all are of one kind, or else as text."""
    known = [cell for cell in cells if cell != ""]
    kinds = {type(cell) for cell in known}
    values = [None if cell == "" else cell for cell in cells]
    if kinds <= {int, float} and known:
        whole = all(cell == int(cell) and abs(cell) < _EXACT for cell in known)
        return pa.array([cell if cell is None or not whole else int(cell) for cell in values])
    if kinds <= {dt.date, dt.datetime} and known:
        times = [None if cell is None else _instant(cell) for cell in values]
        days = all(time is None or time.time() == _MIDNIGHT for time in times)
        return pa.array(times, pa.timestamp("us")).cast(pa.date32() if days else pa.timestamp("us"))
    if kinds == {bool}:
        return pa.array(values)
    return pa.array([cell if cell is None else _text(cell) for cell in values], pa.string())


def _instant(cell: dt.date) -> dt.datetime:
    """A date or a time as a time."""
    return cell if isinstance(cell, dt.datetime) else dt.datetime.combine(cell, _MIDNIGHT)


def _text(cell: Any) -> str:
    """A cell as it is shown: whole numbers without a point, and dates in ISO."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _opened(path: Place, read: Callable[[Any], Any]) -> Any:
    """The result of a reader on an open file."""
    if isinstance(path, Path):
        with path.open("rb") as file:
            return read(file)
    with path.opened() as stored:
        return read(stored)


_READERS: Mapping[str, Callable[[Place, str | None], pa.Table]] = {
    "feather": _feather,
    "json": _json_lines,
    "excel": _excel,
    "idx": _labels,
}
