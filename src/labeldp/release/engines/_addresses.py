"""Addresses of clusters, tried before a client that would wait for one, and log what it tried."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from labeldp.errors import EngineError, InputError

#: Seconds to wait for an answer of a host.
PATIENCE = 10.0


def check_listening(addresses: Sequence[str], what: str, example: str) -> None:
    """Refuse addresses at none of which anything listens.

    Args:
        addresses: Alternatives, each ``host:port`` with or without a protocol.
        what: The name of what should be there.
        example: An address as it should look.

    Raises:
        EngineError: Nothing listens at any of them.
        InputError: One is no address.
    """
    places = [_host_and_port(address, what, example) for address in addresses]
    reasons = list(filter(None, (_closed(*place) for place in places)))
    if len(reasons) == len(places):
        raise EngineError(
            f"expected {what} at {','.join(addresses)!r}, found none: {reasons[0]}; check that it runs, and its "
            f"address, such as {example}"
        )


def _host_and_port(address: str, what: str, example: str) -> tuple[str, int]:
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise InputError(f"expected the address of {what}, such as {example}, found {address!r}")
    return host, port


def _closed(host: str, port: int) -> str:
    """The reason for which nothing answers at a port; empty if something does."""
    try:
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except OSError as problem:
        return problem.strerror or f"no answer within {PATIENCE:g} seconds"
    return ""
