"""The findings in a table before its release, for the holder alone, and the command that releases it."""

from __future__ import annotations

import csv
import io
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from labeldp._strict_json import absent
from labeldp.bounds.planning import Option, plan
from labeldp.release import MOST_LABELS, ColumnFacts, LabelFacts, ledger_path
from labeldp.release.ledger import may_return, new_output, new_rows, returning
from labeldp.release.tables import SHUFFLE, Identity
from labeldp.results._blocks import Block, Grid, Part, Points, Prose, Section, Terms
from labeldp.results._numbers import counted, epsilon_above, share
from labeldp.results._plan import informative

if TYPE_CHECKING:
    from labeldp.release import TableCheck
    from labeldp.release.ledger import Earlier

_SHOWN = 30
#: Classes up to which the check says what a plan would.
_MOST_PLANNED = 1 << 10
#: A class of fewer rows is hardly learned, and one of a single row may name a person.
_RARE = 20
_PRIVATE = "For the holder alone: this page depends on the labels, so do not share it. Nothing was spent or written."
#: What is said of columns that disclose labels, by what becomes of them.
_DISCLOSING = {
    "dropped": "{}: dropped below, because the column discloses labels. That it is dropped depends on labels too",
    "kept": "{}: kept below as you declared, though the column discloses labels: drop it",
}
_EPSILON = "1"
#: The file of classes that are too many to be typed.
_CLASSES = Path("classes.txt")
#: Separators that the first line of a table shows.
_FOUND = (",", ";", "\t", "|")


@dataclass(frozen=True)
class EarlierShown:
    """An earlier charge of what may be these rows."""

    label: str
    time: str
    epsilon: float
    rows: int | None
    units: int | None


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The findings in a table, as ``labeldp check --json`` prints them. They depend on labels.

    Attributes:
        private: True, since they are for the holder alone.
        rows: Number of rows.
        unit: The column of the privacy unit, or ``"row"``.
        columns: The public columns.
        label: The labels.
        people: Columns that may be people with several rows.
        remarks: Remarks on public columns together.
        notes: Columns and row orders that disclose labels.
        earlier: Earlier charges of what may be these rows.
        command: The command that releases the table.
        table: The path of the table.
        stored: How the file and its label column are stored.
        decisions: What to decide before the release.
        planned: What ``labeldp plan`` states of these labels at the epsilon of the command, for rows on their own.
    """

    private: Literal[True]
    rows: int
    unit: str
    columns: tuple[ColumnFacts, ...]
    label: LabelFacts
    people: tuple[Identity, ...]
    remarks: tuple[str, ...]
    notes: tuple[str, ...]
    earlier: tuple[EarlierShown, ...]
    command: str
    table: str = ""
    stored: str = ""
    decisions: tuple[str, ...] = ()
    planned: Option | None = absent()

    @classmethod
    def of(cls, found: TableCheck, classes: Path | None = None) -> Checked:
        """The findings of ``check_table``, and the file that has the classes, if it was written."""
        earlier = (
            EarlierShown(
                *(each.entry.label, each.entry.time, each.entry.guarantee.epsilon),
                sum(stop - start for start, stop in each.rows.ranges) if each.certain else None,
                each.units,
            )
            for each in found.earlier
        )
        return cls(
            private=True,
            **{
                name: getattr(found, name)
                for name in ("rows", "unit", "columns", "label", "people", "remarks", "notes")
            },
            earlier=tuple(earlier),
            command=release_command(found, classes),
            table=str(found.table.path),
            stored=_stored(found),
            planned=_planned(found),
            decisions=(
                *_decisions(found),
                *(_classes_to_write(found) if classes is None else ()),
                f"epsilon {_EPSILON} is an example. What it costs, beside others: {_plan_command(found, classes)}",
            ),
        )


def check_part(found: Checked) -> Part:
    """The findings in a table, what to decide, and the command that releases the table; for the holder alone."""
    columns = f"{counted(len(found.columns), 'column')} beside the label"
    done = f"{found.table}: {counted(found.rows, 'row')}, {columns}."
    sections = [Section("columns", (_columns(found),))] if found.columns else []
    rows = [
        ("stored as", found.stored),
        *_worth(found),
        *_labels(found.label),
        *(("note", remark) for remark in found.label.remarks),
    ]
    sections.append(Section(f"label {found.label.name}", (Terms(tuple(rows)), *_counts(found.label))))
    if found.decisions:
        sections.append(Section("to decide", (Points.of(found.decisions),)))
    sections.append(Section("the release, to be edited", (Prose(found.command),)))
    headline = f"{found.rows:,} rows, looked at before a release"
    return Part("A table, before its release", headline, "heed", (_PRIVATE, done), (), tuple(sections), private=True)


def _planned(found: TableCheck) -> Option | None:
    """The row of a plan for the classes of the command at their shares; None for numeric labels, and for too many."""
    label = found.label
    counts = Counter() if label.is_number else Counter(label.class_rows)
    if label.missing and counts:
        counts[label.missing_class or ""] += label.missing
    if not 1 < len(counts) <= _MOST_PLANNED:
        return None
    shares = [count / counts.total() for count in counts.values()]
    return plan(len(counts), found.rows, float(_EPSILON), epsilons=(), shares=shares).over_epsilon[0]


def _worth(found: Checked) -> Iterator[tuple[str, str]]:
    """The effective rows of a release, in the words of a plan."""
    if found.planned is not None:
        units = [found.unit, *(each.name for each in found.people)]
        unit = next((name for name in units if name != "row"), "")
        fewer = (
            f"; fewer where epsilon is per {unit}: 'labeldp plan' says how many, and whether one row of each shows more"
            if unit
            else ""
        )
        yield "would be", f"{informative(found.planned, found.rows)} at epsilon {_EPSILON} per row{fewer}"


def _columns(found: Checked) -> Grid:
    """The public columns, with what to know of each."""
    rows = [
        (column.name, column.kind, f"{column.different:,}" if column.different else "", "; ".join(column.remarks))
        for column in found.columns
    ]
    return Grid.of("columns", ("column", "type", "different values", "note"), rows, (2,), most=_SHOWN)


def _counts(label: LabelFacts) -> Iterator[Block]:
    """The rows of each class, for a page."""
    if not label.is_number:
        rows = [(name, f"{count:,}") for name, count in label.counts.items()]
        yield Grid.of(f"Classes of {label.name}", ("class", "rows"), rows, (1,), detail=True)


def _stored(found: TableCheck) -> str:
    """The form of the file and of its label column."""
    if found.table.kind != "csv":
        return found.label.kind
    file = found.table.file
    separator = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}.get(file.separator or "", "another mark")
    return f"text, in CSV with {separator}, {file.encoding}"


def _labels(label: LabelFacts) -> Iterator[tuple[str, str]]:
    """The values of the labels."""
    if label.is_number:
        numbers, many = sorted(map(float, label.counts)), len(label.counts) >= MOST_LABELS
        among = f", among the first {MOST_LABELS:,} different ones" if many else ""
        yield "values", f"numbers from {numbers[0]:g} to {numbers[-1]:g}{among}"
    else:
        counts = label.class_rows
        known = sum(counts.values()) or 1
        shown = [f"{value!r} {count:,} ({share(count / known)})" for value, count in list(counts.items())[:_SHOWN]]
        more = len(counts) - _SHOWN
        yield "classes", ", ".join([*shown, *([f"... and {more} more"] if more > 0 else [])])
        rare = [value for value, count in counts.items() if count < _RARE]
        if rare:
            yield "rare", f"{', '.join(map(repr, rare[:_SHOWN]))}: fewer than {_RARE} rows; consider combining classes"
    if label.missing:
        yield "missing", f"{label.missing:,} row{'s' * (label.missing != 1)}"


def _decisions(found: TableCheck) -> Iterator[str]:
    """The decisions of the holder before the release."""
    yield from _decisions_on_people(found)
    for name, different in found.rare.items():
        done, advice = (
            ("dropped", "Keep it if they cannot") if name in found.left_out else ("kept", "Drop it if they do")
        )
        yield (
            f"{name!r} is {done} below: most of its {different:,} values occur in few rows, so they may show who "
            f"somebody is. {advice}"
        )
    yield from _notation(found)
    yield from found.remarks
    yield from found.notes
    if found.label.is_number:
        yield (
            "the range of --interval must be public, as from a code book: the least and largest label above are "
            "private. Labels beyond it are clipped to it: means leave out what a long tail has there. Without a code "
            "book, buy an end of it: --mechanism noisy-quantile --level 0.95 --keep none, on a range that is surely "
            "wide enough"
        )
    else:
        yield (
            "the classes of --classes are published. Above are those that occur: where that alone is secret, take "
            "them from a code book"
        )
    if found.label.missing:
        given = "a number of the range" if found.label.is_number else f"the class {found.label.missing_class!r}"
        yield (
            f"rows without a label get {given} below. This hides which rows they are, and costs effective rows. "
            "Leaving them out would disclose that they have no label"
        )
    if disclosing := found.disclosing:
        left_out = [name for name in disclosing if name in found.left_out]
        for names, done in ((left_out, "dropped"), ([name for name in disclosing if name not in left_out], "kept")):
            if names:
                yield _DISCLOSING[done].format(", ".join(map(repr, names)))
    if not isinstance(found.table.path, Path):
        yield (
            f"a table in a store has no ledger beside it: charges in the ledgers of {Path.cwd()} count here, others do "
            "not. If the table was released before with another --ledger, name that one"
        )
    if found.ledger is not None and not found.ledger.exists():
        yield f"there is no ledger {found.ledger} yet: a release makes it. Charges in ledgers elsewhere do not count"
    yield from _released_before(found)
    if shown := _in_paths(found):
        yield (
            f"{', '.join(map(repr, shown))} in the names of folders cannot be dropped, since each file of a release "
            f"has the rows of one folder: --shuffle below writes one file, in random order"
        )


def _decisions_on_people(found: TableCheck) -> Iterator[str]:
    """The decisions on privacy units."""
    for each in () if found.declared else found.people:
        yield (
            f"{each.question}: a person? Then --unit {shlex.quote(each.name)} (without it, that person's epsilon is "
            f"{each.most:,} times as large). If none is: --unit row"
        )
    for each in found.people if found.declared and found.unit == "row" else ():
        yield (
            f"epsilon is for each row, though {each.question}: if one is a person, their epsilon is {each.most:,} "
            "times as large, and the kept column says which rows are theirs"
        )
    if not found.people and not (found.declared and found.proposed_unit):
        yield (
            "each row is taken for one person: no column seems to be people with several rows. If one is, pass "
            "--unit COLUMN"
        )
    if (name := found.proposed_unit) in found.left_out:
        yield (
            f"{name!r} is dropped below, since it may name people, and --renumber releases a made-up number in its "
            f"place: which rows are of one {name} is public anyway, and models can then be judged on other people"
        )


def _notation(found: TableCheck) -> Iterator[str]:
    """The notation of numbers and dates, if the command names one."""
    if options := " ".join(found.table.file.notation.options):
        label = [found.label.name] if found.label.is_number else []
        leave = [name for name in found.table.notated if name not in found.left_out]
        columns = ", ".join(map(repr, [*leave, *label]))
        where = f"{columns}: they leave as such, with a point and in ISO" if columns else "columns that do not leave"
        yield f"{options} below reads numbers and dates in {where}"


def _released_before(found: TableCheck) -> Iterator[str]:
    """The earlier releases of these rows, and the rows that are new."""
    for each in found.earlier:
        entry = each.entry
        spent = epsilon_above(entry.guarantee.epsilon)
        again = f"another release of it adds up{'' if _may_return(found) else ', and needs --budget'}"
        if not entry.is_of(found.label.name):
            again = "the epsilons of both labels add up if one reveals the other, and its column must not be kept"
        yield (
            f"{entry.label!r} of {returning(each, found.rows, found.unit)} was released on {entry.time[:10]} at "
            f"epsilon {spent}{f' into {entry.output}' if entry.output else ''}: {again}"
        )
    if new := _new(found):
        yield new


def _classes_to_write(found: TableCheck) -> Iterator[str]:
    """The command that writes the file of classes, if there are many."""
    if not found.label.is_number and len(found.label.classes) > _SHOWN:
        words = ["labeldp", "check", _path(found), "--label", found.label.name, *_file_options(found)]
        command = _line([*words, "--save-classes", str(_CLASSES)])
        yield f"the {len(found.label.classes):,} classes below are read from {_CLASSES}, which this writes: {command}"


def _of_label(found: TableCheck) -> list[Earlier]:
    """The earlier charges for this label."""
    return [each for each in found.earlier if each.entry.is_of(found.label.name)]


def _new(found: TableCheck) -> str:
    """The rows that are new, where others were released before."""
    earlier = _of_label(found)
    return new_rows(earlier, found.rows, found.unit) if earlier else ""


def _may_return(found: TableCheck) -> bool:
    """True if the budget in force allows the release that is printed."""
    return may_return(_of_label(found), float(_EPSILON), found.unit, found.rows)


def _in_paths(found: TableCheck) -> list[str]:
    """The columns that are left out though the names of folders, and so files of a release, show them."""
    table = found.table
    return [name for name in found.left_out if len(table.files) > 1 and name in table.path_columns]


def release_command(found: TableCheck, classes: Path | None = None) -> str:
    """The command that releases the table, without columns that name rows or people, or disclose a label.

    Args:
        found: The findings in the table.
        classes: The file that has the classes; by default one is named if they are many.
    """
    label, table, left_out = found.label, found.table, found.left_out
    missing = ("LOW" if label.missing else "") if label.is_number else label.missing_class
    words = ["labeldp", "release", *_declared(found, classes, *(("--missing", missing) if missing else ()))]
    words += ["--renumber"] if found.proposed_unit in left_out else []
    words += ["--shuffle"] if _in_paths(found) or any(note.endswith(SHUFFLE) for note in found.notes) else []
    if found.ledger is not None or not isinstance(table.path, Path):
        words += ["--team-ledger" if found.team else "--ledger", str(ledger_path(table.path, found.ledger))]
    if _of_label(found) and not _may_return(found):
        words += ["--only-new"] if _new(found) else ["--budget", "TOTAL"]
    words += _public(found)
    output = new_output(each.entry for each in found.earlier)
    return _line([*words, *_file_options(found), "--output", output])


def _plan_command(found: TableCheck, classes: Path | None) -> str:
    """The command that says what the release would cost, and compares epsilons."""
    return _line(["labeldp", "plan", *_declared(found, classes), *_public(found), *_file_options(found)])


def _declared(found: TableCheck, classes: Path | None, *more: str) -> list[str]:
    """The table, its label, label space, more words for these, epsilon and unit, as a release and a plan read them."""
    label, unit = found.label, found.unit if found.declared else found.proposed_unit
    if label.is_number:
        space = ["--interval", "LOW,HIGH,STEP"]
    else:
        file = classes or (_CLASSES if len(label.classes) > _SHOWN else None)
        space = ["--classes", f"@{file}" if file else _listed(label.classes)]
    words = [_path(found), "--label", label.name, *space, *more, "--epsilon", _EPSILON]
    return [*words, *(["--unit", unit] if unit else [])]


def _public(found: TableCheck) -> list[str]:
    """The public columns."""
    return ["--drop", _listed(found.left_out)] if found.left_out else ["--keep", "all"]


def _path(found: TableCheck) -> str:
    """The path of the table, in a form that no command takes for an option."""
    path = str(found.table.path)
    return f"./{path}" if path.startswith("-") else path


def _file_options(found: TableCheck) -> Iterator[str]:
    """The options for a CSV file whose form is not found from the file."""
    file = found.table.file
    if found.table.kind == "csv" and file.encoding != "utf-8":
        yield from ("--encoding", file.encoding)
    if found.table.kind == "csv" and file.separator not in _FOUND:
        yield from ("--separator", str(file.separator))
    yield from file.notation.options
    if file.sheet is not None:
        yield from ("--sheet", file.sheet)


def _line(words: list[str]) -> str:
    """A command; a word with a line break as bash and zsh write it."""
    return " ".join(_escaped(word) if "\n" in word or "\r" in word else shlex.quote(word) for word in words)


def _escaped(word: str) -> str:
    letters = str.maketrans({"\\": r"\\", "'": r"\x27", "\n": r"\n", "\r": r"\r"})
    return f"$'{word.translate(letters)}'"


def _listed(values: list[str]) -> str:
    """Values separated by commas, quoted if one holds a comma or a line break, or begins like the name of a file."""
    file = values[0].startswith("@")
    quoted = file or any(value != value.strip() or {*value} & {*',"\n\r'} for value in values)
    line = io.StringIO()
    csv.writer(line, lineterminator="", quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL).writerow(values)
    return line.getvalue()
