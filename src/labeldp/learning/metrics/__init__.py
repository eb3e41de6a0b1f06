"""Metrics of true labels, estimated from released ones with confidence intervals."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "UnitsWarning",
    "accuracy",
    "accuracy_scorer",
    "auc",
    "balanced_accuracy",
    "calibration",
    "confusion_matrix",
    "expected_cost",
    "log_likelihood",
    "log_likelihood_scorer",
    "log_loss",
    "mean_absolute_error",
    "mean_auc",
    "mean_label",
    "mean_squared_error",
    "r2",
    "recall",
    "squared_gain",
    "squared_scorer",
]
