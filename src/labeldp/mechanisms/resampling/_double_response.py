"""Double randomized response, on the label and on the features, and responses without features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp._random_words import Words
from labeldp._shapes import Bool, Int
from labeldp.errors import InputError, LabelError
from labeldp.mechanisms.randomizers import RandomizedResponse
from labeldp.mechanisms.resampling._feature_law import WORDS, FeatureLaw, Generator
from labeldp.privacy import LabelSpace

#: One word decides if features are resampled, the other for which class.
_WORDS_PER_ROW = 2
_ROWS_PER_CHUNK = 1 << 20


@dataclass(frozen=True, eq=False)
class DoubleResponse:
    """Randomized response on the label, and on the features, which stay or are resampled for a random class.

    The two draws are independent. The output depends on the label through the randomized label, and through the
    features where they are the row's own.

    Args:
        space: The declared label space.
        epsilon: Epsilon of the released label with static features; it sets the probability lambda to resample the
            label, ``k / (exp(epsilon) - 1 + k)``.
        generator: Draws features for a class; it must not be fitted on the released rows.
        replaced: Probability to resample a row's features, above 0 and at most 1; by default lambda, as in the paper.

    Guarantee:
        * epsilon-label-DP with static features.
        * With conditional features: the guarantees ``law(...).conditional``, for the orders whose divergence is known.

    References:
        Busa-Fekete et al. 2023, mechanism 2 and theorem 7.1 (corrected, see ``labeldp.RenyiGuarantee``).

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp import DoubleResponse, Form, Generator, Source
        >>> space = Classes(["no", "yes"])
        >>> public = np.linspace(0, 1, 101)[:, None].round(2)  # what is known of such features
        >>> def sampler(codes):
        ...     return np.random.default_rng().beta(1 + codes, 2 - codes)[:, None]
        >>> generator = Generator(space, Form.of(public), Source("public", "a published table"), sampler)
        >>> double = DoubleResponse(space, 1.0, generator)
        >>> round(double.noise, 3)
        0.538
        >>> labels, features = ["no", "yes"] * 50, np.random.default_rng().random((100, 1))
        >>> released = Curator(labels, space).randomize_rows(double, features, divergences={2.0: 0.4})
        >>> len(released), released.guarantee.epsilon, released.conditional[0].epsilon > 1
        (100, 1.0, True)

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        InputError: The generator is for another label space, or ``replaced`` is no such probability.
    """

    space: LabelSpace
    epsilon: float
    generator: Generator
    replaced: float | None = None

    name: ClassVar[str] = "double"
    about: ClassVar[str] = "Randomized response on the label, and resampled features for some rows"

    def __post_init__(self) -> None:
        if not isinstance(self.generator, Generator):
            raise InputError(
                f"expected a Generator of features, found {type(self.generator).__name__}; fit one with "
                "labeldp.learning.generators, or wrap a function: Generator(space, Form.of(rows), Source(...), sample)"
            )
        if isinstance(self.space, LabelSpace) and self.generator.space != self.space:
            raise LabelError("expected a generator for the label space of the mechanism, found one for another")
        _ = self.labels  # refuses what no word expresses
        if self.replaced is not None:
            _checks.share(self.replaced, "replaced=, the resampling probability of features,", "(]")

    @cached_property
    def labels(self) -> RandomizedResponse:
        """The randomizer of the label."""
        return RandomizedResponse(self.space, self.epsilon)

    @property
    def noise(self) -> float:
        """Lambda, the probability that the label is resampled uniformly."""
        return float(self.labels.channel().membership.other) * self.space.size

    @cached_property
    def threshold(self) -> int:
        """Words below this resample the features: the requested probability, rounded up."""
        if self.replaced is not None:
            return min(WORDS, max(1, math.ceil(self.replaced * WORDS)))
        return min(WORDS, self.labels.channel().other * self.space.size)

    def law(self, population: str, divergences: Mapping[float, float] | None = None) -> FeatureLaw:
        """The distribution of released features, for a certificate.

        Args:
            population: The population whose features these are, in words.
            divergences: For each order, a declared bound on the Rényi divergence of the true features of any label from
                the generator's mixture over all labels. The bound that the generator's density proves, if there is one,
                stands where it is smaller.
        """
        return FeatureLaw.of(
            self.threshold,
            self.space.size,
            self.generator.describe(),
            population,
            divergences,
            self.generator.log_floor,
        )

    def original_features(self, features: object, count: int) -> pa.Table:
        """The features of ``count`` rows in the generator's form; for the curator.

        Raises:
            InputError: The number of rows differs, a column is missing, or the generator was fitted on these rows.
        """
        if features is None:
            raise InputError("expected the features of the rows, found none; DummyResponse releases labels alone")
        table = self.generator.form.table(self.generator.form.read(features))
        if table.num_rows != count:
            raise InputError(f"expected features of {count} rows, found {table.num_rows}")
        self.generator.check_private(table)
        return self.generator.form.shaped(table)[0]

    def misfits(self, features: object) -> Bool[np.ndarray, "n"]:
        """Mask of rows whose features do not fit the generator's form and are changed to fit; for the curator."""
        form = self.generator.form
        return form.shaped(form.table(form.read(features)))[1]

    def draw(self, rows: pa.Table, words: Words, first: int = 0) -> pa.Table:
        """Released features of rows that are in the generator's form; for the curator.

        Args:
            rows: Features in their form.
            words: A stream of random words; the row i uses the words ``2 (first + i)`` and the one after it.
            first: The place of the first row in the stream.

        Raises:
            InputError: The generator failed, or returned invalid rows.
        """
        starts = range(0, max(rows.num_rows, 1), _ROWS_PER_CHUNK)
        parts = [self._chunk(rows.slice(low, _ROWS_PER_CHUNK), words, first + low) for low in starts]
        return pa.concat_tables(parts)

    def _chunk(self, rows: pa.Table, words: Words, first: int) -> pa.Table:
        """``draw`` for a chunk of rows that is small enough to copy."""
        count = rows.num_rows
        block = words.block(first * _WORDS_PER_ROW, count * _WORDS_PER_ROW).reshape(count, _WORDS_PER_ROW)
        resampled = _below_threshold(block[:, 0], self.threshold)
        codes: Int[np.ndarray, "m"] = (block[resampled, 1] % np.uint64(self.space.size)).astype(np.int32)
        sample = self.generator.sample(codes)
        places = np.arange(count)
        places[resampled] = count + np.arange(codes.size)
        return pa.concat_tables([rows, sample]).combine_chunks().take(pa.array(places))


@dataclass(frozen=True, eq=False)
class DummyResponse:
    """Randomized response on the label, released without features, which then disclose nothing.

    Args:
        space: The declared label space.
        epsilon: Epsilon of the released label.

    Guarantee:
        epsilon-label-DP, with static and with conditional features of any distribution.

    References:
        Busa-Fekete et al. 2023, mechanism 3.

    Example:
        >>> from labeldp import Classes, Curator
        >>> from labeldp import DummyResponse
        >>> space = Classes(["no", "yes"])
        >>> released = Curator(["no", "yes"] * 50, space).randomize_rows(DummyResponse(space, 1.0))
        >>> released.features.num_columns, released.conditional[-1].alpha, released.conditional[-1].epsilon <= 1.0
        (0, inf, True)
    """

    space: LabelSpace
    epsilon: float

    name: ClassVar[str] = "dummy"
    about: ClassVar[str] = "Randomized response on the label, without features"

    def __post_init__(self) -> None:
        _ = self.labels

    @cached_property
    def labels(self) -> RandomizedResponse:
        """The randomizer of the label."""
        return RandomizedResponse(self.space, self.epsilon)


def _below_threshold(words: np.ndarray, threshold: int) -> Bool[np.ndarray, "n"]:
    """Mask of words below a threshold of at most ``2**64``."""
    return np.ones(len(words), dtype=np.bool_) if threshold >= WORDS else words < np.uint64(threshold)
