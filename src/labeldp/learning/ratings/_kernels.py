"""Compiled loops over rows of the sampler; random numbers come from outside."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp._native import kernel

if TYPE_CHECKING:
    import numpy as np

    from labeldp._shapes import Float64, Int64


@kernel("out")
def scores_of(
    users: Int64[np.ndarray, "n"],
    items: Int64[np.ndarray, "n"],
    of_users: Float64[np.ndarray, "u d"],
    of_items: Float64[np.ndarray, "v d"],
    out: Float64[np.ndarray, "n"],
) -> None:
    """The score of each pair: both biases, and the product of the factors."""


@kernel("products", "sums")
def normal_equations(
    own: Int64[np.ndarray, "n"],
    other: Int64[np.ndarray, "n"],
    values: Float64[np.ndarray, "v d"],
    latent: Float64[np.ndarray, "n"],
    weights: Float64[np.ndarray, "n"],
    products: Float64[np.ndarray, "u d d"],
    sums: Float64[np.ndarray, "u d"],
) -> None:
    """Add to each user's precision (its lower triangle) and sum what its rows add, given the other side."""


@kernel("out")
def add_probabilities(
    scores: Float64[np.ndarray, "n"],
    rates: Float64[np.ndarray, "n"],
    cuts: Float64[np.ndarray, "c"],
    out: Float64[np.ndarray, "n k"],
) -> None:
    """Add the class probabilities of each score; ``rates`` are inverse standard deviations."""


@kernel()
def log_likelihood(
    scores: Float64[np.ndarray, "n"],
    rates: Float64[np.ndarray, "n"],
    cuts: Float64[np.ndarray, "c"],
    likelihood: Float64[np.ndarray, "n k"],
) -> float:
    """The log likelihood of cut points, with latent numbers integrated out."""


@kernel("slopes", "gradient", "information")
def slopes_of_cuts(
    scores: Float64[np.ndarray, "n"],
    rates: Float64[np.ndarray, "n"],
    cuts: Float64[np.ndarray, "c"],
    likelihood: Float64[np.ndarray, "n k"],
    slopes: Float64[np.ndarray, "c"],
    gradient: Float64[np.ndarray, "c"],
    information: Float64[np.ndarray, "c c"],
) -> None:
    """Add the gradient of the log likelihood in the cut points, and the sum of its outer products over rows."""


@kernel("room", "out")
def draw_places(
    scores: Float64[np.ndarray, "n"],
    rates: Float64[np.ndarray, "n"],
    cuts: Float64[np.ndarray, "c"],
    likelihood: Float64[np.ndarray, "n k"],
    uniform: Float64[np.ndarray, "n 2"],
    room: Float64[np.ndarray, "r"],
    out: Float64[np.ndarray, "n"],
) -> None:
    """The quantile of a latent number around each score, of a class drawn in proportion to the weights.

    ``uniform`` has two numbers for each row: one for the class, one for the place inside it. ``room`` has two numbers
    for each class and one more.
    """
