"""The laws of a randomizer."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from labeldp.audit import audit_channel
from labeldp.audit.mechanisms import audit_drawing
from labeldp.mechanisms.randomizers import RANDOMIZERS, Randomizer, check_registered
from labeldp.privacy.channels import law_of, row_arrays
from labeldp.release import Curator, Release
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
