"""Encoders of rows for networks: images, columns as numbers, or pairs of numbers, with a JSON form.

An encoder depends on public columns and images alone, and is plain data: numbers and texts that JSON can hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from labeldp._shapes import Float32, Int64, UInt8
from labeldp._threads import blocks
from labeldp.columns import KINDS
from labeldp.errors import InputError
from labeldp.learning.features._columns import MOST_CATEGORIES

_WHITE = 255
#: The encoder whose packages have code and weights.
INSTALLED = "efficientnet-lite0"
#: What is said of a fact about an encoder that nobody stated.
NOT_STATED = "not stated"
#: Digits of a digest, and the most characters of a statement.
_DIGITS, _MOST_STATED = 64, 1000


@dataclass(frozen=True)
class EncoderCard:
    """Facts about an encoder of images that others trained.

    Attributes:
        name: Name of an installed encoder, or of a file.
        digest: SHA-256 of its weights, or of the file, in hexadecimal digits.
        licence: Its licence: as its package has it, or as the user states it of a file.
        labels: The labels that it was trained on, likewise. The guarantee of a release does not cover these.
        inputs: Channels, height and width of the images that it takes.
        outputs: Number of features of an image.
    """

    name: str
    digest: str
    licence: str
    labels: str
    inputs: tuple[int, int, int]
    outputs: int

    def __post_init__(self) -> None:
        stated = (self.name, self.digest, self.licence, self.labels)
        _expect(all(isinstance(text, str) and 0 < len(text) <= _MOST_STATED for text in stated))
        _expect(len(self.digest) == _DIGITS and set(self.digest) <= set("0123456789abcdef"))
        _expect(len(self.inputs) == 3 and all(map(_is_whole, (*self.inputs, self.outputs))))

    def plain(self) -> dict[str, Any]:
        """The facts as plain data."""
        return {**vars(self), "inputs": list(self.inputs)}

    @classmethod
    def from_plain(cls, body: Mapping[str, Any]) -> EncoderCard:
        """The facts that ``plain`` described."""
        return cls(**{**body, "inputs": tuple(body["inputs"])})


@dataclass(frozen=True)
class PixelEncoder:
    """Images of one size, with the mean and the standard deviation of their channels.

    Attributes:
        channels: Number of channels.
        height: Pixels in a column.
        width: Pixels in a row.
        mean: Mean of each channel, on a scale where white is one.
        deviation: Standard deviation of each channel.
        card: The encoder whose features of the images are learned from; None for the images themselves.
    """

    channels: int
    height: int
    width: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    card: EncoderCard | None = None
    kind: ClassVar[str] = "images"
    columns: ClassVar[Mapping[str, str]] = MappingProxyType({})
    texts: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})

    def __post_init__(self) -> None:
        _expect(all(_is_whole(size) for size in self.shape))
        _expect(len(self.mean) == len(self.deviation) == self.channels)
        _expect(all(map(_is_number, self.mean)) and all(_is_number(each) and each > 0 for each in self.deviation))

    @classmethod
    def of(cls, pixels: UInt8[np.ndarray, "n channels height width"]) -> PixelEncoder:
        """The encoder for images like these."""
        sums = np.zeros((2, pixels.shape[1]))
        for rows in blocks(len(pixels), pixels[:1].size):
            part = pixels[rows].astype(np.float64) / _WHITE
            sums += [part.sum(axis=(0, 2, 3)), (part**2).sum(axis=(0, 2, 3))]
        mean, square = sums / (pixels.size / pixels.shape[1])
        deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
        channels, height, width = map(int, pixels.shape[1:])
        return cls(channels, height, width, tuple(mean.tolist()), tuple((deviation + (deviation == 0)).tolist()))

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of one image."""
        return self.channels, self.height, self.width

    @property
    def inputs(self) -> list[str]:
        """A description of the input in words."""
        by = "" if self.card is None else f", by the encoder {self.card.name}"
        size = f"images of {self.height} x {self.width} pixels"
        return [f"{size}, {self.channels} channel{'s' * (self.channels > 1)}{by}"]

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of a network's input."""
        outputs = {} if self.card is None else {"outputs": self.card.outputs}
        return {"channels": self.channels, **outputs}

    def features(self, _: pd.DataFrame, pixels: np.ndarray | None) -> UInt8[np.ndarray, "n channels height width"]:
        """The images of rows."""
        if pixels is None:
            raise InputError(
                "expected images for a model of images, found none; pass what read_images read, on the command line "
                "--images"
            )
        if pixels.shape[1:] != self.shape:
            raise InputError(f"expected images of shape {self.shape}, found {pixels.shape[1:]}")
        return pixels

    def plain(self) -> dict[str, Any]:
        """The encoder as plain data."""
        plain = {"kind": self.kind, **vars(self), "mean": list(self.mean), "deviation": list(self.deviation)}
        card = plain.pop("card")
        return plain if card is None else {**plain, "card": card.plain()}

    @classmethod
    def from_plain(cls, body: Mapping[str, Any]) -> PixelEncoder:
        """The encoder that ``plain`` described."""
        mean, deviation = tuple(body["mean"]), tuple(body["deviation"])
        card = EncoderCard.from_plain(body["card"]) if "card" in body else None
        return cls(body["channels"], body["height"], body["width"], mean, deviation, card)


@dataclass(frozen=True)
class Scale:
    """Scaling of a column of numbers: gaps become the median, and an indicator column marks them if there are any."""

    median: float
    mean: float
    deviation: float
    gaps: bool

    def __post_init__(self) -> None:
        _expect(all(map(_is_number, (self.median, self.mean, self.deviation))))
        _expect(self.deviation > 0 and isinstance(self.gaps, bool))

    @classmethod
    def of(cls, values: np.ndarray) -> Scale:
        """The scale of a column."""
        gaps = np.isnan(values)
        median = 0.0 if gaps.all() else float(np.median(values[~gaps]))
        filled = np.where(gaps, median, values)
        return cls(median, float(filled.mean()), float(filled.std()) or 1.0, bool(gaps.any()))

    def columns(self, values: np.ndarray) -> list[np.ndarray]:
        """The scaled column, and an indicator of its gaps if there were any."""
        gaps = np.isnan(values)
        scaled = (np.where(gaps, self.median, values) - self.mean) / self.deviation
        return [scaled, gaps.astype(np.float64)] if self.gaps else [scaled]


@dataclass(frozen=True)
class ColumnEncoder:
    """Columns of a table as standardised numbers, and one indicator for each common text.

    Attributes:
        columns: The columns and their kinds, in order.
        scales: The scaling of each column of numbers.
        texts: The texts of each other column that have an indicator; all others share one more. A missing text is
            empty.
    """

    columns: Mapping[str, str]
    scales: Mapping[str, Scale]
    texts: Mapping[str, tuple[str, ...]]
    kind: ClassVar[str] = "columns"

    def __post_init__(self) -> None:
        _expect(bool(self.columns) and set(self.columns.values()) <= set(KINDS))
        _expect(set(self.texts) == {name for name, kind in self.columns.items() if kind == "category"})
        _expect(set(self.scales) == set(self.columns) - set(self.texts))
        for texts in self.texts.values():
            _expect(len(set(texts)) == len(texts) <= MOST_CATEGORIES and all(isinstance(text, str) for text in texts))

    @classmethod
    def of(cls, frame: pd.DataFrame, columns: Mapping[str, str]) -> ColumnEncoder:
        """The encoder for rows like these."""
        scales = {name: Scale.of(frame[name].to_numpy()) for name, kind in columns.items() if kind != "category"}
        texts = {name: _common_texts(frame[name]) for name, kind in columns.items() if kind == "category"}
        return cls(MappingProxyType(dict(columns)), MappingProxyType(scales), MappingProxyType(texts))

    @property
    def inputs(self) -> list[str]:
        """The columns."""
        return list(self.columns)

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of a network's input."""
        numbers = sum(1 + scale.gaps for scale in self.scales.values())
        return {"features": numbers + sum(len(texts) + 1 for texts in self.texts.values())}

    def features(self, frame: pd.DataFrame, pixels: np.ndarray | None) -> Float32[np.ndarray, "n features"]:
        """The numbers of rows."""
        _refuse_images(pixels)
        parts = [part for name, scale in self.scales.items() for part in scale.columns(frame[name].to_numpy())]
        for name, texts in self.texts.items():
            places = pd.Index(texts, dtype=object).get_indexer(pd.Index(_fill_missing(frame[name]), dtype=object))
            parts += [places == place for place in range(len(texts))] + [places < 0]
        return np.stack(parts, axis=1).astype(np.float32)

    def plain(self) -> dict[str, Any]:
        """The encoder as plain data."""
        return {"kind": self.kind, "columns": [self._plain(name, kind) for name, kind in self.columns.items()]}

    def _plain(self, name: str, kind: str) -> dict[str, Any]:
        """One column as plain data."""
        body = {"texts": list(self.texts[name])} if name in self.texts else vars(self.scales[name])
        return {"name": name, "kind": kind, **body}

    @classmethod
    def from_plain(cls, body: Mapping[str, Any]) -> ColumnEncoder:
        """The encoder that ``plain`` described."""
        columns, scales, texts = {}, {}, {}
        for column in body["columns"]:
            entry = dict(column)
            name = entry.pop("name")
            _expect(isinstance(name, str) and name not in columns)
            columns[name] = entry.pop("kind")
            if "texts" in entry:
                texts[name] = tuple(entry.pop("texts"))
                _expect(not entry)
            else:
                scales[name] = Scale(**entry)
        return cls(MappingProxyType(columns), MappingProxyType(scales), MappingProxyType(texts))


@dataclass(frozen=True)
class PairEncoder:
    """Users and items as numbers, from two columns in order; 0 stands for one that was never seen.

    Attributes:
        columns: The two columns and their kinds, users first.
        users: Known users, numbered from 1.
        items: Known items, numbered from 1.
    """

    columns: Mapping[str, str]
    users: tuple[Any, ...]
    items: tuple[Any, ...]
    kind: ClassVar[str] = "pairs"

    def __post_init__(self) -> None:
        _expect(len(self.columns) == 2 and set(self.columns.values()) <= set(KINDS))
        for values, kind in zip((self.users, self.items), self.columns.values(), strict=True):
            _expect(len(set(values)) == len(values))
            _expect(all(isinstance(value, str) if kind == "category" else _is_number(value) for value in values))

    @classmethod
    def of(cls, frame: pd.DataFrame, columns: Mapping[str, str]) -> PairEncoder:
        """The encoder for pairs like these."""
        if len(columns) != 2:
            raise InputError(
                f"expected two columns for ratings, user and item, found {len(columns)}; write --features user,item"
            )
        known = (tuple(sorted(frame[name].dropna().unique().tolist())) for name in columns)
        return cls(MappingProxyType(dict(columns)), *known)

    @property
    def inputs(self) -> list[str]:
        """The columns."""
        return list(self.columns)

    @property
    def texts(self) -> Mapping[str, tuple[str, ...]]:
        """The known users and items that are texts."""
        pairs = zip(self.columns.items(), (self.users, self.items), strict=True)
        return {name: values for (name, kind), values in pairs if kind == "category"}

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of a network's input."""
        return {"users": len(self.users) + 1, "items": len(self.items) + 1}

    def features(self, frame: pd.DataFrame, pixels: np.ndarray | None) -> Int64[np.ndarray, "n 2"]:
        """The numbers of users and items."""
        _refuse_images(pixels)
        known = zip(self.columns, (self.users, self.items), strict=True)
        places = [pd.Index(values).get_indexer(pd.Index(frame[name].to_numpy())) + 1 for name, values in known]
        return np.stack(places, axis=1).astype(np.int64)

    def plain(self) -> dict[str, Any]:
        """The encoder as plain data."""
        columns = [{"name": name, "kind": kind} for name, kind in self.columns.items()]
        return {"kind": self.kind, "columns": columns, "users": list(self.users), "items": list(self.items)}

    @classmethod
    def from_plain(cls, body: Mapping[str, Any]) -> PairEncoder:
        """The encoder that ``plain`` described."""
        columns = {column["name"]: column["kind"] for column in body["columns"]}
        _expect(all(isinstance(name, str) for name in columns))
        return cls(MappingProxyType(columns), tuple(body["users"]), tuple(body["items"]))


Encoder = PixelEncoder | ColumnEncoder | PairEncoder

_ENCODERS: Mapping[str, type[PixelEncoder] | type[ColumnEncoder] | type[PairEncoder]] = MappingProxyType(
    {each.kind: each for each in (PixelEncoder, ColumnEncoder, PairEncoder)}
)


def encoder_from(body: Mapping[str, Any]) -> Encoder:
    """The encoder that plain data describes, if it describes nothing else.

    Raises:
        ValueError: The data describe no encoder, or more than one.
        LookupError: An entry is missing.
        TypeError: An entry has another type.
    """
    encoder = _ENCODERS[body["kind"]].from_plain(body)
    _expect(encoder.plain() == dict(body))
    return encoder


def _common_texts(values: pd.Series[Any]) -> tuple[str, ...]:
    """The most common texts, sorted; ties go to the first by name."""
    texts, counts = np.unique(np.asarray(_fill_missing(values), dtype=str), return_counts=True)
    order = np.lexsort((texts, -counts))[: MOST_CATEGORIES - 1]
    return tuple(sorted(str(text) for text in texts[order]))


def _fill_missing(values: pd.Series[Any]) -> Sequence[str]:
    """Texts, with an empty one for each missing value."""
    return list(np.where(values.isna(), "", values.astype(object)))


def _refuse_images(pixels: np.ndarray | None) -> None:
    if pixels is not None:
        raise InputError("expected no images for a model of columns, found some; leave them out")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _expect(holds: bool) -> None:
    """Refuse plain data that no encoder writes; the caller names the file."""
    if not holds:
        raise ValueError("no encoder writes this")
