"""The draw of released labels: chunks of rows in threads, each with its own place in the stream of words."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from labeldp._random_words import Words
from labeldp._shapes import Int
from labeldp._threads import over_chunks
from labeldp.privacy.channels import Channel, WordsError, count_strangers, law_of, row_arrays

#: Words of a chunk: two megabytes, so that the interpreter's overhead per chunk is small.
_WORDS_PER_CHUNK = 1 << 18
#: Changes with the meaning of derived words: what was drawn under another tag is never drawn again.
_FORMAT = "labeldp batch 2"
#: The place in the stream of further words of the first row, beyond the usual words of every row.
_FURTHER = 1 << 96
#: Rows of a chunk whose codes are checked.
_CODES_PER_CHUNK = 1 << 20


def draw(channel: Channel, codes: Int[np.ndarray, "n"], words: Words, first_row: int = 0) -> np.ndarray:
    """Released labels for class codes.

    The row ``i`` uses the words ``(first_row + i) * usual_words ..`` of the stream and no other row does, so the
    result does not depend on chunks or threads. Further words lie in order behind those of all rows, and are made where
    usual words do not suffice.

    Args:
        channel: The channel of these rows.
        codes: Class codes of the true labels, shape (n,).
        words: A stream of random words.
        first_row: The place of the first row in the stream.
    """
    check_codes(codes, channel.classes)
    if any(len(values) != codes.size for values in row_arrays(channel).values()):
        raise ValueError("expected a channel of as many rows as there are codes")
    usual, released = channel.usual_words, channel.empty(codes.size)

    def block(rows: slice, width: int, start: int) -> np.ndarray:
        count = rows.stop - rows.start
        return words.block(start + (first_row + rows.start) * width, count * width).reshape(count, width)

    def place(rows: slice) -> None:
        part, first = channel.take(rows), block(rows, usual, 0)
        try:
            part.draw_into(released[rows], codes[rows], first)
        except WordsError:
            further = block(rows, channel.words_per_row - usual, _FURTHER)
            part.draw_into(released[rows], codes[rows], np.hstack([first, further]))

    over_chunks(place, codes.size, max(1, _WORDS_PER_CHUNK // usual))
    return released


def check_codes(codes: Int[np.ndarray, "n"], classes: int) -> None:
    """Refuse codes that no class has, before anything is drawn."""

    def check(rows: slice) -> None:
        if count_strangers(codes[rows], classes):
            raise ValueError("expected codes of declared classes")

    over_chunks(check, codes.size, _CODES_PER_CHUNK)


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
