"""Labels that are asked for stage by stage. It sees a curator, and of labels what that releases."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from labeldp.errors import BudgetError, InputError, OutputError
from labeldp.learning.features import take_rows
from labeldp.learning.stages._files import StageFiles
from labeldp.learning.stages._priors import Prior, PriorResult, declared_probabilities
from labeldp.mechanisms.randomizers import Randomizer
from labeldp.privacy import LabelSpace, rest_of
from labeldp.privacy.accounting import RowRanges
from labeldp.privacy.channels import law_of, row_arrays
from labeldp.release import Answer, Curator, Release, concatenate

_GOES_ON = (
    "; this run in stages was stopped before. In another process with a ledger file, give the first curator and this "
    "one the same identity=. Where that is so, labels of a stage were charged and lost before they were kept: raise "
    "the budget by what these rows cost once more"
)

#: What the certified epsilon of an answer may be below the one that was asked for.
_ROUNDING = 1e-6

Respond = Callable[[LabelSpace, float, np.ndarray], Randomizer]


@dataclass(frozen=True, eq=False)
class StagedLabels:
    """Labels of all a curator's rows, of which the first stages are released.

    Attributes:
        curator: Who holds the labels.
        features: Features of all rows.
        parts: The rows of each stage, each in their order; together all rows, each once.
        prior: What is known before the first stage.
        epsilon: What the whole costs each row.
        respond: The randomizer, from a label space, an epsilon and a prior for each row.
        files: Where what is released is kept.
        releases: What is released so far, one for each stage.
        answers: What the prior paid for.
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
        """What the prior takes of every row's epsilon."""
        return self.prior.cost(np.arange(len(self.curator)), self.epsilon)

    @property
    def rest(self) -> float:
        """What each label responds with."""
        return rest_of(self.epsilon, self.prior_cost)

    def check(self, goes_on: bool) -> None:
        """Make sure that all stages that are not released will be allowed, and that their law can be made.

        Args:
            goes_on: Whether the run was begun before; then the refusal says what to do.

        Raises:
            BudgetError: The budget does not allow them.
            EpsilonError: No integers keep that epsilon.
            OutputError: What was kept is of another run, or a part of it is lost.
        """
        k = self.curator.space.size
        law = law_of(self.respond(self.curator.space, self.rest, np.full((1, k), 1.0 / k)).channel())
        self._check_kept(law)
        asked = [(self.prior_cost, slice(None))] if self.prior_cost and not self.answers else []
        requests = [*asked, *((self.rest, rows) for rows in self.parts[len(self.releases) :])]
        try:
            if requests:
                self.curator.check(requests, self.epsilon)
        except BudgetError as refusal:
            raise BudgetError(f"{refusal}{_GOES_ON if goes_on else ''}") from None

    def _check_kept(self, law: Mapping[str, Any]) -> None:
        """Refuse what was kept if it is not of this run: it would be found out after labels were drawn beside it."""
        kept: list[Release | Answer] = [*self.releases, *self.answers]
        certificates = [each.certificate for each in kept if each.certificate is not None]
        about = (self.curator.name, self.curator.space)
        if any((each.label, each.space) != about or each.parent for each in certificates):
            raise OutputError("expected kept releases of this label, found others in the folder of the run")
        if any(law_of(release.channel) != law for release in self.releases):
            raise OutputError("expected kept releases of this law, found others in the folder of the run")
        if (self.prior_cost > 0 and self.releases and not self.answers) or (self.answers and not self.prior_cost):
            raise OutputError(
                "expected the answer that the first stage's prior was made from beside what was released with it, and "
                "no other, found it lost from the folder of the run; restore a copy"
            )
        rows = RowRanges.all(len(self.curator))
        cost = self.prior_cost
        if any(
            not 0.0 <= cost - answer.guarantee.epsilon <= _ROUNDING * cost or answer.certificate.draws[-1].rows != rows
            for answer in self.answers
        ):
            raise OutputError("expected a kept answer of this prior about all rows, found another")

    def release(self, number: int, prior: Callable[[Any], Float[np.ndarray, "m k"]] | None) -> Release:
        """The released labels of a stage, drawn if they are not yet, and kept.

        Args:
            number: Of the stage, from 0.
            prior: The prior of rows from their features; None before the first stage.
        """
        if number < len(self.releases):
            return self.releases[number]
        rows = self.parts[number]
        assumptions: tuple[str, ...] = ()
        if prior is None:
            kept = self.answers[0] if self.answers else None
            told = self._ask(kept)
            if told.answer is not None and kept is None:
                self.files.keep_answer(told.answer)
                self.answers.append(told.answer)
            probabilities, assumptions = told.probabilities[rows], told.assumptions
        else:
            probabilities = prior(take_rows(self.features, rows))
        release = self.curator.randomize(self.respond(self.curator.space, self.rest, probabilities), rows)
        self.releases.append(_resting_on(release, assumptions))
        self.files.keep(number, self.releases[-1])
        return self.releases[-1]

    def _ask(self, kept: Answer | None) -> PriorResult:
        """What the prior says of all rows; what it drew it must tell, and it must not have cost more than it said."""
        before = self.curator.spent
        told = self.prior.ask(self.curator, self.features, None, self.epsilon, kept)
        hidden = self.curator.spent != before and (kept is not None or told.answer is None)
        if hidden or (told.answer is not None and told.answer.guarantee.epsilon > self.prior_cost):
            raise InputError(
                f"expected a prior that draws no more than the one answer that it tells of, at the cost that it said "
                f"({self.prior_cost:g}), found more from {type(self.prior).__name__}; what it drew stays charged"
            )
        return told

    def so_far(self, number: int) -> tuple[Int[np.ndarray, "m"], Release]:
        """All rows of the stages up to one, in their order, and their released labels.

        After the last stage that is the whole release, with one certificate that can be saved and verified.
        """
        parts, releases = self.parts[: number + 1], self.releases[: number + 1]
        rows = np.concatenate(parts)
        order = np.argsort(rows)
        if len(parts) == len(self.parts):
            return rows[order], concatenate(zip(parts, releases, strict=True), answers=self.answers)
        return rows[order], _stacked(releases, order)


def candidates_of(release: Release) -> float:
    """The mean number of candidates of rows."""
    support = release.class_channel.levels(release.codes).support
    return float(release.channel.classes if support is None else np.count_nonzero(support, axis=1).mean())


def among_top(model: Any, features: Any, release: Release, count: int) -> Bool[np.ndarray, "m"]:
    """Whether each released label is, or holds, one of the ``count`` classes that a model finds likeliest."""
    order = np.argsort(-declared_probabilities(model, features, release.space), axis=1, kind="stable")
    likely = np.zeros(order.shape, dtype=np.bool_)
    np.put_along_axis(likely, order[:, :count], True, axis=1)
    return np.asarray((release.class_channel.levels(release.codes).mask & likely).any(axis=1))


def _resting_on(release: Release, assumptions: tuple[str, ...]) -> Release:
    """The release with what its prior rests on in its certificate."""
    if release.certificate is None or not assumptions:
        return release
    certificate = dataclasses.replace(release.certificate, assumptions=(*release.certificate.assumptions, *assumptions))
    return dataclasses.replace(release, certificate=certificate)


def _stacked(releases: list[Release], order: Int[np.ndarray, "m"]) -> Release:
    """Releases of some of the stages below each other, in another order: to learn from, with all their charges."""
    channel, certificate = releases[0].channel, releases[0].certificate
    if certificate is None:
        raise ValueError("expected releases that were charged for")
    arrays: dict[str, Any] = {
        name: np.concatenate([row_arrays(release.channel)[name] for release in releases])[order]
        for name in row_arrays(channel)
    }
    draws = tuple(draw for release in releases if release.certificate for draw in release.certificate.draws)
    codes = np.concatenate([release.codes for release in releases])[order]
    whole = dataclasses.replace(certificate, rows=len(codes), draws=draws)
    return Release(codes, dataclasses.replace(channel, **arrays), releases[0].space, whole)
