"""Regression tables of the true label, from released labels."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.optimize import minimize
from scipy.special import expit, softmax

from labeldp import Classes, Curator, Interval, RandomizedResponse, Release
from labeldp.errors import InputError
from labeldp.learning.inference import coefficients
from labeldp.learning.inference._likelihood import Likelihood
from labeldp.learning.metrics import UnitsWarning
from labeldp.mechanisms.randomizers import RANDOMIZERS
from labeldp.privacy.channels import ResponseChannel

SPACE = Classes(["no", "yes"])
TRUTH = np.array([[-0.5, 0.2], [1.0, -0.7], [0.8, 0.4]])  # intercept, age and ward B; of the second and the third class


def patients(rows=6000, seed=3, classes=3):
    """Columns, their regressors, and classes that follow a multinomial model with known coefficients."""
    rng = np.random.default_rng(seed)
    age, ward = rng.normal(size=rows), rng.choice(["A", "B"], rows)
    matrix = np.stack([np.ones(rows), age, ward == "B"], axis=1).astype(float)
    logits = np.concatenate([np.zeros((rows, 1)), matrix @ TRUTH[:, : classes - 1]], axis=1)
    chance = softmax(logits, axis=1).cumsum(axis=1)
    codes = np.minimum((rng.random(rows)[:, None] > chance).sum(axis=1), classes - 1).astype(np.int32)
    return pa.table({"age": age, "ward": ward, "person": np.arange(rows) // 3}), matrix, codes


def estimates(found):
    """The coefficients and their standard errors as arrays."""
    return np.array([[each.coef, each.std_err] for each in found.coefficients]).T


def test_true_coefficients_are_recovered_under_every_channel(make_channel, randomized, full_kind):
    """Each of six coefficients is within 3.5 of its standard errors, and the errors are not those of a guess."""
    table, _, codes = patients()
    release = randomized(codes, make_channel(full_kind, 3, len(codes), 2.5), 5)
    found = coefficients(release, table, "age + ward", units="rows")
    coef, error = estimates(found)
    assert [(each.outcome, each.name) for each in found.coefficients][:4] == [
        ("1", "Intercept"), ("1", "age"), ("1", "ward[T.B]"), ("2", "Intercept"),
    ]  # fmt: skip
    assert (np.abs(coef - TRUTH.T.ravel()) < 3.5 * error).all()
    assert (error < 0.6).all()
    assert np.abs(coef - TRUTH.T.ravel()).max() > 1e-3


@pytest.mark.parametrize("units", ["rows", "person"])
def test_public_labels_give_the_textbook_table(units):
    """Maximum likelihood with the sandwich of White, or of clusters, by an independent path."""
    table, matrix, codes = patients(900, classes=2)
    person = table["person"].to_numpy()
    found = coefficients(
        Release.public(np.array(["no", "yes"])[codes], SPACE),
        table,
        ["age", "ward"],
        units="rows" if units == "rows" else person,
    )
    best = minimize(lambda at: np.logaddexp(0, matrix @ at).sum() - codes @ (matrix @ at), np.zeros(3), tol=1e-10).x
    chance = expit(matrix @ best)
    scores = matrix * (codes - chance)[:, None]
    totals = scores if units == "rows" else np.stack([np.bincount(person, weights=each) for each in scores.T], axis=1)
    bread = np.linalg.inv((matrix * (chance * (1 - chance))[:, None]).T @ matrix)
    count = len(totals)
    errors = np.sqrt(np.diag(bread @ totals.T @ totals @ bread) * count / (count - 3))
    coef, error = estimates(found)
    np.testing.assert_allclose(coef, best, atol=1e-4)
    np.testing.assert_allclose(error, errors, rtol=1e-4)
    assert found.units == count


def test_least_squares_on_public_numbers_is_the_textbook_one():
    """Coefficients and the sandwich of White for numeric labels."""
    table, matrix, _ = patients(600)
    rng = np.random.default_rng(4)
    numbers = np.clip(np.round(10 + matrix @ [0, 2, 3] + rng.normal(size=600)), 0, 20)
    found = coefficients(Release.public(numbers, Interval(0, 20, 1)), table, ["age", "ward"])
    best = np.linalg.lstsq(matrix, numbers, rcond=None)[0]
    scores, bread = matrix * (numbers - matrix @ best)[:, None], np.linalg.inv(matrix.T @ matrix)
    errors = np.sqrt(np.diag(bread @ scores.T @ scores @ bread) * 600 / 597)
    coef, error = estimates(found)
    np.testing.assert_allclose(coef, best)
    np.testing.assert_allclose(error, errors, rtol=0.01)
    assert (found.family, found.coefficients[0].outcome, found.reference) == ("linear", "mean", "")


@pytest.mark.parametrize("mechanism", ["optimal", "one-bit"])
def test_coefficients_of_released_numbers_are_recovered(mechanism):
    """Unbiased numbers give the coefficients of the true ones, within four standard errors."""
    table, matrix, _ = patients()
    numbers = np.round(8 + np.clip(matrix @ [0, 1, 2], -4, 6))
    space = Interval(0, 20, 1)
    release = Curator(numbers, space).randomize(RANDOMIZERS.own[mechanism](space, 2.0))
    coef, error = estimates(coefficients(release, table, "age + ward"))
    truth = np.linalg.lstsq(matrix, numbers, rcond=None)[0]
    assert (np.abs(coef - truth) < 4.0 * error).all()
    assert (error < 1.0).all()


@pytest.mark.parametrize("method", ["likelihood", "unbiased"])
def test_gradient_and_information_are_those_of_the_loss(randomized, method):
    """Derivatives by differences agree, away from the maximum, where the information may not be positive."""
    _, matrix, codes = patients(300)
    likelihood = Likelihood(randomized(codes, ResponseChannel.at(3, 1.5), 6), matrix, 1, method)
    at = np.linspace(-1.5, 1.0, likelihood.size)
    value, gradient = likelihood.value(at)
    for place in range(len(at)):
        step = np.eye(len(at))[place] * 1e-5
        (up, above), (down, below) = likelihood.value(at + step), likelihood.value(at - step)
        assert gradient[place] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-3)
        np.testing.assert_allclose(likelihood.information(at)[place], (above - below) / 2e-5, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(likelihood.scores(at).sum(axis=0), gradient)
    modelled = probabilities(likelihood, at)
    if method == "likelihood":
        chances = likelihood.release.likelihood()
        expected = np.log(chances.min(axis=1)) - np.log((chances * modelled).sum(axis=1))
    else:
        expected = -(likelihood.release.unbiased() * np.log(modelled)).sum(axis=1)
    assert value == pytest.approx(expected.sum(), rel=1e-6)


def probabilities(likelihood, at):
    """The modelled probabilities of each row."""
    weights = (likelihood.to_coefficients @ at).reshape(2, -1)
    logits = np.zeros((len(likelihood.matrix), 3))
    logits[:, likelihood.classes] = likelihood.matrix @ weights.T
    return softmax(logits, axis=1)


def test_a_wrong_model_gives_the_coefficients_of_true_labels(randomized):
    """Where odds do not follow the model, the default aims at what true labels give, and the likelihood elsewhere.

    The distance is compared with the error that noise adds; 4.5 of it are exceeded once in 10^5 seeds.
    """
    rows, group = 90_000, np.repeat([0.0, 1.0, 2.0], 30_000)
    chance = np.array([0.02, 0.6, 0.3])[group.astype(int)]
    codes = (np.random.default_rng(0).random(rows) < chance).astype(np.int32)
    table, space = {"group": group}, Classes([0, 1])
    truth = estimates(coefficients(Release.public(codes, space), table, ["group"], units="rows"))[0]
    release = randomized(codes, ResponseChannel.at(2, 2.0), 11)
    gaps = {}
    for method in ("auto", "likelihood"):
        coef, error = estimates(coefficients(release, table, ["group"], units="rows", method=method))
        gaps[method] = np.abs(coef - truth) / error
    assert (gaps["auto"] < 4.5).all()
    assert gaps["likelihood"].max() > 9.0


def test_few_labels_are_told_by_their_likelihood(make_release):
    """Unbiased vectors may have no finite estimate where the likelihood has one: the default says that it took that."""
    codes = np.where(np.arange(400) < 40, 0, np.arange(400) % 2).astype(np.int32)
    release, table = make_release(codes, ResponseChannel.at(2, 1.0)), {"place": np.arange(400) < 40}
    found = coefficients(release, table, ["place"], units="rows")
    assert found.method == "likelihood"
    alike = coefficients(release, table, ["place"], units="rows", method="likelihood")
    assert repr(alike.coefficients) == repr(found.coefficients)  # without an estimate there are nans
    with pytest.raises(InputError, match="use fewer columns, or method='likelihood'"):
        coefficients(release, table, ["place"], units="rows", method="unbiased")


def test_another_reference_turns_the_table(randomized):
    """Against another class, coefficients are differences of those against the first."""
    table, _, codes = patients()
    release = randomized(codes, ResponseChannel.at(3, 3.0), 7)
    first, last = (estimates(coefficients(release, table, "age", reference=each))[0] for each in (None, 2))
    np.testing.assert_allclose(last[:2], -first[2:], atol=1e-3)
    np.testing.assert_allclose(last[2:], first[:2] - first[2:], atol=1e-3)


def test_rows_given_twice_say_no_more(make_release):
    """If each row stands there twice, as one unit, errors are those of the rows once."""
    table, _, codes = patients(2000, classes=2)
    channel, doubled = ResponseChannel.at(2, 3.0), pa.concat_tables([table, table])
    once = estimates(coefficients(make_release(codes, channel), table, "age"))[1]
    twice = make_release(np.tile(codes, 2), channel)
    units = np.tile(np.arange(2000), 2)
    np.testing.assert_allclose(estimates(coefficients(twice, doubled, "age", units=units))[1], once, rtol=0.01)
    np.testing.assert_allclose(estimates(coefficients(twice, doubled, "age"))[1], once / np.sqrt(2), rtol=0.01)


@pytest.mark.parametrize("public", [True, False])
def test_separation_is_said_and_bounded_by_its_profile(make_release, public):
    """A ward in which nobody is ill has no finite odds ratio: no estimate, and an upper bound that is a number."""
    table, _, codes = patients(3000, classes=2)
    table = table.append_column("place", pa.array(np.where(np.arange(3000) < 150, "wells", "town")))
    codes[:150] = 0  # which are what is released
    release = (
        Release.public(np.array(["no", "yes"])[codes], SPACE)
        if public
        else make_release(codes, ResponseChannel.at(2, 2.0))
    )
    found = {each.name: each for each in coefficients(release, table, ["age", "place"]).coefficients}
    wells = found["place[T.wells]"]
    assert np.isnan(wells.coef)
    assert np.isnan(wells.p)
    assert wells.low == -np.inf
    assert -6.0 < wells.high < -2.0
    assert np.isfinite([found["age"].coef, found["age"].std_err, found["Intercept"].std_err]).all()


@pytest.mark.parametrize("method", ["likelihood", "unbiased"])
def test_rows_that_are_alike_are_taken_together(randomized, method):
    """Of 2,000 rows with eight different regressors, loss, gradient and information are sums over few rows."""
    rng = np.random.default_rng(12)
    matrix = np.stack([np.ones(2000), rng.integers(0, 4, 2000), rng.integers(0, 2, 2000)], axis=1).astype(float)
    release = randomized(rng.integers(0, 3, 2000).astype(np.int32), ResponseChannel.at(3, 1.5), 6)
    merged, apart = Likelihood(release, matrix, 1, method), Likelihood(release, matrix, 1, method)
    vars(apart)["_kinds"] = apart._rows
    assert len(merged._kinds.inputs) <= (24 if method == "likelihood" else 8)
    at = np.linspace(-1.0, 0.8, merged.size)
    (loss, gradient), (whole, slopes) = merged.value(at), apart.value(at)
    assert loss == pytest.approx(whole)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(merged.information(at), apart.information(at), rtol=1e-9, atol=1e-9)


def test_bounds_that_no_rows_can_show_are_none(make_release):
    """A reference that no row has bounds no log odds beyond those of one row in all, and steps are reported."""
    codes, ward, steps = np.repeat([1, 2, 1, 2], [600, 400, 30, 10]).astype(np.int32), ["A"] * 1000 + ["B"] * 40, []
    release = make_release(codes, ResponseChannel.at(3, 1.0))
    found = coefficients(release, {"ward": ward}, ["ward"], progress=lambda *step: steps.append(step))
    ends = np.array([[each.low, each.high] for each in found.coefficients if np.isnan(each.coef)])
    assert len(ends) >= 2
    assert (np.isinf(ends) | (np.abs(ends) < 2.0 * np.log(1040) + 1.0)).all()
    assert found.common == str(release.space.points[1])
    assert [steps[0], steps[-1]] == [("coefficients", 0, 4), ("coefficients", 4, 4)]


def test_a_profile_stands_beside_an_interval_that_is_not_normal(make_release):
    """In a group of few rows the likelihood is skewed: its interval reaches as far as the likelihood drops by 3.84."""
    group = np.repeat([0.0, 1.0], [2000, 40])
    codes = np.where(group == 1, np.arange(2040) % 13 == 0, np.arange(2040) % 2).astype(np.int32)
    release = make_release(codes, ResponseChannel.at(2, 3.0))
    table = {"group": group}
    first, second = coefficients(release, table, ["group"], method="likelihood").coefficients
    assert first.profile is None
    assert second.profile is not None
    low, high = second.profile
    assert low < second.low
    assert high < second.high
    likelihood = Likelihood(release, np.stack([np.ones(2040), group], axis=1), 0, "likelihood")
    best = likelihood.fit()
    drop = likelihood.profile(best, 1)
    ratio = (second.std_err / model_error(likelihood, best)) ** 2
    assert drop(high) / ratio == pytest.approx(3.84, rel=0.02)
    assert drop(second.coef) == pytest.approx(0.0, abs=1e-6)


def model_error(likelihood, best):
    """The standard error of the second coefficient, if the model is right."""
    turn = likelihood.to_coefficients
    return np.sqrt(np.diag(turn @ np.linalg.inv(likelihood.information(best)) @ turn.T))[1]


def test_a_formula_and_columns_are_one_model(randomized):
    """A formula without functions is the list of its columns; powers and interactions have names of their own."""
    table, _, codes = patients(2000, classes=2)
    release = randomized(codes, ResponseChannel.at(2, 3.0), 9)
    one = coefficients(release, table, "age + ward")
    assert one.coefficients == coefficients(release, table.to_pandas(), ["age", "ward"]).coefficients
    assert one.coefficients == coefficients(release, table, "label ~ age + ward").coefficients
    more = coefficients(release, table, "age * ward + I(age**2)")
    assert [each.name for each in more.coefficients][-2:] == ["I(age ** 2)", "age:ward[T.B]"]


def test_rows_with_gaps_are_left_out_and_counted(randomized):
    """The table is that of the complete rows, with their units."""
    table, _, codes = patients(1000, classes=2)
    release = randomized(codes, ResponseChannel.at(2, 4.0), 10)
    age = table["age"].to_pandas().mask(np.arange(1000) % 10 == 0)
    ward = table["ward"].to_pandas().mask(np.arange(1000) % 15 == 0)
    found = coefficients(release, {"age": age, "ward": ward}, ["age", "ward"])
    complete = np.flatnonzero((age.notna() & ward.notna()).to_numpy())
    assert (found.rows, found.left_out, found.units) == (len(complete), 1000 - len(complete), len(complete))
    assert found.coefficients == coefficients(release[complete], table.take(complete), ["age", "ward"]).coefficients


def test_the_frame_has_the_names_of_statsmodels(randomized):
    """Columns and index are those that statsmodels' summary has."""
    table, _, codes = patients(1000, classes=2)
    frame = coefficients(randomized(codes, ResponseChannel.at(2, 4.0), 11), table, "age + ward").frame()
    assert list(frame.columns) == ["coef", "std err", "z", "P>|z|", "[0.025", "0.975]"]
    assert list(frame.index) == ["Intercept", "age", "ward[T.B]"]
    assert frame.loc["age", "0.975]"] - frame.loc["age", "coef"] == pytest.approx(
        1.96 * frame.loc["age", "std err"], rel=0.01
    )
    assert frame.loc["age", "P>|z|"] < 0.05


@pytest.mark.parametrize(("repeats", "units", "warned"), [(2, None, True), (2, "rows", False), (1, None, False)])
def test_rows_that_may_share_a_unit_are_warned_of(repeats, units, warned):
    """A table warns unless it is told the units, or that rows are meant; the result says it too."""
    curator = Curator(np.tile(["no", "yes"], 60), SPACE, units=np.arange(120) // repeats)
    release, age = curator.randomize(RandomizedResponse(SPACE, 4.0)), np.arange(120) % 7
    with pytest.warns(UnitsWarning) if warned else nullcontext():
        assert coefficients(release, {"age": age}, ["age"], units=units).mixed == warned


@pytest.mark.parametrize(
    ("model", "count"),
    [("scale(age) + ward", 3), ("center(age) + C(ward, contr.treatment('B'))", 3), ("bs(age, df=3)", 4)],
)
def test_functions_of_columns_may_keep_a_state(randomized, model, count):
    """Means, deviations and knots are those of the rows; a slope of a scaled column is that of the column, scaled."""
    table, _, codes = patients(1000, classes=2)
    release = randomized(codes, ResponseChannel.at(2, 4.0), 11)
    frame = coefficients(release, table, model).frame()
    assert len(frame) == count
    if model.startswith("scale"):
        plain = coefficients(release, table, "age + ward").frame()
        deviation = np.std(table["age"], ddof=1)
        assert frame.loc["scale(age)", "coef"] == pytest.approx(plain.loc["age", "coef"] * deviation, rel=1e-3)


REFUSED = {
    "no such column": ((["agee"],), {}, "no column 'agee'.*age"),
    "no such column in a formula": (("agee",), {}, "no column 'agee'"),
    "no formula": (("age + (",), {}, "formula"),
    "another label": (("ill ~ age",), {}, "expected the label 'label'"),
    "logarithms of nothing": (("log(age)",), {}, "finite numbers"),
    "columns that follow": ((["age", "again"],), {}, "follows from the others, found ag"),
    "a constant": ((["age", "same"],), {}, "follows from the others"),
    "another family": ((["age"],), {"family": "linear"}, r"'logistic'.*'linear'"),
    "no family": ((["age"],), {"family": "probit"}, "probit"),
    "no level": ((["age"],), {"level": 0.0}, "level"),
    "more coefficients than rows show": ((["row"],), {}, "at least 99 units.*found 90"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_fitted_is_refused(case):
    """Each refusal says what was found, and what to do."""
    rows = np.arange(90)
    table = pd.DataFrame({"age": rows * 1.0, "again": 2.0 * rows, "same": 3.0, "row": [f"r{row % 89}" for row in rows]})
    release = Curator(np.tile(["no", "yes"], 45), SPACE).randomize(RandomizedResponse(SPACE, 3.0))
    model, more, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        coefficients(release, table, *model, **more)
