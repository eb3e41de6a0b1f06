"""Learners of released labels in the manner of scikit-learn."""

import lazy_loader

from labeldp._extras import require_extra

require_extra("sklearn", "sklearn", "threadpoolctl")
__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "CellClassifier",
    "CellRegressor",
    "MomentClassifier",
    "MomentRegressor",
    "NeighborsClassifier",
    "NeighborsRegressor",
    "OwnFeatures",
    "RedrawnClassifier",
    "ReleasedLabelClassifier",
    "ReleasedLabelRegressor",
    "SoftLabelClassifier",
    "SoftmaxRegression",
    "TreeClassifier",
    "class_shares",
    "mean_in_cells",
    "own_share",
    "synthetic_rows",
]
