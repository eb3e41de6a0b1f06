"""Initial scores of boosting from class shares, which trees of a rare class take hundreds of rounds to find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp._extras import require_extra
from labeldp._shapes import Float
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.learning.boosting._objectives import lightgbm_objective
from labeldp.learning.losses import class_shares, require_release, shifts_to
from labeldp.release import Release

#: The least information in a leaf where labels say much, and the leaves that rows of a rare class have enough for.
_USUAL, _MOST_LEAVES = 10.0, 16

if TYPE_CHECKING:  # an extra
    from lightgbm import Dataset


def start_scores(release: Release, scores: Any = None) -> Float[np.ndarray, "s"]:
    """Scores from which boosting starts, and those to add to its raw scores: the mean probability is the class share.

    Without raw scores they are those of the class shares: of the second declared class of two over the first, or of
    every class. XGBoost takes them as ``base_margin``. Trees that fit noise raise the mean probability of a rare class,
    so what is added to raw scores in the end is a little less.

    Args:
        release: A release of classes.
        scores: Raw scores of its rows by the fitted trees, without the start: shape (n,) for two classes, else (n, k).

    Returns:
        Scores, shape (1,) for two classes, else (k,).

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.boosting import start_scores
        >>> release = Curator(["no"] * 9000 + ["yes"] * 1000, Classes(["no", "yes"])).randomize(epsilon=4.0)
        >>> start_scores(release).round(0).tolist()
        [-2.0]

    Raises:
        InputError: Rows have candidates, so that their labels do not identify the shares.
        NotTrueLabelsError: The labels are no release.
    """
    shares = np.maximum(class_shares(require_release(release)), 0.5 / len(release))
    start = np.log(shares / shares.sum())
    if scores is not None:
        start += shifts_to(shares / shares.sum(), _of_classes(scores, len(shares)) + start)
    return np.asarray(np.diff(start) if len(start) == 2 else start)


def _of_classes(scores: Any, classes: int) -> Float[np.ndarray, "n k"]:
    """Scores of every class; of two those of the first are zero."""
    found = floats(scores, "scores")
    found = np.stack([np.zeros(len(found)), found], axis=1) if found.ndim == 1 else found
    if found.shape[1:] != (classes,):
        raise InputError(f"expected raw scores of {classes} classes, found shape {found.shape}; pass raw_score=True")
    return found


def lightgbm_dataset(
    features: Any, release: Release, *, start: Float[np.ndarray, "s"] | None = None, **options: Any
) -> Dataset:
    """Data set of LightGBM for ``lightgbm_objective``, whose scores start from the class shares.

    LightGBM leaves the start out of its predictions: add it to the raw scores.

    Args:
        features: Features of n rows.
        release: Their released classes.
        start: Initial scores: ``start_scores`` of these rows by default. Validation rows start where those did that
            trees are fitted to.
        **options: Further arguments of ``lightgbm.Dataset``, such as public weights (``weight=``) or ``reference=``.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.boosting import lightgbm_dataset
        >>> release = Curator(["no"] * 90 + ["yes"] * 10, Classes(["no", "yes"])).randomize(epsilon=2.0)
        >>> lightgbm_dataset(np.arange(100.0)[:, None], release).construct().num_data()
        100

    Raises:
        MissingExtraError: LightGBM is not installed.
    """
    require_extra("boosting", "lightgbm")
    import lightgbm  # noqa: PLC0415 (an extra)

    rows = len(require_release(release))
    first = start_scores(release) if start is None else np.asarray(start, dtype=np.float64)
    options["params"] = {"verbose": -1, "feature_pre_filter": False, **options.get("params", {})}
    return lightgbm.Dataset(features, np.zeros(rows), init_score=_of_rows(first, rows), **options)


def leaf_information(release: Release) -> float:
    """Least information in a leaf, and penalty of leaves, under which trees of a rare class can grow.

    It is 10 where labels say much. Noisy labels of a rare class have little information: a row has about the square of
    the share of its class. Where all rows together have less than 160, a sixteenth of that leaves room for several
    leaves. Give it to LightGBM as ``min_sum_hessian_in_leaf`` and ``lambda_l2``, to XGBoost as ``min_child_weight``
    and ``lambda``.

    Args:
        release: A release of classes.

    Returns:
        Information about the score of the class that has the least, at the class shares.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.boosting import leaf_information
        >>> space = Classes(["no", "yes"])
        >>> leaf_information(Curator(["no", "yes"] * 500, space).randomize(epsilon=4.0))
        10.0
        >>> leaf_information(Curator(["no"] * 990 + ["yes"] * 10, space).randomize(epsilon=1.0)) < 10.0
        True

    Raises:
        InputError: Rows have candidates, so that their labels do not identify the shares.
        NotTrueLabelsError: The labels are no release.
    """
    scores = _of_rows(start_scores(release), len(release))
    _, information = lightgbm_objective(release)(scores, None)
    return min(_USUAL, float(information.sum(axis=0).min()) / _MOST_LEAVES)


def _of_rows(start: Float[np.ndarray, "s"], rows: int) -> Float[np.ndarray, "n ..."]:
    """The start of every row, in the form of LightGBM."""
    scores = np.tile(start, (rows, 1))
    return np.asarray(scores[:, 0] if len(start) == 1 else scores)
