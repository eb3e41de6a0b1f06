"""Runs pytest as often as it is asked to, each time in a process that has the libraries loaded, but not labeldp.

Each line of input is a request in JSON: what is put in front of the path, the folder for compiled functions, the tests,
and the file that takes what is printed. The answer is a line with pytest's exit code.
"""

import json
import os
import sys

import numba
import pyarrow.parquet  # noqa: F401 (loaded once, for all)
import pytest
import scipy.optimize  # noqa: F401
import sklearn.ensemble
import sklearn.pipeline  # noqa: F401
import torch  # noqa: F401
import typer  # noqa: F401


def run(folder: str, compiled: str, tests: list[str], output: str) -> int:
    """Run tests against the package in a folder, and return pytest's exit code."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    os.environ |= {"NUMBA_CACHE_DIR": compiled, "PYTEST_ADDOPTS": ""}
    numba.config.CACHE_DIR = compiled
    sys.path.insert(0, folder)
    printed = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, printed), (2, printed)):
        os.dup2(source, stream)
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))


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
