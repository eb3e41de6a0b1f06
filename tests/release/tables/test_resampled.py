"""Labels that are resampled from a prior of their row in columns: Mechanism 1 of Busa-Fekete et al. 2023."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, ClusterResponse, Release, ResampledMechanism, release_table, verify
from labeldp.errors import InputError, PriorError
from labeldp.mechanisms.randomizers import FloorWarning

SPACE = Classes(["a", "b", "c"])
PRIORS = np.array([[0.5, 0.3, 0.2], [0.05, 0.15, 0.8], [0.2, 0.6, 0.2]])
ROWS = 300
PLACES = np.arange(ROWS) % 3


def table(path, priors=None):
    """A table whose rows have a prior in columns."""
    priors = PRIORS[PLACES] if priors is None else priors
    columns = {f"p_{point}": priors[:, code] for code, point in enumerate(SPACE.points)}
    labels = np.array(SPACE.points)[np.arange(len(priors)) % 3]
    pq.write_table(pa.table({"age": np.arange(len(priors)) * 0.7, "ill": labels, **columns}), path)
    return str(path)


def released(source, output, epsilon=1.0, **options):
    """A release of the table."""
    mechanism = ResampledMechanism(prior="p_", **options)
    return release_table(
        source, "ill", SPACE, epsilon, str(output), keep=["age"], unit="row", budget=9.0, mechanism=mechanism
    )


def test_each_row_has_the_law_of_its_own_prior(tmp_path):
    """The channel of a row keeps its label or draws from its prior, raised to the floor, and spends epsilon in each."""
    done = released(table(tmp_path / "t.parquet"), tmp_path / "out", floor=0.1)
    assert verify(done.output).holds
    release = Release.load(done.output)
    assert release.guarantee.epsilon <= 1.0
    for row, prior in enumerate(PRIORS):
        matrix = release.channel.table(row).matrix
        kept = matrix[0, 0] - matrix[1, 0]
        law = (matrix - kept * np.eye(3)) / (1 - kept)
        assert np.allclose(law, law[0], atol=1e-12)
        assert law[0].min() == pytest.approx(max(prior.min(), 0.1), abs=1e-9)
        assert (matrix.max(axis=0) / matrix.min(axis=0)).max() == pytest.approx(math.e, rel=1e-6)
        if row != 1:  # whose least probability is raised
            assert np.allclose(law[0], prior, atol=1e-9)


def test_the_certificate_says_what_was_raised(tmp_path):
    """Rows whose prior was raised are counted among the assumptions, with the floor; without any it says none."""
    source = table(tmp_path / "t.parquet")
    for number, (floor, count) in enumerate([(None, 100), (0.05, 0), (0.25, 300)]):
        done = released(source, tmp_path / f"out{number}", **({} if floor is None else {"floor": floor}))
        said = [text for text in done.certificate.assumptions if "labels are resampled" in text]
        assert len(said) == 1
        assert f"in {count} rows some were raised to {floor or 1 / 6:g}" in said[0]


def test_priors_are_rounded_to_hundredths(tmp_path):
    """Priors that differ by less than that are one distribution in the certificate."""
    near = PRIORS[PLACES] + np.linspace(-0.002, 0.002, ROWS)[:, None] * [1, -1, 0]
    done = released(table(tmp_path / "t.parquet", near), tmp_path / "out")
    (charge,) = json.loads((done.output / "_certificate.json").read_text())["charges"]
    assert len(charge["law"]["keep"]) == 3


def test_impossible_priors_are_refused(tmp_path):
    """Too many different ones, what is no distribution, a floor above 1/k, and no prior at all; nothing is released."""
    many = np.random.default_rng(0).dirichlet(np.ones(3), 20_000)
    cases = [
        (many, {}, InputError, "at most 4,096 different priors in hundredths"),
        (PRIORS[PLACES] * 2, {}, PriorError, "expected"),
        (None, {"floor": 0.4}, InputError, "floor above 0 and at most 1/k"),
    ]
    for number, (priors, options, error, message) in enumerate(cases):
        source = table(tmp_path / f"{number}.parquet", priors)
        with pytest.raises(error, match=message):
            released(source, tmp_path / f"out{number}", **options)
        assert not (tmp_path / f"out{number}").exists()
    with pytest.raises(InputError, match="resample needs --prior"):
        release_table(source, "ill", SPACE, 1.0, str(tmp_path / "x"), keep=["age"], mechanism="resample")


def test_a_default_floor_never_changes_distributions_without_a_word():
    """It warns of distributions that it raises; a floor that was passed is the caller's own word."""
    law, rows = [[0.1, 0.9], [0.4, 0.6]], [0, 1, 1]
    two = Classes(["no", "yes"])
    with pytest.warns(FloorWarning, match="1 of 2 distributions have a class less probable than 0.25"):
        response = ClusterResponse(two, 1.0, law, rows)
    assert response.floor == ClusterResponse.usual_floor(two) == 0.25
    assert ClusterResponse(two, 1.0, law, rows, floor=0.25).channel().odds == response.channel().odds
    assert ClusterResponse(two, 1.0, law[1:], [0, 0, 0]).floor == 0.25


def test_priors_that_hundredths_do_not_show_are_refused(tmp_path):
    """Of 300 classes alike each rounds to nothing: that is said, and nothing is drawn."""
    space, rows = Classes(range(300)), 600
    columns = {f"p_{number}": np.full(rows, 1 / 300) for number in range(300)}
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"age": np.arange(rows), "ill": np.arange(rows) % 300, **columns}), path)
    mechanism = ResampledMechanism(prior="p_")
    with pytest.raises(InputError, match="a class has half a percent or more"):
        release_table(path, "ill", space, 1.0, tmp_path / "out", keep=["age"], unit="row", mechanism=mechanism)
    assert not (tmp_path / "out").exists()
