"""``labeldp audit``: what a release, or any mechanism that can be called, really gives away."""

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
    directory: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="The folder of a release.")] = None,
    against: Annotated[
        list[Path] | None, typer.Option(help="Another release of the same rows: its noise must be its own.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Attack the labels of DIR with a model of 'labeldp learn'.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Public true labels of the rows of DIR, to judge attacks by.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The label column of --truth.")] = None,
    labels_are_public: Annotated[
        bool, typer.Option("--labels-are-public", help="You declare that the labels of --truth may be seen.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="For which share of rows columns and released label give away how much.")
    ] = False,
    neighbours: Annotated[
        int | None,
        typer.Option(help="Of the profile: how many rows tell of one; more make bounds narrower, and blur more."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the profile: a new PNG, SVG or PDF.")
    ] = None,
    callable: Annotated[  # noqa: A002 (what is typed)
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="A function of (label, n) that returns n outputs, or of a label, instead of DIR.",
        ),
    ] = None,
    claim: Annotated[float | None, typer.Option(help="The epsilon that the function is said to keep.")] = None,
    delta: Annotated[float, typer.Option(help="The delta that is claimed with it.")] = 0.0,
    classes: Annotated[
        str | None, typer.Option(help="Its labels: a,b,c or @FILE with one on each line; whole numbers as such.")
    ] = None,
    interval: Annotated[
        str | None, typer.Option(metavar="LO,HI,STEP", help="Its labels: the ends and the middle of a range.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Outputs for each label, at most.")] = _DRAWS,
    confidence: Annotated[
        float | None,
        typer.Option(help=f"One minus the chance to accuse what is sound: {_CONFIDENCE}, or {_SURE} of a release."),
    ] = None,
) -> None:
    """Look for more than was claimed; exit code 0 if none was found, 1 if it was, 2 if nothing could be audited."""
    shown = (model, truth, label, neighbours, figure)
    try:
        if (directory is None) == (callable is None):
            raise InputError("expected either the folder of a release or --callable MODULE:NAME, found both or neither")
        if callable is None and directory is not None:
            if claim is not None or classes is not None or interval is not None:
                raise InputError("expected no --claim and no labels for a release, which states its own, found some")
            if (truth is None) != (label is None) or (truth is not None) != labels_are_public:
                raise InputError(
                    "expected --truth TABLE with --label and --labels-are-public, or none of them, found some; true "
                    "labels that are not public must not be read here"
                )
            _check_folder(directory)
            if figure is not None:
                _check_figure(figure)
            loaded = None if model is None else _opened(model)
            holds = _of_folder(directory, against or [], _SURE if confidence is None else confidence)
            if holds and (loaded is not None or truth is not None):
                _attacked(directory, loaded, truth, label)
            if holds and (profile or neighbours is not None or figure is not None):
                show_profile(directory, figure, neighbours=neighbours)
        else:
            if any(given is not None for given in shown) or profile or against or labels_are_public:
                raise InputError("expected no options of a release for a function, found some; leave them out")
            sure = _CONFIDENCE if confidence is None else confidence
            holds = _of_callable(str(callable), claim, delta, _labels(classes, interval), draws, sure)
    except LabelDPError as problem:
        complain(f"error: {problem}")
        raise typer.Exit(_UNUSABLE) from None
    if not holds:
        raise typer.Exit(1)


def _check_folder(directory: Path) -> None:
    """Refuse what is no folder of a release: nothing could be audited, which is not a claim that fails."""
    if not (directory / _CERTIFICATE).is_file():
        found = "a folder without one" if directory.is_dir() else "no such folder"
        raise InputError(f"expected the folder of a release, with a {_CERTIFICATE}, at {directory}, found {found}")


def _check_figure(figure: Path) -> None:
    """Refuse a figure that could not be written, before anything is computed."""
    from labeldp.report import check_figure  # noqa: PLC0415 (commands load what they need)

    check_figure(figure)


def _opened(model: Path) -> Any:
    """A model of 'labeldp learn'."""
    from labeldp.learning.tables import open_model  # noqa: PLC0415 (commands load what they need)

    return open_model(model)


def _of_folder(directory: Path, against: list[Path], confidence: float) -> bool:
    """Audit the folder of a release, and show what was found."""
    from labeldp.audit.mechanisms import audit_folder  # noqa: PLC0415 (commands load what they need)
    from labeldp.report import folder_audit_text  # noqa: PLC0415

    with progress() as report:
        found = audit_folder(directory, against, confidence=confidence, progress=report)
    show(*folder_audit_text(found))
    return found.holds


def _attacked(directory: Path, model: Any, truth: Path | None, label: str | None) -> None:
    """Show what a model of the columns, and true labels that are public, say of an attack on the labels."""
    from labeldp.audit.attacks import attack_release  # noqa: PLC0415 (commands load what they need)
    from labeldp.release import Release, public_columns, public_table  # noqa: PLC0415
    from labeldp.report import attack_text  # noqa: PLC0415

    release = Release.load(directory)
    known = None if truth is None else public_table(truth, str(label), release.space, {})[1]
    features = None if model is None else public_columns(directory)
    mixing = None if model is None else _mixing(release, model)
    found = attack_release(release, model, features=features, mixing=mixing, truth=known)
    commonest = found.utility("nothing of the row", "the model itself").value
    show(*attack_text(dataclasses.replace(found, limits=_limits(release, commonest))))


def _mixing(release: Release, model: Any) -> float | None:
    """The chance that features are a row's own, for a model of true features where some were redrawn.

    A model that was learned from redrawn rows without their generator has learned the mixture already.
    """
    law = None if release.certificate is None else release.certificate.features
    if law is None or law.generator is None:
        return None
    learned_from = model.certificate.features
    of_true_features = learned_from is None or getattr(model, "corrected", False)  # no network is corrected
    return float(1 - law.chance) if of_true_features else None


def _limits(release: Release, commonest: float) -> tuple[tuple[str, float], ...]:
    """What is proven that no attack gains more than, where no class is more common than estimated."""
    from labeldp.bounds.theorems import conditional_attack_limit, pure_attack_limit  # noqa: PLC0415 (as above)
    from labeldp.privacy import Classes  # noqa: PLC0415

    certificate = release.certificate
    if certificate is None or not isinstance(release.space, Classes) or release.guarantee.delta:
        return ()
    k = release.space.size
    p, found = min(1.0, max(1 / k, commonest)), []
    shares = f"no class above {p:.1%}, as estimated"
    value = pure_attack_limit(release.guarantee.epsilon, k, p).value
    found.append((f"the released label, if features tell nothing; {shares}", value))
    if certificate.conditional:
        limit = conditional_attack_limit(certificate.conditional, k, p)
        alpha = limit.size("alpha")
        order = "infinity" if math.isinf(alpha) else f"{alpha:g}"
        known = f"features and released label, by the guarantee with conditional features (order {order})"
        found.append((f"{known}; {shares}", limit.value))
    return tuple(found)


def _of_callable(
    name: str, claim: float | None, delta: float, labels: list[Any], draws: int, confidence: float
) -> bool:
    """Audit a function, and show what was found."""
    from labeldp.audit.mechanisms import audit_mechanism  # noqa: PLC0415 (commands load what they need)
    from labeldp.report import audit_text  # noqa: PLC0415

    if claim is None:
        raise InputError("expected --claim, the epsilon that the function is said to keep, found none")
    function: Callable[..., Any] = named_object(name, "--callable")  # type: ignore[assignment]
    failed: list[str] = []
    watched = _watched(function, failed) if callable(function) else function
    try:
        with progress() as report:
            found = audit_mechanism(
                watched, labels, claim, delta=delta, draws=draws, confidence=confidence, progress=report
            )
    except InputError as problem:
        raise InputError(f"expected outputs of {name}, found that it {failed[0]}") if failed else problem from None
    show(*audit_text(found))
    return found.holds


def _watched(function: Callable[..., Any], failed: list[str]) -> Callable[..., Any]:
    """A function that notes where it fails: for which declared label, which is nobody's, at which call."""
    calls = itertools.count(1)

    @functools.wraps(function)
    def watched(label: object, *more: object) -> Any:
        number = next(calls)
        try:
            return function(label, *more)
        except Exception as problem:
            asked = f"{label!r}, {more[0]!r}" if more else repr(label)
            failed.append(
                f"raised {type(problem).__name__} at call {number}, for the declared label {label!r}; call it yourself "
                f"with ({asked}) to see why"
            )
            raise

    return watched


def _labels(classes: str | None, interval: str | None) -> list[Any]:
    """The inputs that are compared."""
    if (classes is None) == (interval is None):
        raise InputError("expected either --classes or --interval to say what labels are, found both or neither")
    if classes is not None:
        from labeldp.privacy import Classes  # noqa: PLC0415 (commands load what they need)

        texts = class_texts(classes)
        whole = all(text.lstrip("-").isdecimal() for text in texts)
        return list(Classes([int(text) for text in texts] if whole else texts).points)
    from labeldp.privacy import Interval  # noqa: PLC0415

    points = Interval(*range_of(str(interval))).points
    return list(dict.fromkeys([points[0], points[len(points) // 2], points[-1]]))
