"""Linear heads on fixed features: softmax regression by L-BFGS, and heads from noisy moments, and kernels from sums."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
