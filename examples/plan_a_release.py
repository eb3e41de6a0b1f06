"""Plan before spending any budget: the best mechanism, its expected error, and the epsilon for a target."""

from labeldp import Interval
from labeldp.bounds import Conventions, forecast, rate

# Ages from 0 to 100, 50,000 rows, features with an effective dimension of three. No label is needed for any of it.
# From labels that are randomized alone a linear model is learned; a curator answers with the mean label of each cell of
# similar rows, a coarser model, whose error without privacy is larger, too.
ages = Interval(0, 100, 5)
for trust in ("local", "central"):
    result = forecast(ages, rows=50_000, epsilon=1.0, trust=trust, epsilons=(), conventions=Conventions(dimension=3))
    best = result.best
    model = {"local": "linear model", "central": "means of cells"}[trust]
    clean = f"from true labels {result.clean_error:.1f}"
    print(f"{trust:8} {best.mechanism}, {model}: error {best.error:.1f} years; {clean}")
    print(f"{'':8} {best.effective_rows:,} effective rows; with twice the rows: {result.doubled:.1f} years")

# A target instead of an epsilon: the smallest epsilon that reaches it, or the number of rows needed.
for target in (5.0, 1.0):
    goal = forecast(
        ages, rows=50_000, target=target, trust="central", epsilons=(), conventions=Conventions(dimension=3)
    ).goal
    print(f"{target} years:", f"epsilon {goal.epsilon:.2g}" if goal.epsilon else f"needs {goal.rows:,} rows")

# Theory: the decay of errors with rows.
for problem in ("regression", "heavy-tailed"):
    slope = rate("local", problem, dimension=3, moments=2.5).rows
    print(f"{problem}: the squared error falls as rows^-{slope:.2f}")
