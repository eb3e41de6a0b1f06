"""``labeldp audit``: what a release, or any mechanism that can be called, really gives away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli._declaring import class_texts, range_of
from labeldp.cli._named import named_object
from labeldp.cli._profile import show_profile
from labeldp.cli._terminal import complain, progress, show
from labeldp.errors import InputError, LabelDPError

if TYPE_CHECKING:
    from collections.abc import Callable

_UNUSABLE = 2
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
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the profile: PNG, SVG or PDF.")] = None,
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
    shown = (model, truth, label, figure)
    try:
        if (directory is None) == (callable is None):
            raise InputError("expected either the folder of a release or --callable MODULE:NAME, found both or neither")
        if callable is None and directory is not None:
            if claim is not None or classes is not None or interval is not None:
                raise InputError(
                    "expected no --claim and no labels for a release, which states its own, found some"
                )
            if (truth is None) != (label is None) or (truth is not None) != labels_are_public:
                raise InputError(
                    "expected --truth TABLE with --label and --labels-are-public, or none of them, found some; true "
                    "labels that are not public must not be read here"
                )
            holds = _of_folder(directory, against or [], _SURE if confidence is None else confidence)
            if holds and (model is not None or truth is not None):
                _attacked(directory, model, truth, label)
            if holds and (profile or figure is not None):
                show_profile(directory, figure)
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


def _of_folder(directory: Path, against: list[Path], confidence: float) -> bool:
    """Audit the folder of a release, and show what was found."""
    from labeldp.audit import audit_folder  # noqa: PLC0415 (commands load what they need)
    from labeldp.report import folder_audit_text  # noqa: PLC0415

    with progress() as report:
        found = audit_folder(directory, against, confidence=confidence, progress=report)
    show(*folder_audit_text(found))
    return found.holds


def _attacked(directory: Path, model: Path | None, truth: Path | None, label: str | None) -> None:
    """Show what a model of the columns, and true labels that are public, say of an attack on the labels."""
    from labeldp.audit import attack_release  # noqa: PLC0415 (commands load what they need)
    from labeldp.bounds import pure_attack_limit  # noqa: PLC0415
    from labeldp.privacy import Classes  # noqa: PLC0415
    from labeldp.release import Release, public_columns, public_table  # noqa: PLC0415
    from labeldp.report import attack_text  # noqa: PLC0415

    release, loaded = Release.load(directory), None
    if model is not None:
        from labeldp.learning.tables import open_model  # noqa: PLC0415

        loaded = open_model(model)
    known = None if truth is None else public_table(truth, str(label), release.space, {})[1]
    limits = []
    if isinstance(release.space, Classes) and not release.guarantee.delta:
        k = release.space.size
        value = pure_attack_limit(release.guarantee.epsilon, k, 1 / k).value
        limits = [("labels that are any class equally often, and features that tell nothing of them", value)]
    features = None if loaded is None else public_columns(directory)
    show(*attack_text(attack_release(release, loaded, features=features, truth=known, limits=limits)))


def _of_callable(
    name: str, claim: float | None, delta: float, labels: list[Any], draws: int, confidence: float
) -> bool:
    """Audit a function, and show what was found."""
    from labeldp.audit import audit_mechanism  # noqa: PLC0415 (commands load what they need)
    from labeldp.report import audit_text  # noqa: PLC0415

    if claim is None:
        raise InputError("expected --claim, the epsilon that the function is said to keep, found none")
    function: Callable[..., Any] = named_object(name, "--callable")  # type: ignore[assignment]
    with progress() as report:
        found = audit_mechanism(
            function, labels, claim, delta=delta, draws=draws, confidence=confidence, progress=report
        )
    show(*audit_text(found))
    return found.holds


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
