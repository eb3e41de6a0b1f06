"""Fitted estimators as plain data and arrays, and back: types of a table alone, and no code but theirs.

An object is its type's name and its attributes. Objects come in an order in which each refers to earlier ones only, so
that no file describes a cycle, and what several share is there once.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from labeldp._shapes import Bool
from labeldp.learning.files._arrays import name_of, number_type
from labeldp.learning.files._boosted_trees import are_sound_trees

#: The most characters of an array of texts, each of which takes the room of the longest.
_MOST_CHARACTERS = 1 << 26

#: The types of objects that a file may hold, by the package that documents them.
TYPES: Mapping[str, str] = MappingProxyType(
    {
        name: module
        for module, names in {
            "labeldp.learning.cells": "Centres ClusterTree Embedding NearestLeaf",
            "labeldp.learning.convex": "Ball ConvexClassifier ConvexRegressor Descent SoftmaxLoss SquaredLoss Steps",
            "labeldp.learning.features": "OneHotCategories OrdinalCategories TextComponents TextWords UnitScaler",
            "labeldp.learning.ratings": "Draw Entities FactorizationClassifier",
            "labeldp.learning.sklearn": "AutoClassifier AutoRegressor BoostingClassifier BoostingRegressor "
            "ClusterLeaves EvidenceRidge KernelClassifier Mixture NeighborsRegressor "
            "ReleasedLabelClassifier ReleasedLabelRegressor SoftLabelClassifier SoftmaxRegression TreeClassifier "
            "TreeRegressor",
            "sklearn._loss": "HalfBinomialLoss HalfMultinomialLoss HalfSquaredError",
            "sklearn.cluster": "KMeans MiniBatchKMeans",
            "sklearn.compose": "ColumnTransformer",
            "sklearn.decomposition": "PCA TruncatedSVD",
            "sklearn.ensemble": "HistGradientBoostingClassifier HistGradientBoostingRegressor",
            "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
            "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
            "sklearn.impute": "MissingIndicator SimpleImputer",
            "sklearn.linear_model": "LogisticRegression",
            "sklearn.neighbors": "NearestNeighbors",
            "sklearn.pipeline": "Pipeline",
            "sklearn.preprocessing": "FunctionTransformer LabelEncoder MaxAbsScaler OneHotEncoder OrdinalEncoder "
            "StandardScaler",
            "sklearn.utils": "check_array",
        }.items()
        for name in names.split()
    }
)


def described(value: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Plain data and arrays that ``restored`` makes the value of again.

    Raises:
        TypeError: A part is of a type that no file holds.
    """
    writer = _Writer()
    root = writer.plain(value)
    return {"objects": writer.objects, "value": root}, writer.arrays


def restored(body: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    """The value that plain data and arrays describe.

    No code of the file's runs: attributes of known types are set. Search trees are built anew, as one in a forged file
    might point outside its rows.

    Raises:
        ValueError: They describe none; and whatever else it raises on foreign data.
    """
    reader = _Reader(arrays)
    for entry in body["objects"]:
        reader.objects.append(_object(entry["type"], reader.value(entry["state"])))
    return reader.value(body["value"])


class _Writer:
    """The objects and arrays of a value, each once."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.arrays: dict[str, np.ndarray] = {}
        self._places: dict[int, Any] = {}
        self._alive: list[Any] = []  # so that no two have one identity

    def plain(self, value: Any) -> Any:
        """A value as plain data."""
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is list:
            return [self.plain(each) for each in value]
        if kind is dict:
            if not all(type(key) is str for key in value):
                raise TypeError("expected texts as keys in a file, found others")
            return {"dict": {key: self.plain(each) for key, each in value.items()}}
        for name, (of, parts, _) in _SIMPLE.items():
            if isinstance(value, of):
                return {name: self.plain(parts(value))}
        return {"type": name_of(value)} if isinstance(value, type) else self._shared(value)

    def _shared(self, value: Any) -> Any:
        """A value that several parts may hold."""
        if id(value) not in self._places:
            place = self._array(value) if isinstance(value, np.ndarray) else self._object(value)
            self._places[id(value)] = place
            self._alive.append(value)
        return self._places[id(value)]

    def _array(self, value: np.ndarray) -> dict[str, Any]:
        if value.dtype.kind in "OU":
            return {"items": self.plain(value.ravel().tolist()), "shape": list(value.shape), "kind": value.dtype.kind}
        name, flipped = str(len(self.arrays)), value.flags.f_contiguous and not value.flags.c_contiguous
        self.arrays[name] = value.T if flipped else value
        return {"flipped": name} if flipped else {"array": name}

    def _object(self, value: Any) -> dict[str, Any]:
        name = "check_array" if isinstance(value, partial) else type(value).__name__
        kind = _type_of(name)
        if kind not in (type(value), getattr(value, "func", None)):
            raise TypeError(f"expected a part that a file can hold, found {type(value).__name__}")
        of, _ = _OWN.get(name, (_state, None))
        self.objects.append({"type": name, "state": self.plain(of(value))})
        return {"object": len(self.objects) - 1}


class _Reader:
    """The values of plain data, with the objects before them."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.objects: list[Any] = []
        self._arrays, self._known = arrays, dict[str, np.ndarray]()

    def value(self, body: Any) -> Any:
        """The value of plain data."""
        if isinstance(body, list):
            return [self.value(each) for each in body]
        if not isinstance(body, dict):
            return body
        if set(body) == {"items", "shape", "kind"}:
            return self._items(**body)
        ((name, part),) = body.items()
        match name:
            case "object":
                found = self.objects[part]
            case "array":
                found = self._array(part)
            case "flipped":
                found = self._array(part).T
            case "dict":
                found = {key: self.value(each) for key, each in part.items()}
            case "type":
                found = number_type(part).type
            case _:
                found = _SIMPLE[name][-1](self.value(part))
        return found

    def _array(self, name: str) -> np.ndarray:
        if name not in self._known:
            self._known[name] = self._arrays[name]
        return self._known[name]

    def _items(self, items: list[Any], shape: list[int], kind: str) -> np.ndarray:
        if kind == "U" and len(items) * max(map(len, items), default=0) > _MOST_CHARACTERS:
            raise ValueError("texts that take much more room than their file")
        found = np.empty(len(items), dtype=object)
        for place, each in enumerate(items):
            found[place] = self.value(each)
        return found.reshape(shape).astype({"O": object, "U": str}[kind])


def _type_of(name: str) -> Any:
    """The type, or the function, of a name that a file may hold; its module alone is imported."""
    if name not in TYPES:
        raise TypeError(f"expected a part that a file can hold, found {name}")
    return getattr(importlib.import_module(TYPES[name]), name)


def _object(name: str, state: dict[str, Any]) -> Any:
    """An object of a type with these attributes."""
    _, make = _OWN.get(name, (None, _with_attributes))
    value = make(_type_of(name), state)
    if any(getattr(value, setting, None) not in (None, 1) for setting in _WORKERS):
        raise ValueError(f"expected a {name} of one process, found one of several")
    if name in _SOUND and not _SOUND[name](value):
        raise ValueError(f"expected a {name} whose parts fit together, found another")
    return value


def _with_attributes(kind: Any, state: dict[str, Any]) -> Any:
    """An object of a type that was never called."""
    value = object.__new__(kind)
    vars(value).update(state)
    return value


def _state(value: Any) -> dict[str, Any]:
    """The attributes of an object that it keeps: the combinations of models keep no predictions of rows."""
    return {name: each for name, each in (value.__getstate__() or {}).items() if name != "_sklearn_version"}


def _nodes(tree: Any) -> dict[str, Any]:
    """The attributes of a tree, with its nodes as bytes and the types of their fields."""
    fields = [[name, name_of(kind)] for name, (kind, *_) in (tree.nodes.dtype.fields or {}).items()]
    return {**vars(tree), "nodes": tree.nodes.view(np.uint8), "fields": fields}


def _tree(kind: Any, state: dict[str, Any]) -> Any:
    """A tree of nodes; scikit-learn refuses those of other fields."""
    fields = np.dtype([(name, number_type(each)) for name, each in state.pop("fields")])
    return kind(**state | {"nodes": state["nodes"].view(fields)})


def _has_sound_trees(model: Any) -> bool:
    """True if trees end in leaves, and read features and categories that there are: compiled code does not look."""
    if not hasattr(model, "_predictors"):
        return True  # not fitted
    width = int(model.n_features_in_)
    if model._preprocess_X(np.zeros((1, width)), reset=False).shape != (1, width):
        return False
    categories = np.asarray(model._bin_mapper.is_categorical_, dtype=bool)
    return categories.shape == (width,) and all(
        _is_sound(tree, categories) for stage in model._predictors for tree in stage
    )


def _is_sound(tree: Any, categories: Bool[np.ndarray, "d"]) -> bool:
    """True of a tree of features of which some are categories."""
    inner = np.flatnonzero(tree.nodes["is_leaf"] == 0)
    nodes, bitsets = tree.nodes[inner], tree.raw_left_cat_bitsets
    ends = np.concatenate([nodes["left"], nodes["right"]]).astype(np.int64)
    features, by_category = nodes["feature_idx"], nodes["is_categorical"] != 0
    return bool(
        len(tree.nodes)
        and np.all((np.tile(inner, 2) < ends) & (ends < len(tree.nodes)))
        and np.all((features >= 0) & (features < len(categories)))
        and np.all(categories[features[by_category]])
        and np.all(nodes["bitset_idx"][by_category] < len(bitsets))
        and bitsets.shape[1:] == (8,)
    )


def _has_sound_text(model: Any) -> bool:
    """True if LightGBM's trees are sound; of two classes one score is fitted."""
    if not getattr(model, "model_", ""):
        return True  # not fitted, or the constant
    scores = len(getattr(model, "_start", "1"))  # a number has one
    return are_sound_trees(model.model_, int(model.n_features_in_), 1 if scores == 2 else scores)


def _has_sound_centres(model: Any) -> bool:
    """True if centres have as many features as rows: compiled code does not look."""
    return not hasattr(model, "cluster_centers_") or bool(
        model.cluster_centers_.shape[1:] == (int(model.n_features_in_),)
    )


def _has_sound_words(model: Any) -> bool:
    """True if each word has a weight, and a place in each component."""
    if not hasattr(model, "words_"):
        return True  # not fitted
    return len(model.weights_) == len(model.words_) == len(getattr(model, "components_", model.weights_))


#: Attributes that say how many processes or threads an object starts: where it is used, that is not a file's to say.
_WORKERS = ("n_jobs", "_n_threads")
#: Checks of objects whose compiled code trusts what they hold, or that meet what does not fit at some rows alone.
_SOUND: Mapping[str, Callable[[Any], bool]] = MappingProxyType(
    {
        **dict.fromkeys(("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"), _has_sound_trees),
        **dict.fromkeys(("BoostingClassifier", "BoostingRegressor"), _has_sound_text),
        **dict.fromkeys(("KMeans", "MiniBatchKMeans"), _has_sound_centres),
        **dict.fromkeys(("TextWords", "TextComponents"), _has_sound_words),
    }
)
#: For types whose attributes are not what is kept: a function that gives it, and one that makes an object of it.
_OWN: Mapping[str, tuple[Callable[[Any], dict[str, Any]], Callable[[Any, dict[str, Any]], Any]]] = MappingProxyType(
    {
        "NearestNeighbors": (
            lambda search: {"settings": search.get_params(), "rows": search._fit_X},
            lambda kind, state: kind(**state["settings"]).fit(state["rows"]),
        ),
        "TreePredictor": (_nodes, _tree),
        "check_array": (lambda function: function.keywords, lambda function, state: partial(function, **state)),
        "HalfMultinomialLoss": (
            lambda loss: {"n_classes": loss.n_classes},
            lambda kind, state: kind(**state),
        ),
        **dict.fromkeys(("HalfBinomialLoss", "HalfSquaredError"), (lambda _: {}, lambda kind, _: kind())),
    }
)
#: Values of other types by their name in a file: the type, its simpler parts, and the value of these.
_SIMPLE: Mapping[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = MappingProxyType(
    {
        "text": (np.str_, str, str),
        "number": (
            np.generic,
            lambda value: [name_of(value.dtype), value.item()],
            lambda parts: number_type(parts[0]).type(parts[1]),
        ),
        "float": (float, lambda value: value.hex(), float.fromhex),
        "tuple": (tuple, list, tuple),
        "slice": (slice, lambda value: [value.start, value.stop, value.step], lambda parts: slice(*parts)),
        "dtype": (np.dtype, name_of, number_type),
        "none": (np.random.Generator | np.random.RandomState, lambda _: None, lambda _: None),
    }
)
