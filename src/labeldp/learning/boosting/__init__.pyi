from ._data import leaf_information as leaf_information
from ._data import lightgbm_dataset as lightgbm_dataset
from ._data import start_scores as start_scores
from ._data import lightgbm_metric as lightgbm_metric
from ._data import lightgbm_objective as lightgbm_objective
from ._data import xgboost_metric as xgboost_metric
from ._data import xgboost_objective as xgboost_objective
