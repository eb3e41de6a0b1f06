"""Accounting: releases, certificates and ledgers, against compositions made by hand."""

import dataclasses
import json
import math
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import labeldp as dp
from labeldp._random_words import TapeWords
from labeldp.cli import main
from labeldp.errors import BudgetError, EpsilonError, InputError, LedgerError, VerificationError
from labeldp.learning.stages import FixedPrior, MultiStage, ReleasePrior
from labeldp.mechanisms.queries import _histogram
from labeldp.privacy.accounting import Composition, RowRanges
from labeldp.release.ledger import Entry, Ledger, spent_by_data

DELTAS = (1e-9, 1e-6, 0.016)


@pytest.fixture
def curator(labels, space):
    """A curator with much to spend."""
    return dp.Curator(labels, space, budget=100.0, name="colour")


@pytest.fixture
def save(tmp_path):
    """A function that saves releases in numbered folders."""

    def saving(*releases, label=None):
        start = len(list(tmp_path.iterdir()))
        return [release.save(tmp_path / f"r{start + number}", label=label) for number, release in enumerate(releases)]

    return saving


def by_hand(*releases, rows=False):
    """The composition of releases, on the same rows or on those that were drawn."""
    draws = [(release.certificate.draws[0], release.channel) for release in releases]
    return Composition.of(
        (dp.Charge(d.guarantee, d.rows if rows else RowRanges.all(1)), channel) for d, channel in draws
    )


def test_releases_of_one_label_are_composed(curator, space, save):
    """Folders, and certificates alone, cost what their channels cost together, at every delta and epsilon."""
    makers = [dp.RandomizedResponse(space, 0.7), dp.SubsetResponse(space, 0.5, size=2), dp.BitResponse(space, 0.4)] * 3
    releases = [curator.randomize(each) for each in makers]
    folders, hand = save(*releases), by_hand(*releases)
    for paths in (folders, [folder / "_certificate.json" for folder in folders], [*map(str, folders[::-1])]):
        (found,) = dp.combined_guarantee(paths, deltas=[0.1], epsilons=[2.0, 4.0])
        assert (found.label, found.unit, found.rows, found.unknown) == ("colour", "row", 60, ())
        assert found.composition.epsilon == hand.epsilon
        assert [delta for delta, _ in found.at_deltas] == [*DELTAS, 0.1]
        for delta, epsilon in found.at_deltas:
            assert epsilon == pytest.approx(hand.epsilon_at(delta), rel=1e-9)
        for epsilon, delta in found.at_epsilons:
            assert delta == pytest.approx(hand.delta_at(epsilon), rel=1e-9)
        assert [delta for delta, _ in found.curve] == [10.0**-i for i in range(12, 1, -1)]
        assert [epsilon for _, epsilon in found.curve] == sorted((e for _, e in found.curve), reverse=True)


def test_a_release_counts_once(curator, space, save):
    """A folder, its certificate, a copy and slices of it are one draw; another draw of the same law is another."""
    release, again = (
        curator.randomize(dp.RandomizedResponse(space, 0.7)),
        curator.randomize(dp.RandomizedResponse(space, 0.7)),
    )
    one, part, other, two = save(release, release[:20], release[20:], again)
    copied = shutil.copytree(one, one.with_name("copy"))
    (found,) = dp.combined_guarantee([one, one / "_certificate.json", copied, part, other])
    assert len(found.composition.charges) == 1
    assert found.composition.epsilon == release.guarantee.epsilon
    (found,) = dp.combined_guarantee([one / "_certificate.json", part, one])
    assert len(found.composition.charges) == 1, "in any order"
    (found,) = dp.combined_guarantee([two, part, other])
    assert found.composition.epsilon == 2 * release.guarantee.epsilon


def test_two_draws_under_one_name_both_count(curator, space, save):
    """Whole, in slices or as certificates alone, in any order; and no rows of both make one release."""
    release, other = (curator.randomize(dp.RandomizedResponse(space, 0.7)) for _ in range(2))
    named = dataclasses.replace(other.certificate, release=release.certificate.release)
    renamed = dp.Release(other.codes, other.channel, space, named)
    one, part, two, slices = save(release, release[:20], renamed, renamed[20:])
    assert dp.verify(two).holds
    certificates = [folder / "_certificate.json" for folder in (one, two)]
    for paths in (
        [one, two],
        [one, slices],
        [two, part],
        [part, slices],
        certificates,
        [two, one, *certificates, part],
    ):
        for each in (paths, paths[::-1]):
            (found,) = dp.combined_guarantee(each)
            assert found.composition.epsilon == 2 * release.guarantee.epsilon, each
    for parts in ([release[:20], renamed[20:]], [release, renamed], [release, renamed[20:]]):
        with pytest.raises(InputError, match=r"found (one twice|two under one name)"):
            dp.Release.concat(parts)
    dearer = curator.randomize(dp.RandomizedResponse(space, 3.0))
    named = dataclasses.replace(dearer.certificate, release=release.certificate.release)
    with pytest.raises(InputError, match="found two under one name"):
        dp.Release.concat([release, dp.Release(dearer.codes, dearer.channel, space, named)])


def test_two_answers_under_one_name_both_count(curator, space, save):
    """Their files tell them apart."""
    one, two = save(*(curator.answer(dp.NoisyHistogram(space, 0.5)) for _ in range(2)))
    name = json.loads((one / "_certificate.json").read_text(encoding="utf-8"))["release"]
    certificate = json.loads((two / "_certificate.json").read_text(encoding="utf-8")) | {"release": name}
    (two / "_certificate.json").write_text(json.dumps(certificate), encoding="utf-8")
    (once,), (both,) = dp.combined_guarantee([one, one]), dp.combined_guarantee([one, two])
    assert both.composition.epsilon == pytest.approx(2 * once.composition.epsilon)


def test_row_numbers_are_believed_when_that_is_declared(curator, space, save):
    """Disjoint rows cost the sum, and the maximum where row numbers were declared to mean the same rows."""
    makers = [(dp.RandomizedResponse(space, 0.7), slice(0, 30)), (dp.RandomizedResponse(space, 0.9), slice(30, 60))]
    releases = [curator.randomize(each, rows) for each, rows in makers]
    folders = save(*releases)
    (apart,), (summed,) = dp.combined_guarantee(folders, one_table=True), dp.combined_guarantee(folders)
    first, second = (release.guarantee.epsilon for release in releases)
    assert apart.composition.epsilon == by_hand(*releases, rows=True).epsilon == second
    assert summed.composition.epsilon == pytest.approx(first + second)
    assert dict(apart.at_deltas)[1e-6] == pytest.approx(by_hand(releases[1]).epsilon_at(1e-6), rel=1e-9)
    assert dict(summed.at_deltas)[1e-6] == pytest.approx(by_hand(*releases).epsilon_at(1e-6), rel=1e-9)


def test_other_labels_are_apart(curator, labels, space, save):
    """Labels of two names are two results, in the order in which they are given."""
    one = save(curator.randomize(dp.RandomizedResponse(space, 0.7)))
    two = save(dp.Curator(labels, space, name="eyes").randomize(dp.RandomizedResponse(space, 1.5)))
    first, second = dp.combined_guarantee([*two, *one])
    assert [first.label, second.label] == ["eyes", "colour"]
    assert first.composition.epsilon > 1.4
    assert second.composition.epsilon <= 0.7


def test_candidates_count_by_the_rows_that_are_there(curator, space, save):
    """A folder tells how many candidates its rows have; a certificate alone, or a part, may have had fewer."""
    prior = dp.ClassProbabilities(np.random.default_rng(3).dirichlet(np.ones(5), 60), space.points)
    releases = [curator.randomize(dp.TopKResponse(space, 1.0, prior, k=3)) for _ in range(4)]
    folders = save(*releases)
    (whole,) = dp.combined_guarantee(folders)
    (alone,) = dp.combined_guarantee([folder / "_certificate.json" for folder in folders])
    (part,) = dp.combined_guarantee(save(releases[0][:7]))
    hand = by_hand(*releases)
    assert dict(whole.at_deltas)[0.016] == pytest.approx(hand.epsilon_at(0.016), rel=1e-9)
    assert dict(alone.at_deltas)[0.016] > dict(whole.at_deltas)[0.016]
    assert whole.unknown == ()
    assert alone.unknown == tuple(str(folder / "_certificate.json") for folder in folders)
    assert len(part.unknown) == 1
    (both,) = dp.combined_guarantee([folders[0] / "_certificate.json", folders[0]])
    assert both.unknown == ()
    assert alone.composition.epsilon == whole.composition.epsilon


class PriorResult:
    """A model that says what it is made with."""

    def fit(self, *_):
        """Learn nothing."""
        return self

    def predict_proba(self, features):
        """All classes alike."""
        return np.full((len(features), 2), 0.5)


def test_candidates_that_an_earlier_release_chose_count_as_the_worst(tmp_path):
    """Where an earlier release made one candidate of two, another result would have left both, and been told again.

    So what both releases cost together is the same, whatever the first one was. The test looks for both results, and
    misses one with a probability below 1e-7.
    """
    space, met = dp.Classes(["a", "b"]), {}
    for _ in range(60):
        curator = dp.Curator(["a"], space, budget=9.0)
        first = curator.randomize(dp.RandomizedResponse(space, 1.0))
        prior = ReleasePrior(first, base=FixedPrior([0.6, 0.4]))
        again = MultiStage(PriorResult(), 1.0, stages=1, prior=prior).fit(np.zeros((1, 1)), curator).release_
        met[again.channel.sizes.tolist()[0]] = first, again
    assert set(met) == {1, 2}
    folders = [[each.save(tmp_path / f"{m}-{i}") for i, each in enumerate(pair)] for m, pair in met.items()]
    (one,), (other,) = map(dp.combined_guarantee, folders)
    assert one.at_deltas == other.at_deltas
    assert dict(one.at_deltas)[1e-6] > 1.9
    assert one.unknown == other.unknown == ()


def test_a_ledger_counts_as_the_worst_of_its_epsilons(labels, space, tmp_path):
    """Charges that stand are composed by their epsilons alone, with the sums that the ledger shows."""
    path = tmp_path / "l.ledger"
    curator = dp.Curator(labels, space, budget=9.0, name="colour", ledger=path)
    for rows in (slice(0, 30), slice(0, 30), slice(20, 60)):
        curator.randomize(dp.RandomizedResponse(space, 0.7), rows)
    curator.answer(dp.NoisyHistogram(space, 0.2))
    with pytest.raises(BudgetError):
        curator.randomize(dp.RandomizedResponse(space, 9.0))
    (found,) = dp.combined_guarantee([path], epsilons=[1.0])
    price, asked = (dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 0.7)).guarantee, curator.spent[0])
    assert found.ledger
    assert found.composition.epsilon == asked
    worst = Composition.of([(dp.Charge(price, RowRanges.all(1)), None)] * 3 + [(found.composition.charges[-1], None)])
    assert found.composition.epsilon_at(1e-3) == pytest.approx(worst.epsilon_at(1e-3), rel=1e-9)
    dp.Curator(labels, space, name="eyes", ledger=path).randomize(dp.RandomizedResponse(space, 0.3))
    colour, eyes = dp.combined_guarantee([path])
    assert (colour.label, colour.composition.epsilon, eyes.label) == ("colour", asked, "eyes")
    assert dp.combined_guarantee([path, path]) == [colour, eyes]


def test_units_of_several_rows_meet_everywhere(labels, space, save):
    """Releases for units cost the sum, whatever rows they are of, and do not add up with releases for rows."""
    units = [i // 2 for i in range(60)]
    curator = dp.Curator(labels, space, budget=9.0, units=units, name="colour")
    folders = save(*(curator.randomize(dp.RandomizedResponse(space, 0.6), slice(30 * i, 30 * i + 30)) for i in (0, 1)))
    (found,) = dp.combined_guarantee(folders, one_table=True)
    assert found.unit == "unit"
    assert found.composition.epsilon == curator.spent[0]
    assert len(found.composition.losses) == 2
    single = save(dp.Curator(labels, space, name="colour").randomize(dp.RandomizedResponse(space, 0.6)))
    units_alone, rows = dp.combined_guarantee([*folders, *single])
    assert (units_alone.unit, units_alone.composition) == ("unit", dp.combined_guarantee(folders)[0].composition)
    assert rows.unit == "row"
    assert rows.composition.epsilon == pytest.approx(found.composition.epsilon + 0.6, abs=1e-9)


def test_what_is_no_release_is_refused(curator, labels, space, save, tmp_path):
    """Test words, changed files, other files and nothing at all."""
    (folder,) = save(curator.randomize(dp.RandomizedResponse(space, 0.7)))
    tape = TapeWords(np.random.default_rng(1).integers(0, 2**64, 1000, dtype=np.uint64))
    (tested,) = save(dp.Curator(labels, space)._randomize(dp.RandomizedResponse(space, 0.7), None, tape))
    for bad in (tested, tested / "_certificate.json"):
        with pytest.raises(VerificationError, match="NOT PRIVATE"):
            dp.combined_guarantee([folder, bad])
    (folder / "more").write_text("x", encoding="utf-8")
    empty, text, database = tmp_path / "empty", tmp_path / "text", tmp_path / "database"
    empty.mkdir()
    text.write_bytes(b"id,y\n\xff\n")
    database.write_bytes(b"SQLite format 3\x00" + bytes(100))
    for bad, error in ((folder, VerificationError), (empty, VerificationError), (text, VerificationError)):
        with pytest.raises(error, match=str(bad)):
            dp.combined_guarantee([bad])
    with pytest.raises(LedgerError):
        dp.combined_guarantee([database])
    with pytest.raises(InputError, match="found nothing"):
        dp.combined_guarantee([tmp_path / "none"])
    for wrong in ({"deltas": [1.0]}, {"deltas": [math.nan]}, {"epsilons": [0.0]}, {"epsilons": [math.inf]}):
        with pytest.raises(EpsilonError):
            dp.combined_guarantee([tmp_path / "r0"], **wrong)
    assert dp.combined_guarantee([]) == []


def test_the_delta_of_one_in_the_rows_is_rounded_down(save):
    """One in so many rows, to two digits and never above; a single row has none."""
    space = dp.Classes(["a", "b"])
    for rows, deltas in ((1, (1e-9, 1e-6)), (7, (*DELTAS[:2], 0.14)), (300, (*DELTAS[:2], 0.0033))):
        folders = save(dp.Curator(["a"] * rows, space).randomize(dp.RandomizedResponse(space, 0.5)))
        assert dp.combined_guarantee(folders)[0].deltas == deltas


def visits_in(folder, *steps, budget=99.0):
    """The ledger of releases of some of 131 visits, each with its unit and epsilon, and what each had spent."""
    chance, spent = np.random.default_rng(3), []
    people = [*["p"] * 30, "q", *(f"r{number}" for number in range(100))]
    table = pd.DataFrame({"patient": people, "x": chance.normal(size=131), "y": chance.choice(["no", "yes"], 131)})
    for number, (rows, unit, epsilon, ledger) in enumerate(steps):
        path = folder / f"{number}.csv"
        table.iloc[rows].to_csv(path, index=False)
        options = {"keep": ["x"], "unit": unit, "budget": budget, "ledger": folder / f"{ledger}.labeldp-ledger"}
        done = dp.release_table(path, "y", dp.Classes(["no", "yes"]), epsilon, folder / f"o{number}", **options)
        spent += [done.spent[0]]
    return options["ledger"], spent


def test_a_total_of_several_units_is_one_of_rows(tmp_path):
    """Whoever is not in the last release may have more rows than those who are: no total is stated for a person."""
    every = range(131)
    steps = (every, "patient", 1, "a"), (every, "row", 1, "a"), (every[30:], "patient", 1, "a")
    ledger, spent = visits_in(tmp_path, *steps)
    assert spent == [1.0, 2.0, 3.0]  # of whoever is not p, who has 30 rows
    (total,) = dp.combined_guarantee([ledger])
    assert (total.unit, total.composition.epsilon) == ("row", 3.0)


@pytest.mark.parametrize(("first", "second"), [("patient", "a"), ("row", "b")])
def test_no_total_is_less_than_what_a_charge_recorded(tmp_path, first, second):
    """Rows that are not in the last release, and charges in another ledger, are in what earlier charges recorded."""
    one, two = (range(40, 80), first, 2, "a"), ([40, *range(80, 100)], "row", 5, second)
    three, four = ([40, *range(100, 120)], "row", 5, "a"), (range(41, 120), "row", 1, "a")
    ledger, spent = visits_in(tmp_path, one, two, three, four)
    assert spent == [2.0, 7.0, 12.0, 6.0]
    assert spent_by_data(Ledger(ledger).entries())[0][1] >= 12.0
    assert dp.combined_guarantee([ledger])[0].composition.epsilon >= 12.0


def test_under_a_concentrated_budget_charges_of_another_ledger_are_not_forgotten(tmp_path):
    """The last release says what is spent, with them; so does the ledger that it is charged in."""
    budget = dp.Budget(99.0, 1e-6, concentrated=True)
    ledger, spent = visits_in(tmp_path, (range(40, 80), "row", 5, "b"), (range(40, 80), "row", 1, "a"), budget=budget)
    assert spent[1] > 5.0
    assert spent_by_data(Ledger(ledger).entries())[0][1] >= spent[1]
    assert dp.combined_guarantee([ledger])[0].composition.epsilon >= spent[1]


# Concentrated budgets of curators and ledgers: they last, they are told truly, and none turns into another.


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
