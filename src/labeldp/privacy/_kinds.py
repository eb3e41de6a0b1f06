"""Registries of kinds: the final classes of this package's files and of other distributions, by name.

Another distribution adds kinds by entry points in the group ``labeldp.mechanisms``, each of which names a class. A
class that brings others with it, as a randomizer brings its channel, names them in ``brings``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Generic, TypeVar

from labeldp.errors import InputError

T = TypeVar("T")

GROUP = "labeldp.mechanisms"


@dataclass(frozen=True)
class Kinds(Generic[T]):
    """The final classes of a base by name; files of a package are imported when a name is first looked up.

    Attributes:
        base: The abstract base.
        attribute: The class attribute with the name of a kind.
        package: The package whose files define the kinds of this distribution.
        what: The noun for messages.
    """

    base: type[T]
    attribute: str
    package: str
    what: str

    @cached_property
    def own(self) -> Mapping[str, type[T]]:
        """The kinds of this distribution, in the order of their files.

        Raises:
            InputError: Two have one name.
        """
        kinds: dict[str, type[T]] = {}
        for kind in self._of_files():
            name = getattr(kind, self.attribute)
            if kinds.setdefault(name, kind) is not kind:
                raise InputError(f"expected each {self.what} to have a name of its own, found {name!r} twice")
        return MappingProxyType(kinds)

    def find(self, name: str) -> type[T]:
        """The kind of a name, of this distribution or of another.

        Raises:
            InputError: There is no such kind, several distributions define it, or the class lacks members.
        """
        if name in self.own:
            return self.own[name]
        others = [kind for point in entry_points(group=GROUP) for kind in self._of_entry(point, name)]
        if len(others) > 1:
            raise InputError(
                f"expected one {self.what} {name!r}, found it in several distributions; uninstall all but one"
            )
        if not others:
            raise InputError(f"expected a known {self.what}, found {name!r}; known: {', '.join(self.own)}")
        return others[0]

    def known(self, name: object) -> bool:
        """True if there is a kind of that name."""
        try:
            return bool(self.find(str(name)))
        except InputError:
            return False

    def check(self, kind: type[T]) -> None:
        """Refuse a class that cannot be found again by its name: what it charges for could not be read back.

        Raises:
            InputError: The class is not registered, or another one has its name.
        """
        name = str(getattr(kind, self.attribute, kind.__name__))
        if not self.known(name) or self.find(name) is not kind:
            raise InputError(
                f"expected a registered {self.what}, found {kind.__name__}; its distribution must name it in an entry "
                f"point of the group {GROUP!r}, for otherwise no release of it could be saved or verified"
            )

    def _of_files(self) -> Iterator[type[T]]:
        """The final classes of the package's files, some of them more than once."""
        package = importlib.import_module(self.package)
        for file in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
            if not file.endswith("_kernels"):
                for found in vars(importlib.import_module(f"{self.package}.{file}")).values():
                    if inspect.isclass(found) and issubclass(found, self.base) and not inspect.isabstract(found):
                        yield found

    def _of_entry(self, point: EntryPoint, name: str) -> list[type[T]]:
        """The class of an entry point, or one that it brings, that has the name; its members are checked."""
        try:
            loaded = point.load()
        except Exception:  # noqa: BLE001 (a broken distribution must not break the others)
            return []
        kinds = [kind for kind in (loaded, *getattr(loaded, "brings", ())) if inspect.isclass(kind)]
        named = [kind for kind in kinds if issubclass(kind, self.base) and getattr(kind, self.attribute, None) == name]
        for kind in named:
            if missing := sorted(getattr(kind, "__abstractmethods__", ())):
                raise InputError(f"expected a complete {self.what} {name!r}, found none of: {', '.join(missing)}")
        return named
