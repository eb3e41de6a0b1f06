"""Reports of progress: the name of the work, and how much of it is done of how much in all."""

from __future__ import annotations

from collections.abc import Callable

#: Receives the name of the work, what is done of it, and how much it is in all (0 while unknown).
Progress = Callable[[str, int, int], None]


def silent(_name: str, _done: int, _total: int) -> None:
    """Report nothing."""
