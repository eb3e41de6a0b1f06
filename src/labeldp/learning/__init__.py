"""Learning from released labels; no true label is visible here.

Packages: ``losses`` and ``metrics`` (on released labels), ``features`` (encoders of rows), ``files`` (descriptions and
arrays), ``cells`` (clusters and
partitions of public features), ``sklearn`` (learners in the manner of scikit-learn), ``convex`` (stochastic gradient
descent), ``torch`` (networks and image generators), ``stages`` (multi-stage training and priors), ``generators``
(synthetic features) and ``tables`` (models of release folders).
"""

__all__: list[str] = []
