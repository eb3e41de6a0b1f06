"""Runs pytest as often as it is asked to, each time in a process that has the libraries loaded, but not labeldp.

Each line of input is a request in JSON: what is put in front of the path, the folder for compiled functions, the tests,
and the file that takes what is printed. The answer is a line with pytest's exit code.

A mutant is killed by what a test asserts alone, and cheaply: annotations are not executed, pytest loads no plugin but
the one for timeouts and does not rewrite assertions, hypothesis does not look for a smaller example, bytecode is kept.
"""

import gc
import importlib
import json
import os
import sys

import hypothesis
import jaxtyping
import numba
import numpy as np
import pytest

LIBRARIES = (
    "accelerate",
    "beartype.vale",
    "cryptography.hazmat.primitives.ciphers",
    "dp_accounting.pld",
    "kornia.augmentation",
    "matplotlib.pyplot",
    "mpmath",
    "pandas",
    "PIL.Image",
    "pyarrow.csv",
    "pyarrow.parquet",
    "pytest_timeout",
    "safetensors.torch",
    "scipy.cluster.hierarchy",
    "scipy.optimize",
    "scipy.sparse.linalg",
    "scipy.stats",
    "sklearn.calibration",
    "sklearn.datasets",
    "sklearn.ensemble",
    "sklearn.model_selection",
    "sklearn.neighbors",
    "sklearn.pipeline",
    "skops.io",
    "sqlite3",
    "torch.optim.swa_utils",
    "torch.utils.data",
    "typer",
)
OPTIONS = ("-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "pytest_timeout")
FOUND_IS_ENOUGH = (hypothesis.Phase.explicit, hypothesis.Phase.generate)


def prepare() -> None:
    """Load what all runs share, and leave it out of the garbage collections of the children."""
    for name in LIBRARIES:
        importlib.import_module(name)
    numba.njit(lambda values: values.sum())(np.zeros(1))  # the first call loads the compiler
    hypothesis.settings.register_profile("mutants", phases=FOUND_IS_ENOUGH, database=None, deadline=None)
    hypothesis.settings.load_profile("mutants")
    jaxtyping.install_import_hook = lambda *_: None
    gc.collect()
    gc.freeze()


def run(folder: str, compiled: str, tests: list[str], output: str) -> int:
    """Run tests against the package in a folder, and return pytest's exit code."""
    sys.dont_write_bytecode, sys.pycache_prefix = False, os.path.join(folder, "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ |= {
        "NUMBA_CACHE_DIR": compiled,
        "PYTEST_ADDOPTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH")))),
        "PYTHONPYCACHEPREFIX": sys.pycache_prefix,
    }
    numba.config.CACHE_DIR = compiled
    sys.path.insert(0, folder)
    printed = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, printed), (2, printed)):
        os.dup2(source, stream)
    return int(pytest.main([*OPTIONS, *tests]))


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
