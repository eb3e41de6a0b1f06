"""Rows that leave in a random order: the same rows at the same cost, and nothing that shows the old order."""

import shlex
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, ClusterMechanism, Interval, release_table
from labeldp._random_words import random_order
from labeldp.cli import main
from labeldp.errors import BudgetError, InputError
from labeldp.release import Release, check_table
from labeldp.release.folder import verify
from labeldp.release.jobs import _job, _release_table
from labeldp.results import release_command

SPACE = Classes(["no", "yes", "maybe"])
ROWS = 600


@pytest.fixture
def path(tmp_path):
    """A table that is sorted by its label, whose dates follow it, and whose rows are told apart by a weight."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "weight": random.normal(75, 9, ROWS).round(6),
            "who": random.integers(0, 200, ROWS),
            "ward": random.choice(["a", "bé", None], ROWS),
            "day": np.arange(ROWS) // 3,
            "cost": random.integers(0, 100, ROWS),
            "cell": random.integers(0, 4, ROWS),
            "dx": np.repeat(["A", "B", "C"], ROWS // 3),
            "ill": np.repeat(SPACE.points, ROWS // 3),
            "severe": random.choice(["low", "high"], ROWS),
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def release(path, output, **given):
    """A release of the label that is sorted, and its rows."""
    given = {"keep": ["weight", "ward", "cell"], "unit": "row", "shuffle": True, **given}
    named = [given.pop(name, default) for name, default in (("label", "ill"), ("space", SPACE), ("epsilon", 1.0))]
    done = release_table(path, *named, path.parent / output, **given)
    return done, pq.read_table(path.parent / output, partitioning=None).to_pandas()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"mechanism": "subset"},
        {"mechanism": "bits"},
        {"unit": "who"},
        {"unit": "who", "renumber": True},
        {"mechanism": ClusterMechanism("cell")},
        {"label": "cost", "space": Interval(0, 100, 1)},
        {"label": "cost", "space": Interval(0, 100, 1), "mechanism": "bins"},
    ],
    ids=str,
)
def test_the_same_rows_leave_in_another_order(path, monkeypatch, given):
    """Each row of the table once, at the cost of a release in order, in one file that verifies."""
    monkeypatch.setattr(_job, "_ROWS_PER_BATCH", 64)
    done, rows = release(path, "o", **given)
    table, kept = pd.read_parquet(path), ["weight", "ward", "cell"]
    texts = [list(map(str, frame[kept].fillna("none").itertuples(index=False, name=None))) for frame in (table, rows)]
    assert Counter(texts[0]) == Counter(texts[1])
    assert sum(map(str.__eq__, *texts)) < 12  # of 600 at their old place: fails once in 10^8
    assert done.spent == (1.0, 0.0)
    assert verify(done.output).holds
    assert [file.name for file in done.certificate.files] == ["data.parquet"]
    assert "the rows are in a random order, which was drawn without a look at labels and is not kept" in (
        done.certificate.assumptions
    )
    assert len(Release.load(done.output)) == ROWS


def test_labels_and_groups_go_with_their_rows(path):
    """At an epsilon that keeps nearly each label, they are those of the rows that they stand in."""
    _, rows = release(path, "o", epsilon=12.0)
    table = pd.read_parquet(path).set_index("weight")
    assert (table.loc[rows["weight"], "ill"].to_numpy() == rows["ill_released"]).mean() > 0.99
    done, rows = release(path, "p", epsilon=40.0, unit="who", renumber=True, budget=700)
    who = table.loc[rows["weight"], "who"].to_numpy()
    assert (rows["who_number"].groupby(who).nunique() == 1).all()
    sizes = np.array([int(size) for size in done.certificate.draws[0].law["repeats"]])
    assert (sizes[rows["ill_groups"]] == pd.Series(who).map(table["who"].value_counts())).all()


def test_the_order_is_a_permutation_by_chance():
    """Another one each time, which is uncorrelated with the places (fails once in 10^9)."""
    orders = [random_order(5000) for _ in range(2)]
    assert all(np.array_equal(np.sort(order), np.arange(5000)) for order in orders)
    for one, two in ((orders[0], orders[1]), (orders[0], np.arange(5000))):
        assert abs(np.corrcoef(one, two)[0, 1]) < 6.1 / np.sqrt(5000)


@pytest.mark.parametrize("first", [True, False])
def test_the_ledger_knows_shuffled_rows(path, first):
    """In either order of the two releases: the second is refused, and costs the sum with a budget."""
    release(path, "one", shuffle=first)
    with pytest.raises(BudgetError):
        release(path, "two", shuffle=not first)
    assert release(path, "two", shuffle=not first, budget=2)[0].spent == (2.0, 0.0)


def test_new_rows_are_named_by_their_place_in_the_table(path, tmp_path):
    """A refusal speaks of the rows of the file, whatever order they would leave in, and these alone leave."""
    table = pd.read_parquet(path)
    table[100:].to_parquet(tmp_path / "first.parquet")
    release(tmp_path / "first.parquet", "one")
    with pytest.raises(BudgetError, match="100 rows are new"):
        release(path, "two")
    _, rows = release(path, "two", only_new=True)
    assert set(rows["weight"]) == set(table["weight"][:100])


@pytest.mark.parametrize(("first", "second"), [(True, False), (True, True), (False, True)])
def test_a_copy_of_a_released_label_is_known_in_any_order(path, first, second):
    """Its values are compared with the released labels of the same rows, wherever these stand in the release."""
    release(path, "one", epsilon=4.0, shuffle=first)
    given = {"label": "severe", "space": Classes(["low", "high"]), "shuffle": second}
    with pytest.raises(InputError, match="'dx' seems to be a copy of 'ill'"):
        release(path, "two", keep=["weight", "dx"], **given)
    assert release(path, "two", keep=["weight", "ward"], **given)[0].spent == (1.0, 0.0)


#: A refusal of a column, by its name and what helps.
MAY_BE_COPY = "{} may be a copy of 'ill', which was released in random order: .*{}.* --other-people"
SEVERE = {"label": "severe", "space": Classes(["low", "high"]), "shuffle": False}


def test_labels_that_cannot_be_compared_keep_columns_back(path):
    """Where no column tells rows apart, a kept column may be the label that left in a random order."""
    table = pd.read_parquet(path)[["dx", "ill", "severe"]]
    table.to_parquet(path)
    release(path, "one", keep=[])
    with pytest.raises(InputError, match=MAY_BE_COPY.format("'dx'", "Leave out 'dx', and any other column")):
        release(path, "two", keep=["dx"], **SEVERE)
    assert release(path, "two", keep=[], **SEVERE)[0].spent == (1.0, 0.0)


def test_a_unit_that_cannot_be_compared_is_of_other_people(path):
    """It may be the label too, and leaves whatever is kept: the refusal says so, and what helps."""
    table = pd.read_parquet(path)[["dx", "ill", "severe"]]
    table.to_parquet(path)
    release(path, "one", keep=[])
    table.assign(who=np.arange(ROWS) // 2).to_parquet(path)
    for keep in (["dx"], []):
        with pytest.raises(InputError, match=MAY_BE_COPY.format("'who'", r"It leaves by --unit \(unit=\)")):
            release(path, "two", keep=keep, unit="who", **SEVERE)
    release(path, "two", keep=["dx"], unit="who", other_people="another ward", **SEVERE)


def test_the_notes_end_where_the_order_is_hidden(path, tmp_path):
    """Rows that are sorted by label are noted without the option alone, and the command of a check has it."""
    done, _ = release(path, "one", shuffle=False)
    assert any("--shuffle" in note for note in done.notes)
    done, _ = release(path, "two", budget=2)
    assert not any("order" in note for note in done.notes)
    (tmp_path / "sub").mkdir()
    table = pd.read_parquet(path)[["weight", "ward", "ill"]]
    table.to_parquet(tmp_path / "sub/t.parquet")
    words = shlex.split(release_command(check_table(tmp_path / "sub/t.parquet", "ill")))
    assert "--shuffle" in words
    assert main([*words[1:-1], str(tmp_path / "out")]) == 0
    rows = pd.read_parquet(tmp_path / "out")
    assert sorted(rows["weight"]) == sorted(table["weight"])
    table.sample(frac=1, random_state=1).to_parquet(tmp_path / "sub/u.parquet")
    assert "--shuffle" not in release_command(check_table(tmp_path / "sub/u.parquet", "ill"))


def test_a_kept_column_that_shows_the_order_is_remarked(path, monkeypatch):
    """A date that rises with the rows, or falls; not a constant or a mixed one; in any batches."""
    monkeypatch.setattr(_job, "_ROWS_PER_BATCH", 64)
    table = pd.read_parquet(path).assign(falls=-np.arange(ROWS) // 2, same=1, gap=[*[None] * 9, *range(9, ROWS)])
    table.to_parquet(path)
    done, _ = release(path, "one", keep=["weight", "day", "falls", "same", "gap", "ward"])
    assert [each.split("'")[1] for each in done.remarks if "is sorted in the table" in each] == ["day", "falls", "gap"]
    done, _ = release(path, "two", keep=["weight", "day"], shuffle=False, budget=2)
    assert not any("sorted" in each for each in done.remarks)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"executor": ThreadPoolExecutor(1)}, "an engine works on parts"),
        ({"mechanism": "noisy-histogram", "keep": []}, "no rows"),
        ({"too many": True}, "holds all rows in memory"),
    ],
)
def test_what_cannot_be_shuffled_is_refused(path, monkeypatch, given, message):
    """Before anything is charged."""
    if given.pop("too many", False):
        monkeypatch.setattr(_release_table, "_MOST_SHUFFLED", 4 * ROWS - 1)
    with pytest.raises(InputError, match=message):
        release(path, "o", **given)
    assert not path.with_name("t.parquet.labeldp-ledger").exists()
