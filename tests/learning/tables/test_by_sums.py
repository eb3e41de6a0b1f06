"""Models of releases that are larger than memory, by sums over parts: the same whoever adds up, and however."""

import dataclasses
import importlib.util
import itertools
import json
import os
import shutil
import signal
import sys
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import labeldp.learning.sklearn._auto as auto_module
import labeldp.learning.tables._stored as stored_module
from labeldp import Classes, Interval, Release, public_columns, release_table
from labeldp.cli import main
from labeldp.errors import InputError, VerificationError
from labeldp.learning.features import columns_of
from labeldp.learning.heads import Grid, Kernels, KernelSums
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import WIDTHS, EvidenceRidge, KernelClassifier
from labeldp.learning.tables import learn, open_model
from labeldp.learning.tables._part_sums import PartSums, SumsOfPart, UnitSums, fold_numbers, unit_hashes
from labeldp.learning.tables._stored import SampledRows, StoredRelease, free_memory, rows_in_memory
from labeldp.release import ReleasePart
from labeldp.release.engines import InProcess, engine_of, open_engine
from labeldp.release.engines._submitted import Submitted
from labeldp.release.folder import read_certificate

sys.path.insert(0, str(Path(__file__).parents[2] / "release" / "engines"))
from forks import Forks, Twice

ROWS, PARTS = 4_000, 4
SPACES = {"label": Classes(["no", "yes"]), "cost": Interval(0.0, 100.0, 1.0)}


def frame(part):
    """Two numbers, towns and patients, whose labels follow the first number and the town."""
    chance = np.random.default_rng(part)
    count = ROWS // PARTS
    x, town = chance.normal(size=count), chance.choice(np.array(["bath", "rome", "oslo"]), count)
    level = np.abs(x) + (town == "rome")
    table = {"x": x.round(3), "z": chance.normal(size=count).round(3), "town": town}
    table |= {"patient": np.arange(count) // 4 + part * count, "label": np.where(level > 1.0, "yes", "no")}
    return pd.DataFrame(table | {"cost": np.clip(25.0 * level, 0.0, 100.0).round()})


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Releases of classes and of numbers, with rows of their own, and of classes of patients."""
    found = {}
    for name, label, unit in (("label", "label", "row"), ("cost", "cost", "row"), ("units", "label", "patient")):
        home = tmp_path_factory.mktemp(name)
        (home / "t").mkdir()
        for part in range(PARTS):
            frame(part).to_parquet(home / "t" / f"{part}.parquet")
        rest = [other for other in SPACES if other != label]
        given = {"drop": [*rest, *(["patient"] if unit == "row" else [])], "budget": 99.0, "unit": unit}
        release_table(home / "t", label, SPACES[label], 4.0, home / "o", **given)
        found[name] = home / "o"
    return found


@pytest.fixture
def _small(monkeypatch):
    """Few rows count as many."""
    monkeypatch.setattr(stored_module, "SOME_ROWS", 500)
    monkeypatch.setattr(auto_module, "SOME_ROWS", 2000)
    monkeypatch.setattr(auto_module, "_ENOUGH_ROWS", 1)


#: Later Pythons warn of forks where there are threads.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Cut(ReleasePart):
    """A piece of a part, in batches of some length."""

    low, high, length = 0, 0, 1

    def batches(self, rows=0):
        """The rows of the piece."""
        table = pa.Table.from_batches(list(super().batches(1 << 16))).slice(self.low, self.high - self.low)
        yield from table.combine_chunks().to_batches(max_chunksize=min(self.length, rows or self.length))


def cuts(part, pieces, length):
    """A part in pieces, with batches of a length."""
    ends = np.linspace(0, part.rows, pieces + 1).astype(int)
    for low, high in itertools.pairwise(ends):
        each = Cut(**{field.name: getattr(part, field.name) for field in dataclasses.fields(part)})
        for name, value in {"low": low, "high": high, "length": length, "first": part.first + int(low)}.items():
            object.__setattr__(each, name, value)
        object.__setattr__(each, "rows", int(high - low))
        yield each


def models(folder, engine=None, change=lambda parts: parts, encoder=lambda given: given):
    """The models of all rows of a release but one fold, by the sums over changed parts; and rows to predict."""
    stored = StoredRelease.of(folder, engine or InProcess(), lambda *_: None)
    sampled = stored.sample(1500)
    columns, _ = columns_of(sampled.table, None, stored.unit)
    reader, grid = sampled.reader(columns)
    again = dataclasses.replace(stored, parts=tuple(change(stored.parts)))
    changed = dataclasses.replace(reader, encoder=encoder(reader.encoder)), grid
    given = type("Given", (SampledRows,), {"reader": lambda *_: changed})(**vars(sampled))
    return cache(again.models(given, columns).models), reader.encoder.transform(reader.frame(sampled.table))


plainly = cache(models)


def assert_as_plainly(folder, found, folds=(None,)):
    """Models have the names of those of this process alone, and predict the same bits."""
    expected, rows = plainly(folder)
    for fold in folds:
        assert found(fold).keys() == expected(fold).keys()
        for name in found(fold):
            first, second = (
                getattr(each(fold)[name][-1], "predict_proba", each(fold)[name][-1].predict)(rows)
                for each in (found, expected)
            )
            assert first.tobytes() == second.tobytes()
            assert np.ptp(first, axis=0).max() > 0.1


@pytest.mark.parametrize("name", ["label", "cost", "units"])
def test_models_are_the_same_however_rows_are_cut(folders, name):
    """Parts in pieces, in batches of other lengths and in another order give models that predict the same bits."""

    def change(parts):
        return [each for part in reversed(parts) for each in cuts(part, 7, 90)]

    assert_as_plainly(folders[name], models(folders[name], change=change)[0], (None, 2))


@pytest.mark.parametrize("engine", ["forks", "twice", "processes:2", "dask:2", "spark:2"])
def test_engines_make_the_same_models(folders, engine):
    """Workers of every engine, and tasks that run twice, add up to the same bits as this process alone."""
    if engine.startswith("dask") and importlib.util.find_spec("distributed") is None:
        pytest.skip("dask.distributed is not installed")
    if engine.startswith("spark") and (importlib.util.find_spec("pyspark") is None or shutil.which("java") is None):
        pytest.skip("pyspark and Java are not both installed")
    if engine in ("forks", "twice"):
        workers = engine_of({"forks": Forks, "twice": Twice}[engine](), InProcess())
        assert_as_plainly(folders["units"], models(folders["units"], workers)[0])
        return
    with open_engine(engine) as workers:
        assert_as_plainly(folders["units"], models(folders["units"], workers)[0])


class Deadly:
    """An encoder whose process dies at its first use by a part."""

    def __init__(self, encoder, folder):
        self.encoder, self.folder = encoder, folder

    def transform(self, rows):
        """Die, or encode."""
        marker = Path(self.folder) / f"{rows['x'].iloc[0]}"
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return self.encoder.transform(rows)
        os.kill(os.getpid(), signal.SIGKILL)
        return None


class Again(Submitted):
    """Forked children, which are replaced when they die."""

    def _renew(self):
        return True


@pytest.mark.parametrize("runs", [1, 10])
def test_killed_workers_change_nothing(folders, tmp_path, runs):
    """Where the worker of each part dies once, in some runs, parts are added up again, and models predict the same."""
    for run in range(runs):
        (tmp_path / str(run)).mkdir()
        deadly = partial(Deadly, folder=str(tmp_path / str(run)))
        assert_as_plainly(folders["label"], models(folders["label"], Again(Forks()), encoder=deadly)[0])
    assert len(list(tmp_path.glob("*/*"))) == runs * PARTS


def test_sums_agree_with_a_fit_in_memory(folders):
    """Classifier and regressor by sums predict what they do when fitted to all rows at once."""
    found = plainly(folders["label"])[0](None)
    stored = StoredRelease.of(folders["label"], InProcess(), lambda *_: None)
    sampled = stored.sample(1500)
    columns, _ = columns_of(sampled.table, None, None)
    reader, grid = sampled.reader(columns)
    table, release = public_columns(folders["label"]), Release.load(folders["label"])
    rows = reader.encoder.transform(reader.frame(table))
    whole = KernelClassifier().fit(rows, release)
    difference = whole.predict_proba(rows) - found["kernels"][-1].predict_proba(rows)
    assert np.abs(difference).mean() < 0.05  # their landmarks differ
    ridge = EvidenceRidge(signal=found["kernels"][-1].ridge_.signal)
    sums = type(models_sums(grid, rows, release)).of(grid, [models_sums(grid, rows, release)])
    same = ridge.fit_sums(sums).predict(rows).reshape(len(release), -1)
    np.testing.assert_allclose(same, found["kernels"][-1].ridge_.predict(rows), atol=1e-9)


def models_sums(grid, rows, release):
    """The sums over rows in memory."""
    return KernelSums.of(grid).add(rows, release.unbiased(), np.ones(len(release)))


def test_folds_hold_whole_units(folders):
    """All rows of a unit are in one fold, by a hash of its name, and folds have about as many units each."""
    table = public_columns(folders["units"])
    folds = fold_numbers(unit_hashes(table, "patient", 0))
    patients = table["patient"].to_numpy()
    assert all(len(np.unique(folds[patients == each])) == 1 for each in np.unique(patients)[:200])
    counts = np.bincount(folds[::4], minlength=5)
    assert counts.min() > 140
    assert not np.array_equal(folds, fold_numbers(unit_hashes(table, None, 0)))


def test_models_of_a_fold_have_not_seen_it(folders):
    """The sums of all folds but one have the rows of these folds."""
    stored = StoredRelease.of(folders["label"], InProcess(), lambda *_: None)
    sampled = stored.sample(1500)
    reader, grid = sampled.reader(columns_of(sampled.table, None, None)[0])
    total = PartSums.of(grid, None)
    for part in stored.parts:
        total.merge(SumsOfPart(reader, grid)(part, lambda _: None))
    folds = fold_numbers(np.arange(ROWS, dtype=np.uint64))
    for fold in range(5):
        assert total.others(fold).evidence()[0].rows == (folds != fold).sum()
    assert total.rows == total.others(None).evidence()[0].rows == ROWS


def test_the_design_effect_of_a_sketch_is_that_of_units():
    """Signed sums in buckets estimate how much rows of a unit are alike, to a few per cent."""
    chance = np.random.default_rng(0)
    unit = np.repeat(np.arange(20_000), 5)
    targets = (0.5 * chance.normal(size=20_000)[unit] + chance.normal(size=100_000))[:, None]
    expected = Units.of(unit, len(unit)).design_effect(targets - targets.mean())
    sums = UnitSums.of(1)
    sums.add(unit.astype(np.uint64), np.hstack([np.ones_like(targets), targets]))
    squares = float(((targets - targets.mean()) ** 2).sum())
    assert sums.design_effect(targets.mean(axis=0), squares, len(unit)) == pytest.approx(expected, rel=0.1)
    assert 1.5 < expected < 2.5


@pytest.mark.parametrize("name", ["label", "cost"])
@pytest.mark.usefixtures("_small")
def test_a_large_release_is_learned_by_sums(folders, name, tmp_path, monkeypatch):
    """The default combination has models of all rows, holds few, says so, predicts well, and its file opens."""
    pytest.importorskip("lightgbm")
    for module in (auto_module, stored_module):
        monkeypatch.setattr(module, "ENOUGH_HELD", 50)
    passes = set()
    with monkeypatch.context() as patch:
        patch.setattr(Release, "load", lambda _: pytest.fail("all labels are held"))
        learned = learn(folders[name], progress=lambda *report: passes.add(report[0]))
    assert "boosting from bins of 4,000" in learned.way
    assert learned.model.estimator.members_["boosting"][-1].rounds_ > 0
    assert "sums over all 4,000 rows" in learned.way
    assert "effective rows)" in learned.way
    assert learned.rows is None
    assert {"sample", "sums", "trees", "learn"} <= passes
    assert learned.scores is not None
    table = frame(99)
    model = open_model(learned.model.save(tmp_path / "m.safetensors"))
    if name == "cost":
        assert np.abs(model.predict(table) - table["cost"]).mean() < 12.0
        return
    assert (model.predict_proba(table)[:, 1].round() == (table["label"] == "yes")).mean() > 0.9
    for rows, apart in ((800, None), (None, 0.9)):
        some = learn(folders[name], rows=rows, coverage=apart)
        assert "sums" not in some.way
        assert some.rows is not None


def test_rows_for_trees_are_those_of_other_folds(folders, monkeypatch):
    """Boosting keeps all rows but those of the first fold, with their labels, in bins of their own values."""
    monkeypatch.setattr(stored_module, "ENOUGH_HELD", 50)
    stored = StoredRelease.of(folders["units"], InProcess(), lambda *_: None)
    sampled = stored.sample(1500)
    columns, _ = columns_of(sampled.table, None, "patient")
    reader, grid = sampled.reader(columns, stored.share_of_trees(sampled))
    total = PartSums.of(grid, "patient")
    for part in stored.parts:
        total.merge(SumsOfPart(reader, grid)(part, lambda _: None))
    batches, labels = zip(*total.binned, strict=True)
    codes, table, release = np.concatenate(batches), public_columns(folders["units"]), Release.load(folders["units"])
    expected = np.flatnonzero(fold_numbers(unit_hashes(table, "patient", 0)) != 0)
    np.testing.assert_array_equal(stored.parts[0].joined(labels).codes, release.codes[expected])
    rows = reader.trees.encoder.transform(reader.frame(table))[expected]
    values = reader.trees.bins.points(codes)
    assert np.abs(values[:, :2] - rows[:, :2]).max() < 1.5  # the outermost bins are wide
    assert np.abs(values[:, :2] - rows[:, :2]).mean() < 0.02
    np.testing.assert_array_equal(values[:, 2], rows[:, 2])
    some = dataclasses.replace(reader.trees, share=0.25)
    few = [len(some.keep(reader.frame(table), release, unit_hashes(table, "patient", 0))[0]), len(expected)]
    assert 0.15 < few[0] / few[1] < 0.35


@pytest.mark.usefixtures("_small")
def test_memory_bounds_the_rows_of_a_sample(folders):
    """A bound on memory makes the sample smaller, which is said; other families take such a sample too."""
    certificate = read_certificate(folders["label"])
    bound = 900 * (10**9 // rows_in_memory(certificate, 10**9))
    learned = learn(folders["label"], model="softmax", memory=bound)
    assert learned.way.endswith("as no more fit in the memory allowed")
    assert 700 < learned.rows < 1000
    assert learn(folders["label"], model="softmax").rows is None
    assert free_memory() > 2**20


@pytest.mark.usefixtures("_small")
def test_the_command_takes_an_engine_and_memory(folders, tmp_path, capsys):
    """It learns by sums with a process, says so in JSON and on a terminal, and refuses both for networks."""
    given = ["learn", str(folders["label"]), "--engine", "processes:1", "--memory", "8GB"]
    assert main([*given, "--output", str(tmp_path / "a.safetensors"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["way"].startswith("sums over all 4,000 rows")
    network = ["--model", "torch:mlp", "--output", str(tmp_path / "b.safetensors")]
    assert main([*given, *network]) != 0
    assert "no --engine and no --memory with a network" in capsys.readouterr().err
    assert main([*given[:-1], "lots", "--output", str(tmp_path / "c.safetensors")]) != 0
    assert "such as 4GB" in capsys.readouterr().err


def test_a_changed_file_is_refused_by_sums(folders, tmp_path):
    """A file that changes after it was verified ends the work."""
    shutil.copytree(folders["label"], tmp_path / "o")
    stored = StoredRelease.of(tmp_path / "o", InProcess(), lambda *_: None)
    path = tmp_path / "o" / stored.parts[1].file.name
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(VerificationError, match="different bytes"):
        stored.sample(100)


def test_nonsense_of_memory_is_refused():
    """An amount of memory is a number and a unit."""
    import typer  # noqa: PLC0415 (an extra)

    from labeldp.cli._options import bytes_of  # noqa: PLC0415

    assert [bytes_of(text) for text in ("4GB", "500 MB", "2GiB", "1000")] == [4 * 10**9, 5 * 10**8, 2**31, 1000]
    for text in ("", "GB", "four", "-1GB", "0", "1e99GB", "nan"):
        with pytest.raises((typer.BadParameter, InputError)):
            bytes_of(text)


@pytest.mark.parametrize("name", ["label", "cost"])
def test_sums_are_of_the_kernels_that_a_sample_leaves_likely(folders, name):
    """The kernel that weighs most in a fit to all rows, of all kernels, is among the few that are added up."""
    stored = StoredRelease.of(folders[name], InProcess(), lambda *_: None)
    sampled = stored.sample(1500)
    reader, grid = sampled.reader(columns_of(sampled.table, None, None)[0])
    rows = reader.encoder.transform(reader.frame(public_columns(folders[name])))
    targets = reader.targets(Release.load(folders[name]))
    every = Grid.like(Kernels.of(rows[:1500], WIDTHS), rows, *targets)
    assert len(every.kernels.each) == 5
    assert 2 <= len(grid.kernels.each) <= 3
    whole = reader.targets.ridge(KernelSums.of(every).add(rows, *targets))
    heaviest = whole.widths_[int(np.argmax(whole.weights_))]
    ratios = [each.width / heaviest for each in grid.kernels.each]  # landmarks differ, and so do median distances
    assert any(0.7 < ratio < 1.4 for ratio in ratios) or np.isinf(heaviest)
