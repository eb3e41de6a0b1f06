"""Learning in stages: what was learned from the labels released so far is the prior for the next ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp.errors import InputError, NotTrueLabelsError
from labeldp.learning.features import indexable_rows, row_count, take_rows
from labeldp.learning.sklearn import (
    ProbabilityClassifier,
    for_released_labels,
    rehearse,
    set_stage_checkpoint,
    warm_start,
)
from labeldp.learning.stages._files import StageFiles, fingerprint
from labeldp.learning.stages._labels import StagedLabels, among_top, candidates_of
from labeldp.learning.stages._priors import Prior, UniformPrior, declared_probabilities, tempered
from labeldp.mechanisms.randomizers import Expectation, PriorResponse, PriorSubsetResponse, Randomizer
from labeldp.privacy import LabelSpace
from labeldp.release import Curator, Release
from labeldp.release.tables import public_split

Response = Literal["prior", "subset"]
On = Literal["all", "last"]

RESPONSES: Mapping[str, Callable[[LabelSpace, float, np.ndarray], Randomizer]] = MappingProxyType(
    {"prior": PriorResponse, "subset": PriorSubsetResponse}
)

#: Of two stages the authors found slightly more than half of the rows in the first to be best, 60 to 65 percent.
_FIRST_SHARE = 0.6


@dataclass(frozen=True, eq=False)
class Stage:
    """What is known of a stage without any label: from the prior, the law and released labels alone.

    Attributes:
        rows: The numbers of its rows, in their order.
        candidates: The mean number of candidates of its rows.
        truth_probability: Expected share of its rows whose released label is, or holds, the true class: by the prior
            that it was drawn with, which may be wrong. It is not how often labels agree.
        clean_share: Expected worth of one of its rows, in rows without noise, by the same prior.
        fitted_on: The number of rows that its model was fitted on.
    """

    rows: Int[np.ndarray, "m"]
    candidates: float
    truth_probability: float
    clean_share: float
    fitted_on: int


class MultiStage(MetaEstimatorMixin, ProbabilityClassifier):
    """LP-MST: labels are asked for in stages, each with the prior that was learned from the stages before.

    Rows are split by public chance. The labels of the first stage respond with a prior that is given, by default an
    even one, which is plain randomized response; a learner is fitted on them, and its predictions are the prior of the
    next stage, whose labels then spend epsilon on the few classes that are likely in each row. Every label is asked for
    once. One stage is LP-1ST, two are LP-2ST, and so on.

    Args:
        learner: What is fitted on the released labels of the stages so far: a learner for released labels, such as
            ``SoftmaxRegression`` (the default) or ``labeldp.learning.torch.TorchClassifier``, or any object with
            ``fit(X, release)`` and ``predict_proba``; a scikit-learn classifier is put in a
            ``ReleasedLabelClassifier``. Or a list of these, one for each stage, such as names of clusters first and a
            network last. Learners are copied; one with a ``checkpoint`` folder has a folder in it for each stage.
        epsilon: What the whole may cost each row.
        stages: How many stages.
        shares: The shares of the rows that the stages have; they sum to one. By default the first has 60 percent,
            and the others have the same.
        temperature: What the predictions are taken at before they are a prior, or one for each stage after the first:
            probabilities are raised to one over it. Below 1 there are fewer candidates. The authors found it useful,
            and nothing above 1; since a surer prior misses more labels, it is 1 unless you know better.
        response: ``"prior"``: one class out of as many candidates as most likely releases the true one
            (``PriorResponse``), as the authors do; ``"subset"``: a set of classes (``PriorSubsetResponse``).
        prior: What is known before the first stage, from ``labeldp.learning.stages``. A prior that is paid for counts
            all rows, and every stage responds with the rest of epsilon.
        warm_start: Whether the learner goes on from what it learned in the stage before (as the authors do), where it
            has a parameter ``warm_start``. Of a list, learners of one type go on with the parameters of the later one,
            such as another mixup; one of another type begins anew.
        filter_labels: Whether a stage leaves out earlier rows whose released label is not among the k likeliest
            classes of the model before, k being the mean number of the stage's candidates. The authors do, and fit
            with plain cross entropy, which takes released labels for true ones. Here it is off: a learner that knows
            the channel expects unlikely labels as often as they come, and is misled where they were taken away.
        on: ``"all"``: learners are fitted on all stages so far, as the authors do; ``"last"``: on the last alone.
        directory: A folder where the split and the released labels of each stage are kept as soon as they are drawn. A
            run that was stopped goes on from there without a new charge: fit it again with the same folder, features,
            split and response, and with the same curator, or in another process with one of the same labels (where it
            has a ledger file, give both the same ``identity=``). Models are fitted again; learners, temperature, filter
            and what they are fitted on may have changed. Should it have been stopped between a charge and the file,
            labels were paid for that nobody has, and the rest is refused: fit with a curator whose budget allows the
            rows of that stage once more.

    Attributes:
        release_: The released labels of all rows, in their order, with one certificate.
        learner_: The learner that was fitted last.
        stages_: What is known of each stage.
        classes_: The declared classes.

    Guarantee:
        epsilon-label-DP of each row's label alone, for everything that comes of it together: released labels, models
        and ``stages_``. The prior of a stage is a function of features, public chance, and of labels that were released
        before, of other rows; each label is drawn from once (Observation 4 of the paper, and ``concatenate``). Whether
        a curator allows all stages is found out before the first is drawn. Units of several rows are refused: the rows
        of one unit would be in several stages, and their costs would add up.

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
        InputError: A setting, the features or a learner cannot be used, or the curator has units of several rows;
            nothing was charged.
        BudgetError: The budget does not allow all stages; nothing was drawn.
        OutputError: The folder holds something else, or a run on other data or with other settings.
    """

    def __init__(
        self,
        learner: Any = None,
        epsilon: float = 1.0,
        *,
        stages: int = 2,
        shares: Sequence[float] | None = None,
        temperature: float | Sequence[float] = 1.0,
        response: Response = "prior",
        prior: Prior | None = None,
        warm_start: bool = True,
        filter_labels: bool = False,
        on: On = "all",
        directory: str | Path | None = None,
    ) -> None:
        self.learner = learner
        self.epsilon = epsilon
        self.stages = stages
        self.shares = shares
        self.temperature = temperature
        self.response = response
        self.prior = prior
        self.warm_start = warm_start
        self.filter_labels = filter_labels
        self.on = on
        self.directory = directory

    def fit(self, X: Any, y: Curator) -> Self:  # noqa: N803 (scikit-learn's name)
        """Ask a curator stage by stage, and fit.

        Args:
            X: Features of all the curator's rows, in any form that the learner takes: an array, sparse matrix, frame or
                tensor, or a tuple of these.
            y: Who holds the labels.
        """
        labels, learners, temperatures = self._settled(X, y)
        self.classes_ = np.array(y.space.points)
        self.stages_: tuple[Stage, ...] = ()
        model: Any = None
        for number, temperature in enumerate(temperatures):
            prior = None if model is None else _prior_of(model, y.space, temperature)
            release = labels.release(number, prior)
            rows, so_far = labels.so_far(number)
            kept = self._kept(labels, number, rows, so_far, model)
            model = self._learner(learners, number, model)
            model.fit(take_rows(labels.features, rows[kept]), so_far[kept])
            self.stages_ += (_stage(labels.parts[number], release, int(np.count_nonzero(kept))),)
        self.release_, self.learner_ = so_far, model
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        return declared_probabilities(self.learner_, indexable_rows(X), self.release_.space)

    def _settled(self, X: Any, y: object) -> tuple[StagedLabels, list[Any], list[float]]:  # noqa: N803
        """What there is to draw, to fit and to temper, once everything is checked; nothing is charged."""
        if not isinstance(y, Curator):
            raise NotTrueLabelsError(
                f"expected a Curator, who is asked for labels stage by stage, found {type(y).__name__}; for a release "
                "that exists fit a learner for released labels"
            )
        if y.has_units:
            raise InputError(
                "expected a curator of single rows, found units of several: the rows of one unit would be in several "
                "stages, and their costs would add up; release once with a randomizer for units, and fit a learner"
            )
        features, count = indexable_rows(X), _checks.whole(self.stages, "stages", 1, 1000)
        if row_count(features) != len(y):
            raise InputError(f"expected features of the curator's {len(y)} rows, found {row_count(features)} rows")
        for name, found, known in (("response", self.response, RESPONSES), ("on", self.on, get_args(On))):
            if found not in known:
                raise InputError(f"expected {name} among {', '.join(known)}, found {found!r}")
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
        for learner in {id(each): each for each in learners}.values():
            rehearse(learner, features, y.space)
        labels.check(goes_on)
        return labels, learners, temperatures

    def _files(self, curator: Curator, features: Any, shares: Sequence[float], prior: Prior) -> StageFiles:
        """Where the run is kept, and what it must agree in to go on."""
        if self.directory is None:
            return StageFiles(None, {})
        settings = {
            "label": curator.name,
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

    def _kept(
        self, labels: StagedLabels, number: int, rows: Int[np.ndarray, "m"], release: Release, model: Any
    ) -> Bool[np.ndarray, "m"]:
        """Which of the rows so far a stage is fitted on; ``model`` is that of the stage before."""
        new = np.isin(rows, labels.parts[number])
        if self.on == "last" or number == 0:
            return new
        if not self.filter_labels:
            return np.ones(len(rows), dtype=np.bool_)
        count = max(1, round(candidates_of(labels.releases[number])))
        kept = new.copy()
        kept[~new] = among_top(model, take_rows(labels.features, rows[~new]), release[~new], count)
        return kept

    def _learner(self, learners: Sequence[Any], number: int, model: Any) -> Any:
        """What a stage fits: the learner of the stage before where it can go on from there, else a new copy."""
        more = warm_start(model, learners[number]) if self.warm_start else None
        model = clone(learners[number], safe=False) if more is None else more
        return set_stage_checkpoint(model, number)


def _prior_of(model: Any, space: LabelSpace, temperature: float) -> Callable[[Any], np.ndarray]:
    """The prior of rows from their features: what a model predicts at a temperature."""
    return lambda features: tempered(declared_probabilities(model, features, space), temperature)


def _stage(rows: Int[np.ndarray, "m"], release: Release, fitted_on: int) -> Stage:
    """A stage from its release."""
    expects = release.certificate.expects if release.certificate else None
    if not isinstance(expects, Expectation):
        raise ValueError("expected a release that was charged for")
    return Stage(rows, candidates_of(release), expects.truth_probability, expects.clean_share, fitted_on)


def _learners(given: Any, stages: int) -> list[Any]:
    """A learner for released labels for each stage."""
    each = list(given) if isinstance(given, list | tuple) else [given] * stages
    if len(each) != stages:
        raise InputError(f"expected one learner, or one for each of {stages} stages, found {len(each)}")
    ready = {id(learner): for_released_labels(learner) for learner in each}
    return [ready[id(learner)] for learner in each]


def _temperatures(given: float | Sequence[float], stages: int) -> list[float]:
    """A temperature for each stage; that of the first is not used."""
    each = list(given) if isinstance(given, Sequence) else [given] * (stages - 1)
    if len(each) != stages - 1:
        raise InputError(
            f"expected one temperature, or one for each of the {stages - 1} stages after the first, found {len(each)}"
        )
    for temperature in each:
        tempered(np.ones((1, 1)), temperature)
    return [1.0, *each]


def _shares(given: Sequence[float] | None, stages: int) -> list[float]:
    """The share of the rows that each stage has."""
    if given is None:
        return [1.0] if stages == 1 else [_FIRST_SHARE, *[(1.0 - _FIRST_SHARE) / (stages - 1)] * (stages - 1)]
    shares = [_checks.number(share, "share") for share in given]
    if len(shares) != stages or min(shares) <= 0 or not math.isclose(sum(shares), 1.0, abs_tol=1e-6):
        raise InputError(f"expected {stages} shares of the rows above 0 that sum to 1, found {list(given)!r}")
    return shares
