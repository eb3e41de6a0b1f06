"""``_README.txt``: every release folder says what it is, and ``verify`` compares the text with the certificate."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from labeldp import Classes, Curator, Interval, PriorMechanism, Release, release_table, verify
from labeldp.privacy.channels import channel_of, nearest_distributions, share_at
from labeldp.release.folder import _effective_rows, read_certificate
from labeldp.release.folder._certificate import Draw
from labeldp.release.folder._description import cautions, readmes

TESTS = Path(__file__).parents[2]
GOLDEN, KEPT = TESTS / "golden/command", TESTS / "vectors/readmes"


@pytest.fixture
def shared(tmp_path):
    """A fresh release with a public column."""
    release = Curator(["no", "yes"] * 20, Classes(["no", "yes"]), name="ill").randomize(epsilon=1.0)
    return release.save(tmp_path / "shared", pd.DataFrame({"age": range(40)}), keep="all")


def test_a_release_says_that_its_labels_are_randomized(shared):
    """How often they are wrong, how to use and verify them and whom to ask; other readers skip the file."""
    text = " ".join((shared / "_README.txt").read_text(encoding="utf-8").split())
    for said in (
        "The labels in ill_released are randomized: each is the true class with probability 0.731, so 26.9 % of them",
        'Release.load("shared")',
        "labeldp verify shared",
        "labeldp is a package for Python. Ask whoever gave you this folder where to get it",
        "ask whoever gave you this folder",
        read_certificate(shared).sentence,
    ):
        assert said in text
    assert verify(shared).holds
    assert pd.read_parquet(shared).shape == (40, 2)


def test_a_text_that_does_not_follow_is_refused(shared):
    """Changed, longer, empty, a pipe or a folder; a folder without one is as old ones are."""
    path = shared / "_README.txt"
    text = path.read_bytes()

    def refused():
        verdict = verify(shared)
        assert not verdict.holds
        assert "expected _README.txt as it follows from the certificate" in verdict.checks[-1].found

    for changed in (text + b" ", text[:-1], text.replace(b"26.9", b"0.1"), b""):
        path.write_bytes(changed)
        refused()
    path.unlink()
    assert verify(shared).holds
    for make in (os.mkfifo, Path.mkdir):
        make(path)
        refused()
        path.unlink() if make is os.mkfifo else path.rmdir()


def test_every_kind_of_release_says_what_it_is():
    """Labels with the warning, answers without, none with a line that is too long to read."""
    for folder in sorted(GOLDEN.iterdir()):
        certificate = read_certificate(folder)
        text, *earlier = readmes(certificate)
        assert ("Do not train on them" in " ".join(text.split())) != certificate.of_answer
        assert max(map(len, text.split("\n"))) <= 100
        assert text not in earlier


@pytest.mark.parametrize("text", sorted(KEPT.iterdir()), ids=lambda path: path.stem)
def test_the_text_keeps_its_bytes(text, tmp_path):
    """What was written once verifies in every later version."""
    name = text.stem.rstrip("-23")
    folder = shutil.copytree(GOLDEN / name, tmp_path / name)
    shutil.copyfile(text, folder / "_README.txt")
    assert verify(folder).holds


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("auto-of-units", "46.4 % of them are expected to be true, from 45.2 % (person with 2 rows) to 57.6 % (per"),
        ("subset-of-units", "46.4 % of these are expected to contain the true class, from 45.2 % (person with 2 rows)"),
        ("laplace-of-units", "over the range), from 11.5 (person with 1 row) to 21.8 (person with 2 rows). Do not"),
        ("bits-of-units", "each is a set of classes that contains the true class with probability 0.5. Do not"),
    ],
)
def test_units_of_other_sizes_have_their_own_figures(name, said):
    """One figure is an average over rows, and each person's is another; as the laws of the groups say."""
    certificate = read_certificate(GOLDEN / name)
    assert said in cautions(certificate)[0]
    if name == "auto-of-units":
        shares = [f"{100 * channel.membership.true:.3g} %" for channel in certificate.channel.channels]
        assert shares == ["57.6 %", "45.2 %"]


def test_rounded_sizes_are_the_most_of_a_group():
    """With many sizes, each is rounded up; rows of several releases may differ at one size."""
    certificate = read_certificate(GOLDEN / "auto-of-units")

    def of(repeats):
        channel = replace(certificate.channel, repeats=repeats)
        draw = Draw.of("auto", channel, certificate.draws[0].rows, certificate.draws[0].guarantee)
        return cautions(replace(certificate, draws=(draw,)))[0]

    assert "(person with at most 64 rows) to 57.6 % (person with at most 4 rows)" in of((4, 64))
    assert "(person with 4 rows) to 57.6 % (person with 3 rows)" in of((3, 4))
    assert "true, from 45.2 % to 57.6 % by the group of the row." in of((1, 1))


@pytest.mark.parametrize("name", ["laplace", "noisy-quantile", "auto"])
def test_numbers_were_clipped(name):
    """As the certificate of numbers says; a long tail is missing. Classes are not clipped."""
    text = " ".join(readmes(read_certificate(GOLDEN / name))[0].split())
    said = "Labels beyond the declared range 0 to 10 were clipped to it,"
    assert (said in text) == ("leave out what a long tail has" in text) == (name != "auto")


# Effective rows of a release folder at the class shares that its released labels show.


SPACE = Classes(["a", "b", "c", "d"])
ROWS = 1200


@pytest.fixture
def source(tmp_path):
    """A table with a rare class, and units of one to three rows."""
    labels = np.random.default_rng(0).choice(SPACE.points, ROWS, p=[0.7, 0.2, 0.09, 0.01])
    table = {"unit": np.sort(np.arange(ROWS) % 600), "z": np.arange(ROWS), "y": labels, "v": np.arange(ROWS) % 11}
    table["unit"][:3] = 700
    pacsv.write_csv(pa.table(table), tmp_path / "t.csv")
    return tmp_path / "t.csv"


@pytest.mark.parametrize("mechanism", ["randomized-response", "subset", "bits", "projective"])
def test_they_are_those_at_the_estimated_shares(source, mechanism):
    """The mean unbiased vector, projected, is what shares are estimated by; nothing else is used.

    At the true shares the figure is another one: for bits by 3 %, with a standard deviation of 6 % (400 draws).
    """
    done = release_table(source, "y", SPACE, 2.0, source.parent / "out", keep=["z"], mechanism=mechanism, unit="row")
    release = Release.load(done.output)
    shares = nearest_distributions(release.unbiased().mean(axis=0)[None])[0]
    assert done.effective_share() == pytest.approx(share_at(release.channel, shares), rel=1e-12)
    assert done.effective_share() <= done.certificate.expects.clean_share
    assert done.effective_share() == pytest.approx(share_at(release.channel, np.array([0.7, 0.2, 0.09, 0.01])), rel=0.3)


def test_units_count_by_their_rows(source):
    """Rows of larger units are noisier: the mean over rows, at the shares that all of them show."""
    done = release_table(source, "y", SPACE, 4.0, source.parent / "out", keep=["z"], unit="unit")
    release = Release.load(done.output)
    assert len(channel_of(done.certificate.law, {"groups": np.zeros(0, int)}).channels) > 1
    shares = nearest_distributions(release.unbiased().mean(axis=0)[None])[0]
    assert done.effective_share() == pytest.approx(share_at(release.channel, shares), rel=1e-9)


def test_where_they_are_unknown(source, tmp_path):
    """Numbers, and candidates of each row."""
    numbers = release_table(source, "v", Interval(0, 10, 1), 1.0, tmp_path / "numbers", keep=["z"], unit="row")
    assert numbers.effective_share() is None
    table = pacsv.read_csv(source)
    for each in SPACE.points:
        table = table.append_column(f"p_{each}", pa.array(np.full(ROWS, 0.25)))
    pacsv.write_csv(table, tmp_path / "p.csv")
    given = {"keep": ["z"], "mechanism": PriorMechanism(prior="p_"), "unit": "row"}
    rows = release_table(tmp_path / "p.csv", "y", SPACE, 1.0, tmp_path / "prior", **given)
    assert rows.effective_share() is None


def test_of_many_rows_every_second_is_enough(source, monkeypatch):
    """Fewer rows are counted where there are many entries, in the order of the rows."""
    done = release_table(source, "y", SPACE, 2.0, source.parent / "out", keep=["z"], unit="row")
    monkeypatch.setattr(_effective_rows, "_MOST_ENTRIES", ROWS * SPACE.size)
    release = Release.load(done.output)
    shares = nearest_distributions(release[::2].unbiased().mean(axis=0)[None])[0]
    assert done.effective_share() == pytest.approx(share_at(release.channel, shares), rel=1e-9)
