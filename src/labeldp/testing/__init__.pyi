from ._learners import check_learner as check_learner
from ._randomizers import check_query as check_query
from ._randomizers import check_randomizer as check_randomizer
from ._results import check_result as check_result
