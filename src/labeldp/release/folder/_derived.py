"""Files in a release folder that follow from its certificate.

Their bytes are a promise, as a certificate is: ``verify`` makes them again and compares. What they say changes under
another version alone, and the former version stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from labeldp._new_files import write_new_file
from labeldp.errors import InputError, OutputError
from labeldp.release.folder._card import data_card, escaped
from labeldp.release.folder._certificate import Certificate
from labeldp.release.folder._croissant import croissant
from labeldp.release.folder._limits import opened

#: Files that may lie in a release folder, and what makes them from the certificate.
DERIVED: Mapping[str, Callable[[Certificate], str]] = MappingProxyType(
    {"README.md": data_card, "croissant.json": croissant}
)
#: Their former versions, in which they still verify.
_FORMER: Mapping[str, tuple[Callable[[Certificate], str], ...]] = MappingProxyType(
    {"README.md": (partial(data_card, plain=escaped),)}
)


def write_card(folder: Path, certificate: Certificate) -> list[Path]:
    """Write the derived files of a verified release into its folder; those that are there already are left.

    Raises:
        InputError: It is an answer, which is no table of rows to learn from.
        OutputError: A file of the name has other contents, or cannot be written.
    """
    if certificate.of_answer:
        raise InputError("expected released labels, found an answer; a card is for a data set to learn from")
    written = []
    for name in DERIVED:
        path = folder / name
        if not os.path.lexists(path):
            write_new_file(path, DERIVED[name](certificate).encode(), private=False)
        elif not is_derived(folder, name, certificate):
            raise OutputError(f"expected no other {name} in {folder}, found one; move it away")
        written.append(path)
    return written


def is_derived(folder: Path, name: str, certificate: Certificate) -> bool:
    """True for a file that is what follows from the certificate, byte for byte."""
    if name not in DERIVED or certificate.of_answer:
        return False
    forms = [made(certificate).encode("utf-8") for made in (DERIVED[name], *_FORMER.get(name, ()))]
    try:
        with opened(folder / name) as file:
            return file.read(max(map(len, forms)) + 1) in forms
    except OSError:
        return False
