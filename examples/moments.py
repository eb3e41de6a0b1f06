"""A trusted curator answers once with sums of features by class, which fit linear heads to optimality.

The loss of a ridge head is linear in the labels, and everything else in it is public. So one answer serves every
regularizer. Normalizing the rows and reducing the dimension keeps the noise small relative to the sums.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from labeldp import Classes, Curator, LabelMoments

pixels, digits = load_digits(return_X_y=True)
pixels, new_pixels, labels, truth = train_test_split(pixels, digits, test_size=0.3, random_state=0)
space = Classes(range(10))

public = make_pipeline(PCA(16, whiten=True, random_state=0), Normalizer()).fit(pixels)
features, new_features = public.transform(pixels), public.transform(new_pixels)
gram = features.T @ features

for epsilon in (0.5, 1.0, 3.0):
    answer = Curator(labels, space).answer(LabelMoments(space, epsilon, 1e-6, features))
    noise = answer.standard_error.max()
    head = np.linalg.solve(gram + noise * np.eye(len(gram)), answer.value)
    right = np.mean((new_features @ head).argmax(axis=1) == truth)  # for this example only
    print(f"epsilon {epsilon:g}: noise of {noise:.1f} on each sum, {right:.1%} of {len(truth)} right")

print(answer.guarantee.sentence())
