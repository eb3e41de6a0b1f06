"""Losses of released labels: likelihoods, unbiased vectors and numbers, and scores to choose by."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
