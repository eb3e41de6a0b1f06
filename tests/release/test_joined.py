"""Stages: releases of different rows as one, with one certificate that claims the largest cost and not the sum."""

import dataclasses

import numpy as np
import pytest

import labeldp as dp
from labeldp._random_words import TapeWords
from labeldp.errors import BudgetError, InputError, RowsError, VerificationError
from labeldp.privacy.accounting import RowRanges
from labeldp.release.curator import _curator as curator_module

SPACE = dp.Classes(["a", "b", "c", "d"])
LABELS = np.resize(np.array(["a", "b", "c", "d", "d"]), 240)


def even(rows):
    """An even prior: all classes are candidates."""
    return np.full((rows, 4), 0.25)


def sharp(rows):
    """A prior that leaves out classes, other ones in other rows."""
    return np.eye(4)[np.arange(rows) % 4] * 0.6 + 0.1


def staged(curator, shares=(3, 1, 2), epsilon=1.0):
    """Stages of a curator's rows by public chance: the first without a prior, others with one."""
    rows = dp.public_split(len(curator), shares, seed=1)
    priors = [even(len(rows[0])), *(sharp(len(part)) for part in rows[1:])]
    return [
        (part, curator.randomize(dp.PriorResponse(SPACE, epsilon, prior), part))
        for part, prior in zip(rows, priors, strict=True)
    ]


@pytest.mark.parametrize("shares", [(1, 1), (3, 1, 2), (1, 1, 1, 1), (5, 4, 3, 2, 1)])
def test_every_stage_is_charged_in_one_certificate(shares, tmp_path):
    """Two to five stages of scattered rows cost the largest, in the certificate, in the ledger and on disk."""
    curator = dp.Curator(LABELS, SPACE, budget=1.0, ledger=tmp_path / "ledger", name="y")
    parts = staged(curator, shares)
    whole = dp.concatenate(parts)
    assert curator.spent == (whole.guarantee.epsilon, 0.0) == (1.0, 0.0)
    assert whole.guarantee == parts[0][1].guarantee
    assert [draw.rows for draw in whole.certificate.draws] == [RowRanges.of(rows) for rows, _ in parts]
    assert len(whole) == whole.certificate.rows == 240
    folder = whole.save(tmp_path / "shared")
    assert dp.verify(folder).holds
    again = dp.Release.load(folder)
    assert np.array_equal(again.codes, whole.codes)
    assert np.array_equal(again.channel.candidates, whole.channel.candidates)
    assert again.guarantee == whole.guarantee
    (told,) = dp.combined_guarantee([tmp_path / "ledger"])
    assert told.composition.epsilon == 1.0
    with pytest.raises(BudgetError):
        curator.randomize(dp.RandomizedResponse(SPACE, 0.1), rows=[0])


def test_each_row_keeps_its_draw():
    """The whole is what its parts are, row by row, however the rows of a part are named."""
    curator = dp.Curator(LABELS, SPACE)
    mask = np.arange(240) % 3 == 0
    shuffled = np.random.default_rng(2).permutation(np.flatnonzero(~mask))
    one = curator.randomize(dp.PriorResponse(SPACE, 1.0, even(80)), mask)
    two = curator.randomize(dp.PriorResponse(SPACE, 1.0, sharp(160)), shuffled)
    whole = dp.concatenate([(mask, one), (shuffled - 240, two)])
    assert np.array_equal(whole[mask].codes, one.codes)
    assert np.array_equal(whole[shuffled].codes, two.codes)
    assert np.array_equal(whole[shuffled].channel.candidates, two.channel.candidates)
    assert np.array_equal(whole[mask].likelihood(), one.likelihood())
    assert np.array_equal(whole[shuffled].likelihood(), two.likelihood())


def test_what_is_kept_is_the_mean_over_rows():
    """The figures of the whole are those of the rows, each counted once."""
    parts = staged(dp.Curator(LABELS, SPACE))
    kept = dp.concatenate(parts).certificate.expects
    for name in ("truth_probability", "clean_share"):
        shares = [getattr(release.certificate.expects, name) for _, release in parts]
        rows = [len(release) for _, release in parts]
        assert getattr(kept, name) == pytest.approx(np.dot(shares, rows) / 240, rel=1e-12)


def test_laws_that_are_the_same_for_all_rows_are_joined_too(tmp_path):
    """Releases of any mechanism, where all parts have its one law."""
    for number, randomizer in enumerate((dp.RandomizedResponse(SPACE, 0.7), dp.SubsetResponse(SPACE, 0.7, size=2))):
        curator = dp.Curator(LABELS, SPACE)
        rows = dp.public_split(240, [1, 2], seed=3)
        whole = dp.concatenate([(part, curator.randomize(randomizer, part)) for part in rows])
        assert whole.guarantee.epsilon == curator.spent[0] <= 0.7
        assert dp.verify(whole.save(tmp_path / str(number))).holds


def test_a_single_stage_is_that_release():
    """One part of all rows has its own name, charge and labels."""
    release = dp.Curator(LABELS, SPACE).randomize(dp.RandomizedResponse(SPACE, 1.0))
    whole = dp.concatenate([(None, release)])
    assert whole.certificate == release.certificate
    assert np.array_equal(whole.codes, release.codes)


def test_answers_that_stages_used_are_charged_once(tmp_path):
    """A histogram that every stage used adds its cost to all of them, once."""
    curator = dp.Curator(LABELS, SPACE, budget=1.5, name="y")
    histogram = curator.answer(dp.NoisyHistogram(SPACE, 0.5, np.arange(240) % 2))
    whole = dp.concatenate(staged(curator), answers=[histogram])
    assert curator.spent[0] == whole.guarantee.epsilon == 1.5
    assert whole.guarantee.trust == "central"
    assert whole.certificate.answers == histogram.certificate.draws
    folder = whole.save(tmp_path / "shared")
    assert dp.verify(folder).holds
    (told,) = dp.combined_guarantee([folder])
    assert told.composition.epsilon == 1.5
    with pytest.raises(InputError, match="found one twice"):
        dp.concatenate(staged(dp.Curator(LABELS, SPACE)), answers=[histogram, histogram])


def test_answers_of_other_assumptions_are_refused():
    """One guarantee stands for all: what one answer rests on would be lost behind another that rests on nothing."""
    curator = dp.Curator(LABELS, SPACE, budget=9.0)
    plain, of_cells = (curator.answer(dp.NoisyHistogram(SPACE, 0.5, cells)) for cells in (None, np.arange(240) % 2))
    parts = staged(curator)
    for answers in ([plain, of_cells], [of_cells, plain]):
        with pytest.raises(InputError, match="the same assumptions"):
            dp.concatenate(parts, answers=answers)


def test_answers_of_mixed_labels_are_no_answers_beside_stages():
    """Their epsilon against whoever mixes would stand for all labels, and the stages' own cost is not in it."""
    curator = dp.Curator(LABELS, SPACE, budget=(9.0, 1e-3))
    mixed = curator.answer(dp.ShuffledLabels(SPACE, dp.CellShuffle(1.0, 4), np.zeros(240, dtype=int), 1e-6))
    with pytest.raises(InputError, match="does not cover the other labels"):
        dp.concatenate(staged(curator), answers=[mixed])


def test_an_account_knows_stages(tmp_path):
    """Stages of one release cost the largest, whether or not rows mean the same elsewhere; two releases add up."""
    curator = dp.Curator(LABELS, SPACE, budget=10.0, name="y")
    folders = [dp.concatenate(staged(curator)).save(tmp_path / str(number)) for number in range(2)]
    for paths, epsilon in ((folders[:1], 1.0), (folders, 2.0), ([folders[0] / "_certificate.json"], 1.0)):
        for one_table in (False, True):
            (told,) = dp.combined_guarantee(paths, one_table=one_table)
            assert told.composition.epsilon == epsilon
    half = dp.Release.load(folders[0])[:100].save(tmp_path / "half")
    (told,) = dp.combined_guarantee([folders[0], half])
    assert told.composition.epsilon == 1.0


def _slice(curator):
    parts = staged(curator)
    return [(rows[:-1], release[:-1]) for rows, release in parts[:1]] + parts[1:]


def _swapped(curator):
    rows, halves = np.arange(240), (np.arange(120), np.arange(120, 240))
    releases = [curator.randomize(dp.RandomizedResponse(SPACE, 1.0), half) for half in halves]
    return [(rows[120:], releases[0]), (rows[:120], releases[1])]


def _twice(curator):
    rows = np.arange(160), np.arange(80, 240)
    parts = [(part, curator.randomize(dp.RandomizedResponse(SPACE, 1.0), part)) for part in rows]
    return [*parts, (slice(0, 80), curator.randomize(dp.RandomizedResponse(SPACE, 1.0), slice(0, 80)))]


def _units(_):
    return [(None, dp.Curator(LABELS, SPACE, units=np.arange(240) // 2).randomize(dp.RandomizedResponse(SPACE, 1.0)))]


def _another(curator):
    _, *others = staged(curator)
    rows, _ = staged(curator)[0]
    return [
        (rows, dp.Curator(LABELS, SPACE, name="other").randomize(dp.PriorResponse(SPACE, 1.0, even(120)), rows)),
        *others,
    ]


def _laws(curator):
    (rows, _), *others = staged(curator)
    return [(rows, curator.randomize(dp.PriorResponse(SPACE, 0.5, even(len(rows))), rows)), *others]


WRONG = {
    "none": (lambda _: [], "at least one release"),
    "public": (lambda _: [(None, dp.Release.public(LABELS, SPACE))], "found public labels"),
    "slice": (_slice, "found public labels, a slice"),
    "joined": (lambda curator: [(None, dp.concatenate(staged(curator)))], "or a concatenated release"),
    "units": (_units, "or units of several rows"),
    "name": (_another, "one label of single rows"),
    "laws": (_laws, "expected one mechanism and one epsilon in all parts"),
    "again": (lambda curator: staged(curator)[:1] * 2, "found one twice"),
    "missing": (lambda curator: staged(curator)[:2], "expected row numbers between 0"),
    "count": (lambda curator: [(slice(0, 3), staged(curator)[0][1])], r"expected the \d+ rows of the release"),
    "swapped": (_swapped, "the rows that the curator charged"),
    "twice": (_twice, "expected each of the rows"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_set_of_stages_is_refused(case):
    """Whatever is not one curator's whole releases of all rows, each once and by one law, is no release."""
    make, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        dp.concatenate(make(dp.Curator(LABELS, SPACE, budget=50.0)))


def test_rows_that_a_charge_does_not_hold_are_refused(monkeypatch):
    """Where a charge covers very scattered rows by one range, stages add up, and are no release of one cost."""
    monkeypatch.setattr("labeldp.privacy.accounting._account._MOST_RANGES", 5)
    curator = dp.Curator(LABELS, SPACE, budget=10.0)
    parts = staged(curator, (1, 1))
    assert curator.spent[0] == 2.0
    with pytest.raises(RowsError, match="public_split"):
        dp.concatenate(parts)


def test_words_of_a_test_make_nothing_private(tmp_path):
    """One stage that is not private makes the whole not private."""
    (rows, _), *others = staged(dp.Curator(LABELS, SPACE))
    words = TapeWords(np.arange(1, 9, dtype=np.uint64) << np.uint64(60))
    tested = dp.Curator(LABELS, SPACE)._randomize(dp.PriorResponse(SPACE, 1.0, even(len(rows))), rows, words)
    whole = dp.concatenate([(rows, tested), *others])
    assert not whole.certificate.private
    assert not dp.verify(whole.save(tmp_path / "shared")).holds


@pytest.fixture(scope="module")
def whole():
    """A release in three stages."""
    return dp.concatenate(staged(dp.Curator(LABELS, SPACE)))


def refused(release, folder, **changes):
    """Whether the law was what was found wrong in a folder whose maker wrote another certificate."""
    certificate = dataclasses.replace(release.certificate, **changes)
    saved = dataclasses.replace(release, certificate=certificate).save(folder)
    found = dp.verify(saved)
    assert not found.holds
    with pytest.raises(VerificationError):
        dp.Release.load(saved)
    return found.checks[-1].what == "each epsilon follows from the integers of its mechanism"


def test_stages_are_of_all_rows_each_once(whole, tmp_path):
    """A stage that is left out, named twice, of other rows or of no rows is refused, in parts of the whole too."""
    first, second, third = whole.certificate.draws
    shifted = dataclasses.replace(third, rows=RowRanges(tuple((a + 240, b + 240) for a, b in third.rows.ranges)))
    forged = {
        "left out": (first, second),
        "twice": (first, second, third, third),
        "overlap": (first, second, dataclasses.replace(third, rows=RowRanges.all(240))),
        "elsewhere": (first, second, shifted),
    }
    for name, draws in forged.items():
        assert refused(whole, tmp_path / name, draws=draws)
        assert refused(whole, tmp_path / f"part {name}", draws=draws, parent="a" * 64)
    for_none = dataclasses.replace(third, rows=RowRanges(()))
    assert refused(whole, tmp_path / "none", draws=(first, second, third, for_none))
    assert refused(whole, tmp_path / "one", draws=(third,))


def test_stages_claim_what_their_law_costs(whole, tmp_path):
    """A stage that claims less than its law is refused, first, last or both."""
    first, second, third = whole.certificate.draws
    less = [
        dataclasses.replace(draw, guarantee=dataclasses.replace(draw.guarantee, epsilon=0.1))
        for draw in (first, second, third)
    ]
    assert refused(whole, tmp_path / "first", draws=(less[0], second, third))
    assert refused(whole, tmp_path / "last", draws=(first, second, less[2]))
    assert refused(whole, tmp_path / "all", draws=tuple(less))


def test_stages_have_one_law(whole, tmp_path):
    """A stage of a law of its own is refused, also where what it claims follows from that law."""
    first, second, third = whole.certificate.draws
    gentle = dp.Curator(LABELS, SPACE).randomize(dp.PriorResponse(SPACE, 0.1, even(240))).certificate.draws[0]
    for name, draws in {
        "first": (dataclasses.replace(gentle, rows=first.rows), second, third),
        "last": (first, second, dataclasses.replace(gentle, rows=third.rows)),
    }.items():
        assert refused(whole, tmp_path / name, draws=draws)


def test_answers_come_before_labels_and_stages_are_declared(whole, tmp_path):
    """The law of what was released is that of the last charge, so an answer cannot stand there or between."""
    histogram = dp.Curator(LABELS, SPACE).answer(dp.NoisyHistogram(SPACE, 0.5)).certificate.draws
    first, *others = whole.certificate.draws
    assert refused(whole, tmp_path / "between", draws=(first, *histogram, *others))
    assert refused(whole, tmp_path / "declared", assumptions=whole.certificate.assumptions[:1])
    less = dataclasses.replace(histogram[0], guarantee=dataclasses.replace(histogram[0].guarantee, epsilon=0.1))
    assert refused(whole, tmp_path / "less", draws=(less, first, *others))


def test_nothing_but_the_draws_depends_on_a_label(monkeypatch, tmp_path):
    """With draws made constant, tables that differ in one label leave the same bytes and charges."""
    monkeypatch.setattr(
        "labeldp.release.curator._drawing.draw", lambda _, codes, *__: np.zeros(codes.size, dtype=np.int32)
    )
    monkeypatch.setattr(curator_module, "identifier", lambda: "ab" * 16)
    monkeypatch.setattr("labeldp.release.folder._joined.digest", lambda _: "cd" * 32)
    left = []
    for row in (None, 0, 120, 239):
        labels = LABELS.copy()
        if row is not None:
            labels[row] = "b" if labels[row] != "b" else "c"
        curator = dp.Curator(labels, SPACE, name="y")
        rows = dp.public_split(240, [1, 1], seed=1)
        parts = [(part, curator.randomize(dp.RandomizedResponse(SPACE, 1.0), part)) for part in rows]
        monkeypatch.setattr("labeldp.release.folder._joined._check_stages", lambda *_: None)
        folder = dp.concatenate(parts).save(tmp_path / str(row))
        left.append(({path.name: path.read_bytes() for path in folder.iterdir()}, curator.spent))
    assert all(one == left[0] for one in left)


@pytest.mark.parametrize("count", [10, 11, 1000, 1_000_000])
@pytest.mark.parametrize("shares", [(1, 1), (0.65, 0.35), (1, 2, 3), (1, 1, 1, 1), (9, 1, 1, 1, 1e-9)])
def test_a_split_is_of_all_rows(count, shares):
    """Each row is in one part, of about its share, and a charge holds each part exactly."""
    parts = dp.public_split(count, shares, seed=4)
    assert len(parts) == len(shares)
    assert (np.bincount(np.concatenate(parts)) == 1).all()
    assert sum(map(len, parts)) == count
    for part, share in zip(parts, shares, strict=True):
        assert (np.diff(part) > 0).all()
        assert len(part) >= 1
        run = -(-count // (1 << 14))
        assert abs(len(part) - share / sum(shares) * count) <= 5 * run + len(shares)
        assert RowRanges.of(part).holds(len(part))


def test_parts_of_very_many_rows_never_add_up(monkeypatch):
    """Rows are parted in so few runs that the account tells parts apart."""
    monkeypatch.setattr("labeldp.release.curator._cluster_response._MOST_RUNS", 24)
    monkeypatch.setattr("labeldp.privacy.accounting._account._MOST_RANGES", 30)
    curator = dp.Curator(LABELS, SPACE, budget=1.0)
    assert dp.concatenate(staged(curator)).guarantee.epsilon == curator.spent[0] == 1.0


def test_a_split_is_repeated_by_its_seed_alone():
    """One seed gives one split; no seed gives another each time."""
    one, two, other = (dp.public_split(1000, [1, 1], seed=seed)[0].tolist() for seed in (5, 5, 6))
    assert one == two != other
    assert dp.public_split(1000, [1, 1])[0].tolist() != dp.public_split(1000, [1, 1])[0].tolist()


@pytest.mark.parametrize("shares", [[], [1, 0], [1, -1], [1, float("nan")], [1, float("inf")], [1, True]])
def test_shares_are_positive_numbers(shares):
    """Anything else is refused, as are more parts than rows."""
    with pytest.raises(InputError):
        dp.public_split(10, shares)
    with pytest.raises(RowsError):
        dp.public_split(2, [1, 1, 1])
