"""The text form of LightGBM's trees, as its reader takes it: compiled code follows whatever the text says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from labeldp._shapes import Float

_COUNT, _REAL = r"-?\d{1,10}", r"-?(?:inf|\d+(?:\.\d+)?(?:e[-+]\d+)?)"
#: The lines of a tree in their order: the form of their numbers, and how many there are.
_LINES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "num_leaves": (_COUNT, "one"),
        "num_cat": (_COUNT, "one"),
        "split_feature": (_COUNT, "nodes"),
        "split_gain": (_REAL, "nodes"),
        "threshold": (_REAL, "nodes"),
        "decision_type": (_COUNT, "nodes"),
        "left_child": (_COUNT, "nodes"),
        "right_child": (_COUNT, "nodes"),
        "leaf_value": (_REAL, "leaves"),
        "leaf_weight": (_REAL, "weights"),
        "leaf_count": (_COUNT, "leaves"),
        "internal_value": (_REAL, "nodes"),
        "internal_weight": (_REAL, "nodes"),
        "internal_count": (_COUNT, "nodes"),
        "cat_boundaries": (_COUNT, "sets"),
        "cat_threshold": (_COUNT, "words"),
        "is_linear": ("0", "one"),
        "shrinkage": (_REAL, "one"),
    }
)
#: The lines that a tree without splits by categories does not have.
_OPTIONAL = ("cat_boundaries", "cat_threshold")
#: Types of decisions: by a category or by a number, three ways to take missing values, and two sides for them.
_DECISIONS = 12


def _line(name: str, number: str, count: str) -> str:
    """The pattern of a line of numbers."""
    numbers = number if count == "one" else f"(?:{number}(?: {number})*)?"
    return f"(?:{name}=(?P<{name}>{numbers})\n)" + "?" * (name in _OPTIONAL)


_TREE = re.compile(
    r"Tree=(?P<place>\d+)\n" + "".join(_line(name, *form) for name, form in _LINES.items()) + "\n\n", re.ASCII
)
_WORDS = "([!-<>-~]+(?: [!-<>-~]+)*)"
_HEAD = re.compile(
    rf"(?:objective=regression\n)?feature_names={_WORDS}\nfeature_infos={_WORDS}\ntree_sizes=(\d+(?: \d+)*)\n\n",
    re.ASCII,
)
_TAIL = re.compile(
    r"end of trees\n\nfeature_importances:\n(?:\w+=\d+\n)*"
    r"(?:\nparameters:\n(?:\[\w+: [\w.,+-]*\]\n)+\nend of parameters\n)?\npandas_categorical:null\n",
    re.ASCII,
)


def are_sound_trees(text: str, features: int, scores: int) -> bool:
    """True of a text of trees that read these features and end in leaves, with so many scores of a row.

    Every line is known, every tree is as long as the text says, and nothing is left over.
    """
    first = (
        f"tree\nversion=v4\nnum_class={scores}\nnum_tree_per_iteration={scores}\nlabel_index=0\n"
        f"max_feature_idx={features - 1}\n"
    )
    head = _HEAD.match(text, len(first))
    if scores < 1 or not text.startswith(first) or head is None:
        return False
    names, infos, sizes = (part.split(" ") for part in head.groups())
    place = head.end()
    for number, size in enumerate(map(int, sizes)):
        tree = _TREE.fullmatch(text, place, place + size)
        if tree is None or tree["place"] != str(number) or not _is_sound(tree.groupdict(), features):
            return False
        place += size
    whole = len(sizes) % scores == 0 and len(names) == len(infos) == features
    return whole and _TAIL.fullmatch(text, place) is not None


def _is_sound(lines: Mapping[str, Any], features: int) -> bool:
    """True of a tree whose numbers are as many as it says, and whose nodes are each reached once."""
    held = {name: _numbers(lines[name] or "") for name in _LINES}
    held["cat_boundaries"] = _numbers(lines["cat_boundaries"] or "0")
    leaves, categories = int(held["num_leaves"][0]), int(held["num_cat"][0])
    most = {
        "one": 1,
        "leaves": leaves,
        "nodes": leaves - 1,
        "weights": leaves if leaves > 1 else 0,
        "sets": categories + 1,
        "words": int(held["cat_boundaries"][-1]),
    }
    if leaves < 1 or any(len(held[name]) != most[count] for name, (_, count) in _LINES.items()):
        return False
    reached = np.concatenate([held["left_child"], held["right_child"], [0 if leaves > 1 else -1]])  # the root, too
    kinds, bounds = held["decision_type"], held["cat_boundaries"]
    sets = held["threshold"][kinds % 2 == 1]
    return bool(
        np.isfinite(held["leaf_value"]).all()
        and np.array_equal(np.sort(reached), np.arange(-leaves, leaves - 1))  # each once, so that no path comes back
        and np.all((held["split_feature"] >= 0) & (held["split_feature"] < features))
        and np.all((kinds >= 0) & (kinds < _DECISIONS))
        and np.all((sets >= 0) & (sets < categories) & (sets == np.floor(sets)))
        and bounds[0] == 0
        and np.all(np.diff(bounds) >= 0)
    )


def _numbers(line: str) -> Float[np.ndarray, "n"]:
    """The numbers of a line."""
    return np.array(line.split(), dtype=np.float64)
