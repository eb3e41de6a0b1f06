"""Prior distributions of each row's class, from public knowledge or paid for with a part of epsilon.

All priors have one interface: for some rows, a prior returns a distribution over the declared classes for each of
them, its cost in epsilon, and its assumptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labeldp import _checks
from labeldp._shapes import Float, Int
from labeldp.columns import floats
from labeldp.errors import InputError, PriorError, RowsError
from labeldp.learning.features import indexable_rows, row_count, take_rows
from labeldp.learning.losses import posterior
from labeldp.mechanisms.queries import NoisyHistogram, cell_numbers
from labeldp.privacy import LabelSpace, declared_columns, predicted_columns, shown_above
from labeldp.release import Answer, Curator, Release, check_same_rows, share_of_prior


@dataclass(frozen=True, eq=False)
class PriorResult:
    """Prior distributions of some rows.

    Attributes:
        probabilities: A distribution over the classes for each row, in declared order.
        spent: Cost in epsilon of these rows; the response that uses the prior has the rest.
        answer: The answer that was paid for; None if the prior is free.
        assumptions: Further assumptions, for a certificate.
    """

    probabilities: Float[np.ndarray, "m k"]
    spent: float = 0.0
    answer: Answer | None = None
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class PriorRequest:
    """The arguments of ``Prior.ask``."""

    curator: Curator
    features: Any
    rows: object
    epsilon: float | None
    answer: Answer | None

    @property
    def index(self) -> Int[np.ndarray, "m"]:
        """The numbers of the rows."""
        return _row_numbers(self.rows, len(self.curator))


class Prior:
    """Prior distribution of each row's class. A prior of your own overrides ``ask``, and ``cost`` if it draws."""

    def ask(
        self,
        curator: Curator,
        features: Any = None,
        rows: object = None,
        epsilon: float | None = None,
        answer: Answer | None = None,
    ) -> PriorResult:
        """Return the prior of some rows.

        Args:
            curator: Holder of the labels. Most priors use only the label space and the number of rows; one that needs
                labels asks one query, which is charged, and returns its answer: a certificate counts no other.
            features: Features of all the curator's rows, if the prior needs them.
            rows: Row numbers; by default all rows.
            epsilon: Total cost of the prior and the response that follows, if the prior needs labels.
            answer: An earlier answer to the same prior about the same rows, which is used again without a charge.
        """
        return self._result(PriorRequest(curator, features, rows, epsilon, answer))

    def _result(self, request: PriorRequest) -> PriorResult:
        """The prior of the rows of a request."""
        raise NotImplementedError

    def cost(self, rows: Int[np.ndarray, "m"], epsilon: float) -> float:
        """The cost in epsilon of some rows, known before any draw."""
        del rows, epsilon
        return 0.0


@dataclass(frozen=True, eq=False)
class UniformPrior(Prior):
    """The uniform distribution over the classes.

    Example:
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.stages import UniformPrior
        >>> UniformPrior().ask(Curator(["no", "yes"], Classes(["no", "yes"]))).probabilities.tolist()
        [[0.5, 0.5], [0.5, 0.5]]
    """

    def _result(self, request: PriorRequest) -> PriorResult:
        """One over the number of classes."""
        shape = (len(request.index), request.curator.space.size)
        return PriorResult(np.full(shape, 1.0 / shape[1]))


@dataclass(frozen=True, eq=False)
class FixedPrior(Prior):
    """Given probabilities: one distribution for all rows, or one for each.

    Args:
        probabilities: Public probabilities of the classes: one distribution in declared order, shape (k,); or one for
            each of the curator's rows, as ``ClassProbabilities``, or as an array of shape (n, k) if the classes were
            declared in sorted order. They must not have been computed from these labels, other than through releases
            that are charged.

    Example:
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.stages import FixedPrior
        >>> FixedPrior([0.9, 0.1]).ask(Curator(["no", "yes"], Classes(["no", "yes"])), rows=[1]).probabilities.tolist()
        [[0.9, 0.1]]

    Raises:
        InputError: From ``ask``, if the probabilities are those of other classes, or are an array of shape (n, k) and
            the declared order is not sorted.
        PriorError: From ``ask``, if the probabilities have another shape, or are not distributions.
    """

    probabilities: Any = field(repr=False)

    def _result(self, request: PriorRequest) -> PriorResult:
        """The probabilities of these rows."""
        count, k = len(request.curator), request.curator.space.size
        probabilities = floats(declared_columns(self.probabilities, request.curator.space), "a prior", PriorError)
        if probabilities.shape not in ((k,), (count, k)):
            raise PriorError(
                f"expected {k} probabilities, or {k} for each of the {count} rows, found shape {probabilities.shape}"
            )
        if probabilities.shape == (count, k):
            check_same_rows(self.probabilities, request.curator, "a prior")
        every = np.broadcast_to(probabilities, (count, k))
        return PriorResult(_distributions(every[request.index], "the given prior"))


@dataclass(frozen=True, eq=False)
class ClusterPrior(Prior):
    """The class distribution of each row's cluster, from noisy counts of a trusted curator.

    The counts are of the requested rows, which pay for them. The response that uses the prior has the rest of their
    epsilon.

    Args:
        clusters: Cluster number of each of the curator's rows, from 0, computed from public features; or ``Clusters``.
        epsilon: Cost of the counts; by default that of Ghazi et al., 25 over the mean cluster size, but at least a
            tenth of the whole epsilon and at most half.

    Guarantee:
        The counts have discrete Laplace noise of scale 2 over their epsilon, and are charged by the curator.

    References:
        Ghazi et al. 2021, Algorithm 4 and its section B.

    Example:
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.stages import ClusterPrior
        >>> curator = Curator(["no"] * 500 + ["yes"] * 500, Classes(["no", "yes"]))
        >>> result = ClusterPrior([0] * 500 + [1] * 500).ask(curator, epsilon=1.0)
        >>> result.spent, curator.spent[0] <= 0.1, result.probabilities.shape
        (0.1, True, (1000, 2))

    Raises:
        InputError: From ``ask``, if rows have no clusters, or epsilon is not larger than the cost of the counts.
    """

    clusters: Any = field(repr=False)
    epsilon: float | None = None

    def cost(self, rows: Int[np.ndarray, "m"], epsilon: float) -> float:
        """The epsilon of the counts."""
        spent = share_of_prior(self._cells()[rows], epsilon, "epsilon") * epsilon if self.epsilon is None else None
        cost = _checks.epsilon(self.epsilon) if spent is None else spent
        if not cost < epsilon:
            raise InputError(
                f"expected counts to cost less than epsilon {epsilon:g}, the total cost of counts and response, found "
                f"{cost:g}"
            )
        return cost

    def _result(self, request: PriorRequest) -> PriorResult:
        """The distributions nearest to the noisy counts; uniform for clusters without any of these rows."""
        curator, epsilon, answer = request.curator, request.epsilon, request.answer
        if epsilon is None:
            raise InputError("expected epsilon=, the total cost of counts and response, found none")
        cells = self._cells()
        if len(cells) != len(curator):
            raise InputError(f"expected a cluster for each of the {len(curator)} rows, found {len(cells)} of them")
        check_same_rows(self.clusters, curator, "clusters")
        index = request.index
        spent, count = self.cost(index, epsilon), int(cells.max()) + 1
        if answer is None:
            query = NoisyHistogram(curator.space, spent, cells[index], count)
            answer = curator.answer(query, index, whole=epsilon)
        if answer.value.shape != (count, curator.space.size):
            raise InputError(f"expected the counts of {count} clusters, found those of {len(answer.value)}")
        members = np.bincount(cells[index], minlength=count)
        distributions = np.where(members[:, None] > 0, answer.distributions(), 1.0 / curator.space.size)
        return PriorResult(distributions[cells[index]], spent, answer)

    def _cells(self) -> Int[np.ndarray, "n"]:
        return cell_numbers(getattr(self.clusters, "numbers", self.clusters))


@dataclass(frozen=True, eq=False)
class ReleasePrior(Prior):
    """The posterior of rows given an earlier release, by Bayes' rule from another prior.

    Args:
        release: Released labels of some of the curator's rows.
        rows: Numbers of these rows, in the order of the release; by default all the curator's rows.
        base: Prior of the rows before the release, and the result for rows that the release does not cover.

    Guarantee:
        The earlier release was charged for when it was drawn; its epsilon and that of a response with this prior add up
        where they share rows. A curator's ledger counts both, and a certificate names the earlier one.

    Example:
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp.learning.stages import ReleasePrior
        >>> space = Classes(["no", "yes"])
        >>> curator = Curator(["no", "yes"], space, budget=2.0)
        >>> first = curator.randomize(RandomizedResponse(space, epsilon=1.0))
        >>> result = ReleasePrior(first).ask(curator)
        >>> bool((result.probabilities.argmax(axis=1) == first.codes).all()), result.spent
        (True, 0.0)

    Raises:
        InputError: From ``ask``, if the release is about other rows, or another label space.
    """

    release: Release
    rows: Any = field(default=None, repr=False)
    base: Prior = field(default_factory=UniformPrior)

    def cost(self, rows: Int[np.ndarray, "m"], epsilon: float) -> float:
        """The cost of the other prior."""
        return self.base.cost(rows, epsilon)

    def _result(self, request: PriorRequest) -> PriorResult:
        """The posterior of these rows."""
        curator = request.curator
        released_rows = _row_numbers(self.rows, len(curator))
        if self.release.space != curator.space or len(self.release) != len(np.unique(released_rows)):
            raise InputError(
                f"expected a release in the curator's label space with a released label for each of its "
                f"{len(released_rows)} rows, found {len(self.release)} of them or another space; give rows="
            )
        index = request.index
        result = self.base.ask(curator, request.features, index, request.epsilon, request.answer)
        place = np.full(len(curator), -1)
        place[released_rows] = np.arange(len(released_rows))
        known = place[index] >= 0
        probabilities = result.probabilities.copy()
        probabilities[known] = posterior(self.release[place[index][known]], probabilities[known])
        return PriorResult(
            probabilities, result.spent, result.answer, (*result.assumptions, *_rests_on([self.release]))
        )


@dataclass(frozen=True, eq=False)
class ModelPrior(Prior):
    """The predictions of a model from features.

    Args:
        model: Anything with ``predict_proba``. Its ``classes_``, if any, may be some of the declared ones in any order;
            else it predicts a column for each class, in declared order.
        temperature: Probabilities are raised to one over it and normalised: below 1 they are more confident, above 1
            less so.
        learned_from: Releases or answers that the model was learned from; none if it was learned from public data.

    Guarantee:
        The releases behind the model were charged for when they were drawn, and add up where they share rows. A model
        that was learned from these labels in any other way voids the guarantee; this cannot be detected here.

    Example:
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.stages import ModelPrior
        >>> elsewhere = LogisticRegression().fit([[0.0], [1.0]], ["yes", "no"])
        >>> curator = Curator(["no", "yes"], Classes(["yes", "no"]))
        >>> result = ModelPrior(elsewhere, temperature=0.1).ask(curator, [[1.0], [0.0]])
        >>> result.probabilities.argmax(axis=1).tolist()
        [1, 0]

    Raises:
        InputError: From ``ask``, if there are no features, or the model has other classes.
    """

    model: Any
    temperature: float = 1.0
    learned_from: Sequence[Release | Answer] = ()

    def _result(self, request: PriorRequest) -> PriorResult:
        """The model's probabilities at the temperature."""
        curator = request.curator
        if request.features is None:
            raise InputError("expected features=, from which the model predicts, found none")
        table = indexable_rows(request.features)
        if row_count(table) != len(curator):
            raise InputError(f"expected features of the {len(curator)} rows, found {row_count(table)} rows")
        check_same_rows(request.features, curator)
        some = table if request.rows is None else take_rows(table, request.index)
        predicted = declared_probabilities(self.model, some, curator.space)
        return PriorResult(tempered(predicted, self.temperature), assumptions=_rests_on(self.learned_from))


def tempered(probabilities: Float[np.ndarray, "n k"], temperature: float) -> Float[np.ndarray, "n k"]:
    """Probabilities at a temperature t: proportional to ``p ** (1 / t)``, which divides logits by t.

    Towards 0 the likeliest class gets probability 1, towards infinity the result is uniform.

    References:
        Ghazi et al. 2021, section E.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.stages import tempered
        >>> tempered(np.array([[0.8, 0.2]]), 0.5).round(3).tolist()
        [[0.941, 0.059]]
    """
    if not _checks.number(temperature, "temperature") > 0:
        raise InputError(f"expected a temperature above 0, found {temperature!r}; use 1 for probabilities as they are")
    logarithms = np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))
    with np.errstate(over="ignore"):
        powers = np.exp((logarithms - logarithms.max(axis=1, keepdims=True)) / temperature)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def declared_probabilities(model: Any, features: Any, space: LabelSpace) -> Float[np.ndarray, "n k"]:
    """A model's probabilities of all declared classes, in declared order.

    Raises:
        InputError: The model has no ``predict_proba``, has other classes, or predicts no distributions.
    """
    predicted = np.asarray(predicted_columns(model, features, space), dtype=np.float64)
    if len(predicted) != row_count(features):
        raise InputError(
            f"expected predictions for {row_count(features)} rows, found {len(predicted)}; a model predicts one "
            "distribution for each row"
        )
    return _distributions(predicted, f"the predictions of {type(model).__name__}")


def _distributions(rows: Float[np.ndarray, "m k"], what: str) -> Float[np.ndarray, "m k"]:
    """Check that probabilities sum to one in each row, and normalise them."""
    total = rows.sum(axis=1, keepdims=True)
    fine = np.isfinite(rows).all(axis=1) & (rows >= 0).all(axis=1) & (np.abs(total[:, 0] - 1.0) < 1e-3)
    if not fine.all():
        raise PriorError(
            f"expected distributions over classes from {what}, found none at position {int(np.argmin(fine))}"
        )
    return np.asarray(rows / total)


def _row_numbers(rows: object, count: int) -> Int[np.ndarray, "m"]:
    """Row numbers as an array; by default those of all rows."""
    every = np.arange(count)
    if rows is None or isinstance(rows, slice):
        return every if rows is None else every[rows]
    try:
        return np.asarray(every[np.asarray(rows)])
    except IndexError:
        raise RowsError(f"expected rows between 0 and {count - 1}, found others") from None


def _rests_on(sources: Sequence[Release | Answer]) -> tuple[str, ...]:
    """The assumption of a certificate that its prior was computed from other releases, whose costs add up."""
    certificates = [source.certificate for source in sources if source.certificate is not None]
    return tuple(
        f"the prior was computed from {each.release}, whose epsilon {shown_above(each.guarantee.epsilon, 7)} adds up "
        "with this one where they share rows"
        for each in certificates
    )
