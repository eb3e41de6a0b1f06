"""The d-subset randomizer, by default at the best size for training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labeldp import _checks
from labeldp.errors import EpsilonError
from labeldp.mechanisms.randomizers._projective import ProjectiveResponse
from labeldp.mechanisms.randomizers._randomizer import ClassRandomizer, kept
from labeldp.mechanisms.randomizers._response import RandomizedResponse
from labeldp.privacy import LabelSpace
from labeldp.privacy.channels import SubsetChannel, estimation_size, training_size

#: Up to this many classes, sets of classes are short enough to be drawn, stored and read as lists.
_SHORT_SETS = 256
#: The least share of the effective rows of subsets for a cheaper randomizer.
_NEAR = 0.99


@dataclass(frozen=True, eq=False)
class SubsetResponse(ClassRandomizer):
    """The d-subset randomizer: a set of ``size`` classes that favours the true one.

    Args:
        space: The declared label space.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        size: Number of classes in a released set, from 1 to k - 1; by default the best one for distinguishing two
            likely classes, ``privacy.training_size``. ``privacy.estimation_size`` is best for estimating class
            frequencies.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``.
        * Neighbours differ in the label of one row; features are public.

    References:
        Ye and Barg 2018; Wang et al. 2016; Chua et al. 2025, Appendix A.

    Example:
        >>> from labeldp import Classes, SubsetResponse
        >>> randomizer = SubsetResponse(Classes(range(10)), epsilon=1.0)
        >>> randomizer.channel().size, randomizer.channel().epsilon <= 1.0
        (4, True)

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        InputError: The size is not between 1 and k - 1.
    """

    size: int | None = None

    name: ClassVar[str] = "subset"
    draws_from: ClassVar[type[SubsetChannel]] = SubsetChannel
    about: ClassVar[str] = "d-subset randomizer: a set of fixed size that favours the true class"

    def __post_init__(self) -> None:
        if self.size is not None and isinstance(self.space, LabelSpace):
            object.__setattr__(self, "size", _checks.whole(self.size, "size", 1, self.space.size - 1))
        super().__post_init__()

    @property
    def detail(self) -> str:
        """The size of the set."""
        return f"{self.channel().size} of {self.space.size} classes"

    @kept
    def channel(self) -> SubsetChannel:
        """The channel from the true class to the released set."""
        size = self.size or training_size(self.space.size, self.epsilon)
        return SubsetChannel.at(self.space.size, size, self.epsilon)


def best_response(space: LabelSpace, epsilon: float) -> ClassRandomizer:
    """The best local randomizer for training without a prior: subsets, which at size 1 are randomized response.

    Above 256 classes, projective-geometry response is taken instead where it has at least 99 % of their effective rows
    and takes fewer random words for a row; it is up to 2 % below where no prime suits the epsilon (0.5 and 2).

    Example:
        >>> from labeldp import Classes
        >>> [best_response(Classes(range(k)), epsilon=1.0).name for k in (2, 100, 1000)]
        ['randomized-response', 'subset', 'projective']
    """
    best = _of_size(space, epsilon, None)
    if space.size <= _SHORT_SETS or best.channel().words_per_row <= 1:
        return best
    try:
        numbered = ProjectiveResponse(space, epsilon)
    except EpsilonError:
        return best
    fewer = numbered.channel().words_per_row < best.channel().words_per_row
    near = numbered.expectation.clean_share >= _NEAR * best.expectation.clean_share
    return numbered if fewer and near else best


def gradient_response(space: LabelSpace, epsilon: float) -> ClassRandomizer:
    """The local randomizer without a prior that puts the least noise on unbiased gradients, for gradient descent.

    Its subsets have the size of the least total variance, about ``k / (exp(epsilon) + 1)``
    (``privacy.estimation_size``): that is ``privacy.gradient_noise(channel).right_angled``, the noise on gradients of
    softmax. For gradients in any directions, the size of least noise is sometimes one more, with up to a sixth less.

    Example:
        >>> from labeldp import Classes
        >>> from labeldp import gradient_response
        >>> gradient_response(Classes(range(1000)), epsilon=1.0).channel().size
        269

    References:
        Chua et al. 2025, theorem 1 and Appendix A, whose size is ``ceil(k / (2 exp(epsilon)))``. Bits are mixtures of
        subsets over their sizes, which are public: so the best size has no more noise than bits.
    """
    size = estimation_size(space.size, _checks.epsilon(epsilon)) if isinstance(space, LabelSpace) else None
    return _of_size(space, epsilon, size)


def _of_size(space: LabelSpace, epsilon: float, size: int | None) -> ClassRandomizer:
    """Subsets of a size, or randomized response at size 1."""
    subset = SubsetResponse(space, epsilon, size)
    return RandomizedResponse(space, epsilon) if subset.channel().size == 1 else subset
