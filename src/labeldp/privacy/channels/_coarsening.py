"""The channel of randomized response on groups of adjacent classes, which are public and may differ by row."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Self

import numpy as np

from labeldp._shapes import Bool, Float, Int, UInt8, UInt64
from labeldp._threads import over_chunks
from labeldp.errors import InputError
from labeldp.privacy.channels._bitsets import are_sets, pack, sizes, unpack
from labeldp.privacy.channels._calibration import accept, response_weights
from labeldp.privacy.channels._candidates import ENTRIES_PER_CHUNK
from labeldp.privacy.channels._channel import Columns, Levels, Membership, TransitionTable, candidate_numbers
from labeldp.privacy.channels._class_channel import ClassSetChannel
from labeldp.privacy.channels._kernels import best_groups, draw_coarsening, pairs_within

#: Limit on the work of choosing the groups of a row: at most this many groups times classes.
_MOST_LAYERS = 1024


@dataclass(frozen=True, eq=False)
class CoarseningChannel(ClassSetChannel):
    """Randomized response on the groups of a row: the group of the true class, or any other group.

    The classes of a row, in declared order, are cut into m groups of adjacent classes. The weights out of
    ``W = 2**bits`` are ``keep[m]`` for the true class's group and ``other[m]`` for each other group. Classes of one
    group have the same distribution, so the worst ratio is that of randomized response on m classes, and a row with one
    group discloses nothing. As labels in a group cannot be distinguished, no unbiased vectors exist.

    Attributes:
        keep: Weight of the true class's group, at ``m = 0 .. classes``; W at 0 and 1.
        other: Weight of another group; 1 at 0 and 1, where it is not used.
        firsts: The first class of each group of each row, as packed bits in class order.

    References:
        Warner 1965; Kairouz et al. 2014, for the groups as classes.
    """

    keep: tuple[int, ...]
    other: tuple[int, ...]
    firsts: UInt8[np.ndarray, "n b"]

    kind: ClassVar[str] = "coarsening"
    detail: ClassVar[str] = "one of a row's groups of adjacent classes"
    words_per_row: ClassVar[int] = 1  # which decides everything
    even: ClassVar[bool] = False
    identifies: ClassVar[bool] = False
    of_rows: ClassVar[tuple[str, ...]] = ("sizes", "membership")

    def __post_init__(self) -> None:
        if not len(self.keep) == len(self.other) == self.classes + 1:
            raise ValueError("expected one pair of weights for each number of groups")
        if (self.keep[:2], self.other[:2]) != ((self.word, self.word), (1, 1)):
            raise ValueError("expected the weights of no group and of one, which decide nothing, in their one form")
        for m in range(2, self.classes + 1):
            if not (self.keep[m] >= self.other[m] >= 1 and self.keep[m] + (m - 1) * self.other[m] == self.word):
                raise ValueError("expected keep >= other >= 1 that use every word once")
        if not are_sets(self.firsts, self.classes):
            raise ValueError(f"expected first classes of groups in each row, of {self.classes} classes")
        if not (self.firsts[:, 0] & 1).all():
            raise ValueError("expected the first class of each row to begin a group")

    @classmethod
    def at(cls, classes: int, epsilon: float, firsts: UInt8[np.ndarray, "n b"], bits: int = 64) -> Self:
        """The channel for these groups at the requested epsilon, rounded down."""
        keep, other = _group_weights(classes, epsilon, bits)
        return cls(classes, keep, other, firsts, bits=bits)

    @cached_property
    def sizes(self) -> Int[np.ndarray, "n"]:
        """The number of groups of each row."""
        return sizes(self.firsts)

    @property
    def merged(self) -> tuple[tuple[int, ...], ...]:
        """Adjacent classes that are in one group in every row."""
        cut = unpack(np.bitwise_or.reduce(self.firsts, axis=0)[None], self.classes)[0]
        parts = np.split(np.arange(self.classes), np.flatnonzero(cut[1:]) + 1)
        return tuple(tuple(part.tolist()) for part in parts if len(part) > 1)

    @cached_property
    def odds(self) -> Fraction:
        """The largest ``keep / other`` over all possible numbers of groups."""
        pairs = list(zip(self.keep, self.other, strict=True))[2:]
        return max((Fraction(keep, other) for keep, other in pairs), default=Fraction(1))

    def columns(self) -> Columns:
        """A group from a class in it, and from a class in another group, at each number of groups."""
        for m in range(2, self.classes + 1):
            yield f"one of {m} groups, with the true class", (self.keep[m], self.other[m])

    @property
    def losses(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """One pair for each number of groups of the rows, that of randomized response; for a channel of no rows, all.

        Two classes of one group have the same distribution; two of different groups are two classes of randomized
        response on m classes.
        """
        numbers = candidate_numbers(self.sizes, self.classes)
        return tuple((Fraction(self.keep[m], self.other[m]), Fraction(self.other[m], self.word)) for m in numbers)

    @cached_property
    def membership(self) -> Membership:
        """For each row, averaged over pairs of different classes: those in one group are released together."""
        together = np.empty(len(self.firsts))
        pairs_within(self.firsts, self.classes, together)
        keep, other = (chances[self.sizes] for chances in self._chances)
        return Membership(keep, other + together * (keep - other), (1.0 - together) * (keep + other))

    def holding(self, codes: Int[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """For true classes in the group of the class, and in another group; both are 1 in a row with one group."""
        del codes
        keep, other = (chances[self.sizes] for chances in self._chances)
        return keep, np.where(self.sizes > 1, other, 1.0)

    def draw_into(
        self, out: UInt8[np.ndarray, "n b"], codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]
    ) -> None:
        """Write released groups as packed bits."""
        if not codes.size == len(words) == len(self.firsts):
            raise ValueError("expected groups and words for each label")
        keep = np.array([weight % self.word for weight in self.keep], dtype=np.uint64)  # one group needs no word
        other = np.array(self.other, dtype=np.uint64)
        draw_coarsening(codes, words, self.classes, self.firsts, self.sizes, keep, other, out)

    def levels(self, released: np.ndarray) -> Levels:
        """``keep / other`` for the classes of the released group."""
        odds = np.array([keep / other for keep, other in zip(self.keep, self.other, strict=True)])
        return Levels(self.mask(released), np.where(self.sizes > 1, odds[self.sizes], 1.0))

    def unbiased(self, released: object) -> Float[np.ndarray, "n k"]:
        """None: classes of one group have the same distribution.

        Raises:
            InputError: Always.
        """
        del released
        raise self._not_identified()

    def traces(self, *, projected: bool) -> Float[np.ndarray, "2 n"]:
        """None: unbiased gradients do not exist.

        Raises:
            InputError: Always.
        """
        del projected
        raise self._not_identified()

    def possible(self, released: np.ndarray) -> Bool[np.ndarray, "n"]:
        """The groups of each row."""
        mask, group = self.mask(released), self.groups()
        first = np.take_along_axis(group, mask.argmax(axis=1)[:, None], axis=1)
        return np.asarray((mask == (group == first)).all(axis=1))

    def groups(self) -> Int[np.ndarray, "n k"]:
        """The number of the group of each class, from 0, in each row."""
        return np.asarray(np.cumsum(unpack(self.firsts, self.classes), axis=1) - 1)

    def alone(self, codes: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows in which a class is a group of its own, one class for each row."""
        starts = np.concatenate([unpack(self.firsts, self.classes), np.ones((len(codes), 1), dtype=np.bool_)], axis=1)
        rows = np.arange(len(codes))
        return np.asarray(starts[rows, codes] & starts[rows, codes + 1])

    def table(self, row: int = 0) -> TransitionTable:
        """The groups of one row as outcomes."""
        group = self.take(slice(row, row + 1)).groups()[0]
        m = int(group[-1]) + 1
        keep, other = (float(chances[m]) for chances in self._chances)
        held = group == np.arange(m)[:, None]
        return TransitionTable(pack(held), np.where(held.T, keep, other))

    @staticmethod
    def _not_identified() -> InputError:
        return InputError(
            "expected released labels that identify the true class, found groups of classes, which have no unbiased "
            "vectors; learn with method='likelihood'"
        )

    @cached_property
    def _chances(self) -> tuple[Float[np.ndarray, "numbers"], Float[np.ndarray, "numbers"]]:
        """Probabilities of the true class's group and of another one, at each number of groups."""
        keep, other = (np.array([float(Fraction(w, self.word)) for w in each]) for each in (self.keep, self.other))
        return keep, other


def informative_groups(
    prior: Float[np.ndarray, "n k"], epsilon: float, *, ordered: bool = True
) -> UInt8[np.ndarray, "n b"]:
    """The groups of adjacent classes whose randomized response is most informative under a prior, for each row.

    The result is the first class of each group, as packed bits. Among all ways to cut the classes into m groups, for
    every m, it maximises

    * for ordered classes the Fisher information about a shift of the prior: if a class is the interval of a standard
      normal number between two cut points c, those of the prior, its probability changes with a shift at the rate
      ``phi(c_low) - phi(c_high)``, and the information of m groups is ``sum_g (t r_g)**2 / (f + t q_g)`` with
      ``f = 1 / (e + m - 1)``, ``t = (e - 1) f``, and rates r_g and probabilities q_g of groups;
    * else the mutual information of the true class and the released group, the entropy of ``f + t q_g`` less that of
      randomized response on m classes.

    Both are sums over groups at each m, so dynamic programming finds the best cuts. It takes all m up to
    ``1024 / classes`` (every m up to 32 classes), and m = classes. Where no cut is informative, all classes are one
    group.
    """
    from scipy.special import ndtri  # noqa: PLC0415 (it loads slowly)

    classes = prior.shape[1]
    if 2 * classes > _MOST_LAYERS:
        raise InputError(
            f"expected at most {_MOST_LAYERS // 2} classes to choose groups of, found {classes}; give groups=, or "
            "declare fewer classes"
        )
    packed = np.zeros((len(prior), (classes + 7) // 8), dtype=np.uint8)

    def choose_groups(part: slice) -> None:
        below = np.zeros((len(prior[part]), classes + 1))
        np.cumsum(prior[part], axis=1, out=below[:, 1:])
        below /= below[:, -1:]
        density = np.exp(-0.5 * ndtri(below) ** 2) / np.sqrt(2 * np.pi)
        layers = classes + 1, classes + 1
        room = np.empty(layers), np.empty(layers, dtype=np.int64), np.empty((2, classes), dtype=np.uint8)
        best_groups(below, density, np.expm1(epsilon), _MOST_LAYERS // classes, ordered, *room, packed[part])

    over_chunks(choose_groups, len(prior), max(1, ENTRIES_PER_CHUNK // classes))
    return packed


@lru_cache
def _group_weights(classes: int, epsilon: float, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The weights at every number of groups; with one group nothing depends on the label."""
    pairs = [(1 << bits, 1), (1 << bits, 1), *(response_weights(m, epsilon, bits) for m in range(2, classes + 1))]
    for keep, other in pairs[2:]:
        accept(Fraction(keep, other) if other else Fraction(1), epsilon, bits)
    return tuple(keep for keep, _ in pairs), tuple(other for _, other in pairs)
