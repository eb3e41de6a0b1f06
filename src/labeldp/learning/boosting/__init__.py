"""The likelihood of released labels as objective and metric of gradient boosting libraries."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "leaf_information",
    "lightgbm_dataset",
    "lightgbm_metric",
    "lightgbm_objective",
    "start_scores",
    "xgboost_metric",
    "xgboost_objective",
]
