"""The randomizer of groups of adjacent classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from labeldp._shapes import Float, UInt8
from labeldp.columns import row_names
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers._prior import checked_prior
from labeldp.mechanisms.randomizers._randomizer import ClassRandomizer, kept
from labeldp.privacy import LabelSpace, declared_columns
from labeldp.privacy.channels import CoarseningChannel, informative_groups, pack


@dataclass(frozen=True, eq=False)
class GroupResponse(ClassRandomizer):
    """Randomized response on groups of adjacent classes, such as "1 to 3 or 4 to 5?", chosen for each row.

    The question is public, only the answer is randomized: all of epsilon is spent on the group that the label is in.
    At a small epsilon a coarse question discloses more about an ordered label, such as a rating, than the label itself
    by randomized response on all classes. A row whose classes are one group discloses nothing. Learn from the
    likelihood (``method="likelihood"``): classes of one group cannot be distinguished, so no unbiased vectors exist.
    Classes that are in one group in every row, as with one partition for all rows, cannot be told apart by anyone:
    ``channel().merged`` has their codes. Give rows different priors, such as in ``MultiStage(response="groups")``, or
    different partitions.

    Args:
        space: The declared label space; groups are of classes that are adjacent in its order.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        prior: Public probabilities of the classes, one row for each label: ``ClassProbabilities``, such as those of a
            model; or an array of shape (n, k), if the classes were declared in sorted order. Each row gets its most
            informative groups (``privacy.informative_groups``).
        groups: In place of a prior: a public partition, as a list of groups, each a list of classes; or a list of
            partitions, one for each row.
        ordered: With a prior: True for classes whose order means something, whose groups maximise the Fisher
            information about a shift; False for the mutual information of class and group.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``: for m groups the released group
          is that of randomized response on m classes.
        * Neighbours differ in the label of one row; features, the prior and the groups are public, and were not
          computed from these labels. Released labels of other rows may have gone into them: rows are disjoint, so
          what each label costs is the cost of its own response.

    References:
        Warner 1965; Kairouz et al. 2014, for the groups as classes.

    Example:
        >>> from labeldp import Classes, Curator, GroupResponse
        >>> space = Classes([1, 2, 3, 4, 5])
        >>> prior = [[0.1, 0.1, 0.3, 0.4, 0.1], [0.0, 0.0, 0.0, 0.0, 1.0]]
        >>> GroupResponse(space, 1.0, prior).channel().groups().tolist()
        [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]
        >>> GroupResponse(space, 1.0, groups=[[1, 2], [3], [4, 5]]).channel().merged
        ((0, 1), (3, 4))
        >>> release = Curator([2, 5], space).randomize(GroupResponse(space, 1.0, groups=[[1, 2, 3], [4, 5]]))
        >>> release.guarantee.epsilon <= 1.0
        True

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        InputError: There is no prior and there are no groups, or both; a partition lacks a class or has one twice, has
            an empty group, or one of classes that are not adjacent; or a prior has more than 512 classes.
        PriorError: The prior has another shape, or a row that is not a distribution.
    """

    prior: Float[np.ndarray, "n k"] | None = field(default=None, repr=False)
    groups: Sequence[Any] | None = field(default=None, repr=False)
    ordered: bool = True

    name: ClassVar[str] = "groups"
    draws_from: ClassVar[type[CoarseningChannel]] = CoarseningChannel
    about: ClassVar[str] = "Randomized response on groups of adjacent classes, the most informative for each row"
    detail: ClassVar[str] = "a group of adjacent classes"

    def __post_init__(self) -> None:
        if (self.prior is None) == (self.groups is None):
            found = "neither" if self.prior is None else "both"
            raise InputError(f"expected a prior, or groups of classes, found {found}; give prior= or groups=")
        if self.groups is not None and not _is_list(self.groups):
            raise InputError(f"expected groups as lists of classes, found {type(self.groups).__name__}")
        if isinstance(self.space, LabelSpace) and self.prior is not None:
            object.__setattr__(self, "row_names", {"a prior": row_names(self.prior)})
            object.__setattr__(self, "prior", checked_prior(declared_columns(self.prior, self.space), self.space.size))
        super().__post_init__()

    @classmethod
    def needs(cls) -> tuple[str, ...]:
        """A prior, or groups in its place."""
        return ("prior",)

    @kept
    def channel(self) -> CoarseningChannel:
        """The channel from each row's true class to the released group; of one row, if all have one partition."""
        k = self.space.size
        if self.prior is not None:
            firsts = informative_groups(self.prior, self.epsilon, ordered=self.ordered)
        else:
            firsts = _first_classes(self.groups if self.groups is not None else (), self.space)
        return CoarseningChannel.at(k, self.epsilon, firsts)

    def for_rows(self, rows: int) -> Self:
        """The same partition for each of some rows, if one was given for all."""
        if self.groups is None or not _is_one(self.groups) or rows == 1:
            return self
        return dataclasses.replace(self, groups=[self.groups] * rows)


def _is_one(groups: Sequence[Any]) -> bool:
    """True for one partition: groups of classes, and no lists of groups."""
    return not any(_is_list(member) for group in groups if _is_list(group) for member in group)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)


def _first_classes(groups: Sequence[Any], space: LabelSpace) -> UInt8[np.ndarray, "n b"]:
    """The first class of each group of each partition, as packed bits."""
    partitions = [groups] if _is_one(groups) else groups
    known: dict[tuple[Any, ...], list[bool]] = {}
    mask = np.zeros((len(partitions), space.size), dtype=np.bool_)
    for row, partition in enumerate(partitions):
        try:
            key = tuple(tuple(group) for group in partition)
            if key not in known:
                known[key] = _firsts_of(key, space)
        except TypeError:
            raise InputError("expected a partition as lists of declared classes, found something else") from None
        mask[row] = known[key]
    return pack(mask)


def _firsts_of(partition: tuple[tuple[Any, ...], ...], space: LabelSpace) -> list[bool]:
    """The mask of the first classes of a partition's groups."""
    code = {point: place for place, point in enumerate(space.points)}
    members = [member for group in partition for member in group]
    if unknown := [member for member in members if member not in code]:
        raise InputError(f"expected groups of declared classes, found {unknown[0]!r}, which is none")
    if not all(partition):
        raise InputError("expected at least one class in each group, found an empty group; leave it out")
    if len(set(members)) < len(members) or len(members) < space.size:
        found = "a class in two groups" if len(set(members)) < len(members) else f"{len(members)}"
        raise InputError(f"expected each of the {space.size} declared classes in one group, found {found}")
    codes = [sorted(code[member] for member in group) for group in partition]
    if any(group[-1] - group[0] >= len(group) for group in codes):
        raise InputError(
            "expected groups of classes that are adjacent in the declared order, found others; declare the classes in "
            "an order in which they are"
        )
    firsts = {group[0] for group in codes}
    return [place in firsts for place in range(space.size)]
