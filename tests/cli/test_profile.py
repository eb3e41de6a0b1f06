"""``labeldp audit DIR --profile``: what public columns and the released label of a folder give away together."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, Curator, NoisyHistogram, RandomizedResponse


def saved(folder, classes, rows=400):
    """The folder of a release whose label can nearly be read off a column."""
    random = np.random.default_rng(9)
    number, text = random.random(rows), random.choice(["left", "right"], rows)
    labels = np.asarray(classes)[(number * len(classes)).astype(int)]
    table = pd.DataFrame({"number": number, "text": text})
    space = Classes(classes)
    Curator(labels, space, name="zq-label").randomize(RandomizedResponse(space, 4.0)).save(folder, table, keep="all")


def test_the_profile_of_a_release_is_shown_and_drawn(run, tmp_path):
    """Its own flip probability, the share beyond its epsilon and assumptions are printed, and a figure is written."""
    saved(tmp_path / "out", ["no", "yes"])
    done = run("audit", tmp_path / "out", "--profile", "--figure", tmp_path / "profile.svg")
    assert (done.code, done.err) == (0, "")
    assert "Flip probability 0.018 (epsilon 4): for the most exposed 5% of the rows" in done.out
    assert f"figure: {tmp_path / 'profile.svg'}" in done.out
    assert "From released labels, at no further cost." in done.out
    assert (
        "assumed: for each row the probability of 'yes' given its features is the mean of those of its 20 nearest"
        in done.out
    )
    assert (tmp_path / "profile.svg").read_bytes().startswith(b"<svg")


def test_neighbours_can_be_asked_for(run, tmp_path):
    """Asking for a number of neighbours shows a profile with so many; one that none can be ends with 2."""
    saved(tmp_path / "out", ["no", "yes"])
    done = run("audit", tmp_path / "out", "--neighbours", 50)
    assert (done.code, done.err) == (0, "")
    assert "400 of 400 rows, 50 neighbours" in done.out
    assert run("audit", tmp_path / "out", "--neighbours", 400).code == 2


@pytest.mark.parametrize("kind", ["three classes", "answer", "no columns", "figure"])
def test_what_has_no_profile_ends_with_two(run, tmp_path, kind):
    """Three classes, an answer, a release without columns and a figure of no known ending are refused in a sentence."""
    folder, words = tmp_path / "out", ["--profile"]
    if kind == "answer":
        space = Classes(["no", "yes"])
        Curator(["no", "yes"] * 20, space).answer(NoisyHistogram(space, 1.0)).save(folder)
    elif kind == "no columns":
        space = Classes(["no", "yes"])
        Curator(["no", "yes"] * 20, space).randomize(RandomizedResponse(space, 1.0)).save(folder)
    else:
        saved(folder, ["a", "b", "c"] if kind == "three classes" else ["no", "yes"])
    if kind == "figure":
        words = ["--figure", tmp_path / "profile.txt"]
    done = run("audit", folder, *words)
    assert done.code == 2
    assert done.err.startswith("error: expected")
    assert "Traceback" not in done.err


def test_an_audit_shows_the_least_disclosure(run, tmp_path):
    """Without any option: lower bounds on what columns and released labels disclose, and in JSON the same numbers."""
    saved(tmp_path / "out", ["no", "yes"], rows=3000)
    done = run("audit", tmp_path / "out")
    assert (done.code, done.err) == (0, "")
    first, _, second, *_ = done.out.splitlines()
    assert first == "No fault was found at the stated epsilon 4 per row."
    assert second.startswith("Columns and released labels together disclose more than the labels alone: the odds of a ")
    assert "What public columns and released labels disclose together" in done.out
    assert "share of rows that disclose the epsilon of their label, 4, or more" in done.out
    assert "They assume that labels were drawn as the certificate says, and nothing about the columns;" in done.out
    found = json.loads(run("audit", tmp_path / "out", "--json").out)["exposure"]
    assert (found["rows"], found["assumptions"]) == (3000, ["labels were drawn as the certificate says"])
    assert found["public"] is False
    assert found["average"] > found["of_label"] + 1
    factor = float(second.split("a factor of at least ")[1].split()[0])
    assert factor > math.exp(found["of_label"] + 1)  # groups of rows are cut at random, anew for each audit
    assert found["beyond_epsilon"] > 0.5
    assert found["divergence_of_order_2"] >= found["average"]


def test_of_many_rows_some_stand_for_all(run, tmp_path, monkeypatch):
    """They are chosen by chance, which is said; the audit itself counts every row, and all of it shows its progress."""
    monkeypatch.setattr("labeldp.cli._audit._MOST_ROWS", 2000)
    monkeypatch.setattr("labeldp.cli._terminal._PAUSE", 0.0)
    saved(tmp_path / "out", ["no", "yes"], rows=3000)
    done = run("audit", tmp_path / "out")
    assert done.code == 0
    assert "for these 2,000 rows in" in done.out
    assert "and these rows, which were chosen by chance, stand for all 3,000, and nothing about" in done.out
    lines = done.err.splitlines()
    assert {line.partition(":")[0] for line in lines} == {
        "drawing and counting",
        "reading the release",
        "grouping rows by their columns",
    }
    assert lines[0].startswith("drawing and counting: 3,000 of 3,000")
    assert any(line.startswith("reading the release: 3,000 of 3,000") for line in lines)


@pytest.mark.parametrize("kind", ["three classes", "one column"])
def test_what_has_no_least_disclosure_is_audited_all_the_same(run, tmp_path, kind):
    """Three classes, and rows without columns, have an audit that ends with 0 and shows no such bound."""
    if kind == "three classes":
        saved(tmp_path / "out", ["a", "b", "c"])
    else:
        space = Classes(["no", "yes"])
        table = pd.DataFrame({"same": ["word"] * 400})
        release = Curator(["no", "yes"] * 200, space, name="zq-label").randomize(RandomizedResponse(space, 4.0))
        release.save(tmp_path / "out", table, keep="all")
    done = run("audit", tmp_path / "out")
    assert (done.code, done.err) == (0, "")
    assert "disclose together" not in done.out.replace("disclose together is not bounded here", "")
    assert "exposure" not in json.loads(run("audit", tmp_path / "out", "--json").out)


def test_too_few_rows_are_said_to_show_nothing(run, tmp_path):
    """Where bounds show no more than the released label's part, a sentence says so."""
    saved(tmp_path / "out", ["no", "yes"], rows=60)
    done = run("audit", tmp_path / "out")
    assert "Nothing was found of what the columns add" in done.out
    assert "│" not in done.out
