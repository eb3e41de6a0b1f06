"""What is promised: label spaces, channels, guarantees, and the arithmetic of charges."""

from labeldp.privacy._account import Account, Budget, Charge, Rows, compose
from labeldp.privacy._bit_noise import BitNoise
from labeldp.privacy._bits import BitChannel
from labeldp.privacy._candidate_subsets import CandidateSubsetChannel, prior_subset_candidates
from labeldp.privacy._candidates import CandidateChannel, bad_prior_row, prior_candidates, top_candidates
from labeldp.privacy._channel import (
    Channel,
    ClassChannel,
    Levels,
    Membership,
    NumberLaw,
    Table,
    candidate_sizes,
    row_arrays,
)
from labeldp.privacy._cluster import ClusterChannel
from labeldp.privacy._composition import Composition
from labeldp.privacy._concentrated import ConcentratedLoss, rho_above
from labeldp.privacy._distributions import nearest_distributions
from labeldp.privacy._efficiency import estimation_size, pair_share, total_variance, training_size, training_sizes
from labeldp.privacy._events import dp_events
from labeldp.privacy._gaussian import GaussianNoise, least_deviation
from labeldp.privacy._gradient_noise import GradientNoise, gradient_noise
from labeldp.privacy._grouped import GroupedChannel, GroupedNumberChannel
from labeldp.privacy._guarantee import Guarantee
from labeldp.privacy._law import CHANNELS, channel_of, law_of
from labeldp.privacy._losses import PrivacyLoss
from labeldp.privacy._number_laws import (
    bin_channel,
    column_channel,
    laplace_channel,
    one_bit_channel,
    piecewise_channel,
    window_width,
)
from labeldp.privacy._numbers import PARTS, BinChannel, GridChannel, NumberChannel, SingleNumberChannel
from labeldp.privacy._peers import LARGEST_CLUSTER, PeerLaw
from labeldp.privacy._renyi import (
    RenyiGuarantee,
    checked_divergence,
    divergence_sum,
    label_divergence,
    replaced_divergence,
)
from labeldp.privacy._response import ResponseChannel
from labeldp.privacy._rounding import exp_below, log_above, printed_above, rest_of, shown_above
from labeldp.privacy._sets import pack, unpack
from labeldp.privacy._spaces import REFUSE, Classes, Interval, LabelSpace, space_from
from labeldp.privacy._subset import SubsetChannel

__all__ = [
    "CHANNELS",
    "LARGEST_CLUSTER",
    "PARTS",
    "REFUSE",
    "Account",
    "BinChannel",
    "BitChannel",
    "BitNoise",
    "Budget",
    "CandidateChannel",
    "CandidateSubsetChannel",
    "Channel",
    "Charge",
    "ClassChannel",
    "Classes",
    "ClusterChannel",
    "Composition",
    "ConcentratedLoss",
    "GaussianNoise",
    "GradientNoise",
    "GridChannel",
    "GroupedChannel",
    "GroupedNumberChannel",
    "Guarantee",
    "Interval",
    "LabelSpace",
    "Levels",
    "Membership",
    "NumberChannel",
    "NumberLaw",
    "PeerLaw",
    "PrivacyLoss",
    "RenyiGuarantee",
    "ResponseChannel",
    "Rows",
    "SingleNumberChannel",
    "SubsetChannel",
    "Table",
    "bad_prior_row",
    "bin_channel",
    "candidate_sizes",
    "channel_of",
    "checked_divergence",
    "column_channel",
    "compose",
    "divergence_sum",
    "dp_events",
    "estimation_size",
    "exp_below",
    "gradient_noise",
    "label_divergence",
    "laplace_channel",
    "law_of",
    "least_deviation",
    "log_above",
    "nearest_distributions",
    "one_bit_channel",
    "pack",
    "pair_share",
    "piecewise_channel",
    "printed_above",
    "prior_candidates",
    "prior_subset_candidates",
    "replaced_divergence",
    "rest_of",
    "rho_above",
    "row_arrays",
    "shown_above",
    "space_from",
    "top_candidates",
    "total_variance",
    "training_size",
    "training_sizes",
    "unpack",
    "window_width",
]
