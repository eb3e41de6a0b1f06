"""What is shown: how much a mechanism, a release or a trained pipeline really gives away."""

from labeldp.audit._audit import Audit

__all__ = [
    "Audit",
]
