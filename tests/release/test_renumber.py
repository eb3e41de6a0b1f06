"""Made-up numbers of privacy units: random, the same for who returns, under a key that nobody else has."""

import os
import threading

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, release_table
from labeldp.errors import InputError, LabelDPError, LedgerError
from labeldp.learning.tables import _evaluate as judging
from labeldp.learning.tables import evaluate, learn
from labeldp.release import check_table
from labeldp.release.folder import group_column, verify
from labeldp.release.jobs import _job as module
from labeldp.results import Checked, plain, release_command

SPACE = Classes(["no", "yes"])
KEY = "units.labeldp-key"


def stays(folder, month, first, people=120):
    """Stays of patients, of whom each has up to three, sorted by patient; numbers begin at ``first``."""
    random = np.random.default_rng(first)
    who = np.sort(random.integers(first, first + people, 2 * people))
    table = pd.DataFrame(
        {
            "Patienten-Nr.": who,
            "age": 20 + who % 60,
            "ward": random.choice(["a", "b", "c"], who.size),
            "stay": [f"{month}-{i}" for i in range(who.size)],
            "ill": np.where(random.random(who.size) < 0.2 + 0.6 * (who % 60 > 30), "yes", "no"),
        }
    )
    path = folder / f"{month}.csv"
    table.to_csv(path, index=False)
    return path, who


def release(path, output, **given):
    """A release with made-up numbers, and its table."""
    given = {"drop": ["stay"], "unit": "Patienten-Nr.", "renumber": True, **given}
    done = release_table(path, "ill", SPACE, 4.0, output, **given)
    return done, pq.read_table(output).to_pandas()


def numbers_of(table, who):
    """The number of each person, who has one alone."""
    assert (table["Patienten-Nr._number"].groupby(who).nunique() == 1).all()
    return dict(zip(who, table["Patienten-Nr._number"], strict=True))


def test_who_returns_keeps_the_number(tmp_path):
    """In another file, column type and spelling; others get others, and the ledger knows all by the unit itself."""
    (first, january), (second, february) = stays(tmp_path, "january", 1), stays(tmp_path, "february", 61)
    table = pd.read_csv(second, dtype=str)
    table["Patienten-Nr."] = " " + table["Patienten-Nr."].str.zfill(6)
    table.to_csv(second, index=False)
    done, one = release(first, tmp_path / "one")
    assert any(KEY in remark for remark in done.remarks)
    again, two = release(second, tmp_path / "two", ledger=done.ledger, budget=8)
    assert not any(KEY in remark for remark in again.remarks)
    before, after = numbers_of(one, january), numbers_of(two, february)
    assert {who for who in before if after.get(who) == before[who]} == {*before} & {*after} != set()
    both = before | after
    assert len({*both.values()}) == len(both)
    assert min(both.values()) >= 0
    assert again.spent[0] == 8.0


def test_a_number_says_nothing_of_the_identifier(tmp_path):
    """The identifier is in no released file; numbers follow neither it nor the rows; another key gives others."""
    path, who = stays(tmp_path, "january", 1000)
    _, table = release(path, tmp_path / "one")
    assert {*table.columns} == {"age", "ward", "Patienten-Nr._number", "ill_released", "ill_groups"}
    numbers = table["Patienten-Nr._number"].drop_duplicates().to_numpy()
    assert abs(np.corrcoef(np.argsort(np.argsort(numbers)), np.arange(numbers.size))[0, 1]) < 0.5  # fails once in 10^7
    assert not {*numbers} & {*who}
    (tmp_path / KEY).rename(tmp_path / "old")
    _, other = release(path, tmp_path / "two", budget=8)
    assert not {*other["Patienten-Nr._number"]} & {*numbers}
    secret = (tmp_path / "old").read_text(encoding="ascii").split()[1]
    assert secret not in "".join(each.read_bytes().hex() for each in (tmp_path / "one").iterdir())


def test_the_key_is_its_owners_alone(tmp_path):
    """It is 0600 under any umask, and lies beside the ledger that was named."""
    path, _ = stays(tmp_path, "january", 1)
    (tmp_path / "safe").mkdir()
    before = os.umask(0)
    try:
        release(path, tmp_path / "one", ledger=tmp_path / "safe/people.ledger")
    finally:
        os.umask(before)
    assert (tmp_path / "safe" / KEY).stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / KEY).exists()


def plant_link(path):
    """A link to somebody's key."""
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.chmod(0o640),
        lambda path: path.with_name("copy").hardlink_to(path),
        lambda path: path.write_bytes(path.read_bytes()[:-2]),
        lambda path: path.write_bytes(b"\0" * (1 << 20)),
        plant_link,
        lambda path: (path.unlink(), os.mkfifo(path, 0o600)),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["others read it", "two names", "cut off", "large", "link", "fifo", "folder"],
)
def test_a_key_that_is_not_ours_alone_is_refused(tmp_path, change):
    """Nothing is charged, and the message shows nothing of the file."""
    path, _ = stays(tmp_path, "january", 1)
    done, _ = release(path, tmp_path / "one")
    content = (tmp_path / KEY).read_text(encoding="ascii").split()[1]
    change(tmp_path / KEY)
    with pytest.raises(LedgerError, match="not yours alone") as caught:
        release(path, tmp_path / "two", budget=8)
    assert content not in str(caught.value)
    assert not (tmp_path / "two").exists()
    assert done.spent == (4.0, 0.0)


def test_two_at_once_have_one_key(tmp_path):
    """Two releases that both find no key: whoever is in both tables has one number."""
    tables = [stays(tmp_path, "january", 1), stays(tmp_path, "february", 61)]
    found, failed = {}, []

    def work(place):
        try:
            path, who = tables[place]
            found[place] = numbers_of(release(path, tmp_path / f"out{place}", budget=8)[1], who)
        except LabelDPError as problem:
            failed.append(problem)

    threads = [threading.Thread(target=work, args=[place]) for place in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert failed == []
    common = {*found[0]} & {*found[1]}
    assert common
    assert all(found[0][who] == found[1][who] for who in common)


def test_learners_find_the_numbers(tmp_path, monkeypatch):
    """The certificate names their column: folds keep people together, and intervals of another table count people."""
    (first, _), (second, who) = stays(tmp_path, "january", 1), stays(tmp_path, "february", 1000)
    done, _ = release(first, tmp_path / "one")
    release(second, tmp_path / "two", other_people="another hospital")
    assert verify(tmp_path / "one").holds
    assert group_column(done.certificate) == "Patienten-Nr._number"
    learned = learn(tmp_path / "one", model="softmax")
    assert "Patienten-Nr._number" not in learned.model.columns
    assert not learned.mixed
    units, real = [], judging.class_scores

    def scored(labels, probabilities, **given):
        units.append(given["units"])
        return real(labels, probabilities, **given)

    monkeypatch.setattr(judging, "class_scores", scored)
    evaluate(learned.model, tmp_path / "two", "ill", public=False)
    assert len({*zip(who, units[0], strict=True)}) == len({*who}) == len({*units[0]})


@pytest.mark.parametrize(
    "given",
    [
        {"unit": None},
        {"unit": "row"},
        {"drop": None, "keep": ["age", "Patienten-Nr."]},
        {"drop": None, "keep": ["age", "PATIENTEN-NR. "]},
        {"mechanism": "noisy-histogram", "drop": None, "keep": []},
    ],
    ids=["no unit", "rows", "kept too", "kept in another spelling", "no rows"],
)
def test_numbers_that_cannot_be_made_up_are_refused(tmp_path, given):
    """Before a key is made."""
    path, _ = stays(tmp_path, "january", 1)
    with pytest.raises(InputError, match=r"--renumber|no rows"):
        release(path, tmp_path / "one", **given)
    assert not (tmp_path / KEY).exists()


def test_a_kept_column_of_the_same_name_is_refused(tmp_path):
    """Which of the two is released would be in doubt; dropped, it plays no part."""
    path, who = stays(tmp_path, "january", 1)
    table = pd.read_csv(path).assign(**{"Patienten-Nr._number": 7})
    table.to_csv(path, index=False)
    with pytest.raises(InputError, match="which the release adds"):
        release(path, tmp_path / "one")
    _, released = release(path, tmp_path / "one", drop=["stay", "Patienten-Nr._number"])
    assert len({*numbers_of(released, who).values()}) == len({*who})


def test_a_label_of_the_name_of_the_numbers_is_refused(tmp_path):
    """In any spelling: no verifier would take the release, which would be charged for."""
    path, _ = stays(tmp_path, "january", 1)
    pd.read_csv(path).rename(columns={"ill": "PATIENTEN-NR._number "}).to_csv(path, index=False)
    given = {"drop": ["stay"], "unit": "Patienten-Nr.", "renumber": True}
    with pytest.raises(InputError, match=r"no column named 'Patienten-Nr._number'"):
        release_table(path, "PATIENTEN-NR._number ", SPACE, 4.0, tmp_path / "out", **given)
    assert not list(tmp_path.glob("*.labeldp-ledger"))


def test_numbers_do_not_depend_on_batches(tmp_path, monkeypatch):
    """Small batches of a Parquet file and of a CSV give one number to each person."""
    path, who = stays(tmp_path, "january", 1)
    _, one = release(path, tmp_path / "one")
    pd.read_csv(path).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(module, "_ROWS_PER_BATCH", 7)
    _, two = release(tmp_path / "t.parquet", tmp_path / "two", budget=8)
    assert numbers_of(one, who) == numbers_of(two, who)


def test_a_check_proposes_numbers(tmp_path):
    """Where it drops the unit; not for rows that were declared to be units."""
    path, _ = stays(tmp_path, "january", 1)
    for unit, proposed in (("Patienten-Nr.", True), ("row", False)):
        found = check_table(path, "ill", unit=unit)
        command = release_command(found)
        assert ("--renumber" in command) == proposed
        assert plain(Checked.of(found))
