"""Stage-by-stage release of a curator's labels; only released labels are visible here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labeldp._shapes import Bool, Float, Int
from labeldp.errors import BudgetError, InputError, OutputError
from labeldp.learning.features import take_rows
from labeldp.learning.stages._files import StageFiles
from labeldp.learning.stages._priors import Prior, PriorResult, declared_probabilities
from labeldp.mechanisms.randomizers import Randomizer
from labeldp.privacy import ClassProbabilities, LabelSpace, rest_of
from labeldp.privacy.accounting import RowRanges
from labeldp.privacy.channels import law_of
from labeldp.release import Answer, Curator, Release, so_far

_GOES_ON = (
    "; this run in stages was interrupted earlier. To resume in another process with a ledger file, give both "
    "curators the same identity=. If they have it, labels of a stage were charged but lost before they were saved: "
    "raise the budget by the cost of its rows"
)

#: Relative amount by which the certified epsilon of an answer may be below the requested one.
_ROUNDING = 1e-6

Respond = Callable[[LabelSpace, float, Any], Randomizer]


@dataclass(frozen=True, eq=False)
class StagedLabels:
    """Labels of all rows of a curator, released up to some stage.

    Attributes:
        curator: Holder of the labels.
        features: Features of all rows.
        parts: Row numbers of each stage, ascending; a partition of all rows.
        prior: Prior of the first stage.
        epsilon: Total cost of each row.
        respond: Constructor of the randomizer, from a label space, an epsilon and a prior for each row.
        files: Folder in which releases are saved.
        releases: Releases so far, one for each stage.
        answers: Answers that the prior paid for.
    """

    curator: Curator
    features: Any
    parts: list[np.ndarray]
    prior: Prior
    epsilon: float
    respond: Respond
    files: StageFiles
    releases: list[Release] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    @property
    def prior_cost(self) -> float:
        """The part of each row's epsilon that the prior costs."""
        return self.prior.cost(np.arange(len(self.curator)), self.epsilon)

    @property
    def rest(self) -> float:
        """The part of each row's epsilon that is left for the response."""
        return rest_of(self.epsilon, self.prior_cost)

    def check(self, goes_on: bool) -> None:
        """Check that the budget allows all remaining stages, and that their channel exists.

        Args:
            goes_on: Whether the run was begun before; then a refusal says what to do.

        Raises:
            BudgetError: The budget does not allow them.
            EpsilonError: No integer channel has that epsilon.
            OutputError: Saved releases or answers are of another run, or some are missing.
        """
        k = self.curator.space.size
        law = law_of(self._randomizer(np.full((1, k), 1.0 / k)).channel())
        self._check_saved(law)
        counts = [(self.prior_cost, slice(None))] if self.prior_cost and not self.answers else []
        requests = [*counts, *((self.rest, rows) for rows in self.parts[len(self.releases) :])]
        try:
            if requests:
                self.curator.check(requests, self.epsilon)
        except BudgetError as refusal:
            raise BudgetError(f"{refusal}{_GOES_ON if goes_on else ''}") from None

    def _check_saved(self, law: Mapping[str, Any]) -> None:
        """Refuse saved releases or answers of another run, before labels are drawn beside them."""
        saved: list[Release | Answer] = [*self.releases, *self.answers]
        certificates = [each.certificate for each in saved if each.certificate is not None]
        about = (self.curator.name, self.curator.space)
        if any((each.label, each.space) != about or each.parent for each in certificates):
            raise OutputError("expected saved releases of this label, found others in the folder of the run")
        if any(law_of(release.channel) != law for release in self.releases):
            raise OutputError("expected saved releases of this mechanism, found others in the folder of the run")
        if (self.prior_cost > 0 and self.releases and not self.answers) or (self.answers and not self.prior_cost):
            raise OutputError(
                "expected an answer beside the releases exactly if the prior of the first stage uses one, found "
                "otherwise in the folder of the run; restore a copy"
            )
        rows = RowRanges.all(len(self.curator))
        cost = self.prior_cost
        if any(
            not 0.0 <= cost - answer.guarantee.epsilon <= _ROUNDING * cost or answer.certificate.draws[-1].rows != rows
            for answer in self.answers
        ):
            raise OutputError("expected a saved answer of this prior about all rows, found another")

    def release(self, number: int, prior: Callable[[Any], Float[np.ndarray, "m k"]] | None) -> Release:
        """The released labels of a stage; draws and saves them if necessary.

        Args:
            number: Number of the stage, from 0.
            prior: Prior of rows from their features; None in the first stage.
        """
        if number < len(self.releases):
            return self.releases[number]
        rows = self.parts[number]
        assumptions: tuple[str, ...] = ()
        if prior is None:
            saved = self.answers[0] if self.answers else None
            result = self._ask_prior(saved)
            if result.answer is not None and saved is None:
                self.files.keep_answer(result.answer)
                self.answers.append(result.answer)
            probabilities, assumptions = result.probabilities[rows], result.assumptions
        else:
            probabilities = prior(take_rows(self.features, rows))
        release = self.curator.randomize(self._randomizer(probabilities), rows)
        self.releases.append(resting_on(release, assumptions))
        self.files.keep(number, self.releases[-1])
        return self.releases[-1]

    def _randomizer(self, probabilities: Float[np.ndarray, "m k"]) -> Randomizer:
        """The randomizer of rows with a prior in declared order."""
        space = self.curator.space
        return self.respond(space, self.rest, ClassProbabilities(probabilities, space.points))

    def _ask_prior(self, saved: Answer | None) -> PriorResult:
        """The prior of all rows; refuse one that hides an answer or costs more than it announced."""
        before = self.curator.spent
        result = self.prior.ask(self.curator, self.features, None, self.epsilon, saved)
        hidden = self.curator.spent != before and (saved is not None or result.answer is None)
        if hidden or (result.answer is not None and result.answer.guarantee.epsilon > self.prior_cost):
            raise InputError(
                f"expected a prior that draws only the one answer that it returns, at its announced cost "
                f"({self.prior_cost:g}), found more from {type(self.prior).__name__}; its draws stay charged"
            )
        return result

    def so_far(self, number: int) -> tuple[Int[np.ndarray, "m"], Release]:
        """All rows of the stages up to one, ascending, and their released labels.

        After the last stage this is the whole release, with one certificate that can be saved and verified.
        """
        parts = list(zip(self.parts[: number + 1], self.releases[: number + 1], strict=True))
        return so_far(parts, self.answers, len(self.curator))


def candidates_of(release: Release) -> float:
    """The mean number of candidates of rows."""
    support = release.class_channel.levels(release.codes).support
    return float(release.channel.classes if support is None else np.count_nonzero(support, axis=1).mean())


def among_top(model: Any, features: Any, release: Release, count: int) -> Bool[np.ndarray, "m"]:
    """True for rows whose released label is, or contains, one of the ``count`` likeliest classes of a model."""
    order = np.argsort(-declared_probabilities(model, features, release.space), axis=1, kind="stable")
    likely = np.zeros(order.shape, dtype=np.bool_)
    np.put_along_axis(likely, order[:, :count], True, axis=1)
    return np.asarray((release.class_channel.levels(release.codes).mask & likely).any(axis=1))


def resting_on(release: Release, assumptions: tuple[str, ...]) -> Release:
    """The release with the assumptions of its prior in its certificate."""
    if release.certificate is None or not assumptions:
        return release
    certificate = dataclasses.replace(release.certificate, assumptions=(*release.certificate.assumptions, *assumptions))
    return dataclasses.replace(release, certificate=certificate)
