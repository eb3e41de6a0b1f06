"""Answers from released labels: effects and coefficients with confidence intervals, at no privacy cost."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = ["coefficients", "mean_difference", "treatment_effect"]
