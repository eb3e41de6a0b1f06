"""The laws of randomizers and of queries."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from labeldp.audit import audit_channel
from labeldp.audit.mechanisms import audit_drawing
from labeldp.mechanisms.queries import Query, charged_law, promise_of
from labeldp.mechanisms.randomizers import RANDOMIZERS, Randomizer, check_registered
from labeldp.privacy.channels import law_of, row_arrays
from labeldp.release import Answer, Curator, Release
from labeldp.release.folder import verify
from labeldp.testing._laws import expect

_ROWS = 60


def check_randomizer(randomizer: Randomizer) -> None:
    """Check the laws that every randomizer holds, in memory and in a temporary folder.

    It is registered under its name. Its channel is of the kind that it states, and follows from its integers. The
    channel costs at most the epsilon that was asked for, by an exact audit, and its draws keep
    that epsilon. Copies and pickles have the same channel; so has ``at`` the same epsilon. A release by a curator has
    its name and its epsilon, and is verified once it is saved.

    Args:
        randomizer: A randomizer; one with a prior or clusters has them for any number of rows.

    Raises:
        AssertionError: A law does not hold; the message states it.
        InputError: It is not registered, or no certificate could name it.

    Example:
        >>> from labeldp import Classes, SubsetResponse
        >>> check_randomizer(SubsetResponse(Classes(["a", "b", "c"]), 1.0))
    """
    channel, name = randomizer.channel(), randomizer.name
    expect(RANDOMIZERS.find(name) is type(randomizer), f"the randomizer called {name!r} is of this type")
    check_registered(type(randomizer), channel)
    expect(channel.epsilon <= randomizer.epsilon, "a channel costs at most the epsilon that was asked for")
    for audit in (audit_channel(channel), audit_drawing(channel)):
        expect(audit.holds, f"a channel and its draws keep their epsilon: {audit.lower} was found for {audit.claim}")
    others = (copy.copy(randomizer), copy.deepcopy(randomizer), pickle.loads(pickle.dumps(randomizer)))  # noqa: S301
    for other in (*others, randomizer.at(randomizer.epsilon)):
        expect(law_of(other.channel()) == law_of(channel), "a copy, a pickle and ``at`` have the same channel")
    _check_release(randomizer)


def _check_release(randomizer: Randomizer) -> None:
    """Check that a release has the name and the cost of its randomizer, and is verified."""
    rows = next((len(values) for values in row_arrays(randomizer.channel()).values()), _ROWS)
    labels = np.resize(np.array(randomizer.space.points), rows)
    curator = Curator(labels, randomizer.space, budget=randomizer.epsilon)
    release = curator.randomize(randomizer)
    expect(curator.spent == (randomizer.channel().epsilon, 0.0), "a release costs the epsilon of its channel")
    with TemporaryDirectory() as folder:
        saved = release.save(Path(folder) / "release")
        verdict, again = verify(saved), Release.load(saved)
        expect(verdict.holds, f"a release is verified once it is saved: {verdict}")
        expect(again.codes.tolist() == release.codes.tolist(), "released labels are read back as they were saved")
        drawn = again.certificate.draws[-1].mechanism if again.certificate else ""
        expect(drawn == randomizer.name, "a certificate names the randomizer")


_PROMISED = ("epsilon", "delta", "rho", "trust")


def check_query(query: Query, labels: Any) -> None:
    """Check the laws that every query holds, in memory and in a temporary folder.

    It is registered. Its guarantee follows from its law, which has all fields that the query requires: a law that
    lacks one, has one more or another value is refused. An answer costs what was promised, is verified once it is
    saved, and is read back as it was.

    Args:
        query: A query.
        labels: Labels of its space, as many as it asks about.

    Raises:
        AssertionError: A law does not hold; the message states it.
        InputError: It is not registered, or its guarantee does not follow from its law.

    Example:
        >>> from labeldp import Classes, NoisyHistogram
        >>> check_query(NoisyHistogram(Classes(["no", "yes"]), 1.0), ["no", "yes", "no"])
    """
    law, promise = charged_law(query, 1), query.promise(1)
    found, required = promise_of(law, query.space), query.fields().required
    same = all(getattr(found, name) == getattr(promise, name) for name in _PROMISED)
    expect(same and set(found.assumptions) <= set(promise.assumptions), "a guarantee follows from the law of its query")
    expect(set(required) <= law.keys() - {"kind"}, "a law has all fields that its query requires")
    for name in required:
        without = {each: value for each, value in law.items() if each != name}
        for forged in (without, law | {name: None}, law | {name: [1.5]}):
            expect(_is_refused(forged, query), f"a law without a proper {name!r} is refused")
    for extra in ({"more": "1"}, {"package": "of nobody"}, {"kind": "of nobody"}):
        expect(_is_refused(law | extra, query), f"a law with {extra} is refused")
    _check_answer(query, labels)


def _is_refused(law: dict[str, Any], query: Query) -> bool:
    """True if no guarantee follows from a law."""
    try:
        promise_of(law, query.space)
    except (ValueError, TypeError):
        return True
    return False


def _check_answer(query: Query, labels: Any) -> None:
    """Check the cost of an answer, and that it is stored and read back."""
    promise = query.promise(1)
    curator = Curator(labels, query.space, name="label")
    answer = curator.answer(query)
    expect(curator.spent == (promise.epsilon, promise.delta), "an answer costs what its query promises")
    with TemporaryDirectory() as folder:
        saved = answer.save(Path(folder) / "answer")
        verdict, again = verify(saved), Answer.load(saved)
        expect(verdict.holds, f"an answer is verified once it is saved: {verdict}")
        same = np.array_equal(again.value, answer.value, equal_nan=answer.value.dtype.kind == "f")
        expect(same and again.value.dtype == answer.value.dtype, "an answer is read back as it was saved")
