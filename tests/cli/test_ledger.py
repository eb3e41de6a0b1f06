"""``labeldp ledger``: all charges, their states, and totals."""

import json
import re
from pathlib import Path

import pytest


def rows(text):
    """The cells of every row of every table that was printed; what is folded into a second line is joined."""
    found = []
    for line in text.splitlines():
        if line.startswith("│"):
            cells = [cell.strip() for cell in line.split("│")[1:-1]]
            if cells[0]:
                found.append(cells)
            else:
                found[-1] = [a + b for a, b in zip(found[-1], cells, strict=True)]
    return found


def test_charges_totals_and_states(release, run, table, tmp_path, monkeypatch):
    """Charges are in order with their states; totals leave out what is void."""
    assert release(table, tmp_path / "one", epsilon=0.5, budget=2, unit="street").code == 0
    with monkeypatch.context() as patched:
        patched.setattr("labeldp.release.curator._drawing.draw", None)
        assert release(table, tmp_path / "lost", epsilon=0.25, unit="street").code == 1
    assert release(table, tmp_path / "two", epsilon=1.0, unit="street").code == 0
    ran = run("ledger", f"{table}.labeldp-ledger")
    assert (ran.code, ran.err) == (0, "")
    first, lost, second, total = rows(ran.out)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", first[0])
    assert first[1:] == ["y", "randomized-response", "0.5", "0", "street", "30", "released", str(tmp_path / "one")]
    assert lost[1:] == ["y", "randomized-response", "0.25", "0", "street", "30", "void", str(tmp_path / "lost")]
    assert second[1:] == ["y", "randomized-response", "1", "0", "street", "30", "released", str(tmp_path / "two")]
    assert total == ["y", "1.5", "2", "0", "0", "by sums"]


def test_a_forgotten_unit_is_repaired(release, table, tmp_path, states):
    """A charge for rows counts for a unit with epsilon times its most rows."""
    assert release(table, tmp_path / "one", epsilon=0.5, budget=1.25).code == 0
    ran = release(table, tmp_path / "two", epsilon=0.5, unit="street")
    assert ran.code == 1
    assert "Another at 0.5 makes 1.5, above the budget of 1.25" in ran.err
    assert not (tmp_path / "two").exists()
    assert states(f"{table}.labeldp-ledger") == ["released"]
    assert release(table, tmp_path / "two", epsilon=0.25, unit="street").code == 0


def test_other_ledgers_of_a_table_are_named(release, run, table, tmp_path):
    """Of a table, ledgers beside it are named, since charges in them count too; of a ledger, nothing but itself."""
    assert release(table, tmp_path / "one", epsilon=0.5).code == 0
    assert "Beside it" not in run("ledger", table).out
    second = table.with_name("second.csv")
    second.write_text(table.read_text(encoding="utf-8"), encoding="utf-8")
    ledger = f"{second}.labeldp-ledger"
    assert release(second, tmp_path / "two", epsilon=0.25, budget=2, ledger=ledger).code == 0
    ran = run("ledger", table)
    assert ledger in "".join(ran.out.split())
    assert "Beside it" in ran.out
    assert json.loads(run("ledger", table, "--json").out)["others"] == [ledger]
    assert "Beside it" not in run("ledger", ledger).out


def test_a_table_without_a_ledger_is_told_from_a_damaged_ledger(run, release, table, tmp_path):
    """A table, or a folder of tables, that was never released is no ledger in pieces; ledgers nearby are named."""
    for what in (table, tmp_path):
        ran = run("ledger", what)
        assert ran.code == 1
        assert f"nothing was released from {what.name}" in ran.err
        assert "database" not in ran.err
    assert release(table, tmp_path / "one", ledger=tmp_path / "mine.labeldp-ledger").code == 0
    assert str(tmp_path / "mine.labeldp-ledger") in run("ledger", table).err
    (tmp_path / "torn.labeldp-ledger").write_text("torn")
    assert "restore a backup" in run("ledger", tmp_path / "torn.labeldp-ledger").err


def test_the_folder_of_a_release_has_no_ledger(run, release, table, tmp_path):
    """Who got a folder alone reads where its ledger is, and which command says what it costs."""
    assert release(table, tmp_path / "shared").code == 0
    found = run("ledger", tmp_path / "shared")
    assert found.code == 1
    assert "found the folder of a release" in found.err
    assert f"labeldp account {tmp_path / 'shared'}" in found.err
    assert run("account", tmp_path / "shared").code == 0


@pytest.fixture
def visits(tmp_path, write_csv):
    """Tables of visits: one, one of the same rows, and one of the same rows with other identifiers of people."""
    columns = {"user": [f"u{row % 25}" for row in range(60)], "x": range(60), "y": ["zq-a", "zq-b"] * 30}
    write_csv(tmp_path / "t.csv", columns)
    write_csv(tmp_path / "copy.csv", columns)
    write_csv(tmp_path / "other.csv", columns | {"user": [f"w{row % 25}" for row in range(60)]})
    return tmp_path


def test_a_refusal_says_how_often_an_earlier_charge_counts(release, visits):
    """A charge for rows counts for the rows of a person: those of one if people are known, else all of them."""
    given = {"classes": "zq-a,zq-b", "keep": "user,x"}
    assert release(visits / "t.csv", visits / "one", unit="row", **given).code == 0
    known = release(visits / "t.csv", visits / "two", unit="user", **given).err
    assert "which counts as 3 here: up to 3 of its rows are of one user" in known
    assert "makes 4, above the budget of 1. Reuse " in known
    assert "--budget 4. " in known
    unknown = release(visits / "other.csv", visits / "two", unit="user", **given).err
    assert "which counts as 60 here: it is unknown whose its rows are, so all 60 may be of one user" in unknown
    assert "--budget 61. " in unknown
    assert "which counts as" not in release(visits / "t.csv", visits / "two", unit="row", **given).err


def test_a_refusal_lists_each_charge_with_its_ledger(release, visits):
    """Those of ledgers beside the one that is charged too; of more than three the latest, and how many more."""
    given = {"classes": "zq-a,zq-b", "keep": "user,x", "unit": "row"}
    mine = visits / "mine.labeldp-ledger"
    assert release(visits / "t.csv", visits / "one", **given).code == 0
    assert release(visits / "t.csv", visits / "two", ledger=mine, budget=2, **given).code == 0
    refused = release(visits / "copy.csv", visits / "three", ledger=mine, **given).err
    told = re.findall(r"epsilon 1 from \S+ into (\S+) on \S+[^()]*\(ledger (\S+)\)", refused)
    wanted = {"one": visits / "t.csv.labeldp-ledger", "two": mine}
    assert {Path(output).name: Path(ledger) for output, ledger in told} == wanted
    for name in ("three", "four"):
        assert release(visits / "t.csv", visits / name, ledger=mine, budget=4, **given).code == 0
    refused = release(visits / "copy.csv", visits / "five", ledger=mine, **given).err
    assert refused.count(" into ") == 3
    assert "1 more" in refused
    assert str(visits / "one") not in refused
