"""Query labels in stages: a model of the first released labels helps the later ones to stay true."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from labeldp import Classes, ClassProbabilities, Curator, Release
from labeldp.learning.metrics import log_likelihood
from labeldp.learning.sklearn import SoftmaxRegression
from labeldp.learning.stages import MultiStage

features, digits = load_digits(return_X_y=True)
features = features / 16
order = np.random.default_rng(0).permutation(len(digits))  # labels are drawn from a cryptographic source below
train, held = order[:1400], order[1400:]
space = Classes(range(10))

for stages in (1, 2):
    curator = Curator(digits[train], space)
    model = MultiStage(SoftmaxRegression(l2=1e-3), epsilon=2.0, stages=stages).fit(features[train], curator)
    assert model.release_.guarantee.epsilon <= 2.0  # every label is queried once, so stages cost nothing extra
    assert curator.spent[0] <= 2.0
    right = np.mean(model.predict(features[held]) == digits[held])  # these digits are public here
    print(f"LP-{stages}ST: {right:.1%} of the held-out digits")
    for stage in model.stages_:
        print(
            f"    {len(stage.rows)} rows with {stage.candidates:.1f} candidates: "
            f"{stage.truth_probability:.0%} of the released labels are true, if the prior is right"
        )

# An interrupted run resumes from its folder with the labels already released. There is one release, one certificate.
with tempfile.TemporaryDirectory() as folder:
    curator = Curator(digits[train], space)
    settings = {"epsilon": 2.0, "directory": Path(folder) / "run"}
    first = MultiStage(SoftmaxRegression(l2=1e-3), **settings).fit(features[train], curator)
    again = MultiStage(SoftmaxRegression(l2=1e-2), **settings).fit(features[train], curator)  # nothing new is charged
    assert (first.release_.codes == again.release_.codes).all()
    assert curator.spent[0] <= 2.0
    release = Release.load(first.release_.save(Path(folder) / "shared"))
    print(log_likelihood(release, ClassProbabilities.of(first, features[train])))
    print(release.guarantee)
