"""The effective rows of a release folder at the class shares that its released labels show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from labeldp._shapes import Float
from labeldp.privacy.channels import (
    ClassChannel,
    candidate_sizes,
    nearest_distributions,
    row_arrays,
    share_at,
)
from labeldp.release.folder._certificate import Certificate
from labeldp.release.folder._columns import CODES, batch_fields, read_batches, released_columns

#: About how many entries of masks of classes are summed: of more rows, every second, third, ... is.
_MOST_ENTRIES = 1 << 22
_ROWS_PER_BATCH = 1 << 16


def effective_share(folder: Path, certificate: Certificate) -> float | None:
    """Effective rows per released row at the class shares that are estimated from the released labels themselves.

    It is computed from what was released alone, which costs nothing.

    Returns:
        The share (``share_at``); None for numbers, for labels with candidates, and for channels whose classes differ.
    """
    parts = _parts(folder, certificate)
    first = next(parts, None)
    if first is None or not first[0].even or candidate_sizes(first[0]) is not None:
        return None
    shares = _class_shares(folder, certificate)
    if not row_arrays(first[0]):
        return share_at(first[0], shares)
    found = [(len(codes), share_at(channel, shares) or 0.0) for channel, codes in _parts(folder, certificate)]
    rows, values = np.array(found).T
    return float(rows @ values / rows.sum())


def rows_of_unit_sizes(folder: Path, certificate: Certificate) -> dict[int, int]:
    """The rows in units of each size, as the law declares the sizes of its groups; no sizes without rows."""
    column = released_columns(certificate)["groups"]
    sizes = [int(size) for size in certificate.law["repeats"]]
    rows = np.zeros(len(sizes), dtype=np.int64)
    for file in certificate.files:
        for batch in read_batches(folder, file, [column], _ROWS_PER_BATCH):
            rows += np.bincount(batch[column].to_numpy(), minlength=len(sizes))
    found = dict.fromkeys(sorted(set(sizes)), 0)
    for size, count in zip(sizes, rows.tolist(), strict=True):
        found[size] += count
    return {size: count for size, count in found.items() if count}


def _class_shares(folder: Path, certificate: Certificate) -> Float[np.ndarray, "k"]:
    """The mean of the unbiased vectors of released labels, projected to a distribution."""
    step = 1 + certificate.rows * certificate.space.size // _MOST_ENTRIES
    total, rows = np.zeros(certificate.space.size), 0
    for channel, codes in _parts(folder, certificate):
        total += channel.take(slice(None, None, step)).unbiased(codes[::step]).sum(axis=0)
        rows += len(codes[::step])
    return np.asarray(nearest_distributions(total[None] / rows)[0])


def _parts(folder: Path, certificate: Certificate) -> Iterator[tuple[ClassChannel, np.ndarray]]:
    """Channels and released labels of classes, batch by batch."""
    for _, part in batch_fields(folder, certificate):
        codes = part.pop(CODES)
        channel = certificate.channel_of_rows(part)
        if isinstance(channel, ClassChannel) and len(codes):
            yield channel, codes
