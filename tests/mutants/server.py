"""Runs pytest as often as it is asked to, each time in a process that has the libraries loaded, but not labeldp.

Each line of input is a request in JSON: what is put in front of the path, the tests, the file that takes what is
printed and, if wished for, further options and the file that takes which functions of the package each test called, and
how long it took. The answer is a line with pytest's exit code.

A mutant is killed by what a test asserts alone, and cheaply: annotations are not executed, pytest loads no plugin but
the one for timeouts and does not rewrite assertions, hypothesis does not look for a smaller example, bytecode is kept.
"""

import gc
import importlib
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

import hypothesis
import jaxtyping
import pytest

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


def run(folder: str, tests: list[str], output: str, options: Sequence[str] = (), calls: str | None = None) -> int:
    """Run tests against the package in a folder, and return pytest's exit code."""
    sys.dont_write_bytecode, sys.pycache_prefix = False, os.path.join(folder, "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ |= {
        "PYTEST_ADDOPTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH")))),
        "PYTHONPYCACHEPREFIX": sys.pycache_prefix,
    }
    sys.path.insert(0, folder)
    printed = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, printed), (2, printed)):
        os.dup2(source, stream)
    watching = Calls(os.path.join(folder, "labeldp"))
    code = int(pytest.main([*OPTIONS, *options, *tests], plugins=[watching] if calls else []))
    if calls:
        with open(calls, "w", encoding="utf-8") as file:
            json.dump(watching.noted, file)
    return code


prepare()
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        code = 70  # what no run of pytest gives
        try:
            code = run(**json.loads(line))
            sys.stdout.flush()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
    sys.stdout.flush()
