"""Released rows: randomized labels, and features that were resampled with some probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp._spelling import canonical
from labeldp.errors import InputError, VerificationError
from labeldp.mechanisms.resampling import FeatureLaw, Form, form_from
from labeldp.privacy import Guarantee, LabelSpace
from labeldp.privacy.accounting import RenyiGuarantee
from labeldp.privacy.channels import ResponseChannel
from labeldp.release.folder import Certificate, column_types, write_release
from labeldp.release.released._public import public_columns
from labeldp.release.released._release import Release
from labeldp.release.released._row_identity import row_numbers


@dataclass(frozen=True, eq=False, repr=False)
class RowRelease:
    """Released labels and released features of the same rows.

    A row's features are its own or drawn by the generator, in the same form. Learners accept ``labels`` and
    ``features`` like any release; ``labeldp.learning.sklearn`` corrects for resampled features.

    Attributes:
        labels: The released labels, with their channel and certificate.
        features: The released features, one row for each label; without columns if none were released.

    Example:
        >>> from labeldp import Classes, Curator
        >>> from labeldp import DummyResponse
        >>> space = Classes(["no", "yes"])
        >>> released = Curator(["no", "yes"] * 50, space).randomize_rows(DummyResponse(space, 1.0))
        >>> len(released), len(released.take(slice(10)))
        (100, 10)
    """

    labels: Release
    features: pa.Table

    @property
    def certificate(self) -> Certificate:
        """The charges and the guarantees."""
        if self.labels.certificate is None or self.labels.certificate.features is None:
            raise InputError("expected a release of rows, found labels with public features; open it with Release")
        return self.labels.certificate

    @property
    def law(self) -> FeatureLaw:
        """The distribution of the released features."""
        if self.certificate.features is None:
            raise InputError("expected a release of rows, found labels with public features; open it with Release")
        return self.certificate.features

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee with static features."""
        return self.certificate.guarantee

    @property
    def conditional(self) -> tuple[RenyiGuarantee, ...]:
        """The guarantees with conditional features, one for each order; none if no divergence is known."""
        return self.certificate.conditional

    @property
    def noise(self) -> float:
        """Lambda: the probability that a label was drawn uniformly."""
        return float(self.labels.class_channel.membership.other) * self.labels.space.size

    @property
    def replaced(self) -> float:
        """The probability that a row's features were resampled."""
        return float(self.law.chance)

    @property
    def form(self) -> Form:
        """The form of the features."""
        if self.law.generator is None:
            raise InputError("expected released features, found labels alone; read labels")
        return form_from(self.law.generator["form"])

    def array(self) -> np.ndarray:
        """The features as an array of shape (n, ...), if the generator's public rows were an array."""
        return self.form.array(self.features)

    def take(self, rows: object) -> RowRelease:
        """A subset of the rows: a slice, row numbers or a mask."""
        index = row_numbers(rows, len(self), self.labels.identity)
        features = self.features if not self.features.num_columns else self.features.take(pa.array(index))
        return RowRelease(self.labels[index], features)

    def __len__(self) -> int:
        return len(self.labels)

    def save(self, directory: str | Path) -> Path:
        """Write the rows and their certificate to a new folder, like ``Release.save``.

        Raises:
            OutputError: The folder exists.
        """
        added = self.labels._table(self.certificate.label)
        columns = {name: source[name] for source in (self.features, added) for name in source.column_names}
        return write_release(directory, columns, self.certificate)

    @classmethod
    def load(cls, directory: str | Path) -> RowRelease:
        """Load and verify the rows in a folder.

        Raises:
            VerificationError: The folder and its certificate do not agree, or its features are public.
        """
        labels = Release.load(directory)
        if labels.certificate is None or labels.certificate.features is None:
            raise VerificationError(
                f"expected rows with resampled features in {directory}, found labels with public features; open them "
                "with Release.load"
            )
        return cls(labels, public_columns(directory, labels.certificate))

    def __repr__(self) -> str:
        return f"<RowRelease of {len(self)} rows, {self.features.num_columns} columns; {self.labels!r}>"


def no_features(features: object, divergences: Mapping[float, float] | None) -> None:
    """Refuse features with a mechanism that releases none."""
    if features is not None or divergences is not None:
        raise InputError("expected no features with DummyResponse, found some; use DoubleResponse to release them")


def check_names(names: Sequence[str], label: str, space: LabelSpace) -> None:
    """Refuse features with the name of the label, in any spelling, or of a released column."""
    added = column_types(label, space, ResponseChannel.nearly_certain(space.size))
    if clash := [name for name in names if name in added or canonical(name) == canonical(label)]:
        raise InputError(f"expected feature names that the release does not use, found {min(clash)!r}; rename it")
