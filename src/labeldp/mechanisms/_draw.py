"""The draw of released labels: chunks of rows in threads, each with its own place in the stream of words."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from labeldp._random_words import Words
from labeldp._shapes import Int
from labeldp._threads import over_chunks
from labeldp.privacy.channels import Channel, law_of, row_arrays

#: Words of a chunk: two megabytes, so that the interpreter's overhead per chunk is small.
_WORDS_PER_CHUNK = 1 << 18
#: Changes with the meaning of derived words: what was drawn under another tag is never drawn again.
_FORMAT = "labeldp batch 1"


def draw(channel: Channel, codes: Int[np.ndarray, "n"], words: Words, first_row: int = 0) -> np.ndarray:
    """Released labels for class codes.

    The row ``i`` uses the words ``(first_row + i) * words_per_row ..`` of the stream and no other row does, so the
    result does not depend on chunks or threads.

    Args:
        channel: The channel of these rows.
        codes: Class codes of the true labels, shape (n,).
        words: A stream of random words.
        first_row: The place of the first row in the stream.
    """
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < channel.classes:
        raise ValueError("expected codes of declared classes")
    if any(len(values) != codes.size for values in row_arrays(channel).values()):
        raise ValueError("expected a channel of as many rows as there are codes")
    per_row = channel.words_per_row

    def chunk(rows: slice) -> np.ndarray:
        count = rows.stop - rows.start
        block = words.block((first_row + rows.start) * per_row, count * per_row).reshape(count, per_row)
        return channel.take(rows).draw(codes[rows], block)

    shape = chunk(slice(0, 0))
    released = np.empty((codes.size, *shape.shape[1:]), dtype=shape.dtype)

    def place(rows: slice) -> None:
        released[rows] = chunk(rows)

    over_chunks(place, codes.size, max(1, _WORDS_PER_CHUNK // per_row))
    return released


def draw_context(release: str, first_row: int, channel: Channel, codes: Int[np.ndarray, "n"]) -> bytes:
    """All that a draw depends on but its words, for words that follow from it; private, since it depends on labels.

    Two batches have the same context only if they have the same labels, in the same place of the same release, and the
    same channel with the same parameters of each row: the digest covers the length of every array before its bytes.
    """
    digest = hashlib.sha256(json.dumps(law_of(channel), sort_keys=True).encode())
    for name, values in {"codes": codes, **row_arrays(channel)}.items():
        digest.update(json.dumps([name, values.dtype.str, values.shape]).encode())
        digest.update(np.ascontiguousarray(values).data)
    return json.dumps([_FORMAT, release, first_row, digest.hexdigest()]).encode()
