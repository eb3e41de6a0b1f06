"""The privacy-loss profile of a release, for ``labeldp audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labeldp.cli._terminal import progress, show


def show_profile(directory: Path, figure: Path | None = None, **options: Any) -> None:
    """Show the disclosure by public columns and released label together, over the share of rows.

    It is computed from the release alone, at no further privacy cost.

    Args:
        directory: The folder of a release with public columns, of two classes.
        figure: A new PNG, SVG or PDF file for the figure.
        **options: Arguments of ``labeldp.audit.loss_profile``, such as neighbours or the confidence.
    """
    from labeldp.audit.attacks import loss_profile  # noqa: PLC0415 (commands load what they need)
    from labeldp.learning.features import points_of  # noqa: PLC0415
    from labeldp.release import Release, public_columns  # noqa: PLC0415
    from labeldp.report import profile_text, save_profile_figure  # noqa: PLC0415

    release, table = Release.load(directory), public_columns(directory)
    unit = None if release.guarantee.unit == "row" else release.guarantee.unit
    points = points_of(table, unit)
    with progress() as report:
        profile = loss_profile(points, release, progress=report, **options)
    law = None if release.certificate is None else release.certificate.features
    show(*profile_text(profile, law))
    if figure is not None:
        show("", f"figure: {save_profile_figure(profile, figure)}")
