"""Table mechanisms by their names, which the command line takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from labeldp._checks import nearest
from labeldp.errors import InputError
from labeldp.privacy import Kinds
from labeldp.release.jobs.mechanisms._randomizer import RandomizerMechanism
from labeldp.release.jobs.mechanisms._table_mechanism import TableMechanism

_KINDS: Kinds[TableMechanism] = Kinds(TableMechanism, "__name__", "labeldp.release.jobs.mechanisms", "table mechanism")


def table_mechanisms() -> Mapping[str, TableMechanism]:
    """All table mechanisms by name, without options; those of other distributions cannot replace built-in ones."""
    own = sorted(_KINDS.own.values(), key=lambda kind: kind is not RandomizerMechanism)  # which has others' randomizers
    kinds = (*(kind for kind in _KINDS.every() if kind not in own), *own)
    return {each.name: each for kind in kinds for each in kind.variants()}


def mechanism_of(mechanism: str | TableMechanism, options: Mapping[str, object]) -> TableMechanism:
    """A mechanism with its options: the one that is passed, or the one that is named.

    Args:
        mechanism: The mechanism, or its name.
        options: Options of mechanisms, by the names of their fields; None for one that was not passed.

    Raises:
        InputError: There is none of that name, or it has no such option.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(mechanism, TableMechanism):
        if given:
            raise InputError(
                f"expected the options of a mechanism in it, such as {type(mechanism).__name__}(...), found "
                f"{', '.join(given)} beside it"
            )
        return mechanism
    known = table_mechanisms()
    if mechanism not in known:
        hint = nearest(str(mechanism), known) or f"; choose among {', '.join(sorted(known))}"
        raise InputError(f"expected the name of a mechanism, found {mechanism!r}{hint}")
    for name in given:
        if name not in known[mechanism].options():
            takers = {each.name: each.options()[name] for each in known.values() if name in each.options()}
            said, names = next(iter(takers.values())), " and ".join(takers)
            raise InputError(
                f"{said['flag']} goes with {names} alone, found it with {mechanism!r}; {said['otherwise']}"
            )
    return dataclasses.replace(known[mechanism], **given)
