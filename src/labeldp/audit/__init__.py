"""What is shown: how much a mechanism, a release or a trained pipeline really gives away."""

from labeldp.audit._audit import Audit
from labeldp.audit._sampled import audit_mechanism

__all__ = [
    "Audit",
    "audit_mechanism",
]
