"""Learners of released labels and of a curator's answers, as scikit-learn estimators."""

import lazy_loader

from labeldp._extras import require_extra

require_extra("sklearn", "sklearn", "threadpoolctl")
__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "AutoClassifier",
    "AutoRegressor",
    "BoostingClassifier",
    "BoostingRegressor",
    "CalibratedClassifier",
    "CellClassifier",
    "CellRegressor",
    "EvidenceRidge",
    "KernelClassifier",
    "MomentClassifier",
    "MomentRegressor",
    "NeighborsClassifier",
    "NeighborsRegressor",
    "ReleasedLabelClassifier",
    "ReleasedLabelRegressor",
    "ResampledClassifier",
    "SoftLabelClassifier",
    "SoftmaxRegression",
    "TreeClassifier",
    "TreeRegressor",
    "mean_in_cells",
]
