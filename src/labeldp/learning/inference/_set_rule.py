"""The rule that turns predictions into sets: thresholds that were calibrated by released labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from labeldp._notebook import Shown
from labeldp._shapes import Bool, Float
from labeldp.errors import InputError
from labeldp.privacy import ClassProbabilities

#: Key of the limit that holds for all rows and classes.
ALL = ""
BY_CLASS, BY_GROUP = "class", "group"
#: Longest reason in a file.
_MOST_CHARACTERS = 1000


@dataclass(frozen=True, eq=False)
class PredictionSets(Shown):
    """Rule that turns a model's predictions into sets that hold the true label of at least a share of rows.

    Attributes:
        alpha: Largest share of rows whose set may miss the true label.
        confidence: Probability, over the rows and the noise of their labels, that the sets of fresh rows miss no more.
        classes: The classes in declared order; None of numeric labels.
        ends: The declared range of numeric labels; None of classes.
        by: ``""`` if the coverage is that of all rows, ``"class"`` if it holds in each class, ``"group"`` in each
            public group. The confidence is then that all of them hold together.
        limits: The least probability of a class in a set, or the largest distance of a number from the prediction: one,
            or one for each class or group. 0, or infinity, where only the set of all labels is shown to suffice. The
            most likely class is always in its set.
        rows: Number of rows that it was calibrated on.
        size: Mean number of classes in the sets of these rows, or mean width of their intervals.
        reasons: Why sets are of all labels: one for each class or group where they are, or one for all.
    """

    alpha: float
    confidence: float
    classes: tuple[object, ...] | None
    ends: tuple[float, float] | None
    by: str
    limits: Mapping[object, float]
    rows: int
    size: float = math.nan
    reasons: Mapping[object, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("limits", "reasons"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def of(self, model: Any, features: Any, groups: object = None) -> Any:
        """The sets of rows.

        Args:
            model: The model that it was calibrated for.
            features: Features of n rows.
            groups: The public group of each row, if the coverage is by group.

        Returns:
            Of classes a mask of shape (n, k), in the order of ``classes``; of numbers the lower and the upper end of
            each interval, shape (n, 2).

        Raises:
            InputError: There is no group for each row, or a group without rows to calibrate on.
        """
        if self.classes is None:
            return self.intervals(model.predict(features), groups)
        return self.members(ClassProbabilities.of(model, features).in_order(self.classes), groups)

    def members(self, probabilities: Float[np.ndarray, "n k"], groups: object = None) -> Bool[np.ndarray, "n k"]:
        """The classes in the set of each row, from probabilities in declared order."""
        if self.by == BY_CLASS:
            return held_classes(probabilities, np.array([self.limits[each] for each in self.classes or ()]))
        return held_classes(probabilities, self._of_rows(len(probabilities), groups)[:, None])

    def intervals(self, predicted: Float[np.ndarray, "n"], groups: object = None) -> Float[np.ndarray, "n 2"]:
        """The interval of each row, from predicted numbers."""
        reach = self._of_rows(len(predicted), groups)
        ends = np.stack([predicted - reach, predicted + reach], axis=1)
        return np.asarray(np.clip(ends, *(self.ends or (-np.inf, np.inf))))

    def plain(self) -> dict[str, Any]:
        """The rule as values of JSON: of one limit, or of one for each class in declared order."""
        if self.by == BY_GROUP:
            raise InputError("expected one limit for all rows or for each class in a file, found one for each group")
        limits = [_finite(self.limits[key]) for key in self._keys]
        reasons = [self.reasons.get(key, "") for key in self._keys]
        return {"alpha": self.alpha, "confidence": self.confidence, "limit": limits if self.by else limits[0]} | {
            "rows": self.rows,
            "size": _finite(self.size),
            "reason": reasons if self.by else reasons[0],
        }

    @classmethod
    def from_plain(cls, plain: Any, classes: tuple[object, ...] | None, ends: tuple[float, float] | None) -> Self:
        """The rule of ``plain``."""
        alpha, confidence, rows = float(plain["alpha"]), float(plain["confidence"]), int(plain["rows"])
        size = math.nan if plain["size"] is None else float(plain["size"])
        by_class = isinstance(plain["limit"], list)
        found = (plain[name] if by_class else [plain[name]] for name in ("limit", "reason"))
        limits, reasons = [math.inf if each is None else float(each) for each in next(found)], [*map(str, next(found))]
        rule = cls(alpha, confidence, classes, ends, BY_CLASS if by_class else "", {}, rows, size)
        if not (
            0.0 < alpha < 1.0
            and 0.5 < confidence < 1.0
            and rows > 0
            and len(limits) == len(reasons) == len(rule._keys)
            and min(limits) >= 0.0
            and max(map(len, reasons)) < _MOST_CHARACTERS
        ):
            raise ValueError("no rule of prediction sets")
        told = {key: reason for key, reason in zip(rule._keys, reasons, strict=True) if reason}
        return replace(rule, limits=dict(zip(rule._keys, limits, strict=True)), reasons=told)

    @property
    def _keys(self) -> tuple[object, ...]:
        """The keys of the limits of a rule in a file."""
        return (self.classes or ()) if self.by == BY_CLASS else (ALL,)

    def _of_rows(self, rows: int, groups: object) -> Float[np.ndarray, "n"]:
        """The limit of each row."""
        if (groups is not None) != (self.by == BY_GROUP):
            found = "some" if groups is not None else "none"
            raise InputError(f"expected groups of rows for sets that were calibrated by group alone, found {found}")
        if groups is None:
            return np.full(rows, self.limits[ALL])
        names = np.asarray(groups).tolist()
        unknown = next((each for each in names if each not in self.limits), None)
        if len(names) != rows or unknown is not None:
            found = f"the group {unknown!r}" if unknown is not None else f"{len(names)}"
            raise InputError(f"expected one of the groups that sets were calibrated on for each row, found {found}")
        return np.array([self.limits[each] for each in names])


def held_classes(probabilities: Float[np.ndarray, "n k"], limit: Any) -> Bool[np.ndarray, "n k"]:
    """The classes with at least a probability, and the most likely one."""
    held = np.asarray(probabilities >= limit)
    held[np.arange(len(held)), np.argmax(probabilities, axis=1)] = True
    return held


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
