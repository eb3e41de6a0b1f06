"""Convex learning from released labels: descent in which each label is used once, and what it is made of.

One algorithm serves every randomizer: a released label pulls with its unbiased vector, and the length of steps follows
from a bound of its noise. ``fit_interactively`` asks a curator for one noisy gradient of each label instead.
"""

from __future__ import annotations

from labeldp.learning._convex_learners import ConvexClassifier, ConvexRegressor
from labeldp.learning._convex_losses import (
    AbsoluteLoss,
    CustomLoss,
    HingeLoss,
    HuberLoss,
    LinearLoss,
    SoftmaxLoss,
    SquaredLoss,
)
from labeldp.learning._descent import FewRowsWarning
from labeldp.learning._interactive import fit_interactively
from labeldp.learning._regions import Ball, Box, Everywhere, Simplex

__all__ = [
    "AbsoluteLoss",
    "Ball",
    "Box",
    "ConvexClassifier",
    "ConvexRegressor",
    "CustomLoss",
    "Everywhere",
    "FewRowsWarning",
    "HingeLoss",
    "HuberLoss",
    "LinearLoss",
    "Simplex",
    "SoftmaxLoss",
    "SquaredLoss",
    "fit_interactively",
]
