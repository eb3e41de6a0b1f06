"""Many small adaptive queries: a budget spent by adding epsilons ends sooner than a concentrated (zCDP) one.

An analyst looks for columns that distinguish digits. Each query is a noisy histogram of the labels on both sides of the
median of one column, and the answer decides the next column. The budget is the guarantee of all queries together.
"""

import numpy as np
from sklearn.datasets import load_digits

from labeldp import Budget, Classes, Curator, NoisyHistogram
from labeldp.errors import BudgetError

features, digits = load_digits(return_X_y=True)
space = Classes(range(10))
sides = (features > np.median(features, axis=0)).astype(np.int64)


def allowed_queries(budget, epsilon, maximum):
    """Number of queries that a budget allows, up to a maximum."""
    curator, column = Curator(digits, space, budget=budget), 0
    for count in range(maximum):
        try:
            counts = curator.answer(NoisyHistogram(space, epsilon, sides[:, column], cell_count=2)).value
        except BudgetError:
            return count
        column = (column + 1 + int(np.abs(counts[0] - counts[1]).argmax())) % sides.shape[1]
    return maximum


by_sums, by_rho = Budget(2.0, 1e-6), Budget(2.0, 1e-6, concentrated=True)
for epsilon, most in ((0.1, 50), (0.05, 150)):
    print(
        f"of {most} queries at epsilon {epsilon:g} a budget of epsilon {by_rho.epsilon:g} and delta {by_rho.delta:g} "
        f"allows {allowed_queries(by_sums, epsilon, most)} by sums, "
        f"{allowed_queries(by_rho, epsilon, most)} concentrated"
    )
