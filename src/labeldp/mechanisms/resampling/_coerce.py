"""Conversion of rows to Arrow tables that fit a form, column by column; and the form of public rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp._hashes import STEP, mixed
from labeldp._shapes import Bool, Float, UInt64
from labeldp.columns import (
    KINDS,
    Columns,
    is_number,
    kind_of_type,
    plain_column,
    plain_numbers,
    plain_type,
    python_texts,
    rows_of_values,
    type_name,
)
from labeldp.errors import InputError
from labeldp.mechanisms.resampling._column_form import (
    DATE,
    FLAG,
    MOST_DIGITS,
    MOST_TEXTS,
    REAL,
    TEXT,
    TIME,
    WHOLE,
    ColumnForm,
)
from labeldp.privacy import EXACT

ColumnForms = tuple[ColumnForm, ...]

FEATURES = "features"
_FEW, _OFTEN = 20, 20
_MICROSECONDS = 6
_NUMBERS_AT_ONCE = 1 << 22
#: Floats that need more significant digits than this count as full precision.
_MOST_DIGITS = {"float": 7, "double": MOST_DIGITS}
_TYPES = {name: pa.type_for_alias(name) for name in (*WHOLE, *REAL) if "[" not in name} | {
    str(kind): kind for kind in KINDS.values()
}


def type_of(column: ColumnForm) -> pa.DataType:
    """The Arrow type of a shaped column."""
    element = _TYPES[column.element]
    return pa.list_(element, column.width) if column.width else element


def schema_of(columns: ColumnForms) -> pa.Schema:
    """The schema of shaped rows."""
    return pa.schema([pa.field(column.name, type_of(column)) for column in columns])


def table_of(columns: ColumnForms, array_name: str | None, rows: object) -> pa.Table:
    """See ``Form.table``."""
    found, names = _columns(rows, array_name), [column.name for column in columns]
    if sorted(found.names) != sorted(names):
        raise InputError(
            f"expected exactly the columns {', '.join(map(repr, names))}, found "
            f"{', '.join(map(repr, found.names)) or 'none'}; select them"
        )
    table = found.table(names)
    for column in columns:
        kind = plain_type(table.schema.field(column.name).type)
        if not _fits(kind, column):
            raise InputError(
                f"expected values of type {column.type} in the column {column.name!r}, found {type_name(kind)}; "
                "give them in the type of the public rows"
            )
    return table


def shaped(columns: ColumnForms, rows: pa.Table) -> tuple[pa.Table, Bool[np.ndarray, "n"]]:
    """See ``Form.shaped``."""
    schema = schema_of(columns)
    tables, changed = [schema.empty_table()], [np.zeros(0, dtype=np.bool_)]
    for piece in _pieces(columns, rows):
        parts = [_shaped(column, piece[column.name]) for column in columns]
        tables.append(pa.Table.from_arrays([values for values, _ in parts], schema=schema))
        changed.append(np.logical_or.reduce([change for _, change in parts]))
    return pa.concat_tables(tables).combine_chunks(), np.concatenate(changed)


def _pieces(columns: ColumnForms, rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in slices that are small enough to copy."""
    step = max(1, _NUMBERS_AT_ONCE // max(column.width or 1 for column in columns))
    return (rows.slice(low, step) for low in range(0, rows.num_rows, step))


def array_of(column: ColumnForm, values: pa.ChunkedArray) -> np.ndarray:
    """See ``Form.array``."""
    numbers = _with_nan(*_column_numbers(column, values)).astype(_TYPES[column.element].to_pandas_dtype())
    return np.asarray(numbers.reshape(len(values), *(column.shape or ())))


def _with_nan(numbers: np.ndarray, missing: Bool[np.ndarray, "n"]) -> np.ndarray:
    """Numbers, as floats with NaN if some are missing."""
    return np.where(missing, np.nan, numbers) if missing.any() else numbers


def missing_or_endless(columns: ColumnForms, rows: pa.Table) -> tuple[list[str], list[str]]:
    """The names of columns with a missing value, and of those with an infinite one; for rows from ``Form.table``."""
    lacking, endless = [], []
    for piece in _pieces(columns, rows):
        for column in columns:
            if column.of_numbers:
                numbers, missing = _column_numbers(column, piece[column.name])
                endless += [column.name] if np.isinf(numbers).any() else []
            else:
                missing = _category_codes(column, piece[column.name]) == -1
            lacking += [column.name] if missing.any() else []
    return lacking, endless


def digests(columns: ColumnForms, rows: pa.Table) -> UInt64[np.ndarray, "n"]:
    """A 64-bit hash of each shaped row, equal for equal rows: to recognise rows, not to hide them."""
    hashes = [np.zeros(0, dtype=np.uint64)]
    for piece in _pieces(columns, rows):
        words = np.zeros(piece.num_rows, dtype=np.uint64)
        for column in columns:
            for part in _value_words(column, piece[column.name]).T:
                words = mixed(words ^ part)
        hashes.append(words)
    return np.concatenate(hashes)


def _value_words(column: ColumnForm, values: pa.ChunkedArray) -> UInt64[np.ndarray, "n m"]:
    """The values of a shaped column as words, one or more for each row."""
    if not column.of_numbers:
        codes = _category_codes(column, values)
        return np.where(codes < 0, STEP, codes.astype(np.uint64))[:, None]
    numbers, missing = _column_numbers(column, values)
    if column.width is None:
        return np.where(missing, STEP, numbers.view(np.uint64))[:, None]
    dtype = np.float64 if missing.any() else _TYPES[column.element].to_pandas_dtype()
    wide = _with_nan(numbers, missing).astype(dtype)
    bytes_of = np.ascontiguousarray(wide.reshape(len(values), column.width)).view(np.uint8)
    return np.ascontiguousarray(np.pad(bytes_of, ((0, 0), (0, -bytes_of.shape[1] % 8)))).view(np.uint64)


def _columns(rows: object, array_name: str | None) -> Columns:
    """The columns of rows in any container; an array is one column."""
    if array_name is not None and not isinstance(rows, pa.Table | Mapping) and hasattr(rows, "__array__"):
        return Columns({array_name: _as_lists(np.asarray(rows))})
    return Columns(rows)


def container(columns: ColumnForms, array_name: str | None, rows: object) -> pa.Table:
    """The columns of a form, of rows in any container; those of mixed Python objects become text."""
    return _columns(rows, array_name).table([column.name for column in columns], python_texts)


def _as_lists(numbers: np.ndarray) -> pa.Array:
    """The rows of an array of numbers as lists of one length."""
    if numbers.ndim < 2 or numbers.dtype.kind not in "iuf" or not numbers[:1].size * len(numbers) == numbers.size:
        raise InputError(
            f"expected numbers of shape (n, ...), found {numbers.dtype} of shape {numbers.shape}; one row for each "
            "label, as whole numbers or floats"
        )
    width = int(np.prod(numbers.shape[1:]))
    if width == 0:
        raise InputError(f"expected numbers of shape (n, ...), found none in shape {numbers.shape}")
    flat = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("=")).reshape(-1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), width)


def _fits(kind: pa.DataType, column: ColumnForm) -> bool:
    """True if values of a type can be converted to those of a column."""
    if column.width is not None:
        return bool(pa.types.is_fixed_size_list(kind) and kind.list_size == column.width and is_number(kind.value_type))
    numbers = column.of_numbers and column.type not in (DATE, TIME)
    return bool(pa.types.is_null(kind) or (is_number(kind) if numbers else _element_of(kind) == column.type))


def _category_codes(column: ColumnForm, values: pa.ChunkedArray) -> np.ndarray:
    """Index of each text or flag among the column's values; -1 if missing, -2 if unknown."""
    if pa.types.is_null(values.type):
        return np.full(len(values), -1)
    plain = plain_column(values)
    codes = pc.index_in(plain, value_set=pa.array(column.values, plain.type)).fill_null(-2).to_numpy()
    return np.where(plain.is_null().to_numpy(), -1, codes)


def _column_numbers(column: ColumnForm, values: pa.ChunkedArray) -> tuple[np.ndarray, Bool[np.ndarray, "m"]]:
    """The numbers of a column as 64-bit integers or doubles, with lists flattened, and the mask of missing ones.

    Missing numbers are replaced by the fallback. A column of whole numbers may still be doubles.
    """
    if column.width is not None:
        return _listed_numbers(column, values)
    plain = plain_column(values)
    missing = plain.is_null().to_numpy()
    if pa.types.is_null(plain.type):
        return np.full(len(values), column.fallback, dtype=np.int64 if column.element in WHOLE else float), missing
    numbers = plain_numbers(plain)
    if numbers.dtype.kind == "f":
        missing |= np.isnan(numbers)
    real = column.element in REAL
    numbers = numbers.astype(np.float64) if real or numbers.dtype.kind == "f" else _clipped_integers(numbers)
    return np.where(missing, np.array(column.fallback, dtype=numbers.dtype), numbers), missing


def _clipped_integers(numbers: np.ndarray) -> np.ndarray:
    """64-bit integers, clipped to the range of a form."""
    low, high = WHOLE["int64"]
    if numbers.dtype == np.uint64:
        numbers = np.minimum(numbers, np.uint64(high))
    return np.asarray(np.clip(numbers.astype(np.int64), low, high))


def _listed_numbers(column: ColumnForm, values: pa.ChunkedArray) -> tuple[np.ndarray, Bool[np.ndarray, "m"]]:
    """``_column_numbers`` for lists: all numbers of a missing list are missing."""
    combined = values.combine_chunks()
    rows = combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
    present = rows.is_valid().to_numpy(zero_copy_only=False)
    element = dataclasses.replace(column, type=column.element, shape=None)
    numbers, missing = _column_numbers(element, pa.chunked_array([rows.flatten()]))
    if present.all():
        return numbers, missing
    shape = (len(rows), column.width or 1)
    all_numbers, all_missing = np.full(shape, column.fallback, dtype=numbers.dtype), np.ones(shape, dtype=np.bool_)
    all_numbers[present], all_missing[present] = numbers.reshape(-1, shape[1]), missing.reshape(-1, shape[1])
    return all_numbers.reshape(-1), all_missing.reshape(-1)


def _shaped(column: ColumnForm, values: pa.ChunkedArray) -> tuple[pa.Array, Bool[np.ndarray, "n"]]:
    """One column shaped to fit, and the mask of rows whose value changed."""
    if not column.of_numbers:
        return _shaped_codes(column, values)
    numbers, missing = _column_numbers(column, values)
    nearest = column.nearest(_rounded(numbers) if column.element in WHOLE else numbers)
    changed = (nearest != numbers) | (missing & (not column.missing))
    mask = missing if column.missing and missing.any() else None
    stored = nearest.astype(_STORED.get(column.element) or _TYPES[column.element].to_pandas_dtype())
    element = pa.array(stored, mask=mask).cast(_TYPES[column.element])
    if column.width is None:
        return element, changed
    lists = pa.FixedSizeListArray.from_arrays(element, type=type_of(column))
    return lists, changed.reshape(len(values), -1).any(axis=1)


#: Integer types of dates and times in storage.
_STORED: dict[str, type[np.generic]] = {DATE: np.int32, TIME: np.int64}


def _rounded(numbers: np.ndarray) -> np.ndarray:
    """Numbers rounded to integers."""
    if numbers.dtype.kind != "f":
        return numbers
    low, high = WHOLE["int64"]
    return np.asarray(np.rint(np.clip(numbers, low, high)).astype(np.int64))


def _shaped_codes(column: ColumnForm, values: pa.ChunkedArray) -> tuple[pa.Array, Bool[np.ndarray, "n"]]:
    codes = _category_codes(column, values)
    assert column.values is not None  # noqa: S101 (its form says so)
    fallback = column.values.index(column.fallback)
    keeps = (codes == -1) & column.missing
    changed = (codes < 0) & ~keeps
    places = pa.array(np.where(codes < 0, fallback, codes), mask=keeps if keeps.any() else None)
    return pa.array(column.values, _TYPES[column.type]).take(places), changed


def columns_of(public: object) -> tuple[ColumnForms, bool]:
    """The columns of the form of public rows, and a flag for arrays; see ``Form.of``."""
    rows: Any = public
    array = not isinstance(rows, pa.Table | pa.RecordBatch | Mapping) and not hasattr(rows, "__dataframe__")
    if array and hasattr(rows, "__array__"):
        numbers = np.asarray(rows)
        return (_list_form(FEATURES, _as_lists(numbers), numbers.shape[1:]),), True
    table = Columns(public).table()
    if table.num_rows == 0:
        raise InputError("expected public rows from which to derive the form, found none")
    return tuple(_form_of_column(name, table[name]) for name in table.column_names), False


def _form_of_column(name: str, values: pa.ChunkedArray) -> ColumnForm:
    """The form of one column of public rows."""
    plain = plain_column(values)
    kind = plain.type
    if pa.types.is_fixed_size_list(kind) and is_number(kind.value_type):
        return _list_form(name, plain.combine_chunks(), None)
    missing = plain.null_count > 0
    if plain.null_count == len(plain):
        raise InputError(f"expected a value in the public column {name!r}, found none; leave it out")
    element = _element_of(kind)
    if element in (TEXT, FLAG):
        return _category_form(name, element, plain, missing)
    return _number_form(name, element, plain, None)


def _element_of(kind: pa.DataType) -> str:
    """The type in a form of values of a plain type; of those that forms do not know, another one or none."""
    found = kind_of_type(kind)
    if found == "number":
        return "double" if pa.types.is_decimal(kind) else str(kind)
    return "" if found is None or getattr(kind, "tz", None) else str(KINDS[found])


def _category_form(name: str, kind: str, values: pa.ChunkedArray, missing: bool) -> ColumnForm:
    counts = rows_of_values(values)
    if len(counts) > MOST_TEXTS:
        raise InputError(
            f"expected at most {MOST_TEXTS} different texts in the public column {name!r}, found {len(counts)}; leave "
            "it out, or group its texts"
        )
    common = min(counts, key=lambda text: (-counts[text], str(text)))
    return ColumnForm(name, kind, values=tuple(counts), missing=missing, fallback=common)


def _list_form(name: str, lists: Any, shape: tuple[int, ...] | None) -> ColumnForm:
    kind = lists.type
    element = _element_of(kind.value_type)
    return _number_form(
        name, element, pa.chunked_array([lists.flatten()]), (kind.list_size, shape or (kind.list_size,))
    )


def _number_form(
    name: str, element: str, values: pa.ChunkedArray, row: tuple[int, tuple[int, ...]] | None
) -> ColumnForm:
    """The form of numbers: their range and digits, or a list of values."""
    if element not in WHOLE and element not in REAL:
        raise InputError(
            f"expected texts, flags, numbers of at most 63 bits, dates or times without a zone in the public column "
            f"{name!r}, found {type_name(values.type)}; leave it out, or give it in another type"
        )
    numbers = plain_numbers(values)
    absent = values.is_null().to_numpy()
    if numbers.dtype.kind == "f":
        absent = absent | np.isnan(numbers)
    numbers = numbers[~absent]
    if not numbers.size or not np.isfinite(numbers.astype(np.float64)).all():
        raise InputError(f"expected finite numbers in the public column {name!r}, found none, or infinity")
    different, counts = np.unique(numbers + 0 if element in WHOLE else numbers + 0.0, return_counts=True)
    most = different[counts == counts.max()]
    texts = list(map(str, different)) if element in REAL else []  # shortest texts that round-trip
    fields = {
        "name": name,
        "type": element if row is None else f"list<{element}>[{row[0]}]",
        "missing": bool(absent.any()),
        "fallback": most[(len(most) - 1) // 2].item(),
        "shape": None if row is None else tuple(int(size) for size in row[1]),
    }
    listed = _evenly_spaced(different)
    nearest = min(listed, key=lambda value: abs(value - fields["fallback"]))
    listed_form = ColumnForm(**{**fields, "values": listed, "fallback": nearest})
    if len(different) <= _FEW and len(different) * _OFTEN <= numbers.size:
        return listed_form
    ranged = {"low": different[0].item(), "high": different[-1].item()}
    if element == TIME:
        return ColumnForm(**fields, **ranged, decimals=_second_digits(different))
    repeated = len(different) <= MOST_TEXTS and 2 * len(different) <= numbers.size
    if element in WHOLE:
        wide = int(different[-1]) - int(different[0]) > 2 * len(different)
        return listed_form if repeated and wide else ColumnForm(**fields, **ranged)
    for digits in _digits_of(texts, different.astype(np.float64), _MOST_DIGITS.get(element, 0)):
        form = _form_or_none({**fields, **ranged, **digits})
        if form is not None and np.array_equal(form.nearest(different.astype(np.float64)), different):
            steps = np.inf if form.decimals is None else float(different[-1] - different[0]) * 10.0**form.decimals
            return listed_form if repeated and steps > 2 * len(different) else form
    return listed_form


def _evenly_spaced(different: np.ndarray) -> tuple[Any, ...]:
    """The sorted numbers, or a subset of the allowed size, evenly spaced by rank, with both ends."""
    places = np.linspace(0, len(different) - 1, min(len(different), MOST_TEXTS)).round().astype(np.int64)
    return tuple(different[places].tolist())


def _form_or_none(fields: Mapping[str, Any]) -> ColumnForm | None:
    try:
        return ColumnForm(**fields)
    except InputError:
        return None


def _second_digits(times: np.ndarray) -> int:
    """Number of decimals of seconds that times need."""
    return next(digits for digits in range(_MICROSECONDS + 1) if not (times % 10 ** (_MICROSECONDS - digits)).any())


def _digits_of(texts: list[str], numbers: Float[np.ndarray, "m"], most: int) -> list[dict[str, int]]:
    """Options for decimals and significant digits that the shortest texts of numbers need, best first."""
    decimals = significant = 0
    for text in texts:
        exact = Decimal(text).normalize(EXACT)
        decimals = max(decimals, -int(exact.as_tuple().exponent))
        significant = max(significant, len(exact.as_tuple().digits) * bool(exact))
    tries = []
    large = len(str(int(np.abs(numbers).max())))
    if texts and decimals + large <= MOST_DIGITS and significant <= most:
        few = {"digits": significant} if 0 < significant < decimals + large - 1 else {}
        tries.append({"decimals": decimals, **few})
        tries.append({"decimals": decimals})
    if 0 < significant <= most:
        tries.append({"digits": significant})
    return tries
