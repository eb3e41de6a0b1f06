"""Table mechanisms: what each declares decides what is refused, and an object of anyone's class is released."""

import inspect
import sys
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as dp
from labeldp.cli import main
from labeldp.errors import InputError
from labeldp.privacy.channels import channel_of
from labeldp.release import answer_request, mechanism_of, option, table_mechanisms, table_options
from labeldp.results import shown_release

KNOWN = table_mechanisms()
NUMBERS, CLASSES = dp.Interval(0.0, 10.0, 0.5), dp.Classes(["no", "yes"])
#: A value of each option.
OPTIONS = {
    "prior": "p_",
    "floor": 0.1,
    "clusters": "family",
    "delta": 1e-6,
    "level": 0.5,
    "generator": object(),
    "replaced": 0.5,
    "divergences": {2.0: 0.1},
    "population": "people",
}


@dataclass(frozen=True, eq=False)
class MeanMechanism(dp.TableMechanism):
    """The mean of all labels, clipped: a mechanism of another author."""

    clip: tuple[float, float] | None = option("--clip", hint="two grid points")

    name: ClassVar[str] = "mean"
    about: ClassVar[str] = "Mean of all labels; no rows"
    numeric: ClassVar[bool] = True
    rows: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("clip",)

    def check(self, space, epsilon):
        """The query."""
        return dp.NoisyMean(space, epsilon, clip=self.clip)

    def on(self, table):
        """Its request."""
        return answer_request(table.made, table, np.zeros(1))


@pytest.fixture
def source(tmp_path):
    """A table of families with numeric labels and classes."""
    columns = {"x": np.arange(400), "family": np.arange(400) // 40, "number": np.full(400, 4.0)}
    columns |= {"ill": ["no", "yes"] * 200, "p_no": np.full(400, 0.5), "p_yes": np.full(400, 0.5)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def released(source, mechanism, label="ill", space=CLASSES, epsilon=1.0, **options):
    """A release of the table, each row a unit."""
    given = {"keep": ["x"], "unit": "row", "mechanism": mechanism, **options}
    return dp.release_table(source, label, space, epsilon, source.parent / "out", **given)


def test_an_object_of_anyones_class_is_released(source):
    """It is charged, written, verified and read back, though nobody registered it."""
    done = released(source, MeanMechanism((2.0, 6.0)), "number", NUMBERS, 50.0, keep=[])
    assert dp.verify(done.output).holds
    assert dp.Answer.load(done.output).value[0] == pytest.approx(4.0, abs=0.1)  # ten times the noise and more
    (charge,) = dp.Ledger(done.ledger).entries()
    assert (charge.mechanism, charge.state, charge.asked) == ("noisy-mean", "released", 50.0)


def test_one_of_another_distribution_has_its_name_and_no_other(monkeypatch):
    """It is found by its entry point, and does not stand in for the default."""
    impostor = type("Impostor", (MeanMechanism,), {"name": "auto"})
    found = (("acme", MeanMechanism), ("acme", impostor))
    monkeypatch.setattr("labeldp.privacy._kinds._foreign_classes", lambda _: found)
    known = table_mechanisms()
    assert (set(known), type(known["mean"])) == ({*KNOWN, "mean"}, MeanMechanism)
    assert type(known["auto"]) is type(KNOWN["auto"])


@pytest.mark.parametrize("taken", ["auto", "peer", "noisy-mean"])
def test_a_randomizer_of_another_distribution_takes_no_name_of_ours(monkeypatch, taken):
    """The name of a mechanism of ours means that mechanism, and that of a query means an answer."""
    impostor = type("Impostor", (dp.RandomizedResponse,), {"name": taken})
    monkeypatch.setattr("labeldp.privacy._kinds._foreign_classes", lambda _: (("acme", impostor),))
    kinds = (
        {name: (type(each), getattr(each, "randomizer", None)) for name, each in known.items()}
        for known in (table_mechanisms(), KNOWN)
    )
    assert next(kinds) == next(kinds)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "mean needs --clip, found none; pass two grid points"),
        ({"clip": (2.0, 6.0), "label": "ill", "space": CLASSES}, "numeric label .* for 'mean', found declared classes"),
        ({"clip": (2.0, 6.0), "unit": "family"}, "with --unit, found 'mean'"),
        ({"clip": (2.0, 6.0), "keep": ["x"]}, "no kept columns with 'mean'"),
    ],
)
def test_what_it_declares_decides_what_is_refused(source, given, message):
    """Its own code has no refusal; nothing is charged or written."""
    options = {"label": "number", "space": NUMBERS, "keep": [], **given}
    with pytest.raises(InputError, match=message):
        released(source, MeanMechanism(options.pop("clip", None)), **options)
    assert [path.name for path in source.parent.iterdir()] == [source.name]


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("passed", OPTIONS)
def test_an_option_goes_with_the_mechanisms_that_declare_it(passed):
    """With any other it is refused, and the message names those that have it."""
    takers = [name for name, each in KNOWN.items() if passed in each.options()]
    for name in KNOWN.keys() - takers:
        message = f"^--{passed[:8]}.* goes with {' and '.join(takers)} alone, found it with '{name}'; "
        with pytest.raises(InputError, match=message):
            mechanism_of(name, **{passed: OPTIONS[passed]})
    assert set(takers) < set(KNOWN)


@pytest.mark.parametrize("name", [name for name, each in KNOWN.items() if each.needs])
def test_an_option_that_is_needed_is_asked_for(source, name):
    """The message names the option and an example of it."""
    options = {each: OPTIONS[each] for each in KNOWN[name].needs}
    for missing in KNOWN[name].needs:
        with pytest.raises(InputError, match=f"^{name} needs --{missing}, found none; pass .*--{missing} "):
            released(source, mechanism_of(name, **{**options, missing: None}))


@pytest.mark.parametrize("name", KNOWN)
def test_what_a_mechanism_takes_is_what_it_declares(source, name):
    """Classes are refused by what takes numbers alone, and people by what moves several labels at once."""
    options = {each: OPTIONS[each] for each in KNOWN[name].needs if each != "generator"}
    if KNOWN[name].numeric:
        with pytest.raises(InputError, match=f"numeric label .* for '{name}', found declared classes"):
            released(source, mechanism_of(name, **options))
    if not KNOWN[name].by_unit and name != "double":
        declared = ("number", NUMBERS) if KNOWN[name].numeric else ("ill", CLASSES)
        with pytest.raises(InputError, match=f"randomizes each label alone with --unit, found '{name}'"):
            released(source, mechanism_of(name, **options), *declared, unit="family")
    assert [path.name for path in source.parent.iterdir()] == [source.name]


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("unknown", ["cluter", MeanMechanism, None])
def test_what_is_no_mechanism_is_refused(source, unknown):
    """Neither a class nor an unknown name is one."""
    with pytest.raises(InputError, match="expected the name of a mechanism, found"):
        released(source, unknown)


def test_a_name_with_its_options_is_the_object(source):
    """Both spell one mechanism, and every mechanism declares a default for each field."""
    assert all(type(each)() is not None for each in KNOWN.values())
    assert table_options().keys() == OPTIONS.keys()
    named, made = mechanism_of("cluster", clusters="family"), dp.ClusterMechanism("family")
    assert (type(named), vars(named)) == (type(made), vars(made))
    draws = released(source, made).certificate.draws
    assert [draw.mechanism for draw in draws] == ["noisy-histogram", "cluster"]


def test_epsilon_is_checked_and_a_channel_built_a_few_times(tmp_path, monkeypatch):
    """From the option to the certificate and the screen, for the sample table with units of one to four rows.

    Epsilon: the request's, two randomizers to choose from, that of units and its shares for two, three and four rows,
    and two budgets of what the channel costs. A channel is read from its law once, where it is proved to follow, with
    the channels of four sizes of units.
    """
    monkeypatch.chdir(tmp_path)
    main(["demo"])
    calls = Counter()

    def count(frame, event, _):
        if event == "call":
            calls[frame.f_code] += 1

    classes = dp.Classes(["none", "heart disease"])
    sys.setprofile(count)
    try:
        done = dp.release_table(
            "patients.csv", "diagnosis", classes, 1.0, "out", keep=["age", "sex"], unit="patient_id"
        )
        shown_release(done)
    finally:
        sys.setprofile(None)
    counted = {each.__name__: calls[inspect.unwrap(each).__code__] for each in (dp._checks.epsilon, channel_of)}
    assert (counted["epsilon"] <= 9, counted["channel_of"]) == (True, 5)
