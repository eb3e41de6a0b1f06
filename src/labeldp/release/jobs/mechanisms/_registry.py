"""Table mechanisms by their names, which the command line takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from labeldp._checks import nearest
from labeldp.errors import InputError
from labeldp.privacy import Kinds
from labeldp.release.jobs.mechanisms._randomizer import OfLabels
from labeldp.release.jobs.mechanisms._table_mechanism import Option, TableMechanism

_KINDS: Kinds[TableMechanism] = Kinds(TableMechanism, "__name__", "labeldp.release.jobs.mechanisms", "table mechanism")


def table_mechanisms() -> Mapping[str, TableMechanism]:
    """All table mechanisms by name, without options; those of other distributions cannot replace built-in ones."""
    own = sorted(_KINDS.own.values(), key=lambda kind: not issubclass(kind, OfLabels))  # which take others' randomizers
    kinds = (*(kind for kind in _KINDS.every() if kind not in own), *own)
    return {each.name: each for kind in kinds for each in kind.variants()}


def table_options() -> Mapping[str, tuple[type[TableMechanism], Option, tuple[str, ...]]]:
    """Every option by the name of its field: a class that declares it, and the names of the mechanisms that take it."""
    takers: dict[str, list[TableMechanism]] = {}
    for each in table_mechanisms().values():
        for name in each.options():
            takers.setdefault(name, []).append(each)
    return {name: (type(of[0]), of[0].options()[name], tuple(each.name for each in of)) for name, of in takers.items()}


def mechanism_of(mechanism: str | TableMechanism, **options: object) -> TableMechanism:
    """A mechanism with its options: the one that is passed, or the one that is named.

    Args:
        mechanism: The mechanism, or its name.
        options: Options of a named one, by the names of their fields; None for one that was not passed.

    Raises:
        InputError: There is none of that name, or it has no such option.
    """
    if isinstance(mechanism, TableMechanism):
        return mechanism
    known = table_mechanisms()
    if mechanism not in known:
        hint = nearest(str(mechanism), known) or f"; choose among {', '.join(sorted(known))}"
        raise InputError(f"expected the name of a mechanism, found {mechanism!r}{hint}")
    given = {name: value for name, value in options.items() if value is not None}
    for name in (name for name in given if name not in known[mechanism].options()):
        _, said, takers = table_options()[name]
        raise InputError(
            f"{said.flag} goes with {' and '.join(takers)} alone, found it with {mechanism!r}; {said.otherwise}"
        )
    return dataclasses.replace(known[mechanism], **given)
