"""Class probabilities and the order of their columns: that of a model's ``classes_``, or the declared one.

scikit-learn sorts ``classes_``, and its metrics rely on it. Codes, channels and priors follow the declared order of a
label space, which files and output distributions depend on. Every change from one order to the other is made here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from labeldp._arrays import read_only
from labeldp._shapes import Float
from labeldp.columns import row_names
from labeldp.errors import InputError
from labeldp.privacy._spaces import LabelSpace


@dataclass(frozen=True, eq=False)
class ClassProbabilities:
    """Class probabilities of rows, or other scores, with the class of each column.

    Every function of this package that takes an array of shape (n, k) beside a release or a label space takes these
    instead. It needs them if the classes were not declared in sorted order: there a model's columns, in the order of
    its ``classes_``, are not in declared order, and an array alone does not show which of the two it has.

    Args:
        values: The probabilities, shape (n, m).
        classes: The class of each of the m columns: ``model.classes_``, or ``space.points`` for the declared order.

    Attributes:
        row_names: The index of the values if they are a frame, or of the features that they were predicted from.

    Example:
        >>> from labeldp import ClassProbabilities, Classes, PriorResponse
        >>> space = Classes(["no", "maybe", "yes"])
        >>> prior = ClassProbabilities([[0.1, 0.7, 0.2]], ["maybe", "no", "yes"])  # sorted, as of scikit-learn's models
        >>> PriorResponse(space, 1.0, prior).prior.tolist()
        [[0.7, 0.1, 0.2]]

    Raises:
        InputError: There is not one class for each column, or one twice.
    """

    values: Float[np.ndarray, "n m"]
    classes: Iterable[Any]
    row_names: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "row_names", row_names(self.values))
        values, classes = np.array(self.values), tuple(np.asarray(self.classes).tolist())
        if values.ndim != 2 or values.shape[1] != len(classes):
            raise InputError(
                f"expected a column of probabilities for each of {len(classes)} classes, found shape {values.shape}"
            )
        if len(set(classes)) != len(classes):
            raise InputError("expected different classes, found one for two columns")
        object.__setattr__(self, "values", read_only(values))
        object.__setattr__(self, "classes", classes)

    @classmethod
    def of(cls, model: Any, features: Any) -> Self:
        """The predictions of a fitted classifier of scikit-learn or of this package.

        Args:
            model: A classifier with ``predict_proba`` and ``classes_``.
            features: Features of n rows, in the form that it takes.

        Raises:
            InputError: It has no ``predict_proba`` or no ``classes_``.
        """
        if not (hasattr(model, "predict_proba") and hasattr(model, "classes_")):
            raise InputError(
                f"expected a fitted classifier with predict_proba and classes_, found {type(model).__name__}"
            )
        found = cls(np.asarray(model.predict_proba(features)), model.classes_)
        object.__setattr__(found, "row_names", row_names(features))
        return found

    def in_order(self, classes: Iterable[Any]) -> Float[np.ndarray, "n k"]:
        """The columns of given classes in their order, with zeros for those without a column.

        Raises:
            InputError: A column's class is not among them.
        """
        return columns_in_order(self.values, self.classes, classes)


def columns_in_order(values: np.ndarray, classes: Iterable[Any], order: Iterable[Any]) -> np.ndarray:
    """Columns of some classes in another order of classes, with zeros for classes without a column.

    Raises:
        InputError: There is not one class for each column, or it is not among those of the result.
    """
    named, wanted = _plain(classes), _plain(order)
    if values.ndim == 2 and values.shape[1] == len(named) and named == wanted:
        return values
    place = {point: column for column, point in enumerate(wanted)}
    known = len(set(named)) == len(named) and set(named) <= set(place)
    if values.ndim != 2 or values.shape[1] != len(named) or not known:
        raise InputError(
            f"expected a column for each of some of the {len(wanted)} declared classes, found shape {values.shape} for "
            f"{len(named)} classes, or other classes; fit the model on the declared classes"
        )
    result = np.zeros((len(values), len(wanted)), dtype=values.dtype)
    result[:, [place[point] for point in named]] = values
    return result


def declared_columns(probabilities: object, space: LabelSpace) -> Any:
    """Probabilities with columns in declared order; what is no ``ClassProbabilities`` is returned as it is.

    Args:
        probabilities: ``ClassProbabilities``; or an array in declared order, of shape (n, k) only if that is sorted.
        space: The declared label space.

    Raises:
        InputError: Columns have other classes; or they have no names, and the declared order is not sorted.
    """
    if isinstance(probabilities, ClassProbabilities):
        return probabilities.in_order(space.points)
    if not space.is_sorted and _is_table(probabilities):
        raise InputError(
            "expected the class of each column of probabilities, since the classes were not declared in sorted order, "
            "found an array alone; give ClassProbabilities(values, model.classes_), or ClassProbabilities(values, "
            "space.points) if its columns are in declared order"
        )
    return probabilities


def _is_table(values: object) -> bool:
    """True for an array of rows and columns, or lists that make one."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different length, which are refused for that
        return False
    return array.ndim == 2 and len(array) > 0


def predicted_columns(model: Any, features: Any, space: LabelSpace) -> np.ndarray:
    """The class probabilities that a model predicts, with columns in declared order.

    Args:
        model: Anything with ``predict_proba``; without ``classes_`` it predicts in declared order.
        features: Features of n rows.
        space: The declared label space.
    """
    if not hasattr(model, "predict_proba"):
        raise InputError(f"expected a model with predict_proba, found {type(model).__name__}")
    values, classes = np.asarray(model.predict_proba(features)), getattr(model, "classes_", None)
    return columns_in_order(values, space.points if classes is None else classes, space.points)


def _plain(classes: Iterable[Any]) -> list[Any]:
    """Classes as plain Python values."""
    return list(classes) if isinstance(classes, tuple) else list(np.asarray(classes).tolist())
