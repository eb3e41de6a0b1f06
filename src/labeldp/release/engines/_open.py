"""Engines by their name on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType

from labeldp._checks import nearest
from labeldp.errors import EngineError, InputError
from labeldp.release.engines._engine import Engine, Executor, InProcess

_CHOICES = "processes[:N], dask[:ADDRESS] or spark[:MASTER]"


@contextmanager
def _alone(_: str) -> Iterator[Engine]:
    yield InProcess()


@contextmanager
def _processes(count: str) -> Iterator[Engine]:
    if count and not count.isdecimal():
        raise InputError(f"expected a number of processes, such as processes:4, found {count!r}")
    from labeldp.release.engines._submitted import Processes  # noqa: PLC0415 (most commands need no engine)

    engine = Processes(int(count) if count else None)
    try:
        yield engine
    finally:
        engine.close()


def _dask(address: str) -> AbstractContextManager[Engine]:
    from labeldp.release.engines._dask import dask_engine  # noqa: PLC0415 (as above)

    return dask_engine(address)


def _spark(master: str) -> AbstractContextManager[Engine]:
    from labeldp.release.engines._spark import spark_engine  # noqa: PLC0415 (as above)

    return spark_engine(master)


_ENGINES: Mapping[str, Callable[[str], AbstractContextManager[Engine]]] = MappingProxyType(
    {"": _alone, "processes": _processes, "dask": _dask, "spark": _spark}
)


def open_engine(text: str | None) -> AbstractContextManager[Engine]:
    """An engine by its name, and where it is: ``processes:4``, ``dask:tcp://host:8786``; none is this process alone.

    Raises:
        InputError: There is no such engine, or it is to have no workers.
    """
    name, _, where = (text or "").partition(":")
    if name not in _ENGINES or (text is not None and not name):
        hint = nearest(name, [each for each in _ENGINES if each]) or f"; choose {_CHOICES}"
        raise InputError(f"expected the name of an engine, found {text!r}{hint}")
    if where.isdecimal() and not int(where):
        raise InputError(f"expected at least one worker, such as {name}:4, found {text!r}")
    return _ENGINES[name](where)


def engine_of(executor: Engine | Executor | None, alone: Engine) -> Engine:
    """The engine of what a caller passed; ``alone`` without any."""
    if executor is None:
        return alone
    if isinstance(executor, Engine):
        return executor
    if not isinstance(executor, Executor):
        raise EngineError(
            f"expected an executor with submit, as in concurrent.futures, found {type(executor).__name__}; pass a "
            "ProcessPoolExecutor or a distributed.Client"
        )
    from labeldp.release.engines._submitted import Submitted  # noqa: PLC0415 (as above)

    return Submitted(executor)
