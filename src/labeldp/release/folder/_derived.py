"""Files in a release folder that follow from its certificate, and from what they declare themselves.

Their bytes are a promise, as a certificate is: ``verify`` makes them again and compares.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from labeldp._own_files import write_new_file
from labeldp.errors import InputError, OutputError
from labeldp.release.folder._card import data_card
from labeldp.release.folder._certificate import Certificate
from labeldp.release.folder._croissant import croissant
from labeldp.release.folder._description import Declared
from labeldp.release.folder._limits import opened
from labeldp.release.folder._staging import is_signed

#: The most bytes of declarations in a derived file.
_MOST_DECLARED = 1 << 13


def _cards(certificate: Certificate, declared: Declared, signed: bool) -> list[str]:
    """The forms of a data card: a card stays when the folder is signed after it."""
    return [data_card(certificate, declared, signed=each) for each in (True, False)[not signed :]]


def _metadata(certificate: Certificate, declared: Declared, _: bool) -> list[str]:
    """The forms of Croissant metadata."""
    return [croissant(certificate, declared)]


#: Files that may lie in a release folder, and the forms in which they verify, of which the first is written.
DERIVED: Mapping[str, Callable[[Certificate, Declared, bool], list[str]]] = MappingProxyType(
    {"README.md": _cards, "croissant.json": _metadata}
)


def write_card(folder: Path, certificate: Certificate, declared: Declared | None = None) -> list[Path]:
    """Write the derived files of a verified release into its folder; those that are there already are left.

    Raises:
        InputError: It is an answer, which is no table of rows to learn from.
        OutputError: A file of the name has other contents or declarations, or cannot be written.
    """
    if certificate.of_answer:
        raise InputError("expected released labels, found an answer; a card is for a data set to learn from")
    written, new = [], declared or Declared()
    for name, forms in DERIVED.items():
        path = folder / name
        if not os.path.lexists(path):
            write_new_file(path, forms(certificate, new, is_signed(folder))[0].encode(), private=False)
        elif not is_derived(folder, name, certificate, declared):
            raise OutputError(
                f"expected no other {name} in {folder}, found one with other contents, license or name; move it away"
            )
        written.append(path)
    return written


def is_derived(folder: Path, name: str, certificate: Certificate, declared: Declared | None = None) -> bool:
    """True for a file that follows from the certificate, byte for byte, and from its own or the given declarations."""
    if name not in DERIVED or certificate.of_answer:
        return False
    try:
        with opened(folder / name) as file:
            content = file.read(_most_bytes(name, certificate) + 1)
        own = declared or Declared.read(content.decode("utf-8"))
    except (OSError, UnicodeError, InputError):
        return False
    return content in [form.encode() for form in DERIVED[name](certificate, own, is_signed(folder))]


def _most_bytes(name: str, certificate: Certificate) -> int:
    """The most bytes of a derived file."""
    return _MOST_DECLARED + max(len(form.encode()) for form in DERIVED[name](certificate, Declared(), True))
