"""The randomizer of projective-geometry response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers._randomizer import ClassRandomizer, kept
from labeldp.privacy.channels import ProjectiveChannel, is_order, projective_order


@dataclass(frozen=True, eq=False)
class ProjectiveResponse(ClassRandomizer):
    """A set of classes that favours the true one, from a family of sets that have numbers: for many classes.

    Its sets are about as informative as the best subsets of a fixed size, from about a hundred classes on, but a row
    takes a few random words instead of one for every other member of a set, and stores one integer instead of a list of
    classes. Sets are those of the classes whose points in a finite projective space are orthogonal to the released one.

    Args:
        space: The declared label space.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        order: A prime q: about one in q classes is in a set; by default the best one for distinguishing two likely
            classes.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``.
        * Neighbours differ in the label of one row; features are public.

    References:
        Feldman, Nelson, Nguyen and Talwar 2022, section 3.

    Example:
        >>> from labeldp import Classes, Curator
        >>> from labeldp.mechanisms.randomizers import ProjectiveResponse
        >>> randomizer = ProjectiveResponse(Classes(range(1000)), epsilon=1.0)
        >>> channel = randomizer.channel()
        >>> channel.order, channel.points, channel.words_per_row, channel.epsilon <= 1.0
        (3, 1093, 5, True)
        >>> release = Curator([7, 7, 8], randomizer.space).randomize(randomizer)
        >>> release.codes.shape, channel.mask(release.codes).shape
        ((3,), (3, 1000))

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        InputError: The order is not a prime below 4096.
    """

    order: int | None = None

    name: ClassVar[str] = "projective"
    draws_from: ClassVar[type[ProjectiveChannel]] = ProjectiveChannel
    about: ClassVar[str] = (
        "Hyperplane of a projective space that favours the true class: near the best subset at four bytes"
    )

    def __post_init__(self) -> None:
        if self.order is not None and not is_order(_checks.whole(self.order, "order", 2, 1 << 12)):
            raise InputError(f"expected a prime as the order, found {self.order!r}; leave it out for the best one")
        super().__post_init__()

    @kept
    def channel(self) -> ProjectiveChannel:
        """The channel from the true class to the number of the released set."""
        order = projective_order(self.space.size, self.epsilon) if self.order is None else self.order
        return ProjectiveChannel.at(self.space.size, order, self.epsilon)

    @property
    def detail(self) -> str:
        """The share of classes in a set, which is known by its number."""
        return f"1 in {self.channel().order} classes"
