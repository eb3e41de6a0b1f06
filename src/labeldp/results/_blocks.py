"""Parts of a result: what is said of it, as data that each form of output shows in its own way."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from labeldp.results._charts import Chart

#: The mood of a sentence or a result: what holds, what failed, what to heed, an aside, or none.
Tone = Literal["", "good", "bad", "heed", "aside"]

#: Words of a command that stand for what it is not known to be.
_YOURS = frozenset({"TABLE", "LABEL", "CLASSES", "UNIT", "COLUMNS", "TOTAL"})
#: Rows of a table, or items of a list, on a page.
MOST_ROWS = 200


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    kind: ClassVar[str] = "prose"
    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Terms:
    """Names with their values."""

    kind: ClassVar[str] = "terms"
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Points:
    """A list of sentences; of long ones the first, and how many are left out."""

    kind: ClassVar[str] = "points"
    items: tuple[str, ...]
    more: int = 0

    @classmethod
    def of(cls, items: Sequence[str]) -> Points:
        """The first sentences, and how many are left out."""
        return cls(tuple(items[:MOST_ROWS]), max(0, len(items) - MOST_ROWS))


@dataclass(frozen=True)
class Checks:
    """Checks: what was checked, whether it holds, and what was found where it does not."""

    kind: ClassVar[str] = "checks"
    rows: tuple[tuple[str, bool, str], ...]


@dataclass(frozen=True)
class Grid:
    """A table; of long ones the first rows.

    Attributes:
        caption: What the rows are.
        columns: Heads of the columns.
        rows: Texts.
        numbers: Places of the columns of numbers, which are aligned to the right.
        more: Rows that are left out.
        codes: Places of the columns of hashes, which may be broken anywhere.
        detail: True for what a terminal shows where details are asked for.
    """

    kind: ClassVar[str] = "grid"
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    more: int = 0
    codes: frozenset[int] = frozenset()
    detail: bool = False

    @classmethod
    def of(
        cls,
        caption: str,
        columns: tuple[str, ...],
        rows: Sequence[tuple[str, ...]],
        numbers: tuple[int, ...] = (),
        codes: tuple[int, ...] = (),
        *,
        most: int = MOST_ROWS,
        detail: bool = False,
    ) -> Grid:
        """The first rows of a table, and how many are left out."""
        more = max(0, len(rows) - most)
        return cls(caption, columns, tuple(rows[:most]), frozenset(numbers), more, frozenset(codes), detail)


@dataclass(frozen=True)
class Picture:
    """A chart with its caption; what draws it adds a text alternative."""

    kind: ClassVar[str] = "picture"
    chart: Chart
    caption: str


@dataclass(frozen=True)
class Odds:
    """A slider from a prior belief in percent, 1 to 99, to the least and the largest belief afterwards."""

    kind: ClassVar[str] = "odds"
    whose: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Target:
    """A way to find a row of a choice.

    Attributes:
        question: What is asked for, before a number.
        numbers: The number of each row.
        at_most: True if a row meets the target whose number is at most as large; otherwise at least.
        largest: True for the last row that meets it, false for the first.
    """

    question: str
    numbers: tuple[float, ...]
    at_most: bool
    largest: bool


@dataclass(frozen=True)
class Choice:
    """A slider over the rows of a table by its first column, ways to find a row, and a command for it.

    Attributes:
        grid: The table, which is all of it where no script runs.
        at: The place of the row that is shown first.
        targets: Ways to find a row.
        note: How to read the table.
        command: A command with ``EPSILON`` in the place of the first cell; empty if there is none.
    """

    kind: ClassVar[str] = "choice"
    grid: Grid
    at: int
    targets: tuple[Target, ...]
    note: str = ""
    command: str = ""

    @property
    def first_command(self) -> str:
        """The command for the row that is shown first."""
        return self.command.replace("EPSILON", self.grid.rows[self.at][0])

    @property
    def yours(self) -> str:
        """The words of the command that are left to whoever runs it, such as TABLE."""
        return ", ".join(word for word in shlex.split(self.command) if word in _YOURS)


@dataclass(frozen=True)
class Signatures:
    """Names with room to write by hand; one is filled in by a choice on the page."""

    kind: ClassVar[str] = "signatures"
    names: tuple[str, ...]
    filled: str = ""


@dataclass(frozen=True)
class Commands:
    """The commands that usually come next."""

    kind: ClassVar[str] = "commands"
    commands: tuple[str, ...]


@dataclass(frozen=True)
class CertificateText:
    """A certificate to copy, which a script checks again where scripts run."""

    kind: ClassVar[str] = "certificate"
    text: str


Block = Prose | Terms | Points | Checks | Grid | Picture | Odds | Choice | Signatures | Commands | CertificateText


@dataclass(frozen=True)
class Section:
    """A titled section.

    Attributes:
        title: Its title; empty for what belongs to the lead.
        blocks: What it says.
        detail: True for what a terminal shows where details are asked for.
        quiet: True for a title that a terminal leaves out.
        folded: True for what a page shows where its reader opens it, and where it is printed.
    """

    title: str
    blocks: tuple[Block, ...]
    detail: bool = False
    quiet: bool = False
    folded: bool = False


@dataclass(frozen=True)
class Part:
    """The description of one thing: a release, the charges of a ledger, scores of a model.

    Attributes:
        title: What it is, and its name.
        result: The result as a headline.
        tone: Whether the result is good or bad.
        lead: The sentences that come first.
        facts: The few figures that matter most, with their names.
        sections: Everything else.
        holds: False if something did not verify.
        private: True if true labels were used: the page is for the holder alone.
        source: The name of the folder or file that it was made from, and its date.
    """

    title: str
    result: str
    tone: Tone = ""
    lead: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = field(default=())
    holds: bool = True
    private: bool = False
    source: str = ""


@dataclass(frozen=True)
class Page:
    """One part, or several as a dossier under a title of their own.

    Attributes:
        parts: The parts.
        title: The title of several.
        handed: What the holder states of handing it over, such as to whom; it gets places for signatures.
    """

    parts: tuple[Part, ...]
    title: str = ""
    handed: tuple[tuple[str, str], ...] = ()

    @property
    def holds(self) -> bool:
        """True if every part holds."""
        return all(part.holds for part in self.parts)

    @property
    def private(self) -> bool:
        """True if a part is for the holder alone."""
        return any(part.private for part in self.parts)
