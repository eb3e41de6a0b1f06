"""The sections of attacks on true labels, for the holder alone: what was gained, and how the attacks rank rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labeldp._checks import printable
from labeldp.results import _charts as charts
from labeldp.results._blocks import Block, Grid, Picture, Section
from labeldp.results._page_of_evaluations import share

#: Classes with a figure of their own, attackers in it, and points of a line.
_MOST_CLASSES, _MOST_ATTACKERS, _MOST_POINTS = 3, 2, 1000


def attack_sections(body: Mapping[str, Any]) -> Iterator[Section]:
    """The gain of each attack, and its measures against true labels if there are any."""
    if "attacks" in body:
        rows = [
            (
                each["knows"],
                share(each["utility"]["value"]),
                f"{share(each['utility']['low'])} to {share(each['utility']['high'])}",
                each["utility"]["source"],
            )
            for each in body["attacks"]
        ]
        columns = ("the attacker knows", "gain", "interval", "measured against")
        yield Section("Attacks", (Grid.of("Gain of attacks on the labels", columns, rows, (1, 2)),))
    measures = body.get("measures", [])[:_MOST_ATTACKERS]
    if measures:
        yield Section("Attacks against true labels", tuple(_measures(measures)))


def _measures(measures: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """ROC curves of the first classes, and the shares of rows whose labels are told."""
    classes = measures[0]["classes"]
    for place, each in list(enumerate(classes))[len(classes) == 2 :][:_MOST_CLASSES]:  # of two, one says all
        same = [found["classes"][place] for found in measures if len(found["classes"]) > place]
        lines = [
            (found["knows"], _points(of["curve"]), f"{of['area']:.2f}")
            for found, of in zip(measures, same, strict=False)
        ]
        name = printable(str(each["label"]))
        yield Picture(
            charts.Roc(f"Who has the label “{name}”, by each attacker's certainty", lines),
            f"Rows from the one that an attacker is surest of to the last: of those with the label “{name}” the share "
            "that is seen, over the share of the others that is taken for it. Beside each line "
            "are what the attacker knows, and the area under it. Dotted: guesses at random.",
        )
    rows = [
        (
            f"{printable(str(of['label']))}: seen at {rate['aimed']:.1%} false alarms",
            found["knows"],
            *_shown(rate["true"]),
        )
        for found in measures
        for of in found["classes"][:_MOST_CLASSES]
        for rate in of["rates"]
        if not rate["needed"]
    ]
    for found in measures:
        rows += [(f"told with {sure:.0%} certainty", found["knows"], *_shown(told)) for sure, told in found["sure"]]
        rows.append(("guessed right, of the tenth told most surely", found["knows"], *_shown(found["worst"])))
    yield Grid.of("Shares of rows", ("what", "the attacker knows", "share", "interval"), rows, (2, 3))


def _points(curve: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """The points of a line, as pairs of false and true positives."""
    return [] if len(curve) < 2 else list(zip(curve[0][:_MOST_POINTS], curve[1][:_MOST_POINTS], strict=False))


def _shown(counted: Mapping[str, Any]) -> tuple[str, str]:
    """A share of counted rows and its interval; no rows have none."""
    if not counted["rows"]:
        return "no rows", ""
    found = counted["share"]
    return share(found["estimate"]), f"{share(found['lower'])} to {share(found['upper'])}"
