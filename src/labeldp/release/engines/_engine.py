"""Engines: where the parts of a table are worked on, in this process or by workers.

A worker gets a function of this package and its argument as bytes, after what it must agree on, and returns a value or
the text of an error: what an engine logs, retries or stores of a task never holds more than the argument and the value.
"""

from __future__ import annotations

import pickle
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa

from labeldp import errors
from labeldp._progress import Progress
from labeldp._random_words import identifier
from labeldp.errors import EngineError, LabelDPError

T = TypeVar("T")
R = TypeVar("R")
#: Receives the number of rows that were done since the last call.
Tick = Callable[[int], None]
Work = Callable[[T, Tick], R]
#: What a report's name of a pass ends with where parts are counted, rather than rows.
PARTS = " parts"

_PROBE = ".labeldp-probe-"
#: Tasks of a pass beyond which each has several parts, and the most parts of one: what fails is begun again as a whole,
#: and the results of a task are in memory together.
_TASKS, _MOST_PARTS = 1000, 16


@dataclass
class Count:
    """A number of rows, which grows as parts are done."""

    done: int = 0

    def add(self, rows: int) -> int:
        """Add rows, and return their number so far."""
        self.done += rows
        return self.done


@runtime_checkable
class Executor(Protocol):
    """Anything with the ``submit`` of ``concurrent.futures``, such as a process pool or a ``distributed.Client``."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """A future, whose ``result()`` is that of the function."""


class Engine(ABC):
    """A way of working on parts.

    Attributes:
        shared: True if workers are other processes, which read files that this one writes.
        remote: True if workers may be on other machines, so that only they can flush what they write.
    """

    shared: bool
    remote: bool

    @abstractmethod
    def run(self, work: Work[T, R], items: Sequence[T], tick: Tick) -> Iterator[R]:
        """The results of ``work`` for each item, in order; ``tick`` receives rows as they are done.

        Raises:
            EngineError: The engine failed, or a worker cannot do this work.
        """

    def check(self, folder: Path) -> None:
        """Refuse workers that cannot read what this process writes to a folder.

        Raises:
            EngineError: A worker cannot read it, hard links do not work there, or it has other versions.
        """
        if not self.shared:
            return
        token, path = identifier(), folder / f"{_PROBE}{identifier()}"
        linked = path.with_name(f"{path.name}-link")
        try:
            path.write_text(token, encoding="utf-8")
            linked.hardlink_to(path)
            list(self.run(_read_probe, [(linked, token)], _nothing))
        except OSError as problem:
            if isinstance(problem, LabelDPError):
                raise
            raise EngineError(
                f"expected a shared folder with hard links for the output, found {folder}: {problem.strerror}; release "
                "without an engine, or elsewhere"
            ) from None
        finally:
            path.unlink(missing_ok=True)
            linked.unlink(missing_ok=True)


class InProcess(Engine):
    """Parts one after the other, in this process."""

    shared = remote = False

    def run(self, work: Work[T, R], items: Sequence[T], tick: Tick) -> Iterator[R]:
        """The results of ``work`` for each item."""
        return (work(item, tick) for item in items)


@dataclass(frozen=True)
class Versions:
    """Versions that decide the bytes of a file."""

    labeldp: str
    python: str
    pyarrow: str
    numpy: str

    @classmethod
    def here(cls) -> Versions:
        """The versions in this process."""
        from labeldp._version import __version__  # noqa: PLC0415 (reading it takes as long as a small command)

        return cls(__version__, platform.python_version(), pa.__version__, np.__version__)

    def __str__(self) -> str:
        return f"labeldp {self.labeldp}, Python {self.python}, pyarrow {self.pyarrow}, numpy {self.numpy}"


def reported(
    engine: Engine, work: Work[T, R], items: Sequence[T], report: Progress, name: str, rows: int
) -> Iterator[R]:
    """The results of ``work`` for each part, of so many rows in all (0 if unknown), with the progress of the pass."""
    done = Count()
    report(name, 0, rows)
    for number, found in enumerate(engine.run(work, items, lambda more: report(name, done.add(more), rows)), 1):
        if len(items) > 1:
            report(f"{name}{PARTS}", number, len(items))
        yield found


def calls_of(work: Work[T, R], items: Sequence[T]) -> Iterator[tuple[Versions, bytes]]:
    """Calls as workers get them, each with one item; of many items, with several."""
    size = min(-(-len(items) // _TASKS), _MOST_PARTS)
    for low in range(0, len(items), size or 1):
        yield Versions.here(), pickle.dumps((work, items[low : low + size]))


def perform(versions: Versions, call: bytes) -> tuple[Any, str, str]:
    """Work on a call, on a worker: its values, or the name and the text of an error.

    Nothing is raised here: an engine logs what a task raises, and runs it again.
    """
    if versions != Versions.here():
        return None, EngineError.__name__, f"expected workers with {versions}, found one with {Versions.here()}"
    try:
        work, items = pickle.loads(call)  # noqa: S301 (from the driver, whose user is this one)
        return [work(item, _nothing) for item in items], "", ""
    except LabelDPError as problem:
        return None, type(problem).__name__, str(problem)
    except OSError as problem:
        why = problem.strerror or type(problem).__name__
        return None, EngineError.__name__, f"expected workers that can read and write all files, found: {why}"
    except Exception as problem:  # noqa: BLE001 (its text may quote a label)
        return None, EngineError.__name__, f"expected a worker to finish its part, found {type(problem).__name__}"


def values_of(outcome: tuple[Any, str, str], tick: Tick) -> Iterator[Any]:
    """The values of an outcome, whose rows are reported.

    Raises:
        LabelDPError: The error of a worker.
    """
    values, name, message = outcome
    if name:
        kind = getattr(errors, name, EngineError)
        raise kind(message)
    for value in values:
        tick(int(getattr(value, "rows", 0)))
        yield value


def lost(problem: BaseException) -> EngineError:
    """The error for an engine that failed by itself, in words of ours: its own may quote arguments."""
    return EngineError(
        f"expected the engine to finish every part, found {type(problem).__name__}: workers died, were not reached or "
        "have no labeldp; nothing was published, so the same command can be given again"
    )


def _nothing(_: int) -> None:
    """Rows that nobody counts."""


def _read_probe(probe: tuple[Path, str], _: Tick) -> None:
    """Read a file of the driver, on a worker."""
    path, token = probe
    try:
        found = path.read_text(encoding="utf-8")
    except OSError:
        found = ""
    if found != token:
        raise EngineError(
            f"expected a folder that all workers share, found that a worker cannot read what is written to "
            f"{path.parent}; put table and output on a shared disk, under the same path everywhere"
        )
