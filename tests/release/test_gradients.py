"""Noisy gradients through the curator: charged once, kept as they were told, and verified."""

import dataclasses
import os

import numpy as np
import pandas as pd
import pytest

import labeldp as dp
from labeldp._random_words import WatchedWords
from labeldp.errors import BudgetError, InputError, LedgerError, VerificationError

SPACE, GRID = dp.Classes(["no", "yes"]), dp.Interval(0.0, 2.0, 0.5)
LABELS, NUMBERS = ["no", "yes", "yes", "no"] * 25, [0.0, 1.5, 2.0, 0.5] * 25
LAWS = {"gaussian": 1e-6, "one bit": 0.0}


class Walk:
    """An asker whose vectors are about where it was told to go; it may stop by an error before it asks, or after."""

    def __init__(self, shape, *, stops=-1, deaf=-1):
        self.at, self.told, self.shape, self.stops, self.deaf = 0.0, [], shape, stops, deaf

    def ask(self, row):
        """One vector for each class, or one length."""
        if row == self.stops:
            raise KeyboardInterrupt
        return np.arange(1.0, np.prod(self.shape) + 1.0).reshape(self.shape) + np.tanh(self.at)

    def tell(self, row, vector):
        """What it is told moves it."""
        self.told.append(vector)
        self.at = float(vector[0])
        if row == self.deaf:
            raise RuntimeError("it stopped")


def gradients(delta=0.0, *, shape=(2,), epsilon=1.0, space=SPACE, rows=100, **more):
    """A query about some rows, with its asker."""
    walk = Walk(shape, **more)
    return dp.NoisyGradients(space, epsilon, delta, client=walk, rows=rows, dimension=shape[-1]), walk


@pytest.mark.parametrize("delta", LAWS.values(), ids=LAWS)
def test_every_label_is_used_once(delta):
    """The first request sets the budget; a second answer, or any other, is beyond it, and other rows are not."""
    curator = dp.Curator(LABELS, SPACE)
    query, walk = gradients(delta, rows=60)
    answer = curator.answer(query, slice(0, 60))
    assert (answer.guarantee.trust, answer.guarantee.delta, answer.rows) == ("local", delta, 60)
    assert curator.spent == (answer.guarantee.epsilon, delta)
    assert np.array_equal(answer.value, np.array(walk.told))
    for again in (query, gradients(delta, epsilon=0.01, rows=60)[0], dp.NoisyHistogram(SPACE, 0.1)):
        with pytest.raises(BudgetError, match="budget exceeded"):
            curator.answer(again, None if again.name == "noisy-histogram" else slice(0, 60))
    assert len(walk.told) == 60  # it was asked nothing, and told nothing more
    curator.answer(gradients(delta, rows=40)[0], slice(60, 100))
    assert curator.spent == (answer.guarantee.epsilon, delta)


class Forks(Walk):
    """An asker that forks when it is asked about a row, or once it was told of one, and waits for its child."""

    def __init__(self, shape, moment, row, ledger):
        super().__init__(shape)
        self.moment, self.row, self.ledger, self.child, self.status = moment, row, ledger, -1, -1

    def fork_at(self, moment, row):
        """The child goes on; the parent waits for it, and its ledger is then still locked."""
        if (moment, row) == (self.moment, self.row):
            self.child = os.fork()
            if self.child:
                self.status = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
                if self.ledger:
                    with pytest.raises(LedgerError, match="found another release in progress"):
                        dp.Ledger(self.ledger).settle()

    def ask(self, row):
        """Each process asks something else."""
        self.fork_at("ask", row)
        return super().ask(row) if self.child else -super().ask(row)

    def tell(self, row, vector):
        """As any."""
        super().tell(row, vector)
        self.fork_at("tell", row)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize(
    ("moment", "row", "told", "error"),
    [
        ("ask", 0, 0, RuntimeError),
        ("ask", 40, 40, RuntimeError),
        ("tell", 40, 41, RuntimeError),
        ("tell", 99, 100, LedgerError),
    ],
)
def test_a_child_of_the_asker_is_told_nothing_more(tmp_path, on_disk, moment, row, told, error):
    """It would hear of the same labels with the same noise; it is refused at its next row, and has no answer."""
    ledger = tmp_path / "ledger" if on_disk else None
    walk = Forks((2,), moment, row, ledger)
    curator = dp.Curator(LABELS, SPACE, ledger=ledger)
    try:
        answer = curator.answer(dp.NoisyGradients(SPACE, 1.0, client=walk, rows=100))
    except Exception as problem:
        if walk.child == 0 and type(problem) is error and len(walk.told) == told:
            os._exit(0)
        raise
    finally:
        if walk.child == 0:
            os._exit(1)
    assert walk.status == 0
    assert np.array_equal(answer.value, np.array(walk.told))
    assert [entry.state for entry in curator._ledger.entries()] == ["released"]


@pytest.mark.parametrize("delta", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize(("more", "error"), [({"stops": 40}, KeyboardInterrupt), ({"deaf": 0}, RuntimeError)])
def test_what_fails_half_way_stays_charged(delta, more, error):
    """Somebody was told of labels by then, so their budget is gone, though there is no answer."""
    curator = dp.Curator(LABELS, SPACE)
    query, walk = gradients(delta, **more)
    with pytest.raises(error):
        curator.answer(query)
    assert len(walk.told) >= 1
    assert curator.spent == (query.promise(1).epsilon, delta)
    with pytest.raises(BudgetError):
        curator.answer(gradients(delta)[0])


@pytest.mark.parametrize(("more", "error"), [({"stops": 0}, KeyboardInterrupt), ({"shape": (3, 2)}, InputError)])
def test_what_fails_before_the_first_draw_costs_nothing(more, error):
    """An asker that cannot ask, or that asks what does not fit, has been told nothing."""
    curator = dp.Curator(LABELS, SPACE)
    with pytest.raises(error):
        curator.answer(gradients(**more)[0])
    assert curator.spent == (0.0, 0.0)
    assert len(curator.answer(gradients()[0]).value) == 100


def test_any_request_that_fails_after_a_draw_stays_charged(monkeypatch):
    """A histogram and released labels too: once a word was taken, nobody can tell what was seen."""
    taken = 0

    def drawn_and_lost(*given):
        next(each for each in given if isinstance(each, WatchedWords)).block(0, taken)
        raise MemoryError

    monkeypatch.setattr("labeldp.release.curator._drawing.draw", drawn_and_lost)
    monkeypatch.setattr("labeldp.mechanisms.queries._histogram.discrete_laplace", drawn_and_lost)
    for taken, spent in ((0, 0.0), (1, 0.5)):  # noqa: B007 (it is how many words are taken)
        for ask, request in (
            (dp.Curator.randomize, dp.RandomizedResponse(SPACE, 0.5)),
            (dp.Curator.answer, dp.NoisyHistogram(SPACE, 0.5)),
        ):
            curator = dp.Curator(LABELS, SPACE, budget=1.0)
            with pytest.raises(MemoryError):
                ask(curator, request)
            assert curator.spent[0] == pytest.approx(spent, rel=1e-9)


def test_a_unit_of_several_rows_has_the_epsilon():
    """Their bits share it, and their Gaussian noise grows with the root of their number."""
    units, alone = np.arange(100) // 4, dp.Curator(LABELS, SPACE).answer(gradients(1e-6)[0])
    normal = dp.Curator(LABELS, SPACE, units=units).answer(gradients(1e-6)[0])
    assert normal.law["labels_of_a_unit"] == "4"
    assert normal.guarantee.unit == "unit"
    assert int(normal.law["deviation"]) == pytest.approx(2 * int(alone.law["deviation"]), rel=1e-6)
    bits = dp.Curator(LABELS, SPACE, units=units).answer(gradients()[0])
    each = np.log(2**64 / int(bits.law["least"]) - 1)
    assert 4 * each == pytest.approx(bits.guarantee.epsilon) == pytest.approx(1.0)


FORMS = {
    "by class": ({"shape": (2,)}, LABELS, ["ill_no", "ill_yes"]),
    "numbered": ({"shape": (2, 3)}, LABELS, ["ill_1", "ill_2", "ill_3"]),
    "numbers": ({"shape": (5, 1), "space": GRID}, NUMBERS, ["ill_1"]),
}


@pytest.mark.parametrize("delta", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("form", FORMS)
def test_an_answer_is_kept_and_verified(form, delta, tmp_path):
    """What is loaded is what was told, one line for each row, beside public columns if there are any."""
    settings, labels, names = FORMS[form]
    query, walk = gradients(delta, **settings)
    answer = dp.Curator(labels, query.space, name="ill").answer(query)
    table = pd.DataFrame({"age": np.arange(100), "ill_clusters": np.arange(100) % 2})
    for folder in (answer.save(tmp_path / "alone"), answer.save(tmp_path / "beside", table, keep="all")):
        again = dp.Answer.load(folder)
        assert np.array_equal(again.value, np.array(walk.told))
        assert (again.guarantee, again.law) == (answer.guarantee, answer.law)
        assert [name for name, _ in again.certificate.columns][-len(names) :] == names
        assert dp.verify(folder).holds
    (found,) = dp.combined_guarantee([tmp_path / "alone"])
    assert found.composition.epsilon_at(delta or 1e-9) <= answer.guarantee.epsilon * (1 + 1e-9)
    with pytest.raises(InputError, match="NoisyHistogram, found the answer to noisy-gradients"):
        answer.distributions()
    with pytest.raises(InputError, match="found that to noisy-gradients"):
        _ = answer.standard_error


LESS = {
    "gaussian": [{"deviation": 2}, {"labels_of_a_unit": 2}, {"sensitivity_squared": 0.25}, {"dimension": 1.5}],
    "one bit": [{"least": 1.1}, {"labels_of_a_unit": 2}, {"parts": 0.5}, {"dimension": 1.5}],
}


@pytest.mark.parametrize(("law", "parts"), [(law, parts) for law in LAWS for parts in LESS[law]])
def test_forged_laws_are_refused(law, parts, tmp_path):
    """A certificate with other integers and the same promise, which none of them gives."""
    answer = dp.Curator(LABELS, SPACE, name="ill").answer(gradients(LAWS[law])[0])
    (draw,) = answer.certificate.draws
    forged = {**draw.law, **{part: str(int(int(draw.law[part]) * factor)) for part, factor in parts.items()}}
    claimed = dataclasses.replace(answer.certificate, draws=(dataclasses.replace(draw, law=forged),))
    try:
        folder = dataclasses.replace(answer, certificate=claimed).save(tmp_path / "forged")
    except ValueError:  # no columns for so many entries
        assert "dimension" in parts
        return
    assert not dp.verify(folder).holds
    with pytest.raises(VerificationError):
        dp.Answer.load(folder)


@pytest.mark.parametrize("fewer", [1, 3])
def test_a_told_entry_is_not_passed_off_as_public(fewer, tmp_path):
    """A certificate of fewer entries than were told is refused, and so is a public column of the name of one."""
    answer = dp.Curator(LABELS, SPACE, name="ill").answer(gradients(shape=(2, 4))[0])
    more = pd.DataFrame({"age": np.arange(100), "ill_5": np.zeros(100)})
    with pytest.raises(InputError, match="found 'ill_5'"):
        answer.save(tmp_path / "more", more, keep="all")
    folder = answer.save(tmp_path / "told", more[["age"]], keep="all")
    file = folder / "_certificate.json"
    assert '"dimension": "4"' in file.read_text()
    file.write_text(file.read_text().replace('"dimension": "4"', f'"dimension": "{fewer}"'))
    assert "expected no public column with the name of an entry, found 'ill_" in dp.verify(folder).checks[-1].found


def test_the_promise_of_another_trust_is_refused(tmp_path):
    """A certificate that says who saw labels says it as the law has it, and names what was assumed."""
    answer = dp.Curator(LABELS, SPACE).answer(gradients()[0])
    (draw,) = answer.certificate.draws
    for number, wrong in enumerate([{"trust": "central"}, {"assumptions": ()}]):
        guarantee = dataclasses.replace(draw.guarantee, **wrong)
        claimed = dataclasses.replace(answer.certificate, draws=(dataclasses.replace(draw, guarantee=guarantee),))
        assert not dp.verify(dataclasses.replace(answer, certificate=claimed).save(tmp_path / str(number))).holds
