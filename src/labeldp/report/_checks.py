"""The findings in a table before its release, for the holder alone, and the command that releases it."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from labeldp.privacy import shown_above
from labeldp.release import MOST_LABELS, ledger_path
from labeldp.report._parts import Parts, add_row, name_value_table, sentence, titled_table

if TYPE_CHECKING:
    from labeldp.release import TableCheck

_SHOWN = 30
#: A class of fewer rows is hardly learned, and one of a single row may name a person.
_RARE = 20
_PRIVATE = "For the holder alone: this page depends on the labels, so do not share it. Nothing was spent or written."
_EPSILON = "1"
#: Separators that the first line of a table shows.
_FOUND = (",", ";", "\t", "|")


def check_text(found: TableCheck) -> Parts:
    """The findings of ``check_table``, what to decide, and the command that releases the table."""
    table, label = found.table, found.label
    count = len(found.columns)
    columns = f"{count} column{'' if count == 1 else 's'} beside the label"
    result = sentence(f"{table.path}: {found.rows:,} rows, {columns}.")
    parts: Parts = [Text(_PRIVATE, "bold yellow"), Text(), result, Text()]
    parts += [_columns(found), Text()] if found.columns else []
    rows = [("stored as", _stored(found)), *_labels(found)]
    rows += [("note", remark) for remark in label.remarks]
    parts += [Text(f"label {label.name}", "bold"), name_value_table(rows), Text()]
    decide = [*_decisions(found)]
    if decide:
        parts += [Text("to decide", "bold"), *(sentence(f"- {each}") for each in decide), Text()]
    return [*parts, Text("the release, to be edited", "bold"), sentence(release_command(found))]


def _columns(found: TableCheck) -> Table:
    """The public columns, with what to know of each."""
    lines = titled_table("columns", ["column", "type", "different values", "note"])
    for column in found.columns[:_SHOWN]:
        add_row(lines, column.name, column.kind, f"{column.different:,}", "; ".join(column.remarks))
    if (more := len(found.columns) - _SHOWN) > 0:
        add_row(lines, f"... and {more} more", "", "", "")
    return lines


def _stored(found: TableCheck) -> str:
    """The form of the file and of its label column."""
    if found.table.kind != "csv":
        return found.label.kind
    file = found.table.file
    separator = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}.get(file.separator or "", "another mark")
    return f"text, in CSV with {separator}, {file.encoding}"


def _labels(found: TableCheck) -> Iterator[tuple[str, str]]:
    """The values of the labels."""
    label = found.label
    if label.is_number:
        numbers, many = sorted(map(float, label.counts)), len(label.counts) >= MOST_LABELS
        among = f", among the first {MOST_LABELS:,} different ones" if many else ""
        yield "values", f"numbers from {numbers[0]:g} to {numbers[-1]:g}{among}"
    else:
        known = sum(label.counts.values())
        shown = [f"{value!r} {count:,} ({count / known:.1%})" for value, count in list(label.counts.items())[:_SHOWN]]
        more = len(label.counts) - _SHOWN
        yield "classes", ", ".join([*shown, *([f"... and {more} more"] if more > 0 else [])])
        rare = [value for value, count in label.counts.items() if count < _RARE]
        if rare:
            yield "rare", f"{', '.join(map(repr, rare[:_SHOWN]))}: fewer than {_RARE} rows; consider combining classes"
    if label.missing:
        yield "missing", f"{label.missing:,} rows: --missing names the class or number that they get"


def _decisions(found: TableCheck) -> Iterator[str]:
    """The decisions of the holder before the release."""
    for repeat in found.repeats:
        yield (
            f"{repeat.name!r} repeats, in up to {repeat.most:,} rows. If it identifies people: --unit {repeat.name} "
            f"(without it, that person's epsilon is {repeat.most:,} times as large). If not: --unit row"
        )
    if found.repeats:
        name = found.repeats[0].name
        yield (
            f"{name!r} is dropped below, since it may name people. Keep it if it is a made-up number: which rows are "
            f"of one {name} is public anyway, once it is the unit, and models can then be judged on other people"
        )
    yield from found.remarks
    yield from found.notes
    if found.label.is_number:
        yield (
            "the range of --interval must be public, as from a code book: the least and largest label above are "
            "private. Labels beyond it are clipped. Without a code book, buy an end of it: --mechanism noisy-quantile "
            "--level 0.95 --keep none, on a range that is surely wide enough"
        )
    else:
        yield (
            "the classes of --classes are published. Above are those that occur: where that alone is secret, take "
            "them from a code book"
        )
    if found.label.missing or found.notes:
        yield "--missing, and the columns that are dropped below since they disclose labels, follow from the labels too"
    if not isinstance(found.table.path, Path):
        yield (
            f"a table in a store has no ledger beside it: charges in the ledgers of {Path.cwd()} count here, others do "
            "not. If the table was released before with another --ledger, name that one"
        )
    for each in found.earlier:
        entry = each.entry
        spent = shown_above(entry.guarantee.epsilon, 3)
        again = "another release of it adds up, and needs --budget"
        if entry.label != found.label.name:
            again = "the epsilons of both labels add up if one reveals the other, and its column must not be kept"
        yield (
            f"{entry.label!r} of what may be these rows was released on {entry.time[:10]} at epsilon {spent}"
            f"{f' into {entry.output}' if entry.output else ''}: {again}"
        )


def release_command(found: TableCheck) -> str:
    """The command that releases the table, without columns that name rows or people, or disclose a label."""
    label, table = found.label, found.table
    unit = found.repeats[0].name if found.repeats else None
    disclosing = [column.name for column in found.columns if any(repr(column.name) in note for note in found.notes)]
    private = {*disclosing, *(each.name for each in found.repeats), *(each.entry.label for each in found.earlier)}
    left_out = [column.name for column in found.columns if column.identifies or column.name in private]
    words = ["labeldp", "release", str(table.path), "--label", label.name]
    words += ["--interval", "LOW,HIGH,STEP"] if label.is_number else ["--classes", _listed(_in_order(label.counts))]
    words += ["--missing", "CLASS"] if label.missing else []
    words += ["--epsilon", _EPSILON, *(["--unit", unit] if unit else [])]
    words += [] if isinstance(table.path, Path) else ["--ledger", str(ledger_path(table.path))]
    words += ["--budget", "TOTAL"] if any(each.entry.label == label.name for each in found.earlier) else []
    words += ["--drop", _listed(left_out)] if left_out else ["--keep", "all"]
    if table.kind == "csv" and table.file.encoding != "utf-8":
        words += ["--encoding", table.file.encoding]
    if table.kind == "csv" and table.file.separator not in _FOUND:
        words += ["--separator", str(table.file.separator)]
    return shlex.join([*words, "--output", "shared"])


def _in_order(values: Iterable[str]) -> list[str]:
    """Classes in an order that says nothing of how frequent they are: the certificate publishes it."""
    try:
        return sorted(values, key=int)
    except ValueError:
        return sorted(values)


def _listed(values: list[str]) -> str:
    """Values separated by commas, quoted where they hold one."""
    quoted = any(value != value.strip() or "," in value or '"' in value for value in values)
    line = io.StringIO()
    csv.writer(line, lineterminator="", quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL).writerow(values)
    return line.getvalue()
