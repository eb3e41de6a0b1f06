"""Releases of numbers: what they say of labels, in memory and on disk, and what is refused."""

import dataclasses
import hashlib
import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as dp
from labeldp.errors import InputError, LabelError, VerificationError
from labeldp.learning.sklearn import SoftmaxRegression
from labeldp.privacy.channels import GridChannel
from labeldp.release.folder import from_columns, to_columns

SPACE = dp.Interval(-10.0, 30.0, 0.5)
LABELS = np.resize(np.array([-12.0, -10.0, 0.2, 3.0, 29.9, 31.5]), 600)

RANDOMIZERS = {
    "laplace": lambda epsilon: dp.LaplaceResponse(SPACE, epsilon),
    "one-bit": lambda epsilon: dp.OneBitResponse(SPACE, epsilon),
    "piecewise": lambda epsilon: dp.PiecewiseResponse(SPACE, epsilon),
    "response": lambda epsilon: dp.RandomizedResponse(SPACE, epsilon),
    "subset": lambda epsilon: dp.SubsetResponse(SPACE, epsilon, size=3),
}
every_randomizer = pytest.mark.parametrize("name", RANDOMIZERS)


def relist(folder, table):
    """Replace the file and list it again, as one would who wants the change not to be noticed."""
    pq.write_table(table, folder / "data.parquet")
    body = json.loads((folder / "_certificate.json").read_text())
    body["table"]["files"][0]["sha256"] = hashlib.sha256((folder / "data.parquet").read_bytes()).hexdigest()
    (folder / "_certificate.json").write_text(json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def released(name, epsilon=4.0, **options):
    """A release of the labels, which are clipped and put on the grid first."""
    return dp.Curator(LABELS, SPACE, **options).randomize(RANDOMIZERS[name](epsilon))


def test_squares_are_refused_where_the_law_does_not_tell_them():
    """One bit tells means and nothing else; a power that is none is refused."""
    with pytest.raises(InputError, match="which determine only their means"):
        released("one-bit").numbers(power=2)
    with pytest.raises(InputError, match="expected power"):
        released("one-bit").numbers(power=3)


@every_randomizer
@pytest.mark.parametrize("units", [None, np.repeat(np.arange(240), np.resize([1, 4], 240))])
def test_what_was_saved_comes_back(name, units, tmp_path):
    """A folder verifies and gives the same numbers, variances and guarantee, for rows and for units of several."""
    release = released(name, units=units)
    folder = release.save(tmp_path / "out", pa.table({"x": range(600)}), label="y", keep="all")
    assert dp.verify(folder).holds
    again = dp.Release.load(folder)
    for found in (again, pickle.loads(pickle.dumps(release))):  # noqa: S301 (made here)
        assert (found.numbers() == release.numbers()).all()
        assert (found.noise_variance() == release.noise_variance()).all()
        assert found.guarantee == release.guarantee
    assert (release[5:9].numbers() == release.numbers()[5:9]).all()
    if release.channel.form == "number":
        column = pq.read_table(folder / "data.parquet")["y_released"]
        assert column.type == pa.float64()
        assert (column.to_numpy() == release.numbers()).all()
    if units is not None:
        assert len(np.unique(release.noise_variance())) == 2


def test_the_certificate_says_that_labels_were_clipped():
    """What the declaration does to labels before the draw is among what is declared."""
    (told,) = [each for each in released("one-bit").certificate.assumptions if "clipped" in each]
    assert told == (
        "labels beyond the declared range -10 to 30 were clipped to it, and put on the nearest point of a grid of step "
        "0.5, before anything was drawn"
    )
    classes = dp.Classes(["a", "b"])
    release = dp.Curator(["a"], classes).randomize(dp.RandomizedResponse(classes, 1.0))
    assert not any("clipped" in each for each in release.certificate.assumptions)


@pytest.mark.parametrize("number", [0.0, 29.9, np.nan, np.inf, None])
def test_a_number_that_the_law_cannot_give_is_found(number, tmp_path):
    """A number between outcomes, one beyond them and a missing one fail verification, however they are listed."""
    folder = released("one-bit").save(tmp_path / "out", label="y")
    numbers = pq.read_table(folder / "data.parquet")["y_released"].to_pylist()
    numbers[17] = number
    relist(folder, pa.table({"y_released": pa.array(numbers, pa.float64())}))
    verdict = dp.verify(folder)
    assert not verdict.holds
    with pytest.raises(VerificationError):
        dp.Release.load(folder)


def test_a_group_cannot_take_the_numbers_of_another(tmp_path):
    """Where units differ in size their numbers differ, and a row is read by the law of its own group."""
    release = released("one-bit", units=np.repeat(np.arange(240), np.resize([1, 4], 240)))
    folder = release.save(tmp_path / "out", label="y")
    table = pq.read_table(folder / "data.parquet").replace_schema_metadata(None)
    place = table.column_names.index("y_groups")
    swapped = table.set_column(place, table.schema.field(place), pa.array(1 - table["y_groups"].to_numpy(), pa.int32()))
    relist(folder, swapped)
    assert not dp.verify(folder).holds


def forged(release, folder, **changes):
    """What is found of a folder whose maker wrote another certificate."""
    certificate = dataclasses.replace(release.certificate, **changes)
    return dp.verify(dataclasses.replace(release, certificate=certificate).save(folder / "forged"))


def test_a_law_of_numbers_cannot_claim_too_little(tmp_path):
    """Another epsilon, other weights, and what another kind of law keeps are refused."""
    release = released("laplace")
    (draw,) = release.certificate.draws
    weights = [list(row) for row in draw.law["weights"]]
    weights[0][0], weights[0][1] = str(int(weights[0][0]) - 1), str(int(weights[0][1]) + 1)
    smaller = dataclasses.replace(draw, guarantee=dp.Guarantee(0.1))
    other = dataclasses.replace(draw, law={**draw.law, "weights": weights}, guarantee=dp.Guarantee(0.1))
    kept = (
        released("response").certificate.expects,
        dataclasses.replace(release.certificate.expects, squared_error=1.0),
        dataclasses.replace(release.certificate.expects, clean_share=0.9),
    )
    changes = [*({"draws": (each,)} for each in (smaller, other)), *({"expects": each} for each in kept)]
    for number, changed in enumerate(changes):
        (tmp_path / str(number)).mkdir()
        assert not forged(release, tmp_path / str(number), **changed).holds, changed
    for kind in ("uneven", "classes"):
        folder = release.save(tmp_path / kind, label="y")
        body = json.loads((folder / "_certificate.json").read_text())
        if kind == "uneven":
            body["charges"][0]["law"]["weights"][-1].pop()
        else:
            body["label"]["space"] = dp.Classes(list(range(SPACE.size))).describe()
        text = json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        (folder / "_certificate.json").write_text(text)
        assert not dp.verify(folder).holds


@pytest.mark.parametrize("changes", [{"clean_share": 1.5}, {"clean_share": -0.1}, {"squared_error": -1.0}])
def test_what_units_keep_is_between_nothing_and_all(changes, tmp_path):
    """Where rows differ in their law what is kept is not recomputed, and yet no row is worth more than a clean one."""
    release = released("one-bit", units=np.repeat(np.arange(240), np.resize([1, 4], 240)))
    kept = dataclasses.replace(release.certificate.expects, **changes)
    assert not forged(release, tmp_path, expects=kept).holds


def test_learners_of_classes_refuse_numbers():
    """Who would learn classes from numbers is told what to use."""
    release = released("one-bit")
    with pytest.raises(InputError, match="expected released classes, or sets of classes, found released numbers"):
        SoftmaxRegression().fit(np.zeros((600, 1)), release)
    with pytest.raises(InputError, match="found released numbers"):
        release.unbiased()


def test_classes_have_no_numbers():
    """Neither has a release of classes, nor does a randomizer of numbers take them."""
    space = dp.Classes([0, 1])
    release = dp.Curator([0, 1, 1], space).randomize(dp.RandomizedResponse(space, 1.0))
    for ask in (release.numbers, release.noise_variance, lambda: release.expected_numbers([0.0] * 3)):
        with pytest.raises(InputError, match="expected labels on an Interval for numbers, found Classes"):
            ask()
    with pytest.raises(LabelError, match="expected a declared range with a grid"):
        dp.OneBitResponse(space, 1.0)
    with pytest.raises(InputError, match="expected a label for each of 600 rows"):
        released("one-bit").noise_variance(at=[1.0])


def test_public_numbers_are_what_they_are():
    """Labels that were declared public tell themselves, without noise worth the name, also on a fine grid."""
    fine = dp.Interval(0.0, 100_000.0, 0.01)
    release = dp.Release.public([0.0, 12.34, 99_999.99], fine)
    assert release.numbers() == pytest.approx([0.0, 12.34, 99_999.99], abs=1e-6)
    assert release.numbers(power=2) == pytest.approx(np.square([0.0, 12.34, 99_999.99]), rel=1e-9, abs=1e-2)
    assert release.noise_variance().max() < 1e-2


def test_numbers_that_floats_cannot_tell_apart_are_set_apart():
    """A grid whose points are the same float is no declaration; outcomes that are the same are written one apart."""
    with pytest.raises(LabelError, match="subtract an offset from the labels"):
        dp.Interval(1e16, 1e16 + 8, 1.0)
    far, codes = dp.Interval(1e16, 1e16 + 16, 2.0), np.array([2, 0, 1, 1], dtype=np.int16)
    weights = ((1 << 62, 1 << 62, 1 << 63),) * 2
    close = GridChannel(classes=9, values=(0, 1, 2), weights=weights)
    columns = to_columns("y", far, close, codes)
    assert len(set(columns["y_released"].to_pylist())) == 3
    assert from_columns({"codes": columns["y_released"]}, far, close)["codes"].tolist() == codes.tolist()


@pytest.mark.parametrize(
    ("query", "wrong", "right"),
    [
        (lambda space: dp.NoisyMean(space, 1.0), "points", r"means\(\)"),
        (lambda space: dp.NoisyHistogram(space, 1.0), "means", r"distributions\(\) or shares\(\)"),
        (lambda space: dp.NoisyQuantile(space, 1.0, level=0.5), "means", "value"),
    ],
)
def test_an_answer_names_the_form_that_it_has(query, wrong, right):
    """Another form is refused with the name of its own."""
    space = dp.Interval(0, 10, 1)
    answer = dp.Curator([1.0, 2.0, 3.0] * 9, space).answer(query(space))
    with pytest.raises(InputError, match=f"use {right}"):
        getattr(answer, wrong)()
