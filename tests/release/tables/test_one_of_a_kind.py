"""Rows and people that columns single out, against counts of every value."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from labeldp import Classes, release_table
from labeldp.cli import main
from labeldp.release import check_table
from labeldp.release.tables import CopyCounter, one_of_a_kind
from labeldp.release.tables import _one_of_a_kind as module

NAMES = ["age", "ward", "day"]


def people(rows, seed, many=90):
    """A table of people with several rows, whose values many share."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": random.integers(20, 20 + many, rows),
            "ward": random.choice(["a", "b", None], rows),
            "day": random.integers(0, 3, rows).astype(float),
            "who": [f"P{i}" for i in random.integers(0, max(1, rows // 3), rows)],
        }
    )


def counted(table, names, unit):
    """The number of rows that no other equals, or of people with a row that no row of another person equals."""
    keys = list(table[names].astype(str).itertuples(index=False, name=None))
    if unit is None:
        return sum(count == 1 for count in Counter(keys).values())
    owners = {}
    for key, who in zip(keys, table[unit], strict=True):
        owners.setdefault(key, set()).add(who)
    return len(set().union(*(who for who in owners.values() if len(who) == 1)))


@pytest.mark.parametrize("unit", [None, "who"])
@pytest.mark.parametrize("seed", range(6))
def test_counts_are_those_of_every_value(seed, unit):
    """In one batch or in many, whatever the columns are; and of the columns that are named, too."""
    table = people(40 * (seed + 1), seed, many=10 * seed + 5)
    batches = pa.Table.from_pandas(table).to_batches(max_chunksize=17 + seed)
    found = one_of_a_kind(batches, NAMES, unit, few=True)
    assert found.exact
    assert found.alone == counted(table, NAMES, unit)
    assert (found.total, found.unit) == ((len(table), "row") if unit is None else (table["who"].nunique(), "who"))
    assert len(found.few) < len(NAMES)
    assert found.alone_on_few == (counted(table, list(found.few), unit) if found.few else 0)


def test_of_many_rows_some_are_compared(monkeypatch):
    """An estimate says that it is one, is within a few percent, and is of rows: people need all rows."""
    table = people(60_000, 1, many=40_000)
    monkeypatch.setattr(module, "_MOST_ROWS", 4096)
    monkeypatch.setattr(module, "_MOST_CELLS", 1000)
    for unit in (None, "who"):
        found = one_of_a_kind(pa.Table.from_pandas(table).to_batches(max_chunksize=5000), NAMES, unit, few=True)
        assert not found.exact
        assert found.unit == "row"
        assert found.few == ()
        assert "about" in found.sentence("rows")
        true = counted(table, NAMES, None)
        assert abs(found.alone / true - 1) < 0.15  # six standard errors


def test_parts_of_a_table_are_counted_together():
    """A row in two parts is a copy, and one that two people have is of neither alone."""
    hashes, owners = np.array([5, 5, 7, 9], np.uint64), np.array([1, 2, 3, 3])
    whole, parts = CopyCounter(), [CopyCounter(), CopyCounter()]
    whole.add(hashes, owners)
    for place, part in enumerate(parts):
        part.add(hashes[place::2], owners[place::2])
    parts[0].merge(parts[1])
    for each in (whole, parts[0]):
        assert (each.result(), each.rows_alone(), each.owners_alone()) == ((1, 2), (2, True), 1)


def test_a_check_counts_on_the_columns_that_it_proposes_to_keep(tmp_path):
    """People with the unit that it proposes, rows without one."""
    table = people(400, 2, many=300).assign(ill=["yes", "no"] * 200).rename(columns={"who": "patient_id"})
    path = tmp_path / "t.csv"
    table.to_csv(path, index=False)
    read = pd.read_csv(path, keep_default_na=False)
    for unit, who in ((None, "patient_id"), ("row", "rows")):
        (remark,) = (each for each in check_table(path, "ill", unit=unit).remarks if "one of a kind" in each)
        names, by = (NAMES, "patient_id") if unit is None else ([*NAMES, "patient_id"], None)
        total = read["patient_id"].nunique() if by else len(read)
        assert remark.startswith(f"{counted(read, names, by)} of {total} {who} are one of a kind on the columns")


def test_a_page_says_how_many_its_columns_single_out(tmp_path, monkeypatch, capsys):
    """On the page of a release: people by the column that tells them apart, else rows; on the holder's page, too."""
    monkeypatch.chdir(tmp_path)
    table = people(400, 3, many=300).assign(ill=["yes", "no"] * 200)
    table.to_csv("t.csv", index=False)
    read, space = pd.read_csv("t.csv", keep_default_na=False), Classes(["no", "yes"])
    given = {"renumber": {"renumber": True, "drop": []}, "kept": {"keep": ["who", *NAMES]}, "dropped": {"keep": NAMES}}
    for name, columns in given.items():
        release_table("t.csv", "ill", space, 1.0, name, unit="who", budget=3, **columns)
        assert main(["report", name, "--output", f"{name}.html"]) == 0
        by = None if name == "dropped" else "who"
        total, who = (400, "rows") if by is None else (read["who"].nunique(), "who")
        page = " ".join(Path(f"{name}.html").read_text(encoding="utf-8").split())
        assert f"single people out: {counted(read, NAMES, by)} of {total} {who} are one of a kind. They must be" in page
    capsys.readouterr()
    assert main(["check", "t.csv", "--label", "ill", "--json"]) == 0
    Path("c.json").write_text(capsys.readouterr().out, encoding="utf-8")
    (said,) = (each for each in json.loads(Path("c.json").read_bytes())["remarks"] if "one of a kind" in each)
    assert main(["report", "c.json", "--output", "c.holder.html"]) == 0
    assert said.partition(" on the columns")[0] in Path("c.holder.html").read_text(encoding="utf-8")
