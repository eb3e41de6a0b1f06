"""What is learned: losses, learners and metrics for released labels. No true label comes here.

The doors are modules: ``labeldp.learning.sklearn`` and ``labeldp.learning.metrics``.
"""

__all__: list[str] = []
