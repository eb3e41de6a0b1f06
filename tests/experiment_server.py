"""Runs experiments as often as it is asked to, each in a child of a process that has their libraries loaded.

A request has the folder to run in, the script with its options, and the files that take what is printed and what errors
say.
"""

import gc
import importlib
import os
import runpy
import shlex
import signal
import sys
import traceback
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.forks import answer

#: What the public packages of labeldp load when they are asked for a name, and other libraries.
NAMES = shlex.split("""
    learning.images:PatchClassifier learning.sklearn:AutoClassifier learning.sklearn:AutoRegressor
    learning.stages:MultiStage learning.torch:ImageEnsemble
""")
LIBRARIES = shlex.split("""
    dp_accounting.pld lightgbm matplotlib.figure pandas PIL.Image pyarrow.parquet scipy.stats sklearn.datasets
    sklearn.mixture sklearn.neural_network xgboost
""")
LIMIT = 600  # seconds of a run


def prepare() -> None:
    """Load what runs share, as far as it is installed, and leave it out of the garbage collections of children."""
    for name in LIBRARIES:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    for name in NAMES:
        package, _, attribute = name.partition(":")
        getattr(importlib.import_module(f"labeldp.{package}"), attribute)
    torch.optim.SGD([torch.zeros(1)])  # loads what the first optimizer of a process needs
    gc.collect()
    gc.freeze()


def run(folder: str, words: list[str], printed: str, errors: str) -> int:
    """Run a script as Python does, and return its exit code."""
    signal.alarm(LIMIT)
    os.chdir(folder)
    for stream, path in ((0, os.devnull), (1, printed), (2, errors)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), stream)
    sys.argv, sys.path[:2] = words, [str(Path(words[0]).parent)]
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 (as Python prints them)
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    prepare()
    answer(sys.stdin, sys.stdout, run)
