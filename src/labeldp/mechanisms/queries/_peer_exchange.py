"""The peer exchange: flipped labels are exchanged inside public clusters before anything is released."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np

from labeldp import _checks
from labeldp._random_words import Words
from labeldp._shapes import Bool, Int, Int8, Integer, UInt64
from labeldp.errors import EpsilonError, InputError, LabelError
from labeldp.mechanisms.queries._delta import positive_delta, warn_of_large
from labeldp.mechanisms.queries._mixed_labels import (
    PUBLIC_CLUSTERS,
    MixedLabels,
    checked_rows,
    checked_sizes,
    delta_below,
)
from labeldp.mechanisms.queries._readings import FlippedLabels
from labeldp.mechanisms.queries._stored_form import LawFields, StoredForm, decimal, integer, integers
from labeldp.privacy import UP, Guarantee, LabelSpace, float_above, least_float, shown_above
from labeldp.privacy.accounting import PeerLaw

_WORD = 1 << 64
#: Words of a row: one for the flip, one for the peer, one for sampling.
_WORDS_PER_ROW = 3
#: The value of a row that is not released.
_NOTHING = np.int8(-1)
_NOT_ALONE = (
    "; the exchange amplifies privacy only at a delta above 0: choose 1 over the square of the cluster's size, or use "
    "the epsilon of flipping alone (view_of_one_peer)"
)
#: Relative accuracy of the flip that ``calibrate`` returns.
_TIGHT = 1e-4


@dataclass(frozen=True)
class PeerExchange:
    """Each user flips its label at random, and releases the flipped label of a random member of its cluster.

    Two classes only: the paper and the proof are binary.

    Args:
        flip: Probability of flipping a label, above 0 and at most 1/2. Rounded up to a multiple of ``2**-64``.
        subsample: Probability of releasing a row, above 0 and at most 1. Rounded down to a multiple of ``2**-64``.
        sampling: ``"random"``: each row is released independently. ``"fixed"``: each cluster of n rows releases
            ``subsample * n`` uniformly chosen ones, rounded to the nearest number and at least one. The number of
            released rows is then public, and accounting is faster.

    Guarantee:
        * (epsilon, delta)-label-DP of the learner's view, with the pair that ``guarantee`` returns. It is computed
          from the integers that ``exchange`` draws with, out of ``2**64``; every float error, and all truncated mass,
          is added to the claim.
        * Neighbours differ in the label of one row; features, clusters and the set of released rows are public.
        * Assumed: no peer colludes with the learner, and nobody sees who asked whom. ``collusion`` is the epsilon
          against the learner colluding with one peer. Against observers of all routing, and against one peer, only
          the flip protects.
        * Assumed too: each user draws with words of its own, and asks once. A repeated exchange costs again.

    References:
        Esfandiari et al. 2022, algorithm 2; its theorem 3 is replaced by an exact account (``PeerLaw``).

    Raises:
        EpsilonError: A flip or subsample out of range.
        InputError: An unknown kind of sampling.

    Example:
        >>> from labeldp import PeerExchange
        >>> peers = PeerExchange(flip=0.05)
        >>> round(peers.guarantee([500, 700], delta=1e-6).epsilon, 3)
        0.654
        >>> round(peers.collusion([500, 700], delta=1e-6), 3), round(peers.view_of_one_peer, 3)
        (2.944, 2.944)
    """

    flip: float
    subsample: float = 1.0
    sampling: Literal["random", "fixed"] = "random"

    name: ClassVar[str] = "peer-exchange"
    about: ClassVar[str] = "Exchange between peers: flip each label, then release that of a random cluster member"

    def __post_init__(self) -> None:
        flip, subsample = _checks.number(self.flip, "flip"), _checks.number(self.subsample, "subsample")
        if not 0.0 < flip <= 0.5:
            raise EpsilonError(
                f"expected flip to be above 0 and at most 0.5, found {flip!r}; 0.5 releases pure noise, and "
                "above it the two classes are merely swapped; use calibrate to choose flip for an epsilon"
            )
        if not 2.0**-64 <= subsample <= 1.0:
            raise EpsilonError(
                f"expected subsample to be above 0 and at most 1, found {subsample!r}; give the share of rows to "
                "release, 1 for all"
            )
        if self.sampling not in ("random", "fixed"):
            raise InputError(f"expected sampling to be 'random' or 'fixed', found {self.sampling!r}; choose one")
        object.__setattr__(self, "flip", flip)
        object.__setattr__(self, "subsample", subsample)

    @cached_property
    def law(self) -> PeerLaw:
        """The integers of the draw and of the accounting, out of ``2**64``."""
        return PeerLaw(math.ceil(self.flip * _WORD), math.floor(self.subsample * _WORD), self.sampling == "fixed")

    @property
    def view_of_one_peer(self) -> float:
        """The epsilon of what one peer sees, log((1 - flip) / flip), rounded up; delta is 0."""
        return self.law.alone

    def delta_of_one_peer(self, cluster_sizes: Iterable[Any]) -> float:
        """The delta at epsilon 0 of what one peer hears in the exchange, ``(1 - 2 flip) / n``, rounded up.

        It hears one flipped label, which is the changed one with probability 1/n, and flips move that by 1 - 2 flip in
        total variation. A peer that also sees what the learner sees colludes with it: see ``collusion``.

        Args:
            cluster_sizes: The number of rows of each cluster; the smallest decides.

        References:
            Esfandiari et al. 2022, section 5.1: (0, 1/s)-label-DP in clusters of at least s members.

        Raises:
            InputError: No cluster, or one without rows or with more than ``2**24``.

        Example:
            >>> PeerExchange(flip=0.25).delta_of_one_peer([500, 700])
            0.001
        """
        smallest = min(checked_sizes(cluster_sizes))
        return float_above(UP.divide(_WORD - 2 * self.law.flip, _WORD * smallest))

    def guarantee(self, cluster_sizes: Iterable[Any], delta: float) -> Guarantee:
        """The guarantee of the learner's view: the epsilon at a delta, the largest over clusters, rounded up.

        The epsilon against the learner together with one peer is in the assumptions.

        Args:
            cluster_sizes: The number of rows of each cluster; repeated sizes are computed once.
            delta: Failure probability, above 0. From ``1 / n`` on it is too weak, and a ``DeltaWarning`` is issued;
                choose one well below, such as ``1 / n**2``.

        Raises:
            EpsilonError: A delta that is not above 0 and below 1.
            InputError: No cluster, or one without rows or with more than ``2**24``.
        """
        sizes, delta = checked_sizes(cluster_sizes), positive_delta(delta, _NOT_ALONE)
        smallest = min(sizes)
        warn_of_large(delta, smallest, "the size of the smallest cluster", stacklevel=3)
        return _guarantee(self.law, sizes, delta)

    def delta_at(self, epsilon: float, cluster_sizes: Iterable[Any]) -> float:
        """The delta of the learner's view at an epsilon, the largest over clusters, rounded up.

        Args:
            epsilon: Natural logarithm of the allowed ratio, at least 0.
            cluster_sizes: The number of rows of each cluster.

        Raises:
            EpsilonError: An epsilon that is not a finite number of at least 0.
            InputError: No cluster, or one without rows or with more than ``2**24``.
        """
        checked = _checks.number(epsilon, "epsilon")
        if checked != 0.0:
            checked = _checks.epsilon(checked)
        return self.law.delta(checked, checked_sizes(cluster_sizes))

    def collusion(self, cluster_sizes: Iterable[Any], delta: float) -> float:
        """The epsilon at a delta against the learner colluding with one peer, rounded up.

        That peer asked the changed row with probability 1/n and then holds its flipped label, so delta at epsilon is
        at least ``((1 - flip) - exp(epsilon) flip) / n``: the clusters help little. In clusters of one or two rows it
        is the epsilon of flipping alone.

        Args:
            cluster_sizes: The number of rows of each cluster.
            delta: Failure probability, above 0.

        Raises:
            EpsilonError: A delta that is not above 0 and below 1.
            InputError: No cluster, or one without rows or with more than ``2**24``.
        """
        return self.law.collusion(delta_below(positive_delta(delta, _NOT_ALONE)), checked_sizes(cluster_sizes))

    @classmethod
    def calibrate(
        cls,
        epsilon: float,
        delta: float,
        cluster_sizes: Iterable[Any],
        subsample: float = 1.0,
        sampling: Literal["random", "fixed"] = "random",
    ) -> Self:
        """The exchange with the least flip, to a part in ten thousand, that satisfies an epsilon and a delta.

        Delta at each epsilon does not increase with the flip up to 1/2: flipping more is flipping each true label
        beforehand, and an exchange of labels that are randomized equally for both neighbours is a mixture of exchanges,
        whose divergence is at most the largest of theirs. So the search bisects. The accounting of the result does not
        rest on that.

        Args:
            epsilon: The target epsilon; that of ``guarantee`` is at most this.
            delta: Failure probability, above 0.
            cluster_sizes: The number of rows of each cluster.
            subsample: As for the class.
            sampling: As for the class.

        Raises:
            EpsilonError: An epsilon or delta that cannot be met.
            InputError: No cluster, or one without rows or with more than ``2**24``.

        Example:
            >>> peers = PeerExchange.calibrate(epsilon=0.6, delta=1e-6, cluster_sizes=[500, 700])
            >>> 0.0 < peers.flip < 0.06
            True
        """
        target, sizes, allowed = (
            _checks.epsilon(epsilon),
            checked_sizes(cluster_sizes),
            delta_below(positive_delta(delta, _NOT_ALONE)),
        )

        def keeps(flip: float) -> bool:
            return cls(flip, subsample, sampling).law.keeps(target * (1.0 - 1e-9), allowed, sizes)

        # at this flip, flipping alone satisfies the epsilon, whatever the clusters
        high = min(0.5, math.exp(-target) / (1.0 + math.exp(-target)) * (1.0 + 1e-9))
        low = high / 2.0
        while low > 2.0**-60 and keeps(low):
            low, high = low / 2.0, low
        return cls(least_float(keeps, low, high, _TIGHT), subsample, sampling)

    @staticmethod
    def check(space: LabelSpace) -> None:
        """Refuse a label space that is not of two classes.

        Raises:
            LabelError: There are more than two classes.
        """
        if space.size != 2:
            raise LabelError(
                f"expected a label space of two classes, found {space.size}: the exchange between peers and its proof "
                "are for two classes; use a randomizer, such as SubsetResponse"
            )


@dataclass(frozen=True, eq=False)
class ExchangedLabels(MixedLabels):
    """The labels that peers release, each row that of a random member of its cluster, simulated in one place.

    The answer has a class code for each row, shape (n,), and -1 where a row is not released.

    Args:
        space: A declared label space of two classes.
        peers: The exchange.
        clusters: The public cluster of each row, any integers, shape (n,).
        delta: Failure probability, above 0.

    Guarantee:
        That of ``peers`` for the sizes of these clusters, at this delta. Units of several rows are refused, since
        there is no accounting for them.

    References:
        Esfandiari et al. 2022, algorithm 2.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, PeerExchange
        >>> from labeldp.mechanisms.queries import ExchangedLabels
        >>> space = Classes(["no", "yes"])
        >>> curator = Curator(["no"] * 300 + ["yes"] * 300, space)
        >>> query = ExchangedLabels(space, PeerExchange(flip=0.1), np.repeat([0, 1], 300), delta=1e-6)
        >>> answer = curator.answer(query)
        >>> answer.value.shape, answer.guarantee.trust, answer.guarantee.epsilon < 1
        ((600,), 'peer', True)

    Raises:
        LabelError: There are more than two classes.
        InputError: Clusters that are not whole numbers, one for each row.
    """

    peers: PeerExchange
    clusters: Integer[np.ndarray, "n"]
    delta: float

    name: ClassVar[str] = "peer-exchange"
    about: ClassVar[str] = "Query that simulates a peer exchange over all rows"
    mixing: ClassVar[str] = "an exchange between peers"
    not_alone: ClassVar[str] = _NOT_ALONE

    def __post_init__(self) -> None:
        PeerExchange.check(self.space)
        self._check_clusters()

    @cached_property
    def _promise(self) -> Guarantee:
        return self.peers.guarantee(self._sizes, self.delta)

    def _draws(self) -> dict[str, Any]:
        law = self.peers.law
        return {"flip": str(law.flip), "sample": str(law.sample), "fixed": law.fixed}

    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> np.ndarray:
        """The released label of each row, -1 for rows that are not released."""
        del labels_of_a_unit
        return exchange(codes, self.clusters, self.peers, words)[0]

    @classmethod
    def fields(cls) -> LawFields:
        """The integers of the users' draws, delta and the sizes of clusters."""
        draws = {**dict.fromkeys(("flip", "sample"), integer), "fixed": lambda value: isinstance(value, bool)}
        return LawFields({**draws, "delta": decimal, "cluster_sizes": integers}, {})

    @classmethod
    def promise_of(cls, law: Mapping[str, Any], _: LabelSpace) -> Guarantee:
        """The guarantee, recomputed from the integers of the users' draws.

        Raises:
            ValueError: They are not valid parameters of an exchange.
        """
        peers = PeerLaw(int(law["flip"]), int(law["sample"]), law["fixed"] is True)
        sizes = checked_sizes(int(size) for size in law["cluster_sizes"])
        return _guarantee(peers, sizes, positive_delta(float(law["delta"]), _NOT_ALONE))

    @classmethod
    def stored(cls, _: Mapping[str, Any], __: LabelSpace) -> StoredForm:
        """A column of classes, with nulls for rows that are not released."""
        return StoredForm(("released",), "class or none", by_row=True)

    @classmethod
    def reading(cls, value: np.ndarray, law: Mapping[str, Any], _: LabelSpace) -> FlippedLabels:
        """Labels of two classes, flipped at random."""
        return FlippedLabels(value, Fraction(int(law["flip"]), _WORD), resampled=True)


def _guarantee(law: PeerLaw, sizes: list[int], delta: float) -> Guarantee:
    """The guarantee of the learner's view, with the epsilons without its assumptions."""
    together = shown_above(law.collusion(delta_below(delta), sizes), 7)
    return Guarantee(
        law.epsilon(delta_below(delta), sizes),
        delta,
        "peer",
        assumptions=(
            f"no peer colludes with the learner: against the learner with one peer, epsilon is {together}",
            "nobody sees who asked whom: against whoever does, and against each peer alone, epsilon is "
            f"{shown_above(law.alone, 7)} and delta 0",
            PUBLIC_CLUSTERS,
        ),
    )


def exchange(
    codes: Integer[np.ndarray, "n"], clusters: Integer[np.ndarray, "m"], peers: PeerExchange, words: Words
) -> tuple[Int8[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
    """Simulate the whole exchange in one place.

    Row i uses the words 3 i, 3 i + 1 and 3 i + 2: the first flips its label if it is below ``peers.law.flip``, the
    second picks its peer, the third releases it if it is below ``peers.law.sample`` (or ranks it in its cluster, under
    fixed sampling). A peer is the remainder of a word by the size of the cluster; words of the last, incomplete, round
    are replaced by spare words after those of all rows, so peers are exactly uniform. All this depends on words and
    clusters alone, never on a label.

    Args:
        codes: Codes of the true labels, 0 or 1, shape (n,).
        clusters: The public cluster of each row, any integers, shape (n,).
        peers: The exchange.
        words: A stream of random words.

    Returns:
        The released labels, -1 in rows that are not released, and the mask of released rows.

    Guarantee:
        That of ``peers`` with the sizes of these clusters, for the returned values, if the words come from a
        cryptographic random source.

    References:
        Esfandiari et al. 2022, algorithm 2.

    Raises:
        InputError: Arrays of different lengths, or codes other than 0 and 1.

    Example:
        >>> import numpy as np
        >>> from labeldp._random_words import SecureWords
        >>> from labeldp import PeerExchange
        >>> from labeldp.mechanisms.queries import exchange
        >>> codes, clusters = np.array([0, 1, 1, 0]), np.array([7, 7, 9, 9])
        >>> released, sampled = exchange(codes, clusters, PeerExchange(flip=0.1), SecureWords())
        >>> released.shape, bool(sampled.all())
        ((4,), True)
    """
    codes, clusters = checked_rows(codes, "codes"), checked_rows(clusters, "clusters")
    if codes.shape != clusters.shape:
        raise InputError(
            f"expected a cluster for each of {codes.size} codes, found {clusters.size}; give one public number for "
            "each row"
        )
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) <= 1:
        raise InputError(
            "expected codes 0 and 1, found another: the exchange between peers and its proof are for two classes; "
            "use a randomizer, such as SubsetResponse"
        )
    row_words = words.block(0, _WORDS_PER_ROW * codes.size).reshape(codes.size, _WORDS_PER_ROW)
    groups, sizes = np.unique(clusters, return_inverse=True, return_counts=True)[1:]
    order, starts = np.argsort(groups, kind="stable"), np.cumsum(sizes) - sizes
    flipped = codes.astype(np.int8) ^ (row_words[:, 0] < np.uint64(peers.law.flip))
    peer = order[starts[groups] + _uniform(row_words[:, 1], sizes[groups], words)]
    sampled = _sampled(row_words[:, 2], groups, sizes, peers.law)
    return np.where(sampled, flipped[peer], _NOTHING), sampled


def _uniform(first: UInt64[np.ndarray, "n"], sizes: Int[np.ndarray, "n"], words: Words) -> Int[np.ndarray, "n"]:
    """A uniform integer below each size: the remainder of the first word below the largest multiple of the size."""
    count, numbers = first.size, first.copy()
    modulus = sizes.astype(np.uint64)
    last = np.uint64(_WORD - 1) - ((np.uint64(_WORD - 1) % modulus) + np.uint64(1)) % modulus
    rejected, spare = np.flatnonzero(numbers > last), _WORDS_PER_ROW * count
    while rejected.size:
        numbers[rejected] = [words.block(spare + int(row), 1)[0] for row in rejected]
        rejected, spare = rejected[numbers[rejected] > last[rejected]], spare + count
    return (numbers % modulus).astype(np.int64)


def _sampled(
    row_words: UInt64[np.ndarray, "n"], groups: Int[np.ndarray, "n"], sizes: Int[np.ndarray, "c"], law: PeerLaw
) -> Bool[np.ndarray, "n"]:
    """Mask of the released rows; under fixed sampling, ties of words go to the earlier row."""
    if law.sample == _WORD:
        return np.ones(row_words.size, dtype=np.bool_)
    if not law.fixed:
        return row_words < np.uint64(law.sample)
    order = np.lexsort((row_words, groups))
    released = np.array([law.released(int(size)) for size in sizes], dtype=np.int64)
    rank = np.arange(row_words.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    sampled = np.empty(row_words.size, dtype=np.bool_)
    sampled[order] = rank < np.repeat(released, sizes)
    return sampled
