"""``labeldp audit``: lower bounds on the privacy loss of a release, or of any callable mechanism."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli._import_object import named_object
from labeldp.cli._options import class_texts, range_of
from labeldp.cli._profile import show_profile
from labeldp.cli._terminal import complain, progress, show
from labeldp.errors import InputError, LabelDPError

if TYPE_CHECKING:
    from collections.abc import Callable

    from labeldp.release import Release

_UNUSABLE, _CERTIFICATE = 2, "certificate.json"
_DRAWS, _CONFIDENCE, _SURE = 1_000_000, 0.99, 0.999_999


def audit(
    directory: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="The folder of a release to audit.")] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Another release of the same rows, to check that its noise is independent."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Attack the labels of DIR with this model from 'labeldp learn'."),
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="A table of public true labels of the rows of DIR, to score attacks."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Name of the label column of --truth.")] = None,
    labels_are_public: Annotated[
        bool, typer.Option("--labels-are-public", help="Declare that the labels of --truth are public.")
    ] = False,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Also show how much the public columns and the released label of a row disclose together.",
        ),
    ] = False,
    neighbours: Annotated[
        int | None,
        typer.Option(
            help="For --profile: number of similar rows to judge a row by; more give narrower but coarser bounds."
        ),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the profile to this new file: .png, .svg or .pdf.")
    ] = None,
    callable: Annotated[  # noqa: A002 (the name of the option)
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="Audit a function instead of DIR: of (label, n) with n outputs, or of a label with one output.",
        ),
    ] = None,
    claim: Annotated[float | None, typer.Option(help="For --callable: the epsilon that the function claims.")] = None,
    delta: Annotated[float, typer.Option(help="For --callable: the delta that the function claims.")] = 0.0,
    classes: Annotated[
        str | None,
        typer.Option(
            help="For --callable: its labels, a,b,c or @FILE with one per line; whole numbers are passed as int."
        ),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(
            metavar="LO,HI,STEP", help="For --callable: audit the ends and the middle of a range of numeric labels."
        ),
    ] = None,
    draws: Annotated[int, typer.Option(help="Largest number of outputs to draw for each label.")] = _DRAWS,
    confidence: Annotated[
        float | None,
        typer.Option(
            help=f"One minus the probability of a false alarm; default {_CONFIDENCE}, or {_SURE} for a release."
        ),
    ] = None,
) -> None:
    """Search for more privacy loss than claimed: exit code 0 if none was found, 1 if some was, 2 on an error."""
    options = (model, truth, label, neighbours, figure)
    try:
        if (directory is None) == (callable is None):
            found = "neither" if directory is None else "both"
            raise InputError(f"expected either the folder of a release or --callable MODULE:NAME, found {found}")
        if callable is None and directory is not None:
            if claim is not None or classes is not None or interval is not None:
                raise InputError(
                    "expected --claim, --classes and --interval with --callable alone, found one with a release; leave "
                    "it out: the certificate states it"
                )
            if (truth is None) != (label is None) or (truth is not None) != labels_are_public:
                raise InputError(
                    "expected --truth TABLE, --label and --labels-are-public together, found only some; never pass "
                    "true labels that are not public"
                )
            _check_folder(directory)
            if figure is not None:
                _check_figure(figure)
            loaded = None if model is None else _load_model(model)
            holds = _audit_folder(directory, against or [], _SURE if confidence is None else confidence)
            if holds and (loaded is not None or truth is not None):
                _attack(directory, loaded, truth, label)
            if holds and (profile or neighbours is not None or figure is not None):
                show_profile(directory, figure, neighbours=neighbours)
        else:
            if any(option is not None for option in options) or profile or against or labels_are_public:
                raise InputError(
                    "expected no options for releases with --callable, found some; pass only --claim, --delta, "
                    "--classes, --interval, --draws and --confidence"
                )
            level = _CONFIDENCE if confidence is None else confidence
            holds = _audit_callable(str(callable), claim, delta, _labels(classes, interval), draws, level)
    except LabelDPError as problem:
        complain(f"error: {problem}")
        raise typer.Exit(_UNUSABLE) from None
    if not holds:
        raise typer.Exit(1)


def _check_folder(directory: Path) -> None:
    """Refuse a path without a certificate: it cannot be audited, which is not a failed claim."""
    if not (directory / _CERTIFICATE).is_file():
        found = "a folder without one" if directory.is_dir() else "no such folder"
        raise InputError(f"expected the folder of a release, with a {_CERTIFICATE}, at {directory}, found {found}")


def _check_figure(figure: Path) -> None:
    """Refuse a figure that cannot be written, before anything is computed."""
    from labeldp.report import check_figure  # noqa: PLC0415 (commands load what they need)

    check_figure(figure)


def _load_model(model: Path) -> Any:
    """Load a model from 'labeldp learn'."""
    from labeldp.learning.tables import open_model  # noqa: PLC0415 (commands load what they need)

    return open_model(model)


def _audit_folder(directory: Path, against: list[Path], confidence: float) -> bool:
    """Audit the folder of a release, print the result, and return True if every claim holds."""
    from labeldp.audit.mechanisms import audit_folder  # noqa: PLC0415 (commands load what they need)
    from labeldp.report import folder_audit_text  # noqa: PLC0415

    with progress() as report:
        result = audit_folder(directory, against, confidence=confidence, progress=report)
    show(*folder_audit_text(result))
    return result.holds


def _attack(directory: Path, model: Any, truth: Path | None, label: str | None) -> None:
    """Print the gain of attacks on the labels, by a model of the columns or against public true labels."""
    from labeldp.audit.attacks import attack_release  # noqa: PLC0415 (commands load what they need)
    from labeldp.release import Release, public_columns, public_table  # noqa: PLC0415
    from labeldp.report import attack_text  # noqa: PLC0415

    release = Release.load(directory)
    public = None if truth is None else public_table(truth, str(label), release.space, {})[1]
    features = None if model is None else public_columns(directory)
    mixing = None if model is None else _mixing(release, model)
    result = attack_release(release, model, features=features, mixing=mixing, truth=public)
    commonest = result.utility("nothing about the row", "the model itself").value
    show(*attack_text(dataclasses.replace(result, limits=_limits(release, commonest))))


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
    from labeldp.bounds.theorems import conditional_attack_limit, pure_attack_limit  # noqa: PLC0415 (as above)
    from labeldp.privacy import Classes  # noqa: PLC0415

    certificate = release.certificate
    if certificate is None or not isinstance(release.space, Classes) or release.guarantee.delta:
        return ()
    k = release.space.size
    p, limits = min(1.0, max(1 / k, commonest)), []
    shares = f"no class above {p:.1%} (estimated)"
    value = pure_attack_limit(release.guarantee.epsilon, k, p).value
    limits.append((f"the released label, if features disclose nothing; {shares}", value))
    if certificate.conditional:
        limit = conditional_attack_limit(certificate.conditional, k, p)
        alpha = limit.size("alpha")
        order = "infinity" if math.isinf(alpha) else f"{alpha:g}"
        known = f"features and released label, by the guarantee with conditional features (order {order})"
        limits.append((f"{known}; {shares}", limit.value))
    return tuple(limits)


def _audit_callable(
    name: str, claim: float | None, delta: float, labels: list[Any], draws: int, confidence: float
) -> bool:
    """Audit a function, print the result, and return True if its claim holds."""
    from labeldp.audit.mechanisms import audit_mechanism  # noqa: PLC0415 (commands load what they need)
    from labeldp.report import audit_text  # noqa: PLC0415

    if claim is None:
        raise InputError("expected --claim, the epsilon that the function claims, found none")
    function: Callable[..., Any] = named_object(name, "--callable")  # type: ignore[assignment]
    failed: list[str] = []
    watched = _watched(function, failed) if callable(function) else function
    try:
        with progress() as report:
            result = audit_mechanism(
                watched, labels, claim, delta=delta, draws=draws, confidence=confidence, progress=report
            )
    except InputError as problem:
        raise InputError(f"expected outputs of {name}, found that it {failed[0]}") if failed else problem from None
    show(*audit_text(result))
    return result.holds


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


def _labels(classes: str | None, interval: str | None) -> list[Any]:
    """The labels to compare."""
    if (classes is None) == (interval is None):
        found = "neither" if classes is None else "both"
        raise InputError(f"expected either --classes or --interval to declare the labels, found {found}")
    if classes is not None:
        from labeldp.privacy import Classes  # noqa: PLC0415 (commands load what they need)

        texts = class_texts(classes)
        whole = all(text.lstrip("-").isdecimal() for text in texts)
        return list(Classes([int(text) for text in texts] if whole else texts).points)
    from labeldp.privacy import Interval  # noqa: PLC0415

    points = Interval(*range_of(str(interval))).points
    return list(dict.fromkeys([points[0], points[len(points) // 2], points[-1]]))
