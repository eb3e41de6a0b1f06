"""Figures as SVG, drawn for reading: labels stand beside what they name, and every drawing has a text alternative.

Coordinates are computed here, and nothing else is. Colours are classes of the page's style sheet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from typing import Any

from labeldp._checks import printable
from labeldp.results import _charts as charts

#: The width of every drawing, on which a phone shows letters in their own size, and how much larger others show it.
_WIDTH, _LARGER = 344, 1.3
_NAMED_AT = 75.0  # the belief before at which the curves of odds have their names


def _odds(chart: charts.Odds) -> str:
    pairs, marked = chart.pairs, chart.marked
    left, top, side = 46, 34, 280
    x, y = _axis(left, side, 0.0, 100.0), _axis(top + side, -side, 0.0, 100.0)
    upper = [f"{x(before):.1f},{y(most):.1f}" for before, _, most in pairs]
    lower = [f"{x(before):.1f},{y(least):.1f}" for before, least, _ in pairs]
    parts = [
        *(_line("rule", x(0), y(p), x(100), y(p)) + _text(left - 8, y(p) + 4, f"{p} %", "end") for p in (0, 50, 100)),
        *(_text(x(p), y(0) + 20, f"{p} %", "middle") for p in (0, 50, 100)),
        _text(x(50), y(0) + 40, "sure before", "middle", "quiet"),
        _element('<polygon class="band" points="{}"/>', " ".join([*upper, *reversed(lower)])),
        _element('<polyline class="line" points="{}"/>', " ".join(upper)),
        _element('<polyline class="line thin" points="{}"/>', " ".join(lower)),
        _line("dashed", x(0), y(0), x(100), y(100)),
        _text(4, 14, "sure after", "start", "quiet"),
    ]
    for before, least, most in pairs:
        if before == _NAMED_AT:
            parts += [_text(x(before) - 8, y(most) - 8, "at most", "end", "quiet")]
            parts += [_text(x(before) + 8, y(least) + 16, "at least", "start", "quiet")]
    for before, most, label in marked:
        parts.append(_line("dashed", x(before), y(before), x(before), y(most)))
        parts.append(_dot(x(before), y(most), 4.5))
        parts.append(_text(x(before) + 10, y(most) + 5, label, "start", "strong halo"))
    points = "; ".join(f"{label}" for *_, label in marked)
    what = f"What odds can become. From the belief before to the largest belief after: {points}."
    return _drawing(what, top + side + 60, parts)


def _calibration(chart: charts.Agreement) -> str:
    what, points, ends, words = chart.what, chart.points, chart.ends, chart.words
    longest = max(len(name) for _, name in ends)
    left, top = min(46 + 7 * max(longest - 5, 0), 130), 12
    side = 326 - left
    (low, _), (high, _) = ends[0], ends[-1]
    x, y = _axis(left, side, low, high), _axis(top + side, -side, low, high)
    across, upwards, above, below = words

    def place(share: float) -> float:
        return low + share * (high - low)

    parts = [
        *(_line("rule", x(low), y(p), x(high), y(p)) + _text(left - 8, y(p) + 4, name, "end") for p, name in ends),
        *(_text(x(p), y(low) + 20, name, "middle") for p, name in ends),
        _text(x(place(0.5)), y(low) + 40, across, "middle", "quiet"),
        _text(x(low) + 4, y(high) - 4 + 20, upwards, "start", "quiet"),
        _line("dashed", x(low), y(low), x(high), y(high)),
        _text(x(place(0.04)), y(place(0.58)), above[0], "start", "quiet"),
        _text(x(place(0.04)), y(place(0.52)), above[1], "start", "quiet"),
        _text(x(place(0.4)), y(place(0.12)), below, "start", "quiet"),
    ]
    for stated, least, value, most, _ in points:
        parts.append(_line("thick", x(stated), y(least) + 1, x(stated), y(most) - 1))
        parts.append(_dot(x(stated), y(value), 4.5))
    spoken = "; ".join(text for *_, text in points)
    return _drawing(f"{what}: {spoken}.", side + 72, parts)


def _roc(chart: charts.Roc) -> str:
    what, lines = chart.what, chart.lines
    left, top, side = 46, 34, 280
    x, y = _axis(left, side, 0.0, 1.0), _axis(top + side, -side, 0.0, 1.0)
    parts = [
        *(_line("rule", x(0), y(p), x(1), y(p)) + _text(left - 8, y(p) + 4, f"{p:.0%}", "end") for p in (0, 0.5, 1)),
        *(_text(x(p), y(0) + 20, f"{p:.0%}", "middle") for p in (0, 0.5, 1)),
        _text(x(0.5), y(0) + 40, "of the others, taken for it", "middle", "quiet"),
        _text(x(0), 18, "seen, of those that have it", "start", "quiet"),
        _line("dashed", x(0), y(0), x(1), y(1)),
    ]
    for i, (name, points, area) in enumerate(lines):
        last = i == len(lines) - 1
        path = " ".join(f"{x(false):.1f},{y(true):.1f}" for false, true in points)
        parts.append(_element('<polyline class="{}" points="{}"/>', "line" if last else "line thin", path))
        place = y(0.04 + 0.07 * (len(lines) - 1 - i))
        parts.append(_text(x(1) - 6, place, f"{_short(name, 34)}: {area}", "end", "strong halo" if last else "halo"))
    spoken = "; ".join(f"area {area} for an attacker who knows {name}" for name, _, area in lines)
    return _drawing(f"{what}: {spoken}.", top + side + 60, parts)


def _bars(chart: charts.Bars) -> str:
    what, bars = chart.what, chart.bars
    height, largest = 46, max((value for _, value, _, _ in bars), default=0.0) or 1.0
    parts: list[str] = []
    for i, (name, value, text, ours) in enumerate(bars):
        y, width, strong = i * height, max(1.5, _WIDTH * value / largest), "strong" if ours else ""
        parts += _named(y + 14, name, text, strong)
        form = '<rect class="{}" x="0" y="{}" width="{:.1f}" height="16"/>'
        parts.append(_element(form, "bar ours" if ours else "bar", y + 20, width))
    spoken = "; ".join(f"{name}: {text}" for name, _, text, _ in bars)
    return _drawing(f"{what}: {spoken}.", len(bars) * height, parts)


def _steps(chart: charts.Steps) -> str:
    what, lines, ends = chart.what, chart.lines, chart.ends
    left, top, width, height = 46, 30, 280, 180
    largest = max((total for _, points in lines for _, total in points), default=0.0) or 1.0
    x, y = _axis(left, width, 0.0, 1.0), _axis(top + height, -height, 0.0, largest)
    parts = [_line("rule", x(0), y(v), x(1), y(v)) for v in (0.0, largest / 2, largest)]
    parts += [_text(left - 8, y(v) + 4, f"{v:.3g}", "end") for v in (0.0, largest / 2, largest)]
    parts += [_text(x(0), y(0) + 20, ends[0]), _text(x(1), y(0) + 20, ends[1], "end")]
    taken: list[float] = []
    for name, points in lines:
        path, last = [f"M {x(points[0][0]):.1f} {y(0):.1f}"], points[0][1]
        for time, total in points:
            path += [f"H {x(time):.1f}", f"V {y(total):.1f}"]
            last = total
        parts.append(_element('<path class="line" d="{}"/>', " ".join([*path, f"H {x(1):.1f}"])))
        parts += [_dot(x(t), y(v), 3.5) for t, v in points]
        place = _free(y(last) - 8, taken)
        parts.append(_text(x(1), place, _short(name, 34), "end", "strong halo"))
    spoken = "; ".join(f"{name}: {points[-1][1]:.3g} after {len(points)} charges" for name, points in lines)
    return _drawing(f"{what}: {spoken}.", max(top + height + 30, *(place + 8 for place in [*taken, 0.0])), parts)


def _ranges(chart: charts.Ranges) -> str:
    what, ranges, ends, mark = chart.what, chart.ranges, chart.ends, chart.mark
    left, width, height = 24, 296, 46
    (low, _), (high, _) = ends[0], ends[-1]
    x, bottom = _axis(left, width, low, high), 8 + len(ranges) * height
    parts = [_line("rule", x(place), 4, x(place), bottom) for place, _ in ends]
    parts += [_text(x(place), bottom + 18, name, "middle", "quiet") for place, name in ends]
    parts += [] if mark is None else [_line("dashed", x(mark), 4, x(mark), bottom)]
    for i, (name, first, value, last, text) in enumerate(ranges):
        y = 36 + i * height
        parts += [*_named(y - 14, name, text, "strong halo"), _line("thick", x(first) - 1, y, x(last) + 1, y)]
        if value is not None:
            parts.append(_dot(x(value), y, 5))
    spoken = "; ".join(f"{name}: {text}" for name, *_, text in ranges)
    return _drawing(f"{what}: {spoken}.", bottom + 26, parts)


def _drawing(what: str, height: float, parts: Iterable[str]) -> str:
    """A drawing whose text alternative is a sentence."""
    form = '<svg role="img" aria-label="{}" width="{:.0f}" viewBox="0 0 {} {:.0f}">'
    return _element(form, printable(what), _LARGER * _WIDTH, _WIDTH, height) + "".join(parts) + "</svg>"


def _named(y: float, name: str, text: str, kind: str) -> Iterator[str]:
    """A name at the left end of a line, and what is said of it at the right end."""
    yield _text(0, y, _short(name, max(8, 46 - len(text))), "start", kind)
    yield _text(_WIDTH, y, text, "end", kind)


def _axis(start: float, length: float, low: float, high: float) -> Callable[[float], float]:
    """The place of a value between two others on a line, at whose ends values beyond them lie."""
    return lambda value: start + length * (min(max(value, low), high) - low) / (high - low)


def _element(form: str, *values: object) -> str:
    """An element whose texts are escaped."""
    return form.format(*(escape(each) if isinstance(each, str) else each for each in values))


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return _element('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>', kind, x1, y1, x2, y2)


def _dot(x: float, y: float, radius: float) -> str:
    return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return _element(
        '<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>', x, y, anchor, kind, printable(text)
    )


def _short(name: str, most: int = 24) -> str:
    """The beginning of a long name."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _free(place: float, taken: list[float]) -> float:
    """The nearest height below a place at which no label is yet."""
    while any(abs(place - other) < 16 for other in taken):
        place += 16
    taken.append(place)
    return place


def _curves(chart: charts.Curves) -> str:
    """Lines over two axes, linear or logarithmic; below them stand their names, the uppermost first."""
    left, top, width, height = 62, 44, 264, 230
    lines = [(name, _possible(points, chart.logarithmic)) for name, points in chart.lines]
    every = [point for _, points in lines for point in points]
    if not every:
        return _drawing(f"{chart.what}: nothing to draw.", 20, [])
    across, upwards = (
        [point[axis] for point in every] + [value for _, of, value in chart.marks if of == "xy"[axis] and value > 0]
        for axis in (0, 1)
    )
    logarithmic = [name in chart.logarithmic for name in "xy"]
    (x, x_ticks), (y, y_ticks) = (
        _scale(left, width, across, logarithmic[0]),
        _scale(top + height, -height, upwards, logarithmic[1]),
    )
    right, bottom = left + width, top + height
    parts = [_line("rule", left, y(v), right, y(v)) + _text(left - 8, y(v) + 4, _tick(v), "end") for v in y_ticks]
    parts += [_text(x(v), bottom + 20, _tick(v), "middle") for v in x_ticks]
    parts += [
        _text(_WIDTH - 4, bottom + 40, chart.axes[0], "end", "quiet"),  # may be as long as the drawing is wide
        _text(4, 14, chart.axes[1], "start", "quiet"),
    ]
    for band in chart.bands:
        edge = [(at, low) for at, low, _ in band] + [(at, high) for at, _, high in reversed(band)]
        parts.append(_element('<polygon class="band" points="{}"/>', _path(edge, x, y)))
    taken: list[float] = []
    for name, axis, value in chart.marks:
        if axis == "x":
            parts.append(
                _line("dashed", x(value), top, x(value), bottom) + _text(x(value), top - 4, name, "middle", "quiet")
            )
        else:
            parts.append(_line("dashed", left, y(value), right, y(value)))
            parts.append(_text(right, _free(y(value) - 5, taken), _short(name), "end", "quiet halo"))
    named = [(i % 4, name, points) for i, (name, points) in enumerate(lines) if points]
    below = bottom + 68
    for dash, name, points in sorted(named, key=lambda line: y(line[2][-1][1])):  # from the top
        for path in (_path(points, x, y), _path([(left, below - 4), (left + 26, below - 4)], float, float)):
            parts.append(_element('<polyline class="line dash{}" points="{}"/>', dash, path))
        parts.append(_text(left + 34, below, _short(name, 40), "start", "strong"))
        below += 20
    parts += [_dot(x(at), y(to), 3.5) for at, to in chart.points]
    spoken = "; ".join(f"{name}: {points[0][1]:.3g} to {points[-1][1]:.3g}" for name, points in lines if points)
    marked = "".join(f"; {name}" for name, _, _ in chart.marks)
    return _drawing(f"{chart.what}: {spoken}{marked}.", below - 10, parts)


def _tick(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= value < 1e7 else f"{value:.3g}"


def _possible(points: Iterable[tuple[float, float]], logarithmic: str) -> list[tuple[float, float]]:
    """The points that have a place on the axes."""
    return [
        (at, to)
        for at, to in points
        if math.isfinite(at)
        and math.isfinite(to)
        and (at > 0 or not logarithmic)
        and (to > 0 or "y" not in logarithmic)
    ]


def _path(points: Iterable[tuple[float, float]], x: Callable[[float], float], y: Callable[[float], float]) -> str:
    return " ".join(f"{x(at):.1f},{y(to):.1f}" for at, to in points)


def _scale(
    start: float, length: float, values: list[float], logarithmic: bool
) -> tuple[Callable[[float], float], list[float]]:
    """The place of a value on an axis that holds some, and values for its ticks."""
    low, high = min(values), max(values)
    if not logarithmic:
        low, high = min(low, 0.0), high if high > min(low, 0.0) else low + 1.0
        return _axis(start, length, low, high), [low, (low + high) / 2, high]
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    step = max(1, (last - first) // 4)
    inner = _axis(start, length, float(first), float(last))
    return lambda value: inner(math.log10(max(value, 1e-300))), [10.0**power for power in range(first, last + 1, step)]


def standalone(chart: charts.Chart, style: str) -> str:
    """A chart as an SVG file with a style sheet of its own."""
    return (
        drawn(chart)
        .replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        .replace(">", f"><style>{style}svg {{ background: var(--paper); }}</style>", 1)
    )


#: The function that draws each kind of chart.
_DRAWN: Mapping[type, Callable[[Any], str]] = {
    charts.Curves: _curves,
    charts.Odds: _odds,
    charts.Agreement: _calibration,
    charts.Roc: _roc,
    charts.Bars: _bars,
    charts.Steps: _steps,
    charts.Ranges: _ranges,
}


def drawn(chart: charts.Chart) -> str:
    """A chart as SVG."""
    return _DRAWN[type(chart)](chart)
