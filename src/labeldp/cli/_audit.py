"""``labeldp audit``: what a release, or any mechanism that can be called, really gives away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli._declaring import class_texts, range_of
from labeldp.cli._named import named_object
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
    try:
        if (directory is None) == (callable is None):
            raise InputError("expected either the folder of a release or --callable MODULE:NAME, found both or neither")
        if callable is None and directory is not None:
            if claim is not None or classes is not None or interval is not None:
                raise InputError(
                    "expected no --claim and no labels for a release, which states its own; leave them out"
                )
            holds = _of_folder(directory, against or [], _SURE if confidence is None else confidence)
        else:
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
