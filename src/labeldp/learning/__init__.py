"""What is learned: losses, learners and metrics for released labels. No true label comes here.

The doors are modules: ``labeldp.learning.sklearn``, ``labeldp.learning.metrics``, ``labeldp.learning.tables`` and
``labeldp.learning.clusters``.
"""

__all__: list[str] = []
