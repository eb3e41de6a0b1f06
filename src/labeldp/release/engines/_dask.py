"""Dask: parts as tasks of a cluster, or of one that starts for the release on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from labeldp._extras import require_extra
from labeldp.errors import EngineError
from labeldp.release.engines._addresses import check_listening
from labeldp.release.engines._submitted import Submitted

_EXAMPLE = "dask:tcp://host:8786"
#: Dask's setting of the time that a connection may take.
_LIMIT = "distributed.comm.timeouts.connect"
#: Protocols of other networks than TCP, whose addresses only Dask can try.
_OTHERS = ("inproc", "ucx", "ucxx")
#: Times that the scheduler may lose a worker while it works on one part.
_RETRIES = 3


class DaskClient:
    """A client whose tasks are never taken for earlier ones, and are given to another worker if theirs dies."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def submit(self, function: Any, /, *arguments: Any) -> Any:
        """A future of the client."""
        return self._client.submit(function, *arguments, pure=False, retries=_RETRIES)


@contextmanager
def dask_engine(address: str) -> Iterator[Submitted]:
    """An engine on the scheduler at an address; without one, or with a number of workers, on a new local cluster.

    Raises:
        EngineError: There is no scheduler at the address, or it has no workers.
        InputError: It is no address.
        MissingExtraError: dask.distributed is not installed.
    """
    require_extra("dask", "dask", "distributed")
    import distributed  # noqa: PLC0415 (an extra)

    if address and not address.isdecimal():
        if address.partition("://")[0] not in _OTHERS:
            check_listening([address], "a Dask scheduler", _EXAMPLE)
        _check_scheduler(address)
        with distributed.Client(address, set_as_default=False) as client:
            _check_workers(client, address)
            yield Submitted(DaskClient(client))
        return
    count = int(address) if address else None
    with (
        distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            dashboard_address=None,
            scheduler_kwargs={
                "dashboard_address": "127.0.0.1:0"
            },  # a free port: another cluster may have the usual one
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield Submitted(DaskClient(client))


def _check_scheduler(address: str) -> None:
    """Refuse an address at which no scheduler answers, before a client that logs what it finds and ends late.

    Dask's own setting is the limit, from here to the client's end.
    """
    import asyncio  # noqa: PLC0415 (no other engine needs it)

    seconds = _limit()
    with ThreadPoolExecutor(1) as thread:  # the caller's may have an event loop already
        try:
            found = f"a {thread.submit(asyncio.run, _kind_of(address, seconds)).result()}"
        except TimeoutError:
            found = f"no answer within {seconds:g} seconds"
        except Exception:  # noqa: BLE001 (whatever the bytes of another protocol lead to)
            found = "something else"
    if found != "a Scheduler":
        raise EngineError(
            f"expected a Dask scheduler at {address!r}, found {found}; pass the address that 'dask scheduler' prints, "
            f"such as {_EXAMPLE} (Dask's setting {_LIMIT} is the time that it has to answer)"
        )


def _check_workers(client: Any, address: str) -> None:
    """Refuse a cluster without workers, on which a release would wait for ever."""
    seconds = _limit()
    waiting = client.submit(int, pure=False)  # a cluster that grows with its tasks starts a worker for it
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError:
        raise EngineError(
            f"expected workers of the Dask scheduler at {address!r}, found none within {seconds:g} seconds; start some "
            f"with 'dask worker {address}' (Dask's setting {_LIMIT} is the time that they have)"
        ) from None
    finally:
        waiting.cancel()


def _limit() -> float:
    """The seconds of Dask's setting."""
    import dask  # noqa: PLC0415 (an extra)
    from dask.utils import parse_timedelta  # noqa: PLC0415

    return float(parse_timedelta(dask.config.get(_LIMIT)))


async def _kind_of(address: str, seconds: float) -> str:
    """What answers at an address, in Dask's protocol."""
    import asyncio  # noqa: PLC0415 (no other engine needs it)

    import distributed  # noqa: PLC0415 (an extra)

    known = distributed.Security().get_connection_args("client")
    async with distributed.rpc(address, timeout=seconds, connection_args=known) as remote:
        return str((await asyncio.wait_for(remote.identity(), seconds))["type"])
