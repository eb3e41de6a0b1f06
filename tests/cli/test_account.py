"""``labeldp account``: what releases promise together, printed and drawn."""

import json
import re

import pytest

from labeldp import (
    Budget,
    Classes,
    Curator,
    Guarantee,
    Ledger,
    PeerExchange,
    RandomizedResponse,
    combined_guarantee,
)
from labeldp.mechanisms.queries import ExchangedLabels


def cells(text):
    """The cells of every row of every table that was printed."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]


@pytest.fixture
def three(release, table, tmp_path):
    """Three releases of one label."""
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        assert release(table, folder, epsilon=0.5, budget=5).code == 0
    return folders


def test_what_is_printed_is_the_account(run, three):
    """Sums first, then every delta and epsilon that goes with it, never below what was found; one plain sentence."""
    ran = run("account", *three, "--delta", 0.01, "--delta", 0.1, "--epsilon", 1, "--epsilon", 1.25)
    assert (ran.code, ran.err) == (0, "")
    (found,) = combined_guarantee(three, deltas=[0.01, 0.1], epsilons=[1.0, 1.25])
    first, *rows = cells(ran.out)
    assert first == ["0", "1.5", "always (sum of epsilons)"]
    shown = [(delta, epsilon) for delta, epsilon in found.at_deltas if delta in {0.01, 0.033, 0.1}]
    assert len(rows) == len(shown) + 2 == len(found.at_deltas) == 5, "at other deltas nothing is gained"
    for row, (delta, epsilon) in zip(rows, shown, strict=False):
        assert float(row[0]) == delta
        assert epsilon <= float(row[1]) <= epsilon * (1 + 1e-6)
    for row, (epsilon, delta) in zip(rows[3:], found.at_epsilons, strict=True):
        assert float(row[1]) == epsilon
        assert delta <= float(row[0]) <= delta * 1.01
    assert all(row[2] == "if all were fixed beforehand" for row in rows)
    told = " ".join(ran.out.split())
    assert "replacing one row's label changes the probability of any outcome of these 3 requests together" in told
    assert "at most exp(1.5)." in told
    assert ran.out.startswith("y: epsilon 1.5 per row in total.\n")
    assert re.search(r"fixed before the first result was seen: .* exp\(1\.38\d+\), plus 0\.01\.", told)
    assert "All releases of 'y' are counted as releases of the same rows." in told
    assert Guarantee(1.5, trust="central").posterior_sentence("one row") in told


def test_a_delta_that_buys_nothing_is_not_shown(run, three):
    """Of one release all deltas are 0 and the sum is all there is to say; one that is asked for is shown."""
    ran = run("account", three[0])
    assert ran.out.startswith("y: epsilon 0.5 per row in total.\n\n1 request in 1 folder, of at most 30 rows each.\n")
    assert cells(ran.out) == []
    assert "fixed before" not in ran.out
    asked = run("account", three[0], "--delta", 1e-6)
    assert [row[0] for row in cells(asked.out)] == ["0", "1e-06"]


def test_a_ledger_is_said_to_keep_no_law(run, three, table):
    """A ledger shows the sum that it charged, and says that laws are not known; it is not changed."""
    ledger = table.with_name("t.csv.labeldp-ledger")
    before = ledger.read_bytes()
    ran = run("account", ledger, "--delta", 0.1)
    assert (ran.code, ran.err) == (0, "")
    assert ledger.read_bytes() == before
    assert cells(ran.out)[0] == ["0", "1.5", "always (sum of epsilons)"]
    assert "A ledger stores no mechanism" in ran.out
    laws, worst = (dict(combined_guarantee(paths, deltas=[0.1])[0].at_deltas)[0.1] for paths in (three, [ledger]))
    assert laws < worst < 1.5
    both = run("account", *three, ledger, "--delta", 0.1)
    assert both.out == ran.out  # what the ledger charged counts once
    space = Classes(["zq-a", "zq-b"])
    elsewhere = Curator(["zq-a", "zq-b"], space, budget=1.0, name="y").randomize(RandomizedResponse(space, 1.0))
    other = run("account", three[0], elsewhere.save(table.parent / "elsewhere"), ledger)
    assert "\n1 request in 1 folder" in other.out
    assert "\n3 charges" in other.out
    assert "are shown separately" in other.out


def test_what_counts_once_is_said(run, three):
    """A folder that is named again, and the certificate of one, are counted once and named; nothing else is."""
    one = three[0]
    ran = run("account", one, one, three[1], one / "_certificate.json")
    assert "\n2 requests in 2 folders" in ran.out
    assert f"counted once: {one}, {one / '_certificate.json'}." in " ".join(ran.out.split())
    assert "counted once" not in run("account", *three).out
    assert "\n1 request, of" in run("account", one / "_certificate.json").out


def test_none_is_explained(run, tmp_path):
    """Where requests fail themselves with more than a delta, no epsilon goes with it, and that is said; ledgers too."""
    space, budget = Classes(["no", "yes"]), Budget(9.0, 1e-3)
    curator = Curator(["no", "yes"] * 20, space, budget=budget, name="ill", ledger=tmp_path / "ledger")
    curator.answer(ExchangedLabels(space, PeerExchange(0.1, 0.5), [0, 1] * 20, 1e-4)).save(tmp_path / "one")
    ran = run("account", tmp_path / "one")
    assert ["1e-09", "none", "if all were fixed beforehand"] in cells(ran.out)
    assert "none: no epsilon holds, since the failure probability of these requests exceeds that delta." in " ".join(
        ran.out.split()
    )
    (found,) = json.loads(run("account", tmp_path / "one", "--json").out, parse_constant=pytest.fail)
    assert found["fixed_beforehand"][0] == {"delta": 1e-9, "epsilon": None}, "JSON has no infinity"
    (charge, _) = cells(run("ledger", tmp_path / "ledger").out)
    assert charge[4] == "0.0001"


def test_units_are_named(release, run, table, tmp_path):
    """Where a unit has several rows the sentence names it and says that laws are not used."""
    assert release(table, tmp_path / "one", unit="street").code == 0
    ran = run("account", tmp_path / "one", "--one-table")
    assert "replacing all labels of one street changes" in ran.out
    assert "any outcome of this request by" in ran.out
    assert (
        "each charge counts in full, as the worst of its epsilon, and 'street' is taken to mean the same units"
        in ran.out
    )
    assert "disjoint rows cost the maximum" in ran.out


def test_units_of_several_kinds_have_totals_of_their_own(release, run, table, tmp_path):
    """The sum for each unit, what it leaves out and what that adds, and the sum of all for a row; a ledger converts."""
    assert release(table, tmp_path / "one", epsilon=0.5).code == 0
    assert release(table, tmp_path / "two", epsilon=1, unit="street", budget=9).code == 0
    ran = run("account", tmp_path / "one", tmp_path / "two", tmp_path / "one")
    said = " ".join(ran.out.split())
    assert (ran.code, ran.err) == (0, "")
    assert f"y: epsilon 1 per street in total, without {tmp_path / 'one'}." in said
    assert "epsilon 0.5 per row, which is not in this total: for one street it adds epsilon 0.5 times the most" in said
    assert "y: epsilon 1.5 per row in total. 2 requests in 2 folders" in said
    street, row = combined_guarantee([tmp_path / "one", tmp_path / "two"])
    assert (street.composition.epsilon, row.composition.epsilon) == (1.0, 1.5)
    assert row.sources == (str(tmp_path / "one"), str(tmp_path / "two"))
    ledger = table.with_name("t.csv.labeldp-ledger")
    (converted,) = combined_guarantee([ledger])
    (last,) = Ledger(ledger).entries()[1:]
    assert converted.unit == "street"
    assert converted.composition.epsilon == last.spent[0] > 1.5
    assert "per street in total. 1 charge" in " ".join(run("account", ledger).out.split())
    assert run("report", tmp_path / "one", tmp_path / "two", "--output", tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Total for “y” per street" in page
    assert "Total for “y” per row" in page
    assert run("account", tmp_path / "one", tmp_path / "two", "--figure", tmp_path / "a.svg").code == 0


def test_a_table_stands_for_its_ledger(run, three, table, tmp_path):
    """The table that was released is what is at hand; one that never was is refused with the way out."""
    assert run("account", table).out == run("account", table.with_name("t.csv.labeldp-ledger")).out
    other = tmp_path / "other" / "u.csv"
    other.parent.mkdir()
    other.write_bytes(table.read_bytes())
    never = run("account", other)
    assert never.code == 1
    assert "nothing was released from u.csv, unless with another --ledger; name that one" in never.err
    wrong = run("account", tmp_path)
    assert f"inside it there are releases: {', '.join(sorted(map(str, three)))}" in wrong.err


def test_unknown_candidates_are_named(release, run, tmp_path, write_csv, columns, secrets):
    """A certificate of a prior without its rows is counted with the fewest candidates, and that is said."""
    prior = {f"p_{name}": [0.5, 0.3, 0.2][i : i + 1] * 30 for i, name in enumerate(secrets)}
    table = write_csv(tmp_path / "p.csv", columns | prior)
    assert release(table, tmp_path / "one", mechanism="prior", prior="p_").code == 0
    file = tmp_path / "one" / "_certificate.json"
    assert f"The rows of {file} are incomplete: they count with the fewest" in run("account", file).out
    assert "incomplete" not in run("account", tmp_path / "one").out


def test_a_figure_is_written(run, three, tmp_path):
    """With --figure the curve is drawn too."""
    path = tmp_path / "account.svg"
    ran = run("account", *three, "--figure", path)
    assert (ran.code, ran.err) == (0, "")
    assert f"figure: {path}" in ran.out
    assert path.stat().st_size > 2000


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (["one/data.parquet"], 1),
        (["one", "--delta", "nan"], 1),
        (["one", "--epsilon", "x"], 2),
        (["one", "--figure", "a.txt"], 1),
        ([], 2),
    ],
    ids=str,
)
def test_what_cannot_be_accounted_is_refused(run, tmp_path, monkeypatch, wrong, code):
    """Other files, nothing, and numbers that are no delta or epsilon end in words, without a table."""
    monkeypatch.chdir(tmp_path)
    ran = run("account", *wrong)
    assert ran.code == code
    assert cells(ran.out) == []
    if code == 1:
        assert ran.err.startswith("error: expected")
        assert "zq-secret" not in ran.err
