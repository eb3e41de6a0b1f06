"""Engines by their name on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType

from labeldp._checks import nearest
from labeldp.errors import InputError
from labeldp.release.engines._dask import dask_engine
from labeldp.release.engines._engine import Engine, InProcess
from labeldp.release.engines._spark import spark_engine
from labeldp.release.engines._submitted import Processes

_CHOICES = "processes[:N], dask[:ADDRESS] or spark[:MASTER]"


@contextmanager
def _alone(_: str) -> Iterator[Engine]:
    yield InProcess()


@contextmanager
def _processes(count: str) -> Iterator[Engine]:
    if count and not count.isdecimal():
        raise InputError(f"expected a number of processes, such as processes:4, found {count!r}")
    engine = Processes(int(count) if count else None)
    try:
        yield engine
    finally:
        engine.close()


_ENGINES: Mapping[str, Callable[[str], AbstractContextManager[Engine]]] = MappingProxyType(
    {"": _alone, "processes": _processes, "dask": dask_engine, "spark": spark_engine}
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
