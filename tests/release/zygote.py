"""Runs releases in forked children, kills each after a random time, and looks at what is left.

Everything is imported and compiled once; a child then begins its release within a millisecond of the fork. Called
with a folder, a number of trials and a seed, it prints one line of JSON: what each trial found, and what was wrong.
"""

import json
import os
import shutil
import signal
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import labeldp.release.jobs._job as module
import labeldp.release.ledger._ledger as ledger_module
from labeldp import Classes, Ledger, release_table, verify
from labeldp.errors import BudgetError, OutputError
from labeldp.release import ledger_path

ROWS = 400
SPACE = Classes(["red", "green", "blue", "grey", "pink"])


def release(folder, name="o"):
    """The release that is killed."""
    return release_table(folder / "t.parquet", "colour", SPACE, 1.0, folder / name, keep=["id"])


def forked(folder):
    """A child at work on a release."""
    child = os.fork()
    if child == 0:
        try:
            release(folder)
        finally:
            os._exit(0)
    return child


def hidden(folder):
    """Staging folders and private folders of runs that are there, in this order."""
    return sorted(path for path in folder.iterdir() if ".labeldp" in path.name and path.is_dir())


def killed_at(folder):
    """How far a killed release had come, before anything is settled."""
    entries = Ledger(ledger_path(folder / "t.parquet")).entries()
    if not entries:
        return "staged before its charge" if hidden(folder) else "before its charge"
    if entries[0].state == "released":
        return "after its mark"
    if (folder / "o").exists():
        return "after it was published"
    return "while it wrote" if any(hidden(folder)[0].iterdir()) else "after its charge"


def wrongs(folder):
    """What does not hold after the ledger is settled, and after the same release is asked for again."""
    path = ledger_path(folder / "t.parquet")
    Ledger(path).settle()
    entries = Ledger(path).entries()
    states = [entry.state for entry in entries]
    stands = (folder / "o").exists()
    if states not in ([], ["void"], ["released"]):
        yield f"states {states}"
    if stands != (states == ["released"]):
        yield f"states {states}, and the output {'stands' if stands else 'is not there'}"
    if stands and not (verify(folder / "o").holds and all(Ledger(path)._hashes(entry) for entry in entries)):
        yield "the output does not verify, or the ledger lacks hashes of its rows"
    if any(states or any(left.iterdir()) for left in hidden(folder)):
        yield f"staging left, states {states}"
    try:
        release(folder, "o2" if stands else "o")
    except BudgetError:
        if not stands:
            yield "refused though nothing left"
    except OutputError:
        yield "the output is in the way"
    else:
        if stands:
            yield "released twice"
        if not verify(folder / "o").holds:
            yield "the second output does not verify"
    if hidden(folder):
        yield "staging left at last"
    if Ledger(path).entries() and sum(entry.state == "released" for entry in Ledger(path).entries()) != 1:
        yield "not exactly one release in the end"


def main(folder, trials, seed):
    """Warm up, measure how long a release takes, and kill."""
    module._ROWS_PER_BATCH = 40
    wait, table = (
        np.random.default_rng(seed),
        pa.table({"id": range(ROWS), "colour": [SPACE.values[i % 5] for i in range(ROWS)]}),
    )

    def fresh(name):
        (folder / name).mkdir()
        pq.write_table(table, folder / name / "t.parquet")
        return folder / name

    release(fresh("warm"))
    times = []
    for i in range(9):
        begin = time.perf_counter()
        os.waitpid(forked(fresh(f"time{i}")), 0)
        times.append(time.perf_counter() - begin)
    found = {"median": statistics.median(times), "ends": {}, "wrong": []}
    for i in range(trials):
        here, ledger_module._LARGE = fresh(f"trial{i}"), (i % 2) << 23  # every other one writes hashes in a thread
        child = forked(here)
        time.sleep(wait.uniform(0.0, 1.2 * found["median"]))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        end = killed_at(here)
        found["ends"][end] = found["ends"].get(end, 0) + 1
        found["wrong"] += [f"trial {i}, killed {end}: {wrong}" for wrong in wrongs(here)]
        shutil.rmtree(here)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
