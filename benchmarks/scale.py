"""Time and memory of a release of few columns by the number of rows and files, without an engine and by processes.

    python benchmarks/scale.py --cases 1000000:1,10000000:3,10000000:64,100000000:24 --rounds 2

A table has one number of a hundred values and a label of two classes. Of more than 64 files, most are links to sixteen
that were written. Each release runs in a process of its own, all engines of a case in turn; ``start`` is as in
``engines.py``.
"""

import argparse
import json
import os
import resource
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

SPACE = Classes([0, 1])
_SMALL, _DISTINCT, _MOST_WRITTEN = 1000, 16, 64


def written(folder, rows, parts):
    """A folder of Parquet files."""
    folder.mkdir()
    chance, made = np.random.default_rng(0), {}
    for part in range(parts):
        size = rows // parts + (part < rows % parts)
        path, key = folder / f"{part:06d}.parquet", (size, part % _DISTINCT)
        if parts > _MOST_WRITTEN and key in made:
            os.link(made[key], path)
            continue
        columns = {
            "x": chance.integers(0, 100, size).astype(np.int16),
            "y": chance.integers(0, 2, size).astype(np.int8),
        }
        pq.write_table(pa.table(columns), path, row_group_size=1 << 20)
        made[key] = path
    return folder


def once(engine, folder):
    """Seconds and peak memory of one release, in this process and in its children."""
    begun = time.perf_counter()
    with open_engine(engine or None) as workers, tempfile.TemporaryDirectory(dir=folder.parent) as place:
        executor = workers if engine else None
        options = {"keep": ["x"], "mechanism": "randomized-response", "budget": 9.0, "executor": executor}
        release_table(folder.parent / "small", "y", SPACE, 1.0, Path(place) / "small", unit="row", **options)
        ready = time.perf_counter()
        release_table(folder, "y", SPACE, 1.0, Path(place) / "large", unit="row", **options)
        done = time.perf_counter()
    driver, worker = (
        resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return {"start": ready - begun, "release": done - ready, "driver": driver, "worker": worker}


def measured(engine, folder):
    """One release in a process of its own."""
    for ledger in folder.parent.glob("*ledger*"):
        ledger.unlink()
    command = [sys.executable, __file__, "--one", engine, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Read the command line, and print a line for each release."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="1000000:1,10000000:3,10000000:64", help="ROWS:FILES,...")
    parser.add_argument("--engines", default=",processes:1,processes:2")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "FOLDER"))
    given = parser.parse_args()
    if given.one:
        print(json.dumps(once(given.one[0], Path(given.one[1]))))
        return
    print(
        f"{'rows':>13}{'files':>7} {'engine':<12}{'start s':>9}{'release s':>11}{'driver MB':>11}"
        f"{'worker MB':>11}{'load':>7}"
    )
    for rows, parts in (map(int, case.split(":")) for case in given.cases.split(",")):
        with tempfile.TemporaryDirectory() as place:
            written(Path(place) / "small", _SMALL, 2)
            folder = written(Path(place) / "large", rows, parts)
            for engine in given.engines.split(",") * given.rounds:
                found = measured(engine, folder)
                print(
                    f"{rows:>13,}{parts:>7} {engine or 'none':<12}{found['start']:>9.2f}{found['release']:>11.2f}"
                    f"{found['driver']:>11,.0f}{found['worker']:>11,.0f}{os.getloadavg()[0]:>7.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
