"""LightGBM's trees in a file: its compiled code follows whatever their text says, so that the text is checked."""

import copy
import functools
import re

import numpy as np
import pytest

from labeldp import Classes, Curator, Interval
from labeldp.learning.files import described, restored
from labeldp.learning.sklearn import BoostingClassifier, BoostingRegressor

pytest.importorskip("lightgbm")


@functools.cache
def fitted(classes=2, *, varies=True):
    """Trees of a number, with gaps, and of categories, and their rows; of numeric labels with no classes."""
    random = np.random.default_rng(0)
    rows = np.column_stack([random.normal(size=2000), random.integers(0, 6, 2000)])
    rows[random.random(2000) < 0.2, 0] = np.nan
    codes = (2 * (np.nan_to_num(rows[:, 0]) > 1) + 3 * (rows[:, 1] % 3)).astype(int)
    if not varies:
        rows = np.zeros((2000, 2))
        rows[0, 0] = 1.0
    space = Classes(range(classes)) if classes else Interval(0.0, 5.0, 1.0)
    labels = codes % classes if classes else np.minimum(codes, 5).astype(float)
    release = Curator(labels.tolist(), space).randomize(epsilon=8.0)
    kind = BoostingClassifier if classes else BoostingRegressor
    return kind(categorical=[1], rounds=4).fit_setting(4, rows, release), rows


@pytest.mark.parametrize("varies", [True, False])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_trees_that_were_fitted_are_restored(classes, varies):
    """With the same predictions: of numbers, of two and more classes, of categories and gaps, and trees of one leaf."""
    model, rows = fitted(classes, varies=varies)
    opened = restored(*described(model))
    assert opened.model_ == model.model_ != ""
    assert ("decision_type=1" in model.model_) is varies
    predict = "predict_proba" if classes else "predict"
    np.testing.assert_array_equal(getattr(opened, predict)(rows), getattr(model, predict)(rows))


def line(name, *numbers, at=0):
    """A change of the first line of a name: these numbers from a place on."""

    def change(text):
        found = re.search(rf"^{name}=(.*)$", text, re.MULTILINE)
        held = found[1].split(" ")
        held[at : at + len(numbers)] = numbers
        return f"{text[: found.start(1)]}{' '.join(held)}{text[found.end(1) :]}"

    return change


#: Changes of a text after which it is none of sound trees.
UNSOUND = {
    "a node is its own child": line("left_child", "0"),
    "a node is reached twice": line("right_child", "1", "1"),
    "a child beyond the nodes": line("left_child", "1000000000"),
    "a leaf beyond the leaves": line("left_child", "-1000000000"),
    "a feature beyond the row": line("split_feature", "2000000000"),
    "a feature before the row": line("split_feature", "-1"),
    "a set of categories that is none": line("threshold", "7"),
    "a part of a set of categories": line("threshold", "0.5"),
    "a decision of another kind": line("decision_type", "12"),
    "sets that end before they begin": line("cat_boundaries", "3", at=1),
    "sets beyond their words": line("cat_boundaries", "1000000", at=-1),
    "more sets than there are": line("num_cat", "1000000"),
    "more leaves than there are": line("num_leaves", "1000000000"),
    "no leaves": line("num_leaves", "0"),
    "fewer leaves": line("num_leaves", "-5"),
    "a leaf that is no number": line("leaf_value", "nan"),
    "a leaf without an end": line("leaf_value", "inf"),
    "a leaf beyond all numbers": line("leaf_value", "1e999"),
    "digits of another script": line("leaf_value", "٣"),
    "a linear tree": line("is_linear", "1"),
    "no tree of an iteration": line("num_tree_per_iteration", "0"),
    "more classes": line("num_class", "2000000000"),
    "more features": line("max_feature_idx", "2147483647"),
    "fewer names": line("feature_names", "x y z"),
    "a tree that is longer": line("tree_sizes", "1000000"),
    "no sizes": lambda text: re.sub("tree_sizes=.*\n", "", text),
    "another objective": lambda text: text.replace("feature_names", "objective=binary sigmoid:1\nfeature_names"),
    "averages": lambda text: text.replace("feature_names", "average_output\nfeature_names"),
    "an unknown line": lambda text: text.replace("shrinkage", "leaf_coeff=1\nshrinkage", 1),
    "a line that is missing": lambda text: re.sub("decision_type=.*\n", "", text, count=1),
    "another number of a tree": lambda text: text.replace("Tree=1", "Tree=7"),
    "a parser": lambda text: text + "parser:\nx\nend of parser\n",
    "a parameter without a value": lambda text: text.replace("[seed: 0]", "[seed 0]"),
    "categories of pandas": lambda text: text.replace("categorical:null", "categorical:[[1]]"),
    "an end within": lambda text: text.replace("end of trees", "end of trees\0"),
    "a part": lambda text: text[: text.index("end of trees")],
}


@pytest.mark.parametrize("name", UNSOUND)
def test_a_text_that_compiled_code_would_follow_anywhere_is_refused(name):
    """Endless loops, memory outside of rows, divisions by zero: the text is refused before LightGBM reads it."""
    model = copy.copy(fitted()[0])
    text = UNSOUND[name](model.model_)
    assert text != model.model_
    sizes = [str(len(tree)) for tree in re.findall(r"Tree=\d+\n.*?\n\n\n", text, re.DOTALL)]
    if not name.endswith(("longer", "sizes")):
        text = re.sub(r"(?<=tree_sizes=).*", " ".join(sizes), text)
    model.model_ = text
    with pytest.raises(ValueError, match="BoostingClassifier whose parts fit together"):
        restored(*described(model))
