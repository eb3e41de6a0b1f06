"""Printing of results, errors, warnings and progress, on streams that may break at any time."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from rich.console import Console, RenderableType
from rich.text import Text

from labeldp._checks import printable
from labeldp._own_files import keep_private
from labeldp._progress import Progress as Report
from labeldp.errors import LabelDPError

if TYPE_CHECKING:
    from labeldp.results import Part


_WIDTH_OF_FILES = 1000
#: What is written in Python, in parentheses after what is typed, such as (budget=) after --budget.
_ARGUMENT = re.compile(r" \((?:(?:\w+\(\.\.\., )?\w+=\)?|in Python:? (?:[^()]|\([^()]*\))*)\)")
#: Seconds from which on a time is told in a unit, and the seconds of that unit.
_TIMES = ((5400.0, 3600.0, "hour"), (90.0, 60.0, "minute"), (0.0, 1.0, "second"))
#: Seconds between two lines of progress, where no bar can be drawn.
_PAUSE = 10.0
#: What follows the name of a pass in a report of its parts.
_PARTS = " parts"
#: Kinds of work whose reports count rows.
_OF_ROWS = (
    "load",
    "clusters",
    "look",
    "columns",
    "check",
    "release",
    "digest",
    "verify",
    "neighbours",
    "attack",
    "sample",
    "sums",
)
_TITLES = {
    "fetch": "fetching bytes",
    "load": "reading the release",
    "clusters": "assigning clusters",
    "audit": "drawing and counting",
    "neighbours": "finding neighbours",
    "attack": "attacking all rows",
    "check": "checking every row",
    "release": "randomizing and writing",
    "digest": "reading the files",
    "verify": "checking released labels",
    "look": "reading the public columns",
    "columns": "relating the public columns",
    "cells": "grouping rows by their columns",
    "features": "finding features of images",
    "encode": "encoding images",
    "sample": "reading a sample",
    "sums": "adding up rows",
    "trees": "growing trees",
    "learn": "fitting models",
    "stages": "learning in stages",
    "epoch": "training",
    "coefficients": "fitting coefficients",
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


def result(json_: bool, document: Callable[[], object], part: Callable[[], Part]) -> None:
    """Print a result on standard output, as one JSON document or for people."""
    from labeldp import render  # noqa: PLC0415 (help is light)

    if json_:
        from labeldp._strict_json import plain  # noqa: PLC0415 (it loads NumPy, and help is light)

        print(json.dumps(plain(document()), indent=1))  # noqa: T201 (plain text, whatever the terminal)
    else:
        show(*render.on_terminal(part()))


def for_holder() -> None:
    """Keep the file that standard output goes to, if it is one, from everybody else: what follows depends on labels."""
    with suppress(OSError, ValueError, AttributeError):  # a standard output that is closed, or none
        keep_private(sys.stdout.fileno())


def complain_of(problem: LabelDPError) -> None:
    """Print an error on standard error."""
    complain(f"error: {problem}")


def complain(message: str, style: str = "red") -> None:
    """Print a message on standard error."""
    Console(stderr=True, highlight=False).print(Text(printable(as_typed(message)), style), soft_wrap=True)


def as_typed(message: str) -> str:
    """A message without the Python arguments that it names beside options."""
    return _ARGUMENT.sub("", message)


def notes_on_terminal(notes: Sequence[str]) -> None:
    """Print notes for the curator, which may depend on labels: only to a terminal, so that no log records them."""
    if sys.stderr.isatty():
        for note in notes:
            complain(f"private note: {note}", "yellow")


@contextmanager
def printed_warnings(*categories: type[Warning]) -> Iterator[Sequence[warnings.WarningMessage]]:
    """Print each warning of some categories once, on standard error; the list has all of them afterwards."""
    with warnings.catch_warnings(record=True) as caught:
        for category in categories:
            warnings.simplefilter("always", category)
        yield caught
    for message in dict.fromkeys(str(each.message) for each in caught):
        complain(f"warning: {message}", "yellow")


def names(texts: Sequence[str] | None) -> list[str] | None:
    """Split comma-separated names, quoted as in CSV where they hold a comma; an option may be repeated."""
    if texts is None:
        return None
    split = (next(csv.reader([text], skipinitialspace=True), []) if '"' in text else text.split(",") for text in texts)
    return [name.strip() for parts in split for name in parts if name.strip()]


class _Pace:
    """The pace of each kind of work since its first report, and the parts of it that are done."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[float, int]] = {}
        self._parts: dict[str, str] = {}

    def note_parts(self, name: str, done: int, total: int) -> bool:
        """Note the parts of a kind of work that are done; False if the report is of something else."""
        if name.endswith(_PARTS):
            self._parts[name.removesuffix(_PARTS)] = f"{done:,} of {total:,} parts"
        return name.endswith(_PARTS)

    def facts(self, name: str, done: int, total: int, now: float) -> Iterator[str]:
        """Parts done, the speed where rows are counted, and the time that is left."""
        since, first = self._begun.setdefault(name, (now, done))
        if name in self._parts:
            yield self._parts[name]
        if done > first and now > since:
            seconds = (now - since) / (done - first)
            if name in _OF_ROWS:
                yield f"{float(f'{1 / seconds:.3g}'):,.0f} rows a second"
            if total:
                yield _left(seconds * (total - done))


def _lines() -> Report:
    """Report progress by lines on standard error, the first after a while: what ends soon says nothing."""
    last, pace = time.monotonic(), _Pace()

    def report(name: str, done: int, total: int) -> None:
        nonlocal last
        if pace.note_parts(name, done, total):
            return
        now = time.monotonic()
        facts = list(pace.facts(name, done, total, now))
        if now - last >= _PAUSE:
            last = now
            complain(", ".join([f"{_TITLES[name]}: {done:,}{f' of {total:,}' if total else ''}", *facts]), "")

    return report


def _left(seconds: float) -> str:
    """The time that is left, if what remains goes on as what is done did."""
    amount, unit = next((round(seconds / size), unit) for least, size, unit in _TIMES if seconds >= least)
    return f"about {amount} {unit}{'s' * (amount != 1)} left"


@contextmanager
def progress() -> Iterator[Report]:
    """A progress bar on standard error; without a terminal, a line every ten seconds."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn  # noqa: PLC0415 (bars alone)

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[facts]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        tasks, pace = dict[str, TaskID](), _Pace()

        def report(name: str, done: int, total: int) -> None:
            if pace.note_parts(name, done, total):
                return
            if name not in tasks:
                tasks[name] = bar.add_task(_TITLES[name], total=total or None, facts="")
            facts = ", ".join(pace.facts(name, done, total, time.monotonic()))
            bar.update(tasks[name], completed=done, facts=facts)

        yield report


class Stream:
    """A text stream that keeps its first failure instead of raising it; from then on, all that is written is dropped.

    Attributes:
        failure: The first failure, if any.
    """

    def __init__(self, stream: TextIO) -> None:
        self.failure: Exception | None = None
        self._stream = stream

    @property
    def lost(self) -> str:
        """The reason why something that was to be read is lost; empty if nothing is, or if the reader went away."""
        if not isinstance(self.failure, OSError) or self.failure.errno == errno.EPIPE:
            return ""
        return self.failure.strerror or type(self.failure).__name__

    def write(self, text: str) -> int:
        """Write a text."""
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write what is waiting."""
        self._attempt(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _attempt(self, work: Callable[[], object]) -> None:
        if self.failure is not None:
            return
        try:
            work()
        except (OSError, ValueError) as problem:  # a closed stream is a ValueError
            self.failure = problem
            self._drop()

    def _drop(self) -> None:
        """Lead what is still waiting nowhere, since the interpreter writes it at its end."""
        with suppress(OSError, ValueError):
            nowhere, descriptor = os.open(os.devnull, os.O_WRONLY), self._stream.fileno()
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


@contextmanager
def lasting_streams() -> Iterator[Stream]:
    """Standard output and error that never fail, for as long as a command runs; yields standard output."""
    before = sys.stdout, sys.stderr
    streams = [Stream(each if each is not None else open(os.devnull, "w", encoding="utf-8")) for each in before]  # noqa: SIM115 (they stay open)
    for stream in streams:
        if isinstance(stream._stream, io.TextIOWrapper):
            stream._stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = (cast(TextIO, stream) for stream in streams)
    try:
        yield streams[0]
    finally:
        for stream in streams:
            stream.flush()
        sys.stdout, sys.stderr = before
