"""``labeldp account``: the combined guarantee of several releases of the same labels."""

from __future__ import annotations

from pathlib import Path

from labeldp import release, render, results
from labeldp.cli._command import ReleaseFolder
from labeldp.cli._ledger import ledger_of
from labeldp.cli._terminal import result, show
from labeldp.errors import InputError


def account(
    paths: list[ReleaseFolder],
    *,
    delta: list[float] | None = None,
    epsilon: list[float] | None = None,
    one_table: bool = False,
    long: bool = False,
    figure: Path | None = None,
    json_: bool = False,
) -> None:
    """Show the total privacy cost of releases, by sums and, if all were fixed beforehand, by tight composition.

    Releases of labels with the same name are counted as releases of the same rows.

    Args:
        paths (PATH...): Folders of releases, which may be addresses such as s3://bucket/shared, single certificates,
            or ledgers or the tables that they are beside.
        delta: Also show the epsilon at these failure probabilities.
        epsilon: Also show the failure probability at these epsilons.
        one_table: Declare that all releases are of one table: row numbers mean the same rows.
        long: Allow recomputations that take longer than ten seconds.
        figure: Draw epsilon over delta to this file: .png, .svg or .pdf.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    combined = release.combined_guarantee(
        list(map(ledger_of, paths)), deltas=delta or (), epsilons=epsilon or (), one_table=one_table, long=long
    )
    if figure is not None:
        chart = results.account_chart(combined)
        if chart is None:
            raise InputError("expected charges to draw, found none; give a release, or a ledger that has some")
        render.save_figure(chart, figure)
    result(json_, lambda: list(map(results.TotalShown.of, combined)), lambda: results.account_part(combined))
    if figure is not None and not json_:
        show(f"figure: {figure}")
