"""Files to Parquet: a release beside a plain Arrow copy of the same file, in one run, with peak memory.

    python benchmarks/parquet.py                  20 million rows, 12 columns
    python benchmarks/parquet.py --rows 40000000
    python benchmarks/parquet.py --csv --rows 1000000   the same table as a CSV file

Each run has a process of its own, to measure its own peak memory; copies and releases take turns. "x without" is the
speed of a release beside that of the same release without fingerprints of rows, the median over rounds.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

CLASSES = 10
UNRECOGNIZED = ", unrecognized"
CLUSTERS = "whole_1"  # a column of a thousand values
ROWS_PER_GROUP = 1 << 20


def make(path: Path, rows: int) -> None:
    """A table of five floats, four whole numbers, two texts and a label."""
    rng = np.random.default_rng(0)
    words = pa.array([f"word-{i}" for i in range(1000)])
    writer = None
    for low in range(0, rows, ROWS_PER_GROUP):
        n = min(ROWS_PER_GROUP, rows - low)
        columns = {f"float_{i}": rng.normal(size=n) for i in range(5)}
        columns |= {f"whole_{i}": rng.integers(0, 10 ** (i + 2), n) for i in range(4)}
        columns |= {f"text_{i}": words.take(pa.array(rng.integers(0, 1000, n))) for i in range(2)}
        table = pa.table({**columns, "label": rng.integers(0, CLASSES, n)})
        writer = writer or (pc_csv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter)(path, table.schema)
        writer.write_table(table)
    writer.close()


@contextmanager
def opened(source: Path, *, default: bool) -> Iterator[tuple[pa.Schema, Iterable[pa.RecordBatch]]]:
    """The columns and the batches of a file, with Arrow's own default options or those that a release uses."""
    if source.suffix == ".csv":
        options = pc_csv.ReadOptions(block_size=None if default else 1 << 24)
        with pc_csv.open_csv(source, read_options=options) as reader:
            yield reader.schema, reader
    else:
        with pq.ParquetFile(source, pre_buffer=default) as file:
            yield file.schema_arrow, file.iter_batches() if default else file.iter_batches(batch_size=1 << 18)


def copy(source: Path, target: Path, *, default: bool = False) -> None:
    """The plain copy: read batches, write batches."""
    with opened(source, default=default) as (schema, batches):
        texts = [field.name for field in schema if not pa.types.is_floating(field.type)]
        with pq.ParquetWriter(target, schema, use_dictionary=default or texts) as writer:
            for batch in batches:
                writer.write_batch(batch)


def release(source: Path, target: Path, mechanism: str) -> None:
    """The release of the same file."""
    from labeldp import Classes, ClusterMechanism, release_table  # noqa: PLC0415 (the copies are measured without it)

    if mechanism.endswith(UNRECOGNIZED):  # the same release without fingerprints of rows, to see what they cost
        from labeldp.release.jobs import _job as job  # noqa: PLC0415
        from labeldp.release.tables import Look  # noqa: PLC0415

        mechanism = mechanism.removesuffix(UNRECOGNIZED)
        job.look_at = lambda _, parts, *__: Look(parts, None, (), None)
    ledger = target.with_suffix(".ledger")
    chosen = ClusterMechanism(CLUSTERS) if mechanism == "cluster" else mechanism
    release_table(source, "label", Classes(range(CLASSES)), 1.0, target, drop=[], mechanism=chosen, ledger=ledger)


def run(what: str, source: Path, folder: Path) -> tuple[float, float, float]:
    """Seconds, processor seconds, and peak memory in MiB of one job in a process of its own."""
    script = [sys.executable, __file__, "--job", what, "--source", str(source), "--target", str(folder / "out")]
    subprocess.run(["rm", "-rf", str(folder / "out"), str(folder / "out.ledger")], check=True)
    # with bytecode kept, as for an installed package
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    printed = subprocess.run(script, check=True, capture_output=True, text=True, env=settings).stdout.split()
    seconds, processor, peak = map(float, printed[-3:])
    return seconds, processor, peak


def job(what: str, source: Path, target: Path) -> None:
    """Do one job and print its seconds, imports not counted, and its peak memory."""
    from labeldp import Classes, release_table  # noqa: F401, PLC0415 (imports are not timed, and lazy before)

    start, began = time.perf_counter(), time.process_time()
    if what.startswith("copy"):
        copy(source, target, default=what != "copy")
    else:
        release(source, target, what.removeprefix("release, "))
    seconds, processor = time.perf_counter() - start, time.process_time() - began
    print(seconds, processor, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Let the jobs take turns and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mechanisms", default="randomized-response,auto,cluster", help="names, separated by commas")
    parser.add_argument("--csv", action="store_true", help="read a CSV file")
    parser.add_argument("--job")
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    arguments = parser.parse_args()
    if arguments.job:
        job(arguments.job, arguments.source, arguments.target)
        return
    names = arguments.mechanisms.split(",")
    releases = [f"release, {name}{ending}" for name in names for ending in ("", UNRECOGNIZED)]
    jobs = ["copy", "copy, default options", *releases]
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in jobs}
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / f"table.{'csv' if arguments.csv else 'parquet'}"
        make(source, arguments.rows)
        for _ in range(arguments.rounds):
            for what in jobs:
                results[what].append(run(what, source, Path(name)))
    file = f"{arguments.rows:,} rows, 12 columns, {source.suffix[1:]} to Parquet"
    table = Table(title=f"{file}; medians of {arguments.rounds}")
    for column in ("job", "seconds", "CPU s", "million rows/s", "x copy", "x without", "CPU x without", "peak MiB"):
        table.add_column(column, justify="left" if column == "job" else "right")
    base = statistics.median(seconds for seconds, *_ in results["copy"])
    for what, runs in results.items():
        seconds, processor, _ = (statistics.median(column) for column in zip(*runs, strict=True))
        without = zip(results.get(what + UNRECOGNIZED, ()), runs, strict=False)
        ratios = [(one[0] / other[0], one[1] / other[1]) for one, other in without]
        cells = [f"{statistics.median(column):.2f}" for column in zip(*ratios, strict=True)] or ["", ""]
        figures = [
            f"{seconds:.2f}",
            f"{processor:.2f}",
            f"{arguments.rows / seconds / 1e6:.2f}",
            f"{base / seconds:.2f}",
        ]
        table.add_row(what, *figures, *cells, f"{max(peak for *_, peak in runs):.0f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
