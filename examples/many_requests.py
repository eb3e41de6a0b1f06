"""Many small requests, each chosen by the answers before it: a budget by sums ends sooner than a concentrated one.

An analyst looks for the columns that tell digits apart. Each request is a noisy histogram of the labels on both sides
of the middle of one column, and the answer decides which column is next. What all of it promises is the budget.
"""

import numpy as np
from sklearn.datasets import load_digits

from labeldp import Budget, Classes, Curator, NoisyHistogram
from labeldp.errors import BudgetError

features, digits = load_digits(return_X_y=True)
space = Classes(range(10))
sides = (features > np.median(features, axis=0)).astype(np.int64)


def answered(budget, epsilon, most):
    """How many requests a budget allows, at most so many."""
    curator, column = Curator(digits, space, budget=budget), 0
    for count in range(most):
        try:
            counts = curator.answer(NoisyHistogram(space, epsilon, sides[:, column], cell_count=2)).value
        except BudgetError:
            return count
        column = (column + 1 + int(np.abs(counts[0] - counts[1]).argmax())) % sides.shape[1]
    return most


by_sums, by_rho = Budget(2.0, 1e-6), Budget(2.0, 1e-6, concentrated=True)
for epsilon, most in ((0.1, 50), (0.05, 150)):
    print(
        f"of {most} requests at epsilon {epsilon:g} a budget of epsilon {by_rho.epsilon:g} and delta {by_rho.delta:g} "
        f"allows {answered(by_sums, epsilon, most)} by sums, {answered(by_rho, epsilon, most)} concentrated"
    )
