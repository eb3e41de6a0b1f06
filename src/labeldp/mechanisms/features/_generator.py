"""Generators: synthetic features for a class, in the form of real ones, and where their knowledge comes from."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from labeldp.errors import InputError
from labeldp.mechanisms.features._form import Form
from labeldp.privacy import LabelSpace

if TYPE_CHECKING:
    import pyarrow as pa

#: So many digests of the rows that a generator was fitted on are kept at the most: the least ones.
MOST_SEEN = 1 << 16
#: Rows that a generator was fitted on are known again where so large a share of them occur once.
_DIFFERENT = 0.99
#: How many private rows may be known by chance: a few, and a share of them.
_FEW_KNOWN, _SHARE_KNOWN = 5, 0.05

_WHENCE = MappingProxyType(
    {
        "public": "public data",
        "auxiliary": "auxiliary rows, whose labels were declared public and which are not among the released ones",
        "paid split": "other rows, whose labels were released under a guarantee of their own",
    }
)


@dataclass(frozen=True)
class Source:
    """Where a generator's knowledge comes from: the certificate prints it.

    A generator that was fitted on the private rows gives their labels away through the features that it draws. That
    it was not is declared here.

    Attributes:
        kind: ``"public"``: data that anybody may see. ``"auxiliary"``: rows of the curator's own that are not
            released, with labels that need no protection. ``"paid split"``: other rows, whose labels were released
            under a guarantee.
        text: Which data, in the user's words.
        certificate: The certificate of a paid split's release, as JSON; of no other source.

    Example:
        >>> Source("public", "UCI Adult, 1994").sentence()
        'public data: UCI Adult, 1994'

    Raises:
        InputError: The kind is none of these, the text is empty, or a paid split comes without a certificate.
    """

    kind: str
    text: str
    certificate: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in _WHENCE:
            raise InputError(f"expected a source that is {', '.join(map(repr, _WHENCE))}, found {self.kind!r}")
        if not isinstance(self.text, str) or not self.text.strip():
            raise InputError("expected words that say which data a generator knows, found none; name them")
        if (self.certificate is not None) != (self.kind == "paid split"):
            raise InputError("expected a certificate of a paid split, and of no other source, found otherwise")
        if self.certificate is not None and not _is_object(self.certificate):
            raise InputError("expected the certificate of a paid split in JSON, found something else")

    def sentence(self) -> str:
        """The source in words."""
        return f"{_WHENCE[self.kind]}: {self.text}"

    def describe(self) -> dict[str, Any]:
        """The source as plain data."""
        plain = {"kind": self.kind, "text": self.text}
        return plain if self.certificate is None else {**plain, "certificate": self.certificate}


def _is_object(text: object) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


@dataclass(frozen=True, eq=False)
class Generator:
    """Synthetic features for classes, P^(X | j), in a public form.

    Attributes:
        space: The declared label space; the generator knows all its classes.
        form: What rows look like.
        source: Where its knowledge comes from.
        sampler: A function of class codes, an array of shape (m,), that gives m rows in the same order: a frame, a
            table, or an array where the form is one. It must draw afresh at every call, from entropy of its own that
            nobody else knows: a fixed seed would show which rows are synthetic. And it must draw each row by itself,
            by the law of its class alone, whatever other rows are drawn: sampling a table without replacement, or
            layers that normalise a batch, would tell which rows are not its own.
        log_floor: The logarithm of the least probability that the mean over classes, Qbar, gives any row that the form
            allows, if it is known; the form then has finitely many rows. No law is further from Qbar than -log_floor,
            at any Rényi order.
        seen: Digests of the rows that it was fitted on; if there are ``MOST_SEEN``, the least of all digests. Rows can
            be read back from them by trying, so they stay in memory, and are written to a file only if the rows are
            public.

    Example:
        >>> from labeldp import Classes
        >>> space, form = Classes(["no", "yes"]), Form.of(np.array([[0.0], [0.25], [1.0]]))
        >>> def sampler(codes):
        ...     return np.random.default_rng().beta(1 + codes, 2 - codes)[:, None]
        >>> generator = Generator(space, form, Source("public", "a textbook"), sampler)
        >>> generator.sample([0, 1, 1]).num_rows
        3

    Raises:
        InputError: ``log_floor`` is none, or is of a form that allows endlessly many rows.
    """

    space: LabelSpace
    form: Form
    source: Source
    sampler: Callable[[Int[np.ndarray, "m"]], object]
    log_floor: float | None = None
    seen: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.source, Source) or not callable(self.sampler):
            raise InputError(
                "expected a Source that says where the generator's knowledge comes from, and a function of codes, "
                f"found {type(self.source).__name__} and {type(self.sampler).__name__}"
            )
        if self.log_floor is not None:
            cells = self.form.cells
            if cells is None:
                raise InputError("expected a floor of a form whose columns all list their values, found another form")
            if not math.isfinite(self.log_floor) or self.log_floor > -math.log(cells) + 1e-9:
                raise InputError(
                    f"expected log_floor of at most -log({cells}), the mean over all rows of the form, found another; "
                    "give the logarithm of the least probability"
                )
        object.__setattr__(self, "seen", frozenset(self.seen))

    def sample(self, codes: object) -> pa.Table:
        """Rows drawn afresh, one for each class code, in the form.

        Args:
            codes: Class codes from 0 to k - 1, shape (m,).

        Raises:
            InputError: A code is none; or the sampler failed, or what it gave has other columns, types or numbers of
                rows, values that are no number or infinite, or lacks values. The message shows nothing of it.
        """
        wanted = _codes(codes, self.space.size)
        if not wanted.size:
            return self.form.schema.empty_table()
        return self.form.shaped(self._checked(self._sampled(wanted), len(wanted)))[0]

    def _sampled(self, codes: Int[np.ndarray, "m"]) -> object:
        """What the sampler gives; of what it raises only the type is told, since a text may quote rows."""
        try:
            return self.sampler(codes)
        except Exception as problem:  # noqa: BLE001 (it is anyone's function)
            why = type(problem).__name__
        raise InputError(f"expected a sampler that gives rows for class codes, found that it raised {why}; repair it")

    def _checked(self, rows: object, count: int) -> pa.Table:
        """What a sampler gave as a table, if it is as the form says."""
        from labeldp.mechanisms.features._coerce import missing_or_endless  # noqa: PLC0415 (keeps `import labeldp` light)

        try:
            table = self.form.table(rows)
        except InputError:
            table = None
        if table is None or table.num_rows != count:
            columns = ", ".join(f"{column.name!r} ({column.type})" for column in self.form.columns)
            raise InputError(
                f"expected {count} rows from the sampler, one for each code, with exactly the columns {columns}, found "
                "something else"
            )
        missing, endless = missing_or_endless(self.form.columns, table)
        may_lack = {column.name for column in self.form.columns if column.missing}
        lacking = [name for name in missing if name not in may_lack]
        if lacking or endless:
            names = ", ".join(map(repr, dict.fromkeys([*lacking, *endless])))
            raise InputError(f"expected finite values in every row from the sampler, found others in {names}")
        return table

    def check_private(self, rows: pa.Table) -> None:
        """Refuse to be used on the rows that it was fitted on.

        It notices an accident, not an intention. Rows that were changed a little are not known again; nor are rows of
        which more than one in a hundred occurs twice, since rows of others would be taken for them; nor are those of a
        generator from a file, unless they are public: then no digests are kept.

        Args:
            rows: Private rows, as ``Form.table`` gives them.

        Raises:
            InputError: More than 5 of the different rows, and more than one in twenty besides, are known to it.
        """
        if not self.seen:
            return
        private = np.unique(row_digests(self.form, rows))
        if len(self.seen) >= MOST_SEEN:
            private = private[private <= np.uint64(max(self.seen))]
        seen = np.fromiter(self.seen, dtype=np.uint64, count=len(self.seen))
        known = int(np.isin(private, seen).sum())
        if known > _FEW_KNOWN + _SHARE_KNOWN * len(private):
            raise InputError(
                "expected private rows that the generator was not fitted on, found those: its draws would give their "
                "labels away. Fit it on public or auxiliary rows, or on other rows whose labels were released"
            )

    def describe(self) -> dict[str, Any]:
        """Source and form as plain data, for a certificate."""
        return {"source": self.source.describe(), "form": self.form.describe()}


def row_digests(form: Form, rows: pa.Table) -> np.ndarray:
    """Digests of 64 bits of rows, after they were shaped: equal for equal rows."""
    from labeldp.mechanisms.features._coerce import digests  # noqa: PLC0415 (keeps `import labeldp` light)

    return digests(form.columns, form.shaped(rows)[0])


def seen_in(form: Form, rows: pa.Table) -> frozenset[int]:
    """What a generator keeps to know rows again that it was fitted on; nothing where many of them are equal."""
    found = row_digests(form, rows)
    different, counts = np.unique(found, return_counts=True)
    if (counts == 1).sum() < _DIFFERENT * len(found):  # about the chance that another row is none of these (Good 1953)
        return frozenset()
    return frozenset(different[:MOST_SEEN].tolist())


def _codes(codes: object, size: int) -> Int[np.ndarray, "m"]:
    """Class codes in an array of their own."""
    found = np.array(codes)
    if not found.size:
        return np.empty(0, dtype=np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= size:
        raise InputError(f"expected class codes from 0 to {size - 1}, shape (m,), found something else")
    return found.astype(np.int64)
