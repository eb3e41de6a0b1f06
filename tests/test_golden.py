"""Golden artefacts: what earlier versions released, answered and saved still verifies, opens and says the same."""

import gzip
import importlib.util
import inspect
import json
import shutil
import sys
from dataclasses import astuple, fields, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import labeldp
from labeldp import Classes, Curator, cli
from labeldp.errors import BudgetError
from labeldp.mechanisms import queries, randomizers, resampling
from labeldp.release import table_mechanisms

HERE = Path(__file__).parent / "golden"


def _facts():
    """The module that says what an artefact says, which also wrote down what is expected."""
    spec = importlib.util.spec_from_file_location("golden_facts", HERE / "facts.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


golden = _facts()
EXPECTED, KEPT, PREDICTED, GENERATED = (
    json.loads(path.read_text(encoding="utf-8"))
    for path in (golden.EXPECTED, golden.KEPT, golden.PREDICTED, golden.GENERATED)
)
MADE_WITH = PREDICTED.pop("made with")
#: Models of tables in the present format of files, by its number.
PRESENT = [name for name in PREDICTED if name.endswith("-2.safetensors.gz")]


# Releases and answers.


@pytest.mark.parametrize("name", EXPECTED)
def test_a_golden_folder_verifies_with_the_guarantee_that_it_had(name):
    """A folder verifies, with the bytes of its certificate and all machine facts of its guarantee as they were."""
    expected = {fact: value for fact, value in EXPECTED[name].items() if fact != "contents"}
    assert golden.facts(HERE / name) == expected


@pytest.mark.parametrize("name", EXPECTED)
def test_a_golden_folder_loads_as_it_did(name):
    """What was released is read with the same channel and counts, and an answer with the same numbers."""
    found, expected = golden.contents(HERE / name), dict(EXPECTED[name]["contents"])
    for numbers in {"likelihood", "sum"} & set(expected):
        assert found.pop(numbers) == pytest.approx(expected.pop(numbers), rel=1e-6)
    assert found == expected


def test_expectations_are_of_all_folders():
    """Each golden folder with a certificate has an expectation, and the other way round."""
    found = {path.parent.relative_to(HERE).as_posix() for path in HERE.glob("*/*/*certificate.json")}
    assert found == set(EXPECTED)


def test_every_randomizer_and_query_has_a_golden_folder():
    """What ``labeldp.mechanisms`` exports to draw labels or answers with occurs in a golden certificate."""
    kinds = (labeldp.Randomizer, labeldp.Query, labeldp.DoubleResponse, labeldp.DummyResponse)
    packages = (randomizers, queries, resampling)
    exported = [getattr(package, name) for package in packages for name in package.__all__]
    concrete = [each for each in exported if inspect.isclass(each) and issubclass(each, kinds)]
    names = {each.name for each in concrete if not inspect.isabstract(each)}
    assert len(names) > 20
    assert names - {name for facts in EXPECTED.values() for name, _ in facts["charges"]} == set()


def test_every_mechanism_of_the_command_line_has_a_golden_folder():
    """Whatever ``labeldp release --mechanism`` accepts was released by the command line."""
    assert {f"command/{name}" for name in table_mechanisms()} - set(EXPECTED) == set()


@pytest.mark.parametrize("places", [1, -1], ids=["once", "everywhere"])
def test_a_golden_certificate_with_another_epsilon_is_refused(places, tmp_path):
    """One other digit in an epsilon, in one place or wherever it stands, and the folder does not verify."""
    folder = Path(shutil.copytree(HERE / "command" / "randomized-response", tmp_path / "forged"))
    path = next(folder.glob("*certificate.json"))
    path.write_text(path.read_text(encoding="utf-8").replace('"epsilon": 1.0', '"epsilon": 0.9', places))
    assert '"epsilon": 0.9' in path.read_text(encoding="utf-8")
    assert not labeldp.verify(folder).holds


# What is kept of work that may go on.


def test_a_golden_ledger_still_counts(tmp_path):
    """A ledger says what was charged, and refuses what goes beyond the budget that was set then."""
    path = Path(shutil.copy(HERE / "kept" / "ledger" / "charges.sqlite", tmp_path))
    assert json.loads(json.dumps(golden.charges(path))) == KEPT["ledger"]
    source = shutil.copy(golden.TABLE, tmp_path)
    given = {"keep": ["age"], "ledger": path, "unit": "row"}
    with pytest.raises(BudgetError):
        labeldp.release_table(source, "level", Classes(golden.LEVELS), 1.0, tmp_path / "out", **given)
    done = labeldp.release_table(source, "level", Classes(golden.LEVELS), 0.5, tmp_path / "out", **given)
    assert done.spent == (2.5, 0.0)


def test_a_paid_split_counts_whether_it_is_passed_or_not():
    """The rows that a generator was fitted on paid too, which the account adds and verification says."""
    folder = HERE / "python" / "double-paid"
    split = labeldp.verify(folder).certificate.paid_split
    (total,) = labeldp.combined_guarantee([folder])
    assert total.composition.epsilon == 1.0 + split.guarantee.epsilon == 5.0
    assert total.sources == (str(folder), f"the split behind {folder}")


def test_a_golden_run_in_stages_goes_on(tmp_path):
    """A run that was kept is taken up again with the labels that it had, and without a charge."""
    pytest.importorskip("sklearn", reason="stages need the learners")
    folder = Path(shutil.copytree(HERE / "kept" / "run-of-stages", tmp_path / "run"))
    asked = golden.curator()
    assert golden.staged(folder, asked).release_.hash == KEPT["run-of-stages"]
    assert asked.spent == (0.0, 0.0)


# Models and generators.


def check_libraries(name):
    """Skip what cannot be opened here: a library is missing, or scikit-learn is of another version than the file's."""
    pytest.importorskip("sklearn", reason="models and generators need the learners")
    if name.startswith("network") and "patches" not in name:
        pytest.importorskip("torch", reason="networks need PyTorch")
    if name.endswith(".skops.gz"):
        pytest.importorskip("skops", reason="earlier versions kept models of tables by skops")
    if name.endswith(".skops.gz") or name in PRESENT:
        libraries = made_with(name) if name in PRESENT else MADE_WITH
        kept, here = (text.split(".")[:2] for text in (libraries["scikit-learn"], version("scikit-learn")))
        if kept != here:
            pytest.skip(f"the file was kept by scikit-learn {'.'.join(kept)}, and {'.'.join(here)} refuses it")


def made_with(name):
    """The versions of libraries that a model's file names."""
    about, _, _ = golden.parts(gzip.decompress((HERE / "models" / name).read_bytes()))
    return about["made_with"]


@pytest.mark.parametrize("name", PREDICTED)
def test_a_golden_model_predicts_what_it_did(name):
    """A saved model opens and predicts of ten rows what was recorded; networks count in single precision.

    Features of patches were counted by PyTorch when their files were written, in another order.
    """
    check_libraries(name)
    accuracy = 1e-4 if "patches" in name or "ensemble" in name else 1e-5 if name.startswith("network") else 1e-6
    np.testing.assert_allclose(golden.predictions(HERE / "models" / name), PREDICTED[name], rtol=accuracy)


@pytest.mark.parametrize("name", PRESENT)
def test_a_golden_model_of_the_present_format_is_saved_as_it_was(name, tmp_path):
    """Opened and saved again it has the same description, but for versions, and the same bytes of arrays."""
    check_libraries(name)
    from labeldp.learning.tables import open_model  # noqa: PLC0415 (the learners are an extra)

    content = gzip.decompress((HERE / "models" / name).read_bytes())
    (tmp_path / "kept").write_bytes(content)
    again = open_model(tmp_path / "kept").save(tmp_path / "again").read_bytes()
    (kept, *arrays), (found, *same) = golden.parts(content), golden.parts(again)
    for one, other in ((kept, found), (kept.get("certificate") or {}, found.get("certificate") or {})):
        assert one.pop("made_with", {}).keys() == other.pop("made_with", {}).keys()
    assert (found, same) == (kept, arrays)


def test_expectations_are_of_all_files():
    """Each golden file of a model or a generator has an expectation, and the other way round."""
    for folder, expected in (("models", PREDICTED), ("generators", GENERATED)):
        assert {path.name for path in (HERE / folder).glob("*.gz")} == set(expected)


@pytest.mark.parametrize("name", GENERATED)
def test_a_golden_generator_draws_what_it_did(name):
    """A generator's file opens with the same facts, and the means that it draws are within eight deviations."""
    check_libraries(name)
    found, expected = golden.generator_facts(HERE / "generators" / name), dict(GENERATED[name])
    drawn, recorded = np.array(found.pop("means")), np.array(expected.pop("means"))
    assert found == expected
    deviation = np.hypot(drawn[:, 1], recorded[:, 1])
    assert (np.abs(drawn[:, 0] - recorded[:, 0]) < 8 * deviation).all()


# The command line and Python.


def randomized(make):
    """What Python certifies for labels that are randomized one by one."""
    return lambda asked: asked.randomize(make(asked.space, 1.0)).certificate


def best_of_unit(asked):
    """The best randomizer of classes for units."""
    best = randomizers.best_randomizer(asked.space, 1.0, asked.labels_of_a_unit)
    return asked.randomize(best).certificate


def with_prior(kind):
    """What Python certifies where each row has a prior."""
    columns = [golden.table()[f"p_{level}"].to_numpy() for level in golden.LEVELS]
    prior = labeldp.ClassProbabilities(np.column_stack(columns), golden.LEVELS)
    return lambda asked: asked.randomize(kind(asked.space, 1.0, prior)).certificate


def in_clusters(asked):
    """What Python certifies of counts in clusters and the labels that respond to them."""
    return labeldp.cluster_response(asked, golden.cells(), 1.0).release.certificate


def among_peers(asked):
    """What Python certifies of labels that peers exchange."""
    sizes = np.bincount(golden.cells()).tolist()
    peers = labeldp.PeerExchange.calibrate(1.0, 1e-6, sizes)
    return asked.answer(labeldp.ExchangedLabels(asked.space, peers, golden.cells(), 1e-6)).certificate


def in_shuffled_cells(asked):
    """What Python certifies of labels that are shuffled in cells."""
    sizes = np.bincount(golden.cells()).tolist()
    shuffle = labeldp.CellShuffle.calibrate(1.0, 1e-6, sizes, asked.space.size)
    return asked.answer(labeldp.ShuffledLabels(asked.space, shuffle, golden.cells(), 1e-6)).certificate


def histogram(asked):
    """What Python certifies of counts of all labels."""
    return asked.answer(labeldp.NoisyHistogram(asked.space, 1.0)).certificate


def quantile(asked):
    """What Python certifies of a quantile of all labels."""
    return asked.answer(labeldp.NoisyQuantile(asked.space, 1.0, 0.75)).certificate


def redrawn(asked):
    """What Python certifies of rows whose features are redrawn."""
    with golden.unpacked(GENERATOR) as file:
        made = labeldp.DoubleResponse(asked.space, 1.0, opened(file))
    return asked.randomize_rows(made, golden.table().select(["town", "smokes"])).certificate


def opened(file):
    """A generator that was saved."""
    from labeldp.learning.generators import open_generator  # noqa: PLC0415 (the learners are an extra)

    return open_generator(file).generator()


def without_features(asked):
    """What Python certifies of labels without features."""
    return asked.randomize_rows(labeldp.DummyResponse(asked.space, 1.0)).certificate


def counted(kind):
    """What Python certifies of numbers whose law is made from counts."""
    return lambda asked: labeldp.counted_response(asked, 1.0, kind).certificate


GENERATOR = HERE / "generators" / "cells.generator.gz"
UNIT = {"unit": "street"}
MANY = {"rows": 4000}
#: What is released twice: the label, the mechanism and options of the command line, and what Python certifies.
TWINS = {
    "auto": ("level", "auto", {}, randomized(labeldp.best_response)),
    "randomized-response": ("level", "randomized-response", {}, randomized(labeldp.RandomizedResponse)),
    "subset": ("level", "subset", {}, randomized(labeldp.SubsetResponse)),
    "bits": ("level", "bits", {}, randomized(labeldp.BitResponse)),
    "projective": ("level", "projective", {}, randomized(labeldp.ProjectiveResponse)),
    "prior": ("level", "prior", {"prior": "p_"}, with_prior(labeldp.PriorResponse)),
    "prior-subset": ("level", "prior-subset", {"prior": "p_"}, with_prior(labeldp.PriorSubsetResponse)),
    "groups": ("level", "groups", {"prior": "p_"}, with_prior(labeldp.GroupResponse)),
    "cluster": ("level", "cluster", {"clusters": "cell"}, in_clusters),
    "peer": ("flag", "peer", {"clusters": "cell", "delta": 1e-6}, among_peers),
    "shuffle": ("level", "shuffle", {"clusters": "cell", "delta": 1e-6}, in_shuffled_cells),
    "double": ("level", "double", {"keep": "town,smokes", "generator": GENERATOR}, redrawn),
    "dummy": ("level", "dummy", {"keep": "none"}, without_features),
    "auto of numbers": ("score", "auto", {}, randomized(labeldp.best_number_response)),
    "optimal": ("score", "optimal", {}, randomized(labeldp.OptimalResponse)),
    "minimax": ("score", "minimax", {}, randomized(labeldp.MinimaxResponse)),
    "noisy-histogram": ("score", "noisy-histogram", {"keep": "none"}, histogram),
    "noisy-quantile": ("score", "noisy-quantile", {"keep": "none", "level": 0.75}, quantile),
    "noisy-histogram of units": ("score", "noisy-histogram", {**UNIT, "keep": "none"}, histogram),
    "piecewise": ("score", "piecewise", {}, randomized(labeldp.PiecewiseResponse)),
    "one-bit": ("score", "one-bit", {}, randomized(labeldp.OneBitResponse)),
    "laplace": ("score", "laplace", {}, randomized(labeldp.LaplaceResponse)),
    "bins": ("score", "bins", MANY, counted(labeldp.BinResponse)),
    "optimal-counts": ("score", "optimal-counts", MANY, counted(labeldp.OptimalResponse)),
    "auto of units": ("level", "auto", UNIT, best_of_unit),
    "randomized-response of units": ("level", "randomized-response", UNIT, randomized(labeldp.RandomizedResponse)),
    "subset of units": ("level", "subset", UNIT, randomized(labeldp.SubsetResponse)),
    "bits of units": ("level", "bits", UNIT, randomized(labeldp.BitResponse)),
    "laplace of units": ("score", "laplace", UNIT, randomized(labeldp.LaplaceResponse)),
}
#: Those whose law depends on what was drawn.
OF_COUNTS = ("cluster", "bins", "optimal-counts")


#: Assumptions that name columns, as a table has them, or rows, as an array does.
NAMING = ("the kept columns", "the type in", "columns kept", "the column 'street'", "the units", "the prior")


def certified(name, place):
    """The certificates of the command line and of Python for the same labels."""
    label, mechanism, options, in_python = TWINS[name]
    options = {"keep": "age", **options}
    source, labels = place / "people.csv", golden.labels(label)
    source.write_text(golden.TABLE.read_text().replace("person", "street", 1))  # or a unit must be declared
    if rows := options.pop("rows", None):
        labels = np.random.default_rng(0).integers(0, 11, rows).astype(float).tolist()
        source.write_text("age,score\n" + "".join(f"{row % 50},{value}\n" for row, value in enumerate(labels)))
    if "generator" in options:
        pytest.importorskip("sklearn", reason="generators need the learners")
        with golden.unpacked(options["generator"]) as file:
            options["generator"] = shutil.copy(file, place)
    space = golden.SPACES[label]
    declared = ["--interval", "0,10,1"] if label == "score" else ["--classes", ",".join(space.points)]
    typed = [str(part) for option, value in options.items() for part in (f"--{option}", value)]
    command = ["release", str(source), "--label", label, *declared, "--epsilon", "1", "--mechanism", mechanism]
    assert cli.main([*command, *typed, "--output", str(place / "out")]) == 0
    units = golden.labels("person") if "unit" in options else None
    return labeldp.verify(place / "out").certificate, in_python(Curator(labels, space, name=label, units=units))


@pytest.mark.parametrize("name", TWINS)
def test_the_command_line_and_python_certify_the_same(name, tmp_path):
    """For the same labels and epsilon: one guarantee and law, and field by field, but for names, files and columns."""
    typed, called = certified(name, tmp_path)
    assert replace(typed.guarantee, unit="") == replace(called.guarantee, unit="")
    assert (typed.guarantee.unit, called.guarantee.unit) in {("row", "row"), ("street", "unit")}
    if name not in OF_COUNTS:
        drawn, again = ([(each.mechanism, each.law) for each in one.draws] for one in (typed, called))
        assert drawn == again
    assert len(typed.assumptions) == len(called.assumptions) + 1
    declared = [[each for each in one.assumptions if not each.startswith(NAMING)] for one in (typed, called)]
    assert declared[0] == declared[1]
    alike = {each.name for each in fields(typed)} - {"release", "label", "columns", "files", "assumptions", "draws"}
    for field in alike - {"expects"}:
        assert getattr(typed, field) == getattr(called, field), field
    assert [each.rows for each in typed.draws] == [each.rows for each in called.draws]
    if called.expects is None or name in OF_COUNTS:
        assert type(typed.expects) is type(called.expects)
    else:
        assert astuple(typed.expects) == pytest.approx(astuple(called.expects), rel=1e-12)
