"""What is learned: losses, learners and metrics for released labels. No true label comes here.

The doors are modules: ``labeldp.learning.sklearn``, ``labeldp.learning.metrics``, ``labeldp.learning.tables``,
``labeldp.learning.clusters``, ``labeldp.learning.priors`` and ``labeldp.learning.stages``.
"""

__all__: list[str] = []
