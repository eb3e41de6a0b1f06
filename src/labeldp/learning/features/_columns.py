"""Feature columns of tables: which ones a model uses, and their values as numbers, categories or texts.

Columns that grow, such as dates and counters, have ranges beyond which a model does not extrapolate.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.types import is_numeric_dtype
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp.columns import (
    KINDS,
    MOST_DISTINCT,
    are_images,
    column_kind,
    is_free_text,
    is_text,
    misfit,
    numbers_as_texts,
    plain_column,
    spelled_like,
    type_name,
    values_of_kind,
    values_or_none,
    why_unusable,
)
from labeldp.errors import InputError, TableError
from labeldp.learning.features._rows import take_rows
from labeldp.learning.features._texts import TextComponents, TextWords
from labeldp.privacy import row_name
from labeldp.release.tables import are_people, number_rows, tells_people_apart

#: The share of many rows beyond a range that is worth a warning.
_MUCH = 0.1


class UnseenValueWarning(UserWarning):
    """Many rows have values that a model did not learn from."""


class OutsideRangeWarning(UnseenValueWarning):
    """Many rows lie outside what a model learned from, such as those of later days."""


@dataclass(frozen=True)
class SeenRanges:
    """The values of columns that a model learned from.

    A model says nothing of days, counters or identifiers beyond those that it saw, and a line through them would go on
    for ever. So its features stay within the range of each column, and months that it did not see are the most common
    one of those that it did.

    Attributes:
        numbers: The least and the largest number of each column.
        cycles: The texts of each column of months or weekdays, the most common one first.
    """

    numbers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    cycles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, frame: pd.DataFrame, cycles: Collection[str] = ()) -> Self:
        """The ranges of the columns of a frame, of which some hold months or weekdays."""
        numbers = {name: frame[name].dropna() for name in frame if is_numeric_dtype(frame[name])}
        ends = {str(name): (float(each.min()), float(each.max())) for name, each in numbers.items() if len(each)}
        texts = {name: tuple(frame[name].value_counts().index) for name in cycles}
        return cls(ends, {name: each for name, each in texts.items() if each})

    def within(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A frame whose values are within the ranges, with a warning where many rows were not."""
        changed, outside = dict[str, Any](), dict[str, int]()
        for name, (low, high) in self.numbers.items():
            values = frame[name].to_numpy()
            beyond = ((values < low) | (values > high)) & np.isfinite(values)  # infinity is an error, not a late day
            changed[name] = np.where(beyond, np.clip(values, low, high), values)
            outside[name] = int(beyond.sum())
        for name, texts in self.cycles.items():
            unseen = frame[name].notna() & ~frame[name].isin(texts)
            changed[name] = frame[name].where(~unseen, texts[0])
            outside[name] = int(unseen.sum())
        _warn(outside, len(frame))
        return frame.assign(**{name: changed[name] for name in changed if outside[name]})

    def plain(self) -> dict[str, Any]:
        """The ranges as plain data for a file."""
        return {name: list(each) for name, each in [*self.numbers.items(), *self.cycles.items()]}

    @classmethod
    def from_plain(cls, body: Mapping[str, Any], columns: Mapping[str, str]) -> Self:
        """The ranges that ``plain`` described, of columns of a table by their kinds; none of a model without them."""
        kinds, cycles = frame_columns(columns), set(cycle_columns(columns))
        texts = {name: tuple(each) for name, each in body.items() if name in cycles}
        ends = {name: tuple(each) for name, each in body.items() if name not in cycles}
        if not (
            all(type(each) is list and each for each in body.values())
            and all(type(text) is str for each in texts.values() for text in each)
            and all(kinds.get(name) == "number" and _are_ends(each) for name, each in ends.items())
        ):
            raise ValueError("no ranges of columns")
        return cls({name: (float(low), float(high)) for name, (low, high) in ends.items()}, texts)


def _are_ends(values: tuple[Any, ...]) -> bool:
    """True of the least and the largest number of a column."""
    return [type(each) in (int, float) for each in values] == [True, True] and values[0] <= values[1]


def _warn(outside: Mapping[str, int], rows: int) -> None:
    """Warn of columns in which many rows lie outside what the model learned from."""
    many = {name: count for name, count in outside.items() if rows >= _MANY_ROWS and count > _MUCH * rows}
    if many:
        named = ", ".join(f"{name!r} ({count:,})" for name, count in many.items())
        warnings.warn(
            f"Many of the {rows:,} rows lie outside what the model learned from: {named}. It takes the nearest values "
            "that it saw instead, since it knows nothing of others; learn from newer rows",
            OutsideRangeWarning,
            stacklevel=5,
        )


#: The features beside the number of days since 1970, by kind: functions of Arrow, and the kinds of their values.
CALENDAR: Mapping[str, Mapping[str, tuple[Any, str]]] = MappingProxyType(
    {
        "day": {"month": (pc.month, "category"), "weekday": (pc.day_of_week, "category")},
        "instant": {
            "month": (pc.month, "category"),
            "weekday": (pc.day_of_week, "category"),
            "hour": (pc.hour, "number"),
        },
    }
)
#: The kinds that make a single number of dates and times.
_PLAIN = MappingProxyType({"day": "date", "instant": "time"})

#: Kinds of columns whose values are read as those of another kind.
_READ_AS = MappingProxyType({"text": "category"})
#: Kinds of the columns of a frame.
_IN_FRAMES = ("number", "category", "text")
_NONE_KEPT = "the release kept none; for images pass --images"
#: Whole numbers of more values, with the name of an identifier, are not used unless they are requested, or codes.
_FEW_VALUES = 20
#: Largest ratio of a deviation to the median one, of columns that seem to share a unit.
_ONE_UNIT = 3.0
#: Categories kept of a text column, and by models that take sparse features; the rarer ones share one.
MOST_CATEGORIES, _MOST_SPARSE = 200, 10_000
#: Rows of which one at least should have a category that a model knows, and such categories to list.
_MANY_ROWS, _LISTED = 20, 3


class UnknownCategoryWarning(UnseenValueWarning):
    """A model knows none of the categories in a column of many rows."""


class NumbersAsTextsWarning(UserWarning):
    """The texts of a column look like numbers, and are learned as categories."""


def warn_of_numbers(name: str, texts: pa.Array) -> None:
    """Warn of texts that look like numbers, of which a model takes each for a category of its own."""
    if looks := numbers_as_texts(texts):
        warnings.warn(
            f"the texts of {name!r} look like numbers with {looks}, and are learned as categories, which predicts far "
            "worse; give numbers: 'labeldp check' shows how a table is read",
            NumbersAsTextsWarning,
            stacklevel=3,
        )


def columns_of(
    table: pa.Table, wanted: Sequence[str] | None, unit: str | None, *, texts: bool = True
) -> tuple[dict[str, str], dict[str, str]]:
    """The kind of each feature column, and for every other column why it is left out.

    Args:
        table: Public columns.
        wanted: Names of the features; None for all useful columns.
        unit: The column that names the privacy unit.
        texts: Whether the model reads free texts.
    """
    names = table.column_names
    for name in wanted or ():
        if name not in names:
            raise InputError(f"expected features among the public columns {', '.join(names)}, found {name!r}")
    used, left_out = {}, {}
    for name in dict.fromkeys(wanted or names):
        column = plain_column(table[name])
        kind = column_kind(column)
        kind = "text" if texts and kind == "category" and is_free_text(column) else kind
        kind = "category" if wanted is None and _are_codes(name, column) else kind
        why = "no model takes its type" if kind is None else why_unusable(column, _READ_AS.get(kind, kind))
        if wanted is None and kind is not None and why is None:
            why = "it names the privacy unit" if name == unit else _why_uninformative(name, column, kind)
        if why is None and kind is not None:
            taken = any(f"{name} {part}" in names for part in CALENDAR.get(kind, ()))
            used[name] = _PLAIN[kind] if taken else kind
            if kind == "category" and is_text(column.type):
                warn_of_numbers(name, pc.unique(column))
        elif wanted is not None:
            found = type_name(column.type) if kind is None else why
            raise InputError(f"expected numbers, dates or text in the feature {name!r}, found {found}")
        else:
            left_out[name] = str(why)
    if not used:
        raise InputError(
            f"expected a public column to learn from, found none among {len(names)} "
            f"({'; '.join(f'{name}: {why}' for name, why in left_out.items()) or _NONE_KEPT})"
        )
    return used, left_out


def _are_codes(name: str, column: pa.ChunkedArray) -> bool:
    """True for whole numbers that are named like an identifier, but have so few values that these are categories."""
    if not pa.types.is_integer(column.type) or not tells_people_apart(name):
        return False
    distinct = pc.count_distinct(column).as_py()
    return distinct <= _FEW_VALUES or not are_people(distinct, len(column) - column.null_count)


def _why_uninformative(name: str, column: pa.ChunkedArray, kind: str) -> str | None:
    """The reason why a column cannot generalise to other rows; None if it can."""
    distinct = pc.count_distinct(column, mode="all").as_py()
    if distinct <= 1:
        return "it is the same in every row"
    if pa.types.is_integer(column.type) and distinct > _FEW_VALUES:
        if tells_people_apart(name) and not _are_codes(name, column):
            return "it is named like an identifier, whose size means nothing; name it among the features to use it"
        if distinct == len(column) and number_rows(distinct, *(each.as_py() for each in pc.min_max(column).values())):
            return "its whole numbers are all different, as if they named rows; name it among the features to use it"
    return _why_no_category(column, distinct) if kind == "category" else None


def _why_no_category(column: pa.ChunkedArray, distinct: int) -> str | None:
    """The reason why a text column is not one of categories."""
    texts = column.cast(pa.string())
    if are_images(texts):
        return "it names image files; to learn from these, pass --images FOLDER --image-column COLUMN"
    if distinct <= MOST_DISTINCT * len(column):
        return None
    if is_free_text(texts):
        return "it is free text, which networks do not read"
    return "most of its values occur once; name it among the features to use it"


def without_calendar(columns: Mapping[str, str]) -> dict[str, str]:
    """Kinds of columns with a single number for each date and time."""
    return {name: _PLAIN.get(kind, kind) for name, kind in columns.items()}


def frame_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """The columns of a frame, each a number, a category or a text: those of a date or a time come after it."""
    found = dict[str, str]()
    for name, kind in columns.items():
        found[name] = kind if kind in _IN_FRAMES else "number"
        found |= {f"{name} {part}": of_part for part, (_, of_part) in CALENDAR.get(kind, {}).items()}
    return found


def cycle_columns(columns: Mapping[str, str]) -> list[str]:
    """The columns of a frame that hold months and weekdays."""
    parts = [
        (name, part, of_part) for name, kind in columns.items() for part, (_, of_part) in CALENDAR.get(kind, {}).items()
    ]
    return [f"{name} {part}" for name, part, of_part in parts if of_part == "category"]


def frame_of(
    table: pa.Table, columns: Mapping[str, str], known: Mapping[str, Collection[str]] | None = None
) -> pd.DataFrame:
    """Feature columns as a frame: numbers, and categories and texts as objects; None and NaN are missing values.

    A date is the number of days since 1970, its month and its weekday, a time its hour too, in UTC if it has a zone.

    Args:
        table: The columns, and others.
        columns: The kind of each feature column.
        known: The texts of columns of categories that a model knows; values that are no text are spelled like these.
    """
    known = known or {}
    missing = [repr(name) for name in columns if name not in table.column_names]
    if missing:
        raise InputError(f"expected the columns {', '.join(map(repr, columns))}, found no {', '.join(missing)}")
    values = dict[str, np.ndarray]()
    for name, kind in columns.items():
        texts = known.get(name, ()) if kind == "category" else ()
        column = table[name]
        if texts:
            column = spelled_like(column, texts)
        values[name] = _column_values(column, name, _READ_AS.get(kind, kind))
        if texts:
            _warn_of_unknown(name, values[name], texts)
        if kind in CALENDAR:
            moments = values_of_kind(column, kind)
            for part, (of, part_kind) in CALENDAR[kind].items():
                found = of(moments)
                found = found.cast(pa.string()) if part_kind == "category" else found
                values[f"{name} {part}"] = _column_values(found, f"{name} {part}", part_kind)
    # Objects stay objects: of texts alone pandas 3 makes a type of its own, in which None is NaN.
    return pd.DataFrame({name: pd.Series(each, dtype=each.dtype) for name, each in values.items()})


@documented_in("labeldp.learning.features")
class UnitScaler(StandardScaler):  # type: ignore[misc]  # scikit-learn has no types
    """Standardisation of numbers, by one common deviation if they seem to share a unit, as pixels do.

    Differences between columns of one unit say which ones vary, and are kept. They seem to share one if the deviation
    of no column exceeds three times the median deviation, over columns that are not constant.
    """

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Compute means and deviations from numbers of shape (n, d)."""
        super().fit(X, y)
        vary = self.var_[self.var_ > 0.0]
        if len(vary) and vary.max() <= _ONE_UNIT**2 * np.median(vary):
            self.scale_ = np.full(len(self.var_), np.sqrt(vary.mean()))
        return self


class _FromFewRows:
    """An encoder of categories that counts them on few rows, where these say the same as all."""

    def fit(self: Any, X: Any, y: Any = None) -> Any:  # noqa: N803
        """Find the categories of columns."""
        return super().fit(_telling_rows(X, self.max_categories), y)  # type: ignore[misc]  # of scikit-learn's type


@documented_in("labeldp.learning.features")
class OneHotCategories(_FromFewRows, OneHotEncoder):  # type: ignore[misc]  # scikit-learn has no types
    """``sklearn.preprocessing.OneHotEncoder``, fitted in a fraction of the time."""


@documented_in("labeldp.learning.features")
class OrdinalCategories(_FromFewRows, OrdinalEncoder):  # type: ignore[misc]  # scikit-learn has no types
    """``sklearn.preprocessing.OrdinalEncoder``, fitted in a fraction of the time."""


def _telling_rows(frame: Any, most: int) -> Any:
    """Rows among which each category that occurs twice does so, and each other once; all where counts may decide.

    They do where a column has as many categories as an encoder keeps.
    """
    chosen = np.zeros(len(frame), dtype=np.bool_)
    columns = pd.DataFrame(frame)
    for name in columns:
        codes, texts = pd.factorize(columns[name], use_na_sentinel=False)
        if len(texts) >= most:
            return frame
        left = np.arange(len(codes))
        for _ in range(2):
            first = left[np.unique(codes[left], return_index=True)[1]]
            chosen[first] = True
            left = np.setdiff1d(left, first, assume_unique=True)
    return take_rows(frame, np.flatnonzero(chosen))


def scaling_transformer(
    columns: Mapping[str, str], *, dense: bool = False, scaler: StandardScaler | None = None
) -> ColumnTransformer:
    """Transformer that standardises the numbers of a frame, one-hot encodes categories, and finds words of texts.

    With many categories or words its output is sparse, unless ``dense`` is set; texts then become their components.
    """
    numbers, categories, texts = _by_kind(columns, TextComponents() if dense else TextWords())
    scaler = StandardScaler() if scaler is None else scaler
    complete = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), scaler)
    some = {"max_categories": MOST_CATEGORIES} if dense else {"max_categories": _MOST_SPARSE, "min_frequency": 2}
    encoder = OneHotCategories(handle_unknown="infrequent_if_exist", **some)
    parts = [("numbers", complete, numbers), ("categories", encoder, categories), *texts]
    return ColumnTransformer(parts, sparse_threshold=0.0) if dense else ColumnTransformer(parts)


def points_of(table: pa.Table, unit: str | None = None) -> Float[np.ndarray, "n d"]:
    """Rows of a table as points: standardised numbers, and one-hot encoded categories.

    Args:
        table: Public columns; uninformative ones are left out.
        unit: The column that names the privacy unit, which is left out too.

    Raises:
        InputError: No column can be used.
    """
    columns, _ = columns_of(table, None, unit)
    return np.asarray(
        scaling_transformer(columns, dense=True).fit_transform(frame_of(table, columns)), dtype=np.float64
    )


def tree_transformer(columns: Mapping[str, str]) -> tuple[ColumnTransformer, list[int]]:
    """Transformer of a frame for trees, and the places of codes.

    Numbers stay as they are, categories become codes, and texts their components.
    """
    numbers, categories, texts = _by_kind(columns, TextComponents())
    encoder = OrdinalCategories(
        handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=MOST_CATEGORIES
    )
    encoded = ColumnTransformer([("numbers", "passthrough", numbers), ("categories", encoder, categories), *texts])
    return encoded, list(range(len(numbers), len(numbers) + len(categories)))


def tree_points_of(table: pa.Table, unit: str | None = None) -> Float[np.ndarray, "n d"]:
    """Rows of a table as numbers for trees: categories as codes, and NaN where a number is missing.

    Args:
        table: Public columns; uninformative ones are left out.
        unit: The column that names the privacy unit, which is left out too.

    Raises:
        InputError: No column can be used.
    """
    columns, _ = columns_of(table, None, unit)
    encoded, _ = tree_transformer(columns)
    return np.asarray(encoded.fit_transform(frame_of(table, columns)), dtype=np.float64)


def _by_kind(
    columns: Mapping[str, str], encoder: TextWords
) -> tuple[list[str], list[str], list[tuple[str, TextWords, list[str]]]]:
    """The numbers and the categories of a frame, and parts of a transformer that encode its texts."""
    kinds = frame_columns(columns)
    numbers, categories, texts = ([name for name in kinds if kinds[name] == each] for each in _IN_FRAMES)
    return numbers, categories, [(f"text {name}", encoder, [name]) for name in texts]


def _warn_of_unknown(name: str, texts: np.ndarray, known: Collection[str]) -> None:
    """Warn of a column of many rows that has values, none of them known."""
    found = {text for text in texts if text is not None}
    if found and len(texts) >= _MANY_ROWS and found.isdisjoint(known):
        shown = ", ".join(map(repr, sorted(known)[:_LISTED]))
        warnings.warn(
            f"expected categories of {name!r} that the model knows, such as {shown}, found none in {len(texts):,} "
            "rows, so that it predicts without this column; check its values, and read them as text, in pandas with "
            "read_csv(..., dtype=str)",
            UnknownCategoryWarning,
            stacklevel=4,
        )


def _column_values(column: pa.ChunkedArray, name: str, kind: str) -> np.ndarray:
    """The values of a column, read as a kind."""
    values = values_or_none(column, kind)
    if values is None:
        plain, found = plain_column(column), type_name(column.type)
        if is_text(plain.type):
            place, what, _ = misfit(plain.cast(pa.string()).combine_chunks(), KINDS[kind])
            found = f"{what} in {row_name(place)}; correct it"
        raise TableError(f"expected a {kind} in every row of the column {name!r}, found {found}")
    if kind != "category" and (infinite := np.isinf(values)).any():
        raise TableError(f"expected finite numbers in {name!r}, found infinity in {row_name(int(np.argmax(infinite)))}")
    return values
