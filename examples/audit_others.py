"""Audit published mechanisms of other libraries, and a broken one for comparison.

    python examples/audit_others.py
    pip install opendp diffprivlib pure-ldp statsmodels multi-freq-ldpy    to audit theirs too

Each library states the epsilon of its mechanism. The audit calls the mechanism, searches for an event that
distinguishes two labels by more than that, and prints its verdict. A library that is missing, or incompatible with the
others, is skipped with the reason.
"""

import importlib
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from labeldp.audit import Audit, audit_mechanism

CLASSES, EPSILON = 4, 1.0
#: Confidence of each verdict, and outputs for each label; mechanisms that return one output per call are slow.
CONFIDENCE, DRAWS = 0.9999, 8_000


def broken() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Randomized response with an off-by-one error: the last of the other classes is never drawn."""
    rng, keep = np.random.default_rng(), math.exp(EPSILON) / (math.exp(EPSILON) + CLASSES - 1)

    def response(label: int, n: int) -> np.ndarray:
        others = (label + rng.integers(1, CLASSES - 1, n)) % CLASSES
        return np.where(rng.random(n) < keep, label, others)

    yield "a broken randomized response", response


def opendp() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Randomized response on categories."""
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    categories, p = list(range(CLASSES)), math.exp(EPSILON) / (math.exp(EPSILON) + CLASSES - 1)
    yield "opendp, make_randomized_response", dp.m.make_randomized_response(categories, p)


def diffprivlib() -> Iterator[tuple[str, Callable[..., Any]]]:
    """A binary mechanism and an exponential one, and Laplace noise on a number."""
    mechanisms = importlib.import_module("diffprivlib.mechanisms")
    binary = mechanisms.Binary(epsilon=EPSILON, value0="0", value1="1")
    yield "diffprivlib, Binary", lambda label: binary.randomise("01"[label % 2])
    laplace = mechanisms.Laplace(epsilon=EPSILON, sensitivity=CLASSES - 1)
    yield "diffprivlib, Laplace", lambda label: laplace.randomise(float(label))


def pure_ldp() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Direct encoding, unary encodings, and local hashing."""
    oracles = importlib.import_module("pure_ldp.frequency_oracles")
    direct = oracles.DEClient(epsilon=EPSILON, d=CLASSES, index_mapper=lambda label: label)
    yield "pure-ldp, direct encoding", direct.privatise
    for name, optimal in (("symmetric", False), ("optimized", True)):
        unary = oracles.UEClient(epsilon=EPSILON, d=CLASSES, use_oue=optimal, index_mapper=lambda label: label)
        yield f"pure-ldp, {name} unary encoding", unary.privatise


def multi_freq_ldpy() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Generalized randomized response and unary encodings."""
    folder = "multi_freq_ldpy.pure_frequency_oracles"
    response = importlib.import_module(f"{folder}.GRR").GRR_Client
    yield "multi-freq-ldpy, GRR", lambda label: response(label, CLASSES, EPSILON)
    unary = importlib.import_module(f"{folder}.UE").UE_Client
    for name, optimal in (("symmetric", False), ("optimized", True)):
        yield f"multi-freq-ldpy, {name} unary encoding", lambda label, o=optimal: unary(label, CLASSES, EPSILON, o)


def audited(mechanism: Callable[..., Any]) -> Audit:
    """Audit a mechanism's claim for labels 0 to 3."""
    return audit_mechanism(mechanism, range(CLASSES), EPSILON, draws=DRAWS, confidence=CONFIDENCE)


def main() -> None:
    """Audit the installed libraries."""
    for library in (broken, opendp, diffprivlib, pure_ldp, multi_freq_ldpy):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings of other libraries
                for name, mechanism in library():
                    print(f"{name}: {audited(mechanism)}", flush=True)
        except ImportError as missing:
            print(f"{library.__name__} is skipped: {missing}")


if __name__ == "__main__":
    main()
