"""Learned models with their prediction sets, their predictions, and releases in stages."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from labeldp._strict_json import absent
from labeldp.learning.features import CALENDAR, INSTALLED, EncoderCard
from labeldp.learning.tables import IN_MEMORY, ClassScores, NumberScores
from labeldp.release.folder import clipping
from labeldp.results._blocks import Commands, Grid, Part, Prose, Section, Terms
from labeldp.results._numbers import listed, share, three_digits
from labeldp.results._release import (
    Promised,
    Released,
    guarantee_prose,
    guarantee_section,
    promised,
    release_terms,
    resampled_share,
)
from labeldp.results._scores import classes_of, score_sections, true_rows, verdict

if TYPE_CHECKING:
    from labeldp.learning.inference import PredictionSets
    from labeldp.learning.tables import Learned, NetworkModel, Staged, TableModel


_ALL_ROWS = "all rows"
_NOTE = (
    "The coverage is that of the average row of this population: sets of some kinds of rows may miss the true label "
    "more often."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class CalibratedSets:
    """Prediction sets that were calibrated on held-out rows.

    Attributes:
        coverage: The least share of rows whose set holds the true label.
        confidence: The confidence of that.
        rows: The rows that they were calibrated on.
        by: Whether the coverage is that of all rows together, of each class or of each group.
        limits: For all rows, or each class or group, the least probability of a class in a set, or the largest distance
            of a number from the prediction; None for no limit.
        size: Mean number of classes in a set, or mean width of an interval.
        most: Number of classes, or width of the declared range.
        reasons: Why sets are of all labels, where they are.
        kind: Whether they are of classes, or of numbers.
    """

    coverage: float
    confidence: float
    rows: int
    by: Literal["", "class", "group"]
    limits: Mapping[str, float | None]
    size: float
    most: float
    reasons: Mapping[str, str]
    kind: Literal["classes", "numbers"]

    @classmethod
    def of(cls, sets: PredictionSets) -> CalibratedSets:
        """The document of calibrated sets."""
        ends = sets.ends
        return cls(
            coverage=1.0 - sets.alpha,
            confidence=sets.confidence,
            rows=sets.rows,
            by=sets.by,  # type: ignore[arg-type]
            limits={_name(key): limit if math.isfinite(limit) else None for key, limit in sets.limits.items()},
            size=sets.size,
            most=float(len(sets.classes or ())) if ends is None else ends[1] - ends[0],
            reasons={_name(key): reason for key, reason in sets.reasons.items()},
            kind="classes" if ends is None else "numbers",
        )


def _name(key: object) -> str:
    return _ALL_ROWS if key == "" else str(key)


#: The rows that a coverage is of.
_COVERED = {"": "rows", "class": "the rows of each class", "group": "the rows of each group"}


def set_terms(sets: CalibratedSets | None) -> Iterator[tuple[str, str]]:
    """The coverage of prediction sets, and their size."""
    if sets is None:
        return
    of = _COVERED[sets.by]
    shown = f"on {sets.rows:,} other released rows, with {share(sets.confidence)} confidence"
    yield "sets", f"hold the true label of at least {share(sets.coverage)} of {of}: shown {shown}"
    size, most = three_digits(sets.size), three_digits(sets.most)
    yield "set size", f"{size} of {most} classes (mean)" if sets.kind == "classes" else f"{size} of {most} (mean width)"
    for name, reason in sets.reasons.items():
        yield "note", f"sets are of all labels{'' if name == _ALL_ROWS else f' of {name}'}: {reason}"


def sets_part(sets: CalibratedSets) -> Part:
    """Prediction sets, and what decides on them."""
    done = f"Sets that hold the true label of at least {share(sets.coverage)} of {_COVERED[sets.by]}."
    what = "least probability" if sets.kind == "classes" else "largest distance"
    limits = [
        (f"{what}, {name}", "none" if limit is None else three_digits(limit)) for name, limit in sets.limits.items()
    ]
    sections = (Section("", (Terms((*set_terms(sets), *limits)), Prose(_NOTE, "aside"))),)
    return Part("Prediction sets", done, lead=(done,), sections=sections)


_UNITS = (
    "units with many rows have noisier labels, so the model follows units with few rows more closely: where the two "
    "kinds differ, its predictions may be wrong for each kind, though not on average over all rows"
)
_OF_ENCODER = (
    "the guarantee is about the labels of this release alone; it does not cover labels that the encoder was trained on"
)
_HELD_OUT = (
    "Choices on released labels cost no privacy. Each row is scored by models that were fitted on other rows alone."
)
_ENSEMBLE = (
    "On MNIST, Fashion-MNIST and KMNIST a network beside it was more accurate, and took several times as long: pass "
    "--model torch:ensemble."
)
_EXCHANGED = "Exchanged labels cannot show how good the model is: use 'labeldp evaluate' with public labels."
#: Beginning of the remark on units that no column tells apart, of which rows may be on both sides of a fold.
_MIXED = "Nothing shows how good this model is"


@dataclass(frozen=True, eq=False, kw_only=True)
class LearnedModel(Promised):
    """A learned model and its scores, as ``labeldp learn --json`` prints them.

    Attributes:
        output: The file of the model.
        rows: Number of rows that it was learned from.
        model: Its name.
        method: How released labels were used.
        setting: Hyperparameters chosen on released labels.
        features: The public columns that it predicts from.
        left_out: Public columns that were not used, with reasons.
        judged_by: Origin of the scores.
        classes: The classes that scores of each class are of, in their order; None of numeric labels.
        remarks: Remarks to read before the scores.
        scores: The scores; None where labels cannot show any.
        released_rows: Number of rows of the release.
        notes: Remarks on the model.
        parts_of_dates: What is made of columns of dates.
        constant: What the model predicts for every row; empty for any other model.
        original_rows: Remark on rows whose features are their own, where others were resampled.
        sets: Its prediction sets; None if none were calibrated.
        way: How it was learned: with all rows in memory, by sums over all, or from a sample.
        encoder: The encoder of images whose features it was learned from; None without one.
    """

    output: str
    rows: int
    model: str
    method: str
    setting: str
    features: tuple[str, ...]
    left_out: Mapping[str, str]
    judged_by: str
    classes: tuple[object, ...] | None = None
    remarks: tuple[str, ...]
    scores: ClassScores | NumberScores | None
    released_rows: int = 0
    notes: tuple[str, ...] = ()
    parts_of_dates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    constant: str = ""
    original_rows: str = ""
    sets: CalibratedSets | None = None
    way: str = IN_MEMORY
    encoder: EncoderCard | None = absent()

    @classmethod
    def of(cls, learned: Learned, output: str = "in memory") -> LearnedModel:
        """The model learned from a release, and its file."""
        model, certificate = learned.model, learned.model.certificate
        return cls(
            **promised(certificate),
            output=output,
            rows=learned.rows or certificate.rows,
            model=model.model,
            method=model.method,
            setting=learned.setting,
            features=tuple(model.inputs),
            left_out=dict(learned.left_out),
            judged_by=learned.judged_by,
            classes=classes_of(certificate.space),
            remarks=tuple(learned.remarks),
            scores=learned.scores,
            released_rows=certificate.rows,
            notes=tuple(_notes(learned)),
            parts_of_dates=_parts_of_dates(model),
            constant=str(learned.constant),
            original_rows=_on_true_rows(learned),
            sets=None if model.sets is None else CalibratedSets.of(model.sets),
            way=learned.way,
            encoder=getattr(model, "card", None),
        )


@dataclass(frozen=True, kw_only=True)
class Predicted(Promised):
    """The predictions of a model in a file, as ``labeldp predict --json`` prints them."""

    output: str
    rows: int
    columns: tuple[str, ...]

    @classmethod
    def of(cls, model: TableModel | NetworkModel, columns: Sequence[str], rows: int, output: str) -> Predicted:
        """So many predictions of a model, in some columns."""
        return cls(**promised(model.certificate), output=output, rows=rows, columns=tuple(columns))


@dataclass(frozen=True)
class Stage:
    """One stage of a release in stages."""

    rows: int
    candidates: float
    truth_probability: float
    clean_share: float
    fitted_on: int


@dataclass(frozen=True, kw_only=True)
class StagesReleased(Released):
    """A release in stages, as ``labeldp stages --json`` prints it."""

    model_file: str
    stages: tuple[Stage, ...]

    @classmethod
    def of_stages(cls, staged: Staged) -> StagesReleased:
        """The release, its model, and each stage."""
        stages = tuple(
            Stage(len(each.rows), each.candidates, each.truth_probability, each.clean_share, each.fitted_on)
            for each in staged.stages
        )
        return cls(**vars(Released.of(staged.release)), model_file=str(staged.model_file), stages=stages)


def learned_part(found: LearnedModel, *, of_images: bool = False) -> Part:
    """A learned model, its accuracy on held-out rows, its file, and the guarantee that covers it."""
    learner = "a combination of models" if found.model == "auto" else found.model
    of = f"{found.released_rows or found.rows:,} released rows"
    if found.released_rows and found.rows != found.released_rows:
        of = f"{found.rows:,} of {of}, chosen by chance without a look at labels"
    done = f"Learned {learner} from {of}, at no further privacy cost."
    mixed = any(remark.startswith(_MIXED) for remark in found.remarks)
    headline, gain = "A model that nothing judges yet", "" if mixed else _EXCHANGED
    if found.scores is not None:
        headline, gain = verdict(found.scores)
    if found.scores is not None and found.constant:
        headline, gain = "One prediction for every row", ""
    terms = [
        *_model_terms(found),
        *set_terms(found.sets),
        *(("note", note) for note in found.notes),
        ("output", found.output),
    ]
    sections = [Section("", (Terms(tuple(terms)),))]
    if found.scores is not None:
        sections += score_sections(found.scores, found.classes or (), found.judged_by, public=False)
        sections.append(Section("", (Prose(_HELD_OUT, "aside"),)))
    end = [Prose(found.original_rows)] if found.original_rows else []
    ensemble = [Prose(_ENSEMBLE)] if found.model == "patches" else []
    images, others = (" --images ITS_IMAGES", "--images IMAGES") if of_images else ("", "TABLE")
    if found.encoder is not None and found.encoder.name != INSTALLED:
        images, others = (f"{each} --encoder {shlex.quote(found.encoder.name)}" for each in (images, others))
    model = shlex.quote(found.output)
    following = Commands(
        (
            f"labeldp predict {model} {others} --output predictions.csv",
            f"labeldp evaluate {model} ANOTHER_RELEASE --released{images}",
        )
    )
    sections.append(Section("", (*end, *guarantee_prose(found.sentence), *ensemble, following)))
    title = f"A model, judged by {found.judged_by}"
    lead = (*found.remarks, *([gain] if gain else []), done, *clipping(found.assumptions))
    return Part(title, headline, lead=lead, sections=tuple(sections))


def predicted_part(found: Predicted, label: str, model: str, *, of_images: bool = False) -> Part:
    """The file of a model's predictions, and the guarantee that covers it."""
    done = f"Predicted {label!r} for {found.rows:,} rows, in their order."
    terms = Terms((("columns", listed(list(found.columns))), ("output", found.output)))
    images = " --images ITS_IMAGES" if of_images else ""
    following = Commands((f"labeldp evaluate {shlex.quote(model)} ANOTHER_RELEASE --released{images}",))
    sections = (Section("", (terms, *guarantee_prose(found.sentence), following)),)
    return Part("Predictions", done, lead=(done,), sections=sections)


def stages_part(staged: Staged) -> Part:
    """The result of a release in stages: the release, each stage, and the last model."""
    rows = [
        (
            str(number),
            f"{len(stage.rows):,}",
            f"{stage.candidates:.1f}",
            share(stage.truth_probability),
            three_digits(int(len(stage.rows) * stage.clean_share)),
            f"{stage.fitted_on:,}",
        )
        for number, stage in enumerate(staged.stages, 1)
    ]
    heads = ("stage", "rows", "candidates", "truth kept", "effective rows, at most", "fitted on")
    model = staged.model
    done, terms = release_terms(staged.release)
    about = [
        ("model", f"{model.model}, method {model.method}"),
        ("features", listed(_features(model.inputs, _parts_of_dates(model)))),
        *(("left out", f"{name}: {why}") for name, why in staged.left_out.items()),
        ("output", str(staged.model_file)),
    ]
    note = (
        "Truth kept and effective rows, at most, are expected values if the prior of the stage is right; a single "
        f"release would have at most {three_digits(int(staged.one_release))} effective rows. To judge the model, use "
        "'labeldp evaluate' with public labels or another release."
    )
    stages = Section("Stages", (Grid.of("stages", heads, rows, (1, 2, 3, 4, 5)), Terms(tuple(about)), Prose(note)))
    sections = (Section("", (terms,)), stages, guarantee_section(staged.release.certificate))
    return Part("A release in stages", done, lead=(done,), sections=sections)


def _notes(learned: Learned) -> Iterator[str]:
    """Remarks on texts, categories that count as one, units of several rows, an encoder, and resampled features."""
    for name in (name for name, kind in learned.model.columns.items() if kind == "text"):
        yield f"of {name}, which is free text, its words are learned from"
    for name, (rare, known) in getattr(learned.model, "merged_categories", {}).items():
        yield f"the {rare:,} rarest of {known:,} categories of {name} count as one"
    if getattr(learned.model, "card", None) is not None:
        yield _OF_ENCODER
    certificate = learned.model.certificate
    if not certificate.of_answer and len(getattr(certificate.channel, "repeats", ())) > 1:
        yield _UNITS
    if (resampled := resampled_share(certificate)) is not None:
        rows = f"the features of {share(resampled)} of rows (expected) come from the generator"
        yield (
            f"{rows}; the model is corrected for them"
            if learned.corrected
            else f"{rows}; only label noise is corrected: pass --generator, or use labeldp.learning.sklearn"
        )


def _on_true_rows(learned: Learned) -> str:
    """A remark that scores are for partly resampled features, and the estimate for true rows where there is one."""
    resampled = resampled_share(learned.model.certificate)
    if learned.scores is None or resampled is None:
        return ""
    mixed = (
        f"These scores are for released rows, {share(resampled)} of which are expected to have features from the "
        "generator: a good model does better on original rows."
    )
    if learned.true_accuracy is None:
        return f"{mixed} Pass --generator to estimate how much."
    return f"{mixed} {true_rows(learned.true_accuracy, learned.scores.rows)}"


def _model_terms(found: LearnedModel) -> Iterator[tuple[str, str]]:
    """A model with its method and settings, the features that it uses, and those that it does not."""
    yield "model", f"{found.model}, method {found.method}"
    yield from (("settings", each) for each in found.setting.split("; ") if each)
    if found.way != IN_MEMORY:
        yield "learned by", found.way
    if found.encoder is not None:
        yield from (
            ("encoder", f"{found.encoder.name}, SHA-256 {found.encoder.digest}"),
            ("its licence", found.encoder.licence),
            ("it was trained on", found.encoder.labels),
        )
    yield "features", listed(_features(found.features, found.parts_of_dates))
    yield from (("left out", f"{name}: {why}") for name, why in found.left_out.items())


def _parts_of_dates(model: TableModel | NetworkModel) -> dict[str, tuple[str, ...]]:
    return {name: tuple(CALENDAR[kind]) for name, kind in model.columns.items() if kind in CALENDAR}


def _features(names: tuple[str, ...] | list[str], made: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [f"{name} (day, {', '.join(made[name])})" if name in made else name for name in names]
