"""``labeldp audit``: 0 where nothing beyond the claim was found, 1 where it was, 2 where nothing could be audited."""

import shlex
import struct
import sys
import types

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from labeldp import Classes, Curator, DoubleResponse, RandomizedResponse, Release
from labeldp.audit import attacks
from labeldp.errors import InputError
from labeldp.learning.generators import fit_copula

MECHANISMS = """
import numpy as np
rng = np.random.default_rng()

def response(label, n, keep=0.731):
    other = {"zq-a": "zq-b", "zq-b": "zq-a"}[label]
    return np.where(rng.random(n) < keep, label, other)

def doubled(label, n):
    return response(label, n, 0.88)

def boom(label, n):
    raise ValueError("private words")

def short(label, n):
    return [label]

number = 7
"""
SPACE = Classes(["no", "yes"])
C = "--classes zq-a,zq-b"
#: Options of an audit of a function, the exit code, and words of what is printed.
FUNCTIONS = [
    (f"response {C} --confidence 0.999999", 0, "The claim of epsilon 1.01 was not refuted: epsilon is between"),
    (f"doubled {C}", 1, "The claim of epsilon 1.01 is wrong: epsilon is at least"),
    (f"short {C}", 2, "outputs, found 1"),
    (f"number {C}", 2, "can be called, found int"),
    (f"nothing {C}", 2, "found no such name"),
    (f"boom {C}", 2, "raised ValueError at call 1, for the declared label 'zq-a'; call it yourself with"),
    ("response", 2, "either --classes or --interval"),
    (f"response {C} --interval 0,1,0.5", 2, "either --classes or --interval"),
    ("response --classes zq-a", 2, "at least two declared classes"),
    (f"response {C} --delta nan", 2, "found nan"),
    (f"response {C} --claim nan", 2, "found nan"),
    (f"response {C} --model m.safetensors", 2, "no options for releases with --callable"),
    (f"response {C} --profile", 2, "no options for releases with --callable"),
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a module of mechanisms, from which the command is run."""
    (tmp_path / "zq_mechanisms.py").write_text(MECHANISMS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *sys.path])


@pytest.mark.parametrize(("options", "code", "words"), FUNCTIONS)
@pytest.mark.usefixtures("here", "as_users_call")
def test_a_function_is_audited(run, options, code, words):
    """The exit code, and the verdict or the reason: no label, no word of the function, and no proof of privacy."""
    name, *more = shlex.split(options)
    ran = run("audit", "--callable", f"zq_mechanisms:{name}", "--draws", 40_000, "--claim", 1.01, *more)
    assert (ran.code, ran.out == "") == (code, code == 2), ran.err
    assert words in ran.out + ran.err
    assert "private words" not in ran.err
    assert "zq-" not in ran.err.partition("the declared label")[0]
    assert ("no proof of privacy" in ran.out) == (code == 0)


def test_each_row_goes_to_a_file_for_its_owner(run, tmp_path):
    """What is known of each label without the released one and with it: e^2 / (1 + e^2) is 0.88."""
    labels = np.random.default_rng(6).choice(["no", "yes"], 4000)
    table = pd.DataFrame({"number": np.arange(4000)})
    Curator(labels, SPACE, name="y").randomize(RandomizedResponse(SPACE, 2.0)).save(tmp_path / "out", table, keep="all")
    table.assign(y=labels).to_csv(tmp_path / "t.csv", index=False)
    public, rows = ("--truth", tmp_path / "t.csv", "--label", "y", "--labels-are-public"), tmp_path / "private-rows.csv"
    ran = run("audit", tmp_path / "out", *public, "--private-rows", rows)
    assert (ran.code, ran.err) == (0, "")
    written = pd.read_csv(rows)
    assert list(written) == ["row", "guess", "sure without the released label", "sure with it"]
    assert (written["row"] == np.arange(4000)).all()
    assert 0.85 < written["sure with it"].mean() < 0.9
    assert 0.85 < (written["guess"] == labels).mean() < 0.91


def test_every_row_of_many_goes_to_the_file_part_by_part(run, tmp_path, monkeypatch):
    """Each with its own label and its own columns, in parts that are even and shown as they are done."""
    monkeypatch.setattr("labeldp.cli._audit._MOST_ROWS", 250)
    monkeypatch.setattr("labeldp.cli._terminal._PAUSE", 0.0)
    table = pd.DataFrame({"x": np.arange(700) % 7})
    labels = np.where(table["x"] > 3, "no", "yes")
    Curator(labels, SPACE, name="y").randomize(RandomizedResponse(SPACE, 12.0)).save(
        tmp_path / "out", table, keep="all"
    )
    table.assign(y=labels).to_csv(tmp_path / "t.csv", index=False)
    sizes, attack = [], attacks.attack_release

    def attacked(release, *args, **options):
        sizes.append((len(release), len(options["truth"])))
        return attack(release, *args, **options)

    monkeypatch.setattr("labeldp.audit.attacks.attack_release", attacked)
    public, rows = ("--truth", tmp_path / "t.csv", "--label", "y", "--labels-are-public"), tmp_path / "private-rows.csv"
    ran = run("audit", tmp_path / "out", *public, "--private-rows", rows)
    assert ran.code == 0, ran.err
    assert sizes == [(250, 250), (234, 234), (234, 234), (232, 232)]
    assert "attacking all rows: 700 of 700" in ran.err
    written = pd.read_csv(rows)
    assert (written["row"] == np.arange(700)).all()
    assert (written["guess"] == labels).mean() > 0.98


def test_images_of_many_rows_are_those_of_the_rows_that_are_attacked(run, tmp_path, monkeypatch):
    """One file of images has them in the order of all rows: those at other places would tell nothing."""
    monkeypatch.setattr("labeldp.cli._audit._MOST_ROWS", 200)
    labels, images = np.array(["no", "yes"])[np.random.default_rng(0).integers(2, size=600)], tmp_path / "idx"
    pixels = np.where(labels == "yes", 250, 5).astype(np.uint8)
    images.write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", 600, 2, 2) + np.repeat(pixels, 4).tobytes())
    Curator(labels, SPACE, name="y").randomize(RandomizedResponse(SPACE, 2.0)).save(tmp_path / "out")

    model, seen = types.SimpleNamespace(columns={}, certificate=None), []
    monkeypatch.setattr("labeldp.cli._options.ImageOptions.open_model", lambda *_: model)
    monkeypatch.setattr("labeldp.cli._audit._mixing", lambda *_: None)

    def attacked(release, knowledge, **_):
        seen.append((len(release), (knowledge.features[:, 0, 0, 0] > 100).tolist()))
        raise InputError("this is enough")

    monkeypatch.setattr("labeldp.audit.attacks.attack_release", attacked)
    places = np.arange(3, 603, 3)[:199]
    some = attacks.SomeRows(pa.table({}), Release.load(tmp_path / "out")[places], places)
    monkeypatch.setattr("labeldp.audit.attacks.some_rows", lambda *_: some)
    ran = run("audit", tmp_path / "out", "--model", tmp_path / "m.safetensors", "--images", images)
    assert "this is enough" in ran.err
    assert seen == [(199, (labels[places] == "yes").tolist())]


def test_of_many_rows_some_stand_for_all(run, tmp_path, monkeypatch):
    """They are chosen by chance, which is said; the audit itself counts every row, and all of it shows its progress."""
    monkeypatch.setattr("labeldp.cli._audit._MOST_ROWS", 500)
    monkeypatch.setattr("labeldp.cli._terminal._PAUSE", 0.0)
    table = pd.DataFrame({"x": np.arange(600) % 7})
    curator = Curator(np.where(table["x"] > 3, "no", "yes"), SPACE)
    curator.randomize(RandomizedResponse(SPACE, 4.0)).save(tmp_path / "out", table, keep="all")
    done = run("audit", tmp_path / "out")
    assert done.code == 0, done.err
    assert "rows, which were chosen by chance, stand for all 600" in done.out
    lines = done.err.splitlines()
    work = ["drawing and counting", "reading the release", "grouping rows by their columns"]
    assert {line.partition(":")[0] for line in lines} == {*work}
    for title in work[:2]:
        assert any(line.startswith(f"{title}: 600 of 600") for line in lines)


@pytest.fixture
def redrawn(tmp_path):
    """The folder of rows a half of whose features were redrawn, of which one column tells the label; its generator."""
    random = np.random.default_rng(5)
    text = np.array(["no", "yes"])[np.arange(1500) % 2]
    rows = {"number": np.where(text == "yes", 1.0, 0.0) + random.normal(0, 0.3, 1500)}
    fitted = fit_copula(pd.DataFrame(rows), Release.public(text, SPACE), "a study")
    fitted.save(tmp_path / "people.generator")
    random.shuffle(order := np.arange(1500))
    private = pd.DataFrame({"number": rows["number"][order] + random.normal(0, 0.01, 1500)})
    double = DoubleResponse(SPACE, 1.0, fitted.generator(), 0.5)
    Curator(text[order], SPACE).randomize_rows(double, private, divergences={2.0: 0.8}).save(tmp_path / "rows")
    return tmp_path / "rows"


def test_features_that_were_redrawn_are_attacked_as_such(run, redrawn, tmp_path):
    """A model of true features counts for the rows that kept theirs; one of mixed rows is taken as it is.

    So features and label together gain no less than the label alone, the guarantee with conditional features limits
    both, and nobody is told to redraw what was redrawn. Without its generator a corrected model cannot be fitted anew.
    """
    generator = ("--generator", tmp_path / "people.generator")
    for name, options in (("true", generator), ("mixed", ())):
        assert run("learn", redrawn, *options, "--output", tmp_path / f"{name}.safetensors").code == 0
    ran = run("audit", redrawn, "--model", tmp_path / "true.safetensors", *generator, "--profile")
    assert (ran.code, ran.err) == (0, "")
    lines = [[cell.strip() for cell in line.split("│")] for line in ran.out.splitlines() if "as believed" in line]
    believed = {cells[1]: float(cells[2].rstrip("%")) for cells in lines}
    assert believed["features and the released label"] >= believed["the released label"]
    assert "resampled with probability 50.0%, and the attack uses that" in ran.out
    assert "the guarantee with conditional features of this release does" in ran.out
    assert "by the guarantee with conditional features (order 2); no class above 5" in ran.out
    assert "limited by its guarantee with conditional features" in ran.out
    assert "--mechanism double" not in ran.out
    mixed = run("audit", redrawn, "--model", tmp_path / "mixed.safetensors")
    assert "The model's probabilities are taken to be for features as released" in mixed.out
    refused = run("audit", redrawn, "--model", tmp_path / "true.safetensors")
    assert (refused.code, "expected the generator of the resampled features" in refused.err) == (2, True)
