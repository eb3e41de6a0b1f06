"""``labeldp plan``: what each mechanism keeps, printed and drawn."""

import itertools
import json
import math
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, Guarantee, Interval, Ledger, verify
from labeldp.bounds import Conventions, forecast, plan
from labeldp.results._numbers import three_digits


def test_what_is_printed_is_the_plan(run):
    """Every option is a row with its numbers, and the one that auto takes is marked."""
    ran = run("plan", "--classes", 10, "--rows", 5000, "--epsilon", 1.5, "--detail")
    assert (ran.code, ran.err) == (0, "")
    lines = cells(ran)
    found = plan(10, 5000, 1.5)
    for line, option in zip(lines, found.options, strict=False):
        assert line == [
            option.mechanism,
            option.detail,
            f"{option.truth_probability:.1%}",
            f"{option.effective_rows:,}",
            f"{option.share:.2%}",
            f"{option.at_most:,}",
            three_digits(option.variance),
            "auto" if option.auto else "",
        ]
    over = lines[len(found.options) :]
    assert len(over) == 4
    assert all(len(line) == 1 + len(found.sweep) for line in over)
    for i, row in enumerate(found.sweep):
        assert over[0][1 + i] == f"{row[0].share:.2%}"
    assert "\nEffective rows assume even classes (10 % each): pass --shares, --from or --buy" in ran.out


@pytest.mark.parametrize(
    "wrong",
    [
        {"classes": 1},
        {"classes": 1 << 25},
        {"rows": 0},
        *({"epsilon": text} for text in ("nan", "0", "800")),
    ],
    ids=str,
)
def test_a_plan_that_cannot_be_made(run, wrong):
    """Numbers outside what is possible are refused in words."""
    given = {"classes": 4, "rows": 100, "epsilon": 1} | wrong
    ran = run("plan", *(part for name, value in given.items() for part in (f"--{name}", value)))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: expected")
    assert "found" in ran.err


def test_one_row_is_not_several(run):
    """A single effective row is named in the singular."""
    ran = run("plan", "--rows", 1000, "--classes", 10, "--epsilon", 0.2)
    assert "as informative as about 1 true label of 1,000" in ran.out


def rows_of(text):
    """The rows of printed tables, as lists of texts."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line[:1] == "│"]


def overview(ran):
    """The rows of the table over epsilon, which comes first."""
    return rows_of(ran.out.split("└")[0])


def cells(ran):
    """The rows of the tables that --detail adds."""
    return rows_of(ran.out.split("└", 1)[1])


def test_what_is_printed_of_an_interval_is_the_forecast(run):
    """Every mechanism is a row with its numbers, the best is marked, and the sweep follows."""
    ran = run(
        "plan", "--interval", "0,10,1", "--rows", 5000, "--epsilon", 0.8, "--dimension", 2, "--target", 1.2, "--detail"
    )
    assert (ran.code, ran.err) == (0, "")
    found = forecast(Interval(0, 10, 1), 5000, 0.8, target=1.2, conventions=Conventions(dimension=2))
    lines = cells(ran)
    for line, option in zip(lines, found.options, strict=False):
        numbers = [
            three_digits(option.noise),
            f"{option.effective_rows:,}",
            f"{option.share:.2%}",
            three_digits(option.error),
        ]
        marks = ", ".join(name for name in ("best", "auto") if getattr(option, name))
        assert line == [option.mechanism, *numbers, marks]
    over = lines[len(found.options) :]
    assert [line[0] for line in over] == [option.mechanism for option in found.options]
    assert over[0][1:] == [three_digits(row[0].error) for row in found.sweep]
    assert f"reached from epsilon {found.goal.epsilon:.3g}, or with {found.goal.rows:,} rows at epsilon 0.8" in ran.out
    assert f"error {three_digits(found.doubled)} instead of {three_digits(found.best.error)}" in ran.out
    assert f"above epsilon {found.free_epsilon:.3g} the error is at most that of 90 % of your rows" in ran.out
    assert "assumed: constants are conventional" in ran.out
    against = [three_digits(found.against_labels(error)) for error in (found.best.error, found.clean_error)]
    assert f"{against[0]} with the best mechanism, {against[1]} without privacy" in ran.out
    assert "as `labeldp evaluate` prints it, the spread of labels included" in ran.out
    assert re.search(r"always predicting the mean: RMSE 3\.16, the standard deviation of labels", ran.out)
    assert "least variance for the worst label, and on average over the range" in ran.out


def test_skewed_labels_are_planned_with_what_is_declared_of_them(run):
    """The share explained and the deviation of labels are passed on, and classes have no deviation."""
    given = ("plan", "--interval", "0,1000,100", "--rows", 5000, "--dimension", 2, "--explained", 0.2, "--spread", 60)
    found = forecast(Interval(0, 1000, 100), 5000, 4.0, conventions=Conventions(dimension=2, explained=0.2, spread=60))
    ran = run(*given, "--epsilon", 4, "--detail")
    assert (ran.code, ran.err) == (0, "")
    assert cells(ran)[0][4] == three_digits(found.options[0].error)
    assert "Assumed: labels have a standard deviation of 60, and features explain 20% of their variance." in ran.out
    ran = run("plan", "--classes", 3, "--rows", 50, "--epsilon", 1, "--spread", 1)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: expected no spread with classes, found 1.0")


def test_a_plan_that_teaches_nothing_says_so(run):
    """Where all mechanisms are as bad as saying the mean none is best, and a target that it reaches needs nothing."""
    given = ("plan", "--interval", "0,1000,100", "--rows", 500, "--dimension", 2, "--spread", 60)
    ran = run(*given, "--epsilon", 0.1, "--detail")
    assert ran.code == 0
    assert "no mechanism beats always predicting the mean: test RMSE" in ran.out
    assert "that of the mean, which remains" in ran.out
    assert ", of the mean " in ran.out
    assert {line[-1] for line in cells(ran)[:6]} == {"", "auto"}
    assert "none: no mechanism beats always predicting the mean" in ran.out
    ran = run(*given, "--target", 50, "--detail")
    assert ran.code == 0
    assert re.search(r"target 50\* +always predicting the mean already reaches it *\n", ran.out)
    assert "0.0001" not in ran.out
    ran = run("plan", "--classes", 3, "--rows", 500, "--dimension", 2, "--target", 0.7, "--detail")
    assert "guessing a class already reaches it" in ran.out
    assert "test RMSE" not in ran.out
    assert "least variance for the worst" not in ran.out


def test_a_target_finds_the_epsilon_of_a_plan(run):
    """With a target in place of an epsilon, classes are planned at the epsilon that it needs; or none is said to do."""
    ran = run("plan", "--classes", "a,b,c", "--rows", 4000, "--target", 0.02, "--dimension", 3, "--detail")
    assert (ran.code, ran.err) == (0, "")
    needed = forecast(Classes(range(3)), 4000, target=0.02, conventions=Conventions(dimension=3)).epsilon
    assert f"4,000 rows, 3 classes, dimension 3, local, epsilon {needed:.3g}" in ran.out
    assert f"reached from epsilon {needed:.3g}" in ran.out
    ran = run("plan", "--classes", 3, "--rows", 4000, "--target", 1e-4, "--dimension", 3)
    fewest = forecast(Classes(range(3)), 4000, target=1e-4, conventions=Conventions(dimension=3)).goal.rows
    assert f"no epsilon reaches it with 4,000 rows; {fewest:,} rows would without privacy" in ran.out
    assert "Epsilon" not in ran.out


def test_a_curator_is_trusted_where_it_is_said(run):
    """With --trust central the queries are compared, for classes as well."""
    ran = run(
        "plan", "--classes", 3, "--rows", 4000, "--epsilon", 0.1, "--dimension", 3, "--trust", "central", "--detail"
    )
    assert [line[0] for line in cells(ran)][:2] == ["noisy-argmax", "noisy-histogram"]
    assert {line[1] for line in overview(ran)} <= {"noisy-argmax", "noisy-histogram"}
    assert "a curator answers queries" in ran.out


def test_numbers_for_other_programs(run):
    """With --json the forecast is printed as it is."""
    ran = run("plan", "--classes", 4, "--rows", 900, "--epsilon", 1, "--json")
    printed = json.loads(ran.out)
    assert printed["forecast"] == json.loads(json.dumps(plan(4, 900, 1.0).to_json()))
    common = {"unit", "over_epsilon", "forecast", "notes", "whom", "bought", "labels"}
    assert set(printed) == common
    assert printed["unit"] == "row"
    shown = overview(run("plan", "--classes", 4, "--rows", 900, "--epsilon", 1))
    found = [(f"{row['epsilon']:g}", f"{row['effective_rows']:,}") for row in printed["over_epsilon"]]
    assert found == [(line[0], line[-3]) for line in shown]
    ran = run("plan", "--interval", "0,1,0.1", "--rows", 900, "--epsilon", 1, "--json")
    printed = json.loads(ran.out)
    assert printed["forecast"] == json.loads(json.dumps(forecast(Interval(0, 1, 0.1), 900, 1.0).to_json()))
    assert set(printed) == common


def test_a_figure_of_a_forecast(run, tmp_path):
    """Every mechanism, the error without privacy and the target are lines with names."""
    path = tmp_path / "forecast.svg"
    ran = run(
        *("plan", "--interval", "0,10,1", "--rows", 900, "--epsilon", 1, "--target", 0.5, "--dimension", 2),
        *("--figure", path),
    )
    assert (ran.code, ran.err) == (0, "")
    assert f"figure: {path}" in ran.out
    text = path.read_text(encoding="utf-8")
    names = [option.mechanism for option in forecast(Interval(0, 10, 1), 900, 1.0).options]
    for name in [*names, "without privacy", "target 0.5", "epsilon 1", "Expected error with 900 rows"]:
        assert name in text


def table_with(path, labels):
    """A table of two directions in four numeric columns, with a text column, missing values and some labels."""
    rng = np.random.default_rng(3)
    spread = rng.normal(size=(400, 2)) @ np.array([[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 0.0, 1.0]])
    frame = pa.table(
        {
            **{f"x{i}": pa.array(spread[:, i], mask=np.arange(400) % 50 == i) for i in range(4)},
            "who": [f"name {i}" for i in range(400)],
            "y": labels,
        }
    )
    (pacsv.write_csv if path.suffix == ".csv" else pq.write_table)(frame, path)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_labels_of_a_table_are_never_read(run, tmp_path, ending):
    """Whatever is in the label column, garbage and nothing included, the same is said, from public columns alone."""
    rng = np.random.default_rng(4)
    columns = [list(rng.integers(0, 9, 400)), ["zq-secret, \"'"] * 400, [None] * 400]
    told = []
    for i, labels in enumerate(columns):
        folder = tmp_path / str(i)
        folder.mkdir()
        source = table_with(folder / f"t.{ending}", labels)
        ran = run("plan", source, "--label", "y", "--interval", "0,10,1", "--epsilon", 1, "--detail")
        assert (ran.code, ran.err) == (0, "")
        told.append(ran.out)
    assert len(set(told)) == 1
    assert "zq-secret" not in told[0]
    assert "400 rows, labels from 0 to 10" in told[0]
    vary, spread, components = re.search(r"(\d) numeric columns .* dimension (\S+) .*; (\d)", told[0]).groups()
    assert (vary, components) == ("4", "2")
    assert 1.5 < float(spread) < 2.1


def test_public_columns_of_a_table_are_declared(run, tmp_path):
    """Columns can be kept or dropped, a dimension that is typed wins, and a table has its own number of rows."""
    source = table_with(tmp_path / "t.parquet", ["a"] * 400)
    given = ("plan", source, "--label", "y", "--classes", 2, "--epsilon", 1, "--detail")
    assert "1 numeric columns" in run(*given, "--keep", "x0,who").out
    assert "2 numeric columns" in run(*given, "--drop", "x0,x1").out
    assert "dimension 5" in run(*given, "--dimension", 5).out
    assert "no features" not in run(*given).out
    for kept in ("who", "none"):
        ran = run(*given, "--keep", kept)
        assert ran.code == 0
        assert "numeric columns" not in ran.out
        assert "400 rows" in ran.out


@pytest.mark.parametrize(
    "typed",
    [
        ("--rows", 9, "--epsilon", 1),
        ("--rows", 9, "--epsilon", 1, "--classes", 2, "--interval", "0,1,1"),
        ("--rows", 9, "--classes", 2, "--missing", "a"),
        ("--rows", 9, "--classes", 2, "--unit", "who"),
        ("--classes", 2, "--epsilon", 1),
        ("--rows", 9, "--epsilon", 1, "--interval", "0,1"),
        ("--rows", 9, "--epsilon", 1, "--classes", 2, "--trust", "me"),
        ("--rows", 9, "--epsilon", 1, "--classes", 2, "--dimension", 4),
        ("--rows", 9, "--target", -1, "--classes", 2),
        ("TABLE", "--epsilon", 1, "--classes", 2),
        ("TABLE", "--epsilon", 1, "--classes", 2, "--label", "z"),
        ("TABLE", "--epsilon", 1, "--classes", 2, "--label", "y", "--rows", 9),
        ("TABLE", "--epsilon", 1, "--classes", 2, "--label", "y", "--unit", "whose"),
        ("TABLE", "--epsilon", 1, "--classes", 2, "--label", "y", "--keep", "y"),
    ],
    ids=str,
)
def test_a_forecast_that_cannot_be_made(run, tmp_path, typed):
    """What is missing, double or impossible is refused in words, and nothing is printed."""
    source = table_with(tmp_path / "t.parquet", ["zq-secret"] * 400)
    ran = run("plan", *(source if part == "TABLE" else part for part in typed))
    assert (ran.code, ran.out) == (1, "")
    assert re.search(r"^error: (expected .*found|no .*column .*; columns: )", ran.err)
    assert "zq-secret" not in ran.err


@pytest.mark.parametrize("mechanism", ["optimal", "laplace", "randomized-response"])
def test_plan_and_release_print_the_same_effective_rows(run, tmp_path, mechanism):
    """The share of effective rows in a plan, without features, is the one that a release by that name prints."""
    pacsv.write_csv(pa.table({"y": [row % 11 for row in range(60)]}), tmp_path / "t.csv")
    planned = {
        line[0]: line[3]
        for line in cells(run("plan", "--interval", "0,10,1", "--rows", 60, "--epsilon", 3, "--detail"))[:6]
    }
    ran = run(
        *("release", tmp_path / "t.csv", "--label", "y", "--interval", "0,10,1", "--epsilon", 3, "--keep", "none"),
        *("--mechanism", mechanism, "--output", tmp_path / "out"),
    )
    assert ran.code == 0, ran.err
    printed = float(re.search(r"of 60 \(([\d.]+)%\)", ran.out)[1])
    assert printed == pytest.approx(float(planned[mechanism].rstrip("%")), abs=0.051)


def test_the_assumptions_that_decide_come_first(run):
    """The answer states both before its figures, each default marked, and the next line how to replace defaults."""
    given = ("plan", "--interval", "0,20000,10", "--rows", 5000, "--dimension", 4, "--epsilon", 1)
    lines = run(*given).out.splitlines()
    assumed = "labels are uniform over their range, with a standard deviation of 5776 (default)"
    strength = "features explain 50% of their variance (default)"
    assert lines[0].startswith(f"Epsilon 1: if {assumed}, and {strength}: test RMSE about ")
    assert lines[1].startswith("To replace a default: ")
    assert all(way in lines[1] for way in ("--spread", "--shares", "--from", "--buy", "--explained"))
    detail = run(*given, "--detail").out
    assert f"\nAssumed: {assumed}, and {strength}. This decides every figure marked *." in detail
    lines = run(*given, "--spread", 2500, "--explained", 0.1).out.splitlines()
    assert lines[0].startswith("Epsilon 1: if labels have a standard deviation of 2500, and features explain 10% of")
    assert not any("default" in line for line in lines)
    lines = run("plan", "--classes", 2, "--rows", 3000, "--epsilon", 1, "--target", 0.01).out.splitlines()
    assert lines[0].startswith("Assumed: there are no features, so that the error is that of naming the most common")
    assert lines[1].startswith(
        "Target 0.01, the chance of a wrong class beyond that of the best rule: reached from epsilon "
    )
    assert "To replace a default: a TABLE or --dimension, for features." in lines[:5]


def test_every_figure_that_rests_on_the_assumptions_is_marked(run):
    """A figure changes with the assumptions if, and only if, its name has a star."""
    given = ("plan", "--interval", "0,100,1", "--rows", 5000, "--dimension", 3, "--epsilon", 2, "--target", 9)
    printed = (run(*given, "--detail", *more).out for more in ((), ("--spread", 20, "--explained", 0.2)))
    one, other = (text.split("└", 1)[1] for text in printed)
    heads = next(line.strip(" ┃").split("┃") for line in one.splitlines() if line.startswith("┃ mechanism"))
    assert [head.strip() for head in heads] == [
        *("mechanism", "noise of a row", "effective rows*", "share*", "expected error*")
    ]
    noises = [[line[1] for line in sorted(rows_of(text)[:6])] for text in (one, other)]
    assert noises[0] == noises[1]
    named = [dict(re.findall(r"^([a-z]\S*(?: \S+)*)  +(.*?) *$", text, re.MULTILINE)) for text in (one, other)]
    assert {name for name in named[0] if named[0][name] != named[1].get(name)} == {
        name for name in named[0] if name.endswith("*")
    }
    assert "expected error*, by epsilon" in one


@pytest.fixture
def costs(tmp_path):
    """A table of skewed costs, with their standard deviation."""
    rng = np.random.default_rng(8)
    values = np.minimum(rng.lognormal(5.5, 1.0, 20_000), 5000.0)
    pacsv.write_csv(pa.table({"x": rng.normal(size=20_000), "y": values.round(2)}), tmp_path / "costs.csv")
    return tmp_path / "costs.csv", float(values.std())


def bought(run, source, *more):
    """Buy counts of costs, and plan with them."""
    return run("plan", source, "--label", "y", "--interval", "0,5000,10", "--epsilon", 1, "--buy", 0.3, *more)


def test_counts_are_bought_charged_and_used(run, costs):
    """The ledger has the charge, the text says its cost and where it is, and the forecast uses what was bought.

    The noise of 33 counts at epsilon 0.3 moves the standard deviation by about 1 %.
    """
    source, spread = costs
    ran = bought(run, source)
    assert ran.code == 0, ran.err
    ledger, folder = source.with_name("costs.csv.labeldp-ledger"), source.with_name("costs.csv.counts")
    assert ran.out.startswith(
        "Bought noisy counts of 20,000 labels for epsilon 0.3; spent on this label so far: 0.3 of "
    )
    assert f"ledger: {ledger}\n" in ran.out
    assert f"counts: {folder} " in ran.out
    stated = float(re.search(r"labels have a standard deviation of (\S+), and", " ".join(ran.out.split()))[1])
    assert stated == pytest.approx(spread, rel=0.08)
    assert "(default)" in ran.out.split("their variance")[1][:12]
    certificate = verify(folder).certificate
    assert (certificate.guarantee.trust, certificate.rows) == ("central", 20_000)
    (charge,) = Ledger(ledger).entries()
    assert (charge.mechanism, charge.guarantee) == ("noisy-histogram", certificate.guarantee)
    assert 0.3 * (1 - 1e-9) < charge.guarantee.epsilon <= 0.3
    again = run("plan", source, "--label", "y", "--interval", "0,5000,10", "--epsilon", 1, "--from", folder)
    told = ran.out[ran.out.index("Epsilon 1: ") :].replace("and the counts that were bought.", "; no label was read.")
    assert again.out == told.replace("settings ;", "settings;")
    assert len(Ledger(ledger).entries()) == 1


def test_a_purchase_and_a_release_add_up(run, costs, tmp_path):
    """Counts are charged for the same label: a release beyond the budget is refused, and one within it is not."""
    source, _ = costs
    assert bought(run, source, "--budget", 1).code == 0
    typed = ("release", source, "--label", "y", "--interval", "0,5000,10", "--keep", "x", "--output", tmp_path / "out")
    ran = run(*typed, "--epsilon", 0.8)
    assert (ran.code, "1" in ran.err) == (1, True)
    assert not (tmp_path / "out").exists()
    assert run(*typed, "--epsilon", 0.7).code == 0
    assert len(Ledger(source.with_name("costs.csv.labeldp-ledger")).entries()) == 2


def test_a_release_tells_the_distribution(run, costs, tmp_path):
    """From a release, a plan takes label space, rows and distribution; from one too noisy, it says so."""
    source, spread = costs
    typed = ("release", source, "--label", "y", "--interval", "0,5000,10", "--keep", "x", "--budget", 9)
    assert run(*typed, "--output", tmp_path / "out", "--epsilon", 6).code == 0
    ran = run("plan", "--from", tmp_path / "out", "--epsilon", 1, "--dimension", 2)
    assert ran.code == 0, ran.err
    assert "20,000 rows" in ran.out
    stated = float(re.search(r"labels have a standard deviation of (\S+), and", " ".join(ran.out.split()))[1])
    assert stated == pytest.approx(spread, rel=0.1)
    assert run(*typed, "--output", tmp_path / "noisy", "--epsilon", 0.05).code == 0
    ran = run("plan", "--from", tmp_path / "noisy", "--epsilon", 1)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: expected ")


def test_shares_of_classes(run):
    """Shares are stated, and what always naming the most common class reaches is no merit."""
    given = ("plan", "--classes", 2, "--rows", 500, "--dimension", 2, "--target", 0.3)
    assert "guessing a class already reaches it" not in run(*given).out
    ran = run(*given, "--shares", "0.8,0.2", "--detail")
    assert "labels, as stated or estimated with noise: 0 80.0%, 1 20.0%" in ran.out
    assert "already reaches it" in ran.out


@pytest.mark.parametrize(
    "typed",
    [
        ("--rows", 9, "--interval", "0,1,1", "--epsilon", 1, "--buy", 1),
        ("TABLE", "--interval", "0,1,1", "--epsilon", 1, "--label", "y", "--buy", -1),
        ("TABLE", "--interval", "0,1,1", "--epsilon", 1, "--label", "y", "--budget", "2"),
        ("TABLE", "--interval", "0,1,1", "--epsilon", 1, "--label", "y", "--buy", 1, "--shares", "0.5,0.5"),
        ("TABLE", "--interval", "0,1,1", "--epsilon", 1, "--label", "y", "--buy", 1, "--output", "/"),
        ("--rows", 9, "--interval", "0,1,1", "--epsilon", 1, "--shares", "0.5,0.4"),
        ("--rows", 9, "--classes", 3, "--epsilon", 1, "--dimension", 2, "--shares", "0.5,0.5"),
        ("--rows", 9, "--classes", 3, "--epsilon", 1, "--from", "nothing"),
    ],
    ids=str,
)
def test_what_is_wrong_is_refused_before_anything_is_bought(run, costs, typed):
    """A mistake in any option is refused in words, and there is no charge."""
    source, _ = costs
    ran = run("plan", *(source if part == "TABLE" else part for part in typed))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: expected")
    assert [path.name for path in source.parent.iterdir()] == ["costs.csv"]


@pytest.mark.parametrize("labels", [("--classes", 3), ("--interval", "0,10,1"), ("--classes", 3, "--trust", "central")])
def test_a_plan_says_what_epsilon_means_for_a_person(run, labels):
    """In its answer, for the epsilon of the plan, and for a suspicion of 5 % at every epsilon of the table."""
    ran = run("plan", *labels, "--rows", 5000, "--epsilon", 3)
    assert Guarantee(3.0).posterior_sentence() in ran.out.split("┏")[0].splitlines()
    for line in overview(ran):
        odds = math.exp(float(line[0])) * 0.05 / 0.95
        assert float(line[-1].rstrip(" %")) == pytest.approx(100 * odds / (1 + odds), rel=0.01)


def test_effective_rows_are_planned_for_the_shares_that_are_known(run):
    """Stated shares give fewer effective rows than even ones, the same bound, and no sentence on even classes."""
    given = ("plan", "--classes", 2, "--rows", 10_000, "--epsilon", 1, "--detail")
    rare = run(*given, "--shares", "0.95,0.05")
    assert (rare.code, rare.err) == (0, "")
    assert "even classes (" not in rare.out
    even, stated = ({line[0]: line for line in cells(ran)[:4]} for ran in (run(*given), rare))
    found = plan(2, 10_000, 1.0, shares=[0.95, 0.05]).options
    for option in found:
        assert stated[option.mechanism][3] == f"{option.effective_rows:,}"
        assert stated[option.mechanism][5] == even[option.mechanism][5] == f"{option.at_most:,}"
        assert option.effective_rows < 0.4 * option.at_most
    assert run(*given, "--shares", "0.5,0.3,0.2").err.startswith("error: expected a share for each of 2 classes, found")


def test_the_answer_comes_first_and_one_row_for_each_epsilon(run):
    """The first line is the answer, no epsilon is asked for, and no epsilon has two rows."""
    ran = run("plan", "--classes", 2, "--rows", 10_000)
    assert (ran.code, ran.err) == (0, "")
    (best,) = (option for option in plan(2, 10_000, 1.0).options if option.auto)
    lines = ran.out.splitlines()
    assert lines[0] == (
        f"Epsilon 1: if the 2 classes are equally common, as informative as about {best.effective_rows:,} true labels "
        f"of 10,000 ({best.share:.1%})."
    )
    assert lines[1].endswith("true labels: pass --shares where classes are not equally common.")
    assert lines[3] == "No --epsilon was given: 1 is an example."
    assert ran.out.count("┏") == 1
    assert [line[0] for line in overview(ran)] == ["0.1", "0.25", "0.5", "1", "2", "4", "8"]
    stated = run("plan", "--classes", 2, "--rows", 10_000, "--epsilon", 0.7, "--shares", "0.9,0.1")
    assert stated.out.startswith("Epsilon 0.7: at these class shares, as informative as about ")
    assert "is an example" not in stated.out
    assert [line[0] for line in overview(stated)] == ["0.1", "0.25", "0.5", "0.7", "1", "2", "4", "8"]
    tiny = run("plan", "--classes", 1000, "--rows", 100, "--epsilon", 0.1)
    assert "less informative than one true label, of 100" in tiny.out.splitlines()[0]


def test_loss_of_accuracy_is_that_of_the_forecast(run):
    """In points below the model without privacy, in the answer and in every row: 4 to 7 times as much, and possible."""
    ran = run("plan", "--classes", 3, "--rows", 5000, "--epsilon", 1, "--dimension", 3)
    found = forecast(Classes(range(3)), 5000, 1.0, conventions=Conventions(dimension=3))
    lost = 100 * (next(each for each in found.options if each.auto).error - found.clean_error)
    seen = f"{4 * lost:.2g} to {7 * lost:.2g}"
    assert f"features are spread evenly, with an effective dimension of 3: about {seen} points less accuracy" in ran.out
    assert next(line[-2] for line in overview(ran) if line[0] == "1") == seen
    small = run("plan", "--classes", 2, "--rows", 20, "--epsilon", 0.1, "--dimension", 3)
    assert next(line[-2] for line in overview(small) if line[0] == "0.1") == "50"


def test_paragraphs_of_help_are_filled(run, monkeypatch):
    """No line of a paragraph ends where the next one's first word would have had room."""
    monkeypatch.setenv("COLUMNS", "80")
    text = run("plan", "--help").out.partition("╭")[0]
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.splitlines()]
        for line, after in itertools.pairwise(lines):
            assert len(line) + len(after.partition(" ")[0]) >= 77, line


def test_the_choice_of_auto_is_explained(run):
    """It goes by the bound for two likely classes, also where another mechanism has more effective rows."""
    ran = run("plan", "--classes", 10, "--rows", 1400, "--epsilon", 2, "--detail")
    found = plan(10, 1400, 2.0).options
    (best,) = (option for option in found if option.auto)
    assert best.at_most == max(option.at_most for option in found)
    assert best.effective_rows < max(option.effective_rows for option in found)
    assert "'auto' goes by these, not by effective rows at the class shares" in " ".join(ran.out.split())
    assert "('at most' in 'labeldp plan --detail')" in re.sub(r"[│\s]+", " ", run("release", "--help").out)


@pytest.fixture
def visits(tmp_path):
    """A table of people with one to three rows, with labels of classes and numbers."""
    people = [i for i in range(300) for _ in range(1 + i % 3)]
    frame = pa.table(
        {
            "patient_id": people,
            "x": [float(i % 7) for i in range(len(people))],
            "y": [("a", "b")[i % 2] for i in range(len(people))],
            "z": [i % 11 for i in range(len(people))],
        }
    )
    pacsv.write_csv(frame, tmp_path / "visits.csv")
    return tmp_path / "visits.csv"


@pytest.mark.parametrize(
    ("label", "labels"), [("y", ("--classes", "a,b")), ("z", ("--interval", "0,10,1", "--mechanism", "piecewise"))]
)
def test_units_are_planned_as_they_are_released(run, visits, tmp_path, label, labels):
    """With --unit the effective rows are those that a release with it prints; without it the plan asks."""
    space = labels[:2]
    given = ("plan", visits, "--label", label, *space, "--epsilon", 1, "--keep", "none", "--detail")
    ran = run(*given, "--unit", "patient_id")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Epsilon 1 per patient_id: ")
    assert Guarantee(1.0, unit="patient_id").posterior_sentence() in ran.out
    assert "units of up to 3 rows, which share epsilon" in " ".join(ran.out.split())
    assert "a person?" not in ran.out
    done = run(
        *("release", visits, "--label", label, *labels, "--epsilon", 1, "--unit", "patient_id", "--keep", "none"),
        *("--output", tmp_path / "out"),
    )
    assert done.code == 0, done.err
    released = float(re.search(r"at most [\d,]+ of 600 \(([\d.]+)%\)", done.out)[1])
    planned = {line[0]: line for line in reversed(cells(ran))}
    if label == "y":
        assert 100 * int(planned["randomized-response"][4]) / 600 == pytest.approx(released, abs=0.1)
    else:  # the plan's figure is of an estimate that weights rows by their precision
        assert float(planned["piecewise"][3].rstrip("%")) == pytest.approx(released, rel=0.15)
    alone = run(*given)
    assert "up to 3 rows each: a person? Then plan with --unit patient_id" in alone.out
    assert "Then epsilon is 3 times as large for all labels of one with 3 rows." in run(*given, "--unit", "row").out


def test_a_person_with_a_gap_repeats_in_a_plan(run, visits):
    """One row without a person makes a column of floats, which a plan names as a release does."""
    frame = pacsv.read_csv(visits)
    people = pa.array([None, *frame["patient_id"].to_pylist()[1:]], pa.float64())
    pq.write_table(frame.set_column(0, "patient_id", people), visits.with_suffix(".parquet"))
    for drop in ("z", "z,patient_id"):
        given = ("plan", visits.with_suffix(".parquet"), "--label", "y", "--classes", 2, "--drop", drop)
        assert "up to 3 rows each: a person?" in run(*given).out


def test_identifiers_are_no_features(run, visits):
    """The dimension is that of other numeric columns; a measurement with such a name is one of them."""
    given = ("plan", visits, "--label", "y", "--classes", 2, "--drop", "z", "--detail")
    assert "1 numeric columns that vary" in run(*given).out
    frame = pacsv.read_csv(visits)
    weights = [60.5 + i % 31 for i in range(frame.num_rows)]
    pacsv.write_csv(frame.append_column("patient_weight", pa.array(weights)), visits)
    assert "2 numeric columns that vary" in run(*given).out
