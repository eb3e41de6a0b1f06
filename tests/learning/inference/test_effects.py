"""Effects of a treatment on the true label, from released labels."""

import dataclasses
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.special import expit
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from labeldp import Classes, Curator, Interval, RandomizedResponse, Release
from labeldp.errors import InputError, RowsError
from labeldp.learning.inference import mean_difference, treatment_effect
from labeldp.learning.metrics import UnitsWarning
from labeldp.mechanisms.randomizers import RANDOMIZERS
from labeldp.privacy.channels import ResponseChannel

FEATURES = ["age", "ward"]
SPACE = Classes(["no", "yes"])
#: Standard errors within which a fixed draw finds the truth.
BAR = 3.0


def the_effect(release, table, **more):
    """The effect of the drug on the last class, adjusted for both features."""
    return treatment_effect(release, table, treatment="drug", **({"features": FEATURES, "outcome": 1} | more))


def patients(rows=4000, seed=3, confounded=1.0):
    """Older patients are treated more often and fare worse; the treatment helps, and more so in ward B."""
    rng = np.random.default_rng(seed)
    age, ward = rng.normal(size=rows), rng.choice(["A", "B"], rows)
    chance = expit(confounded * age)
    drug = rng.random(rows) < chance
    without, treated = expit(age), expit(age - 0.6 - 0.8 * (ward == "B"))
    codes = (rng.random(rows) < np.where(drug, treated, without)).astype(np.int32)
    table = pa.table({"age": age, "ward": ward, "drug": np.where(drug, "yes", "no"), "chance": chance})
    return table, codes, treated - without


@pytest.mark.parametrize("known", [False, True])
def test_an_effect_is_recovered_where_groups_as_they_are_mislead(make_channel, randomized, full_kind, known):
    """Under every channel the adjusted effect is that of the patients; the groups as they are differ otherwise."""
    table, codes, effects = patients()
    release = randomized(codes, make_channel(full_kind, 3, len(codes), 2.5), 5)
    way = {"propensity": "chance"} if known else {"features": FEATURES}
    found = treatment_effect(release, table, treatment="drug", outcome=1, units="rows", **way)
    (only,) = found.effects
    assert abs(only.difference.value - effects.mean()) < BAR * only.difference.error
    assert only.difference.low < effects.mean() < only.difference.high
    assert found.assignment == ("known" if known else "estimated")
    assert only.difference.high < 0.0
    as_they_are = mean_difference(release, table["drug"], units="rows").effects[0].difference
    assert as_they_are.low > effects.mean() + 0.1


def test_a_class_that_ten_treated_rows_do_not_show_is_no_proof_of_its_absence():
    """A share of up to 31 % is missed by ten rows, so a difference from 30 % may be none (Clopper and Pearson)."""
    table = {"drug": ["yes"] * 10 + ["no"] * 1000, "age": np.random.default_rng(1).normal(size=1010)}
    release = Release.public(["no"] * 10 + ["yes"] * 300 + ["no"] * 700, SPACE)
    adjusted = treatment_effect(release, table, treatment="drug", features=["age"], trim=1e-4)
    for found in (adjusted, mean_difference(release, table["drug"])):
        assert found.effects[0].treated.high > 0.3
        assert found.effects[0].difference.low < -0.3
        assert found.effects[0].difference.high > 0.0


@pytest.mark.parametrize("mechanism", ["optimal", "one-bit"])
def test_an_effect_on_numbers_is_recovered(mechanism):
    """The mean of numeric labels, with a trial's known probability of the treatment, within four standard errors."""
    rng, rows = np.random.default_rng(6), 4000
    age, drug = rng.normal(size=rows), rng.random(rows) < 0.3
    days = np.clip(np.round(8 + 2 * age - 3 * drug + rng.normal(size=rows)), 0, 20)
    space = Interval(0, 20, 1)
    release = Curator(days, space).randomize(RANDOMIZERS.own[mechanism](space, 2.0))
    found = treatment_effect(release, {"drug": drug, "age": age}, treatment="drug", propensity=0.3, features=["age"])
    (only,) = found.effects
    assert only.outcome == "mean"
    assert abs(only.difference.value + 3.0) < 4.0 * only.difference.error + 0.05
    assert 0.0 < only.difference.error < 0.6


def test_public_labels_without_features_give_the_difference_of_means():
    """On public labels the comparison is the textbook one, with the standard error of two independent means."""
    rng = np.random.default_rng(7)
    group, codes = rng.integers(0, 2, 500), rng.integers(0, 2, 500)
    found = mean_difference(Release.public(codes, Classes([0, 1])), group).effects[0]
    parts = [codes[group == each] for each in (0, 1)]
    assert found.difference.value == pytest.approx(parts[1].mean() - parts[0].mean())
    assert (found.untreated.value, found.treated.value) == pytest.approx((parts[0].mean(), parts[1].mean()))
    expected = np.sqrt(sum(part.var() / len(part) for part in parts))
    assert found.difference.error == pytest.approx(expected, rel=0.01)


def test_rows_given_twice_say_no_more(make_release):
    """If each row stands there twice, as one unit, the interval is as wide as that of the rows once."""
    table, codes, _ = patients(2000)
    channel = ResponseChannel.at(2, 3.0)
    once = the_effect(make_release(codes, channel), table)
    twice, doubled = make_release(np.tile(codes, 2), channel), pa.concat_tables([table, table])
    units = np.tile(np.arange(2000), 2)
    errors = [the_effect(twice, doubled, units=each).effects[0].difference.error for each in (units, "rows")]
    assert errors[0] == pytest.approx(once.effects[0].difference.error, rel=0.02)
    assert errors[1] == pytest.approx(errors[0] / np.sqrt(2), rel=0.02)


def test_units_are_on_one_side_of_each_fold(make_release):
    """A model that remembers rows predicts nothing of a unit whose other rows it saw: copies are no independent rows.

    With copies on both sides nearest neighbours would repeat each label, and the standard error would vanish.
    """
    table, codes, _ = patients(400)
    doubled = pa.concat_tables([table, table])
    release = make_release(np.tile(codes, 2), ResponseChannel.at(2, 8.0))
    errors = [
        treatment_effect(
            release, doubled, treatment="drug", features=["age"], units=units, outcome=1, model=KNeighborsRegressor(1)
        ).effects[0].difference.error
        for units in (np.tile(np.arange(400), 2), "rows")
    ]  # fmt: skip
    assert errors[0] > 2.0 * errors[1]


def test_groups_have_their_own_effects_and_intervals_that_hold_together(randomized):
    """The effect in each ward is found; intervals of two are as wide as two at half of the error probability."""
    table, codes, effects = patients(20_000)
    release = randomized(codes, ResponseChannel.at(2, 3.0), 9)
    found = the_effect(release, table, by="ward")
    ward = np.array(table["ward"].to_pylist())
    assert [each.group for each in found.effects] == ["A", "B"]
    for each in found.effects:
        truth = effects[ward == each.group].mean()
        assert each.difference.low < truth < each.difference.high
        assert each.rows == (ward == each.group).sum()
    assert found.effects[1].difference.high < found.effects[0].difference.low
    alone = the_effect(release, table, level=0.975)
    each, only = found.effects[0].difference, alone.effects[0].difference
    assert (each.high - each.low) / each.error == pytest.approx((only.high - only.low) / only.error, rel=0.001)


def test_effects_on_several_classes_sum_to_nothing(randomized):
    """Each of three classes has its effect; what one gains the others lose, and the intervals hold together."""
    table, codes, _ = patients()
    codes = codes + (np.arange(len(codes)) % 2 * codes).astype(np.int32)
    release = randomized(codes, ResponseChannel.at(3, 3.0), 10)
    found = treatment_effect(release, table, treatment="drug", features=FEATURES)
    assert [each.outcome for each in found.effects] == ["0", "1", "2"]
    assert sum(each.difference.value for each in found.effects) == pytest.approx(0.0, abs=0.02)
    one = the_effect(release, table, outcome=2).effects[0].difference
    assert found.effects[2].difference.high - found.effects[2].difference.low > 1.15 * (one.high - one.low)


def test_a_group_that_is_too_small_has_no_number(make_release):
    """Where fewer than ten units have one of the treatments, the interval is everything and there is no estimate."""
    table, codes, _ = patients(1000)
    ward = np.where(np.arange(1000) < 12, "small", "large")
    table = table.append_column("place", pa.array(ward))
    release = make_release(codes, ResponseChannel.at(2, 3.0))
    found = the_effect(release, table, by="place")
    assert [each.group for each in found.effects] == ["large", "small"]
    assert np.isfinite(found.effects[0].difference.value)
    assert np.isnan(found.effects[1].difference.value)
    assert (found.effects[1].difference.low, found.effects[1].difference.high) == (-1.0, 1.0)


def test_vanishing_propensities_are_refused_and_may_be_left_out(randomized):
    """Rows that are nearly always treated have no counterpart: they are refused, or left out and counted."""
    table, codes, effects = patients(confounded=4.0)
    release = randomized(codes, ResponseChannel.at(2, 3.0), 11)
    with pytest.raises(InputError, match=r"propensity below 0\.01.*trim=0\.1"):
        the_effect(release, table)
    found = the_effect(release, table, trim=0.1)
    assert found.overlap.low >= 0.1
    assert found.overlap.high <= 0.9
    assert found.effects[0].rows + found.overlap.left_out == len(codes)
    inside = np.abs(np.array(table["chance"]) - 0.5) < 0.4
    only = found.effects[0].difference
    assert abs(only.value - effects[inside].mean()) < BAR * only.error


def test_a_few_vanishing_propensities_are_left_out_and_counted():
    """One row in 400 that was nearly certain to be treated is left out; one in 100 is too many."""
    release, drug = Release.public(np.tile(["no", "yes", "yes"], 400), SPACE), np.arange(1200) % 2 == 0
    chance = np.where(np.arange(1200) < 3, 0.995, 0.5)
    found = treatment_effect(release, {"drug": drug}, treatment="drug", propensity=chance)
    assert (found.overlap.left_out, found.overlap.high, found.effects[0].rows) == (3, 0.5, 1197)
    with pytest.raises(InputError, match="found 12 of 1,200"):
        treatment_effect(
            release, {"drug": drug}, treatment="drug", propensity=np.where(np.arange(1200) < 12, 0.995, 0.5)
        )


def test_overlap_is_that_of_the_weights():
    """With known propensities the effective sample size is Kish's, and rare ones are counted."""
    chance = np.tile([0.5, 0.2, 0.04], 200)
    drug = np.tile([True, False], 300)
    release = Release.public(np.tile(["no", "yes", "yes"], 200), SPACE)
    found = treatment_effect(release, {"drug": drug}, treatment="drug", propensity=chance).overlap
    weights = 1.0 / chance[drug]
    assert (found.low, found.high, found.outside, found.left_out) == (0.04, 0.5, 200, 0)
    assert found.effective_treated == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


def test_another_model_of_outcomes_may_take_its_place(randomized):
    """A regressor of scikit-learn gives another estimate of the same effect."""
    table, codes, effects = patients()
    release = randomized(codes, ResponseChannel.at(2, 2.0), 12)
    found = the_effect(release, table, model=LinearRegression()).effects[0].difference
    assert abs(found.value - effects.mean()) < BAR * found.error


@pytest.mark.parametrize(("repeats", "units", "warned"), [(2, None, True), (2, "rows", False), (1, None, False)])
def test_rows_that_may_share_a_unit_are_warned_of(repeats, units, warned):
    """Both answers warn unless they are told the units, or that rows are meant; the result says it too."""
    labels = np.tile(["no", "yes"], 60)
    curator = Curator(labels, SPACE, units=np.arange(120) // repeats)
    release, drug = curator.randomize(RandomizedResponse(SPACE, 4.0)), np.arange(120) % 3 == 0
    with pytest.warns(UnitsWarning) if warned else nullcontext():
        assert mean_difference(release, drug, units=units).mixed == warned
    with pytest.warns(UnitsWarning) if warned else nullcontext():
        found = treatment_effect(release, {"drug": drug}, treatment="drug", propensity=0.4, units=units)
    assert found.mixed == warned


REFUSED = {
    "no such treatment": ({"treatment": "drugs"}, "no column 'drugs'.*'drug'"),
    "no such group": ({"by": "sex"}, "no column 'sex'"),
    "no such propensities": ({"propensity": "odds"}, "no column 'odds'"),
    "three values": ({"treatment": "three"}, "which value of 'three' is the treatment.*Values: '0', '1', '2'.*others"),
    "all of three values": ({"treatment": "three", "treated": [0, 1, 2]}, "name fewer"),
    "one value": ({"treatment": "one"}, "at least two values of 'one', found 'x'"),
    "a gap": ({"treatment": "gap"}, "a value of 'gap' in each row, found missing ones"),
    "values that say nothing": ({"treatment": "arm"}, "which value of 'arm' is the treatment"),
    "another value": ({"treatment": "arm", "treated": "C"}, "treated"),
    "nothing to adjust for": ({"features": None}, "settled before the treatment.*Columns: age"),
    "the treatment itself": ({"features": ["drug"]}, "found 'drug' among them"),
    "a certain treatment": ({"propensity": 1.0}, "above 0 and below 1"),
    "a propensity that is none": ({"propensity": np.nan}, "above 0 and below 1"),
    "no level": ({"level": 1.0}, "level"),
    "no trimming": ({"trim": 0.0}, "trim"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_answered_is_refused(case):
    """Each refusal says what was found, and what to do."""
    rows = np.arange(90)
    table = pd.DataFrame({"age": rows * 1.0, "drug": rows % 2, "arm": np.where(rows % 2, "A", "B"), "three": rows % 3})
    table["one"] = "x"
    table["gap"] = np.where(rows % 2, "yes", None)
    more, message = REFUSED[case]
    release = Release.public(np.tile(["no", "yes"], 45), SPACE)
    with pytest.raises(InputError, match=message):
        treatment_effect(release, table, **({"treatment": "drug", "features": ["age"]} | more))


@pytest.mark.parametrize(
    ("treated", "values"), [("None", ("not None", "None")), (["Norm", ">7"], ("None", "Norm, >7"))]
)
def test_a_treatment_of_several_values_is_some_against_all_others(treated, values):
    """One of three values against both others, or two against the third, is the column of two that says so."""
    rng = np.random.default_rng(8)
    value, age = rng.choice(["None", "Norm", ">7"], 600), rng.normal(size=600)
    release = Release.public(rng.choice(["no", "yes"], 600).tolist(), SPACE)
    marked = np.isin(value, treated)
    found = treatment_effect(release, {"a": value, "age": age}, treatment="a", treated=treated, features=["age"])
    plain = treatment_effect(release, {"a": marked, "age": age}, treatment="a", features=["age"])
    assert found.effects == plain.effects
    assert found.values == values
    as_they_are = mean_difference(release, value, treated=treated)
    assert as_they_are.effects == mean_difference(release, marked).effects


def test_too_few_units_are_refused():
    """Nine treated units show nothing of how far an effect may be off, however many rows they have."""
    drug = np.arange(400) < 36
    release = Release.public(np.tile(["no", "yes"], 200), SPACE)
    with pytest.raises(InputError, match=r"at least 10 units.*91 and 9"):
        mean_difference(release, drug, units=np.arange(400) // 4)


def test_rows_in_another_order_are_refused():
    """A table whose index is another than that of the released labels is not compared by position."""
    labels = pd.Series(["no", "yes"] * 20, index=np.arange(40) + 7, name="ill")
    release = Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, 2.0))
    table = pd.DataFrame({"drug": np.arange(40) % 2}, index=labels.index[::-1])
    with pytest.raises(RowsError):
        treatment_effect(release, table, treatment="drug", propensity=0.5)


def test_resampled_features_are_refused(make_release):
    """Groups by features that were drawn anew mix rows, so that effects look smaller than they are."""
    release = make_release(np.tile([0, 1], 50).astype(np.int32), ResponseChannel.at(2, 3.0))
    certificate = dataclasses.replace(release.certificate, features=object())
    resampled = Release(release.codes, release.channel, release.space, certificate)
    with pytest.raises(InputError, match="expected original features"):
        mean_difference(resampled, np.arange(100) % 2)
