"""A trusted curator names clusters of public features, which labels the table at a small epsilon.

Features are public, so clustering them costs nothing. Labels are needed only to name the clusters.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from labeldp import Classes, Curator, NoisyHistogram
from labeldp.learning.cells import cluster, suggested_count
from labeldp.learning.sklearn import CellClassifier

pixels, digits = load_digits(return_X_y=True)
features, new_features, labels, truth = train_test_split(pixels, digits, test_size=0.3, random_state=0)
space = Classes(range(10))

for epsilon in (0.1, 0.5, 1.0):
    clusters = cluster(features, suggested_count(len(features), space.size, epsilon), "graph")
    answer = Curator(labels, space).answer(NoisyHistogram(space, epsilon, clusters.numbers, clusters.count))
    model = CellClassifier(clusters).fit(features, answer)
    right = np.mean(model.predict(new_features) == truth)  # for this example only
    print(f"epsilon {epsilon:g}: {right:.1%} of {len(truth)} new rows right by the names of {clusters.count} clusters")

print(answer.guarantee.sentence())
