"""Concentrated budgets of curators and ledgers: they last, they are told truly, and none turns into another."""

import dataclasses
import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import labeldp as dp
from labeldp.cli import main
from labeldp.errors import BudgetError
from labeldp.mechanisms.queries import _histogram
from labeldp.privacy.accounting import Composition, RowRanges
from labeldp.release.ledger import Entry

SPACE = dp.Classes(["no", "yes"])
LABELS = ["no", "yes", "yes", "no"] * 5
SMALL = dp.NoisyHistogram(SPACE, 0.25)
BUDGET = dp.Budget(2.0, 1e-3, concentrated=True)  # eight of the small ones by sums, and more by their rhos


def asked(curator, query=SMALL, most=40):
    """How many more times a curator answers a query, at most."""
    for count in range(most):
        try:
            curator.answer(query)
        except BudgetError:
            return count
    return most


def named(name):
    """An identifier that follows from a name."""
    return name.encode().hex().zfill(32)


def entry(name, guarantee, **more):
    """A charge for labels, such as a query with Gaussian noise makes."""
    return Entry(named(name), "label", (), "noise", guarantee, RowRanges.all(20), asked=1.0, **more)


def charge_to(ledger, guarantees, budget=None):
    """Charge for requests, one after another."""
    for number, guarantee in enumerate(guarantees, start=len(ledger.entries())):
        with ledger.charged(entry(f"r{number}", guarantee), budget):
            pass


def test_a_curator_counts_by_rho(monkeypatch):
    """More requests pass than by sums, epsilon is told at the budget's delta, and one too many draws nothing."""
    curator = dp.Curator(LABELS, SPACE, budget=BUDGET)
    assert asked(curator) > 8 == asked(dp.Curator(LABELS, SPACE, budget=2.0))
    epsilon, delta = curator.spent
    assert 1.8 < epsilon <= 2.0
    assert delta == 1e-3
    monkeypatch.setattr(_histogram, "discrete_laplace", lambda *_: pytest.fail("it drew"))
    with pytest.raises(BudgetError, match="concentrated"):
        curator.answer(SMALL)
    assert curator.spent == (epsilon, delta)


def test_a_ledger_keeps_the_kind_of_its_budget(tmp_path):
    """Whoever opens it next counts as it was counted, and as many requests pass as for one curator."""
    whole = asked(dp.Curator(LABELS, SPACE, budget=BUDGET))
    first = dp.Curator(LABELS, SPACE, budget=BUDGET, ledger=tmp_path / "l")
    for _ in range(5):
        first.answer(SMALL)
    again = dp.Curator(LABELS, SPACE, ledger=tmp_path / "l")
    assert asked(again) == whole - 5
    assert dp.Ledger(tmp_path / "l").entries()[-1].budget == BUDGET
    assert again.spent == first.spent


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (BUDGET, 3.0),
        (BUDGET, (3.0, 1e-3)),
        (BUDGET, dp.Budget(2.0, 1e-4, concentrated=True)),
        (BUDGET, dp.Budget(2.0, 1e-3, concentrated=True, apart=1e-4)),
        (2.0, BUDGET),
        (None, BUDGET),
    ],
)
def test_a_budget_does_not_change_its_kind(tmp_path, first, then):
    """Once something was charged, another delta or another way to count is refused, and nothing is recorded."""
    dp.Curator(LABELS, SPACE, budget=first, ledger=tmp_path / "l").answer(SMALL)
    with pytest.raises(BudgetError, match="expected a budget that differs from that of earlier charges in epsilon"):
        dp.Curator(LABELS, SPACE, budget=then, ledger=tmp_path / "l").answer(dp.NoisyHistogram(SPACE, 0.01))
    assert len(dp.Ledger(tmp_path / "l").entries()) == 1


def test_what_never_left_fixes_no_budget(tmp_path):
    """A charge that became void was for nothing, and the next one may state any budget."""
    ledger = dp.Ledger(tmp_path / "l")
    with pytest.raises(RuntimeError), ledger.charged(entry("r0", dp.Guarantee(0.1)), BUDGET):
        raise RuntimeError
    with ledger.charged(entry("r1", dp.Guarantee(0.1)), dp.Budget(1.0)):
        pass
    assert [each.state for each in ledger.entries()] == ["void", "released"]


def test_ledgers_from_before_still_open(tmp_path):
    """A charge without the newer words has a budget by sums, no rho, and counts as it did."""
    ledger = dp.Ledger(tmp_path / "l")
    ledger.mark("made")
    body = dataclasses.asdict(entry("old", dp.Guarantee(0.75), budget=dp.Budget(1.0, 1e-6)))
    for name in ("identifier", "state", "time"):
        del body[name]
    del body["guarantee"]["rho"], body["budget"]["concentrated"], body["budget"]["apart"]
    with closing(sqlite3.connect(tmp_path / "l")) as database, database:
        insert = "INSERT INTO events (time, charge, event, body) VALUES ('', ?, ?, ?)"
        database.execute(insert, (named("old"), "charged", json.dumps(body)))
        database.execute(insert, (named("old"), "released", "{}"))
    database.close()
    (found,) = ledger.entries()
    assert (found.budget, found.guarantee.rho) == (dp.Budget(1.0, 1e-6), None)
    curator = dp.Curator(LABELS, SPACE, ledger=tmp_path / "l")
    assert curator.spent == (0.75, 0.0)
    assert asked(curator, dp.NoisyHistogram(SPACE, 0.25)) == 1


def test_accounts_of_ledgers_compose_by_rho(tmp_path, capsys):
    """What charges with a rho promise together follows from their sum, beside randomized responses and sums."""
    noisy, pure = dp.Guarantee(1.0, 1e-6, rho=0.005), dp.Guarantee(0.1)
    charge_to(dp.Ledger(tmp_path / "l"), [noisy] * 12 + [pure] * 3, dp.Budget(40.0, 1e-4))
    (found,) = dp.combined_guarantee([tmp_path / "l"], epsilons=[2.0])
    hand = Composition.of((dp.Charge(each, RowRanges.all(1)), None) for each in [noisy] * 12 + [pure] * 3)
    assert found.composition.epsilon == hand.epsilon == 12.3
    assert dict(found.at_deltas)[1e-6] == hand.epsilon_at(1e-6) < 2.2
    assert found.at_epsilons == ((2.0, hand.delta_at(2.0)),)
    assert main(["account", str(tmp_path / "l")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "12.3" in out
    assert f"{hand.epsilon_at(1e-6):.4f}"[:5] in out
    assert "or of its rho" in out


def test_saved_answers_with_gaussian_noise_compose_by_rho(tmp_path):
    """Label moments pass a concentrated budget by their rho, and their certificates tell what they cost together."""
    query = dp.LabelMoments(SPACE, 0.5, 1e-6, np.arange(20.0)[:, None])
    curator = dp.Curator(LABELS, SPACE, budget=dp.Budget(2.0, 1e-6, concentrated=True), name="label")
    paths = [curator.answer(query).save(tmp_path / str(number)) for number in range(11)]
    assert asked(curator, query) == 0 < asked(dp.Curator(LABELS, SPACE, budget=dp.Budget(2.5, 1e-6, True)), query)
    assert curator.spent[0] <= 2.0
    (found,) = dp.combined_guarantee(paths)
    hand = Composition.of([(dp.Charge(query.promise(1), RowRanges.all(1)), None)] * 11)
    assert (found.composition.epsilon, found.composition.delta) == (hand.epsilon, hand.delta)
    assert dict(found.at_deltas)[1e-6] == hand.epsilon_at(1e-6) == pytest.approx(curator.spent[0], rel=1e-9)
    assert hand.epsilon > 5


def test_a_session_is_within_its_budget_however_it_went():
    """Requests of several kinds, with and without a rho, never cost more than the budget by tight composition."""
    random = np.random.default_rng(5)
    kinds = [dp.Guarantee(0.1), dp.Guarantee(0.4), dp.Guarantee(2.0, 1e-5, rho=0.002), dp.Guarantee(0.05, 2e-5)]
    budget = dp.Budget(1.5, 1e-3, concentrated=True, apart=1e-4)
    for _ in range(5):
        ledger, spent = dp.Ledger(), []
        for number, kind in enumerate(random.integers(0, len(kinds), 60)):
            try:
                with ledger.charged(entry(f"r{number}", kinds[kind]), budget):
                    spent.append(kinds[kind])
            except BudgetError:
                continue
        together = Composition.of((dp.Charge(each, RowRanges.all(1)), None) for each in spent)
        assert together.delta_at(1.5) <= 1e-3
        assert sum(each.delta for each in spent if each.rho is None) <= 1e-4 * (1 + 1e-12)
