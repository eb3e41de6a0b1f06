"""Answers from released labels at no privacy cost: prediction sets, effects, coefficients, with their confidence."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = ["coefficients", "describe", "mean_difference", "prediction_sets", "treatment_effect"]
