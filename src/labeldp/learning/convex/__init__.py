"""Projected stochastic gradient descent on convex losses, from released labels or interactively."""

import lazy_loader

from labeldp._extras import require_extra

require_extra("sklearn", "sklearn", "threadpoolctl")
__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "Ball",
    "ConvexClassifier",
    "ConvexRegressor",
    "Unconstrained",
    "fit_interactively",
]
