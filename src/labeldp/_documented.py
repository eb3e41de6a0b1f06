"""The module name of a class that saved files hold: the package that documents it."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def documented_in(package: str) -> Callable[[type[T]], type[T]]:
    """Set the ``__module__`` of a class to the package that exports it, so that saved files name no private module."""

    def rename(kind: type[T]) -> type[T]:
        kind.__module__ = package
        return kind

    return rename
