"""Compiled loops of the losses over rows, which overwrite logits with their gradient."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp._native import kernel

if TYPE_CHECKING:
    import numpy as np

    from labeldp._shapes import Float64, UInt8


@kernel("logits")
def forward(
    logits: Float64[np.ndarray, "n k"],
    mask: UInt8[np.ndarray, "n b"],
    inside: Float64[np.ndarray, "n"],
    other: Float64[np.ndarray, "n"],
    support: UInt8[np.ndarray, "n s"],
    outside: Float64[np.ndarray, "n"],
    weights: Float64[np.ndarray, "n"],
) -> float:
    """Weighted sum of ``-log sum_j v_j p_j`` over rows; logits become its gradient, ``p - posterior``."""


@kernel("logits")
def linear(
    logits: Float64[np.ndarray, "n k"],
    mask: UInt8[np.ndarray, "n b"],
    inside: Float64[np.ndarray, "n"],
    other: Float64[np.ndarray, "n"],
    support: UInt8[np.ndarray, "n s"],
    outside: Float64[np.ndarray, "n"],
    weights: Float64[np.ndarray, "n"],
) -> float:
    """Weighted sum of ``sum_j t_j (-log p_j)``, targets summing to one; logits become its gradient, ``p - t``."""
