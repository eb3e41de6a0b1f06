"""Time and memory of a release by each engine, on one machine, beside a release without any.

    python benchmarks/engines.py --rows 4000000 --parts 8 --rounds 3
    python benchmarks/engines.py --memory

Each release runs in a process of its own, several rounds in turn, and the median of each engine is shown. ``start`` is
what it takes until the engine is there, with a release of a small table as its first work; ``release`` is the release
of a large one after that.
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp import Classes, release_table
from labeldp.release.engines import open_engine

ENGINES = ("", "processes:1", "processes:2", "dask:2", "spark:2")
SPACE = Classes([f"class {i}" for i in range(10)])
SMALL = 1000


def written(folder, rows, parts):
    """A folder of Parquet files: a number, a counter, a text of few values, and a label of ten classes."""
    folder.mkdir()
    chance = np.random.default_rng(0)
    for part, places in enumerate(np.array_split(np.arange(rows), parts)):
        columns = {
            "x": chance.normal(size=places.size).astype(np.float32),
            "place": places,
            "town": pa.array([f"t{i}" for i in range(50)]).take(pa.array(chance.integers(0, 50, places.size))),
            "y": pa.array(SPACE.points).take(pa.array(chance.integers(0, 10, places.size))),
        }
        pq.write_table(pa.table(columns), folder / f"{part:05d}.parquet")
    return folder


def once(engine, folder):
    """Seconds and peak memory of one release, in this process and in its children."""
    begun = time.perf_counter()
    with open_engine(engine or None) as workers, tempfile.TemporaryDirectory(dir=folder.parent) as place:
        executor = workers if engine else None
        options = {"keep": ["x", "town"], "mechanism": "randomized-response", "budget": 9.0, "executor": executor}
        release_table(folder.parent / "small", "y", SPACE, 1.0, Path(place) / "small", unit="row", **options)
        ready = time.perf_counter()
        release_table(folder, "y", SPACE, 1.0, Path(place) / "large", unit="row", **options)
        done = time.perf_counter()
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"start": ready - begun, "release": done - ready, "driver": own / 1024, "worker": children / 1024}


def measured(engine, folder):
    """One release in a process of its own."""
    for ledger in folder.parent.glob("*ledger*"):
        ledger.unlink()
    command = [sys.executable, __file__, "--one", engine, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(rows, parts, rounds):
    """Print a line for each engine."""
    with tempfile.TemporaryDirectory() as place:
        written(Path(place) / "small", SMALL, 2)
        folder = written(Path(place) / "large", rows, parts)
        found = {engine: [] for engine in ENGINES}
        for _ in range(rounds):
            for engine, results in found.items():
                results.append(measured(engine, folder))
    print(f"{rows:,} rows in {parts} files, {multiprocessing.cpu_count()} processors, median of {rounds}")
    print(f"{'engine':<14}{'start s':>9}{'release s':>11}{'rows/s':>12}{'spread':>9}{'driver MB':>11}{'worker MB':>11}")
    for engine, results in found.items():
        middle = {name: statistics.median(each[name] for each in results) for name in results[0]}
        times = [each["release"] for each in results]
        print(
            f"{engine or 'none':<14}{middle['start']:>9.2f}{middle['release']:>11.2f}{rows / middle['release']:>12,.0f}"
            f"{(max(times) - min(times)) / middle['release']:>9.0%}{middle['driver']:>11,.0f}{middle['worker']:>11,.0f}"
        )


def memory():
    """Print the peak memory of releases by one process, at several numbers of rows and of parts."""
    print(f"{'rows':>12}{'parts':>7}{'release s':>11}{'driver MB':>11}{'worker MB':>11}")
    for rows, parts in ((1_000_000, 4), (4_000_000, 4), (16_000_000, 16), (4_000_000, 64)):
        with tempfile.TemporaryDirectory() as place:
            written(Path(place) / "small", SMALL, 2)
            found = measured("processes:1", written(Path(place) / "large", rows, parts))
        print(f"{rows:>12,}{parts:>7}{found['release']:>11.2f}{found['driver']:>11,.0f}{found['worker']:>11,.0f}")


def main():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "FOLDER"))
    given = parser.parse_args()
    if given.one:
        print(json.dumps(once(given.one[0], Path(given.one[1]))))
    elif given.memory:
        memory()
    else:
        compare(given.rows, given.parts, given.rounds)


if __name__ == "__main__":
    main()
