"""Stage-by-stage release of a curator's labels, which can be stopped, and resumed with the same released labels.

Only released labels are visible here.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from labeldp._own_files import check_own, opened_own, remove_staging, replace_file
from labeldp._shapes import Bool, Float, Int
from labeldp._strict_json import strict_json
from labeldp.errors import BudgetError, InputError, OutputError
from labeldp.learning.features import take_rows
from labeldp.learning.stages._priors import Prior, PriorResult, declared_probabilities
from labeldp.mechanisms.randomizers import Randomizer
from labeldp.privacy import ClassProbabilities, LabelSpace, rest_of
from labeldp.privacy.accounting import RowRanges
from labeldp.privacy.channels import law_of
from labeldp.release import Answer, Curator, Release, so_far

_SCHEMA = "labeldp/stages/1"
_SETTINGS, _SPLIT, _PRIOR = "stages.json", "split.npy", "prior"
#: Most bytes of the settings, of the header of the split, and of the stage of a row in it.
_MOST_BYTES, _HEADER, _STAGE_BYTES = 1 << 24, 1 << 10, 2

Parts = list[np.ndarray]


@dataclass(frozen=True)
class StageFiles:
    """A folder with the split, the answers and the releases of a run; without a folder, nothing is saved.

    Files appear complete or not at all, and none is overwritten.

    Attributes:
        directory: The folder; None to save nothing.
        settings: Settings that must be the same for a run to be resumed.
    """

    directory: Path | None
    settings: Mapping[str, Any]

    def split(self, make: Callable[[], Parts]) -> tuple[Parts, bool]:
        """The rows of each stage, and whether an earlier run saved them."""
        if self.directory is None:
            return make(), False
        self.directory.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(self.directory / _SETTINGS):
            self._check_settings()
            return self._saved_split(), True
        remove_staging(self.directory / _SPLIT)
        remove_staging(self.directory / _SETTINGS)
        if others := sorted(path.name for path in self.directory.iterdir() if path.name != _SPLIT):
            raise OutputError(
                f"expected an empty folder for the stages, or one of an earlier run, found {others[0]!r} in "
                f"{self.directory}; choose another"
            )
        parts = make()
        stage_of_row = np.empty(sum(map(len, parts)), dtype=np.int16)
        for number, rows in enumerate(parts):
            stage_of_row[rows] = number
        replace_file(self.directory / _SPLIT, lambda file: np.save(file, stage_of_row))
        text = json.dumps({"schema": _SCHEMA, **self.settings}, indent=2) + "\n"
        replace_file(self.directory / _SETTINGS, lambda file: file.write(text.encode()))
        return parts, False

    def releases(self, parts: Parts) -> list[Release]:
        """The saved releases of the first stages.

        Raises:
            VerificationError: A release does not agree with its certificate.
            OutputError: A release is of other rows, or one before it is missing.
        """
        releases: list[Release] = []
        for number, rows in enumerate(parts):
            if self.directory is None or not self._stage(number).exists():
                break
            check_own(self._stage(number), self._stage(number).lstat())
            release = Release.load(self._stage(number))
            if release.certificate is None or release.certificate.draws[-1].rows != RowRanges.of(rows):
                raise OutputError(f"expected the rows of the split in {self._stage(number)}, found others")
            releases.append(release)
        if later := [n + 1 for n in range(len(releases), len(parts)) if self.directory and self._stage(n).exists()]:
            raise OutputError(
                f"expected the releases of stages one after the other in {self.directory}, found stage {later[0]} "
                "without those before; restore a copy"
            )
        return releases

    def answers(self) -> list[Answer]:
        """The saved answer that the prior of the first stage was computed from, if it paid for one."""
        if self.directory is None or not os.path.lexists(saved := self.directory / _PRIOR):
            return []
        check_own(saved, saved.lstat())
        return [Answer.load(saved)]

    def keep(self, number: int, release: Release) -> None:
        """Save the release of a stage."""
        if self.directory is not None:
            release.save(self._stage(number))

    def keep_answer(self, answer: Answer) -> None:
        """Save the answer of a prior, which is asked for only once."""
        if self.directory is not None:
            answer.save(self.directory / _PRIOR)

    def _saved_split(self) -> Parts:
        """The rows of each stage as saved."""
        count = self.settings["rows"]
        content = self._read(_SPLIT, _HEADER + count * _STAGE_BYTES)
        try:
            stage_of_row = np.load(BytesIO(content), allow_pickle=False)
        except (ValueError, EOFError, MemoryError, OverflowError):
            stage_of_row = np.empty(0)
        parts = [np.flatnonzero(stage_of_row == number) for number in range(len(self.settings["shares"]))]
        if stage_of_row.shape != (count,) or sum(map(len, parts)) != count or not all(map(len, parts)):
            raise OutputError(
                f"expected the split of {count} rows into {len(parts)} stages in {self.directory}, found another; "
                "restore a copy"
            )
        return parts

    def _read(self, name: str, most: int) -> bytes:
        """The bytes of a file; none if it cannot be read, or is too long.

        Raises:
            OutputError: Somebody else can have written it.
        """
        try:
            with opened_own((self.directory or Path()) / name) as file:
                content = file.read(most + 1)
        except OutputError:
            raise
        except OSError:
            return b""
        return content if len(content) <= most else b""

    def _stage(self, number: int) -> Path:
        return (self.directory or Path()) / f"stage-{number + 1}"

    def _check_settings(self) -> None:
        """Refuse to resume a run with other data or settings."""
        try:
            saved = strict_json(self._read(_SETTINGS, _MOST_BYTES).decode())
        except ValueError:
            raise OutputError(f"expected the settings of a run in {self.directory}, found no JSON") from None
        wanted = strict_json(json.dumps({"schema": _SCHEMA, **self.settings}))
        if isinstance(saved, dict) and wanted["labels"] == f"labels named {wanted['label']}":
            saved.setdefault("labels", wanted["labels"])  # older runs hold the name alone
        other = [name for name in wanted if not isinstance(saved, dict) or saved.get(name) != wanted[name]]
        if other:
            raise OutputError(
                f"expected the run that was begun in {self.directory}, found another: it differs in "
                f"{', '.join(other)}; resume with the same data, name= and settings, or choose another folder"
            )


def fingerprint(features: Any) -> str:
    """A fingerprint of public features, equal for equal features."""
    parts = features if isinstance(features, tuple) else (features,)
    arrays = [np.asarray(part) if hasattr(part, "detach") else part for part in parts]
    return str(joblib.hash(arrays, hash_name="sha1"))


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
