"""Each broken version of the package in the tables beside this file is killed by the tests that it names.

``edits.py`` says how the tables are written.
"""

import itertools
import os
import re
from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller
from pathlib import Path

import pytest
from benches import PASSED, at_a_bench, collect_at
from edits import Edit, Mutant, all_mutants, changed_functions, edited, matches

ROOT = Path(__file__).parents[2]
MUTANTS = all_mutants()
PREFIX = "test_the_mutant_is_killed["

#: The numbers of the failure modes.
FAILURES = {int(row) for row in re.findall(r"^\| (\d+) \|", (ROOT / "docs/failure-modes.md").read_text("utf-8"), re.M)}
#: Where a fault may cost accuracy and no label: learners, forecasts, columns of public probabilities, matching of rows,
#: targets of released labels, types of public columns, and the searches for laws that integers then hold.
ACCURACY_ALONE = (
    "learning/",
    *("_c/descent.c", "_c/losses.c", "_c/patches.c", "_c/ratings.c"),
    "release/released/_row_identity.py",
    "release/released/_targets.py",
    *("columns/_kinds.py", "columns/_written.py"),
    "bounds/",
    "privacy/_class_probabilities.py",
    "privacy/channels/_grid_laws.py",
    "privacy/channels/_coarsening.py",
    "mechanisms/randomizers/_groups.py",
    "mechanisms/randomizers/_column_generation.py",
    "mechanisms/randomizers/_optimal.py",
    "mechanisms/randomizers/_bins.py",
)


def faults(mutant):
    """What is wrong with a mutant of the tables."""
    try:
        texts = edited(mutant)
    except AssertionError as error:
        yield str(error)
        return
    for file, text in texts.items():
        assert not file.endswith(".py") or compile(text, file, "exec")
        if not mutant.failures and not file.startswith(ACCURACY_ALONE):
            yield f"the mutant {mutant.name!r}: a fault in {file} costs more than accuracy: name the failure mode"
    for test in mutant.tests:
        file, _, name = test.partition("::")
        if not (ROOT / file).is_file() or f"def {name.partition('[')[0]}(" not in (ROOT / file).read_text("utf-8"):
            yield f"the mutant {mutant.name!r}: there is no test {test}: name one that fails"
    if not FAILURES.issuperset(mutant.failures):
        yield f"the mutant {mutant.name!r}: docs/failure-modes.md has not all of {mutant.failures}"
    if not mutant.edits or any(edit.old == edit.new for edit in mutant.edits):
        yield f"the mutant {mutant.name!r} changes nothing"


def test_the_table_is_well_formed():
    """Every mutant has a name of its own, failure modes, edits after which files compile, and tests that exist."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 12
    found = [fault for mutant in MUTANTS for fault in faults(mutant)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("where", "old", "message"),
    [
        ("edited_by_nobody", "x", "nothing in the package is called edited_by_nobody"),
        ("_kernels:", "import numpy as np", r"_kernels: in .* has changed: .* occurs [2-9] times"),
        ("RandomizedResponse", "no such words", r"RandomizedResponse in mechanisms/.* has changed: .* occurs 0 times"),
    ],
)
def test_an_edit_that_found_no_place_says_what_to_do(where, old, message):
    """A name that is gone or stands for two things, and a text that is not there, have a message each."""
    with pytest.raises(AssertionError, match=f"the mutant 'broken': {message}"):
        edited(Mutant("broken", (), (), (Edit(where, old, ""),)))


def test_an_edit_is_compared_by_tokens():
    """Blanks, line breaks, comments and a comma before a closing bracket do not matter; signs and texts do."""
    text = "f(\n    a,  # first\n    'b c',\n) <= 1.5"
    assert matches("f(a, 'b c') <= 1.5", text) == [(0, len(text))]
    assert not matches("f(a, 'b  c') <= 1.5", text)
    assert not matches("f(a, 'b c') <", text)


def test_functions_that_change_are_found():
    """Where bodies of functions alone differ; nowhere if a default, a decorator, or what runs at import does."""
    old = "import a\n\nclass C:\n    x = 1\n\n    @a\n    def f(self, b=1):\n        return b + 1\n\ndef g(): pass\n"
    assert changed_functions(old, old.replace("b + 1", "b\n").replace("pass", "return 2")) == ["C.f", "g"]
    for one, other in (("b=1", "b=2"), ("@a", "@a.b"), ("x = 1", "x = 2"), ("def g", "def h"), ("import", "import b,")):
        assert not changed_functions(old, old.replace(one, other).replace("b + 1", "b"))
    assert not changed_functions(old + old, old + old.replace("b + 1", "b"))


@pytest.fixture(scope="module")
def chosen(request, benches):
    """The mutants that were selected, whose tests all benches have collected."""
    found = [item.callspec.params["mutant"] for item in request.session.items if item.name.startswith(PREFIX)]
    collect_at(benches, {test for mutant in found for test in mutant.tests})
    return found


@pytest.fixture(scope="module")
def trials(chosen, benches):
    """The trials of all mutants that were selected, several at a time."""
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        yield {
            mutant.name: pool.submit(at_a_bench, benches, methodcaller("tried", edited(mutant), mutant.tests))
            for mutant in chosen
        }
    finally:
        pool.shutdown(cancel_futures=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)  # it may wait for all others
def test_the_mutant_is_killed(mutant, trials):
    """With its edits made, at least one of its tests fails, by an assertion or an error inside the test."""
    result = trials[mutant.name].result()
    assert result.killed, result.printed[-4000:]


def failing(bench, tests):
    """The tests that fail on the package as it is: all run in one process, and alone where they fail there."""
    while tests:
        result = bench.tried({}, tests, again=False)
        if result.code == PASSED:
            return
        place = tests.index(result.test) if result.test in tests else 0
        if bench.tried({}, [tests[place]], again=False).code != PASSED:
            yield tests[place]
        tests = tests[place + 1 :]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_what_killed_them_passes_on_the_package_as_it_is(benches, trials):
    """A failure is the mutant's doing: on an unchanged copy the same tests pass."""
    tests = sorted({trial.result().test for trial in trials.values()} - {""})
    assert tests or not trials
    middle = len(tests) // 2
    with ThreadPoolExecutor() as pool:
        halves = (tests[:middle], tests[middle:])
        found = pool.map(lambda half: at_a_bench(benches, lambda bench: [*failing(bench, half)]), halves)
    assert [*itertools.chain.from_iterable(found)] == []
