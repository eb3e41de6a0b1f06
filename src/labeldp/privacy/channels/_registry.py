"""Serialisation of channels for certificates.

Integers are written as strings, since many readers of JSON keep only 53 bits. Arrays have one entry for each row and
are stored as columns beside the released labels, under the names of their fields.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from labeldp.privacy.channels._bits import BitChannel
from labeldp.privacy.channels._candidate_subsets import CandidateSubsetChannel
from labeldp.privacy.channels._candidates import CandidateChannel
from labeldp.privacy.channels._channel import Channel, row_arrays
from labeldp.privacy.channels._cluster import ClusterChannel
from labeldp.privacy.channels._grid import BinChannel, GridChannel
from labeldp.privacy.channels._grouped import GroupedChannel, GroupedNumberChannel
from labeldp.privacy.channels._response import ResponseChannel
from labeldp.privacy.channels._subset import SubsetChannel

#: Every final class of channels by its kind.
CHANNELS: Mapping[str, type[Channel]] = types.MappingProxyType(
    {
        kind.kind: kind
        for kind in (
            ResponseChannel,
            CandidateChannel,
            CandidateSubsetChannel,
            ClusterChannel,
            SubsetChannel,
            BitChannel,
            GroupedChannel,
            GridChannel,
            BinChannel,
            GroupedNumberChannel,
        )
    }
)


def law_of(channel: Channel) -> dict[str, Any]:
    """The integers of a channel, and the names of its arrays by row."""
    fields = {field.name: getattr(channel, field.name) for field in dataclasses.fields(channel)}
    law = {name: _serialised(value) for name, value in fields.items() if not isinstance(value, np.ndarray)}
    return {"kind": channel.kind, **law, "by_row": list(row_arrays(channel))}


def channel_of(law: Mapping[str, Any], arrays: Mapping[str, Any] | None = None) -> Channel:
    """The channel of serialised integers, with its arrays by row; without them, a channel of no rows and the same odds.

    Raises:
        ValueError: The kind is unknown, or the integers do not form a channel of it.
    """
    fields = dict(law)
    kind, by_row = fields.pop("kind", None), fields.pop("by_row", [])
    if arrays is None:
        arrays = {name: _no_rows(name, int(fields["classes"])) for name in by_row}
    if kind not in CHANNELS or set(by_row) != set(arrays):
        raise ValueError(f"expected a law of a known kind with its columns {by_row}, found kind {kind!r}")
    names = {field.name for field in dataclasses.fields(CHANNELS[kind])}
    if set(fields) | set(arrays) != names:
        raise ValueError(f"expected the fields {sorted(names)} in a law of kind {kind!r}")
    return CHANNELS[kind](**{name: _parsed(value) for name, value in fields.items()}, **arrays)


def _no_rows(name: str, classes: int) -> np.ndarray:
    """An array by row of length zero: candidates are packed sets, all others one number for each row."""
    return np.empty((0, (classes + 7) // 8), dtype=np.uint8) if name == "candidates" else np.empty(0, dtype=np.int32)


def _serialised(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_serialised(item) for item in value]
    return law_of(value) if isinstance(value, Channel) else str(int(value))


def _parsed(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_parsed(item) for item in value)
    return channel_of(value) if isinstance(value, dict) else int(value)
