"""Generators of features, fitted on public, auxiliary or paid rows."""

import lazy_loader

from labeldp._extras import require_extra

require_extra("sklearn", "sklearn", "threadpoolctl")
__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "fit_cells",
    "fit_copula",
    "open_generator",
]
