"""Printing of results, errors, warnings and progress."""

from __future__ import annotations

import csv
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from labeldp._checks import printable

_WIDTH_OF_FILES = 1000
#: Seconds from which on a time is told in a unit, and the seconds of that unit.
_TIMES = ((5400.0, 3600.0, "hour"), (90.0, 60.0, "minute"), (0.0, 1.0, "second"))
#: Seconds over which the speed of a bar is taken: a fit may last minutes.
_SPEED_OVER = 3600.0
#: Seconds between two lines of progress, where no bar can be drawn.
_PAUSE = 10.0
_TITLES = {
    "load": "reading the release",
    "clusters": "assigning clusters",
    "audit": "drawing and counting",
    "neighbours": "finding neighbours",
    "check": "checking every row",
    "release": "randomizing and writing",
    "learn": "fitting models",
    "epoch": "training",
}


def show(*parts: RenderableType) -> None:
    """Print a result on standard output; outside a terminal a sentence stays on one line."""
    console = Console(highlight=False)
    wide = Console(highlight=False, width=_WIDTH_OF_FILES)
    for part in parts:
        text = isinstance(part, str | Text)
        out = console if console.is_terminal else wide
        literal = Text(printable(part)) if isinstance(part, str) else part
        out.print(literal, soft_wrap=text and not console.is_terminal)


def result(json_: bool, body: Callable[[], object], parts: Callable[[], Sequence[RenderableType]]) -> None:
    """Print a result on standard output, as one JSON document or for people."""
    if json_:
        print(json.dumps(body(), indent=1))  # noqa: T201 (plain text, whatever the terminal)
    else:
        show(*parts())


def complain(message: str, style: str = "red") -> None:
    """Print an error on standard error."""
    Console(stderr=True, highlight=False).print(Text(printable(message), style), soft_wrap=True)


def notes_on_terminal(notes: Sequence[str]) -> None:
    """Print notes for the curator, which may depend on labels: only to a terminal, so that no log records them."""
    if sys.stderr.isatty():
        for note in notes:
            complain(f"private note: {note}", "yellow")


@contextmanager
def printed_warnings(category: type[Warning]) -> Iterator[None]:
    """Print each warning of ``category`` once, on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", category)
        yield
    for message in dict.fromkeys(str(each.message) for each in caught):
        complain(f"warning: {message}", "yellow")


def names(texts: Sequence[str] | None) -> list[str] | None:
    """Split comma-separated names, quoted as in CSV where they hold a comma; an option may be repeated."""
    if texts is None:
        return None
    split = (next(csv.reader([text], skipinitialspace=True), []) if '"' in text else text.split(",") for text in texts)
    return [name.strip() for parts in split for name in parts if name.strip()]


def _lines() -> Callable[[str, int, int], None]:
    """Report progress by lines on standard error, the first after a while: what ends soon says nothing."""
    last, begun = time.monotonic(), dict[str, tuple[float, int]]()

    def report(name: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        since, first = begun.setdefault(name, (now, done))
        if now - last >= _PAUSE:
            last = now
            left = _left((now - since) * (total - done) / (done - first)) if total and done > first else ""
            complain(f"{_TITLES[name]}: {done:,}{f' of {total:,}' if total else ''}{left}", "")

    return report


def _left(seconds: float) -> str:
    """The time that is left, if what remains goes on as what is done did."""
    amount, unit = next((round(seconds / size), unit) for least, size, unit in _TIMES if seconds >= least)
    return f", about {amount} {unit}{'s' * (amount != 1)} left"


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on standard error; without a terminal, a line every ten seconds."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, speed_estimate_period=_SPEED_OVER) as bar:
        tasks: dict[str, int] = {}

        def report(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(_TITLES[name], total=total or None)
            bar.update(tasks[name], completed=done)  # type: ignore[arg-type]

        yield report
