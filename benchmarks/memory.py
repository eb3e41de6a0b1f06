"""Peak memory of a command for a table of two classes and eight columns, or for its release, by the number of rows.

    python benchmarks/memory.py
    python benchmarks/memory.py --rows 1000000 --commands plan,audit

Each command runs in a process of its own; its peak is that of the operating system (``resource.getrusage``).
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

_ROWS_PER_BATCH = 1 << 18
COMMANDS = {
    "plan": ["plan", "{table}", "--label", "y", "--classes", "2", "--epsilon", "1"],
    "plan, in units": ["plan", "{table}", "--label", "y", "--classes", "2", "--epsilon", "1", "--unit", "patient"],
    "verify": ["verify", "{release}"],
    "audit": ["audit", "{release}"],
}


def write_table(path: Path, rows: int) -> None:
    """Write a table whose label goes with one column."""
    rng = np.random.default_rng(1)
    writer: pq.ParquetWriter | None = None
    for first in range(0, rows, _ROWS_PER_BATCH):
        count = min(_ROWS_PER_BATCH, rows - first)
        points = rng.normal(size=(count, 5))
        columns = {f"x{i}": points[:, i] for i in range(5)}
        cities = pa.array([f"city {i}" for i in range(50)]).take(pa.array(rng.integers(0, 50, count)))
        patients = rng.integers(0, rows // 3 + 1, count)
        labels = (points[:, 0] + rng.normal(size=count) > 0).astype(int)
        table = pa.table({**columns, "city": cities, "patient": patients, "y": labels})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def run(arguments: list[str]) -> tuple[float, float]:
    """Seconds and peak megabytes of a command."""
    program = (
        "import resource, sys\n"
        "from labeldp.cli import main\n"
        f"code = main({arguments!r})\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)\n"
        "sys.exit(code)"
    )
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return time.perf_counter() - begun, float(done.stderr.split()[-1])


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", default="1000000,10000000")
    options.add_argument("--commands", default=";".join(COMMANDS), help="separated by semicolons")
    given = options.parse_args()
    shown = Table("command", "rows", "seconds", "peak MiB")
    for rows in map(int, given.rows.split(",")):
        with tempfile.TemporaryDirectory() as place:
            paths = {"table": Path(place, "t.parquet"), "release": Path(place, "shared")}
            write_table(paths["table"], rows)
            declared = ["--label", "y", "--classes", "0,1", "--epsilon", "1", "--unit", "row", "--keep", "all"]
            run(["release", str(paths["table"]), *declared, "--output", str(paths["release"])])
            for name in given.commands.split(";"):
                seconds, peak = run([part.format(**paths) for part in COMMANDS[name]])
                shown.add_row(name, f"{rows:,}", f"{seconds:.1f}", f"{peak:.0f}")
    Console().print(shown)


if __name__ == "__main__":
    main()
