"""A trusted curator names clusters of public features, and that alone labels the table at a small epsilon.

Features are public, so finding groups in them costs nothing. Labels are needed to name the groups alone.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from labeldp import Classes, Curator, NoisyHistogram
from labeldp.learning.clusters import cluster, suggested_count
from labeldp.learning.sklearn import CellClassifier, SoftLabelClassifier

pixels, digits = load_digits(return_X_y=True)
features, new_features, labels, truth = train_test_split(pixels, digits, test_size=0.3, random_state=0)
space = Classes(range(10))

for epsilon in (0.1, 0.5, 1.0):
    clusters = cluster(features, suggested_count(len(features), 10, epsilon), "graph")
    query = NoisyHistogram(space, epsilon, cells=clusters.numbers, cell_count=clusters.count)
    answer = Curator(labels, space).answer(query)
    models = (
        CellClassifier(clusters).fit(features, answer),
        SoftLabelClassifier().fit(features / 16, answer, clusters),
    )
    # figures of this example: in earnest they are not computed
    table, smooth = (np.mean(each.predict(x) == truth) for each, x in zip(models, (new_features, new_features / 16)))
    print(
        f"epsilon {epsilon:g}: {clusters.count} clusters, {table:.1%} of new rows by table, {smooth:.1%} by regression"
    )

print(answer.guarantee.sentence())
