"""A trusted curator gives the mean claim of each cell of a public tree, though a few claims are far larger than most.

Features are public, so cells cost nothing. Noise on a mean is in proportion to the range that labels are clipped to,
and what to clip to is a question about labels too: a tenth of epsilon pays for a quantile.
"""

import numpy as np

from labeldp import Curator, Interval, NoisyMean
from labeldp.learning.cells import mean_cells, tree_cells
from labeldp.learning.sklearn import CellRegressor, mean_in_cells

rng = np.random.default_rng(0)
age, power = rng.uniform(18, 80, 200_000), rng.gamma(4.0, 25.0, 200_000)
features = np.column_stack([age, power])  # in their own units: a tree does not mind
expected = 300.0 + 8.0 * np.abs(age - 50.0) + 1.5 * power  # what a claim costs on average, which nobody knows
claims = expected * rng.pareto(3.0, 200_000) * 2.0
space = Interval(0, 1_000_000, 10)  # what a claim may be

for epsilon in (0.2, 2.0):
    cells = tree_cells(features, mean_cells(len(claims), epsilon, dimension=2, spread=0.25))
    clipped = mean_in_cells(Curator(claims, space), cells, epsilon)
    plain = CellRegressor(cells).fit(features, Curator(claims, space).answer(NoisyMean(space, epsilon, cells)))
    low, high = clipped.range_
    print(f"epsilon {epsilon:g}: {cells.count} cells; claims clipped to {low:,.0f} and {high:,.0f}")
    for name, model in (("clipped", clipped), ("not clipped", plain)):
        off = np.sqrt(np.mean((model.predict(features) - expected) ** 2))  # in earnest it is not computed
        print(f"  {name}: off by {off:,.0f}, where the mean of all rows is off by {expected.std():,.0f}")

for answer in clipped.answers_:
    print(answer)
print(clipped.answers_[0].guarantee.sentence())
