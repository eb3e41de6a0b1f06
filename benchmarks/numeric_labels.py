"""Numeric labels: search for the channel of least variance, and speed beside NumPy's Laplace noise.

    python benchmarks/numeric_labels.py                       10 million labels
    python benchmarks/numeric_labels.py --rows 100000000      100 million

The second part compares both sides in one process, on the same labels: labeldp encodes them on the grid and draws from
a cryptographic source by integers; NumPy adds floating-point noise from a fast generator that is not secure.
"""

import argparse
import statistics
import time

import numpy as np

from labeldp import Interval, LaplaceResponse, OneBitResponse, OptimalResponse
from labeldp._random_words import SecureWords
from labeldp.mechanisms import draw
from labeldp.mechanisms.randomizers import NumberRandomizer, even, least_variance

EPSILON = 1.0
SPACE = Interval(0.0, 100.0, 0.1)


def seconds(action) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def randomized(labels: np.ndarray, randomizer: NumberRandomizer) -> np.ndarray:
    """The released numbers of labels."""
    channel = randomizer.channel()
    return channel.numbers(draw(channel, SPACE.encode(labels), SecureWords()))


def searches() -> None:
    """Time the search by the number of knots."""
    print(
        f"seconds to find the channel of least mean variance at epsilon {EPSILON:g}, and of least worst-case variance"
    )
    for knots in (11, 21, 33, 101):
        mean = seconds(lambda knots=knots: least_variance(even(knots - 1), EPSILON, worst=False))
        worst = (
            None if knots > 65 else seconds(lambda knots=knots: least_variance(even(knots - 1), EPSILON, worst=True))
        )
        print(f"  {knots:4d} knots {mean:8.2f}" + ("" if worst is None else f" {worst:8.2f}"))


def contest(rows: int, rounds: int) -> None:
    """Time the randomizers and NumPy's noise in turns."""
    labels = np.random.default_rng(1).uniform(0.0, 100.0, rows)
    contestants = {"numpy's laplace": lambda: labels + np.random.default_rng().laplace(0.0, 100.0 / EPSILON, rows)}
    for kind in (OneBitResponse, OptimalResponse, LaplaceResponse):
        randomizer = kind(SPACE, EPSILON)
        randomized(labels[:1000], randomizer)
        contestants[randomizer.name] = lambda randomizer=randomizer: randomized(labels, randomizer)
    times = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, action in contestants.items():
            times[name].append(seconds(action))
    base = statistics.median(times["numpy's laplace"])
    print(f"seconds for {rows} labels, the median of {rounds} rounds, and the ratio to NumPy's")
    for name, durations in times.items():
        print(f"  {name:16s} {statistics.median(durations):8.2f} {statistics.median(durations) / base:6.2f}")


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    searches()
    contest(arguments.rows, arguments.rounds)


if __name__ == "__main__":
    main()
