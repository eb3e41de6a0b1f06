"""``labeldp audit``: lower bounds on the privacy loss of a release, or of any callable mechanism."""

from __future__ import annotations

import csv
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import labeldp.release as releases
from labeldp import privacy, render, results
from labeldp._own_files import check_new_file, write_new_file
from labeldp._progress import Progress
from labeldp.audit import attacks, mechanisms
from labeldp.bounds import theorems
from labeldp.cli._command import ReleaseFolder
from labeldp.cli._options import FileOptions, ImageOptions, check_one_of, class_texts, named_object, range_of
from labeldp.cli._terminal import complain, complain_of, for_holder, printed_warnings, progress, result, show
from labeldp.errors import InputError, LabelDPError
from labeldp.learning import features
from labeldp.release import folder

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from labeldp.audit.attacks import AttackReport, Exposure, LossProfile, SomeRows
    from labeldp.release import Release

_UNUSABLE = 2
_DRAWS, _CONFIDENCE, _SURE = 1_000_000, 0.99, 0.999_999
#: Rows of a release by which the disclosure of its columns is bounded, and which are attacked: they are in memory.
_MOST_ROWS = 1 << 20


@dataclass(frozen=True)
class AttackOptions:
    """Options for attacks on a release.

    Args:
        against: Another release of the same rows, to check that its noise is independent.
        model (MODEL): Attack the labels of DIR with this model from 'labeldp learn'; of more than 1,048,576 rows some
            are attacked. A model of DIR itself is fitted anew on parts of it, so that no row is attacked by a model
            that knows its released label.
        images: The images of the rows, for a model of images.
        generator (FILE): For such a model that was learned with --generator: the generator's file.
        truth (TABLE): A table of public true labels of the rows of DIR, to score attacks.
        label: Name of the label column of --truth.
        group (COLUMN): With --truth: also show the success of attacks for each value of this public column of DIR.
        private_rows (FILE): Write each row's guessed label, and how sure it is without and with the released label, to
            this new CSV file. It is for the holder alone: its name must contain 'private'.
        labels_are_public: Declare that the labels of --truth are public.
        file: How CSV files of --truth are written.
    """

    against: list[ReleaseFolder] | None = None
    model: Path | None = None
    images: ImageOptions = field(default_factory=ImageOptions)
    generator: Path | None = None
    truth: Path | None = None
    label: str | None = None
    group: str | None = None
    private_rows: Path | None = None
    labels_are_public: bool = False
    file: FileOptions = field(default_factory=FileOptions)


@dataclass(frozen=True)
class ProfileOptions:
    """Options for the privacy-loss profile of a release.

    Args:
        profile: Also show how much the public columns and the released label of a row disclose together.
        neighbours: For --profile: number of similar rows to judge a row by; more give narrower but coarser bounds.
        figure (FILE): Draw the profile to this new file: .png, .svg or .pdf.
    """

    profile: bool = False
    neighbours: int | None = None
    figure: Path | None = None


@dataclass(frozen=True)
class FunctionOptions:
    """Options for the audit of a function.

    Args:
        callable_ (MODULE:NAME): Audit a function instead of DIR: of (label, n) with n outputs, or of a label with one
            output.
        claim: For --callable: the epsilon that the function claims.
        delta: For --callable: the delta that the function claims.
        classes: For --callable: its labels, a,b,c or @FILE with one per line; whole numbers are passed as int.
        interval (LO,HI,STEP): For --callable: audit the ends and the middle of a range of numeric labels.
    """

    callable_: str | None = None
    claim: float | None = None
    delta: float = 0.0
    classes: str | None = None
    interval: str | None = None

    def labels(self) -> list[Any]:
        """The labels to compare."""
        check_one_of("either --classes or --interval to declare the labels", self.classes, self.interval)
        if self.classes is not None:
            texts = class_texts(self.classes)
            whole = all(text.lstrip("-").isdecimal() for text in texts)
            return list(privacy.Classes([int(text) for text in texts] if whole else texts).points)
        points = privacy.Interval(*range_of(str(self.interval))).points
        return list(dict.fromkeys([points[0], points[len(points) // 2], points[-1]]))


def audit(
    directory: ReleaseFolder | None = None,
    *,
    attack: AttackOptions,
    profile: ProfileOptions,
    function: FunctionOptions,
    draws: int = _DRAWS,
    confidence: float | None = None,
    json_: bool = False,
) -> None:
    """Search for more privacy loss than claimed: exit code 0 if none was found, 1 if some was, 2 on an error.

    Args:
        directory ([DIR]): The folder of a release to audit: a path, or an address such as s3://bucket/shared.
        attack: Attacks on the release.
        profile: The profile of the release.
        function: The function to audit.
        draws: Largest number of outputs to draw for each label.
        confidence: One minus the probability of a false alarm; default 0.99, or 0.999999 for a release.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    try:
        check_one_of("either the folder of a release or --callable MODULE:NAME", directory, function.callable_)
        if directory is not None:
            _check_options(directory, attack, profile, function)
            holds = _audit_release(directory, attack, profile, _SURE if confidence is None else confidence, json_)
        elif attack != AttackOptions() or profile != ProfileOptions():
            raise InputError(
                "expected no options for releases with --callable, found some; pass only --claim, --delta, "
                "--classes, --interval, --draws and --confidence"
            )
        else:
            holds = _audit_function(function, draws, _CONFIDENCE if confidence is None else confidence, json_)
    except LabelDPError as problem:
        complain_of(problem)
        raise typer.Exit(_UNUSABLE) from None
    if not holds:
        raise typer.Exit(1)


def _check_options(directory: Path, attack: AttackOptions, profile: ProfileOptions, function: FunctionOptions) -> None:
    """Refuse options that do not go together, and a path without a release, before anything is computed."""
    if any(option is not None for option in (function.claim, function.classes, function.interval)):
        raise InputError(
            "expected --claim, --classes and --interval with --callable alone, found one with a release; leave "
            "it out: the certificate states it"
        )
    if not ((attack.truth is None) == (attack.label is None) == (not attack.labels_are_public)):
        raise InputError(
            "expected --truth TABLE, --label and --labels-are-public together, found only some; never pass "
            "true labels that are not public"
        )
    if attack.group is not None and attack.truth is None:
        raise InputError("expected --group together with --truth, found no true labels; pass both or neither")
    _check_folder(directory)
    if attack.private_rows is not None:
        _check_rows(attack.private_rows, directory)
    if profile.figure is not None:
        render.check_figure(profile.figure)
    for name, found in (("--generator", attack.generator is not None), ("--images", attack.images != ImageOptions())):
        if found and attack.model is None:
            raise InputError(f"expected {name} together with --model, found no model; pass both or neither")


def _audit_release(
    directory: Path, attack: AttackOptions, profile: ProfileOptions, confidence: float, json_: bool
) -> bool:
    """Audit a release, print the results, and return True if every claim holds."""
    attacks_it = (attack.model, attack.truth, attack.private_rows) != (None, None, None)
    if attacks_it or profile != ProfileOptions():
        for_holder()
    model = None if attack.model is None else attack.images.open_model(attack.model)
    generator = None if attack.generator is None else _load_generator(attack.generator)
    attacked = bounded = exposed = None
    with progress() as bar:
        found = mechanisms.audit_folder(directory, attack.against or [], confidence=confidence, progress=bar)
        if found.holds:
            exposed = _exposure(directory, bar)
    if found.holds and attacks_it:
        attacker = _Attacker.of(directory, attack, model, generator)
        some = attacks.some_rows(directory, _MOST_ROWS)
        attacked = attacker.on(some)
        if attack.private_rows is not None:
            _write_rows(attack.private_rows, [attacked] if some.places is None else attacker.on_every_part())
    law = None if found.certificate is None else found.certificate.features
    if found.holds and profile != ProfileOptions():
        bounded = _profile(directory, profile)
    audited = results.Audited.of_folder(found, attacked, bounded, exposed, law)
    result(json_, lambda: audited, lambda: results.audit_part(audited))
    if bounded is not None and profile.figure is not None:
        written = render.save_figure(results.profile_chart(bounded), profile.figure, private=True)
        show(*([] if json_ else ["", f"figure: {written}"]))
    return found.holds


def _check_folder(directory: Path) -> None:
    """Refuse a path without a certificate: it cannot be audited, which is not a failed claim."""
    if not folder.is_release(directory):
        what = "has no certificate" if directory.is_dir() else "does not exist"
        raise InputError(f"the folder {directory} {what}{folder.or_beside(directory)}")


def _check_rows(path: Path, directory: Path) -> None:
    """Refuse a file of rows that could be shared by accident, or cannot be written."""
    if "private" not in path.name:
        raise InputError(
            f"expected a file name with 'private' in it, found {path.name!r}: the file says of each row what is known "
            "of its label; name it private-rows.csv, for instance"
        )
    if path.resolve().is_relative_to(directory.resolve()):
        raise InputError(
            f"expected a file outside of {directory}, which is shared, found {path}; choose another folder"
        )
    check_new_file(path)


def _write_rows(path: Path, found: Iterable[AttackReport]) -> None:
    """Write the guess for each row, and how sure it is without and with the released label; for its owner alone."""
    header = ["row", "guess", "sure without the released label", "sure with it"]

    def write(staged: Path) -> None:
        first = 0
        with staged.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(header)
            for part in found:
                without, with_label = part.answers
                guesses = with_label.labels().tolist()
                rows = range(first, first := first + len(guesses))
                sure = ([f"{each:.6g}" for each in 1.0 - answer.expected] for answer in (without, with_label))
                table.writerows(zip(rows, guesses, *sure, strict=True))

    write_new_file(path, write, private=True)


@dataclass(frozen=True)
class _Attacker:
    """Attacks on labels by a model of the columns, or against public true labels of all rows.

    Attributes:
        directory: The folder of the release.
        rows: Its number of rows.
        options: The options of the attack.
        model: The model, or None.
        generator: The generator of resampled features, or None.
        truth: The public true labels, or None.
        images: The arguments that name the images.
    """

    directory: Path
    rows: int
    options: AttackOptions
    model: Any
    generator: Any
    truth: Release | None
    images: dict[str, Any]

    @classmethod
    def of(cls, directory: Path, options: AttackOptions, model: Any, generator: Any) -> _Attacker:
        """Read images and true labels, once for all rows."""
        certificate = folder.read_certificate(directory)
        images = {} if model is None else options.images.read()
        if options.truth is None:
            return cls(directory, certificate.rows, options, model, generator, None, images)
        table = options.file.of(options.truth)
        truth = releases.public_table(table, str(options.label), certificate.space, {})[1]
        if len(truth) != certificate.rows:
            raise InputError(
                f"expected the {certificate.rows:,} rows of {directory} in {options.truth}, found {len(truth):,}; "
                "pass these"
            )
        return cls(directory, certificate.rows, options, model, generator, truth, images)

    def on(self, some: SomeRows) -> AttackReport:
        """The gain of attacks on the labels of some rows, which are said to stand for all."""
        if some.places is not None:
            what = f"{len(some.release):,} rows, which were chosen by chance"
            complain(f"note: {what}, are attacked and stand for all {self.rows:,}")
        return self._on(some.table, some.release, some.places)

    def on_every_part(self) -> Iterator[AttackReport]:
        """The same of all rows in even parts, each by itself: a model of this release is fitted anew on each."""
        first, parts = 0, math.ceil(self.rows / _MOST_ROWS)
        with progress() as bar:
            for table, release in releases.release_batches(self.directory, math.ceil(self.rows / parts)):
                bar("attack", first, self.rows)
                yield self._on(table, release, slice(first, first + len(release)))
                first += len(release)
            bar("attack", first, self.rows)

    def _on(self, table: pa.Table, release: Release, places: np.ndarray | slice | None) -> AttackReport:
        """The gain on the labels of rows at some places, or at all."""
        truth = self.truth if self.truth is None or places is None else self.truth[places]
        mixing = None if self.model is None else _mixing(release, self.model)
        inputs = None if self.model is None else self._features(table, places)
        knowledge = attacks.Knowledge(self.model, features=inputs, mixing=mixing, generator=self.generator)
        groups = None if self.options.group is None else _groups(self.directory, table, self.options.group)
        with printed_warnings(features.UnseenValueWarning):
            found = attacks.attack_release(release, knowledge, truth=truth, groups=groups)
        commonest = found.utility("nothing about the row", "the model itself").value
        return dataclasses.replace(found, limits=_limits(release, commonest))

    def _features(self, table: pa.Table, places: np.ndarray | slice | None) -> Any:
        """The rows that the model predicts from: public columns of the rows at some places, or their images."""
        from labeldp.learning.tables import images_of_rows  # noqa: PLC0415 (commands load what they need)

        named = self.images["image_column"] is not None
        pixels = images_of_rows(self.model, table, table.num_rows if named else self.rows, **self.images)
        if pixels is None:
            return table
        return pixels if named or places is None else pixels[places]


def _load_generator(path: Path) -> Any:
    """Load the generator of resampled features from its file."""
    from labeldp.learning.generators import open_generator  # noqa: PLC0415 (commands load what they need)

    return open_generator(path).generator()


def _groups(directory: Path, table: pa.Table, name: str) -> list[str]:
    """The values of a public column, one for each row."""
    if name not in table.column_names:
        raise InputError(f"expected a public column of {directory}, found {name!r}. Columns: {table.column_names}")
    return [str(value) for value in table[name].to_pylist()]


def _profile(directory: Path, options: ProfileOptions) -> LossProfile:
    """The disclosure by public columns and released label together, over the share of rows.

    It is computed from the release alone, at no further privacy cost.
    """
    with progress() as bar:
        some = attacks.some_rows(directory, _MOST_ROWS, bar)
        points = features.points_of(some.table, folder.group_column(some.release.certificate))
        neighbourhood = attacks.Neighbourhood(options.neighbours)
        found = attacks.loss_profile(points, some.release, neighbourhood=neighbourhood, progress=bar)
    return dataclasses.replace(found, assumptions=(*found.assumptions, *_standing(directory, some.places)))


def _standing(directory: Path, places: np.ndarray | None) -> tuple[str, ...]:
    """The assumption that rows at some places stand for all, unless they are all."""
    if places is None:
        return ()
    rows = folder.read_certificate(directory).rows
    return (f"{len(places):,} rows, which were chosen by chance, stand for all {rows:,}",)


def _exposure(directory: Path, bar: Progress) -> Exposure | None:
    """The least that public columns and released labels disclose together; None where no such bound is known.

    That is the case without usable columns, and for other labels than two classes that are flipped with one
    probability. The release has an audit all the same. Of many rows some stand for all.
    """
    try:
        from labeldp.learning.cells import held_out_cells  # noqa: PLC0415 (commands load what they need)

        some = attacks.some_rows(directory, _MOST_ROWS, bar)
        bar("cells", 0, 2)
        points = features.tree_points_of(some.table, folder.group_column(some.release.certificate))
        cells = held_out_cells(points, some.release)
        bar("cells", 1, 2)
        found = attacks.bound_exposure(cells.numbers, some.release, count=cells.count)
        bar("cells", 2, 2)
        return dataclasses.replace(found, assumptions=(*found.assumptions, *_standing(directory, some.places)))
    except (LabelDPError, ImportError):
        return None


def _mixing(release: Release, model: Any) -> float | None:
    """The probability that features are a row's own, for a model of true features if some were resampled.

    A model that learned from resampled rows without their generator already models the mixture.
    """
    law = None if release.certificate is None else release.certificate.features
    if law is None or law.generator is None:
        return None
    training_law = model.certificate.features
    of_true_features = training_law is None or getattr(model, "corrected", False)  # networks are never corrected
    return float(1 - law.chance) if of_true_features else None


def _limits(release: Release, commonest: float) -> tuple[tuple[str, float], ...]:
    """Proven upper bounds on the expected gain of attacks, if no class is more common than estimated."""
    certificate = release.certificate
    if certificate is None or not isinstance(release.space, privacy.Classes) or release.guarantee.delta:
        return ()
    k = release.space.size
    p, limits = min(1.0, max(1 / k, commonest)), []
    shares = f"no class above {p:.1%} (estimated)"
    value = theorems.pure_attack_limit(release.guarantee.epsilon, k, p).value
    limits.append((f"the released label, if features disclose nothing; {shares}", value))
    if certificate.conditional:
        limit = theorems.conditional_attack_limit(certificate.conditional, k, p)
        alpha = limit.size("alpha")
        order = "infinity" if math.isinf(alpha) else f"{alpha:g}"
        known = f"features and released label, by the guarantee with conditional features (order {order})"
        limits.append((f"{known}; {shares}", limit.value))
    return tuple(limits)


def _audit_function(options: FunctionOptions, draws: int, confidence: float, json_: bool) -> bool:
    """Audit a function, print the result, and return True if its claim holds."""
    labels, name = options.labels(), str(options.callable_)
    if options.claim is None:
        raise InputError("expected --claim, the epsilon that the function claims, found none")
    function: Callable[..., Any] = named_object(name, "--callable")  # type: ignore[assignment]
    failed: list[str] = []
    watched = _watched(function, failed) if callable(function) else function
    try:
        with progress() as bar:
            found = mechanisms.audit_mechanism(
                watched, labels, options.claim, delta=options.delta, draws=draws, confidence=confidence, progress=bar
            )
    except InputError as problem:
        raise InputError(f"expected outputs of {name}, found that it {failed[0]}") if failed else problem from None
    audited = results.Audited.of(found)
    result(json_, lambda: audited, lambda: results.audit_part(audited))
    return found.holds


def _watched(function: Callable[..., Any], failed: list[str]) -> Callable[..., Any]:
    """Wrap a function to record its failures: the declared label, which is nobody's, and the call."""
    calls = itertools.count(1)

    @functools.wraps(function)
    def watched(label: object, *more: object) -> Any:
        number = next(calls)
        try:
            return function(label, *more)
        except Exception as problem:
            call = f"{label!r}, {more[0]!r}" if more else repr(label)
            failed.append(
                f"raised {type(problem).__name__} at call {number}, for the declared label {label!r}; call it yourself "
                f"with ({call}) to see why"
            )
            raise

    return watched
