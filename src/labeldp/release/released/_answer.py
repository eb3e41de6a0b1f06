"""An answer to a query about many labels, with its output distribution and guarantee. It holds no true label."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from labeldp import _checks
from labeldp._arrays import freeze_arrays
from labeldp._notebook import Shown
from labeldp._shapes import Float, Int
from labeldp.errors import InputError, VerificationError
from labeldp.mechanisms.queries import QUERIES, Choices, Counts, Means, Query, Reading, cell_rows
from labeldp.privacy import Guarantee, LabelSpace
from labeldp.privacy.channels import nearest_distributions
from labeldp.release.folder import (
    Certificate,
    answer_columns,
    answer_in,
    certified,
    local_copy,
    public_beside,
    stored_form,
    write_release,
)
from labeldp.release.released._gate import check_kept
from labeldp.release.released._row_identity import Origin, RowIdentity, check_same_rows
from labeldp.release.released._same_label import refuse_possible_labels
from labeldp.release.tables import Place


class Shares(NamedTuple):
    """Unbiased shares of classes in cells, each of shape (cells, k); NaN for cells without rows.

    Attributes:
        value: The shares.
        standard_error: The standard deviation of their noise.
    """

    value: Float[np.ndarray, "cells k"]
    standard_error: Float[np.ndarray, "cells k"]


@dataclass(frozen=True, eq=False)
class Answer(Shown):
    """The answer to a query.

    Whatever is computed from it is covered by its guarantee.

    ``standard_error`` and ``margin`` say how far noise moved it; ``shares``, ``means``, ``distributions`` and
    ``points`` put it in other forms.

    Attributes:
        value: The noisy value that the query returns. Counts, sums and means are unbiased.
        certificate: The charges and the guarantee.
        identity: As of a ``Release``, for an answer with a value per row.
        origins: As of a ``Release``.
    """

    value: np.ndarray
    certificate: Certificate
    identity: RowIdentity | None = None
    origins: tuple[Origin, ...] = ()

    def __post_init__(self) -> None:
        freeze_arrays(self, "value")

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
    def standard_error(self) -> Float[np.ndarray, "..."]:
        """The standard deviation of the noise on each entry of ``value``, from public numbers; shape of ``value``.

        It says how far the answer is from that for the true labels, and nothing about other rows of a population. It is
        NaN for a cell without rows.

        Raises:
            InputError: The answer is no sum of numbers and noise: it consists of classes or quantiles (``margin`` says
                how far off they are), of exchanged labels, or of gradients (``gradient_error``). Or it consists of
                means of cells whose numbers of rows its certificate does not list, as those of older versions do not.

        Example:
            >>> from labeldp import Classes, Curator, NoisyHistogram
            >>> space = Classes(["no", "yes"])
            >>> answer = Curator(["no"] * 900, space).answer(NoisyHistogram(space, epsilon=1.0))
            >>> answer.standard_error.round(3).tolist()
            [[2.799, 2.799]]
        """
        error = self._query.standard_error(self.law, self.space, self._cell_rows)
        if error is None:
            raise InputError(
                f"expected the answer to a query of numbers plus noise of known size, found that to {self.query}; see "
                "the documentation of standard_error"
            )
        return np.broadcast_to(error, self.value.shape)

    def margin(self, confidence: float = 0.95) -> Float[np.ndarray, "..."]:
        """The error that noise exceeds with a probability of at most ``1 - confidence``; shape of ``value``.

        It holds whatever the labels are, for each entry, or each cell of classes and quantiles. Its unit depends on the
        query: that of ``value``, for counts, sums and means; ranks, for a quantile: the released point lies between the
        labels of ranks t - m and t + m, where t is that of the quantile; rows by which the named class of a cell is
        behind the most common one, or any class that is not named before it.

        Args:
            confidence: Above 0 and below 1.

        Raises:
            InputError: No such bound is known, or the confidence is out of range.

        References:
            The proofs are in the queries (``margin``).

        Example:
            >>> from labeldp import Classes, Curator, NoisyArgmax
            >>> space = Classes(["no", "yes"])
            >>> answer = Curator(["no"] * 900 + ["yes"] * 100, space).answer(NoisyArgmax(space, epsilon=1.0))
            >>> answer.margin().tolist()  # "no" is at most 4 rows behind "yes"
            [4.0]
        """
        level = _checks.share(confidence, "confidence", "()")
        found = self._query.margin(self.law, self.space, self._cell_rows, level)
        if found is None:
            raise InputError(
                f"expected the answer to a query with noise of known size, found that to {self.query}; see the "
                "documentation of standard_error"
            )
        return np.broadcast_to(found, self.value.shape)

    @property
    def _query(self) -> type[Query]:
        return QUERIES.of_law(self.law)

    @property
    def _cell_rows(self) -> Int[np.ndarray, "cells"] | None:
        """The public number of rows of each cell, where it is known."""
        return cell_rows(self.law, self.rows, len(self.value))

    @property
    def reading(self) -> Reading | None:
        """The statistic that learners read from the answer, with the size of its noise; None if there is none."""
        return self._query.reading(self.value, self.law, self.space)

    def points(self) -> list[Any]:
        """The classes of an answer to ``NoisyArgmax``, one for each cell; a list for each cell of ``NoisyTopK``.

        Raises:
            InputError: The answer is to another query.
        """
        if not isinstance(self.reading, Choices):
            raise self._refused("NoisyArgmax or NoisyTopK")
        points = self.space.points
        return [points[each] if np.ndim(each) == 0 else [points[code] for code in each] for each in self.value]

    def means(self) -> Float[np.ndarray, "cells"]:
        """The mean of each cell, cut to the range that labels were clipped to; NaN for a cell without rows.

        ``value`` is unbiased; cutting makes errors smaller, and biases a mean near an end of the range towards its
        middle.

        Raises:
            InputError: The answer is to another query.

        Example:
            >>> from labeldp import Curator, Interval, NoisyMean
            >>> space = Interval(0.0, 10.0, 0.5)
            >>> answer = Curator([0.0] * 20, space).answer(NoisyMean(space, epsilon=0.1))
            >>> bool(0.0 <= answer.means()[0] <= 10.0), round(float(answer.standard_error[0]), 1)
            (True, 7.1)
        """
        reading = self.reading
        if not isinstance(reading, Means):
            raise self._refused("NoisyMean")
        return np.asarray(np.clip(self.value, reading.low, reading.high))

    def shares(self) -> Shares:
        """The unbiased share of each class in each cell, which may be below 0 or above 1, with standard errors.

        The counts of a cell sum to its public number of rows n. So the excess of the noisy counts is divided evenly
        between the k classes, which leaves them unbiased: the variance of a count's noise falls by the factor 1 - 1/k,
        and shares sum to one. ``distributions`` is the tidy form, which lifts rare classes.

        Raises:
            InputError: The answer is to another query, or the numbers of rows of its cells are unknown.

        Example:
            >>> from labeldp import Classes, Curator, NoisyHistogram
            >>> space = Classes(["no", "yes"])
            >>> answer = Curator(["no"] * 990 + ["yes"] * 10, space).answer(NoisyHistogram(space, epsilon=0.1))
            >>> shares = answer.shares()
            >>> shares.value.sum().round(9).tolist(), shares.standard_error.round(3).tolist()
            (1.0, [[0.02, 0.02]])
        """
        reading, rows = self.reading, self._cell_rows
        if not isinstance(reading, Counts):
            raise self._refused("NoisyHistogram")
        if rows is None:
            raise InputError(
                "expected a certificate that lists the rows of at most 65,536 cells, found one that does not; divide "
                "counts by the number of rows of their cells"
            )
        counts, n, k = self.value.astype(np.float64), rows[:, None].astype(np.float64), self.space.size
        even = counts - (counts.sum(axis=1, keepdims=True) - n) / k
        error = np.full_like(counts, reading.deviation * math.sqrt(1.0 - 1.0 / k))
        known = np.where(n > 0, n, np.nan)
        return Shares(even / known, error / known)

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
            raise self._refused("NoisyHistogram")
        return distributions_of(self.value)

    def _refused(self, wanted: str) -> InputError:
        """The error for a form that this answer does not have, with those that it has."""
        forms = {Choices: "points()", Means: "means()", Counts: "distributions() or shares()"}
        form = next((name for kind, name in forms.items() if isinstance(self.reading, kind)), "value")
        return InputError(f"expected the answer to {wanted}, found the answer to {self.query}; use {form}")

    def save(
        self,
        directory: str | Path,
        table: object = None,
        *,
        keep: Iterable[str] | Literal["all", "none"] | None = None,
        label: str | None = None,
    ) -> Path:
        """Write the answer with its certificate to a new folder.

        Args:
            directory: A folder that does not exist yet; it is written atomically.
            table: For the labels that peers exchanged: one row for each label, a pandas or polars frame, or an Arrow
                table.
            keep: The columns of the table that you declare public, or ``"all"``, or ``"none"``. The true label must not
                be one.
            label: Prefix of the column names, by default the curator's name of the labels.

        A column of the table that repeats like a person's identifier is warned of (``UnitWarning``).

        Raises:
            InputError: The answer has no value per row but a table was passed, the table has another number of rows, no
                column was declared public, columns were passed without a table, a name is taken, a column is a label
                that the curator's ledger was charged for before or has the name of the label, in any spelling, or
                ``"all"`` has a column of declared classes, which may be the true label.
            RowsError: The table's index is not that of the labels.
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
        public = public_beside(self.certificate, table, keep, len(self.value), "answer")
        check_same_rows(table, self, "a table")
        if isinstance(keep, str) and keep == "all":
            refuse_possible_labels(public, self.space, None, self.value)
        check_kept(public, table, self.certificate, name, self.origins, stacklevel=2)
        if clash := form.clashes(name, public.column_names):
            raise InputError(f"expected column names that the answer does not use, found {min(clash)!r}; leave it out")
        columns = {each: public[each] for each in public.column_names}
        columns |= answer_columns(self.value, name, self.law, self.space)
        return write_release(directory, columns, dataclasses.replace(self.certificate, label=name))

    @classmethod
    def load(cls, directory: str | Place) -> Self:
        """Load and verify the answer in a folder.

        Args:
            directory: The folder of an answer: a path, or an address such as ``s3://bucket/shared``.

        Raises:
            VerificationError: The folder and its certificate do not agree, or it holds released labels.
        """
        with local_copy(directory) as folder:
            certificate = certified(folder)
            if not certificate.of_answer:
                raise VerificationError(
                    f"expected an answer in {directory}, found released labels; open them with Release.load"
                )
            return cls(answer_in(folder, certificate), certificate)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without what is known of rows in memory alone, as of a ``Release``."""
        return Answer, (self.value, self.certificate)

    def __repr__(self) -> str:
        public = "" if self.certificate.private else ", NOT PRIVATE (test words)"
        return f"<Answer to {self.query} about {self.rows} rows, epsilon {self.guarantee.epsilon:g}{public}>"


def distributions_of(counts: Int[np.ndarray, "cells k"]) -> Float[np.ndarray, "cells k"]:
    """Project noisy counts to the nearest class distribution of each cell."""
    total = np.maximum(counts.sum(axis=1, keepdims=True, dtype=np.float64), 1.0)
    return nearest_distributions(counts / total)
