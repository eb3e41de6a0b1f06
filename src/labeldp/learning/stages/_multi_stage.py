"""Learning in stages: a model of the labels released so far is the prior of the next ones; and self-training.

Self-training fits again on predicted labels, by default only where the released label agrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._progress import Progress, silent
from labeldp._shapes import Bool, Float, Int
from labeldp.errors import InputError, NotTrueLabelsError
from labeldp.learning.features import indexable_rows, row_count, take_rows
from labeldp.learning.losses import require_release
from labeldp.learning.sklearn import (
    TRIAL_ROWS,
    ProbabilityClassifier,
    check_released_rows,
    for_released_labels,
    rehearse,
    set_stage_checkpoint,
    warm_start,
)
from labeldp.learning.stages._files import StagedLabels, StageFiles, among_top, candidates_of, fingerprint
from labeldp.learning.stages._priors import Prior, UniformPrior, declared_probabilities, tempered
from labeldp.mechanisms.randomizers import Expectation, GroupResponse, PriorResponse, PriorSubsetResponse, Randomizer
from labeldp.privacy import LabelSpace, columns_in_order
from labeldp.privacy.channels import ResponseChannel
from labeldp.release import Curator, Release, check_same_rows
from labeldp.release.curator import public_split

Response = Literal["prior", "subset", "groups"]
On = Literal["all", "last"]

RESPONSES: Mapping[str, Callable[[LabelSpace, float, Any], Randomizer]] = MappingProxyType(
    {"prior": PriorResponse, "subset": PriorSubsetResponse, "groups": GroupResponse}
)

#: Share of rows in the first stage; for two stages the authors found 60 to 65 percent to be best.
_FIRST_SHARE = 0.6


@dataclass(frozen=True, eq=False)
class Stage:
    """Public facts of a stage, from the prior, the channel and released labels.

    Attributes:
        rows: Numbers of its rows, ascending.
        candidates: Mean number of candidates of its rows.
        truth_probability: Expected share of its rows whose released label is, or contains, the true class, under the
            prior that it was drawn with, which may be wrong. No true label is counted.
        clean_share: Expected effective sample size per row, under the same prior.
        fitted_on: Number of rows that its model was fitted on.
    """

    rows: Int[np.ndarray, "m"]
    candidates: float
    truth_probability: float
    clean_share: float
    fitted_on: int


@dataclass(eq=False, repr=False)
class MultiStage(MetaEstimatorMixin, ProbabilityClassifier):
    """LP-MST: labels are released in stages, each with the prior that was learned from the stages before.

    Rows are split at random, independently of labels. The labels of the first stage are randomized with a given prior,
    by default a uniform one, which is plain randomized response. A learner is fitted on them, and its predictions are
    the prior of the next stage, whose labels then spend epsilon on the few classes that are likely in each row. Every
    label is randomized once. One stage is LP-1ST, two are LP-2ST, and so on.

    Args:
        learner: Learner that is fitted on the released labels of the stages so far: one for released labels, such as
            ``SoftmaxRegression`` (the default) or ``labeldp.learning.torch.TorchClassifier``, or any object with
            ``fit(X, release)`` and ``predict_proba``; a scikit-learn classifier is wrapped in
            a ``ReleasedLabelClassifier``. Or a list of these, one for each stage, such as boosting first and a network
            last. Learners are copied; one with a ``checkpoint`` folder has a folder in it for each stage.
        epsilon: Total cost of each row.
        stages: Number of stages.
        shares: Shares of the rows in the stages, with sum one. By default the first has 60 percent, and the others
            share the rest equally.
        temperature: Temperature of the predictions when used as a prior, or one for each stage after the first:
            probabilities are raised to one over it. Below 1 there are fewer candidates, which the authors found useful,
            unlike values above 1. Since a more confident prior misses more labels, the default is 1.
        response: ``"prior"``: one class out of as many candidates as most likely releases the true one
            (``PriorResponse``), as the authors do; ``"subset"``: a set of classes (``PriorSubsetResponse``);
            ``"groups"``: a group of adjacent classes, for ordered ones such as ratings (``GroupResponse``).
        prior: Prior of the first stage, from ``labeldp.learning.stages``. A prior that costs epsilon uses all rows, and
            every stage responds with the rest of epsilon.
        warm_start: Whether the learner continues from the stage before (as the authors do), if it has a parameter
            ``warm_start``. In a list, learners of one type continue with the parameters of the later one, such as
            another mixup; one of another type starts anew.
        filter_labels: Whether a stage leaves out earlier rows whose released label is not among the k likeliest classes
            of the previous model, with k the mean number of the stage's candidates. The authors do, and fit with plain
            cross entropy, which treats released labels as true ones. It is off by default: a learner that knows the
            channel expects unlikely labels at their rate, and is biased if they are removed.
        on: ``"all"``: learners are fitted on all stages so far, as the authors do; ``"last"``: only on the last.
        directory: A folder in which the split and the released labels of each stage are saved as soon as they are
            drawn. A run that was stopped is resumed from there without a new charge: fit it again with the same folder,
            features, split and response, and with the same curator, or in another process with one of the same labels
            (give both the same ``name=``, and with a ledger file the same ``identity=``). Models are fitted again;
            learners, temperature, filter and ``on`` may change. If the run was stopped between a charge and the file,
            those labels are charged but lost, and the rest is refused: fit with a curator whose budget allows the rows
            of that stage once more.

    Attributes:
        release_: The released labels of all rows, in their order, with one certificate.
        learner_: The learner of the last stage.
        stages_: Public facts of each stage.
        classes_: The declared classes.

    Guarantee:
        epsilon-label-DP of each single row's label, for all results together: released labels, models and ``stages_``.
        The prior of a stage is a function of features, public randomness, and released labels of other rows; each label
        is randomized once (Observation 4 of the paper, and ``concatenate``). The budget of all stages is checked before
        the first draw. Privacy units of several rows are refused: their rows would be in several stages, and the costs
        would add up.

    References:
        Ghazi et al. 2021, Algorithm 3, Observation 4, and sections B (multi-stage training) and E (temperature).

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.stages import MultiStage
        >>> features = np.repeat(np.eye(3), 400, axis=0)
        >>> curator = Curator(["a"] * 400 + ["b"] * 400 + ["c"] * 400, Classes(["a", "b", "c"]))
        >>> model = MultiStage(epsilon=2.0, stages=2).fit(features, curator)
        >>> model.predict(np.eye(3)).tolist(), curator.spent[0], model.release_.guarantee.epsilon
        (['a', 'b', 'c'], 2.0, 2.0)
        >>> [len(stage.rows) for stage in model.stages_]
        [720, 480]

    Raises:
        InputError: A setting, the features or a learner is invalid, or the curator has units of several rows;
            nothing was charged.
        BudgetError: The budget does not allow all stages; nothing was drawn.
        OutputError: The folder holds something else, or a run on other data or with other settings.
    """

    learner: Any = None
    epsilon: float = 1.0
    _: KW_ONLY
    stages: int = 2
    shares: Sequence[float] | None = None
    temperature: float | Sequence[float] = 1.0
    response: Response = "prior"
    prior: Prior | None = None
    warm_start: bool = True
    filter_labels: bool = False
    on: On = "all"
    directory: str | Path | None = None

    def fit(self, X: Any, y: Curator, *, report: Progress = silent) -> Self:  # noqa: N803 (scikit-learn's name)
        """Release a curator's labels stage by stage, and fit.

        Args:
            X: Features of all the curator's rows, in any form that the learner accepts: an array, sparse matrix, frame
                or tensor, or a tuple of these.
            y: Holder of the labels.
            report: Called with the name of the work, the number of stages done, and the number of all stages.
        """
        labels, learners, temperatures = self._prepared(X, y)
        self._set_classes(y.space)
        self.stages_: tuple[Stage, ...] = ()
        model: Any = None
        report("stages", 0, len(temperatures))
        for number, temperature in enumerate(temperatures):
            prior = None if model is None else _prior_of(model, y.space, temperature)
            release = labels.release(number, prior)
            rows, so_far = labels.so_far(number)
            used = self._training_mask(labels, number, rows, so_far, model)
            model = self._learner(learners, number, model)
            model.fit(take_rows(labels.features, rows[used]), so_far[used])
            self.stages_ += (_stage(labels.parts[number], release, int(np.count_nonzero(used))),)
            report("stages", number + 1, len(temperatures))
        self.release_, self.learner_ = so_far, model
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        space = self.release_.space
        return columns_in_order(
            declared_probabilities(self.learner_, indexable_rows(X), space), space.points, self.classes_
        )

    def _prepared(self, X: Any, y: object) -> tuple[StagedLabels, list[Any], list[float]]:  # noqa: N803
        """Check all arguments; return the labels to release, a learner and a temperature per stage. Charges nothing."""
        if not isinstance(y, Curator):
            raise NotTrueLabelsError(
                f"expected a Curator, who releases labels stage by stage, found {type(y).__name__}; for an existing "
                "release fit a learner for released labels"
            )
        if y.has_units:
            raise InputError(
                "expected a curator of single rows, found units of several: the rows of one unit would be in several "
                "stages, and their costs would add up; release once with a randomizer for units, and fit a learner"
            )
        features, count = indexable_rows(X), _checks.whole(self.stages, "stages", 1, 1000)
        if row_count(features) != len(y):
            raise InputError(f"expected features of the curator's {len(y)} rows, found {row_count(features)} rows")
        check_same_rows(X, y)
        _checks.among(self.response, "response", RESPONSES)
        _checks.among(self.on, "on", get_args(On))
        prior = UniformPrior() if self.prior is None else self.prior
        if not isinstance(prior, Prior):
            raise InputError(f"expected a prior of labeldp.learning.stages, found {type(prior).__name__}")
        learners, temperatures = _learners(self.learner, count), _temperatures(self.temperature, count)
        shares = _shares(self.shares, count)
        if len(y) < count:
            raise InputError(f"expected at least one row for each of {count} stages, found {len(y)} rows")
        epsilon = _checks.epsilon(self.epsilon)
        prior.cost(np.arange(len(y)), epsilon)
        files = self._files(y, features, shares, prior)
        parts, goes_on = files.split(lambda: public_split(len(y), shares))
        labels = StagedLabels(
            y,
            features,
            parts,
            prior,
            epsilon,
            RESPONSES[self.response],
            files,
            files.releases(parts),
            files.answers(),
        )
        fewest = parts[0] if self.on == "all" else min(parts, key=len)
        few = [take_rows(features, fewest)] if len(fewest) < TRIAL_ROWS else []  # which may be too few for a fit
        for learner in {id(each): each for each in learners}.values():
            for rows in (features, *few):
                rehearse(learner, rows, y.space)
        labels.check(goes_on)
        return labels, learners, temperatures

    def _files(self, curator: Curator, features: Any, shares: Sequence[float], prior: Prior) -> StageFiles:
        """The folder of the run, with the settings that must be the same to resume it."""
        if self.directory is None:
            return StageFiles(None, {})
        settings = {
            "label": curator.name,
            "labels": curator.origin,
            "rows": len(curator),
            "space": curator.space.describe(),
            "features": fingerprint(features),
            "epsilon": float(self.epsilon),
            "shares": [float(share) for share in shares],
            "response": self.response,
            "prior": type(prior).__name__,
            "prior_cost": prior.cost(np.arange(len(curator)), float(self.epsilon)),
        }
        return StageFiles(Path(self.directory), settings)

    def _training_mask(
        self, labels: StagedLabels, number: int, rows: Int[np.ndarray, "m"], release: Release, model: Any
    ) -> Bool[np.ndarray, "m"]:
        """Mask of the rows so far that a stage is fitted on; ``model`` is that of the previous stage."""
        new = np.isin(rows, labels.parts[number])
        if self.on == "last" or number == 0:
            return new
        if not self.filter_labels:
            return np.ones(len(rows), dtype=np.bool_)
        count = max(1, round(candidates_of(labels.releases[number])))
        used = new.copy()
        used[~new] = among_top(model, take_rows(labels.features, rows[~new]), release[~new], count)
        return used

    def _learner(self, learners: Sequence[Any], number: int, model: Any) -> Any:
        """The learner to fit in a stage: that of the previous stage if it can continue, else a new copy."""
        more = warm_start(model, learners[number]) if self.warm_start else None
        model = clone(learners[number], safe=False) if more is None else more
        return set_stage_checkpoint(model, number)


def _prior_of(model: Any, space: LabelSpace, temperature: float) -> Callable[[Any], np.ndarray]:
    """Function from features to priors: the predictions of a model at a temperature."""
    return lambda features: tempered(declared_probabilities(model, features, space), temperature)


def _stage(rows: Int[np.ndarray, "m"], release: Release, fitted_on: int) -> Stage:
    """The public facts of a stage from its release."""
    expects = release.certificate.expects if release.certificate else None
    if not isinstance(expects, Expectation):
        raise ValueError("expected a release that was charged for")
    return Stage(rows, candidates_of(release), expects.truth_probability, expects.clean_share, fitted_on)


def _learners(learner: Any, stages: int) -> list[Any]:
    """A learner for released labels for each stage."""
    each = list(learner) if isinstance(learner, list | tuple) else [learner] * stages
    if len(each) != stages:
        raise InputError(f"expected one learner, or one for each of {stages} stages, found {len(each)}")
    ready = {id(one): for_released_labels(one) for one in each}
    return [ready[id(one)] for one in each]


def _temperatures(temperature: float | Sequence[float], stages: int) -> list[float]:
    """A temperature for each stage; that of the first is not used."""
    each = list(temperature) if isinstance(temperature, Sequence) else [temperature] * (stages - 1)
    if len(each) != stages - 1:
        raise InputError(
            f"expected one temperature, or one for each of the {stages - 1} stages after the first, found {len(each)}"
        )
    for one in each:
        tempered(np.ones((1, 1)), one)
    return [1.0, *each]


def _shares(shares: Sequence[float] | None, stages: int) -> list[float]:
    """The share of the rows in each stage."""
    if shares is None:
        return [1.0] if stages == 1 else [_FIRST_SHARE, *[(1.0 - _FIRST_SHARE) / (stages - 1)] * (stages - 1)]
    checked = [_checks.number(share, "share") for share in shares]
    if len(checked) != stages or min(checked) <= 0 or not math.isclose(sum(checked), 1.0, abs_tol=1e-6):
        raise InputError(f"expected {stages} shares of the rows above 0 that sum to 1, found {list(shares)!r}")
    return checked


Keep = Literal["agreeing", "all"]


class ConsensusRetraining(MetaEstimatorMixin, ProbabilityClassifier):
    """Retraining of a learner on its own predictions for the rows where the released label agrees.

    If the released label (or set) of a row contains the predicted class, the prediction is probably right and is used
    as a label without noise; the other rows are left out.

    Args:
        learner: A learner for released labels, by default ``SoftmaxRegression``; a scikit-learn classifier is put in a
            ``ReleasedLabelClassifier``.
        rounds: Number of rounds of prediction and retraining.
        keep: ``"agreeing"``: rows whose released label agrees with the prediction (consensus-based retraining);
            ``"all"``: all rows (full retraining).

    Attributes:
        learner_: The learner of the last round.
        kept_: Number of rows that each round was fitted on; the fit ends early if no row agrees.
        classes_: The declared classes.

    Guarantee:
        The model is computed from the release and features alone, and covered by the release's guarantee at no further
        cost. Predicted classes are passed to the learner as public labels: they are functions of the release, not true
        labels of these rows.

    References:
        Das et al. 2024, Retraining with Predicted Hard Labels Provably Increases Model Accuracy, for both ways.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp.learning.stages import ConsensusRetraining
        >>> features = np.repeat([[0.0], [1.0]], 500, axis=0)
        >>> space = Classes(["no", "yes"])
        >>> release = Curator(["no"] * 500 + ["yes"] * 500, space).randomize(RandomizedResponse(space, epsilon=2.0))
        >>> model = ConsensusRetraining().fit(features, release)
        >>> model.predict([[0.0], [1.0]]).tolist(), model.kept_[0] < 1000
        (['no', 'yes'], True)
    """

    def __init__(self, learner: Any = None, *, rounds: int = 1, keep: Keep = "agreeing") -> None:
        self.learner = learner
        self.rounds = rounds
        self.keep = keep

    def fit(self, X: Any, y: Release) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fit on features of n rows, in any form that the learner accepts, and a release of n rows."""
        release, features = require_release(y), indexable_rows(X)
        rounds = _checks.whole(self.rounds, "rounds", 0, 1000)
        _checks.among(self.keep, "keep", get_args(Keep))
        check_released_rows(features, release)
        learner = for_released_labels(self.learner)
        self._set_classes(release.space)
        self.space_ = release.space
        self.learner_, self.kept_ = _fitted_copy(learner, features, release), []
        mask = release.class_channel.levels(release.codes).mask
        for _ in range(rounds):
            codes = np.argmax(declared_probabilities(self.learner_, features, release.space), axis=1)
            agree = mask[np.arange(len(codes)), codes] if self.keep == "agreeing" else np.ones(len(codes), np.bool_)
            if not agree.any():
                break
            rows = np.flatnonzero(agree)
            self.learner_ = _fitted_copy(learner, take_rows(features, rows), _as_labels(codes[rows], release))
            self.kept_.append(len(rows))
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        declared = declared_probabilities(self.learner_, indexable_rows(X), self.space_)
        return columns_in_order(declared, self.space_.points, self.classes_)


def _as_labels(codes: np.ndarray, release: Release) -> Release:
    """A release of predicted classes as labels without noise."""
    return Release(codes.astype(np.int32), ResponseChannel.nearly_certain(release.space.size), release.space, None)


def _fitted_copy(learner: Any, features: Any, labels: Any) -> Any:
    """A fitted copy of a learner, whose ``fit`` may return nothing."""
    model = clone(learner, safe=False)
    model.fit(features, labels)
    return model
