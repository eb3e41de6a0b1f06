"""Losses, learners and metrics for released labels; no function here sees a true label.

The public interface is its packages: ``sklearn``, ``metrics``, ``tables``, ``stages``, ``cells``, ``generators``,
``convex`` and ``torch``.
"""

__all__: list[str] = []
