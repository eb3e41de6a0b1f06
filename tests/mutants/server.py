"""Runs tests as often as it is asked to, each time in a child of a process that has much of them loaded.

    server.py FOLDER             a child has the libraries, and runs pytest
    server.py FOLDER IDS OPTIONS a child has collected the tests that a file in JSON lists, and runs some of them

The folder stands in front of the path. Each line of input is a request in JSON. For pytest it has the tests, the file
that takes what is printed and, if wished for, further options and the file that takes which functions of the package
each test called, and how long it took. For collected tests it has those to run, and which functions of each file have
changed: the code that the file has now takes the place of theirs. The answer is a line with the exit code of pytest.

A mutant is killed by what a test asserts alone, and cheaply: annotations are not executed, pytest loads no plugin but
the one for timeouts and does not rewrite assertions, hypothesis does not look for a smaller example, bytecode is kept.
"""

import functools
import gc
import importlib
import itertools
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import hypothesis
import jaxtyping
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.forks import answer

LIBRARIES = shlex.split("""
    accelerate beartype.vale cryptography.hazmat.primitives.ciphers dp_accounting.pld kornia.augmentation
    matplotlib.pyplot mpmath pandas PIL.Image pyarrow.csv pyarrow.parquet pytest_timeout safetensors.torch
    scipy.cluster.hierarchy scipy.optimize scipy.sparse.linalg scipy.stats sklearn.calibration
    sklearn.datasets sklearn.ensemble sklearn.model_selection sklearn.neighbors sklearn.pipeline skops.io
    sqlite3 torch.optim.swa_utils torch.utils.data typer
""")
OPTIONS = ("-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "pytest_timeout")
#: Cases of a test that are watched.
MOST_CASES = 8
FOUND_IS_ENOUGH = (hypothesis.Phase.explicit, hypothesis.Phase.generate)


def prepare() -> None:
    """Load what all runs share, and leave it out of the garbage collections of the children."""
    for name in LIBRARIES:
        importlib.import_module(name)
    torch.optim.SGD([torch.zeros(1)])  # loads what the first optimizer of a process needs
    hypothesis.settings.register_profile("mutants", phases=FOUND_IS_ENOUGH, database=None, deadline=None)
    hypothesis.settings.load_profile("mutants")
    jaxtyping.install_import_hook = lambda *_: None
    gc.collect()
    gc.freeze()


class Calls:
    """Notes which functions of a folder each test calls, nested ones as those that they stand in."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.join(folder, "")
        self.noted: dict[str, tuple[float, list[tuple[str, str]]]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Of each test take some cases, from its first to its last."""
        cases: dict[str, list[pytest.Item]] = {}
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        items[:] = [item for each in cases.values() for item in each[:: -(-len(each) // MOST_CASES)]]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Watch a test with its fixtures."""
        seen: set[CodeType] = set()

        def watch(frame: FrameType, event: str, _argument: object) -> None:
            if event == "call":
                seen.add(frame.f_code)

        began = time.monotonic()
        threading.setprofile(watch)
        sys.setprofile(watch)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            ours = {
                (code.co_filename.removeprefix(self.folder), code.co_qualname.partition(".<")[0])
                for code in seen
                if code.co_filename.startswith(self.folder)
            }
            self.noted[item.nodeid] = time.monotonic() - began, sorted(ours)


def enter(folder: str) -> None:
    """Take the package from a folder, and keep its bytecode there."""
    sys.dont_write_bytecode, sys.pycache_prefix = False, os.path.join(folder, "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ |= {
        "PYTEST_ADDOPTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH")))),
        "PYTHONPYCACHEPREFIX": sys.pycache_prefix,
    }
    sys.path.insert(0, folder)


def print_to(output: str) -> None:
    """Read nothing, and print to a file."""
    printed = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, printed), (2, printed)):
        os.dup2(source, stream)


class FirstFailure:
    """Notes the first test that fails, and where it did: before, in or after its call."""

    def __init__(self, folder: str) -> None:
        self.file, self.when = Path(folder, "failed.txt"), ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep its name beside the package."""
        if report.failed and not self.when:
            self.when = report.when or ""
            self.file.write_text(report.nodeid, encoding="utf-8")


def run(folder: str, tests: list[str], output: str, options: Sequence[str] = (), calls: str | None = None) -> int:
    """Run tests against the package in a folder, and return pytest's exit code."""
    print_to(output)
    watching = Calls(os.path.join(folder, "labeldp"))
    code = int(
        pytest.main([*OPTIONS, *options, *tests], plugins=[FirstFailure(folder), *([watching] if calls else [])])
    )
    if calls:
        with open(calls, "w", encoding="utf-8") as file:
            json.dump(watching.noted, file)
    return code


class Collected:
    """Tests that are collected, some of which each request asks to run with other code in some functions."""

    def __init__(self, folder: str, serve: Callable[[Callable[..., int]], None]) -> None:
        self.package, self.serve = os.path.join(folder, "labeldp"), serve
        self.failure = FirstFailure(folder)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Answer all requests."""
        self.items: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            for name in {item.nodeid, item.nodeid.partition("[")[0]}:
                self.items.setdefault(name, []).append(item)
        gc.unfreeze()
        loaded = gc.get_objects()
        caches = (each for each in loaded if type(each) is functools._lru_cache_wrapper)
        self.caches = [each for each in caches if each.__module__.startswith("labeldp")]
        self.functions: dict[tuple[str, str], list[FunctionType]] = {}
        for each in loaded:
            if type(each) is FunctionType:
                self.functions.setdefault((each.__code__.co_filename, each.__code__.co_qualname), []).append(each)
        del loaded
        gc.freeze()
        self.serve(self.run)
        return True

    def run(self, tests: list[str], changed: dict[str, list[str]]) -> int:
        """Run tests up to the first that fails; the code is that of pytest."""
        for file, names in changed.items():
            path = os.path.join(self.package, file)
            codes = {code.co_qualname: code for code in codes_in(compile(Path(path).read_bytes(), path, "exec"))}
            for name in names:
                for function in self.functions.get((path, name), []):
                    function.__code__ = codes[name]
        for cache in self.caches:
            cache.cache_clear()
        items = [item for test in tests for item in self.items[test]]
        for item, following in itertools.pairwise([*items, None]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failure.when:
                return 1 if self.failure.when == "call" else 3
        return 0


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """A code and all that are in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes_in(each)


prepare()
folder, *collected = sys.argv[1:]
enter(folder)
with os.fdopen(os.dup(0)) as requests, os.fdopen(os.dup(1), "w") as answers:
    if collected:
        ids, *options = collected
        print_to(f"{folder}/collected.txt")
        plugin = Collected(folder, functools.partial(answer, requests, answers))
        tests = json.loads(Path(ids).read_text(encoding="utf-8"))
        pytest.main([*OPTIONS, *options, *tests], plugins=[plugin, plugin.failure])
    else:
        answer(requests, answers, functools.partial(run, folder))
