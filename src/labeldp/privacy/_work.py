"""A limit on the work of accounting, for guarantees that are recomputed from numbers that others wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from labeldp.errors import VerificationError

#: Terms that are left to compute, in a list of one; None for no limit.
_LEFT: ContextVar[list[float] | None] = ContextVar("left", default=None)


@contextmanager
def bounded_work(terms: float) -> Iterator[None]:
    """Stop what computes more terms than these: ``spend_work`` raises a ``VerificationError`` then."""
    token = _LEFT.set([terms])
    try:
        yield
    finally:
        _LEFT.reset(token)


def spend_work(terms: float) -> None:
    """Count the terms of a sum before they are computed."""
    left = _LEFT.get()
    if left is None:
        return
    left[0] -= terms
    if left[0] < 0:
        raise VerificationError(
            "expected a guarantee that can be recomputed in about ten seconds, found one that takes longer; if you "
            "trust its maker, allow that (--long, or long=True)"
        )
