"""The likelihood of released labels as objective and metric of gradient boosting libraries."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = ["lightgbm_metric", "lightgbm_objective", "xgboost_metric", "xgboost_objective"]
