"""Charts: what is drawn, in numbers and words. ``render`` draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

#: The name of each line, and its points, from left to right.
Lines = Sequence[tuple[str, Sequence[tuple[float, float]]]]
#: The name of a line across, the axis that its value is on, and the value.
Mark = tuple[str, Literal["x", "y"], float]


@dataclass(frozen=True)
class Odds:
    """The least and the largest belief after a release over that before, in percent.

    Attributes:
        pairs: Belief before, and the least and the largest afterwards.
        marked: Beliefs before, the largest afterwards, and a label for both.
    """

    pairs: Sequence[tuple[float, float, float]]
    marked: Sequence[tuple[float, float, str]]


@dataclass(frozen=True)
class Agreement:
    """Estimates over what a model states, each with its interval, beside the line where both agree.

    Attributes:
        what: What is drawn, in words.
        points: What is stated, the lower end, the estimate and the upper end, and all in words.
        ends: Places on both axes, the first and the last of which are their ends, and their names.
        words: Names of the horizontal and the vertical axis, and of the places above (in two lines) and below the line.
    """

    what: str
    points: Sequence[tuple[float, float, float, float, str]]
    ends: Sequence[tuple[float, str]]
    words: tuple[str, str, tuple[str, str], str]


@dataclass(frozen=True)
class Roc:
    """True over false positives at each threshold, with the area under each line beside its name.

    Attributes:
        what: What is drawn, in words.
        lines: The name of each, its false and true positives from 0 to 1, and its area in words; the last is bold.
    """

    what: str
    lines: Sequence[tuple[str, Sequence[tuple[float, float]], str]]


@dataclass(frozen=True)
class Bars:
    """Bars from 0 to the largest value, each with its name and its value in words; some are the ones in question."""

    what: str
    bars: Sequence[tuple[str, float, str, bool]]


@dataclass(frozen=True)
class Steps:
    """Running totals over time, each with its name at the end.

    Attributes:
        what: What is drawn, in words.
        lines: The name of each, and its points: the time from 0 to 1, and the total afterwards.
        ends: What the first and the last time are.
    """

    what: str
    lines: Lines
    ends: tuple[str, str]


@dataclass(frozen=True)
class Ranges:
    """Intervals, some with a value inside, each with its name and its value in words; a mark is a line across all.

    Attributes:
        what: What is drawn, in words.
        ranges: The name, the lower end, the value, the upper end, and all of it in words.
        ends: Places on the axis, the first and the last of which are its ends, and their names.
        mark: A place that all ranges are compared with.
    """

    what: str
    ranges: Sequence[tuple[str, float, float | None, float, str]]
    ends: Sequence[tuple[float, str]]
    mark: float | None = None


@dataclass(frozen=True)
class Curves:
    """Named lines, with bands around some and lines across at values that matter.

    Attributes:
        what: What is drawn, in words.
        axes: What both axes are.
        lines: The lines.
        marks: Lines across.
        bands: For some lines, by their place, points with a lower and an upper end.
        points: Points that a table lists.
        logarithmic: The axes whose scale is logarithmic.
    """

    what: str
    axes: tuple[str, str]
    lines: Lines
    marks: Sequence[Mark] = ()
    bands: Sequence[Sequence[tuple[float, float, float]]] = ()
    points: Sequence[tuple[float, float]] = ()
    logarithmic: Literal["", "x", "xy"] = "xy"


Chart = Curves | Odds | Agreement | Roc | Bars | Steps | Ranges
