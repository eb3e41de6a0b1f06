"""The draw of released labels: chunks of rows in threads, each with its own place in the stream of words."""

from __future__ import annotations

import numpy as np

from labeldp._random_words import Words
from labeldp._shapes import Int
from labeldp._threads import over_chunks
from labeldp.privacy.channels import Channel, row_arrays

#: Words of a chunk: two megabytes, so that the interpreter's overhead per chunk is small.
_WORDS_PER_CHUNK = 1 << 18


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
