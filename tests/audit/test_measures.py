"""Attacks in the measures of the literature: against naive counts, with thresholds that other rows chose."""

import itertools
import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from labeldp import Classes, Curator, RandomizedResponse, Release, SubsetResponse
from labeldp.audit import Knowledge, attack_release, infer_from_repeats, repeated_success
from labeldp.audit.attacks._measures import _rate_at as rate_at
from labeldp.audit.attacks._measures import counted
from labeldp.bounds import pure_attack_limit
from labeldp.errors import InputError, PriorError
from labeldp.privacy import ClassProbabilities
from labeldp.privacy.channels import BitChannel, ResponseChannel, SubsetChannel, pack

SPACE = Classes(["a", "b", "c"])


def attacked(rows=6000, epsilon=1.0, groups=None, seed=0, kind=RandomizedResponse):
    """A report on rows whose beliefs are right, and the beliefs and the true codes."""
    random = np.random.default_rng(seed)
    beliefs = random.dirichlet([0.4, 0.4, 0.2], size=rows)
    codes = (random.random(rows)[:, None] > np.cumsum(beliefs, axis=1)[:, :2]).sum(axis=1)
    labels = np.array(["a", "b", "c"])[codes]
    release = Curator(labels, SPACE).randomize(kind(SPACE, epsilon))
    report = attack_release(release, Knowledge(beliefs), truth=Release.public(labels, SPACE), groups=groups)
    return report, release, beliefs, codes


def test_shares_are_those_of_a_naive_count():
    """Without released labels: right guesses of each class and group, sure rows, the surest tenth, and the area."""
    groups = np.arange(6000) % 2
    report, _, beliefs, codes = attacked(groups=groups)
    found, with_label = report.measures
    assert (found.knows, with_label.knows) == ("features", "features and the released label")
    guesses, surest = beliefs.argmax(axis=1), beliefs.max(axis=1)
    for code, each in enumerate(found.classes):
        assert each.right.share.estimate == np.mean(guesses[codes == code] == code)
        assert each.area == pytest.approx(roc_auc_score(codes == code, beliefs[:, code]))
        false, true, _ = roc_curve(codes == code, beliefs[:, code], drop_intermediate=False)
        corners = {(round(x, 9), round(y, 9)) for x, y in zip(false.tolist(), true.tolist(), strict=True)}
        assert {(round(x, 9), round(y, 9)) for x, y in each.curve.T.tolist()} <= corners
        assert (each.curve[:, 0] == 0).all()
        assert (each.curve[:, -1] == 1).all()
    for (sure, share), (_, right) in zip(found.sure, found.precision, strict=True):
        assert share.share.estimate == np.mean(surest >= sure)
        assert right.share.estimate == np.mean((guesses == codes)[surest >= sure])
        assert right.share.lower < np.mean(surest[surest >= sure]) < right.share.upper, "beliefs are right"
    chosen = np.argsort(-surest)[:600]
    assert found.worst.share.estimate == pytest.approx(np.mean((guesses == codes)[chosen]))
    for name, right in found.groups:
        assert right.share.estimate == np.mean((guesses == codes)[groups == int(name)])
    assert found.multiplicative == (0.0, 0.0)
    assert with_label.sure[0][1].share.estimate > found.sure[0][1].share.estimate
    without, with_it = report.answers
    assert with_it.expected.mean() < without.expected.mean()


@pytest.mark.parametrize("kind", [RandomizedResponse, SubsetResponse])
def test_log_odds_grow_as_the_posterior_says(kind):
    """The growth of the true label's log odds is that of the odds themselves, row by row, and never above epsilon."""
    report, release, beliefs, codes = attacked(rows=500, kind=kind)
    joint = beliefs * release.channel.likelihood(release.codes)
    posterior, rows = joint / joint.sum(axis=1, keepdims=True), np.arange(500)
    growth = [
        math.log(after / (1 - after)) - math.log(before / (1 - before))
        for after, before in zip(posterior[rows, codes], beliefs[rows, codes], strict=True)
    ]
    mean, most = report.measures[1].multiplicative
    assert mean == pytest.approx(np.mean(growth), rel=1e-6)
    assert most == pytest.approx(max(growth), rel=1e-6)
    assert most <= release.guarantee.epsilon + 1e-9


def test_thresholds_are_set_by_other_rows():
    """Scores without meaning: false alarms are as often above the aimed rate as below it, and hits no more frequent.

    A threshold set on the rows that are counted would never be above it.
    """
    random = np.random.default_rng(7)
    above, rates = 0, []
    for _ in range(100):
        positive, half = random.random(4000) < 0.5, random.random(4000) < 0.5
        rate = rate_at(0.01, random.random(4000), positive, half, 0.025)
        above += rate.false.share.estimate > 0.01
        rates.append(rate.true.share.estimate)
    assert 20 <= above <= 80
    assert 0.007 < np.mean(rates) < 0.013


def test_intervals_hold_for_thresholds_of_other_rows():
    """The share of true positives of the threshold's law is in its interval, in 200 runs at 95 %, on both sides."""
    random = np.random.default_rng(8)
    missed = np.zeros(2, dtype=int)
    for _ in range(200):
        positive, half = np.arange(4000) % 2 == 0, random.random(4000) < 0.5
        scores = random.random(4000) ** np.where(positive, 0.5, 1.0)
        rate = rate_at(0.01, scores, positive, half, 0.025)
        others = -np.sort(-scores[half & ~positive])
        truth = 1 - others[int(0.01 * len(others))] ** 2
        missed += (rate.true.share.lower > truth, rate.true.share.upper < truth)
    assert missed.sum() <= 21  # above this with a probability below 0.1 % at a rate of 0.05
    assert missed.sum() >= 1


def test_too_few_rows_have_no_low_rate():
    """A rate that needs more rows of other classes says how many; at a higher one true positives are counted."""
    report, *_ = attacked(rows=600)
    low, high = report.measures[0].classes[0].rates
    assert (low.needed, low.true.rows) == (1000, 0)
    assert high.needed == 0
    assert high.true.rows > 0
    assert counted(np.zeros(0, dtype=bool), 0.025).share.upper == 1.0


def test_counts_alone_say_whether_rows_are_too_few():
    """With 200 rows of other classes a half has the 100 that a rate of 1 % needs, at each draw, and with 197 never."""
    for others, enough in ((200, True), (197, False)):
        labels = np.array(["a", "b", "c"])[np.repeat([0, 1, 2], [400, others // 2, others - others // 2])]
        release = Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, 1.0))
        beliefs, truth = Knowledge(np.full((len(labels), 3), 1 / 3)), Release.public(labels, SPACE)
        for _ in range(5):
            found = attack_release(release, beliefs, truth=truth).measures
            assert [each.classes[0].rates[1].needed for each in found] == [0 if enough else 100] * 2


def test_models_of_other_classes_are_refused():
    """An attack by a model of a class that was not declared, or of too few columns, says what was declared."""
    release = Curator(["a", "b"], SPACE).randomize(RandomizedResponse(SPACE, 1.0))
    with pytest.raises(InputError, match=r"some of the 3 declared classes, found .*; fit the model on the declared"):
        attack_release(release, Knowledge(ClassProbabilities(np.full((2, 3), 1 / 3), ["a", "b", "d"])))
    with pytest.raises(InputError, match="each of 3 classes, found shape"):
        attack_release(release, Knowledge(ClassProbabilities(np.full((2, 2), 0.5), ["a", "b", "c"])))


def test_groups_that_say_nothing_are_refused():
    """One group, groups of other rows, and groups without true labels."""
    with pytest.raises(InputError, match="2 to 50 groups, found 1"):
        attacked(rows=100, groups=["x"] * 100)
    with pytest.raises(InputError, match="a public group for each of 100 rows"):
        attacked(rows=100, groups=["x", "y"])
    release = Curator(["a", "b"], SPACE).randomize(RandomizedResponse(SPACE, 1.0))
    with pytest.raises(InputError, match="true labels together with groups"):
        attack_release(release, groups=["x", "y"])
    assert attack_release(release).measures == ()


# Several draws of the same labels: exact chances against all sequences, and the figure of failure mode 1.


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
