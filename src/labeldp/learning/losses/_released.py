"""Check that labels are a release, and not true labels."""

from __future__ import annotations

from labeldp.errors import NotTrueLabelsError
from labeldp.release import Release


def require_release(y: object) -> Release:
    """The labels themselves, if they are a release.

    Raises:
        NotTrueLabelsError: They are anything else, such as an array of true labels.
    """
    if not isinstance(y, Release):
        raise NotTrueLabelsError(
            f"expected a Release as labels, found {type(y).__name__}; randomize labels with a Curator, load a release "
            "with Release.load, or wrap public labels with Release.public(labels, space)"
        )
    return y
