"""Noisy gradients: one vector for each row's label, asked for one after the other, from a public learner."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from labeldp import _checks
from labeldp._words import Words
from labeldp.errors import EpsilonError, InputError, LabelError
from labeldp.mechanisms.queries._delta import warn_of_large
from labeldp.mechanisms.queries._gradient_vectors import ClassVectors, class_vectors
from labeldp.mechanisms.queries._noise import LARGEST_DEVIATION, rounded_normal
from labeldp.mechanisms.queries._query import Query
from labeldp.privacy import Guarantee, LabelSpace
from labeldp.privacy.accounting import BitNoise, GaussianNoise, least_deviation

_PUBLIC = (
    "what was asked of each row is public and was computed from what was told before, not from these labels, but "
    "through answers and releases that cost extra"
)

#: How many steps of the grid the vectors of two labels may be apart.
_REACH = 1 << 24
#: Squares of so many steps, their sums and differences are below 2^53, so floats add them exactly.
_REACH_SQUARED = _REACH**2
#: The deviation of the integers that directions are made of, so large that they are as good as normal numbers.
_FINE = 1 << 26
#: Shares of a weight are cut down to multiples of one over this.
_SHARES = 1 << 53
_LARGEST_DIMENSION = 1 << 20
_LARGEST_ROWS = 1 << 31
#: Noise is drawn for about so many entries at a time, from a part of the stream of its own.
_AT_ONCE = 1 << 16
_PART = 1 << 40


@runtime_checkable
class InteractiveClient(Protocol):
    """The public side of an interactive protocol, such as a learner: it sees what it is told, and no labels.

    It runs in the process that holds the labels, and is called by what uses them. So it must be code that you trust not
    to look around there, as at the frames of its callers. The traceback of an error in it has frames with labels too:
    keep it from reporters that show variables.
    """

    def ask(self, row: int) -> Float[np.ndarray, "k r"] | Float[np.ndarray, "k"]:
        """The vectors of the k classes for the label of a row; or k lengths, of vectors at right angles."""
        ...

    def tell(self, row: int, vector: Float[np.ndarray, "r"]) -> None:
        """Hear the noisy vector of the row's label."""
        ...


@dataclass(frozen=True, eq=False)
class NoisyGradients(Query):
    """One vector for each row's label, asked for one after the other, each with noise; every label is used once.

    For each row an asker names a vector for each class, say the gradient that it would step along if the label were
    that class. It is told the vector of the row's own class with noise, unbiased, before it asks about the next row. So
    what it asks may follow from all that it was told.

    Args:
        space: The declared label space, of k classes or points of a grid.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        delta: Failure probability. Above 0 the noise is Gaussian; at 0 a random direction is told, and one random bit
            that says which way along it.
        asker: The ``InteractiveClient``. It must not see labels: code that you trust not to look for them in
            the process that it shares with them.
        rows: The number of rows, which are asked about from 0 on.
        dimension: The number of entries of a vector; by default k. Noise grows with it, so ask in an orthonormal basis
            of what the vectors of the classes span. Where they are at right angles, in directions that the asker knows,
            k lengths are enough, and the answer has an entry for each class.

    Guarantee:
        * (epsilon, delta)-label-DP, whatever is asked: no bound on vectors, such as a Lipschitz constant, is taken on
          trust. Each label is randomized alone, at its step, by a law that public things fix: what was asked, which
          follows from earlier answers. That the asker has not seen these labels is assumed.
        * Noise is used once. It is drawn for many rows at a time, so a process that was forked while the asker was at
          work would hear its parent's again, for other questions. It is refused at its next row, before the label is
          used, and a curator gives it no answer.
        * **delta > 0.** Vectors are rounded to a grid whose step is chosen so that any two of them are at most 2^24
          steps apart, which is checked in whole numbers, exactly. What is told is the grid vector of the label with
          ``rounded_normal`` noise of a fixed whole deviation, then scaled. Rounding normal noise and whole numbers is
          rounding their sum, so it is no loss to take continuous noise N(0, D^2). Given the past, two labels move one
          row's vector by d with |d| <= s. Tell a little more: beside the vector another number, sqrt(s^2 - |d|^2) or 0
          by the label, with noise of deviation D. Rotated by a public rotation, these are one number that is s or 0
          with noise, and others of noise alone. So m labels of a unit give m such numbers, whose shift is fixed and of
          length ``s sqrt(m)``, whatever the past: the guarantee is that of ``GaussianNoise(D, m s^2)``.
        * **delta = 0.** With v_j the vector of class j from a public centre, L the longest of them, and U uniform on
          the unit sphere of what they span, drawn without the label, the label is used for one bit alone. It is 1 with
          probability ``1/2 + h (|v_j| / L) sign<v_j, U>``, as a weight out of 2^64 that is at most h 2^64 away from
          2^63, whatever floats make of the share. So the guarantee is that of ``BitNoise``, given any U. The reply is U
          or -U, stretched from the centre by what makes the mean v_j.
        * Rows of a unit share the epsilon, as above. Rows of others have the same law given the past.

    References:
        Ghazi et al. 2021, algorithm 6 and proposition 11, with an exact account in place of its constant (Balle and
        Wang 2018, theorem 8; adaptively, Dong, Roth and Su 2022, corollary 3.3); its sensitivity is the largest
        distance of two gradients, up to twice the longest one. Chua et al. 2025, appendix B, for the law at delta 0,
        which is that of Duchi, Jordan and Wainwright 2013 with its two coins in one bit.

    Raises:
        EpsilonError: An epsilon or delta that cannot be kept.
        InputError: No asker, or rows or a dimension out of range.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, NoisyGradients
        >>> class Mean:
        ...     total = np.zeros(2)
        ...     def ask(self, row):
        ...         return np.ones(2)  # one of (1, 0) and (0, 1)
        ...     def tell(self, row, vector):
        ...         self.total = self.total + vector
        >>> space, mean = Classes(["no", "yes"]), Mean()
        >>> curator = Curator(["no"] * 900 + ["yes"] * 100, space)
        >>> answer = curator.answer(NoisyGradients(space, 8.0, asker=mean, rows=1000))
        >>> answer.value.shape, answer.guarantee.epsilon, bool(mean.total[0] > mean.total[1])
        ((1000, 2), 8.0, True)
    """

    epsilon: float
    delta: float = 0.0
    asker: InteractiveClient = field(kw_only=True, repr=False)
    rows: int = field(kw_only=True)
    dimension: int = field(default=0, kw_only=True)

    name: ClassVar[str] = "noisy-gradients"

    def __post_init__(self) -> None:
        if not isinstance(self.space, LabelSpace):
            found = type(self.space).__name__
            raise LabelError(f"expected a declared label space first, such as Classes(['a', 'b']), found {found}")
        if not isinstance(self.asker, InteractiveClient):
            raise InputError(f"expected an asker with the methods ask and tell, found {type(self.asker).__name__}")
        object.__setattr__(self, "epsilon", _checks.epsilon(self.epsilon))
        object.__setattr__(self, "delta", _checks.delta(self.delta))
        object.__setattr__(self, "rows", _checks.whole(self.rows, "rows", 1, _LARGEST_ROWS))
        dimension = _checks.whole(self.dimension or self.space.size, "dimension", 1, _LARGEST_DIMENSION)
        object.__setattr__(self, "dimension", dimension)
        warn_of_large(self.delta, self.rows, "the number of rows", stacklevel=4)

    def noise(self, labels_of_a_unit: int) -> GradientLaw:
        """The least noise that keeps epsilon and delta, where a unit has at most so many labels.

        Raises:
            EpsilonError: There is none that can be drawn.
        """
        return gradient_law(self.epsilon, self.delta, labels_of_a_unit)

    def promise(self, labels_of_a_unit: int) -> Guarantee:
        """What it promises of each label, or of all labels of a unit: each is randomized alone."""
        return self.noise(labels_of_a_unit).promise

    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The integers of the noise, and the number of entries of a vector."""
        return {"kind": self.name, "dimension": str(self.dimension), **self.noise(labels_of_a_unit).written}

    def asked(self, labels_of_a_unit: int) -> float:
        """The epsilon that was asked for."""
        del labels_of_a_unit
        return self.epsilon

    def check_rows(self, rows: int) -> None:
        """Refuse another number of rows than it was made for."""
        if self.rows != rows:
            raise InputError(f"expected questions about each of the {rows} rows, found some about {self.rows}")

    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> Float[np.ndarray, "n r"]:
        """What was told, one line for each row."""
        self.check_rows(len(codes))
        law = self.noise(labels_of_a_unit)
        told = np.empty((self.rows, self.dimension))
        drawn = _drawn(self.rows, self.dimension, law.of_normals, words)
        for row, code in enumerate(codes.tolist()):
            posed = class_vectors(self.asker.ask(row), row, self.space.size, self.dimension)
            normals, word = next(drawn)
            words.check_process()
            told[row] = vector = law.told(posed, code, normals, word)
            self.asker.tell(row, vector)
        return told


def gradient_error(
    epsilon: float,
    delta: float = 0.0,
    *,
    classes: int,
    dimension: int,
    spread: float,
    radius: float | None = None,
    labels_of_a_unit: int = 1,
) -> float:
    """A bound on the mean of ``|told - g_y|^2`` over the noise of ``NoisyGradients``, for step sizes.

    Args:
        epsilon: That of the request.
        delta: That of the request.
        classes: The number k of classes.
        dimension: The number of entries of a vector.
        spread: The largest distance of the vectors of two classes: of vectors of at most L, at most 2 L, and
            ``sqrt(2) L`` where they are at right angles.
        radius: The largest distance of one of them from their mean or, if that is less, from zero, where it is known:
            at most L for vectors of at most L, and ``sqrt(1 - 1/k) L`` where they are at right angles.
        labels_of_a_unit: How many labels one unit of protection has at most.

    Example:
        >>> round(gradient_error(1.0, 1e-6, classes=10, dimension=10, spread=2**0.5), 1)
        357.0
        >>> round(gradient_error(1.0, classes=10, dimension=10, spread=2**0.5, radius=0.9**0.5), 1)
        56.4
    """
    law = gradient_law(_checks.epsilon(epsilon), _checks.delta(delta), labels_of_a_unit)
    known = _reach_of(classes, dimension) * spread if radius is None else radius
    return law.error(classes, dimension, spread, known)


def promise_of_gradients(law: Mapping[str, Any]) -> Guarantee:
    """What noisy gradients promise, from the integers of their law.

    Raises:
        ValueError: They are not those of noisy gradients.
    """
    noise: GradientLaw
    if {"deviation", "delta"} <= law.keys():
        noise = _Gaussian(int(law["deviation"]), float(law["delta"]), int(law["labels_of_a_unit"]))
    else:
        noise = _OneBit(BitNoise(int(law.get("least", 0)), int(law["labels_of_a_unit"])))
    written = {"kind": NoisyGradients.name, "dimension": law["dimension"], **noise.written}
    if dict(law) != written or not 1 <= int(law["dimension"]) <= _LARGEST_DIMENSION:
        raise ValueError("expected the integers of noisy gradients each in its one form, found others")
    return noise.promise


class GradientLaw(ABC):
    """How a vector is told."""

    @property
    @abstractmethod
    def promise(self) -> Guarantee:
        """What it promises."""

    @property
    @abstractmethod
    def written(self) -> dict[str, str]:
        """Its integers, as a certificate has them."""

    @property
    @abstractmethod
    def of_normals(self) -> int:
        """The deviation of the normal integers that it takes, one for each entry of a vector."""

    @abstractmethod
    def told(self, posed: ClassVectors, code: int, normals: Int[np.ndarray, "r"], word: int) -> Float[np.ndarray, "r"]:
        """The noisy vector of a class, from normal integers and a word."""

    @abstractmethod
    def error(self, classes: int, dimension: int, spread: float, radius: float) -> float:
        """A bound on its mean squared error, for vectors within a radius of their mean and a spread of each other."""


@dataclass(frozen=True)
class _Gaussian(GradientLaw):
    """Normal noise on a grid that any two vectors are at most ``_REACH`` steps apart on."""

    deviation: int
    delta: float
    labels_of_a_unit: int

    def __post_init__(self) -> None:
        if not 1 <= self.deviation <= LARGEST_DEVIATION or self.labels_of_a_unit < 1 or not 0.0 < self.delta < 1.0:
            raise ValueError("expected a deviation, a delta, and units with labels, found others")

    @property
    def of_normals(self) -> int:
        return self.deviation

    @property
    def promise(self) -> Guarantee:
        noise = GaussianNoise(self.deviation, _REACH_SQUARED * self.labels_of_a_unit)
        return Guarantee(noise.epsilon(self.delta), self.delta, "local", assumptions=(_PUBLIC,), rho=noise.rho)

    @property
    def written(self) -> dict[str, str]:
        return {
            "deviation": str(self.deviation),
            "sensitivity_squared": str(_REACH_SQUARED),
            "labels_of_a_unit": str(self.labels_of_a_unit),
            "delta": repr(self.delta),
        }

    def told(self, posed: ClassVectors, code: int, normals: Int[np.ndarray, "r"], word: int) -> Float[np.ndarray, "r"]:
        """The label is used in a sum of integers; where all vectors are the same, it is not used."""
        del word
        spread = math.sqrt(posed.spread_squared(posed.off))
        if not spread:
            return posed.origin
        scale = _steps(posed.dimension) / spread
        steps = np.rint(posed.off * scale)
        while posed.spread_squared(steps) > _REACH_SQUARED:
            scale /= 2.0
            steps = np.rint(posed.off * scale)
        return np.asarray(posed.origin + (posed.of_class(steps.astype(np.int64), code) + normals) / scale)

    def error(self, classes: int, dimension: int, spread: float, radius: float) -> float:
        """The variance of rounded noise in each entry, and the square of what the grid rounds off."""
        del classes, radius
        return float(dimension * (self.deviation**2 + 1.0 / 12.0 + 1.0 / 4.0) * (spread / _steps(dimension)) ** 2)


@dataclass(frozen=True)
class _OneBit(GradientLaw):
    """A uniform direction, and one bit of the label that says which way along it."""

    noise: BitNoise

    of_normals: ClassVar[int] = _FINE

    @property
    def promise(self) -> Guarantee:
        return Guarantee(self.noise.epsilon, trust="local", assumptions=(_PUBLIC,))

    @property
    def written(self) -> dict[str, str]:
        return {
            "least": str(self.noise.least),
            "parts": str(1 << 64),
            "labels_of_a_unit": str(self.noise.labels_of_a_unit),
        }

    def told(self, posed: ClassVectors, code: int, normals: Int[np.ndarray, "r"], word: int) -> Float[np.ndarray, "r"]:
        """The label is used in one comparison of integers; where all vectors are the same, it is not used."""
        longest = float(posed.lengths.max())
        if not longest:
            return posed.centre
        direction, dimension = posed.direction(normals.astype(np.float64))
        share = math.copysign(min(float(posed.lengths[code]) / longest, 1.0), float(posed.along(direction)[code]))
        way = 1.0 if word < self.weight(int(share * _SHARES)) else -1.0
        return posed.centre + (way * longest * self._stretch(dimension)) * direction

    def weight(self, share: int) -> int:
        """The weight of a bit out of 2^64, for a share of ``half`` in ``_SHARES``; at most ``half`` from one half."""
        return (1 << 63) + (self.noise.half * share) // _SHARES

    def _stretch(self, dimension: int) -> float:
        """How long what is told is, for a longest vector of 1: ``1 / (2 h E|U_1|)``, so that its mean is the vector."""
        return 2.0**63 / (self.noise.half * _mean_cosine(dimension))

    def error(self, classes: int, dimension: int, spread: float, radius: float) -> float:
        """What is told is so far from the centre always, and its mean is the vector."""
        del spread
        return (radius * self._stretch(min(dimension, classes - 1))) ** 2


@lru_cache(maxsize=256)
def gradient_law(epsilon: float, delta: float, labels_of_a_unit: int = 1) -> GradientLaw:
    """The least noise that keeps epsilon and delta.

    Raises:
        EpsilonError: There is none that can be drawn.
    """
    if not delta:
        return _OneBit(BitNoise.of(epsilon, labels_of_a_unit))
    deviation = least_deviation(_REACH_SQUARED * labels_of_a_unit, epsilon, delta, LARGEST_DEVIATION)
    if deviation is None:
        raise EpsilonError(
            f"expected an epsilon that Gaussian noise can keep for units of {labels_of_a_unit} labels, found "
            f"{epsilon!r} at delta {delta!r}; ask for more, or declare smaller units"
        )
    return _Gaussian(deviation, delta, labels_of_a_unit)


def _drawn(rows: int, dimension: int, deviation: int, words: Words) -> Iterator[tuple[Int[np.ndarray, "r"], int]]:
    """For each row normal integers and a word, many rows at a time, from the moment that the first is asked for.

    Words of rows come first in the stream, then a part of it for each block's integers. A block's integers take a few
    words each, and its part has 2^20 or more for each; that they take more has no chance that matters.
    """
    at_once = max(1, _AT_ONCE // dimension)
    for number, low in enumerate(range(0, rows, at_once), 1):
        count = min(at_once, rows - low)
        normals = rounded_normal(count * dimension, deviation, words, first=number * _PART)
        yield from zip(normals.reshape(count, dimension), words.block(low, count).tolist(), strict=True)


def _steps(dimension: int) -> float:
    """How far apart vectors are before they are rounded, which moves two of them by at most ``sqrt(r)`` more."""
    return _REACH - math.sqrt(dimension) - 1.0


def _reach_of(classes: int, dimension: int) -> float:
    """The longest that a vector can be from the centre, for a spread of 1.

    From the mean, a vector is off by the mean of its distances to all, of which one is zero.
    """
    return 0.5 if dimension == 1 else 1.0 - 1.0 / classes


@lru_cache(maxsize=256)
def _mean_cosine(dimension: int) -> float:
    """The mean of ``|U_1|`` over the unit sphere: ``Gamma(d / 2) / (sqrt(pi) Gamma((d + 1) / 2))``."""
    return math.exp(math.lgamma(dimension / 2.0) - math.lgamma((dimension + 1.0) / 2.0)) / math.sqrt(math.pi)
