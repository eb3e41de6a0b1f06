"""Shuffled cells: labels that are randomized alone, and shuffled among the rows of public cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from labeldp import _checks
from labeldp._random_words import Words
from labeldp._shapes import Int, Integer
from labeldp.errors import LabelError
from labeldp.mechanisms._draw import draw
from labeldp.mechanisms.queries._delta import positive_delta, warn_of_large
from labeldp.mechanisms.queries._mixed_labels import PUBLIC_CLUSTERS, MixedLabels, checked_sizes, delta_below
from labeldp.mechanisms.queries._readings import FlippedLabels
from labeldp.mechanisms.queries._stored_form import LawFields, StoredForm, decimal, integer, integers
from labeldp.privacy import Guarantee, LabelSpace, shown_above
from labeldp.privacy.accounting import ShuffleLaw
from labeldp.privacy.channels import ResponseChannel

_WORD = 1 << 64
_NOT_ALONE = (
    "; shuffling amplifies privacy only at a delta above 0: choose 1 over the square of the smallest cell's size"
)
#: Relative accuracy of the local epsilon that ``calibrate`` returns, and the share of a target that accounts may miss.
_TIGHT, _MISSED = 1e-4, 2.0**-18
#: The largest local epsilon that ``calibrate`` tries.
_MOST = 32.0


@dataclass(frozen=True)
class CellShuffle:
    """Each label is randomized alone, and a shuffler mixes the labels of each public cell before anyone sees them.

    Args:
        epsilon: The epsilon of each label before it is shuffled, above 0: that of k-ary randomized response.
        classes: The number of classes, 2 or more.

    Guarantee:
        * (epsilon, delta)-label-DP of all shuffled labels, with the pair that ``guarantee`` returns. It is computed
          from the integers that ``ShuffledLabels`` draws with, out of ``2**64``; every float error, and all truncated
          mass, is added to the claim. It is exact for two classes, and an upper bound for more (``ShuffleLaw``).
        * Neighbours differ in the label of one row; features, cells and their sizes are public. The smallest cell
          decides.
        * Assumed: nobody but the shuffler sees which row sent which label, and no row tells what it sent.
          ``with_one_row`` is the epsilon against the receiver together with one row of the cell. Against the shuffler
          only the randomization of each label protects.
        * Assumed too: each label is randomized once, with words of its own.

    References:
        Cheu et al. 2019; Balle et al. 2019. Esfandiari et al. 2022, section 5.1, compare it with ``PeerExchange``.

    Raises:
        EpsilonError: An epsilon that is not above 0, or that no integers express.
        InputError: Fewer than two classes.

    Example:
        >>> from labeldp import CellShuffle
        >>> shuffle = CellShuffle(epsilon=1.0)
        >>> [round(shuffle.guarantee([size], delta=1e-6).epsilon, 2) for size in (100, 1_000, 10_000)]
        [0.48, 0.13, 0.04]
    """

    epsilon: float
    classes: int = 2

    name: ClassVar[str] = "shuffle"
    about: ClassVar[str] = "Labels randomized alone, then shuffled among the rows of each public cell"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _checks.epsilon(self.epsilon))
        object.__setattr__(self, "classes", _checks.whole(self.classes, "classes", 2, 1 << 24))
        _ = self.channel

    @cached_property
    def channel(self) -> ResponseChannel:
        """The channel of each label before it is shuffled."""
        return ResponseChannel.at(self.classes, self.epsilon)

    @property
    def law(self) -> ShuffleLaw:
        """The integers of the draw and of the accounting, out of ``2**64``."""
        return ShuffleLaw(self.classes, self.channel.keep, self.channel.other)

    def guarantee(self, cell_sizes: Iterable[Any], delta: float) -> Guarantee:
        """The guarantee of all shuffled labels: the epsilon at a delta, of the smallest cell, rounded up.

        Args:
            cell_sizes: The number of rows of each cell.
            delta: Failure probability, above 0. From ``1 / n`` on it is too weak, and a ``DeltaWarning`` is issued.

        Raises:
            EpsilonError: A delta that is not above 0 and below 1.
            InputError: No cell, or one without rows or with more than ``2**24``.
        """
        sizes, delta = checked_sizes(cell_sizes), positive_delta(delta, _NOT_ALONE)
        warn_of_large(delta, sizes[0], "the size of the smallest cell", stacklevel=3)
        return _guarantee(self.law, sizes, delta)

    def delta_at(self, epsilon: float, cell_sizes: Iterable[Any]) -> float:
        """The delta of all shuffled labels at an epsilon, of the smallest cell, rounded up.

        Args:
            epsilon: Natural logarithm of the allowed ratio, at least 0.
            cell_sizes: The number of rows of each cell.

        Raises:
            EpsilonError: An epsilon that is not a finite number of at least 0.
            InputError: No cell, or one without rows or with more than ``2**24``.
        """
        checked = _checks.number(epsilon, "epsilon")
        if checked != 0.0:
            checked = _checks.epsilon(checked)
        return self.law.delta(checked, checked_sizes(cell_sizes))

    def with_one_row(self, cell_sizes: Iterable[Any], delta: float) -> float:
        """The epsilon at a delta against the receiver who knows what one row of the cell sent, rounded up.

        Args:
            cell_sizes: The number of rows of each cell.
            delta: Failure probability, above 0.

        Raises:
            EpsilonError: A delta that is not above 0 and below 1.
            InputError: No cell, or one without rows or with more than ``2**24``.
        """
        return self.law.with_one_row(delta_below(positive_delta(delta, _NOT_ALONE)), checked_sizes(cell_sizes))

    @classmethod
    def calibrate(cls, epsilon: float, delta: float, cell_sizes: Iterable[Any], classes: int = 2) -> Self:
        """The shuffle with the largest epsilon of each label, to a part in ten thousand, within an epsilon and a delta.

        Labels that are randomized more can be made of such that are randomized less, so delta does not grow as that
        epsilon falls, and the search bisects. The accounting of the result does not rest on that.

        Args:
            epsilon: The target epsilon; that of ``guarantee`` is at most this.
            delta: Failure probability, above 0.
            cell_sizes: The number of rows of each cell.
            classes: The number of classes.

        Raises:
            EpsilonError: An epsilon or delta that cannot be met.
            InputError: No cell, or one without rows or with more than ``2**24``.

        Example:
            >>> shuffle = CellShuffle.calibrate(epsilon=0.5, delta=1e-6, cell_sizes=[1_000, 4_000])
            >>> round(shuffle.epsilon, 1)
            2.6
        """
        target, sizes = _checks.epsilon(epsilon), checked_sizes(cell_sizes)
        allowed = delta_below(positive_delta(delta, _NOT_ALONE))

        def keeps(local: float) -> bool:
            return cls(local, classes).law.keeps(target * (1.0 - _MISSED), allowed, sizes)

        # before the labels are shuffled they already satisfy this one
        low, high = target * (1.0 - 2.0 * _MISSED), 2.0 * target
        while high < _MOST and keeps(high):
            low, high = high, 2.0 * high
        while high - low > _TIGHT * low:
            middle = (low + high) / 2.0
            low, high = (middle, high) if keeps(middle) else (low, middle)
        return cls(low, classes)


@dataclass(frozen=True, eq=False)
class ShuffledLabels(MixedLabels):
    """Labels that are randomized alone and shuffled among the rows of each cell, all in one place.

    The answer has a class code for each row, shape (n,). Within a cell they are the randomized labels of its rows in
    random order: what they say is how many there are of each class.

    Args:
        space: The declared label space.
        shuffle: The randomization of each label, for the classes of the space.
        clusters: The public cell of each row, any integers, shape (n,).
        delta: Failure probability, above 0.

    Guarantee:
        That of ``shuffle`` for the sizes of these cells, at this delta. The counts of each cell are all that is used of
        its randomized labels: they are sorted, and then laid on its rows in an order that depends on no label, so it
        need not be exactly uniform. Units of several rows are refused, since there is no accounting for them.

    References:
        Cheu et al. 2019; Esfandiari et al. 2022, section 5.1.

    Example:
        >>> import numpy as np
        >>> from labeldp import CellShuffle, Classes, Curator, ShuffledLabels
        >>> space = Classes(["no", "yes"])
        >>> curator = Curator(["no"] * 600 + ["yes"] * 600, space)
        >>> query = ShuffledLabels(space, CellShuffle(epsilon=2.0), np.repeat([0, 1], 600), delta=1e-6)
        >>> answer = curator.answer(query)
        >>> answer.value.shape, answer.guarantee.trust, answer.guarantee.epsilon < 0.5
        ((1200,), 'shuffle', True)

    Raises:
        LabelError: The space has another number of classes.
        InputError: Cells that are not whole numbers, one for each row.
    """

    shuffle: CellShuffle
    clusters: Integer[np.ndarray, "n"]
    delta: float

    name: ClassVar[str] = "shuffled-labels"
    about: ClassVar[str] = "Query that randomizes each label and shuffles those of each cell"
    mixing: ClassVar[str] = "shuffled cells"
    not_alone: ClassVar[str] = _NOT_ALONE

    def __post_init__(self) -> None:
        if self.space.size != self.shuffle.classes:
            raise LabelError(
                f"expected a shuffle for {self.space.size} classes, found one for {self.shuffle.classes}; give classes"
            )
        self._check_clusters()

    @cached_property
    def _promise(self) -> Guarantee:
        return self.shuffle.guarantee(self._sizes, self.delta)

    def _draws(self) -> dict[str, Any]:
        law = self.shuffle.law
        return {"keep": str(law.keep), "other": str(law.other)}

    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> np.ndarray:
        """The released label of each row.

        Row i uses word i for its label, and word n + i for its place in its cell.
        """
        del labels_of_a_unit
        randomized, rows = draw(self.shuffle.channel, codes, words).astype(np.int64), len(codes)
        places = np.lexsort((words.block(rows, rows), self.clusters))
        released = np.empty(rows, dtype=np.int64)
        released[places] = randomized[np.lexsort((randomized, self.clusters))]
        return released

    @classmethod
    def fields(cls) -> LawFields:
        """The weights of the randomization, delta and the sizes of cells."""
        return LawFields({"keep": integer, "other": integer, "delta": decimal, "cluster_sizes": integers}, {})

    @classmethod
    def promise_of(cls, law: Mapping[str, Any], space: LabelSpace) -> Guarantee:
        """The guarantee, recomputed from the weights.

        Raises:
            ValueError: They are no weights of randomized response for these classes.
        """
        weights = ShuffleLaw(space.size, int(law["keep"]), int(law["other"]))
        sizes = checked_sizes(int(size) for size in law["cluster_sizes"])
        return _guarantee(weights, sizes, positive_delta(float(law["delta"]), _NOT_ALONE))

    @classmethod
    def stored(cls, _: Mapping[str, Any], __: LabelSpace) -> StoredForm:
        """A column of classes."""
        return StoredForm(("released",), "class", by_row=True)

    @classmethod
    def reading(cls, value: np.ndarray, law: Mapping[str, Any], _: LabelSpace) -> FlippedLabels:
        """Randomized labels, each of one row of its cell."""
        return FlippedLabels(value, Fraction(int(law["other"]), _WORD), resampled=False)


def _guarantee(law: ShuffleLaw, sizes: list[int], delta: float) -> Guarantee:
    """The guarantee of all shuffled labels, with the epsilons without its assumptions."""
    together = shown_above(law.with_one_row(delta_below(delta), sizes), 7)
    return Guarantee(
        law.epsilon(delta_below(delta), sizes),
        delta,
        "shuffle",
        assumptions=(
            "nobody sees which row sent which label: against whoever shuffles, epsilon is "
            f"{shown_above(law.alone, 7)} and delta 0",
            f"no row tells what it sent: against the receiver with one row of the cell, epsilon is {together}",
            PUBLIC_CLUSTERS,
        ),
    )
