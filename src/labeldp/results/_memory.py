"""Guarantees, releases and answers in memory, as notebooks show them."""

from __future__ import annotations

from labeldp.privacy import Guarantee
from labeldp.release import Answer, Release
from labeldp.results._blocks import Part
from labeldp.results._numbers import delta_above, exactly_above


def guarantee_part(promise: Guarantee) -> Part:
    """A guarantee in numbers and sentences."""
    terms = (
        ("epsilon", exactly_above(promise.epsilon)),
        ("delta", delta_above(promise.delta)),
        ("per", promise.unit),
        ("trust", promise.trust),
    )
    lead = (*promise.sentence().split("\n"), promise.posterior_sentence())
    return Part("Guarantee", "Guarantee", lead=lead, facts=terms)


def memory_part(found: Release | Answer) -> Part:
    """A release or an answer in memory."""
    title, certificate = repr(found).strip("<>"), found.certificate
    if certificate is None:
        return Part(title, title)
    rows = found.rows if isinstance(found, Answer) else len(found)
    terms = [("label", certificate.label), ("rows", f"{rows:,}")]
    terms += [("shape of the value", str(found.value.shape))] if isinstance(found, Answer) else []
    terms += [] if isinstance(found, Answer) else [("classes or range", repr(found.space))]
    return Part(title, title, lead=tuple(certificate.sentence.split("\n")), facts=tuple(terms))
