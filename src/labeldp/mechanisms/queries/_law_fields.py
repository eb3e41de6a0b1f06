"""Fields of a query's law in a certificate, each in one canonical notation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

#: Decides whether a value in a certificate is in the one notation of its field.
Format = Callable[[Any], bool]


def integer(value: object) -> bool:
    """True for an integer in canonical notation."""
    return isinstance(value, str) and value == str(int(value))


def integers(value: object) -> bool:
    """True for a list of increasing integers in canonical notation."""
    return (
        isinstance(value, list) and all(map(integer, value)) and value == [str(n) for n in sorted({*map(int, value)})]
    )


def decimal(value: object) -> bool:
    """True for a float in canonical notation."""
    return isinstance(value, str) and value == repr(float(value))


@dataclass(frozen=True)
class LawFields:
    """The fields of the law of a query, beside its kind.

    Attributes:
        required: The fields that every law has, with their formats.
        optional: The fields that a law has unless they are at their defaults.
    """

    required: Mapping[str, Format]
    optional: Mapping[str, Format]

    def check(self, law: Mapping[str, Any]) -> None:
        """Refuse a law with other fields, or with one in another notation.

        Raises:
            ValueError: A field is missing, superfluous or not in canonical notation.
        """
        formats = {**self.required, **{name: valid for name, valid in self.optional.items() if name in law}}
        if law.keys() - {"package"} != {"kind", *formats} or not all(
            valid(law[name]) for name, valid in formats.items()
        ):
            raise ValueError(
                f"expected {', '.join(formats)} in the law of {law['kind']}, each in its one form, found others"
            )
