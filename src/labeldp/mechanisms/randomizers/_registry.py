"""The registry of randomizers, by the name that the command line uses."""

from __future__ import annotations

import re

from labeldp._checks import nearest
from labeldp.errors import InputError
from labeldp.mechanisms.queries import QUERIES
from labeldp.mechanisms.randomizers._randomizer import ClassRandomizer, NumberRandomizer, Randomizer
from labeldp.privacy import Kinds
from labeldp.privacy.channels import CHANNELS, Channel, channel_of, law_of

#: The final randomizers by name: those of this package's files, and those of other distributions. In certificates the
#: names of queries mean answers, and those of mechanisms on features rows whose features are not public.
RANDOMIZERS: Kinds[Randomizer] = Kinds(
    *(Randomizer, "name", "labeldp.mechanisms.randomizers", "randomizer"),
    reserved=lambda: (*QUERIES.own, "double", "dummy"),
)


#: Names of mechanisms in certificates: what is printed as a fact is no free text.
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def class_randomizers() -> tuple[type[ClassRandomizer], ...]:
    """The randomizers of classes and of sets of classes that a label space and an epsilon determine."""
    return tuple(kind for kind in RANDOMIZERS.every() if issubclass(kind, ClassRandomizer) and not kind.needs())


def class_randomizer(name: str) -> type[ClassRandomizer]:
    """The randomizer of that name among ``class_randomizers``."""
    kinds = {kind.name: kind for kind in class_randomizers()}
    if name not in kinds:
        hint = nearest(name, kinds) or f"; choose among {', '.join(sorted(kinds))}"
        raise InputError(f"expected the name of a mechanism for classes, found {name!r:.100}{hint}")
    return kinds[name]


def number_randomizers() -> tuple[type[NumberRandomizer], ...]:
    """The randomizers of numbers that a label space and an epsilon determine."""
    return tuple(kind for kind in RANDOMIZERS.every() if issubclass(kind, NumberRandomizer) and not kind.needs())


def draws_from(name: str, channel: Channel) -> bool:
    """True if a registered randomizer of that name draws from channels of such a kind, for each group of rows."""
    return RANDOMIZERS.known(name) and all(
        isinstance(part, RANDOMIZERS.find(name).draws_from) for part, _ in channel.units
    )


def check_registered(randomizer: type[Randomizer], channel: Channel) -> None:
    """Refuse what could not be read back from a certificate, before it is charged.

    Raises:
        InputError: The randomizer or its channel is not registered, or its law does not determine the channel.
    """
    RANDOMIZERS.check(randomizer)
    for part, _ in channel.units:
        CHANNELS.check(type(part))
    if not draws_from(randomizer.name, channel) or not _NAME.fullmatch(randomizer.name):
        raise InputError(
            f"expected a randomizer named with letters, digits, '.', '_' and '-' alone, whose channel is a "
            f"{randomizer.draws_from.__name__}, found {randomizer.name!r:.100} with a {type(channel).__name__}"
        )
    try:
        law = law_of(channel)
        again = channel_of(law)
        follows = law_of(again) == law and again.odds == channel.odds
    except ValueError:
        follows = False
    if not follows:
        raise InputError(
            f"expected a channel that follows from its integers, found one of kind {channel.kind!r} that does not; "
            "its distribution must state all of its law in integer fields"
        )
