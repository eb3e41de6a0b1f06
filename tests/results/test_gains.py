"""The first sentence on a model: whether it is better than a constant prediction, or how many rows would show it."""

import dataclasses
import io
import math

import numpy as np
import pytest
from rich.console import Console

from labeldp import Classes, Release
from labeldp.learning.metrics import Estimate
from labeldp.learning.tables._scores import class_scores
from labeldp.render import on_terminal
from labeldp.results import Evaluated, evaluation_part
from labeldp.results._scores import verdict


@pytest.fixture(scope="module")
def scores():
    """Scores of some predictions."""
    release = Release.public(["no", "yes"] * 50, Classes(["no", "yes"]))
    return class_scores(release, np.tile([0.5, 0.5], (100, 1)))


def gain(value, error):
    """A gain with its interval."""
    return Estimate(value, error, value - 1.96 * error, value + 1.96 * error)


NONE = gain(-0.001, 0.01)


@pytest.mark.parametrize(
    ("better", "log_loss", "text"),
    [
        (
            gain(0.123, 0.02),
            NONE,
            "Better than always predicting the most common class: accuracy +12.3 points (95 % interval +8.4 to +16.2).",
        ),
        (
            gain(-0.2, 0.05),
            NONE,
            "Worse than always predicting the most common class: accuracy -20.0 points (95 % interval -29.8 to -10.2).",
        ),
        (
            gain(0.05, 0.05),
            NONE,
            "The released labels do not show that the model is better than always predicting the most common class: "
            "accuracy +5.0 points (95 % interval -4.8 to +14.8). About 784 rows would show an improvement of +5.0.",
        ),
        (
            gain(-0.02, 0.05),
            NONE,
            "The released labels do not show that the model is better than always predicting the most common class: "
            "accuracy -2.0 points (95 % interval -11.8 to +7.8).",
        ),
        (
            gain(0.3, 0.2),  # which says nothing but that rows are too few
            NONE,
            "The released labels do not show that the model is better than always predicting the most common class: "
            "accuracy -9.2 to +69.2 points (95 % interval). About 3,140 rows would show an improvement of +10.0.",
        ),
        (
            gain(0.0, math.inf),
            NONE,
            "The released labels do not show that the model is better than always predicting the most common class: "
            "accuracy +0.0 points (95 % interval -inf to +inf).",
        ),
        (
            gain(0.0, 0.01),
            gain(0.05, 0.01),
            "Better than always predicting class shares: log loss improvement 0.05 nats (95 % interval 0.0304 to "
            "0.0696). The released labels do not show that the model is better than always predicting the most common "
            "class: accuracy +0.0 points (95 % interval -2.0 to +2.0).",
        ),
    ],
)
def test_the_first_sentence_is_the_result(better, log_loss, text, scores):
    """Better, worse, or not shown; with the rows that would show one as large as estimated, if any was."""
    assert verdict(dataclasses.replace(scores, better=better, log_loss_gain=log_loss))[1] == text


def test_public_labels_are_named_so(scores):
    """They were not released."""
    assert verdict(dataclasses.replace(scores, better=gain(0.0, 0.01)), public=True)[1].startswith(
        "These labels do not"
    )


def test_candidates_are_judged_by_their_likelihood(scores):
    """All that their released labels show."""
    found = dataclasses.replace(scores, better=None, log_loss_gain=None, likelihood_gain=gain(0.03, 0.01))
    assert verdict(found)[1] == (
        "Better than always predicting class shares: log likelihood of the released labels higher by 0.03 nats (95 % "
        "interval 0.0104 to 0.0496)."
    )


@pytest.mark.parametrize("public", [False, True])
def test_the_most_common_class_has_its_share_at_least(scores, public):
    """Of two classes one has half of the labels, so noise below that is not shown; true labels show what was found."""
    noisy = dataclasses.replace(scores, majority=Estimate(0.41, 0.05, 0.31, 0.55))
    parts = on_terminal(evaluation_part(Evaluated("the test", noisy, ("no", "yes"), public)))
    console = Console(width=200, record=True, file=io.StringIO())
    for part in parts:
        console.print(part)
    (line,) = (each for each in console.export_text().splitlines() if "accuracy of the most common class" in each)
    found = [cell.strip() for cell in line.split("│")[2:4]]
    assert found == (["41.0%", "31.0% to 55.0%"] if public else ["at most 55.0%", "50.0% to 55.0%"])


def test_a_printed_gain_is_within_its_interval(scores):
    """Noise can put the estimate beyond what is possible, where the interval ends."""
    noisy = dataclasses.replace(scores, log_loss_gain=Estimate(3.02, 0.9, 0.4, 0.693))
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(*on_terminal(evaluation_part(Evaluated("the test", noisy, ("no", "yes")))))
    (line,) = (each for each in console.export_text().splitlines() if "log loss below" in each)
    assert [cell.strip() for cell in line.split("│")[2:4]] == ["0.693", "0.4 to 0.693"]
