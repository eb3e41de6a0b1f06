"""Dask: parts as tasks of a cluster, or of one that starts for the release on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from labeldp._extras import require_extra
from labeldp.errors import EngineError
from labeldp.release.engines._addresses import PATIENCE, check_listening
from labeldp.release.engines._submitted import Submitted

_EXAMPLE = "dask:tcp://host:8786"
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
        EngineError: There is no scheduler at the address.
        InputError: It is no address.
        MissingExtraError: dask.distributed is not installed.
    """
    require_extra("dask", "dask", "distributed")
    import distributed  # noqa: PLC0415 (an extra)

    if address and not address.isdecimal():
        if address.partition("://")[0] not in _OTHERS:
            check_listening([address], "a Dask scheduler", _EXAMPLE)
        try:
            client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError, TimeoutError):
            raise EngineError(
                f"expected a Dask scheduler at {address!r}, found none within {PATIENCE:g} seconds; pass the address "
                f"that 'dask scheduler' prints, such as {_EXAMPLE}"
            ) from None
        with client:
            yield Submitted(DaskClient(client))
        return
    count = int(address) if address else None
    with (
        distributed.LocalCluster(
            n_workers=count, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield Submitted(DaskClient(client))
