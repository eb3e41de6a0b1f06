"""Tables whose labels are asked for by a function: one charge, one release, all or nothing."""

import csv
import os
import signal

import numpy as np
import pyarrow.parquet as pq
import pytest

import labeldp as dp
import labeldp.release.jobs._job as job_module
from labeldp.errors import BudgetError, InputError, LabelDPError, OutputError, TableError
from labeldp.release import release_with

SPACE = dp.Classes(["zq-a", "zq-b", "zq-c"])
ROWS = 60


@pytest.fixture
def table(tmp_path):
    """Sixty rows: a number, a flag, a town, and the label, by which nothing else goes."""
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["id", "flag", "town", "y"])
        lines.writerows([i, i % 3 == 0, ["north", "south"][i % 2], f"zq-{'abc'[i * 7 % 3]}"] for i in range(ROWS))
    return path


def once(_, curator):
    """One request for all rows."""
    return curator.randomize(dp.RandomizedResponse(SPACE, 1.0))


def in_stages(_, curator):
    """Two requests, each for some of the rows."""
    parts = dp.public_split(len(curator), [1, 2])
    even = np.full((ROWS, 3), 1 / 3)
    return dp.concatenate([(rows, curator.randomize(dp.PriorResponse(SPACE, 1.0, even[rows]), rows)) for rows in parts])


def states(tmp_path):
    """What became of each charge, and its epsilon."""
    ledger = tmp_path / "t.csv.labeldp-ledger"
    return [(entry.state, entry.guarantee.epsilon) for entry in dp.Ledger(ledger).entries()] if ledger.exists() else []


@pytest.mark.parametrize("ask", [once, in_stages])
def test_what_is_asked_for_becomes_one_release_and_one_charge(table, tmp_path, ask):
    """The folder verifies, opens and accounts as one of ``release_table`` does; the whole is charged once."""
    done = release_with(table, "y", SPACE, 1.0, tmp_path / "out", ask, keep=["town", "id"])
    assert dp.verify(done.output).holds
    assert states(tmp_path) == [("released", 1.0)]
    assert done.spent == (1.0, 0.0)
    release = dp.Release.load(done.output)
    assert release.certificate == done.certificate
    assert len(release) == ROWS
    assert dp.combined_guarantee([done.output])[0].composition.epsilon <= 1.0
    assert {"the type in which the table stores its label column is public"} <= set(done.certificate.assumptions)


def test_kept_columns_are_those_that_a_release_writes(table, tmp_path):
    """In the same order, of the same types and with the same values, and without the label."""
    given = {"keep": ["town", "flag", "id"]}
    one = release_with(table, "y", SPACE, 1.0, tmp_path / "one", once, **given)
    two = dp.release_table(
        table, "y", SPACE, 1.0, tmp_path / "two", mechanism="randomized-response", budget=2.0, **given
    )
    found, wanted = (pq.read_table(each.output / "data.parquet") for each in (one, two))
    assert found.schema == wanted.schema
    assert found.column_names == ["id", "flag", "town", "y_released"]
    assert found.drop_columns(["y_released"]) == wanted.drop_columns(["y_released"])


def test_the_function_is_given_public_columns_and_true_labels_only_through_the_curator(table, tmp_path):
    """Kept columns in their types; at a large epsilon what is drawn is the label of the same row."""
    seen = []

    def ask(columns, curator):
        seen.append(columns)
        return curator.randomize(dp.RandomizedResponse(SPACE, 30.0))

    done = release_with(table, "y", SPACE, 30.0, tmp_path / "out", ask, drop=["town"])
    assert seen[0].column_names == ["id", "flag"]
    assert seen[0]["id"].to_pylist() == list(range(ROWS))
    released = pq.read_table(done.output / "data.parquet")["y_released"].to_pylist()
    assert released == [f"zq-{'abc'[i * 7 % 3]}" for i in range(ROWS)]


def test_no_more_than_epsilon_is_drawn(table, tmp_path):
    """The curator refuses a second request for the same rows; the first was made, so the charge stays."""

    def ask(columns, curator):
        once(columns, curator)
        return once(columns, curator)

    with pytest.raises(InputError, match=r"budget.*the charge stays"):
        release_with(table, "y", SPACE, 1.0, tmp_path / "out", ask, keep=[])
    assert states(tmp_path) == [("drawn", 1.0)]
    assert not (tmp_path / "out").exists()
    assert list(tmp_path.glob(".out*")) == []
    with pytest.raises(BudgetError):
        release_with(table, "y", SPACE, 1.0, tmp_path / "out", once, keep=[])
    assert release_with(table, "y", SPACE, 1.0, tmp_path / "out", once, keep=[], budget=2.0).spent == (2.0, 0.0)


@pytest.mark.parametrize("problem", [ZeroDivisionError("zq-a"), InputError("expected, found"), OutputError("x")])
def test_a_failure_after_a_draw_may_depend_on_it_and_is_paid_for(table, tmp_path, problem):
    """The charge stays, nothing is written, and of an error that nobody foresaw the text is not shown."""

    def ask(columns, curator):
        once(columns, curator)
        raise problem

    with pytest.raises(InputError, match="the charge stays") as caught:
        release_with(table, "y", SPACE, 1.0, tmp_path / "out", ask, keep=[])
    assert "zq-" not in str(caught.value)
    assert states(tmp_path) == [("drawn", 1.0)]
    assert [path.name for path in tmp_path.glob("*out*")] == []
    dp.Ledger(tmp_path / "t.csv.labeldp-ledger").settle()
    assert states(tmp_path) == [("drawn", 1.0)]


class Listener:
    """An asker that may lose who it asks for, once it was told of a row."""

    def __init__(self, problem=None):
        self.problem, self.told = problem, 0

    def ask(self, _):
        """A number for each class."""
        return np.arange(3.0)[:, None]

    def tell(self, *_):
        """It hears, and then its connection breaks."""
        self.told += 1
        if self.problem and self.told == 31:
            raise self.problem


STOPS = [KeyboardInterrupt(), SystemExit(), OSError(28, "No space left"), ConnectionResetError(), MemoryError()]


@pytest.mark.parametrize("problem", STOPS, ids=lambda problem: type(problem).__name__)
@pytest.mark.parametrize("when", ["while it is told", "after a draw", "while it is written"])
def test_what_was_drawn_is_paid_for_whatever_stops_it(table, tmp_path, monkeypatch, problem, when):
    """Ctrl-C, a full disk and a broken connection too: somebody was told, and would be told again for nothing."""
    listener = Listener(problem if when == "while it is told" else None)

    def stop(*_, **__):
        raise problem

    def ask(_, curator):
        gradients = dp.NoisyGradients(SPACE, 0.5, client=listener, rows=ROWS, dimension=1)
        answer = curator.answer(gradients)
        if when == "after a draw":
            stop()
        return dp.concatenate([(slice(None), curator.randomize(dp.RandomizedResponse(SPACE, 0.5)))], answers=[answer])

    if when == "while it is written":
        monkeypatch.setattr("labeldp.release.jobs._protocol.FolderSink", stop)
    with pytest.raises(type(problem)):
        release_with(table, "y", SPACE, 1.0, tmp_path / "out", ask, keep=[])
    assert listener.told > 30
    assert states(tmp_path) == [("drawn", 1.0)]
    assert list(tmp_path.glob("*out*")) + list(tmp_path.glob(".out*")) == []
    dp.Ledger(tmp_path / "t.csv.labeldp-ledger").settle()
    assert states(tmp_path) == [("drawn", 1.0)]
    with pytest.raises(BudgetError):
        release_with(table, "y", SPACE, 1.0, tmp_path / "out", once, keep=[])


@pytest.mark.parametrize(
    "problem", [*STOPS, InputError("expected more, found less")], ids=lambda problem: type(problem).__name__
)
def test_what_the_machine_or_the_user_stops_before_a_draw_costs_nothing(table, tmp_path, problem):
    """Nothing left, so the charge is void."""

    def ask(*_):
        raise problem

    with pytest.raises(type(problem)) as caught:
        release_with(table, "y", SPACE, 1.0, tmp_path / "out", ask, keep=[])
    assert str(caught.value) == str(problem)
    assert states(tmp_path) == [("void", 1.0)]
    assert list(tmp_path.glob("*out*")) + list(tmp_path.glob(".out*")) == []
    assert release_with(table, "y", SPACE, 1.0, tmp_path / "out", once, keep=[]).spent == (1.0, 0.0)


def test_what_was_killed_after_a_draw_stays_charged(table, tmp_path, in_child):
    """A run that is killed after a draw has told labels to its client; its staging folder goes, its charge stays."""

    def ask(_, curator):
        curator.randomize(dp.RandomizedResponse(SPACE, 1.0))
        os._exit(9)

    assert in_child(lambda: release_with(table, "y", SPACE, 1.0, tmp_path / "out", ask, keep=[])) == 9
    assert states(tmp_path) == [("drawn", 1.0)]
    assert len(list(tmp_path.glob(".out*"))) == 1
    with pytest.raises(BudgetError):
        release_with(table, "y", SPACE, 1.0, tmp_path / "out", once, keep=[])
    assert release_with(table, "y", SPACE, 1.0, tmp_path / "out", once, keep=[], budget=2.0).spent == (2.0, 0.0)
    assert states(tmp_path) == [("drawn", 1.0), ("released", 1.0)]
    assert list(tmp_path.glob(".out*")) == []


@pytest.mark.parametrize("moment", ["when all is written", "when it stands"])
def test_killed_at_the_end_a_release_is_charged_for_if_it_left(table, tmp_path, moment, in_child):
    """Without a chance to clean up: what was drawn is charged for, whether it stands or left nothing at all."""

    def dying(*given, finish=job_module.finish):
        if moment == "when it stands":
            finish(*given)
        os.kill(os.getpid(), signal.SIGKILL)

    def killed():
        job_module.finish = dying
        release_with(table, "y", SPACE, 1.0, tmp_path / "out", once, keep=["id"])

    assert in_child(killed) == -signal.SIGKILL
    assert states(tmp_path) == [("drawn", 1.0)]
    dp.Ledger(tmp_path / "t.csv.labeldp-ledger").settle()
    stands = moment == "when it stands"
    assert states(tmp_path) == [("released" if stands else "drawn", 1.0)]
    assert list(tmp_path.glob(".out*")) == []
    assert (tmp_path / "out").exists() == stands
    if stands:
        assert dp.verify(tmp_path / "out").holds
    with pytest.raises(BudgetError):
        release_with(table, "y", SPACE, 1.0, tmp_path / "again", once, keep=["id"])


@pytest.mark.parametrize(
    "ask",
    [
        lambda *_: dp.Curator(["zq-a"] * ROWS, SPACE, name="y").randomize(dp.RandomizedResponse(SPACE, 1.0)),
        lambda *_: dp.Release.public(["zq-a"] * ROWS, SPACE),
        lambda columns, curator: once(columns, curator)[:-1],
        lambda columns, curator: once(columns, curator)[::-1],
        lambda _, curator: curator.randomize(dp.RandomizedResponse(SPACE, 1.0), slice(1, None)),
    ],
    ids=["another curator's", "public", "a part", "turned round", "some rows"],
)
def test_what_is_no_release_of_all_rows_is_not_written(table, tmp_path, ask):
    """Labels of another curator, public ones, or a part of the rows."""
    with pytest.raises(InputError, match="expected"):
        release_with(table, "y", SPACE, 1.0, tmp_path / "out", ask, keep=[])
    assert not (tmp_path / "out").exists()


def posterior_of_a_draw(curator):
    """A release whose prior is what an earlier one of the same rows says, and the charge of which it names alone."""
    first = curator.randomize(dp.RandomizedResponse(SPACE, 0.5)).likelihood()
    return curator.randomize(dp.PriorResponse(SPACE, 0.5, first / first.sum(axis=1, keepdims=True)))


def prior_of_an_answer(curator):
    """A histogram, and a release whose prior it is."""
    counts = curator.answer(dp.NoisyHistogram(SPACE, 0.5))
    return counts, curator.randomize(dp.PriorResponse(SPACE, 0.5, np.tile(counts.distributions()[:1], (ROWS, 1))))


@pytest.mark.parametrize(
    "ask", [lambda _, curator: posterior_of_a_draw(curator), lambda _, curator: prior_of_an_answer(curator)[1]]
)
def test_a_certificate_of_less_than_what_was_asked_is_not_written(table, tmp_path, ask):
    """Epsilon 1 was spent, and a certificate that says a half would hide what the law was made from."""
    with pytest.raises(InputError, match=r"with all charges in its certificate.*the charge stays"):
        release_with(table, "y", SPACE, 1.0, tmp_path / "out", ask, keep=[])
    assert not (tmp_path / "out").exists()
    assert states(tmp_path) == [("drawn", 1.0)]


def test_an_answer_that_is_named_is_counted(table, tmp_path):
    """The certificate has both charges, and verifies."""

    def ask(_, curator):
        counts, release = prior_of_an_answer(curator)
        return dp.concatenate([(slice(None), release)], answers=[counts])

    done = release_with(table, "y", SPACE, 1.0, tmp_path / "out", ask, keep=[])
    assert done.certificate.guarantee.epsilon == 1.0
    assert dp.verify(done.output).holds


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"keep": None}, InputError),
        ({"keep": ["y"]}, InputError),
        ({"keep": ["none"]}, InputError),
        ({"label": "z"}, TableError),
        ({"epsilon": -1.0}, InputError),
        ({"space": dp.Classes(["zq-a", "zq-b"])}, InputError),
        ({"space": dp.Classes(["", "zq-b"])}, InputError),
        ({"budget": 0.5}, BudgetError),
        ({"output": "t.csv"}, OutputError),
        ({"output": "none/out"}, OutputError),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_asked(table, tmp_path, change, error):
    """In words without a label, and nothing is charged."""
    given = {"label": "y", "space": SPACE, "epsilon": 1.0, "keep": ["id"], "output": "out", "budget": None} | change
    place = tmp_path / given.pop("output")

    def ask(*_):
        raise AssertionError

    with pytest.raises(error) as caught:
        release_with(table, given.pop("label"), given.pop("space"), given.pop("epsilon"), place, ask, **given)
    assert isinstance(caught.value, LabelDPError)
    assert "zq-" not in str(caught.value)
    assert states(tmp_path) == []


def test_a_kept_column_of_a_released_columns_name_is_refused_first(tmp_path):
    """Before labels are drawn for nothing."""
    (tmp_path / "t.csv").write_text("y_candidates,y\n1,zq-a\n2,zq-b\n")
    with pytest.raises(InputError, match="no column named 'y_candidates'"):
        release_with(tmp_path / "t.csv", "y", SPACE, 1.0, tmp_path / "out", once, keep=["y_candidates"])
    assert states(tmp_path) == []


def test_the_same_table_is_known_again(table, tmp_path):
    """What was released by one function is charged where the other is used, also for a copy."""
    dp.release_table(table, "y", SPACE, 1.0, tmp_path / "one", keep=["id"])
    (tmp_path / "copy.csv").write_bytes(table.read_bytes())
    with pytest.raises(BudgetError):
        release_with(tmp_path / "copy.csv", "y", SPACE, 1.0, tmp_path / "two", once, keep=[])
    release_with(tmp_path / "copy.csv", "y", SPACE, 1.0, tmp_path / "two", once, keep=[], budget=2.0)
    with pytest.raises(BudgetError):
        dp.release_table(table, "y", SPACE, 1.0, tmp_path / "three", keep=["id"])


def test_a_table_that_changes_meanwhile_is_refused(table, tmp_path):
    """What was checked is what is released."""

    def ask(columns, curator):
        table.write_text(table.read_text().replace("north", "west"))
        return once(columns, curator)

    with pytest.raises(TableError, match=r"does not change during the release, found .* changed"):
        release_with(table, "y", SPACE, 1.0, tmp_path / "out", ask, keep=["town"])
    assert states(tmp_path) == [("drawn", 1.0)]  # it was drawn by then


def test_many_rows_are_written_in_pieces(table, tmp_path, monkeypatch):
    """The file holds all rows in order, however many are written at a time."""
    monkeypatch.setattr("labeldp.release.jobs._job._ROWS_PER_BATCH", 7)
    done = release_with(table, "y", SPACE, 30.0, tmp_path / "out", once_surely, keep=["id"])
    assert dp.verify(done.output).holds
    found = pq.read_table(done.output / "data.parquet")
    assert found["id"].to_pylist() == list(range(ROWS))
    assert found["y_released"].to_pylist() == [f"zq-{'abc'[i * 7 % 3]}" for i in range(ROWS)]


def once_surely(_, curator):
    """One request, whose answers are all but the labels."""
    return curator.randomize(dp.RandomizedResponse(SPACE, 30.0))


def test_a_curator_that_was_kept_draws_nothing_more(table, tmp_path):
    """When the release is over, done or failed, its curator refuses every request: nobody would charge for it."""
    kept = []

    def fails(_, curator):
        kept.append(curator)
        raise ValueError("stop")

    def succeeds(_, curator):
        kept.append(curator)
        return curator.randomize(dp.RandomizedResponse(SPACE, 0.5))

    with pytest.raises(ValueError, match="stop"):
        release_with(table, "y", SPACE, 1.0, tmp_path / "out", fails, keep=[])
    release_with(table, "y", SPACE, 1.0, tmp_path / "out", succeeds, keep=[])
    for curator in kept:
        with pytest.raises(InputError, match="while the release of the table is in progress"):
            curator.randomize(dp.RandomizedResponse(SPACE, 1e-3))
        with pytest.raises(InputError, match="while the release of the table is in progress"):
            curator.answer(dp.NoisyHistogram(SPACE, 1e-3))
    assert kept[0].spent == (0.0, 0.0)
    assert states(tmp_path) == [("void", 1.0), ("released", 1.0)]


def test_an_unregistered_randomizer_leaves_a_table_uncharged(table, tmp_path):
    """A table is not charged for a class that no certificate could name."""

    class Homemade(dp.RandomizedResponse):
        """A randomizer that no distribution registers."""

        name = "homemade"

    with pytest.raises(InputError, match="registered randomizer, found Homemade"):
        dp.release_table(table, "y", SPACE, 1.0, tmp_path / "out", keep=[], mechanism=dp.RandomizerMechanism(Homemade))
    assert not (tmp_path / "t.csv.labeldp-ledger").exists()
