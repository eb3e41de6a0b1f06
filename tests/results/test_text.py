"""What is printed of names that somebody else chose: the names themselves, and nothing that acts on a terminal."""

import dataclasses
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import labeldp as dp
from labeldp import Classes, Release
from labeldp.bounds import plan
from labeldp.cli import main
from labeldp.learning.inference import Coefficient, Coefficients
from labeldp.learning.metrics import Bounds, Estimate, mean_of_rows
from labeldp.learning.tables import ClassScores
from labeldp.learning.tables._scores import class_scores
from labeldp.release.ledger import spent_by_data
from labeldp.render import on_terminal
from labeldp.results import (
    Evaluated,
    Planned,
    coefficients_part,
    evaluation_part,
    ledger_part,
    plan_part,
    shown_release,
    verdict_part,
)
from labeldp.results._blocks import Grid, Picture
from labeldp.results._inference import _digits
from labeldp.results._scores import verdict

MARKUP = [
    "[red]x[/red]",
    "<script>alert(1)</script>",
    "[/]",
    "[link=file:///etc]y[/link]",
    "a&amp;b",
    ":smiley:",
    "%s{}",
]
CONTROL = ["a\x1b[2Jb", "a\x1b]8;;http://x\x07b", "a\x07b", "a\x9b31mb", "a\rb"]


def printed(part, detail=False):
    """A result as a console prints it, wide enough not to fold."""
    out = io.StringIO()
    console = Console(file=out, width=2000)
    for each in on_terminal(part, detail=detail):
        console.print(each)
    return out.getvalue()


def released(folder, name, unit=None):
    """A release whose label column, kept column, unit, class and output carry a name."""
    source = folder / "t.csv"
    quoted = '"' + name.replace('"', '""') + '"'
    lines = [f'{quoted},"y{name}"', *(f"{i // 2},{('a', quoted)[i % 2]}" for i in range(8))]
    source.write_bytes("\n".join(lines).encode() + b"\n")
    return dp.release_table(source, f"y{name}", dp.Classes(["a", name]), 1.0, folder / "out", keep=[name], unit=unit)


@pytest.mark.parametrize("name", MARKUP)
def test_names_are_shown_as_they_are(tmp_path, name):
    """Markup of terminals or of HTML in a column's name is shown, not obeyed."""
    done = released(tmp_path, name, unit=name)
    text = printed(shown_release(done))
    assert f"columns         {name}, y{name}_released" in text.replace("\t", " ")
    assert f"all labels of one {name} " in text
    entries = dp.Ledger(done.ledger).entries()
    shown = printed(ledger_part("l", entries, spent_by_data(entries)))
    assert f"│ y{name} " in shown
    assert f"│ {name} " in shown
    assert f"one for each value of {name!r}, were declared" in printed(verdict_part(dp.verify(done.output)))


@pytest.mark.parametrize("name", MARKUP)
def test_paths_are_shown_as_they_are(tmp_path, name):
    """A folder whose name looks like markup is named as it is."""
    folder = tmp_path / name.replace("/", "|")
    folder.mkdir()
    done = released(folder, "x")
    assert str(done.output) in printed(shown_release(done))


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("name", CONTROL)
def test_control_characters_do_not_reach_the_terminal(tmp_path, capsys, monkeypatch, name, colour):
    """A name that would clear the screen, ring the bell or make a link is printed without what acts."""
    done = released(tmp_path, name, unit=name)
    if colour:
        monkeypatch.setenv("FORCE_COLOR", "1")
    quoted = [str(tmp_path / "t.csv"), "--label", f"y{name}", "--classes", f"a,{name}", "--epsilon", "1"]
    again = [*quoted, "--unit", name, "--keep", name, "--output", str(tmp_path / "two"), "--budget", "2"]
    for command in (["verify", str(done.output)], ["release", *again], ["ledger", str(done.ledger)]):
        assert main(command) == 0
        text = capsys.readouterr().out
        assert not set("\x07\x9b\r") & set(text)
        assert "\x1b[2J" not in text
        assert "\x1b]8" not in text


@pytest.mark.parametrize("text", CONTROL[:2])
def test_a_hostile_certificate_does_not_act_on_the_terminal(tmp_path, capsys, text):
    """Declarations in somebody else's release are printed, not obeyed."""
    done = released(tmp_path, "x")
    path = done.output / "_certificate.json"
    body = json.loads(path.read_text(encoding="utf-8")) | {"assumptions": [text]}
    path.write_text(json.dumps(body), encoding="utf-8")
    assert main(["verify", str(done.output)]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("name", [*CONTROL[:2], "[red]x[/red]"])
def test_errors_show_names_as_they_are(tmp_path, capsys, name):
    """A message that lists the columns of a table shows their names and obeys nothing in them."""
    source = tmp_path / "t.csv"
    source.write_text(f'"{name}",y\n1,a\n', encoding="utf-8")
    arguments = ["--label", "y", "--classes", "a,b", "--epsilon", "1", "--keep", "z", "--output", str(tmp_path / "o")]
    assert main(["release", str(source), *arguments]) == 1
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert ("[red]x[/red]" in shown) == name.startswith("[red]")


def test_many_columns_are_shortened(tmp_path):
    """A wide table's columns are counted, not all listed."""
    names = [f"c{i}" for i in range(40)]
    rows = [[*names, "y"], *([*map(str, range(40)), "ab"[i % 2]] for i in range(6))]
    (tmp_path / "t.csv").write_text("".join(f"{','.join(row)}\n" for row in rows), encoding="utf-8")
    done = dp.release_table(tmp_path / "t.csv", "y", dp.Classes(["a", "b"]), 1.0, tmp_path / "out", drop=[])
    assert "c0, c1, c2, c3, c4, c5 ... y_released (41)" in printed(shown_release(done))


def test_no_label_is_in_what_is_said_of_a_release(tmp_path):
    """The words about a release hold no class."""
    text = printed(shown_release(released(tmp_path, "x")))
    assert "'a'" not in text
    assert "73.1% of rows" in text


def test_an_option_that_is_missing_is_a_dash():
    """In the sweep, a mechanism that cannot express an epsilon has a dash there."""
    text = printed(plan_part(Planned.of(plan(10, 100, 1.0, [1e-16, 1.0]))), detail=True)
    (line,) = [line for line in text.splitlines() if line.startswith("│ randomized-response") and line.count("│") == 4]
    options = plan(10, 100, 1.0).options
    (share,) = [option.share for option in options if option.mechanism == "randomized-response"]
    assert [cell.strip() for cell in line.split("│")[2:4]] == ["-", f"{share:.2%}"]


def shares(estimate, **scores):
    """The figures of a printed table by their names, of predictions with this accuracy."""
    loss = mean_of_rows(np.array([0.5, 0.7]), 0.95)
    found = ClassScores(9, loss, estimate, log_loss=loss, likelihood_gain=loss, **scores)
    text = printed(evaluation_part(Evaluated("labels", found, ("a", "b"))))
    return {
        line[0]: line[1:] for row in text.splitlines() if len(line := [c.strip() for c in row.split("│")[1:-1]]) > 2
    }, text


@pytest.mark.parametrize(
    ("value", "error", "low", "high", "told"),
    [
        (2.127, 0.3, 1.0, 1.0, " About 50 rows would do."),
        (-0.5, 0.1, 0.0, 0.0, ""),
        (2.127, 2.0, 0.0, 1.0, " About 2,300 rows would do."),
        (0.6, 0.26, 0.1, 0.9, " About 38 rows would do."),
        (0.6, 0.14, 0.34, 0.86, " About 11 rows would do."),
        (1.0, 0.0, 0.0, 1.0, ""),
        (math.nan, math.inf, 0.0, 1.0, ""),
        (-0.014, 0.2, 0.0, 0.348, ("at most 34.8%", "0.0% to 34.8%")),
        (1.002, 0.1, 0.8, 1.0, ("at least 80.0%", "80.0% to 100.0%")),
        (1.0, 0.0, 1.0, 1.0, ("100.0%", "100.0% to 100.0%")),
        (1.0 + 2**-52, 0.0, 1.0, 1.0, ("100.0%", "100.0% to 100.0%")),
        (0.0, 0.0, 0.0, 0.0, ("0.0%", "0.0% to 0.0%")),
        (0.5, 0.1, 0.3, 0.7, ("50.0%", "30.0% to 70.0%")),
    ],
)
def test_no_share_is_shown_that_cannot_be(value, error, low, high, told):
    """Estimates at 0 or 100 % or beyond are a bound; those that say nothing are named once, with what would do.

    From 9 rows with a standard error of 0.3, an interval of half of the range takes 9 (3.92 0.3 / 0.5)^2 = 49.8 rows.
    """
    score = Estimate(value, error, low, high)
    names = ("accuracy", "balanced accuracy (mean recall)", "area under the ROC")
    found, text = shares(score, auc=score, balanced_accuracy=score)
    if isinstance(told, tuple):
        assert {tuple(found[name]) for name in names} == {told}
        assert "Too few rows" not in text
        assert ("read the intervals, not the estimates" in text) == (error > 0)
    else:
        assert not {*names} & {*found}
        assert f"Too few rows for their noise to tell: {', '.join(names)}.{told}\n" in text
        assert "read the intervals" not in text


@pytest.mark.parametrize(("error", "points"), [(0.05, None), (0.052, "10"), (0.09, "18")])
def test_estimates_off_by_ten_points_are_said_to_be(error, points):
    """Of an accuracy whose interval is that wide, the table says by how much it may be off, and where it is cut."""
    _, text = shares(Estimate(0.98, error, max(0.0, 0.98 - 1.96 * error), 1.0))
    said = f"to within {points} points (95 %): read the intervals, not the estimates, which are cut at 0 % and 100 %."
    assert (said in " ".join(text.split())) == (points is not None)
    assert ("read the intervals" in text) == (points is not None)


def test_where_the_accuracy_is_not_told_no_other_share_is():
    """They are of the same rows: one that seems clear is so by chance, and contradicts what is true."""
    unclear, clear = Estimate(0.6, 0.2, 0.2, 1.0), Estimate(0.27, 0.05, 0.17, 0.37)
    found, text = shares(unclear, balanced_accuracy=clear)
    assert {"accuracy", "balanced accuracy (mean recall)"}.isdisjoint(found)
    assert "tell: accuracy, balanced accuracy (mean recall). About 23 rows would do." in text
    found, text = shares(clear, balanced_accuracy=unclear)
    assert found["accuracy"] == ["27.0%", "17.0% to 37.0%"]
    assert "tell: balanced accuracy (mean recall)." in text


def test_the_area_of_several_classes_is_a_mean():
    """What it is the mean of is said."""
    score = Estimate(0.5, 0.1, 0.3, 0.7)
    found = ClassScores(9, score, score, auc=score, likelihood_gain=score)
    assert "area under the ROC, mean of each class against the rest" in printed(
        evaluation_part(Evaluated("labels", found, ("a", "b", "c")))
    )


def test_bounds_are_shares():
    """What accuracy lies between is never below 0 % or above 100 %."""
    found, _ = shares(Bounds(-0.2, 1.3, 0.0, 1.0))
    assert found["accuracy lies between"] == ["0.0% and 100.0%", "0.0% to 100.0%"]
    assert found["log loss (nats)"][0] == "0.6"


def test_classes_that_are_never_predicted_are_named():
    """A model that names no row so is said to, with the class; twelve are named, others counted."""
    assert "never predicted" not in shares(Estimate(0.5, 0.1, 0.3, 0.7))[0]
    assert shares(Estimate(0.5, 0.1, 0.3, 0.7), unpredicted=(1,))[0]["never predicted"][0] == "b"
    gain = Estimate(0.1, 0.1, 0.0, 0.2)
    many = ClassScores(9, gain, Estimate(0.5, 0.1, 0.3, 0.7), likelihood_gain=gain, unpredicted=tuple(range(14)))
    assert "and 2 more" in printed(evaluation_part(Evaluated("labels", many, tuple(range(20)))))


def test_the_likelihood_says_whose_it_is():
    """It is that of released labels, where they are released; public labels have no other."""
    gain = Estimate(0.1, 0.1, 0.0, 0.2)
    each = ClassScores(9, gain, Estimate(0.5, 0.1, 0.3, 0.7), likelihood_gain=gain)
    name = "log likelihood of released labels, gain over uniform guessing (nats)"
    assert name in printed(evaluation_part(Evaluated("labels", each, ("a", "b"))))
    public = printed(evaluation_part(Evaluated("labels", each, ("a", "b"), public=True)))
    assert name not in public
    assert "log likelihood, gain over uniform guessing (nats)" in public


def test_a_delta_that_was_spent_is_said(tmp_path):
    """What is spent has its delta where there is one."""
    done = released(tmp_path, "x")
    assert "epsilon 1 of 1 for this label, over all releases" in printed(shown_release(done))
    some = dataclasses.replace(done, spent=(0.5, 1e-8), budget=dp.Budget(1.0, 1e-6))
    assert "epsilon 0.5 of 1 and delta 1e-08 of 1e-06 for this label, over all releases" in printed(shown_release(some))


NUMBERS = dp.Interval(0.0, 10.0, 0.5)
PAIR = dp.Classes(["a", "b"])
SAID = {
    "counts": (
        dp.NoisyHistogram(PAIR, 1.0),
        "standard error 2.8 from noise; any one count is off by at most 6, with a prob",
    ),
    "means": (
        dp.NoisyMean(NUMBERS, 1.0, [0, 0, 0, 1]),
        "standard error 4.71 to 14.1 from noise; any one mean of clipped labels is off by at most",
    ),
    "quantiles": (
        dp.NoisyQuantile(NUMBERS, 8.0, 0.5),
        "noise the released point misses the rank of its quantile by at most 1",
    ),
    "classes": (
        dp.NoisyArgmax(PAIR, 1.0),
        "noise in rows, the named class is at most 4 behind the most common one, with a",
    ),
    "many": (
        dp.NoisyTopK(PAIR, 8.0, top=2),
        "noise in rows, a named class is at most 0 behind any class that is not named be",
    ),
    "sums": (
        dp.LabelMoments(PAIR, 1.0, 1e-6, np.ones((4, 1))),
        "standard error 5.97 from noise; each sum is off by at most 11.7",
    ),
}


@pytest.mark.parametrize("kind", SAID)
def test_what_is_said_of_an_answer_has_the_size_of_its_noise(tmp_path, kind):
    """Its standard error where it is a sum of numbers and noise, and how far off it is with 95 %."""
    query, said = SAID[kind]
    labels = ["a", "b", "a", "a"] if isinstance(query.space, dp.Classes) else [1.0, 2.0, 3.0, 4.0]
    folder = dp.Curator(labels, query.space).answer(query).save(tmp_path / "out")
    text = printed(verdict_part(dp.verify(folder)))
    assert said in " ".join(text.split())
    assert "with a probability of 95%" in text


def test_the_size_of_unknown_noise_is_not_said(tmp_path):
    """Old means list no rows of cells: no line is printed, and the noise on a single mean is known all the same."""
    golden = Path(__file__).parents[1] / "golden" / "python"
    assert "standard error" not in printed(verdict_part(dp.verify(golden / "noisy-mean")))
    assert "standard error" not in printed(verdict_part(dp.verify(golden / "noisy-mean-clipped")))
    assert np.isfinite(dp.Answer.load(golden / "noisy-mean-clipped").standard_error).all()
    done = dp.release_table(write(tmp_path), "y", PAIR, 1.0, tmp_path / "out", keep=[], mechanism="noisy-histogram")
    said = "noise standard error 2.8 from noise; any one count is off by at most 6"
    assert said in " ".join(printed(shown_release(done)).split())


def write(folder):
    """A table of labels."""
    (folder / "t.csv").write_text("x,y\n" + "1,a\n2,b\n" * 10, encoding="utf-8")
    return folder / "t.csv"


def test_a_charge_of_nothing_that_left_is_shown_and_not_counted(tmp_path, monkeypatch):
    """It is void: neither the number of charges nor the total nor the line over time has it."""
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{row},{row % 2}\n" for row in range(30)), encoding="utf-8")
    given = {"keep": ["x"], "budget": 2.0, "unit": "row"}
    dp.release_table(tmp_path / "t.csv", "y", dp.Classes([0, 1]), 0.5, tmp_path / "one", **given)
    monkeypatch.setattr("labeldp.release.curator._drawing.draw", None)
    with pytest.raises(TypeError):
        dp.release_table(tmp_path / "t.csv", "y", dp.Classes([0, 1]), 1.0, tmp_path / "lost", **given)
    entries = dp.Ledger(tmp_path / "t.csv.labeldp-ledger").entries()
    part = ledger_part("t", entries, spent_by_data(entries))
    assert part.result == "1 charge counted, for 1 label, epsilon 0.5"
    text = printed(part, detail=True)
    assert "released: written; counted. void: never written; not counted." in text
    assert re.search(r"│ y +│ 0\.5 +│ 2 +│", text)
    (chart,) = (block.chart for section in part.sections for block in section.blocks if isinstance(block, Picture))
    assert [(name, [total for _, total in points]) for name, points in chart.lines] == [("y", [0.5])]


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.0007917, 0.0354, "1.0007 to 1.04"),
        (-0.0354, -0.0007917, "0.965 to 0.9993"),
        (-0.0007917, 0.0354, "0.999 to 1.04"),
        (0.0, 0.0354, "1 to 1.04"),
        (0.0007917, math.inf, "at least 1.0007"),
    ],
)
def test_an_odds_ratio_that_differs_from_one_is_not_rounded_to_one(low, high, words):
    """An interval without 1 shows a difference: what stands beside it says that one with 1 shows none."""
    one = Coefficient("yes", "age", 0.02, 0.009, 2.0, 0.04, low, high)
    part = coefficients_part(Coefficients((one,), "logistic", "no", 3000, 0, 1500, 0.95))
    (grid,) = (block for block in part.sections[-1].blocks if isinstance(block, Grid))
    assert grid.rows[0][-1] == words


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-38.1, math.inf, "too few rows for this noise"),
        (-math.inf, 22.0, "too few rows for this noise"),
        (-0.5, math.inf, "at least 0.606"),
        (-20.0, 1.0, "at most 2.72"),
    ],
)
def test_a_bound_that_says_nothing_is_not_printed(low, high, words):
    """Without an estimate an odds ratio of "at least 1e-17" is none; and the most common class is named."""
    one = Coefficient("b", "age", math.nan, math.inf, math.nan, math.nan, low, high)
    table = Coefficients((one,), "multinomial", "a", 3000, 0, 1500, 0.95, common="c d")
    part = coefficients_part(table)
    (grid,) = (block for block in part.sections[-1].blocks if isinstance(block, Grid))
    assert grid.rows[0][-2:] == ("none", words)
    assert "in comparison with c d" in str(part)
    assert "in comparison" not in str(coefficients_part(dataclasses.replace(table, reference="c d")))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12_951.4, "12,950"),
        (-1_119.2, "-1,119"),
        (0.01234, "0.01234"),
        (394.25, "394.2"),
        (2.5e12, "2.5e+12"),
        (0, "0"),
    ],
)
def test_a_coefficient_has_four_digits(value, text):
    """With commas at thousands, and without an exponent where people would write none."""
    assert _digits(value) == text


# The first sentence on a model: whether it is better than a constant prediction, or how many rows would show it.


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
