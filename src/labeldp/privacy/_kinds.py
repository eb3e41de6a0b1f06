"""Registries of kinds: the final classes of this package's files and of other distributions, by name.

Another distribution adds kinds by entry points in the group ``labeldp.mechanisms``, each of which names a class. A
class that brings others with it, as a randomizer brings its channel, names them in ``brings``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from labeldp.errors import InputError, VerificationError

T = TypeVar("T")

GROUP = "labeldp.mechanisms"

#: Names of distributions that are repeated in messages.
_DISTRIBUTION = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Kinds(Generic[T]):
    """The final classes of a base by name; files of a package are imported when a name is first looked up.

    Attributes:
        base: The abstract base.
        attribute: The class attribute with the name of a kind.
        package: The package whose files define the kinds of this distribution.
        what: The noun for messages.
        reserved: Returns the names that other distributions cannot take.
    """

    base: type[Any]
    attribute: str
    package: str
    what: str
    reserved: Callable[[], Collection[str]] = tuple

    @cached_property
    def own(self) -> Mapping[str, type[T]]:
        """The kinds of this distribution, in the order of their files."""
        kinds: dict[str, type[T]] = {}
        for kind in self._of_files():
            name = getattr(kind, self.attribute)
            if kinds.setdefault(name, kind) is not kind:
                raise InputError(f"expected each {self.what} to have a name of its own, found {name!r} twice")
        return MappingProxyType(kinds)

    def find(self, name: object, distribution: object = None) -> type[T]:
        """The kind of a name, of this distribution or of another.

        Args:
            name: The name.
            distribution: The distribution that is said to define it; for the message.

        Raises:
            InputError: There is no such kind, several distributions define it, or the class lacks members.
        """
        if isinstance(name, str) and name in self.own:
            return self.own[name]
        others = self._others(name)
        if not others:
            said = isinstance(distribution, str) and _DISTRIBUTION.fullmatch(distribution)
            where = f"; install {distribution!r}, which defines it" if said else ""
            broken = [origin for origin, kind in _foreign_classes(tuple(sys.path)) if kind is None]
            failed = f"; distributions that could not be loaded: {', '.join(broken)}" if broken else ""
            raise InputError(
                f"expected a known {self.what}, found {name!r:.100}{where}; known: {', '.join(self.own)}{failed}"
            )
        if len(others) > 1:
            raise InputError(
                f"expected one {self.what} {name!r:.100}, found it in {', '.join(sorted(others))}; uninstall all "
                "but one"
            )
        (kind,) = others.values()
        if missing := [each for each in _missing(kind) if each != self.attribute]:
            raise InputError(f"expected a complete {self.what} {name!r}, found none of: {', '.join(missing)}")
        return kind

    def of_law(self, law: Mapping[str, Any]) -> type[T]:
        """The kind of a law in a certificate, which names the distribution of a foreign kind as its ``package``.

        Raises:
            VerificationError: It is unknown, or defined by another distribution than the law says.
        """
        name, package = law.get("kind"), law.get("package")
        try:
            kind = self.find(name, package)
        except InputError as problem:
            raise VerificationError(str(problem)) from None
        if package != (found := self.distribution(name)):
            raise VerificationError(
                f"expected the {self.what} {name!r:.100} of {package or 'labeldp'!r:.100}, found that of "
                f"{found or 'labeldp'!r}"
            )
        return kind

    def every(self) -> tuple[type[T], ...]:
        """All kinds: those of this distribution, and the complete ones of others."""
        foreign = {getattr(kind, self.attribute, None) for kind in self._foreign()} - set(self.own)
        return (*self.own.values(), *(self.find(str(name)) for name in foreign if self.known(name)))

    def distribution(self, name: object) -> str | None:
        """The name of the other distribution that defines a kind; None for those of this one, and unknown ones."""
        return None if name in self.own else next(iter(self._others(name)), None)

    def known(self, name: object) -> bool:
        """True if there is a kind of that name."""
        try:
            return bool(self.find(str(name)))
        except InputError:
            return False

    def check(self, kind: type[T]) -> None:
        """Refuse a class that cannot be found again by its name: what it charges for could not be read back."""
        name = getattr(kind, self.attribute, None)
        if not self.known(name) or self.find(name) is not kind:
            raise InputError(
                f"expected a registered {self.what}, found {kind.__name__}; its distribution must name it in an entry "
                f"point of the group {GROUP!r}, under a name of its own, for otherwise no release of it could be saved "
                "or verified"
            )

    def _of_files(self) -> Iterator[type[Any]]:
        """The final classes of the package's files, some of them more than once."""
        package = importlib.import_module(self.package)
        for file in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
            if not file.endswith("_kernels"):
                for found in vars(importlib.import_module(f"{self.package}.{file}")).values():
                    if inspect.isclass(found) and issubclass(found, self.base) and not inspect.isabstract(found):
                        yield found

    def _others(self, name: object) -> dict[str, type[T]]:
        """The classes of a name in other distributions, by distribution."""
        return {origin: kind for kind, origin in self._foreign().items() if getattr(kind, self.attribute, None) == name}

    def _foreign(self) -> dict[type[T], str]:
        """The classes of other distributions below the base, and their distributions."""
        classes = _foreign_classes(tuple(sys.path))
        mine = {kind: origin for origin, kind in classes if kind is not None and issubclass(kind, self.base)}
        reserved = self.reserved() if mine else ()
        return {kind: origin for kind, origin in mine.items() if getattr(kind, self.attribute, None) not in reserved}


@lru_cache(maxsize=4)
def _foreign_classes(path: tuple[str, ...]) -> tuple[tuple[str, type[Any] | None], ...]:
    """The classes that entry points name, and those that these bring, with their distributions; None for a broken one.

    Args:
        path: Where distributions are looked for; results are kept for it, since looking takes milliseconds.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 (it loads slowly)

    del path
    return tuple(pair for point in entry_points(group=GROUP) for pair in _of_entry(point))


def _of_entry(point: Any) -> list[tuple[str, type[Any] | None]]:
    """The kinds of an entry point, which is another library's where that took the place of Python's own finder."""
    origin = point.dist.name if point.dist is not None else point.module
    try:
        loaded = point.load()
        return [(origin, kind) for kind in (loaded, *getattr(loaded, "brings", ())) if inspect.isclass(kind)]
    except Exception:  # noqa: BLE001 (a broken distribution must not break the others)
        return [(origin, None)]


def _missing(kind: type[Any]) -> list[str]:
    """The members that a class must have and lacks: abstract ones, and declared class variables without a value."""
    declared = {
        name
        for each in kind.__mro__
        for name, hint in vars(each).get("__annotations__", {}).items()
        if str(hint).startswith("ClassVar") and not hasattr(kind, name)
    }
    return sorted({*getattr(kind, "__abstractmethods__", ()), *declared})
