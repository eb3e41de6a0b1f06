"""Each broken version of the package in ``mutants.toml`` is killed by the tests that it names."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MUTANTS = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text(encoding="utf-8"))["mutant"]
PACKAGE = Path(importlib.util.find_spec("labeldp").submodule_search_locations[0])
PREFIX = "test_the_mutant_is_killed["
PASSED, FAILED = 0, 1  # the exit codes of pytest; others are crashes and collection errors, which kill nothing


def run(folder, tests):
    """Run tests against the package in a folder, with its own compiled functions."""
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(folder / "numba"), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def copied(folder):
    """A copy of the package, which is what a process with this folder on its path imports."""
    shutil.copytree(PACKAGE, folder / "labeldp", ignore=shutil.ignore_patterns("__pycache__"))
    found = subprocess.run(
        [sys.executable, "-c", "import importlib.util as u; print(u.find_spec('labeldp').origin)"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()) == folder / "labeldp" / "__init__.py"
    return folder


def test_the_table_is_well_formed():
    """Every mutant has a name of its own, failure modes, edits that change something, and tests that exist."""
    assert len({mutant["name"] for mutant in MUTANTS}) == len(MUTANTS) >= 12
    for mutant in MUTANTS:
        assert set(mutant) == {"name", "failures", "edits", "tests"}
        assert all(1 <= number <= 34 for number in mutant["failures"])
        assert mutant["edits"]
        assert mutant["failures"] or all(edit["file"].startswith("learning/") for edit in mutant["edits"])
        for edit in mutant["edits"]:
            assert edit["old"] != edit["new"]
            assert (PACKAGE / edit["file"]).read_text(encoding="utf-8").count(edit["old"]) == 1, mutant["name"]
        for test in mutant["tests"]:
            file, _, name = test.partition("::")
            assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_package_as_it_is_passes(tmp_path):
    """The tests that kill mutants pass on an unchanged copy, so that a failure is the mutant's doing."""
    tests = sorted({test for mutant in MUTANTS for test in mutant["tests"]})
    result = run(copied(tmp_path), tests)
    assert result.returncode == PASSED, result.stdout[-3000:] + result.stderr[-1000:]


def tried(mutant, folder):
    """What the tests of a mutant say once its edits are made."""
    copied(folder)
    for edit in mutant["edits"]:
        file = folder / "labeldp" / edit["file"]
        text = file.read_text(encoding="utf-8")
        assert text.count(edit["old"]) == 1, f"the text of {edit['file']} has changed: write the mutant anew"
        file.write_text(text.replace(edit["old"], edit["new"]), encoding="utf-8")
    return run(folder, mutant["tests"])


@pytest.fixture(scope="module")
def trials(request, tmp_path_factory):
    """The trials of all mutants that were selected, several at a time."""
    chosen = [item.callspec.params["mutant"] for item in request.session.items if item.name.startswith(PREFIX)]
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        yield {mutant["name"]: pool.submit(tried, mutant, tmp_path_factory.mktemp("mutant")) for mutant in chosen}
    finally:
        pool.shutdown(cancel_futures=True)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["name"])
def test_the_mutant_is_killed(mutant, trials):
    """With its edits made, at least one of its tests fails, by an assertion or an error inside the test."""
    result = trials[mutant["name"]].result()
    assert result.returncode == FAILED, result.stdout[-3000:] + result.stderr[-1000:]
    assert " failed" in result.stdout
    assert "error" not in result.stdout.splitlines()[-1]
