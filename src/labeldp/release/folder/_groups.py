"""The column that tells which rows of a release are of one privacy unit: the unit's own, or made-up numbers of it."""

from __future__ import annotations

from labeldp.release.folder._certificate import Certificate


def number_column(unit: str) -> str:
    """The name of the column of made-up numbers of a privacy unit."""
    return f"{unit}_number"


def renumbered(unit: str) -> str:
    """The declaration that a release has made-up numbers of its privacy units."""
    return (
        f"the numbers in {number_column(unit)!r} are made up: one for each {unit!r}, under a key that the holder keeps"
    )


def group_column(certificate: Certificate | None) -> str | None:
    """The column of privacy units, which need not have been kept; None if each row is one."""
    if certificate is None or certificate.guarantee.unit == "row":
        return None
    unit = certificate.guarantee.unit
    return number_column(unit) if renumbered(unit) in certificate.assumptions else unit
