"""What is learned: losses, learners and metrics for released labels. No true label comes here.

The doors are modules: ``labeldp.learning.sklearn``, ``labeldp.learning.metrics``, ``labeldp.learning.tables``,
``labeldp.learning.table_stages``, ``labeldp.learning.clusters``, ``labeldp.learning.cells``,
``labeldp.learning.generators``, ``labeldp.learning.priors``, ``labeldp.learning.rows``, ``labeldp.learning.stages``,
``labeldp.learning.torch`` and ``labeldp.learning.images``.
"""

__all__: list[str] = []
