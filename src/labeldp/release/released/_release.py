"""A release: released labels with their channel and guarantee. It holds no true label."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp._arrays import freeze_arrays
from labeldp._notebook import Shown
from labeldp._shapes import Float, Int, Int32
from labeldp.columns import floats, kind_of
from labeldp.errors import InputError, RowsError
from labeldp.privacy import Guarantee, Interval, LabelSpace, shown_above
from labeldp.privacy.channels import Channel, ClassChannel, ResponseChannel, concatenated_channel, row_arrays
from labeldp.release.folder import (
    Certificate,
    labels_table,
    local_copy,
    of_strangers,
    public_beside,
    verified,
    write_release,
)
from labeldp.release.released._declared import DeclaredHow, declared_labels
from labeldp.release.released._gate import check_kept
from labeldp.release.released._opaque_labels import RELEASED_LABEL, OpaqueLabels, ReleasedLabel
from labeldp.release.released._row_identity import (
    Origin,
    RowIdentity,
    check_combined,
    check_same_rows,
    concatenated_identity,
    identity_of,
    identity_of_places,
    row_numbers,
)
from labeldp.release.released._same_label import refuse_possible_labels
from labeldp.release.released._targets import from_words, mark_of, to_words
from labeldp.release.tables import Place


@dataclass(frozen=True, eq=False, repr=False)
class Release(OpaqueLabels, Shown):
    """Released labels, the channel they were drawn from, and their guarantee.

    A release can be sliced, split and indexed like a target array; that never draws again. It refuses to be used as an
    array of numbers, since released labels are not true labels.

    Attributes:
        codes: Released labels: class codes of shape (n,), sets as packed bits of shape (n, ceil(k / 8)), or outcome
            numbers of shape (n,), which ``numbers`` converts to label values.
        channel: The channel of these rows.
        space: The declared label space.
        certificate: The charges and the guarantee; None if the labels were declared public.
        identity: Digests of the index of the labels, or of their declared identities, by which features of other rows
            are noticed; None if rows are known by position alone, as after ``load``: no folder and no pickle holds an
            index.
        origins: For each charge the session of the curator and the rows, by which ``concat`` notices rows of the same
            people, and their labels that were released before, which ``save`` refuses to keep; in memory alone, as
            ``identity`` is.

    Example:
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> space = Classes(["no", "yes"])
        >>> release = Curator(["yes", "no", "yes"], space).randomize(RandomizedResponse(space, epsilon=1.0))
        >>> len(release), release.guarantee.epsilon, release[:2].unbiased().shape
        (3, 1.0, (2, 2))
    """

    codes: np.ndarray
    channel: Channel
    space: LabelSpace
    certificate: Certificate | None
    identity: RowIdentity | None = None
    origins: tuple[Origin, ...] = ()

    def __post_init__(self) -> None:
        freeze_arrays(self, "codes")
        if self.certificate is None and not (isinstance(self.channel, ResponseChannel) and self.channel.certain):
            raise InputError(
                "these labels come from a channel with noise and have no certificate, so nothing says who promises "
                "what; use Release.randomized(labels, mechanism, declared_by=...) for labels that were randomized "
                "elsewhere"
            )

    @classmethod
    def public(cls, labels: object, space: LabelSpace) -> Release:
        """Wrap labels that you declare public as a release without any guarantee.

        For baselines without privacy, and for public held-out labels.

        Args:
            labels: Public labels: a list, NumPy array, pandas series or Arrow array.
            space: The declared label space.
        """
        channel = ResponseChannel.nearly_certain(space.size)
        return cls(space.encode(labels), channel, space, None, identity_of(labels))

    @classmethod
    def randomized(
        cls, labels: object, mechanism: DeclaredHow, *, declared_by: str, units: object = None, name: str | None = None
    ) -> Release:
        """Take over labels that were randomized elsewhere: by a survey, on devices, in a browser, by another library.

        Nothing is drawn. Learners, metrics and audits account for the noise as they do for labels drawn here.

        Args:
            labels: The randomized labels: a list, NumPy array, pandas series or Arrow array of declared classes, of
                lists of classes in declared order for mechanisms that release sets, or of numbers that the mechanism
                can release.
            mechanism: How they were randomized, such as ``RandomizedResponse(space, 1.0)`` or, for a survey with a
                coin, ``RandomizedResponse.keeping(space, 0.75)``. Each row was randomized once and alone. A matrix of
                probabilities, or a mechanism for each row, is a ``DeclaredChannel``.
            declared_by: Who says so, such as ``"survey 2026"``. The certificate shows it.
            units: The person of each row, if some have several: their rows add up, since each was randomized alone.
            name: The name of the label; by default that of a pandas series, or ``"label"``.

        Guarantee:
            That of the mechanism for each row's label, if the labels were randomized as declared. No certificate can
            show that they were; this one says that it was declared, and by whom.

        Raises:
            InputError: The labels cannot come from such a mechanism. Frequencies that no true labels make likely are
                refused too; labels that were randomized as declared are refused with probability 0.001 at most.
            LabelError: A label is missing, or no declared class.

        Example:
            >>> from labeldp import Classes, RandomizedResponse, Release
            >>> coin = RandomizedResponse.keeping(Classes(["no", "yes"]), 0.75)
            >>> survey = Release.randomized(["yes", "no", "yes"], coin, declared_by="survey 2026")
            >>> print(survey.guarantee.epsilon < 1.0987, survey.is_public)
            True False
        """
        by, identity = _checks.declarer(declared_by), identity_of(labels)
        if not isinstance(labels, Sized):
            raise InputError(f"expected labels as a list or an array, found {kind_of(labels)}")
        label = str(name or getattr(labels, "name", None) or "label")
        codes, channel, certificate = declared_labels(labels, mechanism, label, by, units)
        return cls(codes, channel, mechanism.space, certificate, identity)

    @classmethod
    def concat(cls, parts: Iterable[Release], *, other_people: str = "") -> Release:
        """Concatenate rows of several releases, such as months or sites, into one release to learn from.

        Each row keeps its own channel, so that learners and metrics account for the noise that it has. The features go
        in the same order. ``concatenate`` is for releases of one curator's rows, such as stages: these are different
        rows, cost the largest epsilon, and can be saved as one.

        Args:
            parts: Releases of one label with the same classes, or slices of them; or labels declared public.
            other_people: Your reason to know that nobody has rows in two of the releases, such as "other hospitals".
                Only you can know it; it stands among the assumptions.

        Returns:
            A release of all rows, in order. It cannot be saved: share and verify the parts.

        Guarantee:
            ``guarantee`` holds for somebody who is in all of the releases: the epsilons and deltas of all charges add
            up. Whoever is in one of them alone has that one's guarantee. With ``other_people`` the largest counts, if
            units are single rows; for units of several rows all charges add up. Slices of one release are one charge.

        Raises:
            InputError: The releases differ in label, label space, unit or form; rows of several releases have
                candidates; public labels are among released ones; or a release is passed twice. Or the reason is blank,
                long or not printable, or two releases that it is about have the same index or identities, or are of the
            same rows of one curator.

        References:
            Dwork and Roth 2014, theorem 3.16, for sums; McSherry 2009, theorem 4, for disjoint rows.

        Example:
            >>> from labeldp import Classes, Curator, Release
            >>> space = Classes(["no", "yes"])
            >>> january = Curator(["yes", "no", "yes"], space, name="clicked").randomize(epsilon=1.0)
            >>> february = Curator(["no", "no"], space, name="clicked").randomize(epsilon=0.5)
            >>> both = Release.concat([january, february])
            >>> len(both), both.guarantee.epsilon
            (5, 1.5)
            >>> Release.concat([january, february], other_people="new customers").guarantee.epsilon
            1.0
        """
        releases = list(parts)
        reason = check_combined(releases, other_people)
        certified = [release.certificate for release in releases if release.certificate is not None]
        certificate = of_strangers(certified, reason) if certified else None
        if certificate is not None and not certificate.concatenated:  # slices of one release
            certificate = certificate.of_rows(certificate.rows, certificate.parent or releases[0].hash)
        return joined(releases, certificate)

    @property
    def is_public(self) -> bool:
        """True if these labels were declared public, without any guarantee."""
        return self.certificate is None

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for everything charged for this release and those it came from.

        Raises:
            InputError: The labels were declared public.
        """
        return self._certified().guarantee

    def _certified(self) -> Certificate:
        if self.certificate is None:
            raise InputError("expected a release with a guarantee, found labels that were declared public")
        return self.certificate

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, rows: int) -> ReleasedLabel: ...
    @overload
    def __getitem__(self, rows: slice | Sequence[int] | Sequence[bool] | np.ndarray) -> Release: ...
    @overload
    def __getitem__(self, rows: Any) -> Any: ...
    def __getitem__(self, rows: Any) -> Any:
        """A subset of the rows, as a release with this one as its parent; a single row is opaque.

        Rows are places, or a mask, whose index must be that of the labels if both have one.
        """
        if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
            rows = rows[0]  # indexing of arrays with trailing dimensions
        if rows is None or isinstance(rows, tuple):
            raise RowsError("expected rows in one dimension, found another index; use a slice, row numbers or a mask")
        if isinstance(rows, int | np.integer) and not isinstance(rows, bool):
            if not -len(self) <= rows < len(self):
                raise RowsError(f"expected a row between 0 and {len(self) - 1}, found {rows}")
            return RELEASED_LABEL
        index = rows if isinstance(rows, slice) else row_numbers(rows, len(self), self.identity)
        codes, channel = self.codes[index], self.channel.take(index)
        identity = None if self.identity is None else self.identity.take(index)
        if self.certificate is None:
            return Release(codes, channel, self.space, None, identity)
        parent = self.certificate.parent or self.hash
        certificate = self.certificate.of_rows(len(codes), parent)
        return Release(codes, channel, self.space, certificate, identity, self.origins)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the released labels and the row arrays of their channel, computed at the first use."""
        sha256 = hashlib.sha256()
        for part in (self.codes, *row_arrays(self.channel).values()):
            sha256.update(np.ascontiguousarray(part).data if part.size else b"")
        return sha256.hexdigest()

    def targets(self, features: object = None) -> Int32[np.ndarray, "n w"]:
        """The rows as plain whole numbers, for training loops and loaders of other libraries.

        Each row has the mark of the release, the released label, and the row's public parameters of the channel, such
        as its candidates or its cluster. So a loader may shuffle, split and batch them as it likes, beside the
        features. They are no labels to train on as such: ``labeldp.learning.torch.ChannelLoss`` reads them.

        Args:
            features: The features of these rows, whose index, if they have one, is compared with that of the labels.

        Returns:
            A new array of shape (n, w), with w >= 2 columns that depend on the mechanism.

        Raises:
            RowsError: The features have another index than the labels.

        Example:
            >>> from labeldp import Classes, Release
            >>> Release.public(["no", "yes", "no"], Classes(["no", "yes"])).targets()[:, 1].tolist()
            [0, 1, 0]
        """
        check_same_rows(features, self)
        return to_words(self.mark, self.codes, self.channel)

    @cached_property
    def mark(self) -> int:
        """The first number of each target: the same for all parts of a release, and another one for other releases."""
        return mark_of(self.channel, self.space, self.certificate)

    def of_targets(self, targets: Int32[np.ndarray, "m w"]) -> Release:
        """The release of some rows from their targets, in any order and number, to compute with.

        Raises:
            InputError: They are targets of another release.
        """
        if (targets[:, 0] != self.mark).any():
            raise InputError("expected targets of this release or of a part of it, found others")
        codes, channel = from_words(targets, self.codes, self.channel)
        certificate = self.certificate and self.certificate.of_rows(len(codes), self.certificate.parent or self.hash)
        return dataclasses.replace(self, codes=codes, channel=channel, certificate=certificate, identity=None)

    def likelihood(self) -> Float[np.ndarray, "n k"]:
        """P(released | true = j) for each row and class, up to a factor for each row."""
        return self.channel.likelihood(self.codes)

    def unbiased(self) -> Float[np.ndarray, "n k"]:
        """Vectors whose expectation given the true class is its one-hot vector.

        With candidates (``PriorResponse``, ``TopKResponse``) this holds only for true classes among the candidates of
        the row, and no unbiased vector exists for the others: use ``likelihood`` there.
        """
        return self.class_channel.unbiased(self.codes)

    @property
    def class_channel(self) -> ClassChannel:
        """The channel of these rows, if classes or sets of classes were released.

        Raises:
            InputError: Numbers were released.
        """
        if isinstance(self.channel, ClassChannel):
            return self.channel
        raise InputError(
            "expected released classes, or sets of classes, found released numbers; use release.numbers(), or a "
            "learner or a metric of numbers, such as ReleasedLabelRegressor or mean_squared_error (labeldp learn "
            "--model auto)"
        )

    def numbers(self, power: int = 1) -> Float[np.ndarray, "n"]:
        """Unbiased numbers: for a true label y on an ``Interval``, the mean of each, given y, is y.

        For ``BinResponse`` this is the number of the bin, whose mean is ``expected_numbers``.

        Args:
            power: 1, or 2 for numbers whose mean, given y, is y squared; between knots of the channel up to a sixth of
                the squared distance of two knots.

        Returns:
            Numbers in the label's unit, or its square, shape (n,). They may lie outside the interval.

        Raises:
            InputError: The labels are not of an ``Interval``, rows have candidates or clusters, or ``power=2`` and the
                channel does not identify squares.
        """
        space, one = self._interval, _checks.whole(power, "power", 1, 2) == 1
        steps = self.channel.numbers(self.codes)
        if one:
            return np.asarray(space.low + space.step * steps)
        squares = self.channel.squares(self.codes)
        return np.asarray(space.low**2 + 2 * space.low * space.step * steps + space.step**2 * squares)

    def expected_numbers(self, at: object) -> Float[np.ndarray, "n"]:
        """The mean of each row's number, given a true label: the label itself, except for ``BinResponse``.

        Args:
            at: True labels in the label's unit, shape (n,); interpolated linearly between grid points.
        """
        return np.asarray(self._of_distributions("mean", at) * self._interval.step + self._interval.low)

    def noise_variance(self, at: object = None) -> Float[np.ndarray, "n"]:
        """The variance of each row's number, given its true label.

        Args:
            at: Assumed true labels, such as predictions, in the label's unit, shape (n,). By default the variance is
                averaged over all grid points.

        Returns:
            Variances in the label's squared unit, shape (n,).
        """
        return np.asarray(self._of_distributions("variance", at) * self._interval.step**2)

    def _of_distributions(self, name: str, at: object) -> Float[np.ndarray, "n"]:
        """A property of the distribution of each row's number, at labels or averaged over the grid."""
        space, which = self._interval, self.channel.law_numbers(len(self))
        curves = [getattr(law, name) for law in self.channel.number_laws()]
        if at is None:
            return np.asarray(np.array([curve.mean() for curve in curves])[which])
        labels = floats(at, "labels")
        if labels.shape != (len(self),):
            raise InputError(f"expected a label for each of {len(self)} rows, found shape {labels.shape}")
        steps, points, values = (labels - space.low) / space.step, np.arange(space.size), np.empty(len(self))
        for law, curve in enumerate(curves):
            rows = which == law
            values[rows] = np.interp(steps[rows], points, curve)
        return values

    @property
    def _interval(self) -> Interval:
        if not isinstance(self.space, Interval):
            raise InputError(f"expected labels on an Interval for numbers, found {type(self.space).__name__}")
        return self.space

    def to_arrow(self) -> pa.ChunkedArray:
        """The released values: classes, or lists of classes in declared order."""
        return self._table("label")["label_released"]

    def save(
        self,
        directory: str | Path,
        table: object = None,
        *,
        keep: Iterable[str] | Literal["all", "none"] | None = None,
        label: str | None = None,
    ) -> Path:
        """Write the release, public columns and a certificate to a new folder.

        Args:
            directory: A folder that does not exist yet; it is written atomically.
            table: One row for each label: a pandas or polars frame, an Arrow table, a mapping of columns, or anything
                that exports Arrow's stream. None writes the released labels alone.
            keep: The columns of the table that you declare public, or ``"all"``, or ``"none"``. The true label must not
                be one. No other column is read, but for those that are named like a person's identifier.
            label: Prefix of the released columns, by default the curator's name of the labels.

        A column of the table that repeats like a person's identifier, beside labels whose epsilon covers one row each,
        is warned of (``UnitWarning``).

        Raises:
            InputError: No column was declared public, columns were passed without a table, the table has another number
                of rows, a column is a label that the curator's ledger was charged for before or has the name of the
                label, in any spelling, or of a released column, or ``"all"`` has a column that released labels cannot
                tell from the true label.
            RowsError: The table's index is not that of the labels.
            OutputError: The folder exists.
        """
        certificate = self._certified()
        if certificate.concatenated:
            raise InputError("expected one release to save, found rows of several; save, share and verify each of them")
        if certificate.features is not None:
            raise InputError(
                "expected labels that were released alone, found labels of rows with resampled features; save the rows "
                "(RowRelease.save)"
            )
        name = label or certificate.label
        public = public_beside(certificate, table, keep, len(self), "release")
        check_same_rows(table, self, "a table")
        if isinstance(keep, str) and keep == "all":
            refuse_possible_labels(public, self.space, self.channel, self.codes)
        check_kept(public, table, certificate, name, self.origins, stacklevel=2)
        added = self._table(name)
        names = [*public.column_names, *added.column_names, name]
        if len(set(names)) != len(names):
            twice = next(each for each in names if names.count(each) > 1)
            raise InputError(f"expected column names that the release does not use, found {twice!r}; leave it out")
        columns = {each: source[each] for source in (public, added) for each in source.column_names}
        return write_release(directory, columns, dataclasses.replace(certificate, label=name))

    @classmethod
    def load(cls, directory: str | Place) -> Release:
        """Load and verify the release in a folder: its rows have the index 0 .. n - 1, as a table read from it.

        Args:
            directory: The folder of a release: a path, or an address such as ``s3://bucket/shared``, which is copied
                at each call; ``public_columns`` takes the certificate of these labels, so that columns are theirs.

        Raises:
            VerificationError: The folder and its certificate do not agree.
        """
        with local_copy(directory) as folder:
            certificate, codes, channel = verified(folder)
        return cls(codes, channel, certificate.space, certificate, identity_of_places(len(codes)))

    def __copy__(self) -> Release:
        """The release itself, which nothing changes."""
        return self

    def __deepcopy__(self, _: object) -> Release:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by construction, so that the arrays of a copy are read-only too.

        Such a copy, as in another process (``n_jobs=2``), is known by position: what is stored or sent holds no digests
        of an index, which may be private.
        """
        return Release, (self.codes, self.channel, self.space, self.certificate)

    def _table(self, label: str) -> pa.Table:
        """The released columns."""
        return labels_table(label, self.space, self.channel, self.codes)

    def __repr__(self) -> str:
        if self.certificate is None:
            return f"<Release of {len(self)} labels declared public>"
        mechanisms = ", ".join(dict.fromkeys(draw.mechanism for draw in self.certificate.draws))
        public = "" if self.certificate.private else ", NOT PRIVATE (test words)"
        public += f", declared by {by}" if (by := self.certificate.declared_by) else ""
        return (
            f"<Release of {len(self)} rows by {mechanisms}, epsilon {shown_above(self.guarantee.epsilon, 7)}{public}>"
        )


def joined(
    parts: Sequence[Release], certificate: Certificate | None, order: Int[np.ndarray, "n"] | slice = slice(None)
) -> Release:
    """The rows of several releases in an order, each with its own channel, under a certificate of all."""
    channel = concatenated_channel([(part.channel, len(part)) for part in parts]).take(order)
    codes = np.concatenate([part.codes for part in parts])[order]
    identity = concatenated_identity([part.identity for part in parts], order)
    origins = tuple(dict.fromkeys(origin for part in parts for origin in part.origins))
    return Release(codes, channel, parts[0].space, certificate, identity, origins)
