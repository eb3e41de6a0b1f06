"""Released labels as rows of whole numbers, which any loader of batches collates, shuffles and moves."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from labeldp._shapes import Int32, Shaped
from labeldp.errors import InputError
from labeldp.privacy import LabelSpace
from labeldp.privacy.channels import Channel, law_of, row_arrays
from labeldp.release.folder import Certificate, digest

_WORD = np.dtype("<i4")
_MOST = np.iinfo(np.int32).max


def mark_of(channel: Channel, space: LabelSpace, certificate: Certificate | None) -> int:
    """A public number of 31 bits that a release shares with its parts, and with another one by accident alone.

    It follows from the identifier in the certificate, the law of the channel and the label space; labels that were
    declared public have no identifier, and their law and space decide.
    """
    about = (certificate and certificate.release, law_of(channel), space.describe())
    return int(digest(json.dumps(about, sort_keys=True).encode())[:8], 16) & _MOST


def to_words(mark: int, codes: np.ndarray, channel: Channel) -> Int32[np.ndarray, "n w"]:
    """The mark, the released label and the row's parameters of the channel, in 32-bit words for each row."""
    columns = [np.broadcast_to(np.int32(mark), (len(codes), 1)), *map(_words, (codes, *row_arrays(channel).values()))]
    return np.concatenate(columns, axis=1)


def from_words(words: Int32[np.ndarray, "n w"], codes: np.ndarray, channel: Channel) -> tuple[np.ndarray, Channel]:
    """Released labels and their channel from words, in the types of other labels and of their channel."""
    arrays, place = {"": codes, **row_arrays(channel)}, 1
    found: dict[str, Any] = {}
    for name, like in arrays.items():
        width = _width(like)
        found[name] = _values(words[:, place : place + width], like)
        place += width
    return found.pop(""), channel.with_rows(**found)


def _is_number(values: Shaped[np.ndarray, "n ..."]) -> bool:
    return values.ndim == 1 and values.dtype.kind in "iu"


def _width(values: Shaped[np.ndarray, "n ..."]) -> int:
    """Number of words of a row: one for a whole number, which any reader knows, else as many as its bytes need."""
    return 1 if _is_number(values) else -(-values[:0].dtype.itemsize * int(np.prod(values.shape[1:])) // _WORD.itemsize)


def _words(values: Shaped[np.ndarray, "n ..."]) -> Int32[np.ndarray, "n w"]:
    if _is_number(values):
        if values.dtype.itemsize >= _WORD.itemsize and values.size and (values.min() < 0 or values.max() > _MOST):
            raise InputError(f"expected parameters of rows from 0 to {_MOST} for targets, found others")
        return values.astype(np.int32)[:, None]
    bytes_of_row = _bytes(values)
    padded = np.zeros((len(values), _width(values) * _WORD.itemsize), dtype=np.uint8)
    padded[:, : bytes_of_row.shape[1]] = bytes_of_row
    return padded.view(_WORD).astype(np.int32, copy=False)


def _values(words: Int32[np.ndarray, "n w"], like: Shaped[np.ndarray, "m ..."]) -> np.ndarray:
    if _is_number(like):
        return words[:, 0].astype(like.dtype)
    row = like.dtype.itemsize * int(np.prod(like.shape[1:]))
    found = np.ascontiguousarray(_bytes(words.astype(_WORD, copy=False))[:, :row])
    return found.view(like.dtype).reshape(len(words), *like.shape[1:])


def _bytes(values: Shaped[np.ndarray, "n ..."]) -> np.ndarray:
    row = values.dtype.itemsize * int(np.prod(values.shape[1:]))
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(len(values), row)
