"""An answer: what a curator said of many labels at once, with its law and guarantee. It holds no true label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from labeldp.errors import InputError
from labeldp.privacy import Guarantee, LabelSpace
from labeldp.release._certificate import Certificate


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to a query.

    Whatever is computed from it is covered by its guarantee.

    Attributes:
        value: What the query says it returns.
        certificate: What was charged for, and the guarantee.
    """

    value: np.ndarray
    certificate: Certificate

    def __post_init__(self) -> None:
        value = np.array(self.value)
        value.flags.writeable = False
        object.__setattr__(self, "value", value)

    @property
    def query(self) -> str:
        """The name of the query."""
        return self.certificate.draws[-1].mechanism

    @property
    def law(self) -> Mapping[str, Any]:
        """The integers of the noise."""
        return self.certificate.law

    @property
    def guarantee(self) -> Guarantee:
        """What was promised; it was charged before anything was drawn."""
        return self.certificate.guarantee

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self.certificate.space

    @property
    def rows(self) -> int:
        """How many rows were asked about."""
        return self.certificate.rows

    def points(self) -> list[Any]:
        """The classes that class codes stand for, one for each cell.

        Raises:
            InputError: The answer is no class codes.
        """
        if self.query != "noisy-argmax":
            raise InputError(f"expected the answer to NoisyArgmax, found that to {self.query}")
        return [self.space.points[code] for code in self.value]

    def distributions(self) -> Float[np.ndarray, "cells k"]:
        """The class distribution of each cell, nearest to the noisy counts: not negative, and summing to one.

        A cell whose noise hides all counts gets what is nearest all the same; one without any rows is pure noise.

        Raises:
            InputError: The answer is no histogram.

        References:
            Held, Wolfe and Crowder 1974, for the projection onto the simplex.

        Example:
            >>> from labeldp import Classes, Curator, NoisyHistogram
            >>> space = Classes(["no", "yes"])
            >>> curator = Curator(["no"] * 900 + ["yes"] * 100, space)
            >>> answer = curator.answer(NoisyHistogram(space, epsilon=1.0))
            >>> float(answer.distributions().sum().round(6))
            1.0
        """
        if self.query != "noisy-histogram":
            raise InputError(f"expected the answer to NoisyHistogram, found that to {self.query}")
        counts = self.value.astype(np.float64)
        total = np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
        return _nearest_distributions(counts / total)

    def __repr__(self) -> str:
        public = "" if self.certificate.private else ", NOT PRIVATE (test words)"
        return f"<Answer to {self.query} about {self.rows} rows, epsilon {self.guarantee.epsilon:g}{public}>"


def _nearest_distributions(vectors: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m k"]:
    """The distribution that is nearest to each vector."""
    ordered = -np.sort(-vectors, axis=1)
    over = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, vectors.shape[1] + 1)
    kept = np.count_nonzero(ordered > over, axis=1)
    cut = np.take_along_axis(over, kept[:, None] - 1, axis=1)
    return np.asarray(np.maximum(vectors - cut, 0.0))
