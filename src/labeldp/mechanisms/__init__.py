"""How a label leaves: randomizers, the draw, queries, and the exchange between peers."""

from labeldp.mechanisms._bins import BinResponse
from labeldp.mechanisms._bits import BitResponse
from labeldp.mechanisms._cluster import ClusterParameters, ClusterResponse, truncated
from labeldp.mechanisms._deltas import DeltaWarning
from labeldp.mechanisms._deviations import noise_deviation, sum_deviation
from labeldp.mechanisms._double import DoubleResponse, DummyResponse
from labeldp.mechanisms._drawing import draw
from labeldp.mechanisms._feature_law import FeatureLaw
from labeldp.mechanisms._forms import ColumnForm, Form, form_from
from labeldp.mechanisms._generators import Generator, Source, row_digests, seen_in
from labeldp.mechanisms._gradients import Asker, NoisyGradients, gradient_error
from labeldp.mechanisms._moments import LabelMoments, NumberMoments
from labeldp.mechanisms._numbers import LaplaceResponse, OneBitResponse, PiecewiseResponse
from labeldp.mechanisms._optimal import OptimalResponse, SolverWarning, best_number_response
from labeldp.mechanisms._peers import ExchangedLabels, PeerExchange, exchange
from labeldp.mechanisms._prior import PriorResponse, PriorSubsetResponse, TopKResponse, checked_prior
from labeldp.mechanisms._promises import promise_of
from labeldp.mechanisms._quantile import NoisyQuantile, quantile_points
from labeldp.mechanisms._queries import NoisyArgmax, NoisyHistogram, NoisyMean, Query, cell_numbers, clip_of
from labeldp.mechanisms._randomizer import (
    ClassRandomizer,
    Expectation,
    NumberExpectation,
    NumberRandomizer,
    Randomizer,
    expectation,
    mean_expectation,
)
from labeldp.mechanisms._response import RandomizedResponse
from labeldp.mechanisms._subset import SubsetResponse, best_response, gradient_response
from labeldp.mechanisms._units import best_unit_response, grouped, per_unit, unit_sizes

__all__ = [
    "Asker",
    "BinResponse",
    "BitResponse",
    "ClassRandomizer",
    "ClusterParameters",
    "ClusterResponse",
    "ColumnForm",
    "DeltaWarning",
    "DoubleResponse",
    "DummyResponse",
    "ExchangedLabels",
    "Expectation",
    "FeatureLaw",
    "Form",
    "Generator",
    "LabelMoments",
    "LaplaceResponse",
    "NoisyArgmax",
    "NoisyGradients",
    "NoisyHistogram",
    "NoisyMean",
    "NoisyQuantile",
    "NumberExpectation",
    "NumberMoments",
    "NumberRandomizer",
    "OneBitResponse",
    "OptimalResponse",
    "PeerExchange",
    "PiecewiseResponse",
    "PriorResponse",
    "PriorSubsetResponse",
    "Query",
    "RandomizedResponse",
    "Randomizer",
    "SolverWarning",
    "Source",
    "SubsetResponse",
    "TopKResponse",
    "best_number_response",
    "best_response",
    "best_unit_response",
    "cell_numbers",
    "checked_prior",
    "clip_of",
    "draw",
    "exchange",
    "expectation",
    "form_from",
    "gradient_error",
    "gradient_response",
    "grouped",
    "mean_expectation",
    "noise_deviation",
    "per_unit",
    "promise_of",
    "quantile_points",
    "row_digests",
    "seen_in",
    "sum_deviation",
    "truncated",
    "unit_sizes",
]
