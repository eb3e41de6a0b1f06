"""Compiled loops of the draws: functions of codes and words, independent of the source of the words.

Each does the same work for every row, whatever its label, up to the choice of a branch. The C files in
``_c`` have the loops, and why they are right.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp._native import Word, kernel

if TYPE_CHECKING:
    import numpy as np

    from labeldp._shapes import Bool, Float64, Int16, Int32, Int64, UInt8, UInt64


@kernel()
def count_strangers(codes: Int32[np.ndarray, "n"], classes: int) -> int:
    """The number of codes that are no class."""


@kernel("out")
def draw_response(
    codes: Int32[np.ndarray, "n"],
    words: UInt64[np.ndarray, "n w"],
    classes: int,
    keep: Word,
    other: Word,
    out: Int32[np.ndarray, "n"],
) -> None:
    """Randomized response: the label if ``u < keep``, else the ``(u - keep) // other``-th other class."""


@kernel("out")
def draw_grid(
    codes: Int32[np.ndarray, "n"],
    words: UInt64[np.ndarray, "n w"],
    limits: UInt64[np.ndarray, "knots m"],
    top: int,
    whole: Word,
    over: Word,
    out: Int16[np.ndarray, "n"],
) -> None:
    """Round each label to a knot at random and draw the knot's outcome: the first whose limit exceeds the word."""


@kernel("out")
def draw_cluster(
    codes: Int32[np.ndarray, "n"],
    words: UInt64[np.ndarray, "n w"],
    clusters: Int64[np.ndarray, "n"],
    keep: UInt64[np.ndarray, "c"],
    limits: UInt64[np.ndarray, "c k"],
    out: Int32[np.ndarray, "n"],
) -> None:
    """The label if ``u < keep``, else the first class of the cluster whose cumulative weight exceeds the rest."""


@kernel("out")
def draw_bits(
    codes: Int32[np.ndarray, "n"],
    words: UInt64[np.ndarray, "n w"],
    classes: int,
    half: int,
    member: Word,
    stranger: Word,
    out: UInt8[np.ndarray, "n b"],
) -> bool:
    """Independent bits: a number for each class, below ``member`` for the true one and ``stranger`` for others."""


@kernel("out")
def draw_listed_subset(
    codes: Int32[np.ndarray, "n"],
    words: UInt64[np.ndarray, "n w"],
    member: Word,
    rest: Word,
    inside: int,
    sets: UInt8[np.ndarray, "k m b"],
    out: UInt8[np.ndarray, "n b"],
) -> bool:
    """Subsets of a fixed size from the list of the true class, which begins with the ``inside`` sets that hold it."""


@kernel("out")
def draw_subset(
    codes: Int32[np.ndarray, "n"],
    words: UInt64[np.ndarray, "n w"],
    classes: int,
    size: int,
    member: Word,
    out: UInt8[np.ndarray, "n b"],
) -> bool:
    """Subsets of a fixed size, packed; False if a row ran out of words."""


@kernel("members", "out")
def draw_candidate_subset(
    codes: Int32[np.ndarray, "n"],
    words: UInt64[np.ndarray, "n w"],
    candidates: UInt8[np.ndarray, "n b"],
    size: Int64[np.ndarray, "s"],
    member: UInt64[np.ndarray, "s"],
    members: Int64[np.ndarray, "k"],
    out: UInt8[np.ndarray, "n b"],
) -> bool:
    """Subsets of a row's candidates, packed; ``members`` is room for eight times b of them."""


@kernel("out")
def draw_coarsening(
    codes: Int32[np.ndarray, "n"],
    words: UInt64[np.ndarray, "n w"],
    classes: int,
    firsts: UInt8[np.ndarray, "n b"],
    sizes: Int64[np.ndarray, "n"],
    keep: UInt64[np.ndarray, "s"],
    other: UInt64[np.ndarray, "s"],
    out: UInt8[np.ndarray, "n b"],
) -> None:
    """Randomized response on the groups of a row, which begin at the packed ``firsts``."""


@kernel("out")
def pairs_within(firsts: UInt8[np.ndarray, "n b"], classes: int, out: Float64[np.ndarray, "n"]) -> None:
    """The share of pairs of different classes that are in one group, for each row."""


@kernel("out")
def set_sizes(sets: UInt8[np.ndarray, "n b"], out: Int64[np.ndarray, "n"]) -> None:
    """The number of classes in each packed set."""


@kernel()
def count_no_sets(sets: UInt8[np.ndarray, "n b"], classes: int) -> int:
    """The number of packed sets without a class, or with a bit that stands for none."""


@kernel("ends", "places")
def bits_of(packed: UInt8[np.ndarray, "n b"], ends: Int32[np.ndarray, "n"], places: Int32[np.ndarray, "m"]) -> None:
    """The places of the bits of each row of bytes, with room for one more, and where each row ends."""


@kernel("out")
def draw_candidates(
    codes: Int32[np.ndarray, "n"],
    words: UInt64[np.ndarray, "n w"],
    candidates: UInt8[np.ndarray, "n b"],
    laws: UInt64[np.ndarray, "2 s 3"],
    out: Int32[np.ndarray, "n"],
) -> None:
    """Randomized response on a row's candidates, by the law of a label outside and of one inside of so many."""


@kernel("room", "places", "out", "mass")
def best_candidates(
    prior: Float64[np.ndarray, "n k"],
    gain: float,
    room: Float64[np.ndarray, "k"],
    places: Int64[np.ndarray, "k"],
    out: UInt8[np.ndarray, "n b"],
    mass: Float64[np.ndarray, "n"],
) -> None:
    """The candidates that maximise ``sum_A prior / (gain + |A|)``, and their mass."""


@kernel("room", "out", "mass")
def best_subsets(
    prior: Float64[np.ndarray, "n k"],
    values: Float64[np.ndarray, "k"],
    ahead: Float64[np.ndarray, "k"],
    room: Float64[np.ndarray, "2 k"],
    out: UInt8[np.ndarray, "n b"],
    mass: Float64[np.ndarray, "n"],
) -> None:
    """The m most likely classes, m maximising ``values[m - 1] ((sum p)**2 - sum p**2)``, and their mass."""


@kernel("out")
def copy_prior(prior: Float64[np.ndarray, "n k"], tolerance: float, out: Float64[np.ndarray, "n k"]) -> int:
    """Copy rows; the first that is not a distribution, or -1. NaN counts as invalid."""


@kernel("best", "place", "cuts", "out")
def best_groups(
    below: Float64[np.ndarray, "n e"],
    density: Float64[np.ndarray, "n e"],
    gain: float,
    most: int,
    ordered: bool,
    best: Float64[np.ndarray, "e e"],
    place: Int64[np.ndarray, "e e"],
    cuts: UInt8[np.ndarray, "2 k"],
    out: UInt8[np.ndarray, "n b"],
) -> None:
    """The cuts of classes into groups whose randomized response is most informative, as packed first classes."""


@kernel("out")
def draw_points(
    codes: Int32[np.ndarray, "n"],
    words: UInt64[np.ndarray, "n w"],
    order: int,
    firsts: Int64[np.ndarray, "t"],
    normals: Int32[np.ndarray, "k 3"],
    member: Word,
    rest: Word,
    favoured: int,
    others: int,
    out: Int32[np.ndarray, "n"],
) -> bool:
    """Points orthogonal to that of the label if ``u < member``, else points that are not; False without words."""


@kernel("out")
def write_masks(
    released: Int32[np.ndarray, "n"],
    order: int,
    firsts: Int64[np.ndarray, "t"],
    out: Bool[np.ndarray, "n k"],
) -> bool:
    """The classes, in columns, whose points are orthogonal to each released one."""
