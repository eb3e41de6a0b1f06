"""An array of released labels, as NumPy and scikit-learn find it: opaque, since released labels are not true labels."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from labeldp.errors import InputError, NotTrueLabelsError

_CONCATENATE = (
    *(np.concatenate, np.append, np.insert, np.block),
    *(np.hstack, np.vstack, np.dstack, np.stack, np.column_stack),
)
_USE = (
    "use an estimator or a metric of labeldp.learning, which account for the noise (docs/guide/tools.md names them), "
    "or release.to_arrow() for the bare values"
)
_OF_SCORES = "pass scoring=accuracy_scorer of labeldp.learning.metrics, or use a metric from there"
#: Parts of scikit-learn that would say something else of opaque labels, and what to use instead.
_INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys((f"sklearn.metrics.{part}" for part in ("_classification", "_ranking", "_plot")), _OF_SCORES),
        "sklearn.calibration": "use labeldp.learning.metrics.calibration, or CalibratedClassifier to calibrate",
        "sklearn.model_selection._classification_threshold": (
            "choose by costs: a class is worth predicting where its probability is above cost / (cost + gain)"
        ),
        "sklearn.model_selection._validation.cross_val_predict": "fit release[rows] in a loop over folds",
    }
)


class ReleasedLabel:
    """A single released label, which refuses to be used as a true label."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<released label, see Release.targets>"

    def _refuse(self, *_: object) -> Any:
        raise NotTrueLabelsError(f"this tool needs true labels, found a release; {_USE}")

    __float__ = __int__ = __index__ = __bool__ = __str__ = _refuse
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __hash__ = _refuse


RELEASED_LABEL = ReleasedLabel()


class OpaqueLabels(ABC):
    """A target array whose values refuse to be used as true labels."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    @property
    def shape(self) -> tuple[int]:
        """The number of rows, as the shape of a target array."""
        return (len(self),)

    @property
    def ndim(self) -> int:
        """One, as a target array has."""
        return 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """Object, since a release is no array of numbers."""
        return np.dtype(object)

    def __iter__(self) -> Iterator[ReleasedLabel]:
        return iter([RELEASED_LABEL] * len(self))

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        """An array of objects that refuse to be used as true labels."""
        del copy
        if dtype is not None and np.dtype(dtype) != object:  # type: ignore[call-overload]
            RELEASED_LABEL._refuse()
        if instead := _instead():
            raise NotTrueLabelsError(f"this tool needs true labels, found a release; {instead}")
        array = np.empty(len(self), dtype=object)
        array[:] = RELEASED_LABEL
        return array

    def __array_function__(self, function: Any, _: object, args: Any, kwargs: dict[str, Any]) -> Any:
        """Refuse to be concatenated by NumPy, which drops channels; other functions find opaque labels.

        So does ``np.r_``, which asks nobody before it concatenates.
        """
        if function in _CONCATENATE:
            raise InputError(
                f"expected Release.concat([...]) for releases, found numpy.{function.__name__}, which drops channels"
            )
        return function(*_opaque(args), **_opaque(kwargs))


def _instead() -> str | None:
    """The replacement of the part of scikit-learn that asks for an array of labels, if it is a known one."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("sklearn.") and not module.startswith(("sklearn.utils", "sklearn.externals")):
            place = f"{module}.{frame.f_code.co_name}"
            return next((instead for part, instead in _INSTEAD.items() if place.startswith(part)), None)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _opaque(values: Any) -> Any:
    """Arguments of a function with an array of opaque labels for each release."""
    if isinstance(values, dict):
        return {name: _opaque(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return type(values)(map(_opaque, values))
    return np.asarray(values) if isinstance(values, OpaqueLabels) else values
