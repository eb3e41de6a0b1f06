"""RPWithPrior as an experiment has it: its densities, its draws, its interval, and what its prior reads."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
LABELS = np.linspace(-0.5, 1.5, 41)


@pytest.fixture
def response(monkeypatch):
    """The file beside the experiments."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import _interval_response  # noqa: PLC0415 (it lies beside the experiments)

    return _interval_response


@pytest.fixture
def experiment(response):
    """The experiment."""
    del response  # it makes the folder known
    pytest.importorskip("torch", reason="networks are fitted")
    import numbers_in_print  # noqa: PLC0415

    return numbers_in_print


def pieces(law):
    """The middles and the widths of the pieces on which the densities of all labels are constant."""
    clipped = np.clip(LABELS, law.low, law.high)
    ends = [law.low - law.reach, law.high + law.reach]
    edges = np.unique(np.concatenate([clipped - law.reach, clipped + law.reach, ends]))
    return (edges[1:] + edges[:-1]) / 2, np.diff(edges)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize(("low", "high", "reach"), [(0.0, 1.0, 0.1), (0.2, 0.6, 0.2), (0.3, 0.31, 0.4)])
def test_densities_of_any_two_labels_have_the_ratio(response, low, high, reach, epsilon):
    """On every piece they differ by a factor of exp(epsilon) at most, on some by that, and each sums to one."""
    law = response.IntervalResponse(low, high, reach, epsilon)
    middles, widths = pieces(law)
    densities = np.array([law.density(middles, label) for label in LABELS])
    ratios = densities.max(axis=0) / densities.min(axis=0)
    assert ratios.max() == pytest.approx(math.exp(epsilon), rel=1e-12)
    np.testing.assert_allclose(densities @ widths, 1.0, rtol=1e-9)


@pytest.mark.parametrize("label", [-0.4, 0.25, 0.4, 0.6])
def test_draws_follow_the_density(response, label):
    """By Kolmogorov and Smirnov; a right sampler fails once in a million runs, were its draws not fixed."""
    law = response.IntervalResponse(0.2, 0.6, 0.1, 1.0)
    drawn = law.draw(np.full(20_000, label), np.random.default_rng(0))
    middles, widths = pieces(law)
    edges = np.append(middles - widths / 2, middles[-1] + widths[-1] / 2)
    below = np.append(0.0, np.cumsum(law.density(middles, label) * widths))
    assert stats.kstest(drawn, lambda number: np.interp(number, edges, below)).pvalue > 1e-6


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_interval_is_the_best(response, epsilon):
    """No pair of 300 x 300 ends, within bins too, has more; a reach that is too long is cut to half the interval."""
    edges = np.array([0.0, 0.1, 0.35, 0.5, 0.8, 1.0])
    prior = response.Histogram(edges, np.array([0.1, 0.4, 0.3, 0.15, 0.05]))
    ends = np.linspace(0.0, 1.0, 300)
    masses = np.interp(ends, edges, prior.below)
    width, mass = (np.subtract.outer(each, each) for each in (ends, masses))
    for reach in (0.02, 0.05, 2.0):
        law = response.best_interval(prior, reach, epsilon)
        gain = np.interp([law.low, law.high], edges, prior.below) @ [-1.0, 1.0]
        gain /= 2 * law.reach + math.exp(-epsilon) * (law.high - law.low)
        others = mass / (2 * law.reach + math.exp(-epsilon) * width)
        assert gain >= others[width >= 2 * law.reach].max() - 1e-12
        assert 2 * law.reach <= (law.high - law.low) * (1 + 1e-9)


def test_noise_of_the_prior_is_as_long_as_the_range(response):
    """Laplace noise of the scale of the range over epsilon on each label, by Kolmogorov and Smirnov."""
    noise = response.noisy_numbers(np.zeros(20_000), 5.0, 0.5, np.random.default_rng(0))
    assert stats.kstest(noise, stats.laplace(scale=10.0).cdf).pvalue > 1e-6


@pytest.mark.parametrize(("mechanism", "private"), [("interval", True), ("interval, true prior", False)])
def test_the_prior_reads_noisy_labels_alone(experiment, monkeypatch, mechanism, private):
    """Whatever the true labels are, the same noisy ones give the same interval; in the notebooks they do not."""
    noisy, found = np.random.default_rng(0).normal(0.4, 0.2, 600), []
    monkeypatch.setattr(experiment, "noisy_numbers", lambda *_: noisy)
    best = experiment.best_interval
    monkeypatch.setattr(experiment, "best_interval", lambda *words: found.append(best(*words)) or found[-1])
    for labels in (np.zeros(600), np.append(np.ones(500), np.zeros(100))):
        data = experiment.Table(experiment.Interval(0, 1, 0.01), None, labels, None, None)
        experiment.intervals(data, "communities", mechanism, 2.0, 0)
    assert (found[0] == found[1]) == private


def test_prior_and_response_share_epsilon(experiment, monkeypatch):
    """Prior and response together spend epsilon: a third and two thirds."""
    spent = []
    noisy, drawn = experiment.noisy_numbers, experiment.best_interval
    monkeypatch.setattr(experiment, "noisy_numbers", lambda *words: spent.append(words[2]) or noisy(*words))
    monkeypatch.setattr(experiment, "best_interval", lambda *words: spent.append(words[2]) or drawn(*words))
    data = experiment.Table(experiment.Interval(0, 1, 0.01), None, np.linspace(0, 1, 600), None, None)
    experiment.intervals(data, "communities", "interval", 3.0, 0)
    assert spent == pytest.approx([1.0, 2.0])
