"""Concatenation of releases of different rows, such as labels that were drawn in stages, with one certificate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from labeldp._shapes import Int
from labeldp.errors import InputError, RowsError
from labeldp.mechanisms.randomizers import mean_expectation
from labeldp.privacy.accounting import RowRanges
from labeldp.privacy.channels import concatenated_channel, law_of
from labeldp.release.folder import IN_STAGES, Certificate, Draw, digest
from labeldp.release.released._answer import Answer
from labeldp.release.released._release import Release
from labeldp.release.released._row_identity import concatenated_identity
from labeldp.release.released._row_index import row_numbers


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
    count = sum(len(release) for _, release in pairs)
    stages = [_Stage.of(rows, release, count) for rows, release in pairs]
    _check_stages(stages, answers)
    places = np.concatenate([stage.rows for stage in stages])
    if np.unique(places).size != count:
        raise RowsError(f"expected each of the rows 0 to {count - 1} in one part, found rows in several parts")
    order = np.argsort(places)
    channel = concatenated_channel([(stage.release.channel, len(stage.rows)) for stage in stages]).take(order)
    codes = np.concatenate([stage.release.codes for stage in stages])[order]
    identity = concatenated_identity([stage.release.identity for stage in stages], order)
    origins = tuple(origin for stage in stages for origin in stage.release.origins)
    return Release(codes, channel, stages[0].release.space, _certificate(stages, answers), identity, origins)


@dataclass(frozen=True, eq=False)
class _Stage:
    """A whole release, its rows in order, and its certificate."""

    rows: Int[np.ndarray, "n"]
    release: Release
    certificate: Certificate

    @classmethod
    def of(cls, rows: object, release: Release, count: int) -> _Stage:
        certificate, index = release.certificate, row_numbers(rows, count)
        if certificate is None or certificate.parent is not None or len(certificate.labels) != 1 or not len(release):
            raise InputError(
                "expected whole releases of single draws, found public labels, a slice or a concatenated release"
            )
        if certificate.features is not None:
            raise InputError("expected releases with public features, found one with resampled features")
        if len(index) != len(release):
            raise RowsError(f"expected the {len(release)} rows of the release, found {len(index)} rows")
        if RowRanges.of(index) != certificate.draws[-1].rows or not certificate.draws[-1].rows.holds(len(index)):
            raise RowsError(
                "expected the rows that the curator charged, in few enough runs to be charged exactly, found others; "
                "split rows with public_split"
            )
        return cls(index, release, certificate)


def _check_stages(stages: Sequence[_Stage], answers: Sequence[Answer]) -> None:
    """Check that all parts have one label and one channel, and that none is passed twice."""
    certificates = [*(stage.certificate for stage in stages), *(answer.certificate for answer in answers)]
    names, last = [each.release for each in certificates], stages[-1]
    if len(set(names)) != len(names):
        raise InputError("expected each release and each answer once, found one twice; pass it once")
    about = [(each.label, each.space, each.draws[-1].guarantee.unit) for each in certificates]
    if any(each != (last.certificate.label, last.certificate.space, "row") for each in about):
        raise InputError(
            "expected releases and answers about one label of single rows, found several labels, or units of several "
            "rows"
        )
    laws = [law_of(stage.release.channel) for stage in stages]
    if any(law != laws[-1] for law in laws):
        raise InputError(
            "expected one mechanism and one epsilon in all parts, found several; draw a first stage without a prior by "
            "PriorResponse with a uniform one"
        )
    charged = [draw.guarantee for draw in _answers(stages, answers)]
    if any((each.trust, each.assumptions) != (charged[0].trust, charged[0].assumptions) for each in charged):
        raise InputError("expected answers with one trust model and the same assumptions, found several")


def _answers(stages: Sequence[_Stage], answers: Sequence[Answer]) -> list[Draw]:
    """The charges of answers: those passed, then those in the parts."""
    passed = [draw for answer in answers for draw in answer.certificate.draws]
    return [*passed, *(draw for stage in stages for draw in stage.certificate.answers)]


def _certificate(stages: Sequence[_Stage], answers: Sequence[Answer]) -> Certificate:
    """The certificate with all charges."""
    parts = [*(answer.certificate for answer in answers), *(stage.certificate for stage in stages)]
    draws = [*_answers(stages, answers), *(stage.certificate.draws[-1] for stage in stages)]
    assumed = [each for part in parts for each in part.assumptions] + [IN_STAGES] * (len(stages) > 1)
    name = parts[0].release if len(parts) == 1 else digest(" ".join(part.release for part in parts).encode())
    return dataclasses.replace(
        stages[0].certificate,
        release=name[: len(parts[0].release)],
        rows=sum(len(stage.rows) for stage in stages),
        draws=tuple(draws),
        expects=mean_expectation([(len(stage.rows), stage.certificate.expects) for stage in stages]),
        columns=(),
        files=(),
        assumptions=tuple(dict.fromkeys(assumed)),
        private=all(part.private for part in parts),
    )
