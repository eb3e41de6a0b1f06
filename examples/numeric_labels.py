"""Release a numeric label, learn a model, and estimate its error, all from released numbers."""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp import BinResponse, Curator, Interval, PiecewiseResponse, Release
from labeldp.learning.metrics import mean_label, mean_squared_error, squared_gain
from labeldp.learning.sklearn import ReleasedLabelRegressor

# 442 patients, repeated to have enough rows for the noise; repeated rows are randomized independently.
data = load_diabetes(scaled=False)
features, progress = np.tile(data.data, (20, 1)), np.tile(data.target, 20)
space = Interval(25.0, 350.0, 5.0)
ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 6, 15)))

release = Curator(progress, space).randomize(PiecewiseResponse(space, epsilon=2.0))
train, held_out = release[:6000], release[6000:]
model = ReleasedLabelRegressor(ridge).fit(features[:6000], train)
predicted = model.predict(features[6000:])

print(f"each label was randomized at epsilon {release.guarantee.epsilon:g}")
print(f"mean label: {mean_label(release).value:.0f}, true {progress.mean():.0f}")
released_error, true_error = (
    mean_squared_error(labels, predicted) for labels in (held_out, Release.public(progress[6000:], space))
)
print(
    f"RMSE estimated from released labels: {max(released_error.value, 0) ** 0.5:.0f}, true {true_error.value**0.5:.0f}"
)
print(f"MSE improvement over predicting the midpoint: {squared_gain(held_out, predicted).value:.0f}")

# Bins shrink numbers towards the middle. The likelihood method corrects for that; the plain method does not.
bins = Curator(progress, space).randomize(BinResponse(space, 2.0, np.full(space.size, 1 / space.size)))
for method in ("plain", "likelihood"):
    spread = np.std(ReleasedLabelRegressor(ridge, method=method).fit(features, bins).predict(data.data))
    print(f"bins, {method}: standard deviation of predictions {spread:.0f}")
print(f"a model of true labels: {np.std(ridge.fit(features, progress).predict(data.data)):.0f}")
