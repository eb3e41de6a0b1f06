"""Serialisation of channels for certificates.

Integers are written as strings, since many readers of JSON keep only 53 bits. Arrays have one entry for each row and
are stored as columns beside the released labels, under the names of their fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from labeldp.privacy._kinds import Kinds
from labeldp.privacy.channels._channel import Channel, row_arrays

#: The final channels by kind: those of this package's files, and those of other distributions.
CHANNELS: Kinds[Channel] = Kinds(Channel, "kind", "labeldp.privacy.channels", "kind of channel")


def law_of(channel: Channel) -> dict[str, Any]:
    """The integers of a channel, the names of its arrays by row, and the distribution that a foreign kind is from."""
    fields = {field.name: getattr(channel, field.name) for field in dataclasses.fields(channel)}
    law = {name: _serialised(value) for name, value in fields.items() if not isinstance(value, np.ndarray)}
    origin = CHANNELS.distribution(channel.kind)
    where = {} if origin is None else {"package": origin}
    return {"kind": channel.kind, **where, **law, "by_row": list(row_arrays(channel))}


def channel_of(law: Mapping[str, Any], arrays: Mapping[str, Any] | None = None) -> Channel:
    """The channel of serialised integers, with its arrays by row; without them, a channel of no rows and the same odds.

    Raises:
        InputError: The kind is unknown or incomplete; the message names it, and the distribution that would know it.
        ValueError: The integers do not form a channel of that kind.
    """
    fields = dict(law)
    name, by_row = fields.pop("kind", None), fields.pop("by_row", [])
    kind = CHANNELS.find(str(name), fields.pop("package", None))
    if arrays is None:
        arrays = {name: _no_rows(name, int(fields["classes"])) for name in by_row}
    if set(by_row) != set(arrays):
        raise ValueError(f"expected a law with its columns {by_row}, found the columns {sorted(arrays)}")
    names = {field.name for field in dataclasses.fields(kind)}
    if set(fields) | set(arrays) != names:
        raise ValueError(f"expected the fields {sorted(names)} in a law of kind {name!r}")
    return kind(**{name: _parsed(value) for name, value in fields.items()}, **arrays)


def _no_rows(name: str, classes: int) -> np.ndarray:
    """An array by row of length zero: candidates and first classes are packed sets, others one number for each row."""
    packed = name in ("candidates", "firsts")
    return np.empty((0, (classes + 7) // 8), dtype=np.uint8) if packed else np.empty(0, dtype=np.int32)


def _serialised(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_serialised(item) for item in value]
    return law_of(value) if isinstance(value, Channel) else str(int(value))


def _parsed(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_parsed(item) for item in value)
    return channel_of(value) if isinstance(value, dict) else int(value)
