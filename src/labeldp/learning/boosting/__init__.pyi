from ._data import leaf_information as leaf_information
from ._data import lightgbm_dataset as lightgbm_dataset
from ._data import start_scores as start_scores
from ._objectives import lightgbm_metric as lightgbm_metric
from ._objectives import lightgbm_objective as lightgbm_objective
from ._objectives import xgboost_metric as xgboost_metric
from ._objectives import xgboost_objective as xgboost_objective
