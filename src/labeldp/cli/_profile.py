"""The privacy-loss profile of a release, for ``labeldp audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labeldp import release, report
from labeldp.audit import attacks
from labeldp.cli._terminal import progress, show
from labeldp.learning import features


def show_profile(directory: Path, figure: Path | None = None, **options: Any) -> None:
    """Show the disclosure by public columns and released label together, over the share of rows.

    It is computed from the release alone, at no further privacy cost.

    Args:
        directory: The folder of a release with public columns, of two classes.
        figure: A new PNG, SVG or PDF file for the figure.
        **options: Arguments of ``labeldp.audit.loss_profile``, such as neighbours or the confidence.
    """
    released, table = release.Release.load(directory), release.public_columns(directory)
    unit = None if released.guarantee.unit == "row" else released.guarantee.unit
    points = features.points_of(table, unit)
    with progress() as bar:
        profile = attacks.loss_profile(points, released, progress=bar, **options)
    law = None if released.certificate is None else released.certificate.features
    show(*report.profile_text(profile, law))
    if figure is not None:
        show("", f"figure: {report.save_profile_figure(profile, figure)}")
