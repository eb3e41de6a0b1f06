"""The page of a model's scores, and of an answer: calibration, confusion and noise, and nothing that noise made."""

import dataclasses
import json
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labeldp as dp
from labeldp._strict_json import plain
from labeldp.bounds.planning import Conventions, effective_dimension, forecast
from labeldp.errors import InputError
from labeldp.learning import metrics
from labeldp.learning.tables._scores import class_scores, in_folds, number_scores
from labeldp.release.folder import read_certificate
from labeldp.render._drawings import drawn as svg_of
from labeldp.results import Evaluated, Planned, plan_part, result_part
from labeldp.results import _blocks as blocks
from labeldp.results._answer import answer_blocks
from labeldp.results._numbers import is_clear
from labeldp.results._release_page import _dimension, _learning, _planned

GOLDEN = Path(__file__).parents[1] / "golden"
SPACE = dp.Classes(["no", "yes", "perhaps"])


def judged(rows, epsilon, public=False, seed=0):
    """Predictions that are right as often as they say, true codes, and labels."""
    random = np.random.default_rng(seed)
    stated = random.dirichlet([0.5] * 3, rows)
    codes = (random.random((rows, 1)) > stated.cumsum(axis=1)).sum(axis=1).clip(max=2)
    labels = np.array(SPACE.points)[codes]
    if public:
        return stated, codes, dp.Release.public(labels, SPACE)
    return stated, codes, dp.Curator(labels, SPACE).randomize(dp.RandomizedResponse(SPACE, epsilon))


@pytest.mark.parametrize(
    ("low", "high", "error", "range_", "clear"),
    [
        (0.3, 0.7, 0.1, 1.0, True),
        (0.2, 0.71, 0.1, 1.0, False),
        (0.0, 0.2, 0.26, 1.0, False),  # cut at 0, of an error that fills the range
        (0.0, 0.2, 0.26, 2.0, True),
        (1.0, 1.0, 0.01, 1.0, False),  # cut to a point
        (1.0, 1.0, 0.0, 1.0, True),
        (0.0, 0.0, 0.0, 0.0, True),  # of no rows
    ],
)
def test_an_interval_is_clear_if_it_says_something(low, high, error, range_, clear):
    """At most half of the range, and not narrow for the reason alone that it was cut where the range ends."""
    assert is_clear(low, high, error, range_) == clear


def part_of(tmp_path, scores, change=lambda body: body):
    """The page of scores that were saved."""
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(change(plain(Evaluated.of(scores, "released labels", SPACE)))), encoding="utf-8")
    return result_part(path)


def block(part, kind, title):
    """The first block of a kind in the section with a title; None where there is none."""
    found = [each for section in part.sections if title in section.title for each in section.blocks]
    return next((each for each in found if isinstance(each, kind)), None)


@pytest.mark.parametrize("folds", [None, 5])
def test_counts_by_true_and_predicted_class_hold_the_true_ones(folds):
    """They lie between 0 and the rows of their predicted class, add up, and intervals hold those of true labels."""
    stated, codes, release = judged(6000, 2.0)
    found = class_scores(release, stated, None if folds is None else np.arange(6000) % folds)
    true = np.zeros((3, 3))
    np.add.at(true, (codes, stated.argmax(axis=1)), 1)
    assert found.predicted == tuple(true.sum(axis=0).astype(int))
    counts = found.confusion
    assert (counts.low >= 0).all()
    assert (counts.high <= np.array(found.predicted)).all()
    assert (np.abs(counts.value.sum(axis=0) - found.predicted) < 1e-6).all()
    # nine intervals at 95 %: five or more miss with a probability below 1e-3 (binomial, rows of a class apart)
    assert ((counts.low <= true) & (true <= counts.high)).sum() >= 5
    if folds:
        assert (counts.high - counts.low > (class_scores(release, stated).confusion.high - counts.low) - 1e-9).all()


def test_predicted_classes_are_right_as_often_as_public_labels_say():
    """On public labels the frequency in a bin is the accuracy there, and limits of bins are those that were passed."""
    stated, codes, release = judged(900, 1.0, public=True)
    limits = [0.5, 0.6, 0.9]
    named = dp.ClassProbabilities(stated, SPACE.points)
    curve = metrics.calibration(release, named, bins=limits)
    place = np.searchsorted(limits, stated.max(axis=1))
    for i in range(4):
        assert curve.rows[i] == (place == i).sum()
        assert curve.frequency.value[i] == pytest.approx((stated.argmax(axis=1) == codes)[place == i].mean())
        assert curve.predicted[i] == pytest.approx(stated.max(axis=1)[place == i].mean())
    with pytest.raises(Exception, match="limits of bins that increase"):
        metrics.calibration(release, named, bins=[0.5, 0.5])


def test_bins_are_as_many_as_labels_can_tell():
    """From few effective rows one, from many ten."""
    few, many = (class_scores(each[2], each[0]).calibration for each in (judged(200, 0.5), judged(8000, 4.0)))
    assert (len(few.rows), len(many.rows)) == (1, 10)
    assert many.rows.min() > 700


def test_a_page_says_where_estimates_are_rough(tmp_path):
    """Of an accuracy known to within 18 points, that it is; of one known to within a point, nothing."""
    stated, _, release = judged(6000, 2.0)
    scores = class_scores(release, stated)
    rough = dataclasses.replace(scores, accuracy=metrics.Estimate(0.9, 0.09, 0.72, 1.0))
    texts = [
        [each.text for each in part_of(tmp_path, of).sections[0].blocks if isinstance(each, blocks.Prose)]
        for of in (scores, rough)
    ]
    assert not any(text.startswith("These rows tell") for text in texts[0])
    assert texts[1][0].startswith("These rows tell the accuracy to within 18 points")


def test_a_score_of_noise_is_not_shown(tmp_path):
    """Of 40 rows at epsilon 0.1 no share, no count and no bin; the page says that these labels cannot show them."""
    stated, _, release = judged(40, 0.1)
    part = part_of(tmp_path, class_scores(release, stated))
    assert part.result == "Not shown to be better than always predicting the most common class"
    heed, _ = [each for each in part.sections[0].blocks if isinstance(each, blocks.Prose)]
    assert heed.text.startswith("Too few rows for their noise to tell: accuracy, ")
    assert block(part, blocks.Picture, "Scores") is None
    assert not any("%" in cell for row in block(part, blocks.Grid, "Scores").rows for cell in row)
    for title in ("Calibration", "true classes"):
        assert block(part, blocks.Grid, title) is None
        assert "cannot show it" in next(each for each in part.sections if title in each.title).blocks[-1].text


def test_the_most_common_class_has_its_share_at_least(tmp_path):
    """Of three classes one has a third of the labels, whatever noise says."""
    stated, _, release = judged(300, 1.0)
    low = metrics.Estimate(0.31, 0.04, 0.23, 0.41)
    part = part_of(tmp_path, dataclasses.replace(class_scores(release, stated), majority=low))
    rows = {row[0]: row[1:] for row in block(part, blocks.Grid, "Scores").rows}
    assert rows["accuracy of the most common class"] == ("at most 41.0%", "33.3% to 41.0%")


def test_scores_of_before_have_a_page(tmp_path):
    """A result that was saved before these figures were there: a page without them."""
    stated, _, release = judged(500, 2.0)

    def older(body):
        scores = {name: each for name, each in body["scores"].items() if name not in NEW}
        return {"judged_by": body["judged_by"], "scores": scores}

    assert [each.title for each in part_of(tmp_path, class_scores(release, stated), older).sections] == ["Scores"]


NEW = {"predicted", "confusion", "counted", "calibration"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"predicted": []},
        {"predicted": [1] * 500},
        {"counted": [2, 7, 0, 0, 1]},
        {"counted": []},
        {"confusion": {end: [[1.0], [2.0, 3.0], []] for end in ("value", "error", "low", "high")}},
        {"confusion": {"value": [[9e9]], "error": [[1.0]], "low": [[-7.0]], "high": [[None]]}},
        {
            "calibration": {
                "predicted": [5.0, None],
                "frequency": {e: [9.0] for e in ["value", "error", "low", "high"]},
                "rows": [1],
            }
        },
    ],
)
def test_forged_scores_have_a_page_too(tmp_path, wrong):
    """Lists of other lengths, and numbers beyond what can be: clipped, said to be missing, or no result at all."""
    stated, _, release = judged(500, 2.0)
    scores = class_scores(release, stated)
    with suppress(InputError):
        part = part_of(tmp_path, scores, lambda body: {**body, "scores": {**body["scores"], **wrong}})
        for section in part.sections[1:]:
            for grid in [each for each in section.blocks if isinstance(each, blocks.Grid)]:
                for number in re.findall(r"([\d.]+)%", str(grid.rows)):
                    assert float(number) <= 100.0


def test_of_many_classes_those_that_are_predicted_most_often_are_counted(tmp_path):
    """Twenty of thirty, with the counts that all thirty together have, and the page says which they are."""
    space, random = dp.Classes([f"c{i:02}" for i in range(30)]), np.random.default_rng(5)
    codes = np.minimum(random.geometric(0.08, 4000) - 1, 29)[::-1]
    stated = np.full((4000, 30), 0.1 / 29)
    stated[np.arange(4000), 29 - codes] = 0.9  # the last classes are predicted most often
    release = dp.Curator(np.array(space.points)[29 - codes], space).randomize(dp.RandomizedResponse(space, 3.0))
    found = class_scores(release, stated, np.arange(4000) % 5)
    often = np.sort(np.argsort(-np.bincount(29 - codes, minlength=30), kind="stable")[:20])
    assert found.counted == tuple(often)
    every = metrics.confusion_matrix(release, np.array(space.points)[29 - codes])
    np.testing.assert_allclose(found.confusion.value, every.value[np.ix_(often, often)], atol=1e-9)
    assert (found.confusion.high <= np.array(found.predicted)[often]).all()
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(plain(Evaluated.of(found, "released labels", space))), encoding="utf-8")
    part = result_part(path)
    grid = block(part, blocks.Grid, "true classes")
    assert [row[0] for row in grid.rows] == [space.points[code] for code in often]
    assert any("Of 30 classes these are the 20" in str(each) for each in part.sections[-1].blocks)


def predicted_numbers(rows, epsilon, seed=0):
    """Predictions that are right on average, numeric labels around them, and their release; public without epsilon."""
    random, space = np.random.default_rng(seed), dp.Interval(0, 10, 1)
    predicted = random.uniform(2, 8, rows)
    labels = np.floor(predicted + random.uniform(0, 1, rows)) + random.integers(-1, 2, rows)
    if epsilon is None:
        return predicted, labels, dp.Release.public(labels, space)
    return predicted, labels, dp.Curator(labels, space).randomize(dp.LaplaceResponse(space, epsilon))


@pytest.mark.parametrize("folds", [None, 5])
def test_mean_labels_by_prediction_hold_the_true_ones(folds):
    """In ten bins of predictions the interval holds the mean of true labels there, and fits to folds widen it."""
    predicted, labels, release = predicted_numbers(20_000, 2.0)
    found = number_scores(release, predicted).calibration
    assert len(found.rows) == 10
    assert found.rows.sum() == 20_000
    limits = np.quantile(predicted, np.linspace(0, 1, 11)[1:-1])
    place = np.searchsorted(limits, predicted)
    true = np.bincount(place, weights=labels) / found.rows
    np.testing.assert_allclose(found.predicted, np.bincount(place, weights=predicted) / found.rows)
    # ten intervals at 95 %: four or more miss with a probability near 1e-3 (binomial)
    assert ((found.mean.low <= true) & (true <= found.mean.high)).sum() >= 7
    assert (found.mean.high - found.mean.low < 1.5).all()
    if folds:
        wider = in_folds(number_scores(release, predicted), {"gain": 2.0}).calibration.mean
        np.testing.assert_allclose(wider.high - wider.value, 2.0 * (found.mean.high - found.mean.value))


def test_mean_labels_of_public_labels_are_theirs():
    """Each bin has the mean of its labels; units make its interval wider; of released bins of labels there is none."""
    predicted, labels, release = predicted_numbers(600, None)
    found = metrics.number_calibration(release, predicted, [4.0, 6.0])
    for b, rows in enumerate(predicted <= end for end in (4.0, 6.0, 9.0)):
        here = rows & (predicted > (0.0, 4.0, 6.0)[b])
        assert found.rows[b] == here.sum()
        assert found.mean.value[b] == pytest.approx(labels[here].mean())
    units = np.argsort(np.argsort(labels)) // 20
    assert (metrics.number_calibration(release, predicted, [4.0, 6.0], units=units).mean.error > found.mean.error).all()
    binned = dp.Curator(labels, release.space).randomize(dp.BinResponse(release.space, 1.0, np.full(11, 1 / 11)))
    assert metrics.number_calibration(binned, predicted, [5.0]) is None


def test_bins_of_predictions_are_as_many_as_labels_can_tell():
    """One where noise drowns the differences of predictions, or where these are all alike."""
    predicted, _, release = predicted_numbers(300, 0.1)
    assert len(number_scores(release, predicted).calibration.rows) == 1
    _, _, clear = predicted_numbers(5000, None)
    assert len(number_scores(clear, np.full(5000, 5.0)).calibration.rows) == 1


@pytest.mark.parametrize(("rows", "epsilon", "drawn"), [(20_000, 2.0, True), (300, 0.1, False)])
def test_numbers_have_a_page_with_calibration(tmp_path, rows, epsilon, drawn):
    """A figure with the interval of each bin, or that none can be told apart; and a table of bins."""
    predicted, _, release = predicted_numbers(rows, epsilon)
    path = tmp_path / "scores.json"
    body = plain(Evaluated.of(number_scores(release, predicted), "released labels", release.space))
    path.write_text(json.dumps(body), encoding="utf-8")
    part = result_part(path)
    picture, grid = (block(part, kind, "Calibration") for kind in (blocks.Picture, blocks.Grid))
    assert (picture is not None) == drawn
    assert len(grid.rows) == len(body["scores"]["calibration"]["rows"])
    if drawn:
        assert svg_of(picture.chart).count("<circle") == 10
        assert "mean label" in svg_of(picture.chart).split(">")[0]
    forged = {"predicted": [1e308, -1e308, None], "mean": {e: [2.0, 2.0] for e in ("value", "low", "high")}, "rows": []}
    forged["mean"]["error"] = [0.0, 1.0]
    for rows_of_bins in ([], [1, 2, 3]):
        body["scores"]["calibration"] = {**forged, "rows": rows_of_bins}
        path.write_text(json.dumps(body), encoding="utf-8")
        with suppress(InputError):  # lists of other lengths may be no result
            assert result_part(path).sections[1].title.startswith("Calibration")


def test_an_answer_has_error_bars(tmp_path):
    """The number of each class within its bar, the margin of the noise, and never below 0 or above all rows."""
    labels = ["no"] * 900 + ["yes"] * 2
    answer = dp.Curator(labels, SPACE, name="ill").answer(dp.NoisyHistogram(SPACE, 0.1))
    folder = answer.save(tmp_path / "counts")
    picture, grid = answer_blocks(folder, read_certificate(folder))
    assert isinstance(grid, blocks.Grid)
    for name, value, margin in zip(SPACE.points, answer.value[0], answer.margin()[0], strict=True):
        low, high = (min(max(value + sign * margin, 0), 902) for sign in (-1, 1))
        assert f"{name}: {_shown(low)} to {_shown(high)}" in svg_of(picture.chart)


def _shown(value):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{float(f'{value:.3g}'):g}"


@pytest.mark.parametrize(
    ("name", "drawn"),
    [("noisy-mean-uncut", True), ("label-moments", True), ("noisy-argmax", False), ("noisy-quantile", False)],
)
def test_answers_of_numbers_and_noise_are_drawn(name, drawn):
    """Means and sums have bars; classes and quantiles have a margin in other units, and none."""
    folder = GOLDEN / "python" / name
    found = [each for each in answer_blocks(folder, read_certificate(folder)) if isinstance(each, blocks.Picture)]
    assert len(found) == drawn
    if drawn:
        answer = dp.Answer.load(folder)
        assert svg_of(found[0].chart).count("<circle") == min(12, np.isfinite(answer.value).sum())


def test_a_release_expects_what_a_plan_does(tmp_path):
    """The error that a plan states for the mechanism, then its assumptions; nothing of an answer."""
    random = np.random.default_rng(0)
    table = pd.DataFrame({"a": random.normal(size=600), "b": random.integers(0, 9, 600), "c": ["x"] * 600})
    table["d"] = table["a"] + 0.1 * random.normal(size=600)
    release = dp.Curator(["no"] * 600, SPACE, name="ill").randomize(dp.RandomizedResponse(SPACE, 1.0))
    folder = release.save(tmp_path / "shared", table, keep="all")
    certificate = read_certificate(folder)
    dimension = effective_dimension(np.cov(table[["a", "b", "d"]].T)).participation
    assert _dimension(folder, certificate) == pytest.approx(dimension) != 3
    planned = forecast(SPACE, 600, certificate.guarantee.epsilon, epsilons=(), conventions=Conventions(dimension))
    assert _planned(folder, certificate).options == planned.options
    said = [block.text for block in _learning(folder, certificate) if isinstance(block, blocks.Prose)]
    assert said[1] == f"Assumed: {'; '.join(planned.assumptions)}."
    assert said[0][1:] in plan_part(Planned.of(planned)).lead[2]
    counts = GOLDEN / "command/noisy-histogram"
    assert _planned(counts, read_certificate(counts)) is None
    assert _planned(folder, dataclasses.replace(certificate, rows=0)) is None
