"""Generators of tables: what they learn from, what they draw, the floors of their laws, and their files."""

import json
import math
import os
import zipfile

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from labeldp import Classes, Curator, Form, RandomizedResponse, Release
from labeldp.errors import InputError, NotTrueLabelsError, OutputError, RowsError
from labeldp.learning.files._arrays import read_arrays, write_arrays
from labeldp.learning.generators import fit_cells, fit_copula, open_generator
from labeldp.mechanisms.resampling import ColumnForm

SPACE = Classes(["no", "yes"])
ROWS = 2400
ALARM = 1e-9
FITS = {"copula": fit_copula}


def people(rows=ROWS, seed=0):
    """Rows of two classes whose numbers, texts and gaps depend on one another, and their labels."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, rows)
    age = np.round(rng.normal(40 + 15 * codes, 8), 1)
    wage = np.where(rng.random(rows) < 0.4, 0.0, np.round(np.exp(rng.normal(3 + codes, 0.4)) + age, 2))
    town = np.where(age + rng.normal(0, 5, rows) > 48, "Ulm", np.where(rng.random(rows) < 0.3, "Kiel", "Bonn"))
    visits = rng.poisson(30, rows)
    weight = np.where(rng.random(rows) < 0.2 + 0.3 * codes, np.nan, np.round(rng.normal(70, 9, rows), 1))
    smokes = rng.random(rows) < 0.2 + 0.5 * codes
    columns = {"age": age, "wage": wage, "town": town, "visits": visits, "weight": weight, "smokes": smokes}
    return pd.DataFrame(columns), codes


def public(codes):
    """Labels that are declared public."""
    return Release.public(np.array(SPACE.points)[codes], SPACE)


def paid(codes, epsilon=1.0):
    """Labels that were released under a guarantee."""
    return Curator(list(np.array(SPACE.points)[codes]), SPACE).randomize(RandomizedResponse(SPACE, epsilon))


@pytest.fixture(scope="module", params=FITS)
def fitted(request):
    """A generator of each kind, of public rows."""
    rows, codes = people()
    return FITS[request.param](rows, public(codes), "made up", "public")


def test_each_class_has_its_own_law(fitted):
    """Of each class, means, shares of texts and of gaps are near those of the public rows.

    What is drawn has standard errors of 0.007 deviations and of 0.0036: the bounds are ten and more of them.
    """
    rows, codes = people()
    drawn = fitted.generator().sample(np.repeat([0, 1], 20_000)).to_pandas()
    for code in (0, 1):
        real, made = rows[codes == code], drawn[20_000 * code : 20_000 * (code + 1)]
        for name in ("age", "visits", "weight"):
            assert abs(made[name].mean() - real[name].mean()) < 0.12 * real[name].std()
        for share in (
            lambda table: table["weight"].isna(),
            lambda table: table["town"] == "Ulm",
            lambda table: table["smokes"],
        ):
            assert abs(share(made).mean() - share(real).mean()) < 0.05
    assert set(drawn["town"]) == {"Ulm", "Kiel", "Bonn"}


def test_a_copula_keeps_what_goes_together():
    """Within a class, the texts still go with the numbers that they follow from, at least half as much."""
    rows, codes = people()
    drawn = fit_copula(rows, public(codes), "made up").generator().sample(np.zeros(20_000, dtype=int)).to_pandas()
    real, made = (
        table.loc[table["town"] == "Ulm", "age"].mean() - table.loc[table["town"] != "Ulm", "age"].mean()
        for table in (rows[codes == 0], drawn)
    )
    assert made > 0.5 * real > 5


def test_a_copula_keeps_what_occurs_often():
    """A number that two fifths of a class have stays as frequent, and others lie between public ones."""
    rows, codes = people()
    drawn = fit_copula(rows, public(codes), "made up").generator().sample(np.ones(20_000, dtype=int)).to_pandas()
    real = rows[codes == 1]
    assert abs((drawn["wage"] == 0).mean() - (real["wage"] == 0).mean()) < 0.03
    assert not set(drawn["wage"]) <= set(rows["wage"])


@pytest.mark.parametrize("fit", [*FITS.values(), fit_cells])
def test_two_calls_and_a_fork_differ(fit):
    """No two calls draw the same, nor does a forked child repeat its parent: there is no seed."""
    rows, codes = people(400)
    generator = fit(
        rows[["town", "smokes"] if fit is fit_cells else ["town", "age"]], public(codes), "made up"
    ).generator()

    def drawn():
        return repr(generator.sample(np.zeros(500, dtype=int)).to_pydict()).encode()[:16_000]

    first = drawn()
    assert first != drawn()
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.write(writes, drawn())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        child = pipe.read()
    os.wait()
    assert len(child) > 1000
    assert child not in (first, drawn())


def test_cells_are_drawn_with_the_stated_probabilities():
    """Each cell is as frequent as its integers say; a sound one fails once in 1e9 runs (binomial, over all cells)."""
    rows, codes = people(300)
    fitted = fit_cells(rows[["town", "smokes"]], public(codes), "made up", smoothing=0.1)
    assert all(sum(words) == 1 << 63 for words in fitted.law.weights.tolist())
    table = fitted.cells().to_pylist()
    assert len({tuple(row.values()) for row in table}) == len(table) == 6
    draws = 20_000
    for code in (0, 1):
        drawn = fitted.generator().sample(np.full(draws, code)).to_pylist()
        counts = np.array([drawn.count(cell) for cell in table])
        level = ALARM / (2 * 2 * 6)
        assert counts.sum() == draws
        assert (binom.cdf(counts, draws, fitted.density[code]) > level).all()
        assert (binom.sf(counts - 1, draws, fitted.density[code]) > level).all()


def test_cells_are_smoothed_frequencies():
    """The density is the class's frequencies, mixed with all cells alike, and the floor is the least of its mean."""
    rows = pd.DataFrame({"town": ["Ulm", "Ulm", "Bonn", "Ulm"], "smokes": [True, False, True, True]})
    fitted = fit_cells(rows, Release.public(["no", "no", "yes", "no"], SPACE), "made up", "public", smoothing=0.25)
    wanted = {("Bonn", False): (0, 0), ("Bonn", True): (0, 1), ("Ulm", False): (1 / 3, 0), ("Ulm", True): (2 / 3, 0)}
    for place, cell in enumerate(fitted.cells().to_pylist()):
        frequencies = np.array(wanted[tuple(cell.values())])
        np.testing.assert_allclose(fitted.density[:, place], 0.75 * frequencies + 0.25 / 4, rtol=1e-14)
    least = math.log(0.25 / 4)
    assert least - 1e-8 < fitted.log_floor <= least
    labels = Release.public(["no", "no", "yes", "no"], SPACE)
    assert fit_cells(rows, labels, "made up", "public", smoothing=0.0).log_floor is None


def exact_divergence(law, mean, alpha):
    """The Rényi divergence in high precision."""
    with mpmath.workdps(50):
        pairs = [(mpmath.mpf(p), mpmath.mpf(q)) for p, q in zip(law, mean, strict=True) if p > 0]
        if math.isinf(alpha):
            return mpmath.log(max(p / q for p, q in pairs))
        return mpmath.log(mpmath.fsum(p**alpha * q ** (1 - alpha) for p, q in pairs)) / (alpha - 1)


@pytest.mark.parametrize("alpha", [1.0001, 1.5, 2.0, 30.0, math.inf])
def test_the_bound_of_the_divergence_is_above_it_and_close(alpha):
    """It is never below the divergence in high precision, exceeds it by at most 1e-7, and no law exceeds the floor."""
    rows, codes = people(300)
    fitted = fit_cells(rows[["town", "smokes"]], public(codes), "made up", smoothing=0.05)
    rng = np.random.default_rng(2)
    words = fitted.law.weights.astype(object)
    for sharpness in (0.05, 1.0, 1.0, 20.0):
        stated = rng.dirichlet(np.full(6, sharpness), 2)
        with mpmath.workdps(50):
            mean = [mpmath.mpf(int(sum(words[:, cell]))) / (2 << 63) for cell in range(6)]
            laws = [[mpmath.mpf(p) / mpmath.fsum(map(mpmath.mpf, row)) for p in row] for row in stated.tolist()]
            truth = max(exact_divergence(law, mean, alpha) for law in laws)
            found = fitted.divergence_bound(stated, alpha)
            assert truth <= found <= truth + 1e-7
            assert found <= -fitted.log_floor + 1e-12
    with pytest.raises(InputError, match="above 1"):
        fitted.divergence_bound(stated, 1.0)
    with pytest.raises(InputError, match="add up"):
        fitted.divergence_bound(2 * stated, alpha)


def test_what_cannot_be_drawn_has_no_bound():
    """Without smoothing, a row that P has and Qbar has not makes the divergence infinite."""
    rows = pd.DataFrame({"town": ["Ulm", "Ulm", "Bonn", "Ulm"], "smokes": [True, False, True, True]})
    fitted = fit_cells(rows, Release.public(["no", "no", "yes", "no"], SPACE), "made up", "public", smoothing=0.0)
    assert fitted.divergence_bound(np.full((2, 4), 0.25)) == math.inf
    assert abs(fitted.divergence_bound(fitted.density, 2.0) - math.log(2)) < 1e-9


def test_smoothing_gives_a_copula_of_finitely_many_rows_a_floor():
    """The least frequent row is no rarer than the floor says; a sound floor fails once in 1e9 runs."""
    rows = pd.DataFrame({"town": ["Ulm"] * 100, "smokes": [True] * 99 + [False]})
    form = Form.of(pd.DataFrame({"town": ["Ulm", "Bonn"], "smokes": [True, False]}))
    labels = Release.public(["no", "yes"] * 50, SPACE)
    fitted = fit_copula(rows, labels, "made up", form=form, smoothing=0.2)
    assert abs(fitted.log_floor - math.log(0.2 / 4)) < 1e-8
    draws = 20_000
    drawn = fitted.generator().sample(np.arange(draws) % 2).to_pylist()
    rarest = min(drawn.count({"town": town, "smokes": smokes}) for town in ("Ulm", "Bonn") for smokes in (True, False))
    assert binom.cdf(rarest, draws, math.exp(fitted.log_floor)) > ALARM / 4
    assert fit_copula(rows, labels, "made up", form=form).log_floor is None
    assert fit_copula(*people_and_labels(), "made up", smoothing=0.2).log_floor is None


def people_and_labels():
    """Rows and public labels."""
    rows, codes = people(200)
    return rows, public(codes)


@pytest.mark.parametrize("kind", FITS)
def test_a_paid_split_learns_the_law_of_true_classes(kind):
    """From noisy labels, each class's mean age is near that of its true rows, where released labels have it wrong.

    Classes are 15 years apart. What is learned has a mean of 14.4 and a standard error of 0.42, released labels 6.8 and
    0.29: the bounds are more than six of them away.
    """
    rows, codes = people(5000, seed=3)
    release = paid(codes)
    fitted = FITS[kind](rows, release, "the first half")
    drawn = fitted.generator().sample(np.repeat([0, 1], 10_000)).to_pandas()["age"].to_numpy()
    made = drawn[10_000:].mean() - drawn[:10_000].mean()
    plain = rows["age"][release.codes == 1].mean() - rows["age"][release.codes == 0].mean()
    assert plain < 9
    assert 11.5 < made < 17.5
    assert fitted.source.kind == "paid split"
    assert json.loads(fitted.source.certificate)["guarantee"]["epsilon"] == 1.0


def test_the_source_says_where_labels_came_from():
    """Public labels are of a public or an auxiliary source, in the user's words, without any certificate."""
    rows, labels = people_and_labels()
    assert fit_copula(rows, labels, "made up").source.describe() == {"kind": "auxiliary", "text": "made up"}
    assert fit_copula(rows, labels, "made up", "public").source.kind == "public"
    for kind, text in (("paid split", "made up"), ("private", "made up"), ("public", " ")):
        with pytest.raises(InputError):
            fit_copula(rows, labels, text, kind)


@pytest.mark.parametrize("fit", [*FITS.values(), fit_cells])
def test_bare_labels_are_refused(fit):
    """An array of labels is no release, and the message holds none of them."""
    rows, codes = people(100)
    with pytest.raises(NotTrueLabelsError) as told:
        fit(rows, np.array(["secret", "yes"])[codes], "made up")
    assert "secret" not in str(told.value)


def test_a_class_without_examples_is_named():
    """A class without a public row, or with one only where a law needs two, is refused by its declared name."""
    rows, _ = people(4)
    space = Classes(["no", "yes", "maybe"])
    labels = Release.public(["no", "no", "yes", "no"], space)
    with pytest.raises(InputError, match=r"fewer of 'yes', 'maybe'.*give rows of every class"):
        fit_copula(rows, labels, "made up", "public")
    with pytest.raises(InputError, match=r"1 example of each declared class, found fewer of 'maybe'"):
        fit_cells(rows[["smokes"]], labels, "made up", "public")


def test_what_does_not_fit_is_refused():
    """Another number of labels, numbers among cells, and shares that are none."""
    rows, labels = people_and_labels()
    with pytest.raises(RowsError, match="each of 200 rows"):
        fit_copula(rows, labels[:100], "made up")
    with pytest.raises(InputError, match="bins"):
        fit_cells(rows, labels, "made up")
    for smoothing in (-0.1, 1.0, math.nan):
        with pytest.raises(InputError):
            fit_copula(rows, labels, "made up", smoothing=smoothing)
    with pytest.raises(InputError, match="for images make a Generator"):
        fit_copula(np.zeros((200, 40, 40)) + np.arange(200)[:, None, None], labels, "made up")
    with pytest.raises(InputError, match="use fit_cells"):
        fit_copula(rows, labels, "made up").divergence_bound([[1.0]])


def test_a_generator_refuses_the_rows_that_it_was_fitted_on(tmp_path):
    """Rows that it was fitted on are known again, others of the same law are not; digests of private ones stay here."""
    rows, codes = people(500)
    for kind in ("public", "auxiliary"):
        fitted = fit_copula(rows, public(codes), "made up", kind)
        generator = fitted.generator()
        for known in (generator, open_generator(fitted.save(tmp_path / kind)).generator()):
            if known is generator or kind == "public":
                with pytest.raises(InputError, match="not fitted on"):
                    known.check_private(known.form.table(rows[:100]))
            else:
                assert known.seen == frozenset()
        generator.check_private(generator.form.table(people(500, seed=9)[0]))


@pytest.mark.parametrize("kind", [*FITS, "cells"])
def test_a_file_brings_back_the_same_generator(kind, tmp_path):
    """What is loaded has the same law, form, source, smoothing and digests, and draws rows of the form."""
    rows, codes = people(300)
    some = rows[["town", "smokes"]] if kind == "cells" else rows
    fitted = {**FITS, "cells": fit_cells}[kind](some, public(codes), "made up", "public", smoothing=0.1)
    path = fitted.save(tmp_path / "people.generator")
    for found in (open_generator(path), open_generator(path)):
        for name, array in vars(fitted.law).items():
            np.testing.assert_array_equal(getattr(found.law, name), array)
        assert (found.form, found.source, found.smoothing) == (fitted.form, fitted.source, fitted.smoothing)
        assert (found.seen, found.log_floor, found.space) == (fitted.seen, fitted.log_floor, fitted.space)
        assert found.generator().sample([0, 1]).schema == fitted.form.schema
    with pytest.raises(OutputError):
        fitted.save(path)


#: What is changed: a place in the description, or an array, and what it becomes.
FORGERIES = {
    "another schema": ("schema", lambda _: "labeldp/generator/9"),
    "another law": ("law", lambda _: "os.system"),
    "no form": ("form", lambda _: {"columns": [], "of_array": False}),
    "a private source": ("source", lambda source: {**source, "kind": "private"}),
    "more classes": ("space", lambda space: {**space, "values": [*space["values"], "maybe"]}),
    "smoothing above 1": ("smoothing", lambda _: 2.0),
    "nan": ("knots", lambda knots: knots * np.nan),
    "other shapes": ("roots", lambda roots: roots[:, :-1]),
    "no order": ("order", lambda order: order * 0),
    "no shares": ("ends", lambda ends: ends * 2),
    "truth values": ("roots", lambda roots: roots > 0),
    "a part more": ("more", lambda _: np.zeros(3)),
}


def rewritten(path, target, name, change):
    """A copy of a file in which one part was changed."""
    with path.open("rb") as file:
        text, held = read_arrays(file)
        arrays, about = dict(held), json.loads(text)
    place = about if name in about else arrays
    place[name] = change(place.get(name))
    write_arrays(target, json.dumps(about), arrays)
    return target


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_file_is_refused(forgery, tmp_path):
    """A file whose parts were changed is no generator, and nothing in it is run."""
    rows, codes = people(200)
    path = fit_copula(rows, public(codes), "made up").save(tmp_path / "sound")
    forged = rewritten(path, tmp_path / "forged", *FORGERIES[forgery])
    with pytest.raises(InputError, match=r"expected a generator .*(something else|'labeldp/generator/9')"):
        open_generator(forged)


def test_what_is_no_generator_is_refused(tmp_path):
    """Text, half a file, another archive, and no file at all."""
    rows, codes = people(200)
    path = fit_copula(rows, public(codes), "made up").save(tmp_path / "sound")
    (tmp_path / "text").write_text("no generator")
    (tmp_path / "half").write_bytes(path.read_bytes()[:2000])
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.writestr("about.npy", "nothing")
    for name in ("text", "half", "archive"):
        with pytest.raises(InputError, match="something else"):
            open_generator(tmp_path / name)
    with pytest.raises(InputError, match="there is no "):
        open_generator(tmp_path / "absent")


def test_a_form_of_own_rows_shows_no_value_of_a_single_row():
    """Of rows that are not public the form has rounded ends, few digits and common texts."""
    random, rows = np.random.default_rng(3), 300
    original = pd.DataFrame(
        {"lactate": random.normal(2, 0.5, rows), "age": random.integers(17, 91, rows), "town": "Ulm"}
    )
    original.loc[:99, "town"] = "Bonn"
    original.loc[7, "town"] = "Rome"
    labels = Release.public((["no", "yes"] * rows)[:rows], Classes(["no", "yes"]))
    shown = json.dumps(fit_copula(original, labels, "own patients").form.describe())
    assert "Rome" not in shown
    assert not any(repr(value) in shown for value in original["lactate"])
    public = json.dumps(fit_copula(original, labels, "published", "public").form.describe())
    assert "Rome" in public
    drawn = fit_copula(original, labels, "own patients").generator().sample(np.arange(200) % 2).to_pandas()
    assert drawn["lactate"].between(original["lactate"].min() - 0.2, original["lactate"].max() + 0.2).all()


def test_listed_numbers_are_cells():
    """A column of many listed numbers counts among the cells, and draws have the law that is stated."""
    values = tuple(range(17, 60))
    form = Form((ColumnForm("age", "int64", values=values), ColumnForm("t", "bool")))
    ages = np.repeat(values, 20)
    labels = Release.public(np.where(ages < 40, "no", "yes").tolist(), Classes(["no", "yes"]))
    fitted = fit_cells({"age": ages, "t": ages % 2 == 0}, labels, "made up", "public", form=form)
    assert fitted.density.shape == (2, 86)
    drawn = fitted.generator().sample(np.zeros(2000, dtype=int))
    assert np.mean(drawn["age"].to_numpy() < 40) > 0.95  # 0.995 expected
