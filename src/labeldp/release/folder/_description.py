"""Descriptions of a release for people: its title and its columns."""

from __future__ import annotations

from labeldp.privacy import Classes
from labeldp.release.folder._certificate import Certificate
from labeldp.release.folder._columns import CODES
from labeldp.release.folder._read import added_columns, released_columns

#: Classes to list.
_MOST_CLASSES = 100


def title(certificate: Certificate) -> str:
    """The title of a release as a data set."""
    return f"Table with the label {certificate.label}, released with label differential privacy"


def described_columns(certificate: Certificate) -> list[tuple[str, str, str]]:
    """Name, type and meaning of each column."""
    added = dict.fromkeys(added_columns(certificate), "public: how the label of the row was drawn")
    space, values = certificate.space, ""
    if isinstance(space, Classes):
        more = f" and {space.size - _MOST_CLASSES:,} more" if space.size > _MOST_CLASSES else ""
        values = f", one of {space.size:,} classes: {', '.join(map(str, space.points[:_MOST_CLASSES]))}{more}"
    added[released_columns(certificate)[CODES]] = f"the released label, from {certificate.draws[-1].mechanism}{values}"
    return [(name, kind, added.get(name, "public")) for name, kind in certificate.columns]
