"""Randomizers on each row's candidates, chosen by a public prior."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from labeldp import _checks
from labeldp._arrays import read_only
from labeldp._shapes import Float
from labeldp.columns import floats, row_names
from labeldp.errors import PriorError
from labeldp.mechanisms.randomizers._randomizer import ClassRandomizer, kept
from labeldp.privacy import LabelSpace, declared_columns, row_name
from labeldp.privacy.channels import (
    CandidateChannel,
    CandidateSubsetChannel,
    ClassChannel,
    copied_prior,
    prior_candidates,
    prior_subset_candidates,
    top_candidates,
)

_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class CandidateRandomizer(ClassRandomizer):
    """A randomizer on each row's candidates, chosen by a public prior; it keeps the prior in declared order."""

    prior: Float[np.ndarray, "n k"] = field(repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.space, LabelSpace):
            object.__setattr__(self, "row_names", {"a prior": row_names(self.prior)})
            object.__setattr__(self, "prior", checked_prior(declared_columns(self.prior, self.space), self.space.size))
        super().__post_init__()

    @abstractmethod
    def candidate_channel(self) -> tuple[ClassChannel, np.ndarray]:
        """The channel on the candidates of each row, and their prior probability."""

    def channel(self) -> ClassChannel:
        """The channel from each row's true class to the released class or set."""
        return self.candidate_channel()[0]

    @property
    def detail(self) -> str:
        """A class or a set of classes among the candidates."""
        return f"a {self.channel().form} among a row's candidates"

    @property
    def mass(self) -> np.ndarray:
        """Prior probability of each row's candidates."""
        return self.candidate_channel()[1]


@dataclass(frozen=True, eq=False)
class TopKResponse(CandidateRandomizer):
    """RRTop-k: randomized response on the k most likely classes of each row.

    A label outside them is replaced by a uniform candidate, so released labels carry little information about unlikely
    classes.

    Args:
        space: The declared label space.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        prior: Public probabilities of the classes, one row for each label: ``ClassProbabilities``, such as those of a
            model; or an array of shape (n, k), if the classes were declared in sorted order.
        k: Number of candidates; ties go to the class that was declared first.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``.
        * Neighbours differ in the label of one row; features and the prior are public, and the prior was not
          computed from these labels. Released labels of other rows may have gone into it.

    References:
        Ghazi et al. 2021, Algorithm 1 and Lemma 1.

    Example:
        >>> from labeldp import Classes, TopKResponse
        >>> prior = [[0.6, 0.3, 0.1], [0.1, 0.1, 0.8]]
        >>> TopKResponse(Classes(["a", "b", "c"]), 1.0, prior, k=2).channel().epsilon <= 1.0
        True

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        InputError: The prior has other classes, or is an array alone and the declared order is not sorted.
        PriorError: The prior has another shape, or a row that is not a distribution.
    """

    k: int

    name: ClassVar[str] = "top-k"
    draws_from: ClassVar[type[CandidateChannel]] = CandidateChannel
    about: ClassVar[str] = "RRTop-k: randomized response on the k most likely classes of each row"

    def __post_init__(self) -> None:
        if isinstance(self.space, LabelSpace):
            object.__setattr__(self, "k", _checks.whole(self.k, "k", 1, self.space.size))
        super().__post_init__()

    @kept
    def candidate_channel(self) -> tuple[CandidateChannel, np.ndarray]:
        """The k most likely classes of each row."""
        candidates, mass = top_candidates(self.prior, self.k)
        return CandidateChannel.at(self.space.size, self.epsilon, candidates), mass


@dataclass(frozen=True, eq=False)
class PriorResponse(CandidateRandomizer):
    """RRWithPrior: RRTop-k with the best number of candidates for each row.

    Best means the largest probability that the released class is the true one, among all epsilon-DP randomizers,
    if labels follow the prior. A uniform prior gives randomized response at every epsilon.

    Args:
        space: The declared label space.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        prior: Public probabilities of the classes, one row for each label: ``ClassProbabilities``, such as those of a
            model; or an array of shape (n, k), if the classes were declared in sorted order.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``.
        * Neighbours differ in the label of one row; features and the prior are public, and the prior was not
          computed from these labels. Released labels of other rows may have gone into it.

    References:
        Ghazi et al. 2021, Algorithm 2, Corollary 2 and Theorem 3.

    Example:
        >>> from labeldp import Classes, PriorResponse
        >>> prior = [[0.98, 0.01, 0.01], [0.4, 0.35, 0.25]]
        >>> PriorResponse(Classes(["a", "b", "c"]), 1.0, prior).channel().sizes.tolist()
        [1, 3]

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        InputError: The prior has other classes, or is an array alone and the declared order is not sorted.
        PriorError: The prior has another shape, or a row that is not a distribution.
    """

    name: ClassVar[str] = "prior"
    draws_from: ClassVar[type[CandidateChannel]] = CandidateChannel
    about: ClassVar[str] = "RRWithPrior: RRTop-k with the best number of candidates for each row"

    @kept
    def candidate_channel(self) -> tuple[CandidateChannel, np.ndarray]:
        """The best number of most likely classes for each row."""
        candidates, mass = prior_candidates(self.prior, self.epsilon)
        return CandidateChannel.at(self.space.size, self.epsilon, candidates), mass


@dataclass(frozen=True, eq=False)
class PriorSubsetResponse(CandidateRandomizer):
    """Subsets of each row's candidates: the best randomizer for distinguishing classes under a known prior.

    Each row has the number of candidates at which its released subset best distinguishes pairs of classes that are
    likely under its prior (``privacy.prior_subset_candidates``), and the best subset size for that number. A uniform
    prior gives ``SubsetResponse``. ``PriorResponse`` maximises the probability of the true class instead: from a prior
    that is nearly sure of a class it releases that class, whatever the label is.

    Args:
        space: The declared label space.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        prior: Public probabilities of the classes, one row for each label: ``ClassProbabilities``, such as those of a
            model; or an array of shape (n, k), if the classes were declared in sorted order.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``.
        * Neighbours differ in the label of one row; features and the prior are public, and the prior was not
          computed from these labels. Released labels of other rows may have gone into it.

    References:
        Ye and Barg 2018 for subsets; Ghazi et al. 2021, Algorithm 1, for candidates.

    Example:
        >>> from labeldp import Classes, PriorSubsetResponse
        >>> prior = [[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]]
        >>> channel = PriorSubsetResponse(Classes(["a", "b", "c", "d"]), 0.5, prior).channel()
        >>> channel.sizes.tolist(), channel.size, channel.epsilon <= 0.5
        ([1, 2, 4], (1, 1, 1, 1, 2), True)

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        InputError: The prior has other classes, or is an array alone and the declared order is not sorted.
        PriorError: The prior has another shape, or a row that is not a distribution.
    """

    name: ClassVar[str] = "prior-subset"
    draws_from: ClassVar[type[CandidateSubsetChannel]] = CandidateSubsetChannel
    about: ClassVar[str] = "Subset of the candidates that a prior gives each row"

    @kept
    def candidate_channel(self) -> tuple[CandidateSubsetChannel, np.ndarray]:
        """The number of most likely classes that a subset distinguishes best, for each row."""
        candidates, mass = prior_subset_candidates(self.prior, self.epsilon)
        return CandidateSubsetChannel.at(self.space.size, self.epsilon, candidates), mass


def checked_prior(prior: object, classes: int, first_row: int = 0) -> np.ndarray:
    """A prior as a read-only copy in floats, of shape (n, classes), whose rows are distributions."""
    array = floats(prior, f"a prior of shape (rows, {classes})", PriorError)
    if array.ndim != 2 or array.shape[1] != classes:
        raise PriorError(
            f"expected a prior with one row for each label and one column for each of the {classes} classes, "
            f"found shape {array.shape}"
        )
    copied, row = copied_prior(array, _TOLERANCE)
    if row >= 0:
        raise PriorError(
            "expected non-negative probabilities that sum to 1 in every row of the prior, found other numbers in "
            f"{row_name(first_row + row)}; normalize it"
        )
    return read_only(copied)
