"""Options that several commands share, and their parsing."""

from __future__ import annotations

import csv
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli._command import Place
from labeldp.cli._terminal import names, progress
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.release.ledger import Ledger
    from labeldp.release.tables import Table, TableFile


#: What declares a label space.
DECLARED = "either --classes a,b,c (categories) or --interval LO,HI,STEP (numbers) to declare the labels"
#: Prefix of the names of networks.
NETWORK = "torch:"
#: The models that are taken for images where none is named, without an encoder and with one.
IMAGE_MODEL, ENCODER_MODEL = "patches", "encoder"
#: Separators that are hard to type.
_SEPARATORS = {"tab": "\t", "\\t": "\t", "semicolon": ";", "comma": ",", "bar": "|", "space": " ", "point": "."}
EVERYTHING, _NOTHING = "all", "none"
#: Letters of thousands, millions, ... of bytes.
_SIZES = "KMGT"


def budget_of(text: str) -> tuple[float, float]:
    """Parse EPSILON or EPSILON,DELTA."""
    try:
        epsilon, delta = map(float, text.split(",") if "," in text else (text, "0"))
    except ValueError:
        raise typer.BadParameter(
            f"expected EPSILON or EPSILON,DELTA, such as 2 or 2,1e-6, found {text!r}; write decimals with a point"
        ) from None
    return epsilon, delta


def bytes_of(text: str) -> int:
    """Parse a number of bytes, such as 4GB, 500 MB or 2GiB."""
    number, unit = text.rstrip("BbIi").strip(), 1000 if "i" not in text.lower() else 1024
    power = _SIZES.find(number[-1:].upper()) + 1
    try:
        found = float(number[:-1] if power else number) * unit**power
    except ValueError:
        found = 0.0
    if not 1.0 <= found < 2.0**63:
        raise typer.BadParameter(f"expected an amount of memory, such as 4GB or 500MB, found {text!r}")
    return int(found)


@dataclass(frozen=True)
class FileOptions:
    """Options for CSV files and workbooks.

    Args:
        separator: For CSV: the separator of the columns; default: a comma, semicolon, tab or bar, as the first line
            shows.
        encoding: For CSV: the encoding, such as cp1252; default: UTF-8. It is not guessed, since a guess would depend
            on labels.
        decimal: For CSV: the mark before decimals, a point or a comma.
        thousands: For CSV: the mark between thousands: a comma, point, apostrophe, or 'space'.
        dates: For CSV: the order in dates, dmy or mdy; default: ymd, as in 2026-01-31.
        sheet: For Excel: the sheet, if there are several.
    """

    separator: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    dates: str = "ymd"
    sheet: str | None = None

    def of(self, source: Place) -> TableFile:
        """A table that is read so; a file of a web server is fetched first."""
        from labeldp.columns import Notation  # noqa: PLC0415 (it loads Arrow)
        from labeldp.release.tables import TableFile  # noqa: PLC0415

        if not isinstance(source, Path):
            with progress() as bar:
                source.fetch(bar)
        notation = Notation(self.decimal, _SEPARATORS.get(self.thousands, self.thousands), self.dates)
        return TableFile(
            source, _SEPARATORS.get(self.separator or "", self.separator), self.encoding, notation, self.sheet
        )


@dataclass(frozen=True)
class ColumnOptions:
    """Options for the public columns of a table.

    Args:
        keep: Public columns: a,b,c, 'all' (but the label) or 'none'.
        drop: Columns that are not public; all others are published.
    """

    keep: list[str] | None = None
    drop: list[str] | None = None

    def of(self, table: Table) -> tuple[list[str] | None, list[str] | None]:
        """The columns to keep and to drop; exactly one is None in a valid declaration."""
        kept, dropped = names(self.keep), names(self.drop)
        if kept == [EVERYTHING]:
            return None, dropped or []
        if kept == [_NOTHING] and _NOTHING not in table.schema.names:
            return [], dropped
        return kept, dropped


def ledger_of(ledger: Path | None, team_ledger: Path | None) -> Path | Ledger | None:
    """The ledger that was named, by either option."""
    if team_ledger is None:
        return ledger
    if ledger is not None:
        raise InputError("expected --ledger or --team-ledger, found both; name the one to be charged")
    from labeldp.release.ledger import Ledger  # noqa: PLC0415 (it loads Arrow)

    return Ledger(team_ledger, team=True)


@dataclass(frozen=True)
class SpendingOptions:
    """Options for the ledger and its budget.

    Args:
        budget (EPSILON[,DELTA]): Total budget for this label over all releases; default: the epsilon of the first.
        ledger: The ledger file; default: beside INPUT. Charges in ledgers beside INPUT count too.
        team_ledger: In place of --ledger, one that a team shares. It and ledgers beside INPUT may be other users', and
            their groups may write to them.
        other_people: Reason for which these rows are other people's than those released before, though their public
            values look alike; the certificate and the ledger show it.
        only_new: Release only rows that were not released before, nor others of their --unit; all others are left out.
    """

    budget: Annotated[Any, typer.Option(parser=budget_of)] = None
    ledger: Path | None = None
    team_ledger: Path | None = None
    other_people: str | None = None
    only_new: bool = False

    def arguments(self) -> dict[str, Any]:
        """The arguments of ``labeldp.release_table``."""
        named = {name: getattr(self, name) for name in ("budget", "other_people", "only_new")}
        return named | {"ledger": ledger_of(self.ledger, self.team_ledger)}


@dataclass(frozen=True)
class ImageOptions:
    """Options for images.

    Args:
        images: For image models: an IDX file in row order, or a folder of PNG files.
        image_column: For a folder of images: the public column with the name of each row's PNG file.
        encoder (NAME|FILE): For images: an encoder that others trained, whose features are learned from in place of
            patches: efficientnet-lite0, of an installed package, or a file that ends in .onnx. A model in a file needs
            the same encoder to predict, and finds an installed one by itself.
    """

    images: Path | None = None
    image_column: str | None = None
    encoder: str | None = None

    @property
    def model(self) -> str | None:
        """The model of images where none is named; None without images."""
        if self.encoder is not None:
            return ENCODER_MODEL
        return None if self.images is None else IMAGE_MODEL

    def read(self) -> dict[str, Any]:
        """Read the images; arguments of the functions of ``labeldp.learning.tables``."""
        found = {"images": self.images, "image_column": self.image_column}
        if self.images is None:
            return found
        from labeldp.learning.features import read_images  # noqa: PLC0415 (the learners are an extra)

        return found | {"images": read_images(self.images)}

    def open_model(self, path: Path) -> Any:
        """A model in a file, with the encoder of its images if it has one."""
        from labeldp.learning.tables import open_model  # noqa: PLC0415 (the learners are an extra)

        model = open_model(path)
        if model.card is not None:
            from labeldp.learning.images import cache_folder  # noqa: PLC0415 (other models do without)

            return model.with_encoder(self.encoder, cache_folder())
        if self.encoder is not None:
            raise InputError("expected no --encoder with a model that was learned without one, found one; leave it out")
        return model


@dataclass(frozen=True)
class EncoderOptions:
    """Options for an encoder in a file.

    Args:
        encoder_licence (TEXT): Licence of the encoder in a file, which you state.
        encoder_labels (TEXT): Labels that the encoder in a file was trained on, such as ImageNet-1k, which you state.
    """

    encoder_licence: str | None = None
    encoder_labels: str | None = None

    def open(self, images: ImageOptions) -> dict[str, Any]:
        """Open the encoder of images; arguments of a ``ModelChoice``."""
        if images.encoder is None:
            if self != EncoderOptions():
                raise InputError("expected an --encoder of which licence or labels are stated, found none; name it")
            return {}
        from labeldp.learning.images import cache_folder  # noqa: PLC0415 (the learners are an extra)
        from labeldp.learning.tables import open_encoder  # noqa: PLC0415

        stated = {"licence": self.encoder_licence, "labels": self.encoder_labels}
        return {"encoder": open_encoder(images.encoder, **stated, cache=cache_folder())}


@dataclass(frozen=True)
class TrainingOptions:
    """Options for networks.

    Args:
        epochs: For networks: number of passes over the rows.
        batch_size: For networks: rows per step.
        learning_rate: For networks: largest learning rate.
        mixup: For networks: strength of mixup; 0 turns it off.
        device: For networks: cpu or cuda; default: cuda if available.
    """

    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    mixup: float | None = None
    device: str | None = None

    def settings(self) -> dict[str, Any]:
        """The settings that were passed."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def check_no_network_options(images: ImageOptions, training: TrainingOptions) -> None:
    """Refuse options that only networks use.

    Raises:
        InputError: One was passed.
    """
    for name, value in (asdict(images) | training.settings()).items():
        if value is not None:
            raise InputError(
                f"expected --{name.replace('_', '-')} with a network ({NETWORK}...) alone, found it with another "
                "model; leave it out"
            )


def check_one_of(expected: str, one: object, other: object, hint: str = "") -> None:
    """Refuse both and neither of two options."""
    if (one is None) == (other is None):
        raise InputError(f"expected {expected}, found {'neither' if one is None else 'both'}{hint}")


def class_texts(classes: str) -> list[str]:
    """Classes from a comma-separated list, from the lines of a file, or from a column of a code book."""
    if not classes.startswith("@"):
        quoted = '"' in classes
        return next(csv.reader([classes], skipinitialspace=True)) if quoted else [t.strip() for t in classes.split(",")]
    from labeldp.release.tables import disk_path  # noqa: PLC0415 (it loads Arrow)

    path, _, column = classes[1:].rpartition(":")
    try:
        if path and not Path(classes[1:]).exists():
            return _column_of(disk_path(path), column)
        lines = disk_path(classes[1:]).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError, csv.Error):
        raise InputError(
            f"expected a text file with one class per line, or FILE.csv:COLUMN, found none at {classes[1:]}"
        ) from None
    return [line for line in lines if line]


def _column_of(path: Path, column: str) -> list[str]:
    """The values of a column of a code book, in their order; a table has values that repeat, and is none."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        if column not in (rows.fieldnames or ()):
            raise InputError(f"expected a column {column!r} in {path}, found {', '.join(rows.fieldnames or ())}")
        values = [row[column] for row in rows if row[column]]
    if len(set(values)) < len(values):
        raise InputError(
            f"expected each class once in the column {column!r} of a code book, found one again in {path}: classes "
            "must not be read from the labels of a table"
        )
    return values


def divergences_of(texts: Sequence[str]) -> dict[float, float]:
    """Parse declared divergences, each ALPHA=D."""
    divergences: dict[float, float] = {}
    for text in texts:
        alpha, equals, divergence = text.partition("=")
        if not equals:
            raise InputError(f"expected --divergence ALPHA=D, such as 2=0.3 or inf=1.5, found {text!r}")
        order = number_of(alpha, "the order of --divergence")
        if order in divergences:
            raise InputError(f"expected each order of --divergence once, found {order:g} twice")
        divergences[order] = number_of(divergence, "--divergence")
    return divergences


def range_of(text: str) -> tuple[float, float, float]:
    """Parse LO,HI,STEP of an interval."""
    parts = text.split(",")
    if len(parts) != 3:
        raise InputError(f"expected --interval LO,HI,STEP, such as 0,100,0.5, found {text!r}")
    low, high, step = (number_of(part, "--interval LO,HI,STEP") for part in parts)
    return low, high, step


def number_of(text: str, option: str) -> float:
    """Parse a number for an option."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"expected a number for {option}, found {text!r}") from None


def named_object(text: str, option: str) -> object:
    """Import the object ``module:name``; modules in the working directory can be imported too.

    Raises:
        InputError: The module cannot be imported, or has no such name. Its own error is not shown: it may contain data.
    """
    module, _, name = text.partition(":")
    if not module or not name:
        raise InputError(f"expected module:name for {option}, such as mycode:noisy, found {text!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        imported = importlib.import_module(module)
    except Exception as problem:  # noqa: BLE001 (anything may happen while a module is run)
        why = type(problem).__name__
        raise InputError(
            f"expected a module {module!r} that can be imported for {option}, found a {why}; import it to see why"
        ) from None
    if not hasattr(imported, name):
        raise InputError(f"expected {name!r} in the module {module!r} for {option}, found no such name")
    return getattr(imported, name)
