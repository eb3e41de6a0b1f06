"""Checks of a certificate alone: each epsilon follows from the integers of its mechanism."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from labeldp._random_words import is_identifier
from labeldp._spelling import canonical
from labeldp.errors import VerificationError
from labeldp.mechanisms.queries import promise_of
from labeldp.mechanisms.randomizers import Expectation, NumberExpectation, draws_from, expectation
from labeldp.mechanisms.resampling import DoubleResponse, DummyResponse, FeatureLaw, form_from
from labeldp.privacy import Guarantee, Interval, shown_above
from labeldp.privacy.channels import (
    GroupedChannel,
    GroupedNumberChannel,
    NumberChannel,
    law_of,
)
from labeldp.release.folder._certificate import ELSEWHERE, IN_STAGES, Certificate, Draw
from labeldp.release.folder._columns import added_columns
from labeldp.release.folder._limits import is_hash

#: Relative tolerance for the mean of many shares.
_ROUNDING = 1e-9
#: The most rows, which readers of JSON represent exactly.
_MOST_ROWS = (1 << 53) - 1
_OF_ROWS = (DoubleResponse.name, DummyResponse.name)


def check_randomness(_: Path, certificate: Certificate) -> str:
    """Refuse test words instead of a cryptographic random source."""
    if not certificate.private:
        raise VerificationError(
            "expected a cryptographic random source, found a test source: this release is NOT PRIVATE"
        )
    return "a private release"


def check_laws(_: Path, certificate: Certificate) -> str:
    """Recompute the epsilon of each charge from the integers of its law."""
    *before, last = certificate.draws
    if not is_identifier(certificate.release):
        raise VerificationError("expected 32 hexadecimal digits as the name of the release, found others")
    counts = [certificate.rows, *(file.rows for file in certificate.files)]
    if max(*counts, *(draw.rows.stop for draw in certificate.draws)) > _MOST_ROWS:
        raise VerificationError(f"expected at most {_MOST_ROWS} rows, found more")
    if certificate.of_answer and (before or certificate.parent is not None or not certificate.rows):
        raise VerificationError("expected a complete answer about some rows, with one charge, found another")
    if certificate.of_answer and certificate.expects is not None:
        raise VerificationError("expected the utility of released labels alone, found that of an answer")
    own = canonical(certificate.label)
    if named := next((name for name, _ in certificate.columns if canonical(name) == own), None):
        spelled = "" if named == certificate.label else f", which {named!r} spells otherwise"
        raise VerificationError(f"expected no column {certificate.label!r}, the true label, found one{spelled}")
    answers, labels = certificate.answers, certificate.labels
    if certificate.draws != (*answers, *labels):
        raise VerificationError("expected the charges of answers before those of labels, found another order")
    check_charges(certificate)
    for draw in labels:
        _check_utility(draw, certificate)
    if len(labels) > 1:
        _check_stages(labels, certificate)
    _check_features(certificate)
    if certificate.parent is not None and not is_hash(certificate.parent):
        raise VerificationError("expected a SHA-256 of the release that this is part of, found something else")
    if certificate.parent is None and len(labels) <= 1 and not last.rows.may_be(certificate.rows):
        raise VerificationError(f"expected a charge for {certificate.rows} rows, found other rows")
    return f"epsilon {shown_above(certificate.guarantee.epsilon, 7)}, rounded up"


def check_charges(certificate: Certificate) -> None:
    """Recompute the guarantee of each charge from the integers of its law, also of several releases together.

    Raises:
        VerificationError: One differs, or is for no rows, or rests on assumptions that were not declared.
    """
    if certificate.rows and not all(draw.rows.ranges for draw in certificate.draws):
        raise VerificationError("expected every charge to be for some rows, found one for none")
    if not set(certificate.guarantee.assumptions) <= set(certificate.assumptions):
        raise VerificationError("expected the assumptions of the guarantee among the declared ones, found some missing")
    for draw in certificate.answers:
        _check_answer_law(draw, certificate.draws[-1].guarantee.unit, certificate)
    for draw in certificate.labels:
        _check_label_law(draw, certificate)


def _check_features(certificate: Certificate) -> None:
    """Check that a law of features goes with the mechanism, the labels and the columns."""
    law, draws = certificate.features, [draw for draw in certificate.draws if draw.mechanism in _OF_ROWS]
    if law is None:
        if draws:
            raise VerificationError(f"expected the law of features of {draws[0].mechanism!r}, found none")
        return
    (last,) = certificate.draws
    expected = DummyResponse.name if law.generator is None else DoubleResponse.name
    if (last.mechanism, last.guarantee.unit, law.classes) != (expected, "row", certificate.space.size):
        raise VerificationError(
            "expected a law of features for this mechanism, unit and number of classes, found another"
        )
    if FeatureLaw.from_plain(law.plain()) != law or not set(law.assumptions) <= set(certificate.assumptions):
        raise VerificationError(
            "expected the assumptions on conditional features among the declared ones, found some missing"
        )
    if law.generator is not None and (text := law.generator["source"].get("certificate")) is not None:
        _check_paid_split(text)
    if certificate.columns and _feature_types(law) != _public_types(certificate):
        raise VerificationError("expected the columns of the generator's form beside the label, found others")


def _check_paid_split(text: str) -> None:
    """Check the certificate of the release that a generator was fitted on."""
    certificate = Certificate.from_json(text)
    check_randomness(Path(), certificate)
    check_laws(Path(), certificate)
    if certificate.of_answer:
        raise VerificationError("expected released labels behind a generator, found an answer")


def _feature_types(law: FeatureLaw) -> list[tuple[str, str]]:
    if law.generator is None:
        return []
    schema = form_from(law.generator["form"]).schema
    return [(field.name, str(field.type).replace("<item:", "<element:")) for field in schema]  # the name in Parquet


def _public_types(certificate: Certificate) -> list[tuple[str, str]]:
    """Names and types of the columns beside released labels."""
    added = added_columns(certificate)
    return [(name, kind.replace("<item:", "<element:")) for name, kind in certificate.columns if name not in added]


def _check_stages(labels: Sequence[Draw], certificate: Certificate) -> None:
    """Check that stages have one law and that their rows are all rows, each once."""
    if any((draw.law, draw.guarantee) != (labels[0].law, labels[0].guarantee) for draw in labels):
        raise VerificationError("expected one law in all stages, found several")
    ranges = sorted(pair for draw in labels for pair in draw.rows.ranges)
    starts, stops = [start for start, _ in ranges], [stop for _, stop in ranges]
    if starts != [0, *stops[:-1]] or (certificate.parent is None and stops[-1] != certificate.rows):
        raise VerificationError(f"expected stages of all {certificate.rows} rows, each once, found others")
    if IN_STAGES not in certificate.assumptions:
        raise VerificationError("expected the declaration that stages do not depend on labels, found none")


def _check_answer_law(draw: Draw, unit: str, certificate: Certificate) -> None:
    """Recompute the guarantee of an answer from the integers of its law; it may declare more assumptions."""
    found, expected = draw.guarantee, promise_of(draw.law, certificate.space)
    # without a rho it claims less: certificates of histograms once had none
    if _parameters(found) not in (_parameters(expected), _parameters(dataclasses.replace(expected, rho=None))):
        raise _other_parameters(expected, found)
    if (found.unit, found.trust) != (unit, expected.trust) or not set(expected.assumptions) <= set(found.assumptions):
        raise VerificationError("expected an answer with the trust, unit and assumptions of its query, found others")
    whole = certificate.guarantee
    if expected.trust != whole.trust or not set(expected.assumptions) <= set(whole.assumptions):
        raise VerificationError(
            "expected the trust and the assumptions of an answer in the whole guarantee, found others"
        )
    if draw.mechanism != draw.law["kind"]:
        raise VerificationError(f"expected the mechanism {draw.law['kind']!r}, found another name")
    if unit != "row" and "labels_of_a_unit" not in draw.law:
        raise VerificationError(f"expected a law for the unit {found.unit!r}, found one for single rows")
    if isinstance(listed := draw.law.get("rows"), list) and not draw.rows.may_be(counted := sum(map(int, listed))):
        raise VerificationError(f"expected a charge for the {counted} rows of the law's cells, found other rows")


def _check_label_law(draw: Draw, certificate: Certificate) -> None:
    """Recompute the guarantee of released labels from their channel."""
    if draw.law.get("classes") != str(certificate.space.size):
        raise VerificationError(f"expected a law of {certificate.space.size} classes, found another number")
    channel = draw.channel
    if _parameters(draw.guarantee) != _parameters(expected := Guarantee(channel.epsilon)):
        raise _other_parameters(expected, draw.guarantee)
    if draw.guarantee.trust != expected.trust:
        raise VerificationError(f"expected released labels with trust 'local', found {draw.guarantee.trust!r}")
    declared = draw.mechanism == ELSEWHERE and bool(certificate.declared_by)
    if not declared and draw.mechanism not in _OF_ROWS and not draws_from(draw.mechanism, channel):
        raise VerificationError(
            "expected the name of a mechanism that draws released labels of such a law, found another; if it is of "
            "another distribution, install that"
        )
    if law_of(channel) != dict(draw.law):
        raise VerificationError("expected the integers of a law in canonical form, found another form")
    if isinstance(channel, NumberChannel) and not isinstance(certificate.space, Interval):
        raise VerificationError("expected a law of numbers for labels on an interval, found other labels")
    of_units = isinstance(channel, GroupedChannel | GroupedNumberChannel)
    of_rows = declared and of_units and {repeats for _, repeats in channel.units} == {1}
    if (draw.guarantee.unit != "row") != of_units and not (of_rows and draw.guarantee.unit == "row"):
        raise VerificationError(f"expected a law for the unit {draw.guarantee.unit!r}, found another")


def _check_utility(draw: Draw, certificate: Certificate) -> None:
    """Recompute the expected utility of released labels from their channel."""
    channel = draw.channel
    if isinstance(channel, NumberChannel) != isinstance(certificate.expects, NumberExpectation):
        raise VerificationError("expected the utility of a law of this kind, found that of another kind")
    if certificate.expects is None:
        raise VerificationError("expected the utility of the released labels, found none")
    shares = dataclasses.asdict(certificate.expects)
    if any(isinstance(share, bool) for share in shares.values()):
        raise VerificationError("expected numbers as the utility of the released labels, found others")
    error = shares.pop("squared_error", 0.0)
    if not (0.0 <= error < math.inf and all(0.0 <= share <= 1.0 + _ROUNDING for share in shares.values())):
        raise VerificationError("expected shares of rows as the utility of the released labels, found other numbers")
    expected = certificate.expects if draw.law["by_row"] else expectation(channel, np.ones(()))
    if not _nearly_equal(expected, certificate.expects):
        raise VerificationError("expected the utility that follows from the law, found other figures")


def _parameters(guarantee: Guarantee) -> tuple[float, float, float | None]:
    return guarantee.epsilon, guarantee.delta, guarantee.rho


def _other_parameters(expected: Guarantee, found: Guarantee) -> VerificationError:
    """The error for a guarantee that does not follow from a law; it names each parameter that differs."""
    names = [name for name in ("epsilon", "delta", "rho") if getattr(expected, name) != getattr(found, name)]
    expects, finds = (", ".join(f"{name} {getattr(each, name)!r}" for name in names) for each in (expected, found))
    return VerificationError(f"expected {expects}, found {finds}")


def _nearly_equal(one: Expectation | NumberExpectation, other: Expectation | NumberExpectation) -> bool:
    """True if two expectations are equal up to the rounding of a mean."""
    pairs = zip(dataclasses.astuple(one), dataclasses.astuple(other), strict=True)
    return type(one) is type(other) and all(math.isclose(a, b, rel_tol=_ROUNDING) for a, b in pairs)
