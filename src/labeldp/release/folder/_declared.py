"""Declarations of a publisher about a release as a data set: its license and its name."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Self

from labeldp._strict_json import strict_json
from labeldp.errors import InputError

_LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,59}")
_MOST_NAME = 200
#: A line of a data card, or of Croissant metadata, that declares something; the value is in JSON.
_LINE = re.compile(r'^(license|pretty_name| "license"): (".*"),?$', re.MULTILINE)


@dataclass(frozen=True)
class Declared:
    """Declarations of a publisher, which no certificate has; None if there is none.

    Attributes:
        license: The identifier of a license, such as ``cc-by-4.0``.
        name: The name of the data set for people.
    """

    license: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.license is not None and not _LICENSE.fullmatch(self.license):
            raise InputError(
                "expected the identifier of a license in at most 60 letters, digits, dots, + and -, found another "
                "value; write for example cc-by-4.0"
            )
        if self.name is not None and not (
            self.name.strip() and self.name.isprintable() and len(self.name) <= _MOST_NAME
        ):
            raise InputError(f"expected a name of 1 to {_MOST_NAME} printable characters, found another value")

    @classmethod
    def read(cls, text: str) -> Self:
        """The declarations that a derived file states.

        Raises:
            InputError: One is of no form that is written.
        """
        found: dict[str, str] = {}
        for key, value in _LINE.findall(text):
            found.setdefault(key.strip(' "'), _text(value))
        return cls(found.get("license"), found.get("pretty_name"))

    def shown(self, key: str) -> str | None:
        """A declaration in JSON, which is YAML too."""
        value = getattr(self, key)
        return None if value is None else json.dumps(value, ensure_ascii=False)


def _text(value: str) -> str:
    """The text that a value in JSON stands for.

    Raises:
        InputError: It is none.
    """
    try:
        return str(strict_json(value))
    except ValueError:
        raise InputError("expected a declaration as a text in JSON, found something else") from None
