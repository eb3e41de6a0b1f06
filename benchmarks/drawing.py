"""Labels randomized per second, beside the bare keystream, naive NumPy and other libraries, in one run.

    python benchmarks/drawing.py                       10 million labels
    python benchmarks/drawing.py --rows 100000000      100 million, randomized response alone
    pip install -r benchmarks/requirements.txt         to have the other libraries in the comparison

Every figure is the median of a few rounds in which all contestants take turns, so that other load affects all of them
alike. Ratios to the keystream are by the clock, for as many threads as there are processors, and by the least processor
time, which says what one processor does and depends less on other load.
"""

import argparse
import importlib
import statistics
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from labeldp import BitResponse, Classes, PriorResponse, PriorSubsetResponse, RandomizedResponse, SubsetResponse
from labeldp._random_words import SecureWords
from labeldp.mechanisms import draw
from labeldp.mechanisms.randomizers import ProjectiveResponse

EPSILON = 1.0
CHUNK = 1 << 16


def keystream(rows: int) -> None:
    """Only the cryptographic random words that randomized response needs, on one thread."""
    words = SecureWords()
    for low in range(0, rows, CHUNK):
        words.block(low, min(CHUNK, rows - low))


def naive(codes: np.ndarray, classes: int) -> np.ndarray:
    """Randomized response as usually written: floats, an insecure generator, three passes."""
    rng = np.random.default_rng()
    keep = rng.random(codes.size) < np.exp(EPSILON) / (np.exp(EPSILON) + classes - 1)
    other = rng.integers(0, classes - 1, codes.size)
    return np.where(keep, codes, other + (other >= codes))


def elsewhere(classes: int) -> dict[str, tuple[Callable[[np.ndarray], object], int]]:
    """Randomized response of other installed libraries, with the number of rows to draw."""
    contestants: dict[str, tuple[Callable[[np.ndarray], object], int]] = {}
    try:
        grr = importlib.import_module("multi_freq_ldpy.pure_frequency_oracles.GRR").GRR_Client
        contestants["multi-freq-ldpy"] = (lambda codes: [grr(int(y), classes, EPSILON) for y in codes], 200_000)
    except Exception as problem:  # noqa: BLE001 (any reason not to load)
        print(f"multi-freq-ldpy is skipped: {type(problem).__name__}")
    try:
        de = importlib.import_module("pure_ldp.frequency_oracles.direct_encoding").DEClient
        client = de(epsilon=EPSILON, d=classes, index_mapper=lambda x: x)
        contestants["pure-ldp"] = (lambda codes: [client.privatise(int(y)) for y in codes], 200_000)
    except Exception as problem:  # noqa: BLE001
        print(f"pure-ldp is skipped: {type(problem).__name__}")
    try:
        binary = importlib.import_module("diffprivlib.mechanisms").Binary(epsilon=EPSILON, value0="0", value1="1")
        if classes == 2:
            contestants["diffprivlib"] = (lambda codes: [binary.randomise(str(y)) for y in codes], 50_000)
    except Exception as problem:  # noqa: BLE001
        print(f"diffprivlib is skipped: {type(problem).__name__}")
    try:
        dp = importlib.import_module("opendp.prelude")
        dp.enable_features("contrib")
        chance = float(np.exp(EPSILON) / (np.exp(EPSILON) + classes - 1))
        response = dp.m.make_randomized_response(list(range(classes)), chance)
        contestants["opendp"] = (lambda codes: [response(int(y)) for y in codes], 10_000)
    except Exception as problem:  # noqa: BLE001
        print(f"opendp is skipped: {type(problem).__name__}")
    return contestants


def rates(contestants: dict[str, tuple[Callable[[], object], int]], rounds: int) -> dict[str, tuple[float, float]]:
    """Rates of each contestant by the median time and the least processor time, over turns after a warm-up turn."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, (run, _) in contestants.items():
            start, began = time.perf_counter(), time.process_time()
            run()
            if turn:
                times[name].append((time.perf_counter() - start, time.process_time() - began))
    columns = {name: tuple(zip(*both, strict=True)) for name, both in times.items()}
    sizes = {name: size for name, (_, size) in contestants.items()}
    return {
        name: (sizes[name] / statistics.median(one), sizes[name] / min(two)) for name, (one, two) in columns.items()
    }


def contest(classes: int, rows: int, everything: bool) -> dict[str, tuple[Callable[[], object], int]]:
    """All contestants at one number of classes."""
    rng = np.random.default_rng(0)
    space, codes = Classes(range(classes)), rng.integers(0, classes, rows).astype(np.int32)
    mine = {"randomized-response": (RandomizedResponse(space, EPSILON), rows)}
    if everything:
        few = max(rows // max(1, classes // 10), 1000)
        mine["subset"] = (SubsetResponse(space, EPSILON), few)
        mine["projective"] = (ProjectiveResponse(space, EPSILON), rows)
        mine["bits"] = (BitResponse(space, EPSILON), few)
    contestants: dict[str, tuple[Callable[[], object], int]] = {
        "keystream, one thread": (lambda: keystream(rows), rows)
    }
    for name, (randomizer, count) in mine.items():
        channel = randomizer.channel()
        contestants[f"labeldp {name}"] = (lambda c=channel, m=count: draw(c, codes[:m], SecureWords()), count)
    if everything:
        prior = rng.dirichlet(np.ones(classes), max(1, min(rows, 100_000_000 // classes) // 10))
        contestants["labeldp prior (choose candidates and draw)"] = (
            lambda: draw(PriorResponse(space, EPSILON, prior).channel(), codes[: len(prior)], SecureWords()),
            len(prior),
        )
        contestants["labeldp prior-subset (choose candidates and draw)"] = (
            lambda: draw(PriorSubsetResponse(space, EPSILON, prior).channel(), codes[: len(prior)], SecureWords()),
            len(prior),
        )
        for name, (run, count) in elsewhere(classes).items():
            contestants[name] = (lambda r=run, m=count: r(codes[:m]), min(count, rows))
    contestants["naive NumPy, floats, not secure"] = (lambda: naive(codes, classes), rows)
    return contestants


def main() -> None:
    """Run the contests and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--classes", default="2,10,1000,10000", help="numbers of classes, separated by commas")
    arguments = parser.parse_args()
    everything = arguments.rows <= 20_000_000
    classes = map(int, arguments.classes.split(","))
    results = {k: rates(contest(k, arguments.rows, everything), arguments.rounds) for k in classes}
    table = Table(title=f"million labels per second, {arguments.rows:,} rows, epsilon {EPSILON:g}")
    table.add_column("what")
    for classes in results:
        for title in (f"{classes} classes", "x, clock", "x, processor"):
            table.add_column(title, justify="right")
    for name in dict.fromkeys(name for rate in results.values() for name in rate):
        cells = []
        for rate in results.values():
            base, own = rate["keystream, one thread"], rate.get(name)
            ratios = [f"{one / other:.2g}" for one, other in zip(own, base, strict=True)] if own else ["-", "-"]
            cells += [f"{own[0] / 1e6:.3g}" if own else "-", *ratios]
        table.add_row(name, *cells)
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
