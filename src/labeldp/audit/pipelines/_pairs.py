"""The two labels of each canary of an audit in one run: planted by coins, or one observed and one drawn beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from labeldp._arrays import read_only
from labeldp._shapes import Int
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.privacy import LabelSpace, declared_columns


@dataclass(frozen=True, eq=False)
class PlantedPairs:
    """Labels of all rows, and the two labels of which each canary gets one by a coin.

    Attributes:
        labels: A label for each row, made up or declared public: the audit reads labels, and replaces those of
            canaries.
        space: The declared label space, which contains the two labels of each canary.
        canaries: Row numbers, each once; for privacy units of several rows, one row of each.
        pairs: The two labels of each canary; by default the first two classes of the space.

    Raises:
        InputError: Rows do not exist or occur twice, or pairs are outside the space or of equal labels.
    """

    labels: Sequence[Any]
    space: LabelSpace
    canaries: Sequence[int] | Int[np.ndarray, "m"]
    pairs: Sequence[tuple[Any, Any]] | None = None
    assumes: ClassVar[str] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "canaries", _check_canaries(self.canaries, len(self.labels)))
        object.__setattr__(self, "pairs", _canary_pairs(self.pairs, self.space, len(self.canaries)))

    def draw(self) -> tuple[list[Any], Int[np.ndarray, "m"]]:
        """Labels of all rows with those of canaries planted, and the coins."""
        coins, planted = np.random.default_rng().integers(0, 2, len(self.canaries)), list(self.labels)
        for row, pair, coin in zip(self.canaries, self.pairs or (), coins.tolist(), strict=True):
            planted[int(row)] = pair[coin]
        return planted, coins


@dataclass(frozen=True, eq=False)
class ObservedPairs:
    """Labels that stay as they are, and beside each audited one another that could have stood there.

    Nothing is planted. For each audited row a second label is drawn from a declared distribution. If the row's own
    label was drawn from the same distribution, then nothing but the pipeline's output tells which of the two it is.
    Rows whose two labels are equal are no canaries.

    Args:
        labels: A label for each row, made up or declared public.
        space: The declared label space.
        rows: Numbers of the audited rows, each once; for privacy units of several rows, one row of each.
        distribution: Probability of each class for each audited row, shape (len(rows), k), as an array if the classes
            were declared in sorted order; or shape (k,), in declared order. It must not be computed from these labels.

    Attributes:
        canaries: Numbers of the audited rows whose two labels differ.
        pairs: Their two labels, in an order drawn by coins.

    Guarantee:
        Under the assumption that the labels of audited rows were drawn from ``distribution``, independently of one
        another and of all other labels given what is public, ``audit_pipeline`` has the guarantee of planted pairs.
        Proof: the two labels of a row are independent draws from one distribution, so given which two they are, and all
        other labels, each is the row's own with probability 1/2. That is the coin of a planted pair.

        Where the distribution is wrong, it is not the pipeline alone that is measured: if a row's true odds between two
        labels differ from the declared ones by a factor of up to e^c, the bound may exceed a pure epsilon by c. Labels
        that their holder drew from the distribution satisfy the assumption exactly.

    References:
        Kalemaj et al. 2025, "Observational auditing of label privacy" (arXiv 2511.14084), for the game.

    Raises:
        InputError: Rows do not exist or occur twice, probabilities are none, or no two labels differ.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes
        >>> labels = np.random.default_rng().choice(["no", "yes"], 1000, p=[0.7, 0.3])
        >>> observed = ObservedPairs(labels, Classes(["no", "yes"]), range(1000), [0.7, 0.3])
        >>> 300 < len(observed.canaries) < 540
        True
    """

    labels: Sequence[Any] = field(repr=False)
    space: LabelSpace
    rows: Sequence[int] | Int[np.ndarray, "n"] = field(repr=False)
    distribution: Any = field(repr=False)
    canaries: Int[np.ndarray, "m"] = field(init=False)
    pairs: Sequence[tuple[Any, Any]] = field(init=False, repr=False)
    _coins: Int[np.ndarray, "m"] = field(init=False, repr=False)
    assumes: ClassVar[str] = "labels of audited rows follow the declared distribution"

    def __post_init__(self) -> None:
        random, points = np.random.default_rng(), self.space.points
        rows = _check_canaries(self.rows, len(self.labels))
        law = _class_shares(self.distribution, self.space, len(rows))
        own = self.space.encode([self.labels[int(row)] for row in rows])
        cumulated = np.cumsum(law, axis=1)
        other = (random.random((len(rows), 1)) * cumulated[:, -1:] >= cumulated).sum(axis=1)
        differ = other != own
        if not differ.any():
            raise InputError(
                "expected rows whose label could have been another, found none; audit more rows, or declare a "
                "distribution that leaves more than one label possible"
            )
        coins = random.integers(0, 2, int(differ.sum()))
        pairs = [
            (points[a], points[b]) if coin == 0 else (points[b], points[a])
            for a, b, coin in zip(own[differ].tolist(), other[differ].tolist(), coins.tolist(), strict=True)
        ]
        object.__setattr__(self, "canaries", read_only(rows[differ]))
        object.__setattr__(self, "_coins", read_only(coins))
        object.__setattr__(self, "pairs", pairs)

    def draw(self) -> tuple[list[Any], Int[np.ndarray, "m"]]:
        """The labels, unchanged, and the coins: 0 where a canary's own label comes first."""
        return list(self.labels), self._coins


def _class_shares(distribution: Any, space: LabelSpace, rows: int) -> np.ndarray:
    """Probabilities of the classes in their order, for each row."""
    law = floats(declared_columns(distribution, space), "a distribution")
    law = np.broadcast_to(law, (rows, law.shape[0])) if law.ndim == 1 else law
    if law.shape != (rows, space.size) or not (law >= 0).all() or not np.allclose(law.sum(axis=1), 1.0, atol=1e-6):
        raise InputError(
            f"expected a distribution of shape ({rows}, {space.size}) or ({space.size},), each row of it probabilities "
            f"that sum to 1, found shape {law.shape} or other numbers"
        )
    return law


def _check_canaries(canaries: Any, rows: int) -> Int[np.ndarray, "m"]:
    """Distinct row numbers."""
    numbers = np.asarray(list(canaries))
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu":
        raise InputError("expected canaries as a non-empty list of row numbers, found something else")
    if numbers.min() < 0 or numbers.max() >= rows or len(np.unique(numbers)) != len(numbers):
        raise InputError(f"expected canaries among {rows} rows, each once, found others; count rows from 0")
    return numbers.astype(np.int64)


def _canary_pairs(pairs: Any, space: LabelSpace, count: int) -> list[tuple[Any, Any]]:
    """Two different labels of the space for each canary."""
    choices = [tuple(space.points[:2])] * count if pairs is None else [tuple(pair) for pair in pairs]
    if len(choices) != count or any(len(pair) != 2 for pair in choices):
        raise InputError(f"expected two labels for each of {count} canaries, found {len(choices)} pairs or other sizes")
    first, second = (space.encode([pair[place] for pair in choices]) for place in (0, 1))
    if (first == second).any():
        equal = np.argmax(first == second)
        raise InputError(f"expected two different labels for each canary, found equal ones for canary {equal}")
    return choices
