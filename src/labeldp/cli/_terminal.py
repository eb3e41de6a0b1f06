"""The terminal: what is printed, where, and how errors end."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from labeldp._checks import printable

_WIDTH_OF_FILES = 1000
_TITLES = {
    "clusters": "putting rows into clusters",
    "audit": "drawing and counting",
    "neighbours": "looking for neighbours",
    "check": "checking every row",
    "release": "randomizing and writing",
    "learn": "fitting models",
    "epoch": "training",
}


def show(*parts: RenderableType) -> None:
    """Print a result on standard output; where that is no terminal, a sentence stays on one line."""
    console = Console(highlight=False)
    wide = Console(highlight=False, width=_WIDTH_OF_FILES)
    for part in parts:
        text = isinstance(part, str | Text)
        out = console if console.is_terminal else wide
        said = Text(printable(part)) if isinstance(part, str) else part
        out.print(said, soft_wrap=text and not console.is_terminal)


def complain(message: str, style: str = "red") -> None:
    """Print an error on standard error."""
    Console(stderr=True, highlight=False).print(Text(printable(message), style), soft_wrap=True)


def notes_on_terminal(notes: Sequence[str]) -> None:
    """Show notes for the curator, which may depend on labels, where nobody records them: on a terminal only."""
    if sys.stderr.isatty():
        for note in notes:
            complain(f"for you alone: {note}", "yellow")


@contextmanager
def told_warnings(category: type[Warning]) -> Iterator[None]:
    """Warnings of one of ours as lines on standard error, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", category)
        yield
    for message in dict.fromkeys(str(each.message) for each in caught):
        complain(f"warning: {message}", "yellow")


def names(given: Sequence[str] | None) -> list[str] | None:
    """Names that were typed, each option holding several with commas."""
    return None if given is None else [name.strip() for text in given for name in text.split(",") if name.strip()]


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on standard error, where that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, int] = {}

        def report(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(_TITLES[name], total=total or None)
            bar.update(tasks[name], completed=done)  # type: ignore[arg-type]

        yield report
