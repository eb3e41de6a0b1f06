"""Registries of kinds: the final classes of this package's files and of other distributions, by name.

Another distribution adds kinds by entry points in the group ``labeldp.mechanisms``, each of which names a class. A
class that brings others with it, as a randomizer brings its channel, names them in ``brings``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import entry_points
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

    def find(self, name: object) -> type[T]:
        """The kind of a name, of this distribution or of another.

        Raises:
            InputError: There is no such kind, several distributions define it, or the class lacks members.
        """
        return self._found(name)[0]

    def known(self, name: object) -> bool:
        """True if there is a kind of that name."""
        try:
            return bool(self.find(name))
        except InputError:
            return False

    def of_law(self, law: Mapping[str, Any]) -> type[T]:
        """The kind of a law in a certificate.

        Raises:
            VerificationError: It is unknown, or defined by another distribution than the law says. The distribution
                that the law says is named.
        """
        package = law.get("package")
        try:
            kind, found = self._found(law.get("kind"))
        except InputError as problem:
            says = isinstance(package, str) and _DISTRIBUTION.fullmatch(package)
            source = f"; the certificate says that the distribution {package!r} defines it" if says else ""
            raise VerificationError(f"{problem}{source}") from None
        if package != found:
            raise VerificationError(
                f"expected the {self.what} {law.get('kind')!r:.100} of {_distribution(package)}, found that of "
                f"{_distribution(found)}"
            )
        return kind

    def distribution_of(self, kind: type[T]) -> str | None:
        """The name of the distribution that defines a kind; None for this one.

        Raises:
            InputError: It is not registered.
        """
        self.check(kind)
        return self._found(getattr(kind, self.attribute))[1]

    def check(self, kind: type[T]) -> None:
        """Refuse a class that cannot be found again by its name: what it charges for could not be read back.

        Raises:
            InputError: The class is not registered, or another one has its name.
        """
        name = getattr(kind, self.attribute, None)
        if not self.known(name) or self.find(name) is not kind:
            raise InputError(
                f"expected a registered {self.what}, found {kind.__name__}; its distribution must name it in an entry "
                f"point of the group {GROUP!r}, under a name of its own, for otherwise no release of it could be saved "
                "or verified"
            )

    def _found(self, name: object) -> tuple[type[T], str | None]:
        """The kind of a name, and the distribution that defines it unless it is this one."""
        if isinstance(name, str) and name in self.own:
            return self.own[name], None
        others: dict[type[T], str] = {}
        broken = []
        for point in entry_points(group=GROUP):
            source = point.dist.name if point.dist else point.module
            try:
                loaded = point.load()
            except Exception:  # noqa: BLE001 (a broken distribution must not break the others)
                broken.append(source)
            else:
                others |= dict.fromkeys(self._named(loaded, name), source)
        if len(others) > 1:
            raise InputError(
                f"expected one {self.what} {name!r:.100}, found several, of {', '.join(sorted(others.values()))}; "
                "uninstall all but one"
            )
        if not others:
            failed = f"; distributions that could not be loaded: {', '.join(broken)}" if broken else ""
            raise InputError(f"expected a known {self.what}, found {name!r:.100}; known: {', '.join(self.own)}{failed}")
        return others.popitem()

    def _of_files(self) -> Iterator[type[T]]:
        """The final classes of the package's files, some of them more than once."""
        package = importlib.import_module(self.package)
        for file in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
            if not file.endswith("_kernels"):
                for found in vars(importlib.import_module(f"{self.package}.{file}")).values():
                    if inspect.isclass(found) and issubclass(found, self.base) and not inspect.isabstract(found):
                        yield found

    def _named(self, loaded: object, name: object) -> list[type[T]]:
        """The kind of an entry point, or one that it brings, that has the name; its members are checked."""
        kinds = [kind for kind in (loaded, *getattr(loaded, "brings", ())) if inspect.isclass(kind)]
        named = [kind for kind in kinds if issubclass(kind, self.base) and getattr(kind, self.attribute, None) == name]
        for kind in named:
            if missing := sorted(getattr(kind, "__abstractmethods__", ())):
                raise InputError(f"expected a complete {self.what} {name!r}, found none of: {', '.join(missing)}")
        return named


def _distribution(package: object) -> str:
    return "labeldp" if package is None else f"the distribution {package!r:.100}"
