"""Label inference and what it gains: against all decision rules, by enumeration, and with intervals that hold."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import labeldp as dp
from labeldp.audit import Knowledge, attack_folder, attack_release, infer_labels
from labeldp.audit.attacks._inference import make_attacker
from labeldp.audit.attacks._utility import (
    _advantage,
    _Judged,
    against_truth,
    any_label_utility,
    bounded_mean,
    unbiased_gains,
)
from labeldp.bounds import attack_limit, features_divergence
from labeldp.errors import InputError, LabelError, PriorError
from labeldp.mechanisms.resampling import ColumnForm
from labeldp.privacy.channels import BitChannel, ResponseChannel, SubsetChannel, laplace_channel

CHANNELS = {
    "response": lambda: ResponseChannel.at(3, 0.7),
    "subset": lambda: SubsetChannel.at(4, 2, 1.0),
    "bits": lambda: BitChannel.independent(3, 1.0),
}

#: What counts as randomized has a certificate.
CERTIFICATE = dp.Curator(["no"], dp.Classes(["no", "yes"])).randomize(epsilon=1.0).certificate


def space_of(classes):
    """So many classes."""
    return dp.Classes([f"c{i}" for i in range(classes)])


def every_pair(channel, told):
    """A release with one row for each value of the features and each outcome, and the beliefs of these rows."""
    outcomes = channel.table().outcomes
    codes = np.concatenate([outcomes] * len(told))
    return dp.Release(codes, channel, space_of(channel.classes), CERTIFICATE), np.repeat(told, len(outcomes), axis=0)


def posterior_of(release, beliefs=None, prior=None, mixing=None):
    """P(true label | released label, features) for each row."""
    return make_attacker(release, Knowledge(beliefs, prior, mixing=mixing), "wrong").posterior(
        slice(0, len(release)), True
    )


@pytest.mark.parametrize("name", sorted(CHANNELS))
def test_no_decision_rule_gains_more(name):
    """For random beliefs and losses, no answer to any outcome has a smaller expected loss, found by trying them all."""
    channel, rng = CHANNELS[name](), np.random.default_rng(4)
    k, law = channel.classes, channel.table().matrix
    told, chances = rng.dirichlet(np.ones(k), 3), rng.dirichlet(np.ones(3))
    for loss in ("wrong", rng.uniform(0, 1, (k, k))):
        release, beliefs = every_pair(channel, told)
        found = infer_labels(release, Knowledge(beliefs), loss=loss)
        cost = 1 - np.eye(k) if isinstance(loss, str) else loss
        joint = np.einsum("x,xy,yz->xzy", chances, told, law).reshape(-1, k)
        ours = sum(joint[row] @ cost[:, said] for row, said in enumerate(found.guesses))
        best = (joint @ cost).min(axis=1).sum()
        assert ours == pytest.approx(best, abs=1e-12)
        expected = (joint.sum(axis=1) * found.expected).sum()
        assert expected == pytest.approx(best, abs=1e-12)


def test_the_posterior_of_redrawn_features():
    """With features that are redrawn and a random generator, it is the one of the whole law written out."""
    rng, k, points, r = np.random.default_rng(6), 3, 4, 0.35
    channel = ResponseChannel.at(k, 0.9)
    prior, true, generated = (
        rng.dirichlet(np.ones(k)),
        rng.dirichlet(np.ones(points), k),
        rng.dirichlet(np.ones(points)),
    )
    law = np.einsum("y,yx,yz->xzy", prior, (1 - r) * true + r * generated, channel.table().matrix)
    exact = (law / law.sum(axis=2, keepdims=True)).reshape(-1, k)
    density = prior @ true
    told = (prior[:, None] * true / density).T
    release, beliefs = every_pair(channel, told)
    share = np.repeat((1 - r) * density / ((1 - r) * density + r * generated), k)
    assert np.allclose(posterior_of(release, beliefs, prior, mixing=share), exact, atol=1e-12)
    assert not np.allclose(posterior_of(release, beliefs, prior), exact, atol=1e-2)


def conditional_limit(true, mixed, noise, prior):
    """The smallest proven limit of attacks on double releases, over a few orders, from the exact divergences."""
    found = []
    for alpha in (1.5, 3.0, 50.0):
        powers = (true**alpha * mixed ** (1 - alpha)).sum(axis=1)
        apart = max(0.0, float(np.log(powers).max()) / (alpha - 1))
        epsilon = features_divergence(alpha, len(true), noise, apart).value
        found.append(attack_limit(epsilon, alpha, len(true), float(prior.max())).value)
    return min(found)


def test_conditional_guarantees_bound_the_best_attack():
    """Over 40 random double releases the Bayes attack stays below the limit of the mended theorems, or near it."""
    rng, ratios = np.random.default_rng(52), []
    for _ in range(40):
        k, noise = int(rng.integers(2, 4)), float(rng.uniform(0.1, 0.95))
        prior, true = rng.dirichlet(np.full(k, 20.0)), rng.dirichlet(np.full(3, 2.0), k)
        mixed = rng.dirichlet(np.full(3, 5.0))
        labels, features = (1 - noise) * np.eye(k) + noise / k, (1 - noise) * true + noise * mixed
        success = np.einsum("y,yz,yx->yzx", prior, labels, features).max(axis=0).sum()
        limit = conditional_limit(true, mixed, noise, prior)
        assert success <= limit + 1e-9
        ratios.append(success / limit)
    assert max(ratios) > 0.9


class Towns:
    """A model of the label given a town: fitted on true features, applied to released tables."""

    chances = np.array([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]])

    def predict_proba(self, X):  # noqa: N803
        """P(label | town)."""
        return self.chances[pc.index_in(X["town"].combine_chunks(), value_set=pa.array(TOWNS)).to_numpy()]


TOWNS = ["Bonn", "Ulm", "Wien"]


def test_a_double_release_is_attacked_as_well_as_can_be():
    """With the model of true features and their own share, the share of right answers is the exact one (1e-9)."""
    rng, rows, replaced, space = np.random.default_rng(), 6000, 0.6, dp.Classes(["no", "yes"])
    form = dp.Form((ColumnForm("town", "string", values=tuple(TOWNS)),))

    def even(codes):
        return pa.table({"town": np.array(TOWNS)[np.random.default_rng().integers(0, 3, len(codes))]})

    towns = rng.integers(0, 3, rows)
    codes = (rng.random(rows) < Towns.chances[towns, 1]).astype(int)
    labels, table = np.array(space.points)[codes], pa.table({"town": np.array(TOWNS)[towns]})
    double = dp.DoubleResponse(
        space, 1.0, dp.Generator(space, form, dp.Source("public", "three towns"), even), replaced
    )
    released = dp.Curator(labels, space).randomize_rows(double, table)
    report = attack_release(
        released, Knowledge(Towns(), prior=[0.5, 0.5], mixing=1 - replaced), truth=dp.Release.public(labels, space)
    )
    belief = (1 - replaced) * Towns.chances + replaced / 2
    exact = np.mean([(row[:, None] * released.labels.channel.table().matrix).max(axis=0).sum() for row in belief])
    found = report.utility("features and the released label")
    assert found.value == pytest.approx(exact, abs=6.2 * math.sqrt(exact * (1 - exact) / rows))
    assert exact < 0.75 < np.mean(Towns.chances.max(axis=1))  # what features alone gave, had they not been redrawn


def test_numbers_are_guessed_by_mean_and_mode():
    """On an interval the squared loss gives the posterior mean in the label's unit, and the other one the likeliest."""
    space, channel = dp.Interval(-1.0, 1.0, 0.25), laplace_channel(9, 2.0)
    release = dp.Release(np.array([0, 3, 8]), channel, space, CERTIFICATE)
    prior = np.random.default_rng(0).dirichlet(np.ones(9))
    posterior = posterior_of(release, prior=prior)
    joint = prior * channel.table().matrix.T[release.codes]
    assert np.allclose(posterior, joint / joint.sum(axis=1, keepdims=True))
    found = infer_labels(release, Knowledge(prior=prior), loss="squared")
    assert np.allclose(found.labels(), posterior @ np.array(space.points))
    spread = [
        (row * (np.array(space.points) - mean) ** 2).sum() / 4
        for row, mean in zip(posterior, found.guesses, strict=True)
    ]
    assert np.allclose(found.expected, spread)
    assert np.array_equal(infer_labels(release, Knowledge(prior=prior)).guesses, posterior.argmax(axis=1))
    truth = dp.Release.public([-1.0, 0.0, 1.0], space)
    gained = against_truth(found, truth).utility(0.95)
    assert gained.value == pytest.approx(np.mean(1 - (found.labels() - [-1.0, 0.0, 1.0]) ** 2 / 4))
    assert gained.low <= gained.value <= gained.high <= 1


@pytest.mark.parametrize("mechanism", ["response", "numbers"])
def test_the_prior_is_found_from_released_labels(mechanism):
    """20 000 released labels give the shares of the labels to within 0.05, seven standard errors or more."""
    rng = np.random.default_rng()
    if mechanism == "response":
        space, labels = space_of(3), rng.choice(["c0", "c1", "c2"], 20_000, p=[0.2, 0.7, 0.1])
        release = dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 2.0))
        wanted = [0.2, 0.7, 0.1]
    else:
        space, labels = dp.Interval(0.0, 1.0, 0.5), rng.choice([0.0, 0.5, 1.0], 20_000, p=[0.3, 0.6, 0.1])
        release = dp.Curator(labels, space).randomize(dp.OneBitResponse(space, 3.0))
        wanted = None
    prior = make_attacker(release, Knowledge(), "wrong").prior
    assert prior.sum() == pytest.approx(1)
    if wanted is not None:
        assert np.allclose(prior, wanted, atol=0.05)
    else:  # one bit tells the mean alone
        assert prior @ [0.0, 0.5, 1.0] == pytest.approx(0.4, abs=0.05)


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("name", sorted(CHANNELS))
def test_gains_are_unbiased_from_released_labels(name, released):
    """Averaged over the law of each true label, they are what the attack gains there, also where it uses the label."""
    channel, rng = CHANNELS[name](), np.random.default_rng(9)
    k, law = channel.classes, channel.table().matrix
    told = rng.dirichlet(np.ones(k), 5)
    release, beliefs = every_pair(channel, told)
    attacker = make_attacker(release, Knowledge(beliefs), "wrong")
    values, least, most = unbiased_gains(attacker, released)
    said = attacker.answers(released).guesses.reshape(5, -1)
    mean = values.reshape(5, -1) @ law.T
    for x, y in itertools.product(range(5), range(k)):
        assert mean[x, y] == pytest.approx(law[y] @ (said[x] == y))
    assert least <= values.min()
    assert values.max() <= most


def test_the_largest_gain_with_any_label_of_an_epsilon():
    """It is never below that of response, subsets or bits, and is response's where classes are even."""
    rng = np.random.default_rng(10)
    for channel in (make() for make in CHANNELS.values()):
        k, epsilon = channel.classes, channel.epsilon
        for told in (rng.dirichlet(np.ones(k), 4), np.full((1, k), 1 / k)):
            release, beliefs = every_pair(channel, told)
            attacker = make_attacker(release, Knowledge(beliefs), "wrong")
            gained = np.mean([(row[:, None] * channel.table().matrix).max(axis=0).sum() for row in told])
            assert gained <= any_label_utility(attacker, epsilon) + 1e-12
    release, beliefs = every_pair(ResponseChannel.at(3, 0.7), np.full((1, 3), 1 / 3))
    even = make_attacker(release, Knowledge(beliefs), "wrong")
    assert any_label_utility(even, 0.7) == pytest.approx(math.exp(0.7) / (math.exp(0.7) + 2))


def test_intervals_hold_the_mean():
    """Over 2000 samples of skewed bounded values, intervals of 90 % miss at most 200 times; far fewer is expected.

    The two inequalities are conservative: misses are below 1 % here, so that a false alarm is next to impossible.
    """
    rng = np.random.default_rng()
    missed = 0
    for _ in range(2000):
        values = rng.beta(0.3, 3.0, 200)
        low, high = bounded_mean(values, 0.0, 1.0, 0.9)
        missed += not low <= 0.3 / 3.3 <= high
    assert missed <= 200
    low, high = bounded_mean(rng.beta(0.3, 3.0, 20_000), 0.0, 1.0, 0.9)
    assert high - low < 0.012  # Hoeffding's inequality alone gives 0.017
    assert bounded_mean(np.array([0.5]), 0.0, 1.0, 0.9) == (0.0, 1.0)


def test_features_that_tell_make_a_tiny_epsilon_useless():
    """Theorem 5.1: at epsilon 0.01 features give every label away; what is reported says so (1e-9)."""
    space, rng = dp.Classes(["no", "yes"]), np.random.default_rng(11)
    codes = rng.integers(0, 2, 2000)
    labels = np.array(["no", "yes"])[codes]
    release = dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 0.01))
    told = np.where(np.arange(2) == codes[:, None], 0.99, 0.01)
    report = attack_release(
        release, Knowledge(told), truth=dp.Release.public(labels, space), limits=[("proven", 0.6)], confidence=1 - 1e-9
    )
    assert report.utility("features").value == 1
    assert report.utility("features").low > 0.98
    assert report.utility("features and the released label").value == 1
    assert report.utility("nothing about the row").value < 0.6
    assert report.utility("the released label", "released labels").low < 0.6
    assert report.utility("features", "the model itself").value == pytest.approx(0.99)
    assert report.limits == (("proven", 0.6),)
    assert report.with_any_label == pytest.approx(0.99)
    assert report.epsilon <= 0.01
    alone = report.utility("features", "released labels")
    assert alone.low <= 1 <= alone.high + 1e-9


class Swapped:
    """A model whose classes are in another order, and which does not know one of them."""

    classes_ = np.array(["c2", "c0"])

    def predict_proba(self, X):  # noqa: N803
        """P(class | features)."""
        return np.tile([0.9, 0.1], (len(X), 1))


def test_models_are_read_in_declared_order():
    """Columns are put in declared order, and unknown classes have no chance."""
    release = dp.Release(np.array([0, 1]), ResponseChannel.at(3, 1e-3), space_of(3), CERTIFICATE)
    attacker = make_attacker(release, Knowledge(Swapped(), features=np.zeros((2, 1))), "wrong")
    assert attacker.features.tolist() == [[0.1, 0.0, 0.9]] * 2
    assert infer_labels(release, Knowledge(Swapped(), features=np.zeros((2, 1)))).labels().tolist() == ["c2", "c2"]


class Fitted(Swapped):
    """A model that says which release it was fitted on."""

    def __init__(self, release):
        self.certificate = release.certificate


class Refitted(Fitted):
    """A model that can also be fitted anew."""

    def held_out_proba(self, release, features, generator):
        """P(class | features) by models that were not fitted on the row."""
        del features, generator
        return np.tile([0.8, 0.0, 0.2], (len(release), 1))


def test_a_model_of_the_attacked_labels_is_fitted_anew_or_refused():
    """Of the whole release, a part of it or a copy in a folder; a model of other labels is taken as it is."""
    space, features = space_of(3), np.zeros((40, 1))
    released = [dp.Curator(["c2", "c0"] * 20, space).randomize(dp.RandomizedResponse(space, 1.0)) for _ in range(2)]
    for fitted_on, attacked in itertools.product((released[0], released[0][:20]), (released[0], released[0][20:])):
        with pytest.raises(InputError, match="attack another release"):
            infer_labels(attacked, Knowledge(Fitted(fitted_on), features=features[: len(attacked)]))
        attacker = make_attacker(attacked, Knowledge(Refitted(fitted_on), features=features[: len(attacked)]), "wrong")
        assert attacker.features[0].tolist() == [0.8, 0.0, 0.2]
        assert attacker.cross_fitted
    other = make_attacker(released[1], Knowledge(Refitted(released[0]), features=features), "wrong")
    assert other.features[0].tolist() == [0.1, 0.0, 0.9]
    assert not other.cross_fitted


@pytest.mark.parametrize("gains", [[3.0, 2.5, 2.0] * 50, [-2.0, -2.5, -1.0] * 50, [3.0], [0.5] * 20])
def test_utilities_are_shares(gains):
    """Estimates beyond 0 and 1 are clipped with both ends, and lie between them."""
    judged = _Judged("features", "released labels", np.array(gains), -3.0, 4.0)
    found = judged.utility(0.95)
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    over = _advantage(judged, _Judged("nothing", "released labels", -np.array(gains), -3.0, 4.0), 0.95)
    assert -1.0 <= over.low <= over.value <= over.high <= 1.0


def test_the_gain_of_features_is_compared_with_that_of_nothing():
    """It is found where features tell, and not where they say nothing, however surely they say it."""
    space, rng = dp.Classes(["no", "yes"]), np.random.default_rng(12)
    codes = rng.integers(0, 2, 2000)
    release = dp.Curator(np.array(["no", "yes"])[codes], space).randomize(dp.RandomizedResponse(space, 1.0))
    telling, silent = (
        attack_release(release, Knowledge(np.where(np.arange(2) == told[:, None], 0.99, 0.01))).advantages
        for told in (codes, rng.integers(0, 2, 2000))
    )
    assert [each.found for each in telling] == [True, False]
    assert telling[0].value == pytest.approx(0.5, abs=0.2)
    assert not silent[0].found
    assert (telling[0].knows, telling[0].over) == ("features", "nothing about the row")
    assert (telling[1].knows, telling[1].over) == ("features and the released label", "features")


def test_a_folder_is_attacked(tmp_path):
    """A release in a folder, with a model of its columns and true labels; dummy features leave the label alone."""
    space = space_of(3)
    labels, table = ["c2", "c0"] * 30, pa.table({"x": list(range(60))})
    release = dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 1.0))
    release.save(tmp_path / "out", table, keep="all")
    report = attack_folder(tmp_path / "out", Swapped(), truth=labels)
    assert report.utility("features").value == 0.5
    assert report.utility("features").rows == 60
    assert attack_folder(tmp_path / "out").rows[-1].knows == "the released label"
    with pytest.raises(LabelError, match="row 2 "):
        attack_folder(tmp_path / "out", truth=["c0", "private"] * 30)
    rows = dp.Curator(labels, space).randomize_rows(dp.DummyResponse(space, 1.0))
    assert [row.knows for row in attack_release(rows, Knowledge(prior=[0.5, 0, 0.5])).rows][-1] == "the released label"


@pytest.mark.parametrize(
    "make",
    [
        lambda release: infer_labels(release.codes),
        lambda release: infer_labels(release, Knowledge(np.ones((3, 3)) / 3)),
        lambda release: infer_labels(release, Knowledge(np.ones((2, 3)))),
        lambda release: infer_labels(release, Knowledge(np.full((2, 3), np.nan))),
        lambda release: infer_labels(release, Knowledge(Swapped())),
        lambda release: infer_labels(release, Knowledge(prior=[0.5, 0.5])),
        lambda release: infer_labels(release, Knowledge(prior=[0.5, 0.6, 0.1])),
        lambda release: infer_labels(release, loss="squared"),
        lambda release: infer_labels(release, loss=2 * np.ones((3, 3))),
        lambda release: infer_labels(release, Knowledge(mixing=0.5)),
        lambda release: infer_labels(release, Knowledge(np.ones((2, 3)) / 3, mixing=1.5)),
        lambda release: attack_release(release[:0]),
        lambda release: attack_release(
            release, truth=dp.Curator(["c0", "c1"], space_of(3)).randomize(dp.RandomizedResponse(space_of(3), 1.0))
        ),
        lambda release: attack_release(release).utility("everything"),
    ],
)
@pytest.mark.usefixtures("as_users_call")
def test_bad_input_is_refused(make):
    """Wrong shapes, sums and losses, a model without features, private true labels, and other rows."""
    with pytest.raises((InputError, PriorError), match=r"expected .* found"):
        make(dp.Release(np.array([0, 1]), ResponseChannel.at(3, 1.0), space_of(3), CERTIFICATE))
