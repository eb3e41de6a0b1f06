"""Each broken version of the package in the tables beside this file is killed by the tests that it names.

A mutant has a ``name``; ``failures``, the numbers of the failure modes that it would bring back (none where accuracy
alone is broken); ``edits``, replacements of text that must occur exactly once in its file; and ``tests``, what must
fail, by node id without parameters or with them, and must pass on the package as it is.
"""

import importlib.util
import itertools
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLES = sorted(Path(__file__).parent.glob("*.toml"))
MUTANTS = [mutant for path in TABLES for mutant in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]]
PACKAGE = Path(importlib.util.find_spec("labeldp").submodule_search_locations[0])
PREFIX = "test_the_mutant_is_killed["
COMPILED = "compiled"
PASSED, FAILED = 0, 1  # the exit codes of pytest; others are crashes and collection errors, which kill nothing

#: The numbers of the failure modes.
FAILURES = {int(row) for row in re.findall(r"^\| (\d+) \|", (ROOT / "docs/failure-modes.md").read_text("utf-8"), re.M)}
#: Where a fault may cost accuracy and no label: learners, forecasts, columns of public probabilities, matching of rows,
#: targets of released labels, types of public columns, and the searches for laws that integers then hold.
ACCURACY_ALONE = (
    "learning/",
    "release/released/_row_identity.py",
    "release/released/_row_index.py",
    "release/released/_targets.py",
    "release/tables/_csv_types.py",
    "bounds/",
    "privacy/_class_probabilities.py",
    "privacy/channels/_grid_laws.py",
    "privacy/channels/_coarsening.py",
    "mechanisms/randomizers/_groups.py",
    "mechanisms/randomizers/_column_generation.py",
    "mechanisms/randomizers/_minimax.py",
    "mechanisms/randomizers/_optimal.py",
    "mechanisms/randomizers/_bins.py",
)


def edited(mutant):
    """The text of each file of the package that a mutant edits, once its edits are made."""
    texts = {}
    for edit in mutant["edits"]:
        file = edit["file"]
        text = texts.get(file) or (PACKAGE / file).read_text(encoding="utf-8")
        assert text.count(edit["old"]) == 1, f"{mutant['name']}: the text of {file} has changed: write it anew"
        texts[file] = text.replace(edit["old"], edit["new"])
    return texts


@dataclass(frozen=True)
class Result:
    """How a run of pytest ended, and what it printed."""

    code: int
    printed: str


class Bench:
    """A copy of the package that is broken and mended again and again, and a process that runs tests against it.

    Functions that are compiled for one mutant serve the next ones: all but those of mutants in compiled functions.
    """

    def __init__(self, folder):
        self.folder = folder
        shutil.copytree(PACKAGE, folder / "labeldp", ignore=shutil.ignore_patterns("__pycache__"))
        self.server = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("server.py")],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, tests, compiled=COMPILED):
        """Run tests against the copy as it is."""
        output = self.folder / "printed.txt"
        request = {"folder": self.folder, "compiled": self.folder / compiled, "output": output}
        self.server.stdin.write(
            json.dumps({name: str(path) for name, path in request.items()} | {"tests": tests}) + "\n"
        )
        self.server.stdin.flush()
        code = int(self.server.stdout.readline())
        return Result(code, output.read_text(encoding="utf-8", errors="replace"))

    def tried(self, mutant):
        """What the tests of a mutant say once its edits are made."""
        files = {name: self.folder / "labeldp" / name for name in {edit["file"] for edit in mutant["edits"]}}
        try:
            for name, text in edited(mutant).items():
                files[name].write_text(text, encoding="utf-8")
                os.utime(files[name], (MUTANTS.index(mutant),) * 2)  # no two mutants of a file are taken for one
            original = any(name.endswith("_kernels.py") for name in files)
            return self.run(mutant["tests"], self.own_functions(mutant) if original else COMPILED)
        finally:
            for name, file in files.items():
                shutil.copy2(PACKAGE / name, file)

    def own_functions(self, mutant):
        """A folder of compiled functions for this mutant alone; those of files that it leaves alone are there."""
        name = f"{COMPILED}-{MUTANTS.index(mutant)}"
        if (self.folder / COMPILED).exists():
            shutil.copytree(self.folder / COMPILED, self.folder / name)
        return name

    def close(self):
        """End the process."""
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()


@pytest.fixture(scope="module")
def benches(tmp_path_factory):
    """Benches that nobody works at, one for each processor."""
    free = queue.SimpleQueue()
    made = [Bench(tmp_path_factory.mktemp("bench")) for _ in range(os.cpu_count())]
    for bench in made:
        free.put(bench)
    yield free
    for bench in made:
        bench.close()


def at_a_bench(benches, work):
    """What work says at the next bench that is free."""
    bench = benches.get()
    try:
        return work(bench)
    finally:
        benches.put(bench)


def test_the_table_is_well_formed():
    """Every mutant has a name of its own, failure modes, edits after which files compile, and tests that exist."""
    assert len({mutant["name"] for mutant in MUTANTS}) == len(MUTANTS) >= 12
    for mutant in MUTANTS:
        assert set(mutant) == {"name", "failures", "edits", "tests"}
        assert FAILURES.issuperset(mutant["failures"])
        assert mutant["edits"]
        assert mutant["failures"] or all(edit["file"].startswith(ACCURACY_ALONE) for edit in mutant["edits"])
        for edit in mutant["edits"]:
            assert edit["old"] != edit["new"]
        for file, text in edited(mutant).items():
            assert not file.endswith(".py") or compile(text, file, "exec")
        for test in mutant["tests"]:
            file, _, name = test.partition("::")
            assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("all_mutants")
def test_the_package_as_it_is_passes(benches):
    """The tests that kill mutants pass on an unchanged copy, so that a failure is the mutant's doing."""
    tests = sorted({test for mutant in MUTANTS for test in mutant["tests"]})
    shares = [[] for _ in range(os.cpu_count())]
    for i, (_, named) in enumerate(itertools.groupby(tests, key=lambda test: test.partition("::")[0])):
        shares[i % len(shares)] += named
    with ThreadPoolExecutor(len(shares)) as pool:
        runs = [pool.submit(at_a_bench, benches, methodcaller("run", share)) for share in shares if share]
    for result in (run.result() for run in runs):
        assert result.code == PASSED, result.printed[-4000:]


@pytest.fixture(scope="module")
def trials(request, benches):
    """The trials of all mutants that were selected, several at a time."""
    chosen = [item.callspec.params["mutant"] for item in request.session.items if item.name.startswith(PREFIX)]
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        yield {mutant["name"]: pool.submit(at_a_bench, benches, methodcaller("tried", mutant)) for mutant in chosen}
    finally:
        pool.shutdown(cancel_futures=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)  # it may wait for all others
def test_the_mutant_is_killed(mutant, trials):
    """With its edits made, at least one of its tests fails, by an assertion or an error inside the test."""
    result = trials[mutant["name"]].result()
    assert result.code == FAILED, result.printed[-4000:]
    assert " failed" in result.printed
    assert "error" not in result.printed.splitlines()[-1]
