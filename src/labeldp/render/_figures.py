"""Charts as files: SVG is drawn here, as on pages; PNG and PDF by matplotlib, which is loaded on demand."""

from __future__ import annotations

import itertools
from importlib.resources import files
from pathlib import Path

from labeldp._extras import require_extra
from labeldp._own_files import check_new_file, write_new_file
from labeldp.errors import OutputError
from labeldp.render._drawings import standalone
from labeldp.results import Curves
from labeldp.results._charts import Chart

_DRAWN = ".svg"
_ENDINGS = (".png", _DRAWN, ".pdf")
#: Widths of lines in points: where there are more than a few, that of the first, and how much thinner the next is.
_FEW_LINES, _THIN, _THICK, _STEP = 2, 1.2, 6.0, 1.2


def check_figure(path: Path) -> Path:
    """Check that a new figure can be written to a path, before its contents are computed.

    Raises:
        OutputError: Its ending is no figure format, it exists, or its folder does not.
        MissingExtraError: It is a PNG or PDF, and matplotlib is not installed.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise OutputError(f"expected a figure whose name ends in {', '.join(_ENDINGS)}, found {path.name}")
    if path.suffix.lower() != _DRAWN:
        require_extra("plots", "matplotlib")
    return check_new_file(path, "a figure")


def save_figure(chart: Curves, path: Path, *, private: bool = False) -> Path:
    """Write a chart of curves to a new file, as a PNG, SVG or PDF by its ending.

    Raises:
        OutputError: It cannot be written.
        MissingExtraError: It is a PNG or PDF, and matplotlib is not installed.
    """
    if check_figure(path).suffix.lower() == _DRAWN:
        return write_new_file(path, figure_of(chart).encode(), private=private)
    from matplotlib.figure import Figure  # noqa: PLC0415 (an extra, and slow to load)

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for i, (marker, (name, points)) in enumerate(zip(itertools.cycle("osD^v"), chart.lines, strict=False)):
        thick = max(_THIN, _THICK - _STEP * i) if len(chart.lines) > _FEW_LINES else _THIN
        axes.plot(*zip(*points, strict=True), marker=marker, label=_plain(name), linewidth=thick, markersize=4 + thick)
    for i, band in enumerate(chart.bands):
        at, low, high = zip(*band, strict=True)
        axes.fill_between(at, low, high, color=f"C{i}", alpha=0.2, linewidth=0)
    for name, axis, value in chart.marks:
        (axes.axvline if axis == "x" else axes.axhline)(value, color="0.5", linestyle=":", label=_plain(name))
    if chart.points:
        axes.scatter(*zip(*chart.points, strict=True), marker="x", color="black", zorder=3, label="in the table")
    scales = {f"{axis}scale": "log" for axis in chart.logarithmic}
    axes.set(**scales, xlabel=chart.axes[0], ylabel=chart.axes[1], title=_plain(chart.what))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small")
    return write_new_file(path, lambda staged: figure.savefig(staged, dpi=150), private=private)


def figure_of(chart: Chart) -> str:
    """A chart as the text of an SVG file, with the style sheet of pages."""
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return f"{standalone(chart, style)}\n"


def _plain(text: str) -> str:
    """A text in which matplotlib finds no formula."""
    return text.replace("$", r"\$")
