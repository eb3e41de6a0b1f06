"""Sums of eigenvectors by class: one answer of a trusted curator fits heads with any penalty to optimality.

The eigenvectors are those of the nearest-neighbour graph of responses to frequent patches. Images are public, so all of
this costs nothing; a linear head depends on the labels through linear statistics, which one query answers.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from labeldp import Classes, Curator, LabelMoments
from labeldp.learning.cells import embed, suggested_eigenvectors
from labeldp.learning.images import PatchFeatures
from labeldp.learning.sklearn import MomentClassifier

pixels, digits = load_digits(return_X_y=True)
images, new_images, labels, truth = train_test_split(pixels.reshape(-1, 8, 8), digits, test_size=0.3, random_state=0)
space, patches = Classes(range(10)), PatchFeatures().fit(images)
features, new_features = patches.transform(images), patches.transform(new_images)

for epsilon in (0.5, 1.0, 3.0):
    count = suggested_eigenvectors(len(images), space.size, epsilon, 1e-6)
    embedding = embed(features, eigenvectors=count)
    places, new_places = embedding.places, embedding.transform(new_features)
    answer = Curator(labels, space).answer(LabelMoments(space, epsilon, 1e-6, places))
    model = MomentClassifier().fit(places, answer)
    right = np.mean(model.predict(new_places) == truth)  # for this example only: true labels are private in practice
    noise = answer.standard_error.max()
    print(
        f"epsilon {epsilon:g}: {count} eigenvectors, noise of {noise:.1f}, {right:.1%} of {len(truth)} new rows right"
    )

print(answer.guarantee.sentence())
