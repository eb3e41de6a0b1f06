"""A trusted curator estimates the mean claim in each cell of a public tree, despite a few very large claims.

Features are public, so cells cost nothing. Noise on a mean is proportional to the range that labels are clipped to, and
a good clipping level depends on the labels too: a tenth of epsilon pays for a quantile.
"""

import numpy as np

from labeldp import Curator, Interval, NoisyMean
from labeldp.learning.cells import mean_cells, tree_cells
from labeldp.learning.sklearn import CellRegressor, mean_in_cells

rng = np.random.default_rng(0)
age, power = rng.uniform(18, 80, 200_000), rng.gamma(4.0, 25.0, 200_000)
features = np.column_stack([age, power])  # in their own units: trees need no scaling
expected = 300.0 + 8.0 * np.abs(age - 50.0) + 1.5 * power  # the expected claim, unknown in practice
claims = expected * rng.pareto(3.0, 200_000) * 2.0
space = Interval(0, 1_000_000, 10)  # the possible claims

for epsilon in (0.2, 2.0):
    cells = tree_cells(features, mean_cells(len(claims), epsilon, dimension=2, spread=0.25))
    clipped = mean_in_cells(Curator(claims, space), cells, epsilon)
    plain = CellRegressor(cells).fit(features, Curator(claims, space).answer(NoisyMean(space, epsilon, cells)))
    low, high = clipped.range_
    print(f"epsilon {epsilon:g}: {cells.count} cells; claims clipped to {low:,.0f} and {high:,.0f}")
    for name, model in (("clipped", clipped), ("not clipped", plain)):
        off = np.sqrt(np.mean((model.predict(features) - expected) ** 2))  # for this example only
        print(f"  {name}: RMSE {off:,.0f}; predicting the mean of all rows: {expected.std():,.0f}")

for answer in clipped.answers_:
    print(answer)
print(clipped.answers_[0].guarantee.sentence())
