"""Values of released labels that a loss combines with a network's outputs, dense only per batch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import numpy as np

from labeldp._shapes import Float32, Int
from labeldp.learning.losses import Latent, Method, plain_numbers, row_loss
from labeldp.privacy import Interval
from labeldp.privacy.channels import Channel, NumberChannel, pack, row_arrays
from labeldp.release import Release

NetworkMethod = Literal["likelihood", "unbiased", "posterior", "plain"]
NETWORK_METHODS: tuple[NetworkMethod, ...] = ("likelihood", "unbiased", "posterior", "plain")
#: The methods whose values are likelihoods.
LIKELIHOODS = ("likelihood", "posterior")

#: Most entries of a table of all released classes, and most classes of sets with a table.
_MOST_ENTRIES, _MOST_SET = 1 << 22, 12
#: Larger likelihoods, beside others of 1, are those of labels as good as public; single precision ends at 3e38.
_LARGEST = 1e30


@dataclass(frozen=True, eq=False)
class RowValues:
    """The values of released labels that a loss combines with a network's outputs.

    Attributes:
        method: Kind of loss.
        correction: Share of the correction, with ``"unbiased"``.
        around: True if labels are normal around predictions.
    """

    method: NetworkMethod
    correction: float
    around: bool

    def is_squared(self, release: Release) -> bool:
        """True if the values are numbers, whose squared difference from predictions is the loss."""
        return isinstance(release.space, Interval) and self.method not in LIKELIHOODS

    def __call__(self, release: Release) -> Float32[np.ndarray, "n c"]:
        """Numbers; or the likelihood of each class or cell, up to a factor for each row; or targets."""
        if self.is_squared(release):
            values = (plain_numbers(release) if self.method == "plain" else release.numbers())[:, None]
        elif self.around:
            values = Latent.of(release).likelihood()
        elif self.method in LIKELIHOODS and not release.is_public:
            values = release.likelihood()
        else:
            method: Method = "unbiased" if self.method == "unbiased" else "plain"
            values = row_loss(release, method, self.correction).dense(release.space.size)
        most = _LARGEST if self.method in LIKELIHOODS else np.inf
        return np.asarray(np.minimum(values, most), dtype=np.float32)

    def table(self, release: Release) -> Float32[np.ndarray, "m c"] | None:
        """The values of each possible released label, by the first word of its target.

        None if rows have parameters of their own, or there are too many labels.
        """
        labels = None if row_arrays(release.channel) else _every_label(release.channel)
        return None if labels is None else self(dataclasses.replace(release, codes=labels))


def _every_label(channel: Channel) -> np.ndarray | None:
    """Every released label of a channel that is the same for all rows, in the order of the words of targets."""
    if isinstance(channel, NumberChannel):
        return np.arange(len(channel.steps[0]), dtype=np.int16)
    if channel.form == "class":
        return np.arange(channel.classes, dtype=np.int32) if channel.classes**2 <= _MOST_ENTRIES else None
    if channel.form == "set" and channel.classes <= _MOST_SET:
        return pack((np.arange(1 << channel.classes)[:, None] >> np.arange(channel.classes)) & 1 == 1)
    try:
        return channel.table().outcomes if channel.form == "index" else None
    except ValueError:  # too many to write out
        return None


def rows_of(release: Release, rows: slice | Int[np.ndarray, "m"]) -> Release:
    """Some rows of a release, with the certificate of the whole."""
    return dataclasses.replace(release, codes=release.codes[rows], channel=release.channel.take(rows), identity=None)
