"""Spark: parts as tasks over an RDD of calls; Spark itself reads and writes no table."""

from __future__ import annotations

import os
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

from labeldp._extras import require_extra
from labeldp.errors import EngineError, InputError
from labeldp.release.engines._addresses import check_listening
from labeldp.release.engines._engine import Engine, R, T, Tick, Work, calls_of, lost, perform, values_of

#: Jobs at a time: while the last parts of one are worked on, the free workers begin the next.
_JOBS = 2
#: Tasks of one Spark job for each worker: the progress of its parts is known at its end.
_TASKS_OF_A_WORKER = 2
_OPTIONS = {
    "spark.app.name": "labeldp",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
}
_EXAMPLE = "spark:spark://host:7077"
_STANDALONE = "spark://"
#: Spark's setting of the time that executors have to come.
_LIMIT = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_PATIENCE = "30s"
_LOCAL = "local"
#: Beginnings of masters that only Spark can try.
_OTHERS = (_LOCAL, "yarn", "k8s://", "mesos://")
_LOOPBACK = "127.0.0.1"
_OF_THIS_MACHINE = {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
#: The master of a local run: so many failures of one part are allowed.
_FAILURES = 4


class Spark(Engine):
    """Parts as tasks of a Spark context."""

    shared = remote = True

    def __init__(self, context: Any) -> None:
        self._context = context

    def run(self, work: Work[T, R], items: Sequence[T], tick: Tick) -> Iterator[R]:
        """The results of ``work`` for each item, one job of parts after the other."""
        try:
            size = _TASKS_OF_A_WORKER * max(1, self._context.defaultParallelism)
        except Exception as problem:  # noqa: BLE001 (of a context that Spark stopped)
            raise lost(problem) from None
        calls = calls_of(work, items)
        waiting: deque[Future[list[Any]]] = deque()
        with ThreadPoolExecutor(_JOBS) as threads:
            try:
                while True:
                    while len(waiting) < _JOBS and (job := list(islice(calls, size))):
                        waiting.append(threads.submit(self._collected, job))
                    if not waiting:
                        return
                    for outcome in waiting.popleft().result():
                        yield from values_of(outcome, tick)
            finally:
                threads.shutdown(wait=True, cancel_futures=True)

    def _collected(self, calls: list[tuple[Any, bytes]]) -> list[Any]:
        """The outcomes of the calls of one job."""
        try:
            return list(self._context.parallelize(calls, len(calls)).map(_perform).collect())
        except Exception as problem:  # noqa: BLE001 (Spark's own, which quotes its log)
            raise lost(problem) from None


def _perform(call: tuple[Any, bytes]) -> Any:
    return perform(*call)


@contextmanager
def spark_engine(master: str) -> Iterator[Spark]:
    """An engine on a Spark master; on processes of this machine by default, or with a number of them.

    Raises:
        EngineError: There is no such master, it has no workers, or there is no Java.
        InputError: It is no master.
        MissingExtraError: pyspark is not installed.
    """
    require_extra("spark", "pyspark")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    alone = not master or master.isdecimal()
    where = f"local[{master or os.cpu_count()},{_FAILURES}]" if alone else master
    if where.startswith(_STANDALONE):
        check_listening(where.removeprefix(_STANDALONE).split(","), "a Spark master", _EXAMPLE)
    elif not where.startswith(_OTHERS):
        raise InputError(f"expected a Spark master, such as {_EXAMPLE}, found {where!r}")
    if alone:
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    context = None
    with warnings.catch_warnings(), suppress(Exception):  # Java's own, without a word of what to do
        warnings.simplefilter("ignore")  # of the pandas that it would like, and that is not used here
        import pyspark  # noqa: PLC0415 (an extra)

        options = _OPTIONS | (_OF_THIS_MACHINE if alone else {})
        conf = pyspark.SparkConf().setMaster(where).setAll(list(options.items()))
        context = pyspark.SparkContext(conf=conf)
    try:
        if context is None or context._jsc.sc().isStopped():  # by Spark itself, after a minute with another service
            raise EngineError(
                f"expected a Spark master at {where!r}, and Java, found no way to start; check the address, such "
                f"as {_EXAMPLE}, and that 'java -version' answers"
            )
        if not where.startswith(_LOCAL):
            _check_workers(context, where)
        yield Spark(context)
    finally:
        if context is not None:
            context.stop()


def _check_workers(context: Any, master: str) -> None:
    """Refuse a cluster without workers, on which a release would wait for ever.

    Raises:
        EngineError: None has done a task in time, though one waits, or the task failed.
    """
    seconds = context._jsc.sc().conf().getTimeAsSeconds(_LIMIT, _PATIENCE)
    with ThreadPoolExecutor(1) as thread:
        trial = thread.submit(context.parallelize([0], 1).count)  # some clusters start workers for tasks alone
        try:
            trial.result(seconds)
        except TimeoutError:
            context.cancelAllJobs()
            raise EngineError(
                f"expected workers of the Spark master at {master!r}, found none that did a task within {seconds} "
                f"seconds; start some with 'start-worker.sh {master}', or stop what has all of their cores (Spark's "
                f"setting {_LIMIT} is the time that they have)"
            ) from None
        except Exception as problem:  # noqa: BLE001 (Spark's own, which quotes its log)
            raise lost(problem) from None
