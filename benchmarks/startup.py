"""CPU seconds of each command on a tiny input, side by side with the imports that any of them needs.

    python benchmarks/startup.py [--rounds 5]

Every command runs in a process of its own, in turn with ``import numpy, pyarrow.parquet, scipy.special``, and the
median ratio of the pairs is printed. What is measured is start-up: the table has sixty rows. pyarrow imports pandas
wherever it is installed, which is part of each figure but the first.
"""

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FLOOR = [sys.executable, "-c", "import numpy, pyarrow.parquet, scipy.special"]
LABELDP = [sys.executable, "-m", "labeldp"]
COMMANDS = {
    "--help": ["--help"],
    "release": ["release", "t.csv", "--label", "y", "--classes", "no,yes", "--epsilon", "1", "--keep", "x", "--output"],
    "verify": ["verify", "shared"],
    "ledger": ["ledger", "t.csv.labeldp-ledger"],
    "account": ["account", "shared"],
    "plan": ["plan", "--classes", "3", "--rows", "900", "--epsilon", "1"],
    "learn, softmax": ["learn", "shared", "--model", "softmax", "--output"],
    "learn, boosting": ["learn", "shared", "--model", "boosting", "--output"],
    "audit": ["audit", "shared"],
}


def seconds(command: list[str], folder: Path) -> float:
    """CPU seconds of a command and of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=settings(), check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 2):  # 2: an audit that shows nothing
        sys.exit(done.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def settings() -> dict[str, str]:
    """The environment, with bytecode kept, as for an installed package."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
        "OMP_NUM_THREADS": "1"
    }


def table(folder: Path) -> None:
    """Write a table of sixty rows."""
    chance = random.Random(0)
    rows = [f"{i},{chance.random():.3f},{chance.choice(['no', 'yes'])}" for i in range(60)]
    (folder / "t.csv").write_text("\n".join(["id,x,y", *rows]) + "\n")


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table(folder)
        seconds([*LABELDP, *COMMANDS["release"], "shared"], folder)
        print(f"{'command':16} {'CPU s':>7} {'imports':>8} {'ratio':>6}")
        for title, words in COMMANDS.items():
            pairs = []
            for i in range(rounds + 1):
                fresh = [f"output{len(title)}-{i}"] if words[-1] == "--output" else []
                if title == "release":
                    (folder / "t.csv.labeldp-ledger").unlink(missing_ok=True)
                pairs.append((seconds([*LABELDP, *words, *fresh], folder), seconds(FLOOR, folder)))
            own, floor = (statistics.median(column) for column in zip(*pairs[1:], strict=True))
            ratio = statistics.median(a / b for a, b in pairs[1:])
            print(f"{title:16} {own:7.2f} {floor:8.2f} {ratio:6.2f}", flush=True)


if __name__ == "__main__":
    main()
