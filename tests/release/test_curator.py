"""The curator: every draw is charged before it is made, and nothing but releases gets out."""

import copy
import json
import pickle
import threading
import traceback
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import labeldp as dp
from labeldp._random_words import TapeWords
from labeldp.errors import BudgetError, InputError, LabelDPError, LabelError, LedgerError, RowsError
from labeldp.mechanisms.randomizers import RANDOMIZERS, best_randomizer
from labeldp.privacy.channels import CHANNELS, ResponseChannel

#: At this epsilon a label out of five survives but with probability below 2e-17, so a release shows its rows.
CLEAR = 40.0


def forbidden(*_, **__):
    """A draw that must not happen."""
    raise AssertionError("a label was drawn")


# Budgets


def test_the_first_release_sets_the_budget(space, labels):
    """Without a budget, what the first release cost is all that may be spent."""
    curator = dp.Curator(labels, space)
    first = curator.randomize(dp.RandomizedResponse(space, 0.5))
    assert curator.spent == (first.guarantee.epsilon, 0.0)
    with pytest.raises(BudgetError):
        curator.randomize(dp.RandomizedResponse(space, 1e-3))
    assert curator.spent == (first.guarantee.epsilon, 0.0)


def test_a_refused_request_draws_nothing(space, labels, monkeypatch):
    """Beyond the budget, the draw is never reached and nothing is charged."""
    curator = dp.Curator(labels, space, budget=1.0)
    monkeypatch.setattr("labeldp.release.curator._drawing.draw", forbidden)
    with pytest.raises(BudgetError):
        curator.randomize(dp.RandomizedResponse(space, 1.01))
    assert curator.spent == (0.0, 0.0)
    with pytest.raises(AssertionError, match="drawn"):  # within the budget it is reached: the test can fail
        curator.randomize(dp.RandomizedResponse(space, 0.99))


def test_the_charge_is_recorded_before_the_draw(space, labels, monkeypatch):
    """At the moment of the draw the charge already stands, so that a crash can't give labels away for nothing."""
    import labeldp.release.curator._drawing as module  # noqa: PLC0415 (the module itself is patched)

    seen, original = [], module.draw
    curator = dp.Curator(labels, space)

    def watched(*args):
        seen.append((curator.spent, [entry.state for entry in curator._ledger.entries()]))
        return original(*args)

    monkeypatch.setattr(module, "draw", watched)
    release = curator.randomize(dp.RandomizedResponse(space, 0.5))
    assert seen == [((release.guarantee.epsilon, 0.0), ["charged"])]
    assert [entry.state for entry in curator._ledger.entries()] == ["released"]


@pytest.mark.parametrize("problem", [RuntimeError("no words"), KeyboardInterrupt(), MemoryError()])
def test_a_failed_draw_costs_nothing(space, labels, monkeypatch, problem):
    """Where the draw fails nothing left, so the charge is void and the budget is whole again."""
    curator = dp.Curator(labels, space)
    monkeypatch.setattr("labeldp.release.curator._drawing.draw", lambda *_: (_ for _ in ()).throw(problem))
    with pytest.raises(type(problem)):
        curator.randomize(dp.RandomizedResponse(space, 0.5))
    monkeypatch.undo()
    assert curator.spent == (0.0, 0.0)
    assert len(curator.randomize(dp.RandomizedResponse(space, 0.5))) == len(labels)


# Rows


@pytest.mark.parametrize(
    "rows",
    [
        None,
        slice(None, None, -1),
        slice(5, 40, 7),
        [3, 1, 2],
        [-1, 0, -58],
        np.array([59, 0, 30], dtype=np.uint8),
        np.arange(60) % 3 == 0,
        [True] * 60,
        np.arange(59, -1, -2),
    ],
    ids=str,
)
def test_the_order_of_rows_is_kept(space, labels, rows):
    """The release has the labels of the rows that were asked for, in that order (false alarm below 1e-14)."""
    release = dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, CLEAR), rows)
    index = slice(None) if rows is None else rows if isinstance(rows, slice) else np.asarray(rows)
    expected = space.encode(np.array(labels)[index])
    assert release.codes.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "rows",
    [
        [60],
        [-61],
        [0, 0],
        [-1, 59],
        [0.0, 1.0],
        [[0, 1]],
        np.ones(59, dtype=bool),
        np.array([2**64 - 1], dtype=np.uint64),
        ["0"],
        3,
    ],
    ids=["above", "below", "twice", "twice-negative", "floats", "2-d", "mask", "wraps", "text", "scalar"],
)
def test_rows_that_do_not_exist_are_refused(space, labels, rows, monkeypatch):
    """Bad rows raise before anything is drawn or charged."""
    curator = dp.Curator(labels, space)
    monkeypatch.setattr("labeldp.release.curator._drawing.draw", forbidden)
    with pytest.raises(RowsError):
        curator.randomize(dp.RandomizedResponse(space, 1.0), rows)
    assert curator.spent == (0.0, 0.0)


def test_no_rows_are_a_release_of_no_rows(space, labels, randomizer_for):
    """A request for no rows costs no row anything, and its certificate holds numbers."""
    curator = dp.Curator(labels, space, budget=1.0)
    release = curator.randomize(randomizer_for(space, 1.0, 0), [])
    assert (len(release), curator.spent) == (0, (0.0, 0.0))
    json.loads(release.certificate.to_json(), parse_constant=lambda name: pytest.fail(f"found {name} in it"))


# What does not fit


def test_what_does_not_fit_is_refused(space, labels, monkeypatch):
    """Another space, another policy for missing labels and a prior of another length: refused and not charged."""
    curator = dp.Curator(labels, space)
    monkeypatch.setattr("labeldp.release.curator._drawing.draw", forbidden)
    prior, longer = (dp.ClassProbabilities(np.full((rows, 5), 0.2), space.points) for rows in (59, 60))
    wrong = [
        dp.RandomizedResponse(dp.Classes(space.values[::-1]), 1.0),
        dp.RandomizedResponse(dp.Classes(space.values, missing="red"), 1.0),
        dp.PriorResponse(space, 1.0, prior),
    ]
    for randomizer in wrong:
        with pytest.raises(InputError):
            curator.randomize(randomizer)
    with pytest.raises(InputError):
        curator.randomize(dp.PriorResponse(space, 1.0, longer), slice(0, 59))
    assert curator.spent == (0.0, 0.0)


def test_a_curator_wants_labels_and_a_space(space, labels):
    """No labels, no declared space, or units of another length are refused."""
    with pytest.raises(InputError):
        dp.Curator([], space)
    with pytest.raises(LabelError):
        dp.Curator(labels, list(space.values))
    with pytest.raises(InputError):
        dp.Curator(labels, space, units=[1, 2, 3])


# Units


def row_odds(channel):
    """The worst ratio of one row's released label, from the integers of its law, written out here again."""
    word = 1 << channel.bits
    match channel.kind:
        case "response":
            return Fraction(channel.keep, channel.other)
        case "subset":
            inside, outside = Fraction(channel.member, channel.size), word - channel.member
            return inside * (channel.classes - channel.size) / outside
        case "bits":
            return Fraction(channel.true, channel.false) * Fraction(word - channel.false, word - channel.true)
    raise AssertionError(channel.kind)


@pytest.mark.parametrize("make", [dp.RandomizedResponse, dp.SubsetResponse, dp.BitResponse])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.3])
def test_the_epsilon_of_a_unit_is_shared_by_its_rows(space, labels, make, epsilon):
    """The product of the row odds of every unit is at most exp(epsilon), exactly."""
    units = np.array([f"u{i}" for i in [0] * 7 + [1] * 2 + list(range(2, 40)) + [40] * 13])
    release = dp.Curator(labels, space, units=units).randomize(make(space, epsilon))
    odds = [row_odds(release.channel.channels[group]) for group in release.channel.groups]
    mpmath.mp.dps = 60
    worst = Fraction(1)
    for unit in np.unique(units):
        product = Fraction(1)
        for row in np.flatnonzero(units == unit):
            product *= odds[row]
        worst = max(worst, product)
    total = mpmath.log(mpmath.mpf(worst.numerator) / worst.denominator)
    certified = mpmath.mpf(repr(release.guarantee.epsilon))
    assert total <= certified <= mpmath.mpf(repr(epsilon))
    assert certified - total < 1e-12  # and not needlessly little
    assert release.guarantee.unit != "row"


def test_units_are_counted_among_the_rows_of_the_request(space, labels):
    """A unit with two rows of which one is asked for gives that one the whole epsilon."""
    units = np.arange(60) // 2
    alone = dp.Curator(labels, space, units=units).randomize(dp.RandomizedResponse(space, 1.0), slice(0, 60, 2))
    assert alone.channel.repeats == (1,)


# Copies, forks, threads


@pytest.mark.parametrize("act", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
def test_a_curator_is_not_copied(space, labels, act):
    """A copy would have a budget of its own."""
    with pytest.raises(TypeError):
        act(dp.Curator(labels, space))


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_fork_is_refused(space, labels, tmp_path, in_child, on_disk):
    """A forked child would spend the budget again."""
    curator = dp.Curator(labels, space, ledger=tmp_path / "ledger" if on_disk else None)
    curator.randomize(dp.RandomizedResponse(space, 1.0), slice(0, 30))

    def refuses():
        try:
            curator.randomize(dp.RandomizedResponse(space, 1.0), slice(30, 60))
        except LedgerError:
            return True
        return False

    assert in_child(refuses) == 0
    assert len(curator.randomize(dp.RandomizedResponse(space, 1.0), slice(30, 60))) == 30


def ask_at_once(curators, randomizer):
    """What happened to requests from one thread for each curator, all started together."""
    start, outcomes = threading.Barrier(len(curators)), []

    def ask(curator):
        start.wait()
        try:
            curator.randomize(randomizer)
            outcomes.append("released")
        except Exception as problem:  # noqa: BLE001 (a thread reports everything)
            outcomes.append(type(problem).__name__)

    threads = [threading.Thread(target=ask, args=(curator,)) for curator in curators]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_threads_can_not_overspend(space, labels):
    """Of eight requests at once exactly the three that the budget allows go through; the others are refused."""
    for _ in range(20):
        curator = dp.Curator(labels, space, budget=3.0)
        outcomes = ask_at_once([curator] * 8, dp.RandomizedResponse(space, 1.0))
        assert sorted(outcomes) == ["BudgetError"] * 5 + ["released"] * 3
        assert curator.spent[0] <= 3.0


def test_threads_on_one_file_can_not_overspend(space, labels, tmp_path):
    """Several curators on one ledger get in one after the other, and together stay within the budget."""
    for trial in range(5):
        path = tmp_path / f"ledger-{trial}"
        curators = [dp.Curator(labels, space, budget=3.0, ledger=path) for _ in range(6)]
        outcomes = ask_at_once(curators, dp.RandomizedResponse(space, 1.0))
        assert sorted(outcomes) == ["BudgetError"] * 3 + ["released"] * 3
        assert curators[0].spent[0] <= 3.0


# Ledgers on disk


def test_a_ledger_outlives_its_curator(space, labels, tmp_path):
    """Under the same name in the same file the first charge is remembered; another name has its own account."""
    path = tmp_path / "ledger"
    dp.Curator(labels, space, ledger=path, name="train").randomize(dp.RandomizedResponse(space, 1.0))
    with pytest.raises(BudgetError):
        dp.Curator(labels, space, ledger=path, name="train").randomize(dp.RandomizedResponse(space, 1.0))
    dp.Curator(labels, space, ledger=path, name="test").randomize(dp.RandomizedResponse(space, 1.0))


def test_a_ledger_named_like_a_memory_database_is_a_file(space, labels, tmp_path, monkeypatch):
    """The name ``:memory:`` makes no ledger that forgets."""
    monkeypatch.chdir(tmp_path)
    curator = dp.Curator(labels, space, ledger=":memory:")
    curator.randomize(dp.RandomizedResponse(space, 1.0))
    with pytest.raises(BudgetError):
        curator.randomize(dp.RandomizedResponse(space, 1.0))


def test_a_relative_ledger_stays_where_it_was(space, labels, tmp_path, monkeypatch):
    """Changing the working folder does not give a fresh budget."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    curator = dp.Curator(labels, space, ledger="ledger")
    curator.randomize(dp.RandomizedResponse(space, 1.0))
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(BudgetError):
        curator.randomize(dp.RandomizedResponse(space, 1.0))


# Test words, and what is said


def test_test_words_mark_a_release(space, labels, tmp_path, randomizer_for):
    """What was drawn with given words says NOT PRIVATE, in slices too, and does not verify."""
    tape = TapeWords(np.random.default_rng(1).integers(0, 2**64, 1000, dtype=np.uint64))
    release = dp.Curator(labels, space)._randomize(randomizer_for(space, 1.0, 60), None, tape)
    assert "NOT PRIVATE" in repr(release)
    assert "NOT PRIVATE" in repr(release[:3])
    release.save(tmp_path / "out")
    verdict = dp.verify(tmp_path / "out")
    assert not verdict.holds
    assert "NOT PRIVATE" in verdict.checks[-1].found
    with pytest.raises(LabelDPError, match="NOT PRIVATE"):
        dp.Release.load(tmp_path / "out")


def test_releases_of_the_same_labels_differ(space, labels, randomizer_for):
    """Each call has words of its own: equal by chance with probability below 1e-12."""
    curator = dp.Curator(labels, space, budget=3.0)
    one, two = (curator.randomize(randomizer_for(space, 1.0, 60)) for _ in range(2))
    assert (one.codes != two.codes).any()


LABEL = "s3kr3t-l4b3l"


@pytest.mark.parametrize(
    "labels",
    [
        ["red", LABEL],
        ["red", 5, LABEL],
        ["red", None, LABEL],
        [LABEL, 1.5, None],
        [[LABEL], ["red"]],
        {"red": LABEL},
        np.array([["red", LABEL]]),
        np.array([LABEL.encode(), b"red"]),
        pa.array([{"x": LABEL}]),
        pd.Series([LABEL, 5]),
        pd.Series(["red", LABEL], dtype="category"),
        LABEL,
    ],
    ids=str,
)
@pytest.mark.parametrize("classes", [("red", "green"), (1, 2), (False, True)], ids=str)
def test_errors_never_show_a_label(labels, classes):
    """Whatever is wrong with labels, neither the message nor the chain of causes that is printed quotes one."""
    with pytest.raises(LabelDPError) as found:
        dp.Curator(labels, dp.Classes(classes))
    shown = "".join(traceback.format_exception_only(found.value)) + str(found.value) + repr(found.value)
    assert LABEL not in shown
    cause = found.value.__cause__ or (None if found.value.__suppress_context__ else found.value.__context__)
    assert cause is None


def test_a_curator_does_not_show_its_labels(space, labels):
    """Its text is the number of labels, the space and what was spent, whatever the labels are."""
    assert repr(dp.Curator(labels, space)) == repr(dp.Curator(labels[::-1], space))


# Identities


def test_rows_of_declared_identities_are_known_again(space, labels, tmp_path):
    """Curators of one ledger with the same identities pay the largest for different rows, and the sum for the same."""
    path, half, names = tmp_path / "ledger", len(labels) // 2, [f"p{i}" for i in range(len(labels))]

    def curator():
        return dp.Curator(labels, space, ledger=path, budget=1.5, identity=names)

    first = curator().randomize(dp.RandomizedResponse(space, 1.0), slice(0, half))
    again = curator()
    second = again.randomize(dp.RandomizedResponse(space, 1.0), slice(half, None))
    assert again.spent[0] == 1.0
    for rows in (slice(0, half), slice(half, None), [half]):
        with pytest.raises(BudgetError):
            curator().randomize(dp.RandomizedResponse(space, 1.0), rows)
    for release in (first, second):
        assert any("the identities of rows were declared" in each for each in release.certificate.assumptions)


@pytest.mark.parametrize("change", ["order", "one", "none", "shorter", "type"])
def test_other_rows_can_not_pass_for_known_ones(space, labels, tmp_path, change):
    """Labels in another order, of another person, of fewer rows or without identities may be any: costs are summed."""
    path, half, names = tmp_path / "ledger", len(labels) // 2, list(range(100, 100 + len(labels)))
    dp.Curator(labels, space, ledger=path, budget=1.5, identity=names).randomize(
        dp.RandomizedResponse(space, 1.0), slice(0, half)
    )
    others = {
        "order": (labels[::-1], names[::-1]),
        "one": (labels, [*names[:-1], 7]),
        "none": (labels, None),
        "shorter": (labels[:-1], names[:-1]),
        "type": (labels, list(map(str, names))),
    }
    given, identity = others[change]
    other = dp.Curator(given, space, ledger=path, budget=1.5, identity=identity)
    with pytest.raises(BudgetError):
        other.randomize(dp.RandomizedResponse(space, 1.0), slice(half, None))
    assert other.spent[0] == 1.0


def test_curators_without_identities_know_no_rows_of_each_other(space, labels, tmp_path):
    """Of two curators of one ledger each takes the other's rows for any rows, the same labels or not."""
    path, half = tmp_path / "ledger", len(labels) // 2
    dp.Curator(labels, space, ledger=path, budget=1.5).randomize(dp.RandomizedResponse(space, 1.0), slice(0, half))
    with pytest.raises(BudgetError):
        dp.Curator(labels, space, ledger=path).randomize(dp.RandomizedResponse(space, 1.0), slice(half, None))


@pytest.mark.parametrize(
    "identity", [[1, 2], [1] * 60, [None, *range(59)], [[1]] * 60, [*range(59), object()], object(), [*range(59), "a"]]
)
def test_identities_that_are_none_are_refused(space, labels, identity):
    """Identities that are missing, repeat or are too few tell no rows apart."""
    with pytest.raises(InputError, match="identit"):
        dp.Curator(labels, space, identity=identity)


def test_an_unregistered_randomizer_is_refused_before_a_charge(space, labels):
    """What could not be read back is not drawn: a class that no entry point names costs nothing."""

    class Homemade(dp.RandomizedResponse):
        """A randomizer that no distribution registers."""

        name = "homemade"

    curator = dp.Curator(labels, space, budget=1.0)
    with pytest.raises(InputError, match="registered randomizer, found Homemade"):
        curator.randomize(Homemade(space, 1.0))
    assert curator.spent == (0.0, 0.0)


def test_a_channel_with_more_than_its_integers_is_refused(space, labels, monkeypatch):
    """A law that does not determine the channel would be verified as something else."""

    @dataclass(frozen=True, eq=False)
    class Half(ResponseChannel):
        """A channel with a field that a law would round."""

        part: float = 0.5

    class Halves(dp.RandomizedResponse):
        """Its randomizer."""

        def channel(self):
            channel = ResponseChannel.at(self.space.size, self.epsilon)
            return Half(channel.classes, channel.keep, channel.other, bits=channel.bits)

    for registry in (RANDOMIZERS, CHANNELS):
        monkeypatch.setattr(type(registry), "check", lambda *_: None)
    curator = dp.Curator(labels, space, budget=1.0)
    with pytest.raises(InputError, match="follows from its integers"):
        curator.randomize(Halves(space, 1.0))
    assert curator.spent == (0.0, 0.0)


@pytest.mark.parametrize("space", [dp.Classes(["no", "yes"]), dp.Interval(0, 10, 1), dp.Classes(range(300))], ids=repr)
def test_an_epsilon_alone_takes_the_best_randomizer(space):
    """It is what the command line calls auto, for classes and numbers."""
    release = dp.Curator([space.points[row % 3 % space.size] for row in range(12)], space).randomize(epsilon=0.75)
    assert release.certificate.draws[-1].mechanism == best_randomizer(space, 0.75).name
    assert release.guarantee.epsilon <= 0.75


def test_units_of_several_rows_take_one_kind_for_all():
    """As a table with a unit does."""
    space = dp.Classes(["no", "yes"])
    curator = dp.Curator(["no", "yes"] * 6, space, units=[row // 3 for row in range(12)])
    assert curator.randomize(epsilon=1.0).certificate.law["repeats"] == ["3"]


@pytest.mark.parametrize(
    "given", [{}, {"randomizer": dp.RandomizedResponse(dp.Classes(["no", "yes"]), 1.0), "epsilon": 1.0}]
)
def test_a_randomizer_or_an_epsilon(given):
    """Neither and both are refused, and nothing is charged."""
    curator = dp.Curator(["no", "yes"] * 6, dp.Classes(["no", "yes"]))
    with pytest.raises(InputError, match="a randomizer or an epsilon"):
        curator.randomize(**given)
    assert curator.charges == ()


def test_a_curator_says_what_is_left(tmp_path):
    """Budget, charges and the rest of it, exactly, for a curator and for the next one of the same ledger."""
    space = dp.Classes(["no", "yes"])
    curator = dp.Curator(["no", "yes"] * 6, space, budget=0.3, ledger=tmp_path / "l", name="ill")
    assert (curator.budget, curator.remaining, curator.charges) == (dp.Budget(0.3), 0.3, ())
    for _ in range(2):
        curator.randomize(epsilon=0.1)
    assert curator.remaining == 0.1
    curator.randomize(epsilon=curator.remaining)
    assert curator.remaining == 0.0
    assert [charge.guarantee.epsilon for charge in curator.charges] == [0.1, 0.1, 0.1]
    again = dp.Curator(["no", "yes"] * 6, space, ledger=tmp_path / "l", name="ill")
    assert (again.budget, again.remaining) == (dp.Budget(0.3), 0.0)
    assert dp.Curator(["no", "yes"] * 6, space).remaining == float("inf")
