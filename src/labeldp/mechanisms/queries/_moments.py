"""Label moments: noisy sums of public features by class, for models whose loss is linear in the labels.

Public features are rounded to whole grid steps, so that sums of them are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from labeldp import _checks
from labeldp._arrays import read_only
from labeldp._random_words import Words
from labeldp._shapes import Float, Int
from labeldp.columns import row_names
from labeldp.errors import InputError, LabelError, VerificationError
from labeldp.mechanisms.queries._delta import positive_delta, warn_of_large
from labeldp.mechanisms.queries._noise import normal_deviation, normal_margin, rounded_normal, rounded_normal_deviation
from labeldp.mechanisms.queries._query import CalibratedQuery
from labeldp.mechanisms.queries._readings import ClassSums, EndSums, FeatureSums
from labeldp.mechanisms.queries._stored_form import (
    LawFields,
    StoredForm,
    check_possible,
    check_steps,
    class_columns,
    decimal,
    integer,
)
from labeldp.privacy import Guarantee, Interval, LabelSpace
from labeldp.privacy.accounting import GaussianNoise

#: Rows are at most 2**_BITS steps long, up to float rounding: an entry fits in 32 bits, and the square of a row's
#: length and the sum of the largest number of rows fit in 62.
_BITS = 30
#: The limit including the number of parts, which leaves space for noise.
_MOST_BITS = 40
_MOST_ROWS = 1 << 31
#: Entries processed at a time.
_AT_ONCE = 1 << 22
#: Lengths whose squares neither underflow nor overflow.
_LEAST, _MOST = 1e-100, 1e100


@dataclass(frozen=True, eq=False)
class FeatureGrid:
    """Features with each row clipped to a norm and each entry truncated, toward zero, to whole grid steps.

    Attributes:
        steps: The features in steps, 32-bit integers of shape (n, p); a CSR array for sparse features.
        bits: A step is ``2**-bits``.
        longest_squared: The exact square of the longest row's length, in steps.
    """

    steps: Any
    bits: int
    longest_squared: int

    @classmethod
    def of(cls, features: object, norm: float | None, parts: int = 1) -> Self:
        """The grid of a feature matrix.

        Args:
            features: Finite numbers of shape (n, p), or a SciPy sparse matrix.
            norm: The length that rows are clipped to; by default that of the longest row, so that none is clipped.
            parts: The largest multiple of a row in a sum: if it is above 1, steps are so large that all such sums are
                below 2^62.

        Raises:
            InputError: The features are not finite numbers of that shape, or all zero.
        """
        matrix = _matrix(features)
        lengths = np.concatenate([np.sqrt(_squared_lengths(block.astype(np.float64))) for block in _blocks(matrix)])
        if not (lengths <= _MOST).all():
            raise InputError(
                f"expected finite features of norm at most {_MOST:g} in every row, found others at position "
                f"{np.argmin(lengths <= _MOST)}; fill in missing values, or scale the features"
            )
        longest = float(lengths.max())
        bound = longest if norm is None else min(longest, _checked_norm(norm))
        if bound < _LEAST:
            raise InputError(f"expected features of norm at least {_LEAST:g}, found smaller ones; scale them")
        available = min(_BITS, _MOST_BITS - parts.bit_length(), 61 - parts.bit_length() - len(lengths).bit_length())
        bits = (available if parts > 1 else _BITS) - math.frexp(bound)[1]
        factors = bound / np.maximum(lengths, bound)
        steps = _gridded(matrix, factors, bits)
        return cls(steps, bits, max(int(_squared_lengths(block.astype(np.int64)).max()) for block in _blocks(steps)))

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of features."""
        rows, columns = self.steps.shape
        return rows, columns

    def sums(self, codes: Int[np.ndarray, "n"], classes: int) -> Int[np.ndarray, "p k"]:
        """The exact sum of the rows of each class, in steps.

        Floats add them: a block has at most ``2**22`` rows of entries of at most about ``2**30``, so all partial sums,
        in any order, are integers below ``2**53``.
        """
        return self._sums(codes, classes, np.float64, lambda part: part[:, None] == np.arange(classes))

    def sums_between(self, codes: Int[np.ndarray, "n"], parts: int) -> Int[np.ndarray, "p 2"]:
        """The exact sums of the rows with weights ``parts - code`` and ``code``, in steps."""
        return self._sums(codes, 2, np.int64, lambda part: np.stack([parts - part, part], axis=1))

    def _sums(
        self,
        codes: Int[np.ndarray, "n"],
        columns: int,
        exact: type[np.generic],
        weights_of: Callable[[Int[np.ndarray, "m"]], np.ndarray],
    ) -> Int[np.ndarray, "p c"]:
        """The sums of the rows with weights that depend on codes, block by block, in a type that adds them exactly."""
        total, low = np.zeros((self.shape[1], columns), dtype=np.int64), 0
        for block in _blocks(self.steps, columns):
            weights = weights_of(codes[low : low + block.shape[0]].astype(np.int64))
            total += np.asarray(block.T.astype(exact) @ weights.astype(exact)).astype(np.int64)
            low += block.shape[0]
        return total


def _matrix(features: object) -> Any:
    """Features as a matrix of numbers, dense or in compressed rows."""
    if np.ma.is_masked(features):
        raise InputError("expected features without masked entries, found some; fill them in")
    if hasattr(features, "tocsr"):
        from scipy import sparse  # noqa: PLC0415 (already loaded if there is a sparse matrix)

        matrix: Any = sparse.csr_array(features, copy=True)
        matrix.sum_duplicates()
    else:
        matrix = np.asarray(features)
    if matrix.dtype.kind not in "biuf" or matrix.ndim != 2 or 0 in matrix.shape or matrix.shape[0] > _MOST_ROWS:
        raise InputError(
            f"expected features as numbers of shape (rows, columns), found {matrix.dtype} of shape {matrix.shape}; "
            "convert texts and dates to numbers first"
        )
    return matrix


def _checked_norm(value: object) -> float:
    norm = _checks.number(value, "norm")
    if not _LEAST <= norm <= _MOST:
        raise InputError(f"expected a norm above 0, from {_LEAST:g} to {_MOST:g}, found {norm!r}")
    return norm


def _blocks(matrix: Any, columns: int = 1) -> Iterator[Any]:
    """A matrix in blocks of rows, sized for ``columns`` further entries per row."""
    width = matrix.shape[1] if isinstance(matrix, np.ndarray) else 1
    rows = max(1, _AT_ONCE // max(columns, width))
    for low in range(0, matrix.shape[0], rows):
        yield matrix[low : low + rows]


def _squared_lengths(block: Any) -> np.ndarray:
    """The squared length of each row, in the type of the entries."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(block, np.ndarray):
            return np.asarray(np.einsum("ij,ij->i", block, block))
        return np.asarray(block.multiply(block).sum(axis=1)).ravel()


def _gridded(matrix: Any, factors: Float[np.ndarray, "n"], bits: int) -> Any:
    """A read-only copy of a matrix with its rows scaled and its entries truncated to steps."""
    if not isinstance(matrix, np.ndarray):
        data = _cut(matrix.data, np.repeat(factors, np.diff(matrix.indptr)), bits)
        copy = type(matrix)((data, matrix.indices, matrix.indptr), shape=matrix.shape)
        for part in (copy.data, copy.indices, copy.indptr):
            read_only(part)
        return copy
    steps, low = np.empty(matrix.shape, dtype=np.int32), 0
    for block in _blocks(matrix):
        high = low + len(block)
        steps[low:high] = _cut(block, factors[low:high, None], bits)
        low = high
    return read_only(steps)


def _cut(entries: np.ndarray, factors: np.ndarray, bits: int) -> np.ndarray:
    return np.asarray(np.trunc(np.ldexp(entries.astype(np.float64) * factors, bits)), dtype=np.int32)


_PUBLIC = "the features are public and were not computed from these labels"

_NOT_PURE = (
    ": Gaussian noise has no pure guarantee; choose one well below one over the number of rows, or use a NoisyHistogram"
)
#: Largest relative distance of a product of floats from a whole number.
_ROUNDING = 2.0**-51


@dataclass(frozen=True, eq=False)
class LabelMoments(CalibratedQuery):
    """The sum of the features of each class, with Gaussian noise: ``S = sum_i f(x_i) one_hot(y_i)^T``, shape (p, k).

    It is a sufficient statistic of the labels for a ridge or softmax head, whose loss is linear in them: such a head
    can be fitted to optimality, with any regularizer, at no further privacy cost.

    Args:
        space: The declared label space.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        delta: Failure probability, above 0; well below one over the number of rows.
        features: Public numbers, finite, of shape (n, p), or a SciPy sparse matrix of them. Each entry is truncated to
            about nine digits of ``norm``.
        norm: Longer rows are clipped to this length; by default that of the longest row. Noise is proportional to it,
            so if a few rows are much longer than others, clip them, for instance to the 90 % quantile of lengths.

    Attributes:
        grid: The features in whole grid steps, which are summed.

    Guarantee:
        * (epsilon, delta)-label-DP, and rho-zCDP with the ``rho`` of the guarantee: those of continuous Gaussian noise
          (``GaussianNoise``). Replacing the label y of row i by y' moves S by ``f_i (e_y' - e_y)^T``, of length
          ``sqrt(2) |f_i|``; m labels of one unit move it by at most m times the longest such move, by the triangle
          inequality. So the squared sensitivity is exactly ``2 m^2 max |f_i|^2``, in whole steps.
        * Noise is rounded to whole steps, and S is in whole steps too. So the answer is the rounding of S plus
          continuous noise, a post-processing of the Gaussian mechanism, drawn exactly (``rounded_normal``).
        * Features, their number and ``norm`` are public and do not depend on labels; that is assumed.

    References:
        Dwork et al. 2006 for the noise; Balle and Wang 2018, theorem 8, for its account.

    Raises:
        EpsilonError: A delta that is not above 0 and below 1.
        InputError: Features that are not finite numbers of shape (n, p), or all zero.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, LabelMoments
        >>> space = Classes(["no", "yes"])
        >>> features = np.ones((1000, 3))
        >>> curator = Curator(["no"] * 900 + ["yes"] * 100, space)
        >>> answer = curator.answer(LabelMoments(space, 1.0, 1e-6, features))
        >>> answer.value.shape, round(float(answer.standard_error[0, 0]), 2)
        ((3, 2), 10.35)
    """

    delta: float
    features: InitVar[object]
    norm: float | None = None
    grid: FeatureGrid = field(init=False, repr=False)

    name: ClassVar[str] = "label-moments"
    margin_text: ClassVar[str] = "each sum is off by at most {}"
    about: ClassVar[str] = "Sums of features by class, with Gaussian noise: sufficient for a linear classifier"

    def __post_init__(self, features: object) -> None:
        super().__post_init__()
        object.__setattr__(self, "delta", positive_delta(self.delta, _NOT_PURE))
        object.__setattr__(self, "row_names", {"features": row_names(features)})
        object.__setattr__(self, "grid", FeatureGrid.of(features, self.norm, self.parts))
        warn_of_large(self.delta, self.grid.shape[0], "the number of rows", stacklevel=4)

    @property
    def parts(self) -> int:
        """Number of parts of a label's weight, each of which moves a sum by a row of the grid."""
        return 1

    def _sums(self, codes: Int[np.ndarray, "n"]) -> Int[np.ndarray, "p k"]:
        """The true sums, in parts of steps."""
        return self.grid.sums(codes, self.space.size)

    def noise(self, labels_of_a_unit: int) -> GaussianNoise:
        """The least noise for epsilon and delta, if a unit has at most ``labels_of_a_unit`` labels.

        Raises:
            EpsilonError: There is none that fits into 64 bits.
        """
        sensitivity_squared = _unit_sensitivity(2 * self.grid.longest_squared * self.parts**2, labels_of_a_unit)
        deviation = normal_deviation(sensitivity_squared, self.epsilon, self.delta, labels_of_a_unit)
        return GaussianNoise(deviation, sensitivity_squared)

    def promise(self, labels_of_a_unit: int) -> Guarantee:
        """The guarantee of a trusted curator."""
        return _gaussian_guarantee(self.noise(labels_of_a_unit), self.delta)

    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The integers of the noise and of the sensitivity to one label, in steps; and the size of a step."""
        return {
            "kind": self.name,
            "deviation": str(self.noise(labels_of_a_unit).deviation),
            "sensitivity_squared": str(2 * self.grid.longest_squared * self.parts**2),
            "labels_of_a_unit": str(labels_of_a_unit),
            "bits": str(self.grid.bits),
            "columns": str(self.grid.shape[1]),
            "delta": repr(self.delta),
        }

    def check_rows(self, rows: int) -> None:
        """Refuse a number of rows that differs from that of the features."""
        if self.grid.shape[0] != rows:
            raise InputError(f"expected features for each of the {rows} rows, found {self.grid.shape[0]} rows of them")

    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> Float[np.ndarray, "p k"]:
        """The noisy sums, in the units of the features."""
        self.check_rows(len(codes))
        sums = self._sums(codes)
        noise = rounded_normal(sums.size, self.noise(labels_of_a_unit).deviation, words)
        return np.asarray(np.ldexp((sums + noise.reshape(sums.shape)).astype(np.float64), -self.grid.bits) / self.parts)

    @classmethod
    def fields(cls) -> LawFields:
        """The integers of the noise and of the grid, and delta."""
        names = ("deviation", "sensitivity_squared", "labels_of_a_unit", "bits", "columns")
        return LawFields({**dict.fromkeys(names, integer), "delta": decimal}, {})

    @classmethod
    def promise_of(cls, law: Mapping[str, Any], _: LabelSpace) -> Guarantee:
        """The guarantee, recomputed from the integers of the noise.

        Raises:
            ValueError: They are not valid parameters of label moments.
        """
        names = ("deviation", "sensitivity_squared", "labels_of_a_unit", "columns")
        deviation, squared, labels, columns = (int(law[name]) for name in names)
        if squared % 2 or labels < 1 or columns < 1:
            raise ValueError("expected an even sensitivity, units with labels, and features, found other integers")
        return _gaussian_guarantee(
            GaussianNoise(deviation, _unit_sensitivity(squared, labels)), positive_delta(float(law["delta"]), _NOT_PURE)
        )

    @classmethod
    def stored(cls, _: Mapping[str, Any], space: LabelSpace) -> StoredForm:
        """A column for each class, and a line for each feature."""
        return StoredForm(class_columns(space), "numbers", by_row=False)

    @classmethod
    def check_value(cls, value: np.ndarray, law: Mapping[str, Any], _: LabelSpace) -> None:
        """A line for each feature, in whole steps."""
        _check_lines(value, law)
        check_steps(value, int(law["bits"]))

    @classmethod
    def step(cls, law: Mapping[str, Any]) -> float:
        """A step of the noise, in the units of the features."""
        return math.ldexp(1.0, -int(law["bits"]))

    @classmethod
    def standard_error(
        cls, law: Mapping[str, Any], _: LabelSpace, __: Int[np.ndarray, "cells"] | None
    ) -> Float[np.ndarray, ""]:
        """The standard deviation of the noise, the same on each sum, in the units of the features."""
        return np.asarray(rounded_normal_deviation(int(law["deviation"])) * cls.step(law))

    @classmethod
    def margin(
        cls, law: Mapping[str, Any], _: LabelSpace, __: Int[np.ndarray, "cells"] | None, confidence: float
    ) -> Float[np.ndarray, ""]:
        """The quantile of the noise, the same for each sum."""
        return np.asarray(normal_margin(int(law["deviation"]), confidence) * cls.step(law))

    @classmethod
    def reading(cls, value: np.ndarray, law: Mapping[str, Any], space: LabelSpace) -> FeatureSums:
        """Sums of features by class."""
        step = math.ldexp(1.0, -int(law["bits"]))
        norm = math.sqrt(int(law["sensitivity_squared"]) / 2) * step
        return ClassSums(value, float(cls.standard_error(law, space, None)), step, norm)


@dataclass(frozen=True, eq=False)
class NumberMoments(LabelMoments):
    """The sums of features times labels on an interval, with Gaussian noise: sufficient for least squares.

    With c_i the position of a label between the ends of the interval, from 0 to 1, it is
    ``sum_i f(x_i) (1 - c_i, c_i)``, shape (p, 2): label moments of the two ends, with fractional labels. A ridge
    regression can be fitted to optimality with it.

    Args:
        space: A declared ``Interval``; labels beyond it are clipped to it.
        epsilon: As for ``LabelMoments``.
        delta: Likewise.
        features: Likewise.
        norm: Likewise.

    Guarantee:
        That of ``LabelMoments``, with labels counted in steps of the grid: with T the number of steps from end to end,
        T times the sums is whole in the features' steps, and a replaced label moves it by ``d f_i (-1, 1)`` with
        ``|d| <= T``, at most ``sqrt(2) T |f_i|``. So the square of the sensitivity is ``2 T^2 m^2 max |f_i|^2``,
        exactly, for units of m labels.

    References:
        As for ``LabelMoments``.

    Raises:
        EpsilonError: As for ``LabelMoments``.
        InputError: Likewise.
        LabelError: The space is no interval.

    Example:
        >>> import numpy as np
        >>> from labeldp import Curator, Interval, NumberMoments
        >>> space = Interval(0.0, 10.0, 0.5)
        >>> answer = Curator([2.0, 3.0] * 500, space).answer(NumberMoments(space, 1.0, 1e-6, np.ones((1000, 1))))
        >>> answer.value.shape, round(float(answer.standard_error[0, 0]), 2)
        ((1, 2), 5.97)
    """

    name: ClassVar[str] = "number-moments"
    about: ClassVar[str] = "Sums of features times numeric labels, with Gaussian noise: sufficient for least squares"

    def __post_init__(self, features: object) -> None:
        if isinstance(self.space, LabelSpace) and not isinstance(self.space, Interval):
            raise LabelError(
                "expected a declared range with a grid, such as Interval(0, 10, 0.5), found classes; use LabelMoments"
            )
        super().__post_init__(features)

    @property
    def parts(self) -> int:
        """The number of steps from end to end."""
        return self.space.size - 1

    def _sums(self, codes: Int[np.ndarray, "n"]) -> Int[np.ndarray, "p 2"]:
        return self.grid.sums_between(codes, self.parts)

    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The parameters of ``LabelMoments``, and the number of steps from end to end."""
        return super().law(labels_of_a_unit) | {"parts": str(self.parts)}

    @classmethod
    def fields(cls) -> LawFields:
        """Those of ``LabelMoments``, and the number of steps from end to end."""
        return LawFields({**super().fields().required, "parts": integer}, {})

    @classmethod
    def promise_of(cls, law: Mapping[str, Any], space: LabelSpace) -> Guarantee:
        """The guarantee, recomputed from the integers of the noise.

        Raises:
            ValueError: They are not valid parameters of number moments on this interval.
        """
        parts = int(law["parts"])
        if (
            not isinstance(space, Interval)
            or parts != space.size - 1
            or int(law["sensitivity_squared"]) % (2 * parts**2)
        ):
            raise ValueError("expected the parts of an interval, and a sensitivity in them, found other integers")
        return super().promise_of(law, space)

    @classmethod
    def stored(cls, _: Mapping[str, Any], __: LabelSpace) -> StoredForm:
        """A column for each end of the interval, and a line for each feature."""
        return StoredForm(("low", "high"), "numbers", by_row=False)

    @classmethod
    def check_value(cls, value: np.ndarray, law: Mapping[str, Any], _: LabelSpace) -> None:
        """A line for each feature, in whole parts of steps up to the rounding of floats."""
        _check_lines(value, law)
        with np.errstate(over="ignore", invalid="ignore"):
            parts = np.ldexp(value, int(law["bits"])) * int(law["parts"])
            check_possible(bool((np.abs(parts - np.rint(parts)) <= _ROUNDING * np.abs(parts)).all()))

    @classmethod
    def step(cls, law: Mapping[str, Any]) -> float:
        """A step of the noise, in the units of the features: a step of their grid over the parts of a label."""
        return super().step(law) / int(law["parts"])

    @classmethod
    def reading(cls, value: np.ndarray, law: Mapping[str, Any], space: LabelSpace) -> FeatureSums:
        """Sums of features times labels."""
        sums = super().reading(value, law, space)
        return EndSums(value, sums.deviation, sums.step, sums.norm / int(law["parts"]))


def _check_lines(value: np.ndarray, law: Mapping[str, Any]) -> None:
    """Refuse moments of another number of features than the law's."""
    if len(value) != int(law["columns"]):
        raise VerificationError(f"expected a line for each of {law['columns']} features, found {len(value)} lines")


def _unit_sensitivity(squared: int, labels_of_a_unit: int) -> int:
    """The squared sensitivity to all labels of a unit, from that to one label."""
    return squared * labels_of_a_unit**2


def _gaussian_guarantee(noise: GaussianNoise, delta: float) -> Guarantee:
    return Guarantee(noise.epsilon(delta), delta, "central", assumptions=(_PUBLIC,), rho=noise.rho)
