"""The mutants that a run takes, and the benches at which they are tried."""

import os
import queue
import sys
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from benches import Bench
from touched import selected


def pytest_generate_tests(metafunc):
    """Give a test of one mutant those that the run takes."""
    if "mutant" in metafunc.fixturenames:
        mutants = metafunc.module.MUTANTS
        if metafunc.config.getoption("--mutants") == "touched":
            mutants = selected(mutants)
        metafunc.parametrize("mutant", mutants, ids=[mutant.name for mutant in mutants])


@pytest.fixture(scope="session")
def benches(tmp_path_factory):
    """Benches that nobody works at, one for each processor."""
    free = queue.SimpleQueue()
    made = [Bench(tmp_path_factory.mktemp("bench")) for _ in range(os.cpu_count())]
    for bench in made:
        free.put(bench)
    yield free
    for bench in made:
        bench.close()
