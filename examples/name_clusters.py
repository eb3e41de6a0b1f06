"""A trusted curator names clusters of public features, and that alone labels the table at a small epsilon.

Features are public, so finding groups in them costs nothing. Labels are needed to name the groups alone.
"""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from labeldp import Classes, Curator, NoisyArgmax

features, digits = load_digits(return_X_y=True)
space = Classes(range(10))
clusters = KMeans(30, n_init=4, random_state=0).fit_predict(PCA(20, random_state=0).fit_transform(features))

for epsilon in (0.1, 0.5, 1.0):
    answer = Curator(digits, space).answer(NoisyArgmax(space, epsilon, clusters))
    right = np.mean(
        np.array(answer.points())[clusters] == digits
    )  # a figure of this example: in earnest it is not computed
    print(f"epsilon {epsilon:g}: {right:.1%} of {len(digits)} rows get their digit from the name of their cluster")

print(answer.guarantee.sentence())
