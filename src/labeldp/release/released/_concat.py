"""Concatenation of releases of different rows, such as labels that were drawn in stages, with one certificate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from labeldp._shapes import Int
from labeldp.errors import InputError, RowsError
from labeldp.privacy.accounting import RowRanges
from labeldp.release.folder import NO_STAGE, Certificate, of_stages
from labeldp.release.released._answer import Answer
from labeldp.release.released._release import Release, joined
from labeldp.release.released._row_identity import row_numbers


def concatenate(parts: Iterable[tuple[object, Release]], answers: Sequence[Answer] = ()) -> Release:
    """Concatenate releases of different rows of one curator into one release with one certificate.

    Each label is drawn once, so the total cost is that of the most expensive stage, not the sum, even if the channel of
    a later stage was computed from earlier releases. ``Release.concat`` is for releases of several curators or tables,
    whose epsilons add up.

    Args:
        parts: The rows and the release of each stage: the ``rows`` of the request to the curator, and its release.
            Together they are all rows ``0 .. n - 1``, each once. ``public_split`` makes such rows.
        answers: Answers of the same curator from which channels of stages were computed, such as a histogram of
            clusters; each is charged in addition, once. A part whose certificate already has the charge of an answer
            (``cluster_prior_response``) keeps it: do not pass that answer again.

    Returns:
        The release of all rows, in their order.

    Guarantee:
        The composition over rows of all charges: the largest of the stages, plus the answers about the same rows.
        Row numbers must mean the same rows in all parts, those of one curator; that nobody can check afterwards. For
        two neighbouring tables, which differ in the label of row i: what was released before the stage of row i has
        the same law in both; given it, so has each other label of that stage, and the released label of row i has two
        laws that are epsilon apart; given all that, later stages have the same law again. A stage whose rows do not
        contain i therefore adds nothing.

    References:
        Ghazi et al. 2021, Algorithm 3 and Observation 4.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, PriorResponse
        >>> from labeldp import concatenate, public_split
        >>> space = Classes(["no", "perhaps", "yes"])
        >>> curator = Curator(["no", "yes"] * 50, space)
        >>> first, second = public_split(100, [1, 1])
        >>> one = curator.randomize(PriorResponse(space, 1.0, np.full((50, 3), 1 / 3)), first)
        >>> two = curator.randomize(PriorResponse(space, 1.0, np.tile([0.8, 0.2, 0.0], (50, 1))), second)
        >>> whole = concatenate([(first, one), (second, two)])
        >>> len(whole), whole.guarantee.epsilon, curator.spent[0]
        (100, 1.0, 1.0)

    Raises:
        InputError: A part is no whole release of its rows, or they differ in label, space or channel, or an answer is
            about another label; or a release or answer is passed twice.
        RowsError: The rows are not all rows, each once; or too scattered for a charge to hold them exactly.
    """
    pairs = list(parts)
    if not pairs:
        raise InputError("expected at least one release, found none")
    _, whole = so_far(pairs, answers, sum(len(release) for _, release in pairs))
    return whole


def so_far(
    parts: Sequence[tuple[object, Release]], answers: Sequence[Answer], count: int
) -> tuple[Int[np.ndarray, "m"], Release]:
    """The rows of some stages of ``count`` rows, ascending, and their labels with one certificate.

    Raises:
        InputError: As for ``concatenate``.
        RowsError: A row is in two parts, or rows are too scattered for a charge to hold them exactly.
    """
    releases = [release for _, release in parts]
    certified = [each.certificate for each in releases if each.certificate is not None and len(each)]
    if len(certified) < len(releases):
        raise InputError(NO_STAGE)
    certificate = of_stages(certified, [answer.certificate for answer in answers])
    stages = zip([row_numbers(places, count) for places, _ in parts], certified, releases, strict=True)
    rows = np.concatenate([_charged_rows(*stage) for stage in stages])
    if np.unique(rows).size != rows.size:
        raise RowsError(f"expected each of the rows 0 to {count - 1} in one part, found rows in several parts")
    order = np.argsort(rows)
    return rows[order], joined(releases, certificate, order)


def _charged_rows(rows: Int[np.ndarray, "n"], certificate: Certificate, release: Release) -> Int[np.ndarray, "n"]:
    """The rows of a stage, after a check that they are those that were charged."""
    if len(rows) != len(release):
        raise RowsError(f"expected the {len(release)} rows of the release, found {len(rows)} rows")
    if RowRanges.of(rows) != certificate.draws[-1].rows or not certificate.draws[-1].rows.holds(len(rows)):
        raise RowsError(
            "expected the rows that the curator charged, in few enough runs to be charged exactly, found others; "
            "split rows with public_split"
        )
    return rows
