"""Checks of releases, and unbiased vectors of released classes, in blocks of rows that fit in memory."""

from __future__ import annotations

import numpy as np

from labeldp._shapes import Float
from labeldp._threads import blocks
from labeldp.errors import InputError, NotTrueLabelsError
from labeldp.privacy.channels import ClassChannel, CoarseningChannel, pair_share
from labeldp.release import Release


def require_release(y: object) -> Release:
    """The labels themselves, if they are a release."""
    if not isinstance(y, Release):
        raise NotTrueLabelsError(
            f"expected a Release as labels, found {type(y).__name__}; randomize labels with a Curator, load a release "
            "with Release.load, or wrap public labels with Release.public(labels, space)"
        )
    return y


def require_identified(release: Release) -> None:
    """Refuse rows whose true class may lie outside their candidates, or is known up to its group."""
    channel = require_release(release).channel
    if isinstance(channel, ClassChannel) and not channel.identifies:
        found = "groups of classes" if isinstance(channel, CoarseningChannel) else "candidates"
        raise InputError(
            f"expected a channel that identifies true labels, found rows with {found}; use log_likelihood, or "
            "accuracy_bounds"
        )


def effective_share(release: Release) -> float:
    """Effective rows of a released label, in the mean of all rows."""
    return float(np.mean(pair_share(release.class_channel.membership)))


def blocks_of(release: Release) -> list[slice]:
    """Slices of the rows whose dense vectors fit in memory."""
    return blocks(len(release), release.space.size)


def unbiased_rows(release: Release, rows: slice) -> Float[np.ndarray, "m k"]:
    """The unbiased vectors of selected rows."""
    return release.class_channel.take(rows).unbiased(release.codes[rows])
