"""The laws of a learner of released labels."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from labeldp.errors import NotTrueLabelsError
from labeldp.learning.metrics import UnitsWarning
from labeldp.privacy import Classes, Interval
from labeldp.release import Curator, Release
from labeldp.testing._laws import expect

#: People, rows of each, people that a model has not seen, and the epsilon of a person.
_PEOPLE, _EACH, _FRESH, _EPSILON = 300, 5, 2_000, 10.0
#: The share of the second class, the log loss above that of class shares, and the spread of numbers beside labels.
_SHARE, _MOST_LOSS, _MOST_SPREAD = 0.6, 0.02, 0.2
#: Relative difference of predictions that are the same.
_SAME = 1e-6


def check_learner(learner: Any, *, chooses: bool = True) -> None:
    """Check the laws that every learner of released labels holds, on invented rows.

    It refuses bare labels and no rows. Copies have its parameters, and fits of the same rows predict the same, also
    once they are pickled. Probabilities are distributions over the sorted classes, whatever order these were declared
    in; numbers are within the declared range. Rows with gaps, infinities or texts that it did not see are refused or
    have such predictions too, and so are fits to gaps, to texts and to a single row. A row alone is predicted as among
    others. It takes the privacy unit of each row (``groups=``), and warns of a release by unit if it gets none. Where
    labels are noise, and constant within units, it predicts the constant.

    Args:
        learner: A learner of classes, which has ``predict_proba``, or of numbers. It is copied, and not fitted.
        chooses: False for a learner that makes no choice on released labels, and so may fit noise.

    Raises:
        AssertionError: A law does not hold; the message states it.
    """
    features, labels = _rows(120, 0)
    of_classes = hasattr(learner, "predict_proba")
    space = Classes(["c", "a", "b"]) if of_classes else Interval(0.0, 2.0, 1.0)
    truth = np.array(["a", "b", "c"])[labels] if of_classes else labels.astype(float)
    release = Release.public(truth, space)
    model = _copy(learner).fit(features, release)
    expect(repr(clone(learner, safe=False)) == repr(learner), "a copy has the parameters of the learner")
    for odd, kind in (((features, truth), NotTrueLabelsError), ((features[:0], release[:0]), ValueError)):
        expect(_is_refused(partial(_copy(learner).fit, *odd), kind), "bare labels and no rows are refused")
    found = _predicted(model, features)
    again = _predicted(_copy(learner).fit(features, release), features)
    expect(np.allclose(found, again, _SAME), "fits of the same rows predict the same")
    read = pickle.loads(pickle.dumps(model))  # noqa: S301 (its own)
    expect(np.allclose(found, _predicted(read, features), _SAME), "a model predicts the same once it is pickled")
    expect(bool(np.isfinite(found).all()), "predictions are finite")
    _check_odd_rows(learner, model, features, release)
    if of_classes:
        expect(np.allclose(found.sum(axis=1), 1.0), "probabilities sum to one")
        expect(list(model.classes_) == sorted(space.points), "classes are sorted")
        other = _copy(learner).fit(features, Release.public(truth, Classes(["a", "b", "c"])))
        expect(np.allclose(found, _predicted(other, features), atol=1e-3), "the declared order changes nothing")
    else:
        expect(bool(((found >= 0.0) & (found <= 2.0)).all()), "predicted numbers are within the declared range")
    _check_units(learner, of_classes=of_classes, chooses=chooses)


def _check_odd_rows(learner: Any, model: Any, features: np.ndarray, release: Release) -> None:
    """Check that odd rows are refused or have finite predictions, and that a row does not depend on others."""

    def refitted(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        return _predicted(_copy(learner).fit(rows, release[: len(rows)]), others)

    found, one = _predicted(model, features), features[:1]
    expect(np.allclose(found[:1], _predicted(model, one), _SAME), "a row alone is predicted as among others")
    some = np.arange(len(features))[:, None] % 7 == 0
    seen, unseen = (np.where(some, text, features.round(1).astype(str)).astype(object) for text in ("Oslo", "Rome"))
    odd = {value: np.where(some, value, features) for value in (np.nan, np.inf, -np.inf)}
    cases = {
        "no rows are": partial(_predicted, model, features[:0]),
        **{f"rows with {value} are": partial(_predicted, model, rows) for value, rows in odd.items()},
        "a fit to gaps is": partial(refitted, odd[np.nan], features),
        "a fit to texts is": partial(refitted, seen, unseen),
        "a fit to one row is": partial(refitted, one, one),
    }
    for case, call in cases.items():
        expect(_is_finite_or_refused(call), f"{case} refused, or predictions are finite")


def _check_units(learner: Any, *, of_classes: bool, chooses: bool) -> None:
    """Check that units are taken, asked for, and on one side of every fold."""
    person, chance = np.repeat(np.arange(_PEOPLE), _EACH), np.random.default_rng(1)
    features = chance.normal(size=(_PEOPLE, 3))[person] + 0.05 * chance.normal(size=(len(person), 3))
    space = Classes(["no", "yes"]) if of_classes else Interval(0.0, 100.0, 1.0)
    own = np.where(chance.random(_PEOPLE) < _SHARE, "yes", "no") if of_classes else chance.integers(0, 101, _PEOPLE)
    labels = own[person] if of_classes else own[person].astype(float)
    release = Curator(labels, space, units=person, budget=_EPSILON).randomize(epsilon=_EPSILON)
    few = np.flatnonzero(person < 20)
    for groups, warned in ((None, True), ("rows", False), (person[few], False)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _copy(learner).fit(features[few], release[few], groups=groups)
        said = any(issubclass(each.category, UnitsWarning) for each in caught)
        expect(said == warned, "a fit of a release by unit warns if it gets no units, and only then")
    if not chooses:
        return
    found = _predicted(_copy(learner).fit(features, release, groups=person), chance.normal(size=(_FRESH, 3)))
    if of_classes:
        shares = np.array([1.0 - _SHARE, _SHARE])
        loss = -float((np.log(np.maximum(found, 1e-9)) @ shares).mean()) + float(shares @ np.log(shares))
        expect(loss < _MOST_LOSS, f"noise within units is predicted by class shares; the log loss is {loss:.3f} larger")
    else:
        spread = float(np.std(found) / np.std(labels))
        expect(spread < _MOST_SPREAD, f"noise within units is predicted by the mean; the spread is {spread:.2f}")


def _copy(learner: Any) -> Any:
    return clone(learner, safe=False)


def _rows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features that say much of three classes, and these."""
    chance = np.random.default_rng(seed)
    codes = np.arange(count) % 3
    return np.column_stack([codes + 0.3 * chance.normal(size=count), chance.normal(size=count)]), codes


def _predicted(model: Any, features: np.ndarray) -> np.ndarray:
    """Probabilities, or numbers."""
    return np.asarray((model.predict_proba if hasattr(model, "predict_proba") else model.predict)(features))


def _is_finite_or_refused(call: Callable[[], np.ndarray]) -> bool:
    """True if predictions are finite, or rows are refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of texts that were not seen
            return bool(np.isfinite(call()).all())
    except (TypeError, ValueError):
        return True


def _is_refused(call: Callable[[], object], kind: type[Exception]) -> bool:
    """True if a call raises an error of a kind."""
    try:
        call()
    except kind:
        return True
    return False
