"""Release folders that are larger than memory: samples of their rows, and models of all rows by sums over parts."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.pipeline import Pipeline

from labeldp._progress import Progress
from labeldp._shapes import Int
from labeldp._threads import one_thread_for_algebra
from labeldp.columns import is_free_text, result_or_none
from labeldp.learning.choice import Elsewhere, Held
from labeldp.learning.features import SeenRanges, cycle_columns, frame_of, take_rows
from labeldp.learning.heads import Grid, Kernels, KernelSums
from labeldp.learning.metrics import Units, may_share_units
from labeldp.learning.sklearn import (
    CLASSES,
    ENOUGH_HELD,
    NUMBERS,
    SOME_ROWS,
    WIDTHS,
    Target,
    encoders_of,
    kinds_of,
)
from labeldp.learning.tables._model import FOLDS, IN_MEMORY, units_in
from labeldp.learning.tables._part_sums import (
    Binned,
    ClassTargets,
    NumberTargets,
    PartSums,
    Reader,
    Sample,
    SumsOfPart,
    Targets,
    fold_numbers,
    unit_hashes,
)
from labeldp.privacy import Interval
from labeldp.release import Release, ReleasePart, parts_of_release, public_columns
from labeldp.release.engines import Engine, reported
from labeldp.release.folder import Certificate, certified_labels, group_column, read_certificate

#: Rows of a part, and the most rows that the grid of sums is made for.
_ROWS_OF_PART, _ROWS_OF_GRID = 1 << 18, 1 << 14
#: The most rows that boosting learns from: more take hours.
_MOST_BOOSTED = 1 << 22
#: Bytes of a row in memory while a model is learned, beyond those of its values, copies of each value, and values that
#: take as much room as the words of a text.
_BYTES_OF_ROW, _COPIES, _VALUES_OF_TEXT = 200, 10, 40
_OF_SUMS = "ridge regression and kernels"
_NO_ROOM = ", as no more fit in the memory allowed"
_MEMORY_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current")


def free_memory() -> int:
    """Bytes of memory that are free on this machine, or in the group of processes that has a limit."""
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        pages = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    with suppress(OSError, ValueError):
        most, used = (int(Path(each).read_text(encoding="ascii")) for each in _MEMORY_FILES)
        pages = min(pages, most - used)
    return max(pages, 1)


def bytes_of_row(certificate: Certificate, copies: int = _COPIES, texts: int = 0) -> int:
    """Bytes of memory of a row, of whose values there are copies, with so many columns of free text."""
    values = len(certificate.columns) + certificate.space.size + _VALUES_OF_TEXT * texts
    return _BYTES_OF_ROW + 8 * copies * values


def rows_in_memory(certificate: Certificate, memory: int | None, copies: int = _COPIES, texts: int = 0) -> int:
    """Rows whose values have room in so many bytes, each so many times; by default in half of what is free.

    Args:
        certificate: The certificate of the rows.
        memory: Bytes of memory; None for half of what is free.
        copies: Copies of each value.
        texts: Number of columns of free text.
    """
    memory = free_memory() // 2 if memory is None else memory
    return memory // bytes_of_row(certificate, copies, texts)


@dataclass(frozen=True, eq=False)
class StoredRelease:
    """A verified release folder that is read in parts.

    Attributes:
        certificate: Its certificate.
        parts: Its parts.
        engine: Where parts are worked on.
        report: Called with the name of a pass, the rows done, and the number of all rows.
        room: The most rows that boosting learns from.
    """

    certificate: Certificate
    parts: tuple[ReleasePart, ...]
    engine: Engine
    report: Progress
    room: int

    @classmethod
    def of(cls, folder: Path, engine: Engine, report: Progress, memory: int | None = None) -> Self:
        """A release folder, once it is verified.

        Raises:
            VerificationError: The folder does not agree with its certificate.
        """
        certificate = certified_labels(folder, engine, report)
        rows = _ROWS_OF_PART if engine.shared else certificate.rows  # a file is hashed as a whole for each part of it
        parts = parts_of_release(folder, certificate, rows)
        return cls(certificate, parts, engine, report, rows_in_memory(certificate, memory, 1))

    @property
    def unit(self) -> str | None:
        """The column of privacy units, if it was kept."""
        unit = group_column(self.certificate)
        return unit if unit in dict(self.certificate.columns) else None

    def head(self) -> tuple[pa.Table, Release]:
        """The public columns and the labels of the first rows."""
        part = self.parts[0]
        table, release = part.labelled(next(iter(part.batches())))
        return table, release

    def sample(self, rows: int) -> SampledRows:
        """About so many rows in whole units, chosen by a hash of public values."""
        sample = Sample(self.unit, min(1.0, rows / self.certificate.rows))
        tables = list(reported(self.engine, sample, self.parts, self.report, "sample", self.certificate.rows))
        stored = pa.concat_tables(tables)
        places = stored[stored.num_columns - 1].to_numpy()
        table, release = self.parts[0].labelled(stored.drop_columns([""]))
        return SampledRows(table, release, places, self.unit)

    def models(self, sampled: SampledRows, columns: Mapping[str, str]) -> Elsewhere:
        """Models of all rows, which are read as those of a sample are."""
        reader, grid = sampled.reader(columns, self.share_of_trees(sampled))
        total, work = PartSums.of(grid, self.unit), SumsOfPart(reader, grid)
        for part in reported(self.engine, work, self.parts, self.report, "sums", self.certificate.rows):
            total.merge(part)
        share, trees = total.share(), self._boosted(sampled, reader, total)

        def models(fold: int | None) -> Mapping[str, Any]:
            found = reader.targets.models(total.others(fold), share)
            return {
                name: Pipeline([("columns", reader.encoder), ("model", each)]) for name, each in found.items()
            } | trees

        return Elsewhere(fold_numbers(sampled.hashes), models)

    def share_of_trees(self, sampled: SampledRows) -> float:
        """The share of units that boosting learns from; 0 where the first fold is not enough to judge it by."""
        judges = sampled.target.effective(sampled.release) * len(sampled.release)
        if judges < FOLDS * ENOUGH_HELD or find_spec("lightgbm") is None:
            return 0.0
        return min(1.0, _MOST_BOOSTED / self.certificate.rows, self.room / self.certificate.rows)

    def _boosted(self, sampled: SampledRows, reader: Reader, total: PartSums) -> dict[str, Any]:
        """Boosted trees of rows that are not in the first fold, whose labels choose how many there are."""
        if reader.trees is None:
            return {}
        encoder = reader.trees.encoder
        batches, pieces = zip(*total.binned, strict=True)
        total.binned.clear()
        codes, labels = np.concatenate(batches), self.parts[0].joined(pieces)
        held = np.flatnonzero(fold_numbers(sampled.hashes) == 0)
        points = np.asarray(encoder.transform(reader.frame(sampled.table)), dtype=np.float64)
        judges = Held.of(points, sampled.release, sampled.units, held)
        effective = sampled.target.effective(sampled.release) * len(labels)
        model = sampled.target.boosted(list(reader.trees.categorical), effective)
        model.fit_bins(reader.trees.bins, codes, labels, judges, self.report)
        return {"boosting": Pipeline([("columns", encoder), ("model", model)])}


@dataclass(frozen=True, eq=False)
class Loaded:
    """The rows of a release that are in memory: all, or a sample, beside sums over all or without.

    Attributes:
        certificate: The certificate of all rows.
        table: Public columns.
        release: Released labels.
        way: How models are learned, in words.
        models: Function of the kinds of columns that returns models of all rows; None without sums.
    """

    certificate: Certificate
    table: pa.Table
    release: Release
    way: str = IN_MEMORY
    models: Callable[[Mapping[str, str]], Elsewhere] | None = None

    @classmethod
    def whole(cls, folder: Path) -> Self:
        """All rows of a folder."""
        release = Release.load(folder)
        assert release.certificate is not None  # noqa: S101 (a folder has one)
        return cls(release.certificate, public_columns(folder, release.certificate), release)


@dataclass(frozen=True, eq=False)
class Limits:
    """Bounds on the rows that are in memory.

    Attributes:
        target: Function of some released rows that returns the target of models by sums; None for models of other
            families, which have none.
        rows: The most rows to learn from; None for all.
        memory: Bytes of memory; None for half of what is free.
        apart: True if rows are kept apart, which sums over all would hold.
    """

    target: Callable[[Release], Target | None]
    rows: int | None
    memory: int | None
    apart: bool

    def load(self, folder: Path, engine: Engine, report: Progress) -> Loaded:
        """The rows of a release folder: all, or those that suffice or fit, and then sums over all if models allow."""
        certificate = read_certificate(folder)
        room = rows_in_memory(certificate, self.memory)
        if certificate.rows <= min(room, SOME_ROWS):
            return Loaded.whole(folder)
        stored = StoredRelease.of(folder, engine, report, self.memory)
        first, head = stored.head()
        target, texts = self.target(head), sum(map(is_free_text, first.columns))
        room = rows_in_memory(certificate, self.memory, texts=texts)
        enough = certificate.rows if target is None else target.enough(head)
        most = min(room, enough, self.rows or enough)
        if certificate.rows <= most:
            return Loaded.whole(folder)
        sampled = stored.sample(most)
        sums = target is not None and self.rows is None and not self.apart and has_sums(head, stored)
        way = f"{len(sampled.release):,} rows by a public hash"
        if target is not None:
            share = target.effective(sampled.release)
            counts = (f"{share * rows:,.0f}" for rows in (len(sampled.release), certificate.rows))
            way += " ({} of {} effective rows)".format(*counts)
        way += _NO_ROOM if most == room else ""
        models = partial(stored.models, sampled) if sums else None
        if sums:
            boosted = round(certificate.rows * stored.share_of_trees(sampled))
            trees = f"; boosting from bins of {boosted:,}" if boosted else ""
            gain = f"sums over all {certificate.rows:,} rows for {_OF_SUMS}{trees}, which gain from every row"
            way = f"{gain}; other models from {way}"
        return Loaded(certificate, sampled.table, sampled.release, way, models)


def has_sums(head: Release, stored: StoredRelease) -> bool:
    """True if models follow from sums: the first released labels identify true ones, and privacy units are known."""
    if may_share_units(head) and stored.unit is None:
        return False
    return isinstance(head.space, Interval) or result_or_none(lambda: head.class_channel.identifies) is True


@dataclass(frozen=True, eq=False)
class SampledRows:
    """A sample of the rows of a release.

    Attributes:
        table: Public columns.
        release: Released labels.
        places: The place of each row among all.
        unit: The column of privacy units, if it was kept.
    """

    table: pa.Table
    release: Release
    places: Int[np.ndarray, "n"]
    unit: str | None

    @property
    def target(self) -> Target:
        """The target of the combination."""
        return NUMBERS if isinstance(self.release.space, Interval) else CLASSES

    @property
    def hashes(self) -> np.ndarray:
        """The hash of the unit of each row."""
        return self.places.astype(np.uint64) if self.unit is None else unit_hashes(self.table, self.unit, 0)

    def reader(self, columns: Mapping[str, str], share: float = 0.0) -> tuple[Reader, Grid]:
        """The reading of all rows, with a share of their units kept for trees, and the grid of their sums."""
        rows = frame_of(self.table, columns)
        seen = SeenRanges.of(rows, cycle_columns(columns))
        encoders = encoders_of(kinds_of(rows))
        encoder, targets = encoders.scaled.fit(rows), self._targets()
        some = np.arange(0, len(self.release), math.ceil(len(self.release) / _ROWS_OF_GRID))
        features, (values, weights) = encoder.transform(take_rows(rows, some)), targets(self.release[some])
        trees = Binned.of(encoders, rows, share) if share else None
        grid = Grid.like(Kernels.of(features, WIDTHS), features, values, weights)
        with one_thread_for_algebra():
            few = targets.ridge(KernelSums.of(grid).add(features, values, weights))
        likely = grid.kernels.likely(few.widths_[int(np.argmax(few.weights_))])
        return Reader(columns, self.unit, seen, encoder, targets, trees), grid.only(likely)

    def _targets(self) -> Targets:
        return NumberTargets.of(self.release) if self.target is NUMBERS else ClassTargets.of(self.release)

    @property
    def units(self) -> Units:
        """The privacy units of the rows."""
        numbers = units_in(self.table, self.unit)
        return Units.of("rows" if numbers is None else numbers, len(self.release))
