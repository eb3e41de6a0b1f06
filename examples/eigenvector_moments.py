"""Sums of eigenvectors by class: one answer of a trusted curator, and heads of any penalty fitted to optimality.

The eigenvectors are those of the graph that joins each row with its nearest neighbours. Features are public, so that
they cost nothing; what a linear head needs of the labels is linear in them, so that it can be asked for once.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from labeldp import Classes, Curator, LabelMoments
from labeldp.learning.cells import embed
from labeldp.learning.sklearn import MomentClassifier

pixels, digits = load_digits(return_X_y=True)
features, new_features, labels, truth = train_test_split(pixels, digits, test_size=0.3, random_state=0)
space = Classes(range(10))
embedding = embed(features, neighbours=10, eigenvectors=12)
places, new_places = embedding.places, embedding.transform(new_features)

for epsilon in (0.5, 1.0, 3.0):
    answer = Curator(labels, space).answer(LabelMoments(space, epsilon, 1e-6, places))
    model = MomentClassifier().fit(places, answer)
    right = np.mean(model.predict(new_places) == truth)  # a figure of this example: in earnest it is not computed
    print(f"epsilon {epsilon:g}: noise of {answer.noise_deviation:.1f}, {right:.1%} of {len(truth)} new rows right")

print(answer.guarantee.sentence())
