"""Figures of results; matplotlib is loaded on demand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labeldp._checks import printable
from labeldp._extras import require_extra
from labeldp._new_files import check_new_file, write_new_file
from labeldp.errors import InputError, OutputError
from labeldp.release import CombinedGuarantee

#: Widths of lines in points: where there are more than a few, that of the first, and how much thinner the next is.
_FEW_LINES, _THIN, _THICK, _STEP = 2, 1.2, 6.0, 1.2
_ENDINGS = (".png", ".svg", ".pdf")


def save_account_figure(combined: Sequence[CombinedGuarantee], path: Path) -> Path:
    """Draw the epsilon of all releases together over delta: if they were fixed beforehand, and by sums.

    Raises:
        InputError: There is nothing to draw.
    """
    if not combined:
        raise InputError("expected charges to draw, found none; give a release, or a ledger that has some")
    lines: dict[str, Sequence[tuple[float, float]]] = {}
    marked: list[tuple[float, float]] = []
    for each in combined:
        name = printable(f"{each.label} per {each.unit}" if each.others else each.label).replace("$", r"\$")
        if points := [point for point in each.curve if math.isfinite(point[1])]:
            lines[f"fixed beforehand: {name}"] = points
        if points := by_sums(each):
            lines[f"by sums: {name}"] = points
        shown = [*each.at_deltas, *((delta, epsilon) for epsilon, delta in each.at_epsilons)]
        marked += [(delta, epsilon) for delta, epsilon in shown if delta > 0 and math.isfinite(epsilon)]
    return save_lines(lines, path, "Combined privacy cost of all releases", "delta", "epsilon", marked)


def by_sums(each: CombinedGuarantee) -> list[tuple[float, float]]:
    """The epsilon by sums over delta, which holds only from the sum of the deltas on."""
    whole, (first, _), (last, _) = each.composition, each.curve[0], each.curve[-1]
    start = max(whole.delta, first)
    return [(start, whole.epsilon), (max(start, last), whole.epsilon)] if start < 1 else []


def save_lines(
    lines: dict[str, Sequence[tuple[float, float]]],
    path: Path,
    title: str,
    x_label: str,
    y_label: str,
    marked: Sequence[tuple[float, float]] = (),
) -> Path:
    """Draw named lines over a logarithmic axis, and mark the points that the printed table lists."""
    figure, axes = new_figure(path)
    draw_lines(axes, lines)
    if marked:
        axes.scatter(*zip(*marked, strict=True), marker="x", color="black", zorder=3, label="in the table")
    axes.set(xscale="log", xlabel=x_label, ylabel=y_label, title=title)
    return write_figure(figure, axes, path, private=False)


def draw_lines(axes: Any, lines: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Draw named lines, each with its marker, and each thinner than those below it, so that none hides another."""
    for i, (marker, (name, points)) in enumerate(zip(itertools.cycle("osD^v"), lines.items(), strict=False)):
        thick = max(_THIN, _THICK - _STEP * i) if len(lines) > _FEW_LINES else _THIN
        axes.plot(*zip(*points, strict=True), marker=marker, label=name, linewidth=thick, markersize=4 + thick)


def check_figure(path: Path) -> Path:
    """Check that a new figure can be written to a path, before its contents are computed.

    Raises:
        OutputError: Its ending is no figure format, it exists, or its folder does not.
        MissingExtraError: matplotlib is not installed.
    """
    new_figure(path)
    return check_new_file(path, "a figure")


def new_figure(path: Path) -> tuple[Any, Any]:
    """An empty figure and its axes; the path must end in a figure format."""
    if path.suffix.lower() not in _ENDINGS:
        raise OutputError(f"expected a figure whose name ends in {', '.join(_ENDINGS)}, found {path.name}")
    require_extra("plots", "matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415 (an extra, and slow to load)

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    return figure, figure.add_subplot()


def write_figure(figure: Any, axes: Any, path: Path, *, private: bool, at_points: bool = True) -> Path:
    """Write a figure with a legend; with ``at_points`` the ticks are at the points of its lines."""
    axes.grid(alpha=0.3)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    ticks = {float(x) for line in axes.lines for x in line.get_xdata() if len(line.get_xdata()) > 2}
    if at_points and ticks:
        axes.set_xticks(sorted(ticks))
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize="small")
    return write_new_file(path, lambda staged: figure.savefig(staged, dpi=150), private=private)
