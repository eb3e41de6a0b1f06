"""Several draws of the same labels: exact chances against all sequences, and the figure of failure mode 1."""

import itertools

import numpy as np
import pytest

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.audit import Knowledge, infer_from_repeats, repeated_success
from labeldp.bounds import pure_attack_limit
from labeldp.errors import InputError, PriorError
from labeldp.privacy.channels import BitChannel, ResponseChannel, SubsetChannel, pack


def repeated_limit(epsilon, classes, times):
    """The largest success of a guess at even classes, by composition: that of so many epsilons."""
    return pure_attack_limit(times * epsilon, classes, 1 / classes).value


def over_all_sequences(law, prior, times):
    """The chance of the best guess, with every sequence of outcomes written out."""
    sequences = itertools.product(range(law.shape[1]), repeat=times)
    return sum((prior * np.prod(law[:, sequence], axis=1)).max() for sequence in map(list, sequences))


@pytest.mark.parametrize(
    ("channel", "times"),
    [
        (ResponseChannel.at(2, 1.0), 6),
        (ResponseChannel.at(3, 0.5), 5),
        (ResponseChannel.at(5, 2.0), 4),
        (SubsetChannel.at(4, 2, 1.0), 3),
        (BitChannel.independent(3, 1.0), 3),
    ],
    ids=["two", "three", "five", "subset", "bits"],
)
def test_the_chance_is_that_of_all_sequences(channel, times):
    """With even and with uneven classes, some of them impossible, for classes and for sets."""
    law, k = channel.table().matrix, channel.classes
    for prior in (
        np.full(k, 1 / k),
        np.random.default_rng(1).dirichlet(np.ones(k)),
        np.eye(k)[0] / 2 + np.eye(k)[1] / 2,
    ):
        found = repeated_success(channel, times, prior)
        assert found == pytest.approx(over_all_sequences(law, prior, times), abs=1e-12)
        assert found <= repeated_limit(channel.epsilon, k, times) + 1e-12 or prior.max() > 1 / k + 1e-9


def test_a_hundred_epochs_give_labels_back():
    """Failure mode 1: at epsilon 1 and 10 classes 97.77 % of the labels, exactly, and in 20 000 simulated rows.

    The simulated share is within six standard errors (0.0063): a false alarm of 2e-9.
    """
    channel = ResponseChannel.at(10, 1.0)
    exact = repeated_success(channel, 100)
    assert exact == pytest.approx(0.97768, abs=5e-6)
    assert repeated_limit(1.0, 10, 100) == pytest.approx(1.0)
    rng = np.random.default_rng()
    rows, keep = 20_000, float(channel.membership.true)
    counts = rng.multinomial(100, [keep, *[(1 - keep) / 9] * 9], rows) + rng.random((rows, 10)) / 2  # ties by chance
    assert (counts.argmax(axis=1) == 0).mean() == pytest.approx(exact, abs=0.0063)


def test_more_draws_never_tell_less():
    """The chance grows with the draws, from that of one, and stays below what composition promises."""
    channel = ResponseChannel.at(4, 0.8)
    found = [repeated_success(channel, times) for times in range(1, 40)]
    assert found[0] == pytest.approx(float(channel.membership.true))
    assert all(b >= a - 1e-12 for a, b in itertools.pairwise(found))
    assert all(each <= repeated_limit(0.8, 4, times) + 1e-12 for times, each in enumerate(found, start=1))
    assert repeated_limit(0.8, 4, 1) == pytest.approx(found[0])


def test_several_releases_are_read_together():
    """The answers are those of the product of likelihoods, also of different laws, and votes beat a single draw."""
    rng, space = np.random.default_rng(2), Classes(["a", "b", "c"])
    channels = [ResponseChannel.at(3, 1.0), SubsetChannel.at(3, 1, 0.5), ResponseChannel.at(3, 1.0)]
    certificate = Curator(["a"], space).randomize(epsilon=1.0).certificate
    draws = [
        Release(rng.integers(0, 3, 50), channels[0], space, certificate),
        Release(pack(np.eye(3, dtype=bool)[rng.integers(0, 3, 50)]), channels[1], space, certificate),
        Release(rng.integers(0, 3, 50), channels[2], space, certificate),
    ]
    beliefs = rng.dirichlet(np.ones(3), 50)
    found = infer_from_repeats(draws, Knowledge(beliefs))
    product = beliefs * np.prod([each.likelihood() for each in draws], axis=0)
    product /= product.sum(axis=1, keepdims=True)
    assert np.array_equal(found.guesses, product.argmax(axis=1))
    assert np.allclose(found.expected, 1 - product.max(axis=1))
    assert found.knows == "3 released labels of each row, and features"


def release_of(rows, space=None):
    """Any labels."""
    return Release.public(["a"] * rows, space or Classes(["a", "b"]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: infer_from_repeats([]),
        lambda: infer_from_repeats([release_of(2), release_of(3)]),
        lambda: infer_from_repeats([release_of(2), release_of(2, Classes(["a", "c"]))]),
        lambda: infer_from_repeats([release_of(2)] * 2),
        lambda: repeated_success(ResponseChannel.at(2, 1.0), 0),
        lambda: repeated_success(ResponseChannel.at(3, 1.0), 4, [0.5, 0.5]),
        lambda: repeated_success(BitChannel.independent(16, 1.0), 2),
        lambda: repeated_success(SubsetChannel.at(60, 30, 1.0), 2),
    ],
)
def test_bad_input_is_refused(make):
    """No releases, others' rows or spaces, a draw that is there twice, and laws that are too large."""
    with pytest.raises((InputError, PriorError), match=r"expected .* found"):
        make()


def test_a_saved_draw_is_known_again(tmp_path):
    """One draw that was written and read is the same draw, if it is long enough that another would differ."""
    space = Classes(["a", "b"])
    release = Curator(["a", "b"] * 40, space).randomize(RandomizedResponse(space, 1.0))
    release.save(tmp_path / "out")
    with pytest.raises(InputError, match="found one twice"):
        infer_from_repeats([release, Release.load(tmp_path / "out")])
    few = [Release(np.array([0, 1]), ResponseChannel.at(2, 1.0), space, release.certificate) for _ in range(2)]
    assert infer_from_repeats(few, Knowledge(prior=[0.5, 0.5])).labels().tolist() == ["a", "b"]
