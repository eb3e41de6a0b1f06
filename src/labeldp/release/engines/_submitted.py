"""Engines with the ``submit`` of ``concurrent.futures``: pools of processes, and clients of clusters."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import suppress
from typing import Any

from labeldp.errors import LabelDPError
from labeldp.release.engines._engine import (
    Engine,
    Executor,
    R,
    T,
    Tick,
    Versions,
    Work,
    calls_of,
    lost,
    perform,
    values_of,
)

#: Tasks that are submitted before the result of the first is read; so many results are in memory at most.
_AHEAD = 32
#: Times that a pool is made anew without a part that was finished in between.
_MOST_BREAKS = 3
#: Seconds between two looks of a worker at its driver.
_WATCH = 1.0


class Submitted(Engine):
    """Parts by an executor that a caller made; a part that breaks it fails."""

    shared = remote = True

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def run(self, work: Work[T, R], items: Sequence[T], tick: Tick) -> Iterator[R]:
        """The results of ``work`` for each item, in order."""
        calls = calls_of(work, items)
        waiting: deque[tuple[tuple[Versions, bytes], Any]] = deque()
        breaks = 0
        try:
            while True:
                while len(waiting) < _AHEAD and (call := next(calls, None)) is not None:
                    waiting.append((call, self._submit(call)))
                if not waiting:
                    return
                try:
                    outcome = waiting[0][1].result()
                except BrokenExecutor as problem:
                    breaks += 1
                    if breaks > _MOST_BREAKS or not self._renew():
                        raise lost(problem) from None
                    again = [call for call, _ in waiting]
                    waiting.clear()
                    waiting.extend((call, self._submit(call)) for call in again)
                    continue
                except LabelDPError:
                    raise
                except Exception as problem:  # noqa: BLE001 (every engine has its own errors)
                    raise lost(problem) from None
                waiting.popleft()
                breaks = 0
                yield from values_of(outcome, tick)
        finally:
            for _, future in waiting:
                with suppress(Exception):  # of a cluster that is gone
                    future.cancel()

    def _submit(self, call: tuple[Versions, bytes]) -> Any:
        try:
            return self._executor.submit(perform, *call)
        except BrokenExecutor as problem:
            return _Broken(problem)
        except Exception as problem:  # noqa: BLE001 (a cluster that is gone)
            raise lost(problem) from None

    def _renew(self) -> bool:
        """Replace a broken executor; False if that is its owner's to do."""
        return False


class _Broken:
    """The future of a call that a broken pool did not take."""

    def __init__(self, problem: BrokenExecutor) -> None:
        self._problem = problem

    def result(self) -> Any:
        """Raise the error of the pool."""
        raise self._problem

    def cancel(self) -> None:
        """Do nothing: there is no such call."""


class Processes(Submitted):
    """Parts in processes of this machine; a process that dies is replaced, and its part begun again.

    Args:
        count: Number of processes; by default one for each processor.
    """

    remote = False

    def __init__(self, count: int | None = None) -> None:
        self._count = count or os.cpu_count() or 1
        super().__init__(self._pool())

    def close(self) -> None:
        """End the processes, as soon as they are done with what they do."""
        with suppress(Exception):
            self._executor.shutdown(wait=True, cancel_futures=True)  # type: ignore[attr-defined]

    def _pool(self) -> ProcessPoolExecutor:
        # a fork would copy what this process holds, such as labels and keys
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._count, mp_context=spawn, initializer=_end_with, initargs=(os.getpid(),))

    def _renew(self) -> bool:
        self.close()
        self._executor = self._pool()
        return True


def _end_with(driver: int) -> None:
    """End this process once its driver is gone: a killed one tells nobody, and workers held labels."""

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(_WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
