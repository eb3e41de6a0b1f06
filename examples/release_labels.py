"""Release labels from Python: declare the space, open a curator, spend a budget, save and verify."""

import tempfile
from pathlib import Path

from sklearn.datasets import load_breast_cancer

from labeldp import Classes, Curator, Release, SubsetResponse, verify
from labeldp.errors import BudgetError

data = load_breast_cancer(as_frame=True)
labels = data.target.map({0: "malignant", 1: "benign"})

space = Classes(["benign", "malignant"])
curator = Curator(labels, space, budget=1.0)
release = curator.randomize(SubsetResponse(space, epsilon=1.0))
print(release.guarantee)

folder = release.save(Path(tempfile.mkdtemp()) / "shared", table=data.data, label="diagnosis", keep="all")
print("verified:", verify(folder).holds)

again = Release.load(folder)
assert (again.codes == release.codes).all()

try:
    curator.randomize(SubsetResponse(space, epsilon=0.5))
except BudgetError as refused:
    print("a second release is refused:", refused)
