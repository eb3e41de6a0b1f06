"""The rho of queries, against the Rényi divergences of their noise."""

import json
import math

import numpy as np
import pytest

from labeldp import Classes, Curator, Interval, NoisyArgmax, NoisyHistogram, NoisyMean, verify

SPACE = Classes(["a", "b", "c", "d"])
LABELS = ["a", "b", "c", "d", "a"] * 8


def divergence(order, rate, moved):
    """The Rényi divergence of discrete Laplace noise of a rate from itself, moved by a whole number."""
    reach = math.ceil(40 / rate) + moved
    z = np.arange(-reach, reach + 1)
    powers = -rate * (order * np.abs(z) + (1 - order) * np.abs(z - moved))
    return float(np.log(np.tanh(rate / 2) * np.exp(powers).sum()) / (order - 1))


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 2.0, 6.0])
@pytest.mark.parametrize(
    "moves", [{1: (1, -1)}, {3: (3, -3), 1: (1, 1, 1, -3)}, {3: (2, 1, -1, -2)}, {3: (1, 1, 1, -1, -1, -1)}]
)
def test_the_rho_of_a_histogram_bounds_its_noise(epsilon, moves):
    """However the labels of a unit move the counts, no order has a divergence above rho times it, and some are near."""
    for labels, moved in ((max(moves), counts) for counts in moves.values()):
        query = NoisyHistogram(SPACE, epsilon)
        rho, rate = query.promise(labels).rho, epsilon / (2 * labels)
        orders = (1.001, 1.5, 2.0, 4.0, 16.0)
        found = [sum(divergence(order, rate, abs(each)) for each in moved) / order for order in orders]
        assert max(found) <= rho * (1 + 1e-9)
        assert rho == pytest.approx(epsilon**2 / 4)
        if len(moved) == 2 and epsilon <= 0.7:
            assert max(found) > 0.9 * rho


def test_other_queries_have_none():
    """Nothing better is known of a most common class, or of a mean, than their epsilon."""
    for query in (NoisyArgmax(SPACE, 1.0), NoisyMean(Interval(0.0, 1.0, 0.1), 1.0)):
        assert query.promise(1).rho is None


def test_a_certificate_may_claim_no_rho(tmp_path):
    """A saved histogram says its rho; one that says none claims less, and verifies too; one that says less does not."""
    folder = Curator(LABELS, SPACE).answer(NoisyHistogram(SPACE, 0.5)).save(tmp_path / "h")
    assert verify(folder).holds
    path = folder / "_certificate.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    assert whole["guarantee"]["rho"] == whole["charges"][0]["guarantee"]["rho"] == pytest.approx(0.0625)
    for rho, holds in ((None, True), (0.05, False)):
        for part in (whole["guarantee"], whole["charges"][0]["guarantee"]):
            part.pop("rho", None)
            part.update({} if rho is None else {"rho": rho})
        path.write_text(json.dumps(whole), encoding="utf-8")
        assert verify(folder).holds is holds
