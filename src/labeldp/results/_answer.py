"""The part of a page that shows the answer to a query: its first lines, and the size of its noise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from labeldp.mechanisms.queries import QUERIES, Counts, Means, cell_rows
from labeldp.release.folder import Certificate, Draw, answer_in, stored_form, unchanged_file
from labeldp.results import _charts as charts
from labeldp.results._blocks import Block, Grid, Picture
from labeldp.results._numbers import three_digits

#: Lines and columns of an answer that are shown, and entries that a figure has room for.
_MOST_LINES, _MOST_COLUMNS, _MOST_DRAWN = 20, 12, 12
_CONFIDENCE = 0.95


def answer_blocks(folder: Path, certificate: Certificate) -> Iterator[Block]:
    """The first entries of an answer with error bars for its noise, where it is numbers plus noise; its first lines."""
    yield from _noise(folder, certificate)
    with unchanged_file(folder, certificate.files[0]) as held, pq.ParquetFile(held) as file:
        names = file.schema_arrow.names[:_MOST_COLUMNS]
        batch = next(file.iter_batches(batch_size=_MOST_LINES, columns=names), None)
        lines = [] if batch is None else [tuple(map(_value, line.values())) for line in batch.to_pylist()]
        more = file.metadata.num_rows - len(lines)
    yield Grid("The answer", tuple(names), tuple(lines), frozenset(range(len(names))), more)


def _noise(folder: Path, certificate: Certificate) -> Iterator[Picture]:
    """The first entries of an answer, each between the ends that noise keeps it in with a probability of 95 %."""
    law, space, rows = certificate.law, certificate.space, certificate.rows
    query, sizes = QUERIES.of_law(law), cell_rows(law, rows)
    margin = query.margin(law, space, sizes, _CONFIDENCE)
    if margin is None or query.standard_error(law, space, sizes) is None:
        return
    value = answer_in(folder, certificate)
    least, most = _range_of(query.reading(value, law, space), rows)
    table = value.reshape(len(value), -1).astype(np.float64)
    margins = np.broadcast_to(np.asarray(margin), value.shape).reshape(table.shape)
    names = stored_form(law, space).columns
    drawn = []
    for line, column in islice(product(range(len(table)), range(table.shape[1])), _MOST_DRAWN):
        middle, half = table[line, column], margins[line, column]
        if np.isfinite([middle, half]).all():
            low, high = (float(np.clip(end, least, most)) for end in (middle - half, middle + half))
            name = names[column] if len(table) == 1 else f"{names[column]}, line {line + 1}"
            drawn.append((name, low, float(np.clip(middle, least, most)), high, f"{_span(low)} to {_span(high)}"))
    if drawn:
        first, last = min(0.0, *(low for _, low, *_ in drawn)), max(0.0, *(high for *_, high, _ in drawn))
        last = last if last > first else first + 1.0
        ends = ((first, three_digits(first)), (last, three_digits(last)))
        some = f"The first {len(drawn)} of {table.size:,} entries. " if table.size > len(drawn) else ""
        yield Picture(
            charts.Ranges("The answer, with error bars for its noise", drawn, ends),
            f"{some}Dots are the released numbers, or the nearest possible ones. With a probability of 95 % noise "
            f"moved a number by no more than its bar: {noise_text(certificate.draws[-1], certificate)}.",
        )


def _range_of(reading: object, rows: int) -> tuple[float, float]:
    """The range of what an answer is about, to which error bars are clipped."""
    if isinstance(reading, Counts):
        return 0.0, float(rows)
    return (reading.low, reading.high) if isinstance(reading, Means) else (-np.inf, np.inf)


def _span(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else three_digits(value)


def _value(value: Any) -> str:
    """A released value as text."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def noise_text(draw: Draw, certificate: Certificate) -> str:
    """The size of the noise of an answer in words; empty where it is unknown."""
    query, rows = QUERIES.of_law(draw.law), cell_rows(draw.law, certificate.rows)
    error = query.standard_error(draw.law, certificate.space, rows)
    margin = query.margin(draw.law, certificate.space, rows, _CONFIDENCE)
    parts = [] if error is None else [f"standard error {_from_to(error)} from noise"]
    if margin is not None:
        parts.append(f"{query.margin_text.format(_from_to(margin))}, with a probability of {_CONFIDENCE:.0%}")
    return "; ".join(parts)


def _from_to(values: np.ndarray) -> str:
    """A number, or the least and the largest of several."""
    known = values[np.isfinite(values)]
    if not known.size:
        return "unknown"
    low, high = three_digits(float(known.min())), three_digits(float(known.max()))
    return low if low == high else f"{low} to {high}"
