"""Plan before anything is spent: which mechanism, what error to expect, and which epsilon a target needs."""

from labeldp import Interval
from labeldp.bounds import forecast, rate
from labeldp.bounds.theorems import Regularity, central_regression_upper, local_regression_upper

# Ages from 0 to 100, 50,000 rows, features that spread in about three directions. No label is needed for any of it.
ages = Interval(0, 100, 5)
for trust in ("local", "central"):
    found = forecast(ages, rows=50_000, epsilon=1.0, dimension=3, trust=trust, epsilons=())
    best = found.best
    print(f"{trust:8} {best.mechanism}: {best.error:.1f} years off, {found.clean_error:.1f} without privacy")
    print(f"{'':8} worth {best.effective_rows:,} clean rows; twice the rows: {found.doubled:.1f} years")

# A target in place of an epsilon: the smallest that reaches it, or how many rows it would take.
for target in (5.0, 1.0):
    goal = forecast(ages, rows=50_000, target=target, dimension=3, trust="central", epsilons=()).goal
    print(f"{target} years:", f"epsilon {goal.epsilon:.2g}" if goal.epsilon else f"needs {goal.rows:,} rows")

# What the theorems say: how fast errors fall with rows, and the sizes that reach it.
for problem in ("regression", "heavy-tailed"):
    slope = rate("local", problem, dimension=3, moments=2.5).rows
    print(f"{problem}: the squared error falls as rows^-{slope:.2f}")
line = Regularity(dimension=3)
for bound in (local_regression_upper, central_regression_upper):
    told = bound(50_000, 1.0, line)
    print(told.theorem, *(f"{name} {size:.3g}" for name, size in told.sizes), f"({told.constants} constants)")
