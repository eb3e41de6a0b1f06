"""``labeldp release``: release a table with a sensitive label."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import labeldp.release as releases
from labeldp import privacy, results
from labeldp._progress import Progress
from labeldp.cli._command import Declared, Place, documented
from labeldp.cli._options import (
    DECLARED,
    ColumnOptions,
    FileOptions,
    SpendingOptions,
    check_one_of,
    class_texts,
    divergences_of,
    named_object,
    number_of,
    range_of,
)
from labeldp.cli._terminal import notes_on_terminal, printed_warnings, progress, result
from labeldp.errors import InputError
from labeldp.mechanisms import queries, resampling
from labeldp.release import engines, folder, tables

if TYPE_CHECKING:
    from labeldp.privacy import LabelSpace
    from labeldp.release import TableMechanism
    from labeldp.release.jobs.mechanisms import Option
    from labeldp.release.tables import Table

_AUTO = "auto"


@dataclass(frozen=True)
class SpaceOptions:
    """Options that declare the labels.

    Args:
        classes: All classes that can occur: a,b,c (quote those with commas), @FILE with one per line, or
            @FILE.csv:COLUMN of a code book.
        interval: For a numeric label: range and grid LO,HI,STEP; labels outside are clipped.
        missing: Missing labels: 'refuse', or the class or number to put in their place.
    """

    classes: str | None = None
    interval: str | None = None
    missing: str = "refuse"

    def of(self, table: Table) -> LabelSpace:
        """The declared label space, with classes in the type of the label column."""
        if self.classes is not None:
            texts = class_texts(self.classes)
            if len(texts) == 1 and not self.classes.startswith("@"):
                counted = " (only 'labeldp plan' takes their number)" if texts[0].isdecimal() else ""
                raise InputError(
                    f"expected all classes in --classes, such as yes,no, found one{counted}; 'labeldp check TABLE "
                    "--label COLUMN' lists those of a table"
                )
            return tables.declared_classes(table, texts, self.missing)
        missing = self.missing if self.missing == "refuse" else number_of(self.missing, "--missing")
        return privacy.Interval(*range_of(self.interval or ""), missing)


def declared_options() -> dict[str, tuple[str, type, str | None, str]]:
    """The options of mechanisms."""
    return {name: _declared(name, *said) for name, said in releases.table_options().items()}


def _declared(
    name: str, of: type[TableMechanism], said: Option, takers: tuple[str, ...]
) -> tuple[str, type, str | None, str]:
    """An option as the command takes it, with the help in the docstring of its class."""
    metavar, text = documented(of)[1].get(name, (None, ""))
    listed = " and ".join(filter(None, (", ".join(takers[:-1]), takers[-1])))
    return said.flag, said.kind, metavar, f"For {listed}: {text[:1].lower()}{text[1:]}"


@dataclass(frozen=True)
class MechanismOptions:
    """Options that choose a mechanism.

    Args:
        mechanism: The mechanism, such as subset; 'labeldp mechanisms' describes each. auto (default): for classes the
            most effective rows where features leave two classes equally likely ('at most' in 'labeldp plan --detail'),
            for numeric labels the least variance for the worst label.
    """

    mechanism: str = _AUTO
    options: Annotated[Declared, declared_options] = field(default_factory=dict)

    def of(self, **readers: Callable[[Any], Any]) -> TableMechanism:
        """The mechanism; ``readers`` convert the values of some options, once all are known to go with it."""
        mechanism = releases.mechanism_of(self.mechanism, **self.options)
        read = {name: reader(self.options[name]) for name, reader in readers.items() if name in self.options}
        return dataclasses.replace(mechanism, **read)


@dataclass(frozen=True)
class PeopleOptions:
    """Options for people with several rows.

    Args:
        unit: Column of the privacy unit, such as a patient number: epsilon then covers all rows of one unit. 'row'
            declares that epsilon is for each row, whoever has several.
        renumber: Release a made-up number of each --unit in place of its column, in random order. The key of these
            numbers is kept beside the ledger, so people who return keep their number.
    """

    unit: str | None = None
    renumber: bool = False


def release(
    source: Place,
    *,
    label: str,
    epsilon: float,
    output: Place,
    space: SpaceOptions,
    columns: ColumnOptions,
    people: PeopleOptions,
    spending: SpendingOptions,
    mechanism: MechanismOptions,
    file: FileOptions,
    shuffle: bool = False,
    sign: Path | None = None,
    engine: str | None = None,
    json_: bool = False,
) -> None:
    """Randomize each label once, and write public columns, released labels and a certificate to a new folder.

    You decide which columns are safe to publish: list them with --keep, or list the others with --drop.

    Numeric labels (--interval) are released as numbers whose mean is the label.

    Args:
        source (INPUT): CSV or Parquet, a folder of either, or IDX labels; a path, or an address such as
            s3://bucket/table or https://host/table.csv, with --ledger.
        label: Name of the sensitive label column.
        epsilon: Privacy cost of each label, or of all labels of one --unit.
        output: A new folder for the release: a path, or an address such as s3://bucket/shared.
        space: The label space.
        columns: The public columns.
        people: People with several rows.
        spending: The ledger and its budget.
        mechanism: The mechanism.
        file: How CSV files are written.
        shuffle: Release the rows in a random order, in one file. It does not hide columns that are sorted as the table
            is, such as a date.
        sign: The private key to sign the release with, from 'labeldp key'.
        engine: Workers for the parts of a large table: processes[:N], dask[:ADDRESS] or spark[:MASTER]; without an
            address, a cluster starts on this machine. Default: this process alone.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    signer = None if sign is None else folder.private_key(sign)
    check_one_of(DECLARED, space.classes, space.interval)
    given = file.of(source)
    table = tables.open_table(given, label)
    declared, (keep, drop) = space.of(table), columns.of(table)
    with printed_warnings(queries.DeltaWarning), engines.open_engine(engine) as workers, progress() as bar:
        clusters = partial(_clusters, table, (keep, drop), partial(_suggested, declared, epsilon), bar)
        released = releases.release_table(
            given,
            label,
            declared,
            epsilon,
            output,
            keep=keep,
            drop=drop,
            mechanism=mechanism.of(clusters=clusters, generator=_generator, divergences=divergences_of),
            unit=people.unit,
            renumber=people.renumber,
            shuffle=shuffle,
            **spending.arguments(),
            progress=bar,
            executor=None if engine is None else workers,
        )
    if signer is not None:
        folder.sign(output, signer, released.certificate)
    result(json_, lambda: results.Released.of(released), lambda: results.shown_release(released))
    notes_on_terminal(released.notes)


def _clusters(
    table: Table,
    columns: tuple[list[str] | None, list[str] | None],
    suggested: Callable[[int], int],
    bar: Progress,
    clusters: str,
) -> Any:
    """The column of clusters, or a number of clusters computed from the kept columns."""
    if clusters in table.schema.names or not (clusters.isdecimal() or clusters == _AUTO):
        return clusters
    from labeldp.learning.tables import cluster_table  # noqa: PLC0415 (the learners are an extra)

    public = releases.kept_columns(table.schema, table.label, *columns)
    return cluster_table(table.file, table.label, public, suggested if clusters == _AUTO else int(clusters), bar)


def _generator(text: str) -> Any:
    """Load a generator from a file, or from a user's own module."""
    if Path(text).exists() or ":" not in text:
        from labeldp.learning.generators import open_generator  # noqa: PLC0415 (the learners are an extra)

        return open_generator(text).generator()
    generator = named_object(text, "--generator")
    if callable(generator) and not isinstance(generator, resampling.Generator):
        generator = generator()
    if not isinstance(generator, resampling.Generator):
        raise InputError(
            f"expected a labeldp.Generator, or a function that returns one, for --generator, found "
            f"{type(generator).__name__}"
        )
    return generator


def _suggested(space: LabelSpace, epsilon: float, rows: int) -> int:
    """Suggested number of clusters for so many rows at this epsilon."""
    from labeldp.learning.cells import suggested_count  # noqa: PLC0415 (the learners are an extra)

    return suggested_count(rows, space.size, epsilon)
