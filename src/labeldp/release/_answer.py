"""An answer to a query about many labels, with its output distribution and guarantee. It holds no true label."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa

from labeldp._shapes import Float, Int
from labeldp.errors import InputError, VerificationError
from labeldp.mechanisms.queries import QUERIES, Choices, Counts, Reading, noise_deviation
from labeldp.privacy import Guarantee, LabelSpace
from labeldp.privacy.channels import nearest_distributions
from labeldp.release.folder import (
    Certificate,
    answer_columns,
    answer_in,
    certified,
    check_beside,
    declared_public,
    stored_form,
    write_release,
)


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to a query.

    Whatever is computed from it is covered by its guarantee.

    Attributes:
        value: The noisy value that the query returns.
        certificate: The charges and the guarantee.
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
        """The integers of the noise distribution."""
        return self.certificate.law

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee; it was charged before anything was drawn."""
        return self.certificate.guarantee

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self.certificate.space

    @property
    def rows(self) -> int:
        """Number of rows that the query was about."""
        return self.certificate.rows

    @property
    def noise_deviation(self) -> float:
        """The standard deviation of the noise on each entry of ``value``, from the law; it is public.

        Raises:
            InputError: The answer has no additive noise: it consists of classes, means or exchanged labels.

        Example:
            >>> from labeldp import Classes, Curator, NoisyHistogram
            >>> space = Classes(["no", "yes"])
            >>> answer = Curator(["no"] * 900, space).answer(NoisyHistogram(space, epsilon=1.0))
            >>> round(answer.noise_deviation, 3)
            2.799
        """
        return noise_deviation(self.law)

    @property
    def reading(self) -> Reading | None:
        """The statistic that learners read from the answer, with the size of its noise; None if there is none."""
        return QUERIES.of_law(self.law).reading(self.value, self.law, self.space)

    def points(self) -> list[Any]:
        """The classes of an answer to ``NoisyArgmax``, one for each cell; a list for each cell of ``NoisyTopK``.

        Raises:
            InputError: The answer is to another query.
        """
        if not isinstance(self.reading, Choices):
            raise InputError(f"expected the answer to NoisyArgmax or NoisyTopK, found the answer to {self.query}")
        points = self.space.points
        return [points[each] if np.ndim(each) == 0 else [points[code] for code in each] for each in self.value]

    def distributions(self) -> Float[np.ndarray, "cells k"]:
        """The class distribution of each cell: the projection of the noisy counts onto the simplex.

        A cell whose noise exceeds its counts is projected all the same; a cell without rows is pure noise.

        Raises:
            InputError: The answer is to another query.

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
        if not isinstance(self.reading, Counts):
            raise InputError(f"expected the answer to NoisyHistogram, found the answer to {self.query}")
        return distributions_of(self.value)

    def save(
        self,
        directory: str | Path,
        table: object = None,
        *,
        keep: Sequence[str] | Literal["all"] | None = None,
        label: str | None = None,
    ) -> Path:
        """Write the answer with its certificate to a new folder.

        Args:
            directory: A folder that does not exist yet; it is written atomically.
            table: For the labels that peers exchanged: one row for each label, a pandas or polars frame, or an Arrow
                table.
            keep: The columns of the table that you declare public, or ``"all"``. The true label must not be one.
            label: Prefix of the column names, by default the curator's name of the labels.

        Raises:
            InputError: The answer has no value per row but a table was passed, the table has another number of rows, no
                column was declared public, columns were passed without a table, or a name is taken.
            OutputError: The folder exists.

        Example:
            >>> import tempfile
            >>> from labeldp import Classes, Curator, NoisyHistogram
            >>> from labeldp import Answer
            >>> space = Classes(["no", "yes"])
            >>> answer = Curator(["no"] * 900, space, name="ill").answer(NoisyHistogram(space, epsilon=1.0))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     again = Answer.load(answer.save(f"{folder}/shared"))
            >>> bool((again.value == answer.value).all()), again.guarantee.epsilon
            (True, 1.0)
        """
        name, form = label or self.certificate.label, stored_form(self.law, self.space)
        if table is not None and not form.by_row:
            raise InputError(
                f"expected no table with the answer to {self.query}, which has no value per row, found one; leave it "
                "out"
            )
        check_beside(self.certificate, table)
        public = declared_public(table, keep)
        if table is not None and public.num_rows != len(self.value):
            raise InputError(
                f"expected a table of {len(self.value)} rows like the answer, found {public.num_rows} rows"
            )
        if clash := form.clashes(name, public.column_names):
            raise InputError(f"expected column names that the answer does not use, found {min(clash)!r}; leave it out")
        columns = {each: public[each] for each in public.column_names}
        columns |= answer_columns(self.value, name, self.law, self.space)
        return write_release(Path(directory), pa.table(columns), dataclasses.replace(self.certificate, label=name))

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Load and verify the answer in a folder.

        Raises:
            VerificationError: The folder and its certificate do not agree, or it holds released labels.
        """
        certificate = certified(Path(directory))
        if not certificate.of_answer:
            raise VerificationError(
                f"expected an answer in {directory}, found released labels; open them with Release.load"
            )
        return cls(answer_in(Path(directory), certificate), certificate)

    def __repr__(self) -> str:
        public = "" if self.certificate.private else ", NOT PRIVATE (test words)"
        return f"<Answer to {self.query} about {self.rows} rows, epsilon {self.guarantee.epsilon:g}{public}>"


def distributions_of(counts: Int[np.ndarray, "cells k"]) -> Float[np.ndarray, "cells k"]:
    """Project noisy counts to the nearest class distribution of each cell."""
    total = np.maximum(counts.sum(axis=1, keepdims=True, dtype=np.float64), 1.0)
    return nearest_distributions(counts / total)
