"""Noisy gradients: an interactive protocol that releases one noisy vector for each row's label."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from labeldp import _checks
from labeldp._random_words import Words
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.mechanisms.queries._delta import warn_of_large
from labeldp.mechanisms.queries._gradient_vectors import ClassVectors, class_vectors
from labeldp.mechanisms.queries._noise import LARGEST_DEVIATION, normal_deviation, rounded_normal
from labeldp.mechanisms.queries._query import CalibratedQuery
from labeldp.mechanisms.queries._stored_form import LawFields, StoredForm, class_columns, decimal, integer
from labeldp.privacy import Guarantee, LabelSpace
from labeldp.privacy.accounting import BitNoise, GaussianNoise

_PUBLIC = (
    "what was asked of each row is public and was computed from what was told before, not from these labels, but "
    "through answers and releases that cost extra"
)

#: The largest distance of the vectors of two labels, in grid steps.
_REACH = 1 << 24
#: Squares of distances, their sums and differences are below 2^53, so floats add them exactly.
_REACH_SQUARED = _REACH**2
#: Standard deviation of the normal integers for directions, so large that rounding does not matter.
_FINE = 1 << 26
#: Shares of a weight are truncated to multiples of one over this.
_SHARES = 1 << 53
_LARGEST_DIMENSION = 1 << 20
_LARGEST_ROWS = 1 << 31
#: Noise is drawn for about this many entries at a time, each block from a part of the stream of its own.
_AT_ONCE = 1 << 16
_PART = 1 << 40


@runtime_checkable
class InteractiveClient(Protocol):
    """The public side of an interactive protocol, such as a learner: it sees noisy vectors, and no labels.

    It runs in the process that holds the labels, and is called by code that uses them. So it must be code that you
    trust not to inspect that process, such as the frames of its callers. The traceback of an error in it contains
    frames with labels too: keep it from error reporters that show variables.
    """

    def ask(self, row: int) -> Float[np.ndarray, "k r"] | Float[np.ndarray, "k"]:
        """The vectors of the k classes for the label of a row; or k lengths, for orthogonal vectors."""
        ...

    def tell(self, row: int, vector: Float[np.ndarray, "r"]) -> None:
        """Receive the noisy vector of the row's label."""
        ...


@dataclass(frozen=True, eq=False)
class NoisyGradients(CalibratedQuery):
    """One noisy vector for each row's label, requested row by row; every label is used once.

    For each row an interactive client proposes a vector for each class, such as the gradient for that class. It
    receives the vector of the row's own class with noise, unbiased, before it proposes vectors for the next row. So its
    proposals may depend on all earlier replies.

    Args:
        space: The declared label space, of k classes or grid points.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        delta: Failure probability. Above 0 the noise is Gaussian; at 0 the reply is a random direction with a random
            sign.
        client: The ``InteractiveClient``. It must not see labels: code that you trust not to look for them in the
            process that it shares with them.
        rows: The number of rows, which are processed from 0 on.
        dimension: The number of entries of a vector; by default k. Noise grows with it, so use an orthonormal basis of
            the span of the vectors. For orthogonal vectors in directions that the client knows, k lengths are enough,
            and the reply has an entry for each class.

    Guarantee:
        * (epsilon, delta)-label-DP, whatever is proposed: no bound on vectors, such as a Lipschitz constant, is taken
          on trust. Each label is randomized alone, at its step, by a distribution that depends on public values only:
          the proposal, which follows from earlier replies. That the client has not seen these labels is assumed.
        * Noise is used once. It is drawn for many rows at a time, so a process forked by the client would receive its
          parent's noise again, for other proposals. Such a process is refused at its next row, before the label is
          used, and a curator gives it no answer.
        * **delta > 0.** Vectors are rounded to a grid whose step is chosen so that any two of them are at most 2^24
          steps apart, which is checked exactly in integers. The reply is the grid vector of the label with
          ``rounded_normal`` noise of a fixed integer standard deviation D, then scaled. Adding rounded normal noise to
          integers is rounding the sum with continuous noise N(0, D^2), a post-processing. Given the past, two labels
          move one row's vector by d with ``|d| <= s``. Release a little more: beside the vector another number,
          ``sqrt(s^2 - |d|^2)`` or 0 by the label, with noise of standard deviation D. By a public rotation, these are
          one noisy number with mean s or 0, and others of noise alone. So m labels of a unit give m such numbers, whose
          shift is fixed and of length ``s sqrt(m)``, whatever the past: the guarantee is that of
          ``GaussianNoise(D, m s^2)``.
        * **delta = 0.** With v_j the vector of class j from a public centre, L the largest length, and U uniform on the
          unit sphere of their span, drawn without the label, the label is used for one bit alone. It is 1 with
          probability ``1/2 + h (|v_j| / L) sign<v_j, U>``, as a weight out of 2^64 that is at most h 2^64 away from
          2^63, whatever the floating-point error of the share. So the guarantee is that of ``BitNoise``, given any U.
          The reply is U or -U, scaled about the centre so that its mean is v_j.
        * Rows of a unit share the epsilon, as above. Rows of other units have the same distribution given the past.

    References:
        Ghazi et al. 2021, algorithm 6 and proposition 11, with an exact account in place of its constant (Balle and
        Wang 2018, theorem 8; adaptively, Dong, Roth and Su 2022, corollary 3.3); its sensitivity is the largest
        distance of two gradients, up to twice the longest one. Chua et al. 2025, appendix B, for the law at delta 0,
        which is that of Duchi, Jordan and Wainwright 2013 with its two coins in one bit.

    Raises:
        EpsilonError: An epsilon or delta that cannot be kept.
        InputError: No client, or rows or a dimension out of range.

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
        >>> answer = curator.answer(NoisyGradients(space, 8.0, client=mean, rows=1000))
        >>> answer.value.shape, answer.guarantee.epsilon, bool(mean.total[0] > mean.total[1])
        ((1000, 2), 8.0, True)
    """

    delta: float = 0.0
    client: InteractiveClient = field(kw_only=True, repr=False)
    rows: int = field(kw_only=True)
    dimension: int = field(default=0, kw_only=True)

    name: ClassVar[str] = "noisy-gradients"
    about: ClassVar[str] = "One noisy gradient of each label, requested one after the other"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.client, InteractiveClient):
            raise InputError(f"expected a client with the methods ask and tell, found {type(self.client).__name__}")
        object.__setattr__(self, "delta", _checks.delta(self.delta))
        object.__setattr__(self, "rows", _checks.whole(self.rows, "rows", 1, _LARGEST_ROWS))
        dimension = _checks.whole(self.dimension or self.space.size, "dimension", 1, _LARGEST_DIMENSION)
        object.__setattr__(self, "dimension", dimension)
        warn_of_large(self.delta, self.rows, "the number of rows", stacklevel=4)

    def noise(self, labels_of_a_unit: int) -> GradientLaw:
        """The least noise for epsilon and delta, if a unit has at most ``labels_of_a_unit`` labels.

        Raises:
            EpsilonError: There is none that can be drawn.
        """
        return gradient_law(self.epsilon, self.delta, labels_of_a_unit)

    def promise(self, labels_of_a_unit: int) -> Guarantee:
        """The guarantee for each label, or for all labels of a unit: each is randomized alone."""
        return self.noise(labels_of_a_unit).promise

    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The parameters of the noise, and the number of entries of a vector, for the certificate."""
        return {"kind": self.name, "dimension": str(self.dimension), **self.noise(labels_of_a_unit).parameters}

    def check_rows(self, rows: int) -> None:
        """Refuse a number of rows that differs from the declared one."""
        if self.rows != rows:
            raise InputError(f"expected a request for {rows} rows, as there are labels, found one for {self.rows}")

    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> Float[np.ndarray, "n r"]:
        """The replies, one row of the array for each row."""
        self.check_rows(len(codes))
        law = self.noise(labels_of_a_unit)
        replies = np.empty((self.rows, self.dimension))
        noise = _row_noise(self.rows, self.dimension, law.normal_deviation, words)
        for row, code in enumerate(codes.tolist()):
            vectors = class_vectors(self.client.ask(row), row, self.space.size, self.dimension)
            normals, word = next(noise)
            words.check_process()
            replies[row] = reply = law.reply(vectors, code, normals, word)
            self.client.tell(row, reply)
        return replies

    @classmethod
    def fields(cls) -> LawFields:
        """The entries of a vector, and the fields of Gaussian noise or those of a bit."""
        noise = dict.fromkeys(("deviation", "sensitivity_squared", "least", "parts"), integer)
        return LawFields(dict.fromkeys(("dimension", "labels_of_a_unit"), integer), {**noise, "delta": decimal})

    @classmethod
    def promise_of(cls, law: Mapping[str, Any], _: LabelSpace) -> Guarantee:
        """The guarantee, recomputed from the integers of the noise.

        Raises:
            ValueError: They are not valid parameters of noisy gradients.
        """
        noise: GradientLaw
        if {"deviation", "delta"} <= law.keys():
            noise = _Gaussian(int(law["deviation"]), float(law["delta"]), int(law["labels_of_a_unit"]))
        else:
            noise = _OneBit(BitNoise(int(law.get("least", 0)), int(law["labels_of_a_unit"])))
        canonical = {"kind": cls.name, "dimension": law["dimension"], **noise.parameters}
        if dict(law) != canonical or not 1 <= int(law["dimension"]) <= _LARGEST_DIMENSION:
            raise ValueError("expected the integers of noisy gradients in their canonical form, found others")
        return noise.promise

    @classmethod
    def stored(cls, law: Mapping[str, Any], space: LabelSpace) -> StoredForm:
        """The entries of a vector: classes if there is one entry for each, else numbers from 1."""
        dimension = int(law["dimension"])
        numbers = tuple(map(str, range(1, dimension + 1)))
        return StoredForm(class_columns(space) if dimension == space.size else numbers, "numbers", by_row=True)

    @classmethod
    def check_value(cls, value: np.ndarray, law: Mapping[str, Any], space: LabelSpace) -> None:
        """Every vector is possible."""


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
    """A bound on the mean of ``|reply - g_y|^2`` over the noise of ``NoisyGradients``, for step sizes.

    Args:
        epsilon: Epsilon of the request.
        delta: Delta of the request.
        classes: The number k of classes.
        dimension: The number of entries of a vector.
        spread: The largest distance of the vectors of two classes: for vectors of length at most L, at most 2 L, and
            ``sqrt(2) L`` if they are orthogonal.
        radius: The largest distance of a vector from the mean or, if that is less, from zero, if it is known: at most L
            for vectors of length at most L, and ``sqrt(1 - 1/k) L`` if they are orthogonal.
        labels_of_a_unit: The largest number of labels of one privacy unit.

    Example:
        >>> round(gradient_error(1.0, 1e-6, classes=10, dimension=10, spread=2**0.5), 1)
        357.0
        >>> round(gradient_error(1.0, classes=10, dimension=10, spread=2**0.5, radius=0.9**0.5), 1)
        56.4
    """
    law = gradient_law(_checks.epsilon(epsilon), _checks.delta(delta), labels_of_a_unit)
    bound = _largest_radius(classes, dimension) * spread if radius is None else radius
    return law.error(classes, dimension, spread, bound)


@dataclass(frozen=True)
class _Gaussian:
    """Normal noise on a grid on which any two vectors are at most ``_REACH`` steps apart."""

    deviation: int
    delta: float
    labels_of_a_unit: int

    def __post_init__(self) -> None:
        if not 1 <= self.deviation <= LARGEST_DEVIATION or self.labels_of_a_unit < 1 or not 0.0 < self.delta < 1.0:
            raise ValueError("expected deviation, delta and labels_of_a_unit in their ranges, found others")

    @property
    def normal_deviation(self) -> int:
        return self.deviation

    @property
    def promise(self) -> Guarantee:
        noise = GaussianNoise(self.deviation, _REACH_SQUARED * self.labels_of_a_unit)
        return Guarantee(noise.epsilon(self.delta), self.delta, "local", assumptions=(_PUBLIC,), rho=noise.rho)

    @property
    def parameters(self) -> dict[str, str]:
        return {
            "deviation": str(self.deviation),
            "sensitivity_squared": str(_REACH_SQUARED),
            "labels_of_a_unit": str(self.labels_of_a_unit),
            "delta": repr(self.delta),
        }

    def reply(
        self, vectors: ClassVectors, code: int, normals: Int[np.ndarray, "r"], word: int
    ) -> Float[np.ndarray, "r"]:
        """The label is used in a sum of integers; if all vectors are equal, it is not used."""
        del word
        spread = math.sqrt(vectors.spread_squared(vectors.off))
        if not spread:
            return vectors.origin
        scale = _distance_before_rounding(vectors.dimension) / spread
        steps = np.rint(vectors.off * scale)
        while vectors.spread_squared(steps) > _REACH_SQUARED:
            scale /= 2.0
            steps = np.rint(vectors.off * scale)
        return np.asarray(vectors.origin + (vectors.of_class(steps.astype(np.int64), code) + normals) / scale)

    def error(self, classes: int, dimension: int, spread: float, radius: float) -> float:
        """The variance of rounded noise in each entry, plus the squared rounding error of the grid."""
        del classes, radius
        return float(
            dimension
            * (self.deviation**2 + 1.0 / 12.0 + 1.0 / 4.0)
            * (spread / _distance_before_rounding(dimension)) ** 2
        )


@dataclass(frozen=True)
class _OneBit:
    """A uniform direction, with a sign that depends on the label through one bit."""

    noise: BitNoise

    normal_deviation: ClassVar[int] = _FINE

    @property
    def promise(self) -> Guarantee:
        return Guarantee(self.noise.epsilon, trust="local", assumptions=(_PUBLIC,))

    @property
    def parameters(self) -> dict[str, str]:
        return {
            "least": str(self.noise.least),
            "parts": str(1 << 64),
            "labels_of_a_unit": str(self.noise.labels_of_a_unit),
        }

    def reply(
        self, vectors: ClassVectors, code: int, normals: Int[np.ndarray, "r"], word: int
    ) -> Float[np.ndarray, "r"]:
        """The label is used in one comparison of integers; if all vectors are equal, it is not used."""
        longest = float(vectors.lengths.max())
        if not longest:
            return vectors.centre
        direction, dimension = vectors.direction(normals.astype(np.float64))
        share = math.copysign(min(float(vectors.lengths[code]) / longest, 1.0), float(vectors.along(direction)[code]))
        sign = 1.0 if word < self.weight(int(share * _SHARES)) else -1.0
        return vectors.centre + (sign * longest * self._stretch(dimension)) * direction

    def weight(self, share: int) -> int:
        """The weight of a bit out of 2^64, for a share of ``half`` in ``_SHARES``; at most ``half`` from one half."""
        return (1 << 63) + (self.noise.half * share) // _SHARES

    def _stretch(self, dimension: int) -> float:
        """The length of the reply for a longest vector of 1, ``1 / (2 h E|U_1|)``, which makes it unbiased."""
        return 2.0**63 / (self.noise.half * _mean_cosine(dimension))

    def error(self, classes: int, dimension: int, spread: float, radius: float) -> float:
        """The squared length of the reply from the centre, which is constant."""
        del spread
        return (radius * self._stretch(min(dimension, classes - 1))) ** 2


#: The randomization of one vector: two forms with the same members.
GradientLaw = _Gaussian | _OneBit


@lru_cache(maxsize=256)
def gradient_law(epsilon: float, delta: float, labels_of_a_unit: int = 1) -> GradientLaw:
    """The least noise for epsilon and delta.

    Raises:
        EpsilonError: There is none that can be drawn.
    """
    if not delta:
        return _OneBit(BitNoise.of(epsilon, labels_of_a_unit))
    deviation = normal_deviation(_REACH_SQUARED * labels_of_a_unit, epsilon, delta, labels_of_a_unit)
    return _Gaussian(deviation, delta, labels_of_a_unit)


def _row_noise(rows: int, dimension: int, deviation: int, words: Words) -> Iterator[tuple[Int[np.ndarray, "r"], int]]:
    """Normal integers and a word for each row, drawn lazily for blocks of rows.

    Words of rows come first in the stream, then a part of it for each block's integers. A block's integers take a few
    words each, and its part has 2^20 or more for each; the probability that they take more is negligible.
    """
    at_once = max(1, _AT_ONCE // dimension)
    for number, low in enumerate(range(0, rows, at_once), 1):
        count = min(at_once, rows - low)
        normals = rounded_normal(count * dimension, deviation, words, first=number * _PART)
        yield from zip(normals.reshape(count, dimension), words.block(low, count).tolist(), strict=True)


def _distance_before_rounding(dimension: int) -> float:
    """The distance of vectors before rounding, which adds at most ``sqrt(r)`` to the distance of two."""
    return _REACH - math.sqrt(dimension) - 1.0


def _largest_radius(classes: int, dimension: int) -> float:
    """The largest distance of a vector from the centre, for a spread of 1.

    The distance from the mean is at most the mean of the distances to all vectors, of which one is zero.
    """
    return 0.5 if dimension == 1 else 1.0 - 1.0 / classes


@lru_cache(maxsize=256)
def _mean_cosine(dimension: int) -> float:
    """The mean of ``|U_1|`` over the unit sphere: ``Gamma(d / 2) / (sqrt(pi) Gamma((d + 1) / 2))``."""
    return math.exp(math.lgamma(dimension / 2.0) - math.lgamma((dimension + 1.0) / 2.0)) / math.sqrt(math.pi)
