"""What is possible: rates, limits and plans. Formulas only; no label and no table is read here."""

from labeldp.bounds._attack_limits import attack_limit, conditional_attack_limit, pure_attack_limit
from labeldp.bounds._bound import Bound
from labeldp.bounds._classification_limits import (
    central_classification_lower,
    central_classification_upper,
    local_classification_lower,
    local_classification_upper,
    rows_to_name,
)
from labeldp.bounds._cluster_limits import cluster_precision, cluster_response_risk, cluster_risk, peer_risk
from labeldp.bounds._convex_descent import convex_channel_upper, convex_subset_upper, convex_vector_upper
from labeldp.bounds._convex_limits import (
    convex_candidates_upper,
    convex_empirical_lower,
    convex_gaussian_upper,
    convex_local_lower,
    convex_local_upper,
    convex_population_lower,
    convex_response_upper,
    prior_generalization,
)
from labeldp.bounds._convex_lower import convex_sequential_lower
from labeldp.bounds._convex_rates import ConvexRate, convex_rate
from labeldp.bounds._effective_dimension import EffectiveDimension, effective_dimension
from labeldp.bounds._feature_limits import features_divergence, label_divergence_lower
from labeldp.bounds._forecast import Forecast, Goal, Prospect, forecast
from labeldp.bounds._plan import EPSILONS, Option, Plan, plan
from labeldp.bounds._rates import Rate, Term, free_epsilon, rate, rate_table
from labeldp.bounds._regression_limits import (
    central_heavy_lower,
    central_heavy_upper,
    central_regression_lower,
    central_regression_upper,
    local_heavy_lower,
    local_heavy_upper,
    local_regression_lower,
    local_regression_upper,
)
from labeldp.bounds._regularity import Regularity

__all__ = [
    "EPSILONS",
    "Bound",
    "ConvexRate",
    "EffectiveDimension",
    "Forecast",
    "Goal",
    "Option",
    "Plan",
    "Prospect",
    "Rate",
    "Regularity",
    "Term",
    "attack_limit",
    "central_classification_lower",
    "central_classification_upper",
    "central_heavy_lower",
    "central_heavy_upper",
    "central_regression_lower",
    "central_regression_upper",
    "cluster_precision",
    "cluster_response_risk",
    "cluster_risk",
    "conditional_attack_limit",
    "convex_candidates_upper",
    "convex_channel_upper",
    "convex_empirical_lower",
    "convex_gaussian_upper",
    "convex_local_lower",
    "convex_local_upper",
    "convex_population_lower",
    "convex_rate",
    "convex_response_upper",
    "convex_sequential_lower",
    "convex_subset_upper",
    "convex_vector_upper",
    "effective_dimension",
    "features_divergence",
    "forecast",
    "free_epsilon",
    "label_divergence_lower",
    "local_classification_lower",
    "local_classification_upper",
    "local_heavy_lower",
    "local_heavy_upper",
    "local_regression_lower",
    "local_regression_upper",
    "peer_risk",
    "plan",
    "prior_generalization",
    "pure_attack_limit",
    "rate",
    "rate_table",
    "rows_to_name",
]
