"""Randomized response: on all classes, or on each row's public candidate set (RRTop-k)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Self

import numpy as np

from labeldp._shapes import Bool, Float, Int, UInt8, UInt64
from labeldp._threads import over_chunks
from labeldp.privacy.channels._bitsets import are_sets, pack, sizes, unpack
from labeldp.privacy.channels._calibration import accept, response_weights
from labeldp.privacy.channels._channel import Columns, Levels, Membership, TransitionTable, candidate_numbers
from labeldp.privacy.channels._class_channel import ExchangeableChannel, SingleClassChannel
from labeldp.privacy.channels._kernels import best_candidates, copy_prior, draw_candidates, draw_response


@dataclass(frozen=True, eq=False)
class ResponseChannel(SingleClassChannel, ExchangeableChannel):
    """The true class with weight ``keep``, each other class with weight ``other``, out of ``2**bits``.

    References:
        Warner 1965; Kairouz et al. 2014 for k classes.
    """

    keep: int
    other: int

    kind: ClassVar[str] = "response"
    words_per_row: ClassVar[int] = 1  # which decides everything

    def __post_init__(self) -> None:
        total = self.keep + (self.classes - 1) * self.other
        if not (self.classes >= 2 and self.keep >= self.other >= 1 and total == self.word):
            raise ValueError("expected keep >= other >= 1 that use every word once")

    @classmethod
    def at(cls, classes: int, epsilon: float, bits: int = 64) -> Self:
        """The channel with the largest epsilon that integers reach within the requested one."""
        keep, other = response_weights(classes, epsilon, bits)
        accept(Fraction(keep, other) if other else Fraction(1), epsilon, bits)
        return cls(classes, keep, other, bits=bits)

    @classmethod
    def nearly_certain(cls, classes: int) -> Self:
        """The channel that changes a label in ``classes - 1`` of ``2**64`` words, for public labels."""
        return cls(classes, (1 << 64) - (classes - 1), 1)

    @property
    def certain(self) -> bool:
        """True for the channel of public labels."""
        return self.bits == 64 and self.other == 1

    @property
    def odds(self) -> Fraction:
        """``keep / other``."""
        return Fraction(self.keep, self.other)

    @property
    def detail(self) -> str:
        """One class."""
        return f"one of {self.classes} classes"

    def columns(self) -> Columns:
        """A class from itself, and from another one."""
        yield "an output equal to the true class", (self.keep, self.other)

    @property
    def losses(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The class of the other label is released with weight ``other``."""
        return ((self.odds, Fraction(self.other, self.word)),)

    @cached_property
    def membership(self) -> Membership:
        """``keep / W`` and ``other / W``; one class is released, so the two events exclude each other."""
        true, other = (Fraction(weight, self.word) for weight in (self.keep, self.other))
        return Membership.of(true, other, true + other)

    def draw_into(
        self, out: Int[np.ndarray, "n"], codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]
    ) -> None:
        """Write released class codes."""
        draw_response(codes, words, self.classes, self.keep, self.other, out)

    def table(self, row: int = 0) -> TransitionTable:  # noqa: ARG002 (all rows are alike)
        """Every class as an outcome."""
        chance = self.membership
        matrix = np.full((self.classes, self.classes), float(chance.other))
        np.fill_diagonal(matrix, float(chance.true))
        return TransitionTable(np.arange(self.classes, dtype=np.int32), matrix)


ENTRIES_PER_CHUNK = 1 << 20
_LARGEST_WORD = (1 << 64) - 1


class CandidateRows(ExchangeableChannel):
    """A channel on the public candidates of each row, as packed bits in class order."""

    candidates: UInt8[np.ndarray, "n b"]

    of_rows: ClassVar[tuple[str, ...]] = ("sizes", "membership")

    @cached_property
    def sizes(self) -> Int[np.ndarray, "n"]:
        """The number of candidates of each row."""
        return sizes(self.candidates)

    @property
    def identifies(self) -> bool:
        """True if all classes are candidates: those outside have the same distribution."""
        return not (self.sizes < self.classes).any()

    @property
    def merged(self) -> tuple[tuple[int, ...], ...]:
        """The classes that are no candidate in any row with several, if there are two or more."""
        told = np.bitwise_or.reduce(self.candidates[self.sizes > 1], axis=0)
        never = np.flatnonzero(~unpack(told[None], self.classes)[0])
        return (tuple(never.tolist()),) if len(never) > 1 else ()

    def check_candidates(self) -> None:
        """Refuse rows without candidates, and candidates that are no classes."""
        if not are_sets(self.candidates, self.classes):
            raise ValueError(f"expected at least one candidate in each row, of {self.classes} classes")

    def check_rows(self, codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "m w"]) -> None:
        """Refuse labels, words and candidates of different numbers of rows."""
        if not codes.size == len(words) == len(self.candidates):
            raise ValueError("expected candidates and words for each label")

    def support(self, rows: slice = slice(None)) -> Bool[np.ndarray, "n k"]:
        """Mask of the candidates of rows."""
        return unpack(self.candidates[rows], self.classes)


@dataclass(frozen=True, eq=False)
class CandidateChannel(SingleClassChannel, CandidateRows):
    """Randomized response on a row's candidates; a label outside them is replaced by a uniform candidate.

    With ``m`` candidates the weights out of ``W = 2**bits`` are ``keep[m]`` for the true class, ``other[m]`` for
    each other candidate, and for a label outside ``ceil(W / m)`` for each candidate but the last, which has the
    remainder. So one word decides each row, without rejection.

    Attributes:
        keep: The weights of the true class, at ``m = 0 .. classes`` (those at 0 are not used).
        other: The weights of another candidate.
        candidates: The candidate set of each row, as packed bits in class order.

    References:
        Ghazi et al. 2021, Algorithm 1 and Lemma 1.
    """

    keep: tuple[int, ...]
    other: tuple[int, ...]
    candidates: UInt8[np.ndarray, "n b"]

    kind: ClassVar[str] = "candidates"
    detail: ClassVar[str] = "one of a row's candidates"
    words_per_row: ClassVar[int] = 1  # which decides everything

    def __post_init__(self) -> None:
        if not len(self.keep) == len(self.other) == self.classes + 1:
            raise ValueError("expected one pair of weights for each number of candidates")
        if (self.keep[0], self.other[0]) != (self.word, 1):
            raise ValueError("expected the weights of no candidate, which are not used, in their one form")
        for m in range(1, self.classes + 1):
            if not (self.keep[m] >= self.other[m] >= 1 and self.keep[m] + (m - 1) * self.other[m] == self.word):
                raise ValueError("expected keep >= other >= 1 that use every word once")
        self.check_candidates()

    @classmethod
    def at(cls, classes: int, epsilon: float, candidates: UInt8[np.ndarray, "n b"], bits: int = 64) -> Self:
        """The channel for these candidates at the requested epsilon, rounded down."""
        keep, other = _response_weights(classes, epsilon, bits)
        return cls(classes, keep, other, candidates, bits=bits)

    @cached_property
    def odds(self) -> Fraction:
        """The largest ratio over all possible numbers of candidates, labels outside them included."""
        pairs = enumerate(zip(self.keep, self.other, strict=True))
        return max(_response_odds(keep, other, m, self.word) for m, (keep, other) in pairs)

    def columns(self) -> Columns:
        """A label outside yields each candidate with the weight ceil(W / m), except the last, which gets the rest."""
        for m in range(2, self.classes + 1):
            even = -(-self.word // m)
            outside = ((even,), (self.word - (m - 1) * even,)) if m < self.classes else ((), ())
            for name, weights in zip(("a candidate", "the last candidate"), outside, strict=True):
                yield f"{name} of {m}", (self.keep[m], self.other[m], *weights)

    @property
    def losses(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """One pair for each number of candidates of the rows; for all numbers for a channel of no rows.

        Two labels among m candidates have the loss of randomized response on m classes, (a_m / b_m, b_m / W). A
        label outside gives the candidate z with weight u_z, and ``u = sum_j s_j (row of candidate j)`` for the shares
        ``s_j = (u_j - b_m) / (a_m - b_m)``, which sum to 1 and are not negative if ``b_m <= u_z``. So a pair with a
        label outside is a mixture, over j, of pairs among the candidates (or of equals), and at every order at most the
        worst of them, since hockey-stick divergences are jointly convex. Two labels outside have the same distribution.
        If an integer violates ``b_m <= u_z``, the worst loss with the channel's odds is returned.
        """
        weights = [(m, self.keep[m], self.other[m]) for m in candidate_numbers(self.sizes, self.classes)]
        if any(self.word - (m - 1) * -(-self.word // m) < other for m, _, other in weights):
            return super().losses
        return tuple((Fraction(keep, other), Fraction(other, self.word)) for _, keep, other in weights)

    @cached_property
    def membership(self) -> Membership:
        """For true classes among the candidates of each row; a row with one candidate discloses nothing."""
        true = np.array([float(Fraction(weight, self.word)) for weight in self.keep])[self.sizes]
        other = np.array([float(Fraction(weight, self.word)) for weight in self.other])[self.sizes]
        other = np.where(self.sizes == 1, 0.0, other)
        # one candidate leaves no two classes to distinguish: an infinite `apart` makes it no effective row
        return Membership(true, other, np.where(self.sizes == 1, np.inf, true + other))

    def draw_into(
        self, out: Int[np.ndarray, "n"], codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]
    ) -> None:
        """Write released class codes."""
        self.check_rows(codes, words)
        # those of 0 and 1 candidates are not used: one candidate needs no word
        outside = [(0, -(-self.word // max(m, 2))) for m in range(self.classes + 1)]
        inside = [(keep % self.word, other) for keep, other in zip(self.keep, self.other, strict=True)]
        laws = [[(own, each, _LARGEST_WORD // each) for own, each in law] for law in (outside, inside)]
        draw_candidates(codes, words, self.candidates, np.array(laws, dtype=np.uint64), out)

    def levels(self, released: Int[np.ndarray, "n"]) -> Levels:
        """``keep / other`` for the released class, one for other candidates, ``W / (m other)`` for classes outside."""
        pairs = list(zip(self.keep, self.other, strict=True))
        high = np.array([keep / other for keep, other in pairs])[self.sizes]
        outside = np.array([self.word / (max(m, 1) * other) for m, (_, other) in enumerate(pairs)])[self.sizes]
        return Levels(self.mask(released), high, self.support(), outside)

    def possible(self, released: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """The candidates of each row."""
        place = np.clip(released, 0, self.classes - 1)
        inside = self.candidates[np.arange(released.size), place >> 3] >> (place & 7).astype(np.uint8) & 1
        return np.asarray((released == place) & (inside == 1))

    def table(self, row: int = 0) -> TransitionTable:
        """The candidates of one row as outcomes."""
        support = self.support(slice(row, row + 1))[0]
        outcomes = np.flatnonzero(support)
        m, word = outcomes.size, self.word
        matrix = np.full((self.classes, m), float(Fraction(-(-word // m), word)))
        matrix[:, -1] = float(1 - (m - 1) * Fraction(-(-word // m), word))
        matrix[outcomes] = float(Fraction(self.other[m], word))
        matrix[outcomes, np.arange(m)] = float(Fraction(self.keep[m], word))
        return TransitionTable(outcomes.astype(np.int32), matrix)


def prior_candidates(
    prior: Float[np.ndarray, "n k"], epsilon: float
) -> tuple[UInt8[np.ndarray, "n b"], Float[np.ndarray, "n"]]:
    """The candidates of RRWithPrior, which release the true class with the largest probability, and their prior mass.

    They are the ``k*`` most likely classes, ``k*`` maximising ``e / (e + k - 1) * sum of the k largest``.

    References:
        Ghazi et al. 2021, Algorithm 2 and Theorem 3.
    """
    packed = np.zeros((len(prior), (prior.shape[1] + 7) // 8), dtype=np.uint8)
    mass, gain = np.empty(len(prior)), np.expm1(epsilon)

    def choose(part: slice) -> None:
        room = np.empty(prior.shape[1]), np.empty(prior.shape[1], dtype=np.int64)
        best_candidates(prior[part], gain, *room, packed[part], mass[part])

    over_chunks(choose, len(prior), max(1, ENTRIES_PER_CHUNK // prior.shape[1]))
    return packed, mass


def copied_prior(prior: Float[np.ndarray, "n k"], tolerance: float) -> tuple[Float[np.ndarray, "n k"], int]:
    """A copy of a prior, and its first row that is not a distribution, or -1."""
    bad_rows: dict[int, int] = {}
    copied = np.empty(prior.shape)

    def copy(part: slice) -> None:
        if (row := copy_prior(prior[part], tolerance, copied[part])) >= 0:
            bad_rows[part.start] = part.start + row

    over_chunks(copy, len(prior), max(1, ENTRIES_PER_CHUNK // max(1, prior.shape[1])))
    return copied, min(bad_rows.values(), default=-1)


def top_candidates(
    prior: Float[np.ndarray, "n k"], size: int
) -> tuple[UInt8[np.ndarray, "n b"], Float[np.ndarray, "n"]]:
    """The ``size`` most likely classes of each row, and their prior mass; ties go to the class declared first."""
    order = np.argsort(-prior, axis=1, kind="stable")[:, :size]
    mask = np.zeros(prior.shape, dtype=np.bool_)
    np.put_along_axis(mask, order, True, axis=1)
    return pack(mask), np.take_along_axis(prior, order, axis=1).sum(axis=1)


@lru_cache
def _response_weights(classes: int, epsilon: float, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The weights at every number of candidates; with one candidate nothing depends on the label."""
    pairs = [(1 << bits, 1), (1 << bits, 1), *(response_weights(m, epsilon, bits) for m in range(2, classes + 1))]
    for m, (keep, other) in enumerate(pairs[2:], start=2):
        accept(_response_odds(keep, other, m, 1 << bits) if other else Fraction(1), epsilon, bits)
    return tuple(keep for keep, _ in pairs), tuple(other for _, other in pairs)


def _response_odds(keep: int, other: int, m: int, word: int) -> Fraction:
    """The worst ratio with ``m`` candidates: between two candidates, and between a candidate and a class outside."""
    if m < 2:
        return Fraction(1)
    usual = -(-word // m)
    last = word - (m - 1) * usual
    if last < 1:
        return Fraction(word)
    return max(Fraction(keep, other), Fraction(keep, last), Fraction(usual, other))
