"""Generators of table rows given their class: synthetic features for releases with resampled features.

They learn from public or auxiliary rows, or from other rows whose labels were released under a guarantee; never from
the rows whose features they are to replace. There are three models: mixtures of Gaussians, Gaussian copulas, and, for
few categorical columns, the frequencies of all possible rows, whose probabilities are known exactly.
"""

from __future__ import annotations

import dataclasses
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp._shapes import Float, Int
from labeldp._threads import blocks
from labeldp.columns import rows_of_values
from labeldp.errors import InputError, RowsError
from labeldp.learning.files import FileFormat
from labeldp.learning.generators._columns import FEW, FormEncoder, FreshNumbers
from labeldp.learning.generators._laws import CellLaw, CopulaLaw, cell_codes, cell_law, check_smoothing, copula_law
from labeldp.learning.losses import posterior, require_release
from labeldp.learning.sklearn import SoftmaxRegression
from labeldp.mechanisms.resampling import ColumnForm, Form, Generator, Source, form_from, seen_in
from labeldp.privacy import Classes, LabelSpace, predicted_columns, space_from
from labeldp.release import Release, check_same_rows

Law = CopulaLaw | CellLaw

_LAWS: Mapping[str, type[Law]] = {law.name: law for law in (CopulaLaw, CellLaw)}
_ROWS_AT_ONCE = 1 << 14
_SCHEMA, _ABOUT, _SEEN = "labeldp/generator/1", "about", "seen"
_LARGEST_FILE = 1 << 31
_MARGIN = 1e-9
#: Prior variance of the logits of the softmax model that imputes the classes of a paid split.
_LOGIT_VARIANCE = 4.0


@dataclass(frozen=True, eq=False)
class FittedGenerator:
    """A distribution of the features of each class, in a public form, and its source.

    Attributes:
        space: The declared classes.
        form: Form of the rows.
        source: Data that it was fitted on.
        law: The distribution.
        smoothing: Share of rows that are drawn uniformly over the form instead; 0 after ``fit_cells``, whose
            distribution includes it.
        seen: Digests of the rows that it was fitted on.
    """

    space: LabelSpace
    form: Form
    source: Source
    law: Law
    smoothing: float = 0.0
    seen: frozenset[int] = frozenset()

    @property
    def log_floor(self) -> float | None:
        """The logarithm of the least probability that Qbar, the mean over classes, gives any row of the form.

        Known for cells, from their integers; and for other distributions if the form has finitely many rows and there
        is smoothing, which alone gives each of C rows the probability smoothing / C. Uniform numbers of 53 bits choose
        whether a row is drawn uniformly, and its categories: so 2^-53 is subtracted from the smoothing, and 1e-9 from
        the logarithm, of which each category of s values needs a relative s 2^-52 at most.

        Guarantee:
            For every distribution P on the rows of the form and every Rényi order alpha,
            ``D_alpha(P || Qbar) <= D_inf(P || Qbar) = log max_x P(x) / Qbar(x) <= -log min_x Qbar(x) = -log_floor``:
            divergences grow with their order, and P(x) <= 1. Nothing is assumed of the data.
        """
        if isinstance(self.law, CellLaw):
            return self.law.log_floor()
        cells, even = self.form.cells, self.smoothing - 2.0**-53
        return None if cells is None or even <= 0 else math.log(even) - math.log(cells) - _MARGIN

    def generator(self) -> Generator:
        """The generator as mechanisms use it: each call draws anew from a cryptographic random source."""
        return Generator(self.space, self.form, self.source, self._draw, self.log_floor, self.seen)

    def _draw(self, codes: Int[np.ndarray, "m"]) -> pa.Table | np.ndarray:
        """Draw rows of these classes."""
        columns, fresh = FormEncoder(self.form, self.law.few), FreshNumbers()
        numbers, categories = [], []
        for rows in blocks(len(codes), entries=_ROWS_AT_ONCE):
            block = np.asarray(codes[rows])
            drawn = self.law.draw(columns, block, fresh)
            if self.smoothing:
                even = (fresh.uniforms(len(block)) < self.smoothing)[:, None]
                uniform = columns.uniform(len(block), fresh)
                drawn = np.where(even, uniform[0], drawn[0]), np.where(even, uniform[1], drawn[1])
            numbers.append(drawn[0])
            categories.append(drawn[1])
        return columns.rows(np.concatenate(numbers), np.concatenate(categories))

    def cells(self) -> pa.Table:
        """All rows that the form allows, in the order of the columns of ``density``.

        Raises:
            InputError: The generator does not come from ``fit_cells``.
        """
        count = self._cells.weights.shape[1]
        columns = FormEncoder(self.form, self._cells.few)
        rows = columns.rows(np.empty((count, 0)), cell_codes(columns, np.arange(count)))
        return self.form.shaped(self.form.table(rows))[0]

    @property
    def density(self) -> Float[np.ndarray, "k cells"]:
        """Q(row | class) of all rows in ``cells``, a row for each class.

        Raises:
            InputError: The generator does not come from ``fit_cells``.
        """
        return self._cells.density

    def divergence_bound(self, conditional: object, alpha: float = math.inf) -> float:
        """The largest Rényi divergence of a stated P(row | class) from Qbar: the Dbar of resampled features.

        Args:
            conditional: P(row | class) of all rows in ``cells``, shape (k, cells); each class adds up to 1.
            alpha: The order, above 1.

        Returns:
            ``max_y D_alpha(P(. | y) || Qbar)`` in nats, rounded up: at order infinity from the integers that rows are
            drawn with, at others with a bound on rounding errors added, and never above that at order infinity.

        Guarantee:
            It holds if the stated probabilities are those of the data.

        References:
            Busa-Fekete et al. 2023, theorem 7.1, where Dbar follows from Delta.

        Raises:
            InputError: The generator does not come from ``fit_cells``, or these are not probabilities.
        """
        return self._cells.divergence_bound(conditional, alpha)

    @property
    def _cells(self) -> CellLaw:
        if not isinstance(self.law, CellLaw):
            raise InputError("expected a generator with a list of probabilities, found another kind; use fit_cells")
        return self.law

    def save(self, path: str | Path) -> Path:
        """Write the generator to a file that does not exist yet, as arrays of numbers and a JSON description.

        The file holds statistics of the rows that it was fitted on, such as quantiles. Digests of these rows are saved
        only if the rows are public, since rows can be recovered from digests; otherwise a generator that is loaded
        cannot recognise them.

        Raises:
            OutputError: The file exists, or its folder does not.
        """
        about = {
            "law": self.law.name,
            "smoothing": self.smoothing,
            "space": self.space.describe(),
            "form": self.form.describe(),
            "source": self.source.describe(),
        }
        seen = np.array(sorted(self.seen) if self.source.kind == "public" else [], dtype=np.uint64)
        return _FILES.save(path, _SCHEMA, about, {**vars(self.law), _SEEN: seen})


def fit_copula(
    features: object,
    labels: object,
    source: str,
    kind: str = "auxiliary",
    *,
    form: Form | None = None,
    shrinkage: float | None = None,
    smoothing: float = 0.0,
) -> FittedGenerator:
    """Fit for each class a Gaussian copula: the marginals of its rows, and correlations of their normal scores.

    The quantile function of numbers is linear between knots, so that frequent values stay frequent. A category is an
    interval between two thresholds of a normal variable: numbers in ascending order, texts in the order that best
    correlates with the other columns.

    Args:
        features: Public features: a pandas or polars frame, an Arrow table, a mapping of columns, or an array (n, d).
        labels: A ``Release`` of their labels, declared public or drawn under a guarantee. If labels are noisy, the
            class of each row is imputed once, by a draw from the posterior of a softmax model of these rows.
        source: Description of the data.
        kind: For labels that were declared public: ``"public"``, or ``"auxiliary"`` if the rows are private to the
            curator and not among those that are released.
        form: Form of the rows, which every certificate prints; by default that of these features. For public features
            it shows texts, range ends, and listed numbers, up to 1 000 of a column. For others, range ends are rounded,
            digits are few, and only values of at least five rows are shown; other texts become the most common one.
        shrinkage: Shrinkage of correlations towards zero, from 0 to 1; None for the optimum of Ledoit and Wolf (2004).
        smoothing: Share of rows that are drawn uniformly over the form. If the form has finitely many rows, it gives
            the generator a floor.

    Guarantee:
        The generator depends only on the given features and on a release of their labels. For labels that were declared
        public there is no guarantee; otherwise the guarantee of their release covers the generator, whose source holds
        the certificate. The features count as public, as in every release of labels.

    Raises:
        NotTrueLabelsError: The labels are not a release.
        InputError: A class has fewer than two examples.

    Example:
        >>> from labeldp import Classes
        >>> labels = Release.public(["no", "yes"] * 20, Classes(["no", "yes"]))
        >>> towns = {"town": ["Ulm", "Bonn", "Ulm", "Kiel"] * 10}
        >>> fit_copula(towns, labels, "made up", "public", smoothing=0.3).log_floor < -2.3
        True
    """
    share = None if shrinkage is None else _checks.share(shrinkage, "shrinkage")
    rows = _TrainingRows.of(features, labels, source, kind, form)
    law = copula_law(rows.columns, rows.numbers, rows.codes, rows.classes(2), share)
    return rows.generator(law, check_smoothing(smoothing))


def fit_cells(
    features: object,
    labels: object,
    source: str,
    kind: str = "auxiliary",
    *,
    form: Form | None = None,
    smoothing: float = 0.01,
) -> FittedGenerator:
    """Fit for each class the frequencies of all possible rows, mixed with the uniform distribution.

    For few columns that all list their values. The probabilities are exact integers, so that the divergence that a
    guarantee for resampled features needs follows from ``log_floor`` without any assumption, or from a stated
    P(row | class) by ``divergence_bound``.

    Args:
        features: As for ``fit_copula``.
        labels: As for ``fit_copula``.
        source: As for ``fit_copula``.
        kind: As for ``fit_copula``.
        form: As for ``fit_copula``. It can list the values of a column of whole numbers.
        smoothing: Share of the uniform distribution; with 0, rows that never occur have no floor.

    Guarantee:
        As for ``fit_copula``.

    Raises:
        NotTrueLabelsError: The labels are not a release.
        InputError: A column does not list its values, there are more than a million possible rows, or a class has no
            example.

    Example:
        >>> from labeldp import Classes
        >>> labels = Release.public(["no", "yes", "no", "yes"], Classes(["no", "yes"]))
        >>> fitted = fit_cells({"smokes": [True, True, False, True]}, labels, "made up", "public", smoothing=0.5)
        >>> fitted.density.tolist()
        [[0.5, 0.5], [0.25, 0.75]]
        >>> fitted.divergence_bound([[0.5, 0.5], [0.0, 1.0]])  # log(1 / 0.625), rounded up
        0.4700036292457356
    """
    rows = _TrainingRows.of(features, labels, source, kind, form, CellLaw.few)
    return rows.generator(cell_law(rows.columns, rows.codes, rows.classes(1), check_smoothing(smoothing)))


@dataclass(frozen=True, eq=False)
class _TrainingRows:
    """Rows that a generator is fitted on, with the class of each."""

    columns: FormEncoder
    space: LabelSpace
    source: Source
    numbers: Float[np.ndarray, "n d"]
    codes: Int[np.ndarray, "n c"]
    labels: Int[np.ndarray, "n"]
    seen: frozenset[int]

    @classmethod
    def of(
        cls, features: object, labels: object, source: str, kind: str, form: Form | None, few: int = FEW
    ) -> _TrainingRows:
        """Check and encode features and labels."""
        release = require_release(labels)
        if not isinstance(release.space, Classes):
            raise InputError("expected labels that are classes, found numbers; a generator draws features for classes")
        public = release.certificate is None and kind == "public"
        shape = form if form is not None else Form.of(features) if public else coarse_form(features)
        rows = shape.shaped(shape.table(features))[0]
        if rows.num_rows != len(release):
            raise RowsError(f"expected a label for each of {rows.num_rows} rows, found {len(release)}")
        check_same_rows(features, release)
        columns = FormEncoder(shape, few)
        numbers, codes = columns.read(rows)
        if release.certificate is None:
            origin, classes = Source(kind, source), np.asarray(release.codes)
        elif release.certificate.features is not None:
            raise InputError("expected a release with original features, found one with resampled features")
        else:
            origin = Source("paid split", source, release.certificate.to_json())
            classes = _drawn_classes(release, columns.inputs(numbers, codes))
        return cls(columns, release.space, origin, numbers, codes, classes, seen_in(shape, rows))

    def classes(self, fewest: int) -> list[np.ndarray]:
        """Row numbers of each class."""
        members = [np.flatnonzero(self.labels == code) for code in range(self.space.size)]
        lacking = [repr(point) for point, rows in zip(self.space.points, members, strict=True) if len(rows) < fewest]
        if lacking:
            raise InputError(
                f"expected at least {fewest} example{'s' * (fewest > 1)} of each declared class, found fewer of "
                f"{', '.join(lacking[:3])}{' and others' * (len(lacking) > 3)}; give rows of every class, or declare "
                "fewer"
            )
        return members

    def generator(self, law: Law, smoothing: float = 0.0) -> FittedGenerator:
        """The generator of a distribution fitted to these rows."""
        return FittedGenerator(self.space, self.columns.form, self.source, law, smoothing, self.seen)


def _drawn_classes(release: Release, inputs: Float[np.ndarray, "n p"]) -> Int[np.ndarray, "n"]:
    """Draw a class for each row from its posterior under a softmax model and the released label.

    If the model is right, rows with these classes have the distribution of rows with their true classes:
    P(x) P(y | x, z), averaged over z, is P(x, y).
    """
    release.class_channel  # noqa: B018 (refuses released numbers)
    penalty = inputs.shape[1] / (_LOGIT_VARIANCE * len(inputs))
    model = SoftmaxRegression(l2=penalty).fit(inputs, release)
    probabilities = posterior(release, predicted_columns(model, inputs, release.space))
    return FreshNumbers().places(np.cumsum(probabilities, axis=1))


def open_generator(path: str | Path) -> FittedGenerator:
    """Load a saved generator of table rows.

    Args:
        path: A file that ``save`` wrote. Opening it runs no code: it holds only numbers and text.

    Raises:
        InputError: The file does not exist, or is not a generator.
    """
    with _FILES.opened(path) as (about, arrays):
        kind = _LAWS[about["law"]]
        names = {field.name for field in dataclasses.fields(kind)}
        if set(arrays) != names | {_SEEN}:
            raise ValueError("other numbers")
        law, seen = kind(**{name: arrays[name] for name in names}), arrays[_SEEN]
        space, form, source = space_from(about["space"]), form_from(about["form"]), Source(**about["source"])
        if not isinstance(space, Classes) or seen.dtype != np.uint64 or seen.ndim != 1:
            raise ValueError("other parts")
        law.check(FormEncoder(form, law.few), space.size)
        smoothing = check_smoothing(about["smoothing"])
        return FittedGenerator(space, form, source, law, smoothing, frozenset(seen.tolist()))


def _earlier(file: BinaryIO) -> tuple[str, dict[str, np.ndarray]]:
    """The description and the arrays of a compressed file, as earlier versions wrote it."""
    with zipfile.ZipFile(file) as parts:
        if sum(entry.file_size for entry in parts.infolist()) > _LARGEST_FILE:
            raise ValueError("a larger file than any generator")
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    return found.pop(_ABOUT).tobytes().decode(), found


_FILES = FileFormat((_SCHEMA,), "generator", "labeldp generator", _earlier)


#: Fewest rows that share a text or a listed number before it is shown.
_OFTEN = 5
#: Fewest steps of a power of ten that a range is divided into; at most ten times as many.
_STEPS = 100


def coarse_form(features: object) -> Form:
    """The form of private rows: range ends rounded outwards, few digits, and only common values.

    Raises:
        InputError: As for ``Form.of``; or a column has no common text.
    """
    form = Form.of(features)
    table = form.table(features)
    if form.of_array:
        return dataclasses.replace(form, columns=(_ranged(form.columns[0]),))
    return dataclasses.replace(form, columns=tuple(_coarse(each, table[each.name]) for each in form.columns))


def _coarse(column: ColumnForm, values: pa.ChunkedArray) -> ColumnForm:
    """A column without the values of few rows."""
    if column.values is None:
        return _ranged(column)
    counts = rows_of_values(values)
    common = tuple(value for value in column.values if counts.get(value, 0) >= _OFTEN)
    if len(common) == len(column.values):
        return column
    if column.of_numbers:
        return _ranged(column)
    if not common:
        raise InputError(
            f"expected texts shared by at least {_OFTEN} rows in the column {column.name!r}, found none; a form "
            "publishes its texts: leave the column out, or declare a form (form=)"
        )
    fallback = column.fallback if column.fallback in common else max(common, key=lambda text: counts[text])
    return dataclasses.replace(column, values=common, fallback=fallback)


def _ranged(column: ColumnForm) -> ColumnForm:
    """A range whose ends are whole steps of a power of ten beyond those of the rows."""
    low, high = float(column.low or 0), float(column.high or 0)
    step = 10.0 ** math.floor(math.log10((high - low or 1.0) / _STEPS))
    whole = np.issubdtype(_element_type(column), np.integer)
    step = max(step, 1.0) if whole else step
    ends = math.floor(low / step) * step, math.ceil(high / step) * step
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if not whole:
        ends = round(ends[0], decimals), round(ends[1], decimals)
        digits: Mapping[str, Any] = {"decimals": decimals}
    else:
        digits = {"decimals": column.decimals}
        ends = _inside(column, ends)
    return ColumnForm(
        column.name, column.type, low=ends[0], high=ends[1], missing=column.missing, shape=column.shape, **digits
    )


def _element_type(column: ColumnForm) -> np.dtype[Any]:
    """The NumPy type of a column's numbers: whole numbers or floats."""
    return np.dtype(np.float64 if column.element in ("float", "double") else np.int64)


def _inside(column: ColumnForm, ends: tuple[float, float]) -> tuple[int, int]:
    """Ends within the type of whole numbers."""
    widest = ColumnForm(column.name, column.type, shape=column.shape)
    low, high = int(widest.low or 0), int(widest.high or 0)
    return max(low, int(ends[0])), min(high, int(ends[1]))
