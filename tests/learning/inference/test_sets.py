"""Prediction sets and intervals: their coverage, their size, and when they are of all labels."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest

import labeldp as dp
from labeldp.errors import InputError
from labeldp.learning.inference import PredictionSets, prediction_sets
from labeldp.learning.inference._lower_scores import LowerScores
from labeldp.learning.inference._sets import calibrated_sets
from labeldp.learning.tables import evaluate, learn, open_model, predict_table
from labeldp.mechanisms.randomizers import RANDOMIZERS
from labeldp.results import Evaluated, evaluation_part
from labeldp.results._numbers import share_below
from labeldp.testing import check_result

ALPHA = 0.1
SPACE = dp.Classes(["a", "b", "c"])


class Given:
    """A model whose predictions are its features."""

    classes_ = np.array(["a", "b", "c"])

    def predict_proba(self, features):
        """Probabilities."""
        return np.asarray(features)


class GivenNumbers:
    """A model whose predictions are its features."""

    def predict(self, features):
        """Numbers."""
        return np.asarray(features)


def likely(rows, seed, sharper=1.6):
    """True classes of rows, and the probabilities of a model that is surer than it should be."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(rows, 3)) * 1.5
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    codes = (chances.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1).astype(np.int32)
    sure = chances**sharper
    return codes, sure / sure.sum(axis=1, keepdims=True)


def test_sets_hold_the_true_class_under_every_channel(make_channel, randomized, full_kind):
    """In 12 releases the sets of fresh rows hardly ever miss more than a tenth, and they are not of all classes."""
    found = []
    for draw in range(12):
        codes, chances = likely(2000, draw)
        release = randomized(codes, make_channel(full_kind, 3, len(codes), 2.5), draw)
        sets = calibrated_sets(release, dp.ClassProbabilities(chances, release.space.points), ALPHA, units="rows")
        members = sets.members(likely(20_000, 99)[1])
        found.append((members[np.arange(20_000), likely(20_000, 99)[0]].mean(), members.sum(axis=1).mean()))
    coverage, sizes = np.array(found).T
    assert (coverage < 1.0 - ALPHA - 0.005).sum() <= 3  # 4 or more have a probability of at most 0.002
    assert coverage.mean() < 0.98
    assert sizes.mean() < 2.7


def test_pure_noise_gives_all_classes_and_a_reason():
    """Where labels have nothing to do with predictions no smaller set is claimed to hold them."""
    rng = np.random.default_rng(3)
    _, chances = likely(2000, 3)
    release = dp.Curator(rng.choice(SPACE.points, 2000), SPACE).randomize(dp.RandomizedResponse(SPACE, 1.0))
    sets = prediction_sets(Given(), chances, release, 0.02)
    assert sets.size == 3.0
    assert sets.limits[""] == 0.0
    assert "smaller sets" in sets.reasons[""]


def test_few_rows_give_all_classes_and_say_how_many_it_takes():
    """28 true labels cannot show a coverage of 0.9 with a confidence of 0.95, and 29 can."""
    chances = np.tile([0.98, 0.01, 0.01], (29, 1))
    release = dp.Release.public(["a"] * 29, SPACE)
    few = prediction_sets(Given(), chances[:28], release[:28], ALPHA)
    assert few.size == 3.0
    assert "it would take 29" in few.reasons[""]
    enough = prediction_sets(Given(), chances, release, ALPHA)
    assert enough.size == 1.0
    assert not enough.reasons


def test_coverage_by_class_holds_in_each():
    """A rare class that the model never finds likely is in the sets of its rows as often as others."""
    codes, chances = likely(30_000, 7)
    chances = chances * np.array([1.0, 1.0, 0.05])
    chances /= chances.sum(axis=1, keepdims=True)
    release = dp.Release.public([SPACE.points[code] for code in codes], SPACE)
    marginal, by_class = (prediction_sets(Given(), chances, release, ALPHA, by=by) for by in (None, "class"))
    held = [sets.of(Given(), chances)[np.arange(len(codes)), codes] for sets in (marginal, by_class)]
    assert held[0][codes == 2].mean() < 0.8
    assert all(held[1][codes == code].mean() >= 1.0 - ALPHA - 0.01 for code in range(3))


def test_coverage_by_group_holds_in_each_and_needs_the_groups():
    """A group in which the model is wrong more often gets larger sets."""
    codes, chances = likely(20_000, 8)
    ward = np.where(np.arange(len(codes)) % 2, "east", "west")
    shuffled = np.where((ward == "east")[:, None], chances, chances[:, [1, 2, 0]])
    release = dp.Release.public([SPACE.points[code] for code in codes], SPACE)
    sets = prediction_sets(Given(), shuffled, release, ALPHA, by=ward)
    held = sets.of(Given(), shuffled, ward)[np.arange(len(codes)), codes]
    assert all(held[ward == each].mean() >= 1.0 - ALPHA - 0.01 for each in ("east", "west"))
    with pytest.raises(InputError, match="by group alone, found none"):
        sets.of(Given(), shuffled)
    with pytest.raises(InputError, match="found the group 'north'"):
        sets.of(Given(), shuffled[:1], ["north"])
    with pytest.raises(InputError, match="one limit for all rows"):
        sets.plain()


def test_rows_of_a_unit_count_as_fewer():
    """Ten copies of each row say no more than one: the sets are no smaller than by one of each."""
    codes, chances = likely(200, 11)
    labels = [SPACE.points[code] for code in codes]
    one = prediction_sets(Given(), chances, dp.Release.public(labels, SPACE), ALPHA)
    copies = np.repeat(np.arange(200), 10)
    many = dp.Release.public([labels[row] for row in copies], SPACE)
    with_units = prediction_sets(Given(), chances[copies], many, ALPHA, units=copies)
    without = prediction_sets(Given(), chances[copies], many, ALPHA, units="rows")
    assert with_units.size >= 0.95 * one.size
    assert without.size < with_units.size


def test_rows_with_candidates_tell_of_no_smaller_sets():
    """A class outside a row's candidates is released as another, so how often sets hold it is not known."""
    codes, chances = likely(500, 2)
    randomizer = dp.TopKResponse(SPACE, 2.0, prior=chances, k=2)
    release = dp.Curator([SPACE.points[code] for code in codes], SPACE, budget=2.0).randomize(randomizer)
    sets = prediction_sets(Given(), chances, release, ALPHA)
    assert sets.size == 3.0
    assert "candidates" in sets.reasons[""]


def numbers(rows, seed):
    """Predictions between 0 and 1, and true numbers on a grid around them."""
    rng = np.random.default_rng(seed)
    predicted = rng.uniform(0.1, 0.9, rows)
    return predicted, np.round(np.clip(predicted + rng.normal(0.0, 0.08, rows), 0.0, 1.0) * 25) / 25


@pytest.mark.parametrize(
    ("mechanism", "rows", "widest"),
    [("optimal", 6000, 0.75), ("piecewise", 6000, 0.75), ("laplace", 20_000, 0.9), (None, 2000, 0.34)],
)
def test_intervals_hold_the_true_number(mechanism, rows, widest):
    """Intervals by released numbers hold the true ones of fresh rows, and are narrower than the range."""
    space, (predicted, true) = dp.Interval(0, 1, 0.04), numbers(rows, 1)
    if mechanism is None:
        release = dp.Release.public(true, space)
    else:
        release = dp.Curator(true, space, budget=4.0).randomize(RANDOMIZERS.own[mechanism](space, 4.0))
    sets = prediction_sets(GivenNumbers(), predicted, release, ALPHA)
    predicted, true = numbers(20_000, 98)
    low, high = sets.of(GivenNumbers(), predicted).T
    assert ((low <= true + 1e-9) & (true <= high + 1e-9)).mean() >= 1.0 - ALPHA - 0.005
    assert sets.size < widest
    assert low.min() >= 0.0
    assert high.max() <= 1.0


@pytest.mark.parametrize("randomizer", [dp.RandomizedResponse, dp.OptimalResponse])
def test_intervals_of_a_model_that_explains_little_are_not_the_range(randomizer):
    """Labels lie far from predictions, where the guess of their distribution has little."""
    space, random = dp.Interval(0, 100, 5), np.random.default_rng(3)
    predicted = 100 * random.random(4000)
    true = np.clip(predicted + random.normal(0, 25, 4000), 0, 100)
    release = dp.Curator(true, space, budget=4.0).randomize(randomizer(space, 4.0))
    sets = calibrated_sets(release, predicted, 0.1)
    low, high = sets.intervals(predicted).T
    assert ((low <= true + 2.5) & (true <= high + 2.5)).mean() >= 0.9
    assert sets.size < 80.0  # 60 with true labels


def test_one_bit_of_a_number_tells_of_no_narrow_interval():
    """One bit identifies the mean alone, so the interval is nearly the whole range."""
    space, (predicted, true) = dp.Interval(0, 1, 0.04), numbers(4000, 1)
    release = dp.Curator(true, space, budget=4.0).randomize(RANDOMIZERS.own["one-bit"](space, 4.0))
    assert prediction_sets(GivenNumbers(), predicted, release, ALPHA).size > 0.9


@pytest.mark.parametrize("mechanism", ["optimal", "one-bit", "laplace"])
def test_scores_of_intervals_are_below_their_indicator(mechanism):
    """For every true number the expected score is at most 1 inside the interval and 0 outside, exactly enumerated."""
    space, (predicted, true) = dp.Interval(0, 1, 0.1), numbers(3000, 4)
    channel = RANDOMIZERS.own[mechanism](space, 1.0).channel()
    release = dp.Curator(np.round(true, 1), space).randomize(RANDOMIZERS.own[mechanism](space, 1.0))
    lower, matrix, points = LowerScores(release, predicted), channel.table().matrix, np.array(space.points)
    for reach in (0.6, 0.35, 0.2):
        scored = lower(reach, np.arange(3000))
        for outcome_of in range(16):
            its = np.flatnonzero(lower._bins == outcome_of)
            of_outcome = np.full(matrix.shape[1], np.nan)
            of_outcome[release.codes[its]] = scored[its]
            if np.isnan(of_outcome).any():
                continue
            expected = matrix @ of_outcome
            inside = np.abs(points[:, None] - predicted[its]) <= reach + 1e-9
            assert (expected <= inside.all(axis=1) + 1e-9).all()


def test_what_makes_no_sets_is_refused():
    """Numbers out of range, other lengths and no rows are refused before anything is computed."""
    codes, chances = likely(50, 1)
    release = dp.Release.public([SPACE.points[code] for code in codes], SPACE)
    for options, message in (
        ({"alpha": 1.0}, "alpha"),
        ({"confidence": 0.3}, "above 0.5"),
        ({"by": "ward"}, "'class' with classes"),
        ({"by": ["a"]}, "for each released row"),
    ):
        with pytest.raises(InputError, match=message):
            prediction_sets(Given(), chances, release, **({"alpha": ALPHA} | options))
    with pytest.raises(InputError, match="for each released row"):
        prediction_sets(Given(), chances[:3], release)


def test_a_rule_is_read_back_from_its_description():
    """What a file says of sets is what they were, and what is no rule is refused."""
    for sets in (
        PredictionSets(0.1, 0.95, ("a", "b"), None, "", {"": 0.2}, 100, 1.2),
        PredictionSets(0.1, 0.95, ("a", "b"), None, "class", {"a": 0.2, "b": 0.0}, 100, 1.2, {"b": "too few"}),
        PredictionSets(0.1, 0.95, None, (0.0, 1.0), "", {"": math.inf}, 5, 1.0, {"": "too few"}),
    ):
        again = PredictionSets.from_plain(sets.plain(), sets.classes, sets.ends)
        assert again.plain() == sets.plain()
        assert (again.by, again.limits, again.reasons) == (sets.by, sets.limits, sets.reasons)
    by_class = {"limit": [0.1, 0.2], "reason": ["", ""]}
    for wrong in ({"limit": [0.1]}, {"reason": [""]}, {"limit": [0.1, -0.2]}, {"reason": ["", "x" * 2000]}):
        with pytest.raises(ValueError, match="no rule"):
            PredictionSets.from_plain(sets.plain() | by_class | wrong, ("a", "b"), None)
    with pytest.raises(ValueError, match="no rule"):
        PredictionSets.from_plain(sets.plain() | by_class, None, (0.0, 1.0))
    for wrong in ({"alpha": 0.0}, {"confidence": 0.2}, {"rows": 0}, {"limit": -1.0}, {"reason": "x" * 2000}):
        with pytest.raises(ValueError, match="no rule"):
            PredictionSets.from_plain(sets.plain() | wrong, None, (0.0, 1.0))


def test_the_sets_of_a_learned_model_are_kept_and_predicted(tmp_path):
    """Sets are calibrated on rows that the model was not fitted on, kept in its file, and written with predictions."""
    rng = np.random.default_rng(5)
    age = rng.integers(20, 90, 1500)
    frame = pd.DataFrame({"age": age, "ill": np.where(age + rng.normal(0, 8, 1500) > 55, "yes", "no")})
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = {"drop": [], "budget": 9.0, "unit": "row"}
    dp.release_table(tmp_path / "t.csv", "ill", dp.Classes(["no", "yes"]), 5.0, tmp_path / "out", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learned = learn(tmp_path / "out", model="softmax", coverage=0.9)
    assert learned.rows == 1200
    assert learned.model.sets.rows == 300
    model = open_model(learned.model.save(tmp_path / "m.safetensors"))
    assert model.sets.plain() == learned.model.sets.plain()
    table = predict_table(model, tmp_path / "t.csv").to_pandas()
    held = [truth in said for truth, said in zip(frame["ill"], table["ill_set"], strict=True)]
    assert np.mean(held) > 0.87
    assert set(table["ill_set"]) == {'["no"]', '["no", "yes"]', '["yes"]'}
    assert table["ill_set"][age.argmax()] == '["yes"]'
    scores = evaluate(model, tmp_path / "t.csv", "ill", public=True)
    for name, found in zip(("no", "yes"), scores.class_coverage.value, strict=True):
        assert found == pytest.approx(np.mean(np.array(held)[frame["ill"] == name]))
    (grid, *_) = evaluation_part(Evaluated.of(scores, "them", model.space, public=True)).sections[0].blocks
    assert {f"coverage of prediction sets{of}" for of in ("", " of no", " of yes")} <= {row[0] for row in grid.rows}
    judged = scores.coverage
    assert judged.value == pytest.approx(np.mean(held))
    assert judged.low < judged.value < judged.high


def test_the_coverage_of_intervals_is_evaluated(tmp_path):
    """On public labels it is the share whose interval holds them, and released numbers bound it from below."""
    rng = np.random.default_rng(8)
    for name in ("fit", "other"):
        age = rng.integers(20, 90, 3000)
        frame = pd.DataFrame({"age": age, "cost": np.clip(age + rng.normal(0, 5, 3000), 0, 100).round()})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        options = {"keep": ["age"], "unit": "row", "other_people": "another ward"}
        dp.release_table(tmp_path / f"{name}.csv", "cost", dp.Interval(0, 100, 1), 6.0, tmp_path / name, **options)
    model = learn(tmp_path / "fit", model="ridge", coverage=0.8).model
    written = predict_table(model, tmp_path / "other.csv").to_pandas()
    held = frame["cost"].between(written["cost_low"], written["cost_high"])
    assert (written["cost_high"] - written["cost_low"]).max() < 90, "intervals are shown to suffice"
    public = evaluate(model, tmp_path / "other.csv", "cost", public=True)
    assert public.coverage.value == pytest.approx(held.mean())
    assert public.coverage.low < public.coverage.value < public.coverage.high
    released = evaluate(model, tmp_path / "other", "cost", public=False)
    assert 0.5 < released.coverage.low < released.coverage.lower < held.mean() + 0.05
    assert (released.coverage.upper, released.coverage.high) == (1.0, 1.0)
    for scores, text in (
        (public, f"{held.mean():.1%}"),
        (released, f"at least {share_below(released.coverage.lower)}"),
    ):
        found = Evaluated.of(scores, "them", model.space, public=scores is public)
        (grid, *_) = evaluation_part(found).sections[0].blocks
        assert text in {row[1] for row in grid.rows if row[0] == "coverage of prediction sets"}
    plain = learn(tmp_path / "fit", model="ridge").model
    assert evaluate(plain, tmp_path / "other", "cost", public=False).coverage is None


def test_a_learned_model_covers_each_class_where_it_is_asked_to(tmp_path):
    """Of a class that one row in fifteen has, 80 % are in their sets, as in a coverage of all rows they are not."""
    rng = np.random.default_rng(6)
    age = rng.integers(20, 90, 4000)
    frame = pd.DataFrame({"age": age, "ill": np.where(age + rng.normal(0, 25, 4000) > 108, "yes", "no")})
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = {"drop": [], "budget": 9.0, "unit": "row"}
    dp.release_table(tmp_path / "t.csv", "ill", dp.Classes(["no", "yes"]), 6.0, tmp_path / "out", **options)
    held = {}
    for by in (None, "class"):
        learned = learn(tmp_path / "out", model="softmax", coverage=0.8, coverage_by=by)
        model = open_model(learned.model.save(tmp_path / f"{by}.safetensors"))
        table = predict_table(model, tmp_path / "t.csv").to_pandas()
        held[by] = np.mean(['"yes"' in said for said in table["ill_set"][frame["ill"] == "yes"]])
    assert held[None] < 0.5
    assert held["class"] > 0.75
    with pytest.raises(InputError, match="with a coverage"):
        learn(tmp_path / "out", model="softmax", coverage_by="class")
    with pytest.raises(InputError, match="among"):
        learn(tmp_path / "out", model="softmax", coverage_by="ward", coverage=0.9)


@pytest.mark.parametrize("by", [None, "class"])
def test_sets_are_shown_alike_in_every_form(by):
    """A terminal, a page, a notebook and JSON state the same coverage, size and reasons."""
    codes, chances = likely(400, 6)
    release = dp.Release.public([SPACE.points[code] for code in codes], SPACE)
    check_result(prediction_sets(Given(), chances, release, ALPHA, by=by))
