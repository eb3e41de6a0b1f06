"""Learn a linear model from a release larger than memory: batch by batch, each released label used once."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.preprocessing import StandardScaler

from labeldp import Classes, Release, public_columns, release_batches, release_table
from labeldp.learning.convex import ConvexClassifier
from labeldp.learning.metrics import accuracy
from labeldp.learning.sklearn import SoftmaxRegression

# A table on disk: people's means of travel, which are private, and five public columns.
random, space = np.random.default_rng(0), Classes(["bus", "car", "foot", "train"])
scales = np.array([1.0, 10.0, 100.0, 1.0, 1.0])
taste = 1.5 * random.normal(size=(5, 4)) / scales[:, None]


def people(rows):
    """Columns of people, and their means of travel."""
    columns = random.normal(size=(rows, 5)) * scales
    return columns, np.array(space.points)[np.argmax(columns @ taste + random.gumbel(size=(rows, 4)), axis=1)]


columns, way = people(200_000)
folder = Path(tempfile.mkdtemp())
table = pa.table({**{f"x{i}": column for i, column in enumerate(columns.T)}, "way": way})
pq.write_table(table, folder / "people.parquet")
release_table(folder / "people.parquet", "way", space, 1.0, folder / "shared", drop=[])


def features(table):
    """The columns of a batch as an array."""
    return np.column_stack([column.to_numpy() for column in table.columns])


# One pass over public columns for their scale, one over both. A batch evaluates the model before it trains it.
scaler, model = StandardScaler(), ConvexClassifier()
for table, _ in release_batches(folder / "shared"):
    scaler.partial_fit(features(table))
for table, labels in release_batches(folder / "shared"):
    batch = scaler.transform(features(table))
    if hasattr(model, "coef_"):
        estimate = accuracy(labels, model.predict(batch))
        print(
            f"after {model.steps_done_:7,} labels: accuracy {estimate.value:.1%} ± {2 * estimate.error:.1%}, "
            "by released labels"
        )
    model.partial_fit(batch, labels)

# Accuracy on other people, whose labels are public, beside a model that holds the whole release in memory.
others, truth = people(20_000)
whole = SoftmaxRegression().fit(
    scaler.transform(features(public_columns(folder / "shared"))), Release.load(folder / "shared")
)
for name, learned in (("a batch at a time", model), ("all in memory", whole)):
    right = np.mean(learned.predict(scaler.transform(others)) == truth)
    print(f"{name}, epsilon {labels.guarantee.epsilon:g}: {right:.1%} accuracy")
