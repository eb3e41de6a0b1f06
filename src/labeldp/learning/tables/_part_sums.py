"""Sums over the rows of a part of a release, by any process, from which models of all rows follow.

Targets are those of regressions on released labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa

from labeldp._shapes import Bool, Float, Int, UInt64
from labeldp._threads import one_thread_for_algebra
from labeldp.columns import plain_column
from labeldp.learning.features import Bins, SeenRanges, frame_of, take_rows
from labeldp.learning.heads import ExactSum, Grid, KernelSums
from labeldp.learning.losses import decoded_numbers, ends_of, label_variance, means_of_bins, noise_variances
from labeldp.learning.metrics import design_effect
from labeldp.learning.sklearn import Encoders, EvidenceRidge, KernelClassifier, ReleasedLabelRegressor, noise_ratio
from labeldp.learning.tables._model import FOLDS
from labeldp.privacy import LabelSpace
from labeldp.release import Release, ReleasePart
from labeldp.release.engines import Tick
from labeldp.release.tables import keyed, unit_keys


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """Unbiased vectors of classes."""

    space: LabelSpace

    @classmethod
    def of(cls, release: Release) -> Self:
        """The targets of a release, some rows of which are given."""
        return cls(release.space)

    def __call__(self, release: Release) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n"]]:
        """Unbiased vectors, which weigh the same."""
        return release.unbiased(), np.ones(len(release))

    def models(self, sums: KernelSums, share: float) -> Mapping[str, Any]:
        """Kernels; a softmax is no function of sums."""
        return {"kernels": KernelClassifier().fit_sums(sums, self.space, share)}

    def ridge(self, sums: KernelSums) -> EvidenceRidge:
        """The regression of the kernels."""
        return KernelClassifier().fit_sums(sums, self.space).ridge_


@dataclass(frozen=True, eq=False)
class NumberTargets:
    """Numbers whose means are labels, weighed by their precision.

    Attributes:
        ends: Ends of the declared range.
        variance: Approximate variance of labels.
        scale: Mean precision.
        signal: Approximate share of the variance of numbers that is not noise.
        means: The mean label of each bin; None without bins.
    """

    ends: tuple[float, float]
    variance: float
    scale: float
    signal: float
    means: Float[np.ndarray, "bins"] | None

    @classmethod
    def of(cls, release: Release) -> Self:
        """The targets of a release, some rows of which are given."""
        bins, numbers = release.channel.bins, decoded_numbers(release)
        means = None if bins is None else means_of_bins(release.space, bins, release.codes)
        variance = label_variance(release, numbers)
        scale = float((1.0 / (noise_variances(release) + variance)).mean())
        return cls(ends_of(release), variance, scale, 1.0 / noise_ratio(release, numbers), means)

    def __call__(self, release: Release) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n"]]:
        """Numbers, and their precisions over the mean one."""
        weights = 1.0 / (self.scale * (noise_variances(release) + self.variance))
        return decoded_numbers(release, self.means)[:, None], weights

    def models(self, sums: KernelSums, share: float) -> Mapping[str, Any]:
        """A linear model, and kernels."""
        return {
            name: ReleasedLabelRegressor(EvidenceRidge(signal=self.signal)).fit_sums(each, self.ends, share)
            for name, each in (("linear", sums.linear()), ("kernels", sums))
        }

    def ridge(self, sums: KernelSums) -> EvidenceRidge:
        """The regression of the kernels."""
        return EvidenceRidge(signal=self.signal).fit_sums(sums)


#: Targets of released labels, and the models that sums of them make.
Targets = ClassTargets | NumberTargets


#: Keys of the hashes of units by which folds and samples are chosen: public numbers.
_OF_FOLDS, _OF_SAMPLES, _OF_SIGNS, _OF_BUCKETS, _OF_TREES = 1, 2, 3, 4, 5
#: Rows that are read at a time.
_ROWS = 1 << 15
#: Buckets of units, whose signed sums estimate the variance between units to two per cent.
_BUCKETS = 1 << 12


def unit_hashes(table: pa.Table, unit: str | None, first: int) -> UInt64[np.ndarray, "n"]:
    """A public hash of the unit of each row, or of its place among all rows where each is its own."""
    if unit is None:
        return np.arange(first, first + table.num_rows, dtype=np.uint64)
    return unit_keys(plain_column(table[unit].combine_chunks())).view(np.uint64)


def fold_numbers(hashes: UInt64[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """The fold of each row, one for all rows of a unit."""
    return (keyed(hashes, _OF_FOLDS) % np.uint64(FOLDS)).astype(np.int64)


def chosen_units(hashes: UInt64[np.ndarray, "n"], share: float, key: int = _OF_SAMPLES) -> Bool[np.ndarray, "n"]:
    """A mask of the rows of a share of the units."""
    return np.ones(len(hashes), dtype=np.bool_) if share >= 1.0 else keyed(hashes, key) < share * 2.0**64


@dataclass(frozen=True)
class Sample:
    """A share of the units of a release, chosen by a hash: without a look at labels, and equal however it is cut.

    Attributes:
        unit: The column of privacy units; None if each row is its own.
        share: Share of the units.
    """

    unit: str | None
    share: float

    def __call__(self, part: ReleasePart, tick: Tick) -> pa.Table:
        """The stored rows of the sample in a part, with their places among all rows as the last column."""
        chosen, first = list[pa.Table](), part.first
        for batch in part.batches():
            stored = pa.Table.from_batches([batch])
            some = np.flatnonzero(chosen_units(unit_hashes(stored, self.unit, first), self.share))
            places = pa.array(first + some, pa.int64())
            chosen.append(stored.take(pa.array(some)).append_column("", places))
            first += batch.num_rows
            tick(batch.num_rows)
        return pa.concat_tables(chosen)


@dataclass(frozen=True, eq=False)
class Reader:
    """Reading of rows of a release as features and targets: all of it depends on a public sample alone.

    Attributes:
        columns: The kind of each feature column.
        unit: The column of privacy units; None if each row is its own.
        seen: The ranges of the features.
        encoder: The fitted encoder of features.
        targets: The targets of regressions, from released labels.
        trees: How features are kept for trees; None to keep none.
    """

    columns: Mapping[str, str]
    unit: str | None
    seen: SeenRanges
    encoder: Any
    targets: Targets
    trees: Binned | None = None

    def frame(self, table: pa.Table) -> Any:
        """Features of rows."""
        with warnings.catch_warnings():  # values that the sample has none of
            warnings.simplefilter("ignore")
            return self.seen.within(frame_of(table, self.columns))


@dataclass(frozen=True, eq=False)
class Binned:
    """Rows kept for trees: a share of the units of all folds but the first, in bins.

    Attributes:
        encoder: The fitted encoder of features.
        bins: The bins of what it returns.
        categorical: Columns of this that are codes of categories.
        share: Share of the units.
    """

    encoder: Any
    bins: Bins
    categorical: tuple[int, ...]
    share: float

    @classmethod
    def of(cls, encoders: Encoders, rows: Any, share: float) -> Self:
        """Bins of the features of a public sample, for a share of the units."""
        encoder, places = encoders.coded.fit(rows), tuple(encoders.categorical)
        bins = Bins.of(np.asarray(encoder.transform(rows), dtype=np.float64), places)
        return cls(encoder, bins, places, share)

    def keep(self, frame: Any, release: Release, hashes: UInt64[np.ndarray, "n"]) -> tuple[np.ndarray, Release]:
        """The bins of rows to keep, and their labels."""
        some = np.flatnonzero((fold_numbers(hashes) != 0) & chosen_units(hashes, self.share, _OF_TREES))
        points = np.asarray(self.encoder.transform(take_rows(frame, some)), dtype=np.float64)
        return self.bins.codes(points), release[some]


@dataclass(eq=False)
class UnitSums:
    """Signed sums of rows in buckets of units, whose squares estimate how far targets of one unit are alike.

    The signs of two units in one bucket are independent, so the products of their sums have mean zero.

    Attributes:
        sums: Sums of a sign and of a sign times the targets, shape (buckets, 1 + k).

    References:
        Alon, Matias and Szegedy 1999; Charikar, Chen and Farach-Colton 2002.
    """

    sums: ExactSum

    @classmethod
    def of(cls, targets: int) -> Self:
        """The sums over no rows."""
        return cls(ExactSum.of(_BUCKETS, 1 + targets))

    def add(self, hashes: UInt64[np.ndarray, "n"], values: Float[np.ndarray, "n k1"]) -> None:
        """Add rows by the hashes of their units."""
        places = (keyed(hashes, _OF_BUCKETS) % np.uint64(_BUCKETS)).astype(np.int64)
        signs = 1.0 - 2.0 * (keyed(hashes, _OF_SIGNS) & np.uint64(1)).astype(np.float64)
        columns = [np.bincount(places, signs * column, _BUCKETS) for column in values.T]
        self.sums.add(np.stack(columns, axis=1))

    def design_effect(self, mean: Float[np.ndarray, "k"], squares: float, rows: float) -> float:
        """Rows of units that say as much as one independent row, by the squares of targets around their mean."""
        sums = self.sums.value
        counts, totals = sums[:, 0], sums[:, 1:] - sums[:, :1] * mean
        return float(design_effect((totals**2).sum(), squares, max(1.0, (counts**2).sum() / rows)))


@dataclass(eq=False)
class PartSums:
    """Sums over the rows of a part.

    Attributes:
        rows: Number of rows.
        folds: The sums of each fold.
        units: Sums by units; None if each row is its own.
        binned: In batches the bins of rows that are kept for trees, and their labels.
    """

    rows: int
    folds: list[KernelSums]
    units: UnitSums | None
    binned: list[tuple[np.ndarray, Release]] = field(default_factory=list)

    @classmethod
    def of(cls, grid: Grid, unit: str | None) -> Self:
        """The sums over no rows."""
        folds = [KernelSums.of(grid) for _ in range(FOLDS)]
        return cls(0, folds, None if unit is None else UnitSums.of(len(grid.origin)))

    def merge(self, other: PartSums) -> None:
        """Add the sums over other rows."""
        self.rows += other.rows
        for mine, theirs in zip(self.folds, other.folds, strict=True):
            mine.merge(theirs)
        if self.units is not None and other.units is not None:
            self.units.sums.merge(other.units.sums)
        self.binned += other.binned

    def others(self, fold: int | None) -> KernelSums:
        """The sums over the rows of all folds but one, or of all."""
        return KernelSums.of(self.folds[0].grid, (each for number, each in enumerate(self.folds) if number != fold))

    def share(self) -> float:
        """The share of an independent row that each row counts as: the inverse of the design effect of units."""
        if self.units is None:
            return 1.0
        every = self.others(None)
        found = every.linear().evidence()[0]
        return 1.0 / self.units.design_effect(found.mean - every.grid.origin, float(found.squares.sum()), self.rows)


@dataclass(frozen=True, eq=False)
class SumsOfPart:
    """The work of adding up a part."""

    reader: Reader
    grid: Grid

    def __call__(self, part: ReleasePart, tick: Tick) -> PartSums:
        """The sums over the rows of a part."""
        sums, first = PartSums.of(self.grid, self.reader.unit), part.first
        with one_thread_for_algebra():
            for batch in part.batches(_ROWS):
                table, release = part.labelled(batch)
                hashes = unit_hashes(table, self.reader.unit, first)
                frame, (targets, weights) = self.reader.frame(table), self.reader.targets(release)
                features, folds = self.reader.encoder.transform(frame), fold_numbers(hashes)
                if self.reader.trees is not None:
                    sums.binned.append(self.reader.trees.keep(frame, release, hashes))
                for fold, total in enumerate(sums.folds):
                    some = np.flatnonzero(folds == fold)
                    total.add(features[some], targets[some], weights[some])
                if sums.units is not None:
                    sums.units.add(hashes, self.grid.rounded(targets, weights))
                first += batch.num_rows
                sums.rows += batch.num_rows
                tick(batch.num_rows)
        return sums
