"""The contract of results: a terminal, a page, a notebook, Markdown and JSON say the same, and bounds are bounds."""

import dataclasses
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import labeldp as dp
from labeldp.audit import Audit, Knowledge, attack_release, bound_exposure, loss_profile
from labeldp.audit.mechanisms import audit_folder
from labeldp.audit.pipelines import divergence_of_log_odds
from labeldp.bounds import Conventions, forecast, plan
from labeldp.cli import main
from labeldp.errors import InputError
from labeldp.learning.inference import coefficients, mean_difference, treatment_effect
from labeldp.learning.tables._scores import class_scores, number_scores
from labeldp.privacy import Guarantee
from labeldp.release.ledger import spent_by_data
from labeldp.render import html_of, in_markdown
from labeldp.results import (
    Audited,
    Checked,
    Evaluated,
    Page,
    Part,
    Planned,
    Predicted,
    account_part,
    described,
    generator_part,
    ledger_part,
    predicted_part,
    purchase_part,
    release_part,
    stages_part,
)
from labeldp.results import _blocks as blocks
from labeldp.testing import _results as kit
from labeldp.testing import check_result

GOLDEN = Path(__file__).parents[1] / "golden"
SPACE = dp.Classes(["no", "yes"])
SIDES = np.arange(60) % 2


def released(rows=400, epsilon=1.0):
    """Labels that follow from a feature, released, with the feature and the true labels."""
    codes = np.arange(rows) % 2
    labels = np.array(SPACE.points)[codes]
    return dp.Curator(labels, SPACE).randomize(dp.RandomizedResponse(SPACE, epsilon)), codes, labels


def planned(shares=None, **more):
    """A plan of two classes with features."""
    return Planned.of(forecast(SPACE, 1991, 1.0, conventions=Conventions(4.0, shares=shares)), "patient", **more)


def audited():
    """An audit of a release with all that can be beside it."""
    release, codes, labels = released()
    told = np.where(np.arange(2) == codes[:, None], 0.9, 0.1)
    knowledge = Knowledge(told, prior=[0.5, 0.5])
    attacked = attack_release(release, knowledge, truth=dp.Release.public(labels, SPACE), limits=[("nothing", 0.50001)])
    profile = loss_profile(codes[:, None].astype(float), release, p_plus=0.5)
    exposure = bound_exposure(codes, release)
    return Audited.of_folder(audit_folder(GOLDEN / "command/auto"), attacked, profile, exposure)


def scored():
    """Scores of predictions of classes."""
    release, codes, _ = released(4000, 3.0)
    stated = np.where(np.arange(2) == codes[:, None], 0.9, 0.1)
    return Evaluated.of(class_scores(release, stated), "released labels", SPACE)


def numbers():
    """Scores of predictions of numbers on public labels."""
    space, labels = dp.Interval(0, 10, 1), np.arange(200) % 11
    scores = number_scores(dp.Release.public(labels, space), labels + 0.5)
    return Evaluated.of(scores, "labels that you declared public", space, public=True)


def effects(**more):
    """Effects of a treatment in two wards, one of which has too few units."""
    release, codes, _ = released(4000, 3.0)
    drug, ward = np.arange(4000) % 3 == 0, np.where(np.arange(4000) < 12, "[small]", "large")
    table = {"age": np.arange(4000) % 7 + codes, "drug": drug, "ward": ward}
    return treatment_effect(release, table, treatment="drug", **({"features": ["age"], "by": "ward"} | more))


def regression(labels=3):
    """A regression table with a coefficient that has no finite estimate."""
    space, rows = dp.Classes(["a", "b", "c"][:labels]), np.arange(3000)
    codes = np.where(rows < 200, 0, rows % labels)
    release = dp.Release.public(np.array(space.points)[codes], space)
    return coefficients(release, {"age": rows % 11, "well": rows < 200}, "age + well")


RESULTS = {
    "effects": effects,
    "an effect in a trial": lambda: effects(by=None, propensity=1 / 3, trim=0.2),
    "an effect on numbers": lambda: mean_difference(dp.Release.public(np.arange(60) % 9, dp.Interval(0, 8, 1)), SIDES),
    "effects of mixed units": lambda: dataclasses.replace(effects(), mixed=True),
    "coefficients": regression,
    "coefficients of two classes": lambda: dataclasses.replace(regression(2), mixed=True, left_out=7),
    "coefficients of numbers": lambda: coefficients(
        dp.Release.public(np.arange(60) % 9, dp.Interval(0, 8, 1)), {"side": SIDES}, ["side"]
    ),
    "plan": planned,
    "plan of rare classes": lambda: planned((0.986, 0.014), example=True),
    "plan without features": lambda: plan(3, 1000, 1.0),
    "forecast": lambda: forecast(dp.Interval(0, 100, 10), 5000, target=9.0, conventions=Conventions(3.0)),
    "audit": audited,
    "audit of a function": lambda: Audit(1.0, 1e-6, 0.12345678, 0.98765432, 0.99, 10_000, "sampled", "an [event]"),
    "scores": scored,
    "scores of numbers": numbers,
    "scores of mixed units": lambda: dataclasses.replace(scored(), mixed=True),
    "verdict": lambda: dp.verify(GOLDEN / "command/auto-of-units"),
    "failed verdict": lambda: dp.verify(GOLDEN),
    "guarantee": lambda: released()[0].guarantee,
    "release": lambda: released()[0],
    "answer": lambda: dp.Curator(["no", "yes"], SPACE).answer(dp.NoisyHistogram(SPACE, 1.0)),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_every_form_of_a_result_says_the_same(kind):
    """All texts and numbers, in every form of output, and read back from JSON."""
    pytest.importorskip("jinja2", reason="pages need it")
    check_result(RESULTS[kind]())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table of people, released twice, by rows and by people, and its ledger."""
    folder = tmp_path_factory.mktemp("patients")
    random, rows = np.random.default_rng(0), 240
    sick = np.array(["no", "yes"])[np.arange(rows) % 2]
    table = pa.table(
        {
            "patient_id": [f"P{row // 2}" for row in range(rows)],
            "age": random.normal(size=rows) + 2 * (np.arange(rows) % 2),
            "town": random.choice(["north", "south"], rows).tolist(),
            "sick": sick.tolist(),
        }
    )
    pacsv.write_csv(table, folder / "t.csv")
    for output, more in {"people": {"unit": "patient_id", "renumber": True}, "rows": {"unit": "row"}}.items():
        dp.release_table(
            folder / "t.csv", "sick", SPACE, 2.0, folder / output, keep=["age", "town"], budget=9.0, **more
        )
    return folder


def released_anew(place, output, **more):
    """A release of the table, as the command ends with it."""
    typed = {"keep": ["age"], "unit": "row", "ledger": place / f"{output}.ledger", "budget": 99.0} | more
    return dp.release_table(place / "t.csv", "sick", SPACE, 1.0, place / output, **typed)


def quantile(place):
    """A quantile of other people's numbers, as the command ends with it."""
    (place / "others").mkdir()
    pacsv.write_csv(pa.table({"weight": np.arange(240) % 9}), place / "others/t.csv")
    typed = {"keep": [], "unit": "row", "budget": 99.0, "mechanism": dp.QuantileMechanism(level=0.9)}
    return dp.release_table(place / "others/t.csv", "weight", dp.Interval(0, 9, 1), 1.0, place / "quantile", **typed)


def learned_of(place, folder="people", **more):
    """A model of a release."""
    learning = pytest.importorskip("labeldp.learning.tables", reason="it learns")
    return learning.learn(place / folder, model="softmax", **more)


def staged(place):
    """A release in two stages."""
    learning = pytest.importorskip("labeldp.learning.tables", reason="it learns")
    plan = learning.StagePlan(learning.ModelChoice("softmax"))
    more = {"keep": ["age"], "unit": "row", "ledger": place / "stages.ledger", "budget": 99.0}
    return learning.learn_in_stages(place / "t.csv", "sick", SPACE, 3.0, place / "stages", plan, **more)


def generator(place):
    """A generator, with estimates of how far its rows are from true ones."""
    generators = pytest.importorskip("labeldp.learning.generators", reason="it fits")
    (place / "public").mkdir()
    table = shutil.copyfile(place / "t.csv", place / "public/t.csv")
    fitted, trial = generators.from_public_table(
        table, "sick", SPACE, (["age", "town"], None), "copula", "patients", kind="public"
    )
    estimates = {name: [divergence_of_log_odds(np.zeros(40), np.ones(40), 2.0)] for name in SPACE.points}
    return fitted, str(place / "generator.json"), (*trial.two_sample_accuracy(), trial.table.num_rows), estimates


def ledger_of(place):
    """The charges of the ledger, and what was spent."""
    entries = dp.Ledger(place / "t.csv.labeldp-ledger").entries()
    return entries, spent_by_data(entries)


def totals(place):
    """The combined guarantees of both releases and of the ledger."""
    return dp.combined_guarantee([place / name for name in ("people", "rows", "t.csv.labeldp-ledger")])


def predicted(place):
    """The predictions of a model."""
    model = learned_of(place).model
    return Predicted.of(model, ["sick"], 2, "predictions.csv")


#: The parts, or the document, of everything else that is rendered; each is made in a folder with releases.
RENDERED = {
    "release": lambda place: released_anew(place, "anew"),
    "release of people": lambda place: released_anew(place, "units", unit="patient_id"),
    "answer": lambda place: released_anew(place, "counts", keep=[], mechanism="noisy-histogram"),
    "page of people": lambda place: release_part(place / "people", dp.verify(place / "people")),
    "page of rows": lambda place: release_part(place / "rows", dp.verify(place / "rows")),
    "page of a folder that fails": lambda place: release_part(place, dp.verify(place)),
    "quantile": quantile,
    "purchase": lambda place: purchase_part(released_anew(place, "bought", keep=[], mechanism="noisy-histogram")),
    "check": lambda place: dp.check_table(place / "t.csv", "sick"),
    "check of numbers": lambda place: dp.check_table(place / "t.csv", "age"),
    "check of a unit": lambda place: dp.check_table(place / "t.csv", "sick", unit="patient_id"),
    "model": learned_of,
    "model of mixed units": lambda place: learned_of(place, features=["age"]),
    "model of rows": lambda place: learned_of(place, "rows"),
    "predictions": lambda place: predicted_part(predicted(place), "sick", "model.safetensors"),
    "ledger": lambda place: ledger_part("t", *ledger_of(place), others=[place / "other"]),
    "ledger of nothing": lambda _: ledger_part("t", [], [], shared=True),
    "account": lambda place: account_part(totals(place), ["people", "rows", "ledger"]),
    "account of nothing": lambda _: account_part([]),
    "generator": lambda place: generator_part(*generator(place)),
    "stages": lambda place: stages_part(staged(place)),
}


@pytest.mark.parametrize("kind", RENDERED)
def test_everything_that_is_rendered_is_a_result(kind, place):
    """Releases, checks, models, ledgers, accounts, generators and stages hold the laws of results in every form."""
    pytest.importorskip("jinja2", reason="pages need it")
    check_result(RENDERED[kind](place))


def test_a_form_that_leaves_something_out_is_noticed(monkeypatch):
    """A renderer that drops a block, a share above 100 % and swapped ends break the laws."""
    part = Part("t", "r", sections=(blocks.Section("s", (blocks.Points(("nothing was found",)),)),))
    check_result(part)
    monkeypatch.setattr(kit, "in_markdown", lambda _: "")
    with pytest.raises(AssertionError, match="Markdown lacks"):
        check_result(part)
    monkeypatch.undo()
    for wrong, law in {"100.1% of rows": "above 100 %", "5 % to 3 %": "in order"}.items():
        with pytest.raises(AssertionError, match=law):
            check_result(dataclasses.replace(part, lead=(wrong,)))


def test_scores_of_mixed_units_have_no_headline(place, capsys):
    """Where no column says which rows are of one person, a model has no scores, and an evaluation promises nothing."""
    released_anew(place, "mixed", unit="patient_id", keep=["age", "town"])
    model = learned_of(place)
    model.model.save(place / "model.safetensors")
    assert main(["evaluate", str(place / "model.safetensors"), str(place / "mixed"), "--released"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Several rows may be of one privacy unit, and no column says which.")
    assert "than always predicting" not in said
    part = described(learned_of(place, "mixed"))
    assert part.result == "A model that nothing judges yet"
    assert not any("%" in text for text in (part.result, *part.lead))
    assert "than always predicting" in described(model).result


def test_labels_that_peers_exchanged_judge_no_model():
    """A model of them has no scores: what is said first is how to judge it; one by descent is refused."""
    learning = pytest.importorskip("labeldp.learning.tables", reason="it learns")
    part = described(learning.learn(GOLDEN / "command/peer", model="softmax"))
    assert part.result == "A model that nothing judges yet"
    assert part.lead[0] == (
        "Exchanged labels cannot show how good the model is: use 'labeldp evaluate' with public labels."
    )
    with pytest.raises(InputError, match="among softmax, boosting, found 'convex'"):
        learning.learn(GOLDEN / "command/peer", model="convex")


@pytest.mark.parametrize(("share", "sharp", "detail"), [(0.02, 1, False), (0.4, 1, True), (0.4, 3, False)])
def test_calibration_is_shown_where_it_says_most(share, sharp, detail):
    """By decile: on the screen where one class has nearly all rows or probabilities do not hold, on the page always."""
    random = np.random.default_rng(0)
    chances = share * 2 * random.random(20_000)
    labels = np.array(SPACE.points)[(random.random(20_000) < chances).astype(int)]
    release = dp.Curator(labels, SPACE).randomize(dp.RandomizedResponse(SPACE, 4.0))
    stated = np.stack([1 - chances, chances], axis=1) ** sharp
    found = Evaluated.of(class_scores(release, stated / stated.sum(axis=1)[:, None]), "released labels", SPACE)
    part = described(found)
    (section,) = (each for each in part.sections if each.title.startswith("Calibration"))
    assert section.detail == detail
    (grid,) = (block for block in section.blocks if isinstance(block, blocks.Grid))
    assert len(grid.rows) == 10
    for stated, right, between, rows in grid.rows:
        low, high = (float(end.rstrip("%")) for end in between.split(" to "))
        assert sharp > 1 or low - 3 <= float(stated.rstrip("%")) <= high + 3
        assert (right[-1], rows) == ("%", "2,000")
    assert grid.caption in html_of(Page((part,)))


def table_of(part):
    """The table over epsilon of a plan, by the names of its columns."""
    tables = (block for section in part.sections for block in section.blocks if isinstance(block, blocks.Grid))
    (grid,) = (each for each in tables if "10 % sure becomes at most" in each.columns)
    return [dict(zip(grid.columns, row, strict=True)) for row in grid.rows]


def test_a_check_plans_what_a_plan_does(tmp_path):
    """What a table's effective rows would be is what a plan of its class shares says, in the same words."""
    table = pa.table({"x": np.arange(1000.0), "y": ["no"] * 900 + ["yes"] * 100})
    pacsv.write_csv(table, tmp_path / "t.csv")
    checked = Checked.of(dp.check_table(tmp_path / "t.csv", "y"))
    planned = plan(2, 1000, 1.0, shares=(0.9, 0.1))
    assert checked.planned == planned.over_epsilon[3]
    (said,) = (text for text in kit.texts_of(described(checked)) if "as informative as" in text)
    assert said.partition(" at epsilon")[0] in described(planned).lead[0]


def test_a_check_plans_for_the_classes_that_it_proposes(tmp_path):
    """Spellings of one class are counted together, and missing labels are a class, as in the command."""
    spelled = ["flu", "FLU", "flu "] * 60 + ["none", "NONE"] * 70 + [""] * 40
    pacsv.write_csv(pa.table({"x": np.arange(360.0), "y": spelled}), tmp_path / "t.csv")
    checked = Checked.of(dp.check_table(tmp_path / "t.csv", "y"))
    assert "--classes FLU,NONE,missing" in checked.command
    assert checked.planned == plan(3, 360, 1.0, shares=(0.5, 140 / 360, 40 / 360)).over_epsilon[3]
    said = " ".join(kit.texts_of(described(checked)))
    assert "'FLU' 180 (56.2%), 'NONE' 140 (43.8%)" in said


def test_a_check_says_that_a_unit_of_several_rows_costs_more(tmp_path):
    """Effective rows are those of rows on their own, so a table of people points to the plan with their unit."""
    table = pa.table({"patient_id": np.arange(1000) // 2, "x": np.arange(1000.0), "y": ["no", "yes", "no", "no"] * 250})
    pacsv.write_csv(table, tmp_path / "t.csv")
    for unit in ({}, {"unit": "patient_id"}):
        checked = Checked.of(dp.check_table(tmp_path / "t.csv", "y", **unit))
        assert "--unit patient_id" in checked.command
        (said,) = (text for text in kit.texts_of(described(checked)) if "as informative as" in text)
        assert "per row; fewer where epsilon is per patient_id: 'labeldp plan' says how many, and whether" in said


@pytest.mark.parametrize("shares", [None, (0.7, 0.3), (0.986, 0.014)])
def test_bounds_in_a_plan_are_rounded_up_in_every_form(shares):
    """What a suspicion becomes at most is never less than it can become, on the page as in the terminal."""
    found = planned(shares)
    part = described(found)
    page, markdown = (re.sub(r"\\", "", text) for text in (html_of(Page((part,))), in_markdown(part)))
    for row, line in zip(found.over_epsilon, table_of(part), strict=True):
        shown = line["10 % sure becomes at most"]
        most = Guarantee(row.epsilon).posterior(0.1)
        assert most <= float(shown.removesuffix(" %")) / 100 <= most * 1.01
        assert shown in page
        assert shown in markdown


def test_no_more_is_lost_than_can_be():
    """Points of accuracy are a range from experience, the same in JSON, and at most the share of the other classes."""
    found = planned((0.95, 0.05))
    assert all(0.0 <= row.lost_low <= row.lost_high <= 0.05 + 1e-12 for row in found.over_epsilon)
    assert found.over_epsilon[0].lost_high == pytest.approx(0.05)
    even = planned()
    for row, line in zip(even.over_epsilon, table_of(described(even)), strict=True):
        low, *high = line["accuracy lost, points*"].replace("under ", "").split(" to ")
        assert float(low) == pytest.approx(max(100 * row.lost_low, 0.01), rel=0.1)
        assert float((high or [low])[0]) == pytest.approx(max(100 * row.lost_high, 0.01), rel=0.1)


def test_accuracy_says_little_of_rare_classes():
    """With 98.6 % of the rows in one class no accuracy is promised or denied; other measures are named."""
    part = described(planned((0.986, 0.014)))
    assert not any("accuracy lost" in name for name in table_of(part)[0])
    assert any("area under the ROC" in line and "log loss" in line for line in part.lead)


def test_uneven_classes_are_asked_for():
    """Without stated shares a plan says how few rows are left if one class has nearly all; else it does not."""
    found, stated = plan(2, 100_000, 1.0), plan(2, 100_000, 1.0, shares=(0.98, 0.02))
    (best,) = (option for option in stated.options if option.auto)
    assert found.skewed_rows == best.effective_rows < found.options[0].effective_rows / 5
    assert f"about {found.skewed_rows:,} true labels: pass --shares" in " ".join(described(found).lead)
    assert stated.skewed_rows is None


@pytest.mark.parametrize(
    ("space", "noise", "scale"),
    [(dp.Classes(list("abc")), np.sqrt(2) * 2.8, 100.0), (dp.Interval(0, 100, 10), 141.0, 1.0)],
    ids=["classes", "numbers"],
)
def test_a_plan_says_what_a_curator_would_do_better(space, noise, scale):
    """Its sums have noise of variance 8, or twice the squared range, at epsilon 1. Labels that hide it show none."""
    found = forecast(space, 5_000, 1.0, epsilons=())
    assert found.curator_noise == pytest.approx(noise, rel=0.02)
    (line,) = (each for each in described(Planned.of(found)).lead if "--trust central" in each)
    assert f"by about {scale * found.curator_noise / 5_000:.3g}" in line
    own = next(option.noise for option in found.options if option.auto) / np.sqrt(5_000)
    assert line.endswith(f"in these labels by {scale * own:.3g}.")
    assert "these labels hide it." in " ".join(described(Planned.of(forecast(space, 20, 0.2, epsilons=()))).lead)
    central = Planned.of(forecast(space, 5_000, 1.0, trust="central", epsilons=()))
    assert "--trust central" not in " ".join(described(central).lead)


def test_a_finding_of_nothing_is_in_every_form():
    """That nothing was found, and how many rows would show something, is no row of zeros."""
    release, _, _ = released(40, 0.5)
    audit = audit_folder(GOLDEN / "command/auto")
    found = Audited.of_folder(audit, exposure=bound_exposure(np.arange(40) % 2, release))
    part = described(found)
    assert any(text.startswith("Nothing was found of what the columns add") for text in kit.texts_of(part))
    assert not any(text == "0.0%" for text in kit.texts_of(part))
    check_result(found)
