"""Mechanisms that draw each label from the candidates of its row's prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import RANDOMIZERS, ClassRandomizer, GroupResponse, PriorResponse, Randomizer
from labeldp.privacy import Classes, ClassProbabilities, LabelSpace
from labeldp.release.jobs.mechanisms._randomizer import OfLabels
from labeldp.release.jobs.mechanisms._table_mechanism import TableInput, TableRequest, option

#: Letters of a list of classes in an error.
_MOST_SHOWN = 200


@dataclass(frozen=True, eq=False)
class PriorMechanism(OfLabels):
    """A randomizer of each label alone on the candidates that the prior of its row suggests.

    Args:
        randomizer: The class of the randomizer.
        prior: Prefix of the prior's columns, each named PREFIX and a class. Without it, groups has the same groups in
            all rows, those of a uniform prior, if all classes are told apart (large epsilons).
    """

    randomizer: type[Randomizer] = PriorResponse
    prior: str | None = option("--prior", hint="the prefix of the prior's columns: --prior PREFIX")

    @property
    def name(self) -> str:
        """The name of the randomizer."""
        return self.randomizer.name

    @property
    def about(self) -> str:
        """The description of the randomizer."""
        return self.randomizer.about

    @property
    def needs(self) -> tuple[str, ...]:
        """A prior, but for groups."""
        return () if self.randomizer is GroupResponse else ("prior",)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        """One for each registered randomizer of classes that needs a prior alone."""
        kinds = (kind for kind in RANDOMIZERS.every() if issubclass(kind, ClassRandomizer))
        return tuple(cls(kind) for kind in kinds if kind.needs() == ("prior",))

    def columns(self, space: LabelSpace) -> Mapping[str, list[str]]:
        """The columns of the prior, in declared class order."""
        return {} if self.prior is None else {"prior": [f"{self.prior}{point}" for point in space.points]}

    def check(self, space: LabelSpace, epsilon: float) -> Randomizer:
        """The randomizer of no rows, which refuses an epsilon that it cannot express."""
        if self.prior is None and isinstance(space, Classes):
            _check_uniform_groups(space, epsilon)
        randomizer: Any = self.randomizer
        made: Randomizer = randomizer(space, epsilon, ClassProbabilities(np.empty((0, space.size)), space.points))
        return made

    def on(self, table: TableInput) -> TableRequest:
        """The request, whose channel is computed batch by batch."""
        from labeldp.release.curator import PriorChannels  # noqa: PLC0415 (it loads slowly)

        names = table.columns.get("prior", [])
        declared = (
            f"the prior columns {names[0]!r} ... are public and were not computed from labels"
            if names
            else "the groups of classes are those of a uniform prior over the declared classes"
        )
        channels = PriorChannels(table.made.channel(), table.made, columns=tuple(names))
        return self.request(table, table.made, channels, (declared,))


def _check_uniform_groups(space: Classes, epsilon: float) -> None:
    """Refuse the groups of a uniform prior, which are the same in all rows, if two classes are in one of them."""
    even: Any = ClassProbabilities(np.full((1, space.size), 1 / space.size), space.points)
    if merged := GroupResponse(space, epsilon, even).channel().merged:
        found = "; ".join(" and ".join(str(space.points[code]) for code in each) for each in merged)
        found = found if len(found) <= _MOST_SHOWN else f"{found[:_MOST_SHOWN]} ..."
        raise InputError(
            f"expected a prior with {GroupResponse.name!r}, found none: at epsilon {epsilon:g} all rows would have the "
            f"same groups, which never tell apart {found}. Use 'labeldp stages --response groups', a --prior, or "
            "--mechanism subset"
        )
