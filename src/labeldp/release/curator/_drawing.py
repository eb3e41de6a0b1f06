"""The rows of one request to a curator, drawn batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from labeldp._random_words import Words, WordSource
from labeldp.mechanisms import draw, draw_context
from labeldp.mechanisms.randomizers import expectation
from labeldp.mechanisms.resampling import DoubleResponse, FeatureLaw
from labeldp.release.curator._sink import Piece, Pieces
from labeldp.release.curator._source import Batch, BatchChannels, Places, Source
from labeldp.release.released import Origin


@dataclass(frozen=True)
class DrawnFeatures:
    """The distribution of released features, their draw for a batch, and whether its random source was secure."""

    law: FeatureLaw
    draw: Callable[[Batch], pa.Table]
    private: bool

    @classmethod
    def none(cls, law: FeatureLaw, words: Words) -> DrawnFeatures:
        """Rows without features."""
        return cls(law, lambda _: pa.table({}), words.private)

    @classmethod
    def resampled(
        cls, law: FeatureLaw, response: DoubleResponse, original: Callable[[Batch], pa.Table], words: Words
    ) -> DrawnFeatures:
        """Features that a response resamples for some rows, from a function of the original ones of a batch."""
        return cls(law, lambda batch: response.draw(original(batch), words, batch.first), words.private)


@dataclass(frozen=True)
class Drawing(Pieces):
    """The rows of one request, which are drawn batch by batch.

    Attributes:
        source: The source of the labels.
        places: The rows.
        columns: The columns of a table that are read beside the label.
        channels: The channel of each batch.
        words: The source of words.
        release: The name of the release, which goes into derived words.
        features: The features that are resampled, if any.
        origin: The session of the curator and the rows that were charged, of labels in memory.
    """

    source: Source
    places: Places
    columns: tuple[str, ...]
    channels: BatchChannels
    words: WordSource
    release: str
    features: DrawnFeatures | None = None
    origin: Origin | None = None

    def __iter__(self) -> Iterator[Piece]:
        """Draw all rows."""
        for batch in self.source.batches(self.places, self.columns):
            drawn = self.features.draw(batch) if self.features else None  # before the labels: a generator may fail
            channel, mass = self.channels.of(batch)
            words = self.words.of_batch(partial(draw_context, self.release, batch.first, channel, batch.codes))
            released = batch.codes if self.channels.drawn else draw(channel, batch.codes, words, batch.first)
            expects = expectation(channel, mass)
            yield Piece(released, channel, expects, drawn, batch.columns, batch.identity, self.origin)

    def split(self, folder: Path) -> Sequence[Drawing]:
        """The same of each part of the source; what is large is shared in a folder."""
        channels = self.channels.stored(folder)
        return [
            replace(
                self,
                source=part,
                places=slice(0, part.rows),
                channels=channels.of_rows(first, part.rows),
                origin=None,
            )
            for first, part in self.source.split()
        ]
