"""Tables with real labels: every mechanism of numbers from a file to a release, and what it costs."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

import labeldp as dp
from labeldp.errors import BudgetError, EpsilonError, InputError
from labeldp.mechanisms.randomizers import number_randomizers

NUMBER_MECHANISMS = [kind.name for kind in number_randomizers()]
COUNTED = ["bins", "optimal-counts"]
SPACE = dp.Interval(0.0, 20.0, 0.5)
ROWS = 4000
LABELS = np.random.default_rng(3).gamma(2.0, 1.5, ROWS).round(3)
LABELS[:4] = (-5.0, 25.0, 20.0, 0.0)
ON_GRID = np.array(SPACE.points)[SPACE.encode(LABELS)]


@pytest.fixture
def table(tmp_path):
    """A table with a real label and people who have one or three rows."""
    people = np.repeat(np.arange(2000), np.resize([1, 3], 2000))
    columns = {"x": np.arange(ROWS), "who": people, "claim": LABELS}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=700)
    return tmp_path / "t.parquet"


def released(table, mechanism, epsilon=2.0, **options):
    """A release of the table."""
    output = table.parent / f"o-{mechanism}"
    return dp.release_table(table, "claim", SPACE, epsilon, output, keep=["x"], mechanism=mechanism, **options)


@pytest.mark.parametrize("mechanism", ["auto", *NUMBER_MECHANISMS, *COUNTED])
def test_every_mechanism_gives_numbers_of_the_stated_mean(table, mechanism):
    """The mean of the numbers is what the law says of the clipped labels, at a false-alarm rate of 1e-9."""
    done = released(table, mechanism)
    assert dp.verify(done.output).holds
    release = dp.Release.load(done.output)
    assert 2.0 * 0.99 <= release.guarantee.epsilon <= done.spent[0] <= 2.0
    off = release.numbers() - release.expected_numbers(ON_GRID)
    assert abs(off.sum()) < norm.isf(0.5e-9) * np.sqrt(release.noise_variance(at=ON_GRID).sum())
    if mechanism != "bins":
        assert np.abs(release.expected_numbers(ON_GRID) - ON_GRID).max() < 1e-6
    assert (release.guarantee.trust == "central") == (mechanism in COUNTED)
    assert release.certificate.draws[-1].mechanism == {"auto": "minimax", "optimal-counts": "optimal"}.get(
        mechanism, mechanism
    )


@pytest.mark.parametrize("mechanism", ["auto", "one-bit"])
def test_a_unit_pays_for_all_its_rows(table, mechanism):
    """People with three rows have more noise in each, and what is certified is theirs."""
    done = released(table, mechanism, unit="who")
    release = dp.Release.load(done.output)
    variances = np.unique(release.noise_variance().round(9))
    assert len(variances) == 2
    assert variances[1] > 4 * variances[0]
    assert release.certificate.guarantee.unit == "who"
    assert release.guarantee.epsilon <= 2.0


def test_counts_of_units_are_charged_for_units(table):
    """The ledger and the certificate have one guarantee, for all labels of a unit."""
    options = {"keep": [], "mechanism": "noisy-histogram", "unit": "who"}
    done = dp.release_table(table, "claim", SPACE, 2.0, table.parent / "counts", **options)
    (entry,) = dp.Ledger(done.ledger).entries()
    assert entry.guarantee.unit == done.certificate.guarantee.unit == "who"
    assert entry.guarantee.epsilon == done.certificate.guarantee.epsilon


@pytest.mark.parametrize("mechanism", COUNTED)
def test_counts_are_charged_with_what_they_made(table, mechanism):
    """The certificate has two charges that add up, and the account does not take the law for one fixed beforehand."""
    done = released(table, mechanism)
    counts, numbers = done.certificate.draws
    assert (counts.mechanism, counts.guarantee.trust) == ("noisy-histogram", "central")
    assert counts.guarantee.epsilon + numbers.guarantee.epsilon <= 2.0
    assert counts.guarantee.epsilon >= 0.02 * 2.0 * 0.99
    (told,) = dp.combined_guarantee([done.output])
    assert told.composition.epsilon >= done.certificate.guarantee.epsilon
    with pytest.raises(BudgetError):
        released(table, "one-bit", 0.1)


@pytest.mark.parametrize("randomizer", [dp.BinResponse, dp.OptimalResponse])
def test_a_curator_counts_and_responds_in_one_release(randomizer, tmp_path):
    """In Python the protocol spends what was asked for, and one certificate has both charges."""
    curator = dp.Curator(LABELS, SPACE, ledger=tmp_path / "ledger", name="claim")
    release = dp.counted_response(curator, 1.0, randomizer)
    assert 0.99 <= release.guarantee.epsilon <= 1.0
    assert 0.99 <= curator.spent[0] <= 1.0
    assert [draw.mechanism for draw in release.certificate.draws] == ["noisy-histogram", randomizer.name]
    (told,) = [each for each in release.certificate.assumptions if "the prior over grid points" in each]
    assert "computed from the noisy counts that are charged here" in told
    folder = release.save(tmp_path / "out")
    assert dp.verify(folder).holds
    with pytest.raises(BudgetError):
        curator.answer(dp.NoisyHistogram(SPACE, 0.1))


@pytest.mark.parametrize("randomizer", [dp.BinResponse, dp.OptimalResponse])
def test_a_prior_over_points_is_declared(randomizer):
    """A certificate says what its law rests on: that the prior was not computed from these labels."""
    even = np.full(SPACE.size, 1 / SPACE.size)
    curator = dp.Curator(LABELS, SPACE, budget=3.0)
    told = curator.randomize(randomizer(SPACE, 1.0, even)).certificate.assumptions
    assert (
        sum("the prior over grid points is public and was not computed from these labels" in each for each in told) == 1
    )
    alone = curator.randomize(dp.OptimalResponse(SPACE, 1.0)).certificate.assumptions
    assert not any("prior" in each for each in alone)


def test_what_cannot_be_done_is_refused_before_anything_is_spent():
    """Classes, units, a share that is none and an epsilon that words cannot express cost nothing."""
    curator = dp.Curator(LABELS, SPACE, budget=1.0)
    for share in (0.0, 1.0, -1.0, 2.0):
        with pytest.raises(InputError, match="expected a share of epsilon between 0 and 1"):
            dp.counted_response(curator, 1.0, share=share)
    with pytest.raises(EpsilonError):
        dp.counted_response(curator, 100.0)
    with pytest.raises(BudgetError):
        dp.counted_response(curator, 2.0)
    assert curator.spent == (0.0, 0.0)
    with pytest.raises(InputError, match="expected labels on an Interval, found Classes"):
        dp.counted_response(dp.Curator(["a"], dp.Classes(["a", "b"])), 1.0)
    with pytest.raises(InputError, match="units of several"):
        dp.counted_response(dp.Curator([1.0, 2.0], SPACE, units=[1, 1]), 1.0)


def test_labels_that_are_no_numbers_are_refused(tmp_path):
    """Infinite labels are clipped, missing ones refused or given a number; no message shows a label."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [11, 12, 14], "claim": [float("inf"), -1e300, 3.25]}), path)
    done = dp.release_table(path, "claim", SPACE, 30.0, tmp_path / "o", keep=["x"], mechanism="randomized-response")
    assert dp.Release.load(done.output).numbers() == pytest.approx([20.0, 0.0, 3.5], abs=1e-6)  # wrong below 4e-12
    path = tmp_path / "elsewhere" / "u.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"z": [9, 8, 7], "claim": [1.0, float("nan"), 7.777]}), path)
    with pytest.raises(InputError, match="there is no label in row 2 ") as caught:
        dp.release_table(path, "claim", SPACE, 1.0, tmp_path / "p", keep=["z"])
    assert "7.777" not in str(caught.value)
    given = dp.Interval(0.0, 20.0, 0.5, missing=5.0)
    done = dp.release_table(path, "claim", given, 1.0, tmp_path / "p", keep=["z"])
    assert done.certificate.rows == 3


@pytest.mark.parametrize("mechanism", COUNTED)
def test_labels_that_are_all_alike_far_from_zero_are_released_like_others(tmp_path, mechanism):
    """Whether a law can be made from counts, and its numbers be written, does not depend on what was counted."""
    far = dp.Interval(3_000_000.0, 3_000_005.0, 1.0)
    for number in range(6):
        path = tmp_path / f"t{number}.parquet"
        pq.write_table(
            pa.table(
                {"x": np.random.default_rng(number).integers(0, 1 << 60, 1000), "claim": np.full(1000, 3_000_002.0)}
            ),
            path,
        )
        options = {"keep": ["x"], "mechanism": mechanism}
        done = dp.release_table(path, "claim", far, 1.75, tmp_path / f"o{number}", **options)
        assert dp.verify(done.output).holds
