"""Most versions of the trust boundary with one wrong token are killed by tests that call the function they are in.

Which versions are tried follows from the commit. A version that survives is printed: it changes nothing that a test
could see, or a test is missing.
"""

import collections
import itertools
import json
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from benches import PASSED, Result, at_a_bench, collect_at
from edits import all_mutants, change, places_of, text_of
from generated import FOLDERS, all_changes, changes_of
from scipy.stats import binom
from tests.commits import git

ROOT = Path(__file__).parents[2]
TRIED = int(os.environ.get("LABELDP_GENERATED", "150"))
RATE = 0.62  # of 426 that were drawn on two days 267 were killed
MOST_TESTS, MOST_SECONDS = 25, 6.0
QUICK = ("-m", "not slow")
OPTIONS = ("--timeout=60", "--timeout-method=signal")


def shares(files):
    """Files of tests, dealt to as many shares as there are processors, large files first."""
    by_size = sorted(files, key=lambda file: (ROOT / file).stat().st_size, reverse=True)
    return [by_size[i :: os.cpu_count()] for i in range(os.cpu_count())]


@pytest.fixture(scope="module")
def callers(benches, tmp_path_factory, pytestconfig):
    """The seconds of each quick test of the trust boundary that calls a function, by file and function."""
    if pytestconfig.getoption("--mutants") == "touched":
        pytest.skip("it takes minutes to watch calls: the run of all tests does it")
    files = [
        path.relative_to(ROOT).as_posix() for name in FOLDERS for path in (ROOT / "tests" / name).rglob("test_*.py")
    ]
    folder, found = tmp_path_factory.mktemp("calls"), collections.defaultdict(dict)

    def watched(share):
        calls = folder / f"{share[0].replace('/', '-')}.json"
        result = at_a_bench(benches, lambda bench: bench.run(share, options=QUICK, calls=str(calls)))
        assert result.code == PASSED, result.printed[-4000:]
        return json.loads(calls.read_text(encoding="utf-8"))

    with ThreadPoolExecutor() as pool:
        for noted in pool.map(watched, shares(files)):
            for test, (seconds, functions) in noted.items():
                for file, function in functions:
                    found[file, function][test] = seconds
                    found[file, ""][test] = seconds
    return found


def covering(found, callers, kept):
    """The tests for a change: those of hand-kept mutants of its function, then the quickest, one of each kind first."""
    known = callers.get((found.file, found.function)) or callers.get((found.file, ""), {})
    kinds = collections.defaultdict(list)
    for test in sorted(known, key=known.get):
        kinds[test.partition("[")[0]].append(test)
    turns = itertools.zip_longest(*sorted(kinds.values(), key=lambda tests: known[tests[0]]))
    chosen, seconds = list(kept.get((found.file, found.function), kept.get((found.file, ""), ()))), 0.0
    for test in filter(None, itertools.chain.from_iterable(turns)):
        seconds += known[test]
        if len(chosen) >= MOST_TESTS or seconds > MOST_SECONDS:
            break
        chosen.append(test)
    return list(dict.fromkeys(chosen))


def kept_tests():
    """The tests of hand-kept mutants by file and function, and by file."""
    found = collections.defaultdict(dict)
    for mutant in all_mutants():
        for edit in mutant.edits:
            for function in (edit.where.rpartition(":")[2], ""):
                found[change(edit)[0], function].update(dict.fromkeys(mutant.tests))
    return {place: list(tests)[:MOST_TESTS] for place, tests in found.items()}


def test_a_generated_mutant_is_one_token():
    """Every change compiles, changes its text, and stands in the function that it names."""
    changes = list(changes_of("privacy/channels/_bits.py"))
    assert len(changes) > 30
    for each in changes:
        ((file, text),) = each.texts.items()
        assert compile(text, file, "exec")
        assert text != text_of(file)
        assert file in {place.file for place in places_of(f"_bits:{each.function}")}
        assert str(each).startswith(f"{file}:")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_most_generated_mutants_are_killed(benches, callers, capsys):
    """Of those that the commit draws, tests kill the share that is written down (false alarm: 1e-3)."""
    chance = random.Random(os.environ.get("LABELDP_COMMIT") or git("rev-parse", "HEAD"))  # noqa: S311 (no secret)
    kept = kept_tests()
    changes = {change: covering(change, callers, kept) for change in chance.sample(all_changes(), TRIED)}
    collect_at(benches, set().union(*changes.values()), OPTIONS)

    def tried(change):
        if not changes[change]:
            return Result(PASSED, "no test calls it", "")
        return at_a_bench(benches, lambda bench: bench.tried(change.texts, changes[change], again=False))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(changes, pool.map(tried, changes), strict=True))
    survived = [change for change, result in results.items() if result.code == PASSED]
    killed = [change for change, result in results.items() if result.killed]
    rate = len(killed) / (len(killed) + len(survived))
    told = f"{len(killed)} of {len(killed) + len(survived)} generated mutants are killed ({rate:.1%}); these survive:"
    with capsys.disabled():
        sys.stdout.write("\n".join(["", told, *sorted(map(str, survived)), ""]))
    assert len(killed) >= binom.ppf(1e-3, len(killed) + len(survived), RATE)
