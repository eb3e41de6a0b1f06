"""What holds of all that mixes labels in public clusters: the exchange between peers, and shuffled cells."""

import math
import warnings

import pytest

from labeldp import CellShuffle, PeerExchange
from labeldp.errors import EpsilonError, InputError
from labeldp.mechanisms.queries import DeltaWarning

PEERS, SHUFFLE = PeerExchange(0.05), CellShuffle(1.0)
#: Each mechanism, and its account against the receiver who knows what one row sent.
MIXINGS = [pytest.param(PEERS, PEERS.collusion, id="peers"), pytest.param(SHUFFLE, SHUFFLE.with_one_row, id="shuffle")]
every_mixing = pytest.mark.parametrize(("mixing", "together"), MIXINGS)


@every_mixing
def test_a_delta_above_one_over_n_is_warned_of(mixing, together):
    """From one over the smallest cluster's size on, delta allows a label to be published, and a warning says so."""
    with pytest.warns(DeltaWarning, match="expected delta below 1/100"):
        mixing.guarantee([5000, 100], delta=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mixing.guarantee([5000, 100], delta=0.0099).epsilon < together([100], 0.0099)


@every_mixing
@pytest.mark.parametrize("bad", [0.0, 1.0, -1e-9, 2.0, math.nan])
def test_a_delta_that_says_nothing_is_refused(mixing, together, bad):
    """A delta is above 0 and below 1, wherever one is asked for."""
    for call in (mixing.guarantee, together):
        with pytest.raises(EpsilonError, match="expected delta"):
            call([10], delta=bad)
    with pytest.raises(EpsilonError, match="expected delta"):
        mixing.calibrate(1.0, bad, [10])


@every_mixing
@pytest.mark.parametrize("bad", [[], [0], [-1], [2.0], ["3"], [True], [3, None], [2**24 + 1]])
def test_bad_cluster_sizes_are_refused(mixing, together, bad):
    """Sizes are whole numbers of at least one row, and there is at least one."""
    for call in (
        lambda: mixing.guarantee(bad, 1e-3),
        lambda: mixing.delta_at(1.0, bad),
        lambda: together(bad, 1e-3),
        lambda: mixing.calibrate(1.0, 1e-3, bad),
    ):
        with pytest.raises(InputError, match="expected"):
            call()


@every_mixing
@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
def test_a_bad_epsilon_is_refused(mixing, together, bad):
    """Delta is given at finite epsilons of at least 0, and nothing is calibrated to less than something."""
    del together
    with pytest.raises(EpsilonError, match="expected epsilon"):
        mixing.delta_at(bad, [10])
    with pytest.raises(EpsilonError, match="expected epsilon"):
        mixing.calibrate(bad, 1e-3, [10])
