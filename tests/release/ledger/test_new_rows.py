"""Rows that return: they are said, with what all releases disclose together, and a release can leave them out."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, ClusterMechanism, Curator, ShuffleMechanism, combined_guarantee, release_table
from labeldp.cli import main
from labeldp.errors import BudgetError, InputError
from labeldp.release.folder import Certificate, verify
from labeldp.release.ledger import Ledger
from labeldp.release.tables import _look as parts_module

SPACE = Classes([0, 1])


def clicks(month, rows, users):
    """Clicks of a month, of users whose numbers say nothing, some of whom come in other months too."""
    chance = np.random.default_rng([7, month])
    return pd.DataFrame(
        {
            "user": chance.integers(*users, rows) * 7919 % 1_000_003,
            "bid": np.round(chance.lognormal(0, 0.6, rows), 6),
            "device": chance.choice(["phone", "tablet", "desktop"], rows),
            "clicked": (chance.random(rows) < 0.2).astype("int8"),
        }
    )


JANUARY, FEBRUARY = clicks(1, 1500, (0, 600)), clicks(2, 1000, (450, 900))
BOTH = pd.concat([JANUARY, FEBRUARY], ignore_index=True).sample(frac=1, random_state=5)


def written(frame, path):
    """A table in a file of the kind that its name says, or in three files of a folder."""
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=300)
    else:
        path.mkdir(exist_ok=True)
        for number, piece in enumerate(np.array_split(np.arange(len(frame)), 3)):
            written(frame.iloc[piece], path / f"{number}.parquet")
    return path


def release(path, output, epsilon=1.0, **options):
    """A release of the clicks of a table."""
    return release_table(path, "clicked", SPACE, epsilon, output, **{"drop": [], "unit": "user", **options})


def spent_in(ledger):
    """The totals that a ledger's accounts and the combined guarantee state."""
    return [each.composition.epsilon for each in combined_guarantee([ledger])]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, in which commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_advertiser_sees_one_total_everywhere(folder, capsys):
    """January, February, and both twice within a budget: all screens and pages say what all disclose."""
    for name, frame in {"jan": JANUARY, "feb": FEBRUARY, "q1": BOTH}.items():
        written(frame, folder / f"{name}.parquet")
    words = ["--label", "clicked", "--classes", "0,1", "--unit", "user", "--keep", "all", "--ledger", "clicks.ledger"]
    words.append("--output")
    screens = {}
    for table, output, epsilon in (("jan", "jan", 1), ("feb", "feb", 1), ("q1", "q1", 1), ("q1", "q3", 0.5)):
        budget = ["--budget", "6"] if output == "jan" else []
        assert main(["release", f"{table}.parquet", *words, output, "--epsilon", str(epsilon), *budget]) == 0
        screens[output] = " ".join(capsys.readouterr().out.split())
    together = "together epsilon 3.5 per user: someone whom everything else makes 50 % sure can become 97.1 % sure"
    returning = "2,500 of 2,500 rows, or others of their user, were released before"
    assert "released before" not in screens["jan"]
    assert f"note {returning} (jan, feb, q1); {together}" in screens["q3"]
    assert f"at most 62.3 % sure; 10 % sure, at most 15.5 %. {returning}; {together}." in screens["q3"]
    back = FEBRUARY.user.isin(JANUARY.user).sum()
    assert f"note {back:,} of 1,000 rows, or others of their user, were released before (jan);" in screens["feb"]
    certificate = (folder / "q3" / "_certificate.json").read_text()
    assert f"{returning}; {together}" in json.loads(certificate)["assumptions"]
    assert not re.search(r"jan|feb|q1", certificate)  # names of other releases are the holder's
    assert verify(folder / "q3").holds
    for paths in (["clicks.ledger"], ["jan", "feb", "clicks.ledger"], ["q3", "clicks.ledger"]):
        assert main(["account", *paths]) == 0
        totals = re.findall("^clicked: epsilon .* in total", capsys.readouterr().out, re.MULTILINE)
        assert totals == ["clicked: epsilon 3.5 per user in total"]
    for paths, left in ((["q3"], " 0.5 per user in total, without"), (["jan", "feb", "q1", "q3"], " 3.5 per user in")):
        assert main(["account", *paths]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert f"clicked: epsilon{left}" in shown
        assert (f"q3 states that {returning}; {together}." in shown) == (paths == ["q3"])
    assert main(["account", "q3", "--json"]) == 0
    (stated,) = json.loads(capsys.readouterr().out)[0]["before"]
    assert stated == {"source": "q3", "statement": f"{returning}; {together}"}
    assert main(["ledger", "clicks.ledger", "--json"]) == 0
    assert [each["epsilon"] for each in json.loads(capsys.readouterr().out)["spent"]] == [3.5]
    pytest.importorskip("jinja2")
    assert main(["report", "q3", "--output", "q3.html"]) == 0
    assert together in (folder / "q3.html").read_text()
    assert main(["report", "jan", "feb", "clicks.ledger", "--output", "dossier.html"]) == 0
    text = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", (folder / "dossier.html").read_text()))
    assert set(re.findall(r"clicked: epsilon (\S+) per user in total", text)) == {"3.5"}
    assert "4 charges counted, for 1 label, epsilon 3.5" in text
    capsys.readouterr()
    assert main(["release", "q1.parquet", *words, "q4", "--epsilon", "3.5"]) == 1
    refused = capsys.readouterr().err
    assert len(refused) < 700
    assert (
        "1 more (ledger clicks.ledger). Another at 3.5 makes 7, above the budget of 6. Reuse q3, or pass --budget 7"
        in (refused)
    )


@pytest.mark.parametrize("name", ["both.csv", "both.parquet", "both"])
@pytest.mark.parametrize("unit", ["user", "row"])
@pytest.mark.parametrize("parts", [False, True])
def test_new_rows_alone_are_released(tmp_path, monkeypatch, name, unit, parts):
    """They are those that a table of them alone has, in order, with the rows of people who return left out too."""
    monkeypatch.setattr(parts_module, "_ROWS_PER_PART", 450 if parts else 1 << 22)
    options = {"unit": unit, "ledger": tmp_path / "all.ledger"}
    release(written(JANUARY, tmp_path / "january.parquet"), tmp_path / "o1", budget=2.0, **options)
    both = written(BOTH, tmp_path / name)
    done = release(both, tmp_path / "o2", only_new=True, **options)
    new = BOTH[~BOTH.user.isin(JANUARY.user)] if unit == "user" else BOTH[BOTH.index >= len(JANUARY)]
    found = pd.read_parquet(tmp_path / "o2")
    pd.testing.assert_frame_equal(
        found[["user", "bid", "device"]], new[["user", "bid", "device"]].reset_index(drop=True), check_dtype=False
    )
    assert done.spent == (1.0, 0.0)
    assert done.budget.epsilon == 2.0  # the declared one holds
    assert verify(tmp_path / "o2").holds
    assert "are left out" in done.remarks[0]
    assert f"{len(BOTH) - len(new):,} of {len(BOTH):,} rows were released before" in done.remarks[0]
    assert [sum(b - a for a, b in each.rows.ranges) for each in Ledger(done.ledger).entries()] == [1500, len(new)]
    with pytest.raises(InputError, match="no row is new"):  # now all were released
        release(both, tmp_path / "o3", only_new=True, **options)
    assert len(Ledger(done.ledger).entries()) == 2
    total = 3.0 if unit == "user" else 2.0  # rows do not say which units have them: all charges for units are summed
    assert release(both, tmp_path / "o3", **{**options, "budget": 3.0}).spent == (total, 0.0)


def test_scattered_new_rows_are_found_one_by_one(tmp_path, monkeypatch):
    """Also where rows that return have more ranges than a charge has, and count as the range that covers them."""
    monkeypatch.setattr("labeldp.privacy.accounting._account._MOST_RANGES", 5)
    release(written(JANUARY, tmp_path / "january.parquet"), tmp_path / "o1", unit="row")
    done = release(written(BOTH, tmp_path / "both.parquet"), tmp_path / "o2", unit="row", only_new=True)
    assert done.certificate.rows == len(FEBRUARY)


@pytest.mark.parametrize(
    "table",
    [
        BOTH.assign(device=BOTH.device.where(BOTH.index >= 40, "tv")),  # corrected rows may be any of the others
        BOTH[BOTH.index > 40].assign(bid=BOTH.bid + 1),
        BOTH[["device", "clicked"]],
    ],
    ids=["corrected", "moved", "anonymous"],
)
def test_rows_that_may_be_earlier_ones_are_not_new(tmp_path, table):
    """Where an earlier row is missing, one that was not found may be that one, edited: none is released as new."""
    ledger = release(written(JANUARY, tmp_path / "january.parquet"), tmp_path / "o1", unit="row").ledger
    with pytest.raises(InputError, match="cannot be told which rows are new"):
        release(written(table, tmp_path / "t.parquet"), tmp_path / "o2", unit="row", only_new=True)
    assert len(Ledger(ledger).entries()) == 1
    assert not (tmp_path / "o2").exists()


@pytest.mark.parametrize(("budget", "error"), [(None, BudgetError), (5.0, InputError)])
def test_a_release_of_the_same_rows_in_between_counts(tmp_path, budget, error):
    """Rows that somebody else released after they were found to be new do not leave again, whatever the budget is."""
    release(written(JANUARY, tmp_path / "january.parquet"), tmp_path / "o1", unit="row", budget=budget)
    both = written(BOTH, tmp_path / "both.parquet")
    done = []

    def meanwhile(name, _, __):
        if name == "check" and not done:
            done.append(release(both, tmp_path / "o2", unit="row", only_new=True))

    with pytest.raises(error, match="budget exceeded" if budget is None else "another command has just"):
        release(both, tmp_path / "o3", unit="row", only_new=True, progress=meanwhile)
    assert done
    assert not (tmp_path / "o3").exists()
    assert max(spent_in(each) for each in tmp_path.glob("*.labeldp-ledger")) == [1.0]


@pytest.mark.parametrize("most", [1, 3])
def test_people_whose_rows_were_released_as_rows_return_in_others(tmp_path, most):
    """A release of rows counts for people whom another release knows to have had them, for as many as each had."""
    people = np.repeat(np.arange(300), 4)
    visits = pd.DataFrame({"user": people * 7919, "bid": np.arange(1200) / 7.0, "clicked": (people % 3 == 0) * 1})
    january, february = visits[np.arange(1200) % 4 < 3], visits[(np.arange(1200) % 4 == 3) & (people < 100)]
    some = january[january.groupby("user").cumcount() < most]
    for name, table in (("january", january), ("some", some), ("february", february)):
        written(table, tmp_path / f"{name}.csv")
    ledger = {"ledger": tmp_path / "labels.labeldp-ledger", "budget": 9.0}
    release(tmp_path / "january.csv", tmp_path / "first", **ledger)
    release(tmp_path / "some.csv", tmp_path / "rows", 0.5, **ledger | {"unit": "row"})
    last = release(tmp_path / "february.csv", tmp_path / "last", **ledger)
    assert last.spent[0] == pytest.approx(1.0 + 0.5 * most + 1.0)


def test_rows_under_other_numbers_of_people_count_in_doubt(tmp_path):
    """Where people may have got other numbers, the most rows of anybody count."""
    visits = pd.DataFrame({"user": np.repeat(np.arange(300), 4) * 7919, "bid": np.arange(1200) / 7.0})
    visits["clicked"] = np.arange(1200) % 3 // 2
    for name, table in (("known", visits), ("renumbered", visits.assign(user=visits["user"] + 13))):
        written(table, tmp_path / f"{name}.csv")
    ledger = {"ledger": tmp_path / "labels.labeldp-ledger", "budget": 9.0}
    release(tmp_path / "known.csv", tmp_path / "people", **ledger)
    release(tmp_path / "known.csv", tmp_path / "rows", 0.5, **ledger | {"unit": "row"})
    last = release(tmp_path / "renumbered.csv", tmp_path / "last", **ledger)
    assert last.spent[0] == pytest.approx(1.0 + 4 * 0.5 + 1.0)


def test_clusters_of_all_rows_follow_the_new_ones(tmp_path):
    """Numbers of clusters are those of the whole table, and leave with the rows that they are of."""
    release(written(JANUARY, tmp_path / "january.parquet"), tmp_path / "o1", unit="row")
    both = written(BOTH, tmp_path / "both.parquet")
    numbers = (BOTH.index.to_numpy() % 4).astype(np.int32)
    options = {"unit": "row", "only_new": True, "drop": []}
    with pytest.raises(InputError, match="a cluster for each of the 2,500 rows"):
        release(both, tmp_path / "o2", mechanism=ClusterMechanism(numbers[:-1]), **options)
    release(both, tmp_path / "o2", mechanism=ClusterMechanism(numbers), **options)
    new = BOTH.index.to_numpy()[BOTH.index >= len(JANUARY)]
    assert (pd.read_parquet(tmp_path / "o2")["clicked_clusters"].to_numpy() == new % 4).all()


def test_without_earlier_releases_all_rows_are_new(tmp_path):
    """The same command serves the first month."""
    done = release(written(JANUARY, tmp_path / "january.csv"), tmp_path / "o1", only_new=True)
    assert (done.certificate.rows, done.remarks) == (len(JANUARY), ())


def test_a_statement_of_rows_that_return_is_read_again(tmp_path):
    """Rows in doubt have no number, and a certificate says what its reader can become sure of in all."""
    release(written(JANUARY, tmp_path / "t.csv"), tmp_path / "o1", unit="row", budget=3.0)
    edited = JANUARY.assign(bid=JANUARY.bid.where(JANUARY.index >= 30, 7.0))
    done = release(written(edited, tmp_path / "u.csv"), tmp_path / "o2", unit="row")
    sure = "someone whom everything else makes 50 % sure can become 88.1 % sure"
    text = f"some of these rows were released before; together epsilon 2 per row: {sure}"
    assert text in done.certificate.assumptions
    certificate = Certificate.from_json(done.certificate.to_json())
    assert certificate.meaning.endswith(f"{text}.")


def test_what_mixing_hides_is_no_part_of_a_total(tmp_path):
    """Who sees which row sent which label learns more from all releases together than a total says."""
    table = written(JANUARY.assign(cell=0), tmp_path / "t.csv")
    release(table, tmp_path / "o1", unit="row", budget=(3.0, 1e-2), mechanism=ShuffleMechanism("cell", 1e-6))
    done = release(table, tmp_path / "o2", unit="row")
    stated = next(each for each in done.certificate.assumptions if "released before" in each)
    assert "someone whom everything else (not which row sent which label) makes 50 % sure" in stated
    assert Certificate.from_json(done.certificate.to_json()).meaning.endswith(f"{stated}.")
    assert "(not which row sent which label)" in done.remarks[0]


STATED = (
    "5 of 9 rows were released before; together epsilon 2 per row: someone whom everything else makes 50 % sure can"
)


@pytest.mark.parametrize(
    "forged",
    [
        f"{STATED} become 88.1 % sure, and nobody minds",
        f"{STATED} become 50.1 % sure",
        f"{STATED} become 88.1 % sure".replace("5 of 9", "5 of 8"),
        f"{STATED} become 88.1 % sure".replace("5 of 9", "10 of 9"),
        f"{STATED} become 62.3 % sure".replace("epsilon 2", "epsilon 0.5"),
        f"{STATED} become 88.1 % sure".replace("epsilon 2", f"epsilon {'9' * 400}"),
        f"{STATED} become 88.1 % sure{'; together epsilon 1 x' * 30_000}\n",
    ],
    ids=[
        "other words",
        "another probability",
        "another table",
        "more rows than there are",
        "less than its own",
        "digits",
        "many places that could be its own",
    ],
)
def test_only_the_statement_itself_is_a_meaning(forged):
    """It is made anew from its numbers, and what differs stays among what was declared and not checked."""
    space = Classes(["no", "yes"])
    plain = Curator(["no", "yes", "no"] * 3, space).randomize(epsilon=1.0).certificate
    stated = replace(plain, assumptions=(*plain.assumptions, f"{STATED} become 88.1 % sure"))
    assert stated.meaning == f"{plain.meaning} {STATED} become 88.1 % sure."
    assert replace(plain, assumptions=(*plain.assumptions, forged)).meaning == plain.meaning
