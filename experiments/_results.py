"""A results file: rows as text, which are read in whatever state a crash left them, and added release by release."""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from _design import STAMP, Cell, Row, Study, plain


class Results:
    """The rows of a results file, as text.

    A file without rows or with a cut-off end is taken as it is: a broken last line is dropped, with all rows of the
    same release.
    """

    def __init__(self, study: Study, folder: Path) -> None:
        self.study, self.path = study, folder / f"{study.name}.csv"
        self.columns = (*study.columns, *STAMP)
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        lines = text.splitlines(keepends=True)
        header = ",".join(self.columns) + "\n"
        if lines and lines[0] != header and not (len(lines) == 1 and header.startswith(lines[0])):
            raise SystemExit(f"expected the columns {header.strip()} in {self.path}, found {lines[0].strip()}")
        fields = list(csv.reader(lines[1:]))
        self.broken = bool(lines) and (len(lines[0]) < len(header) or not lines[-1].endswith("\n"))
        last = fields.pop() if self.broken and fields else None
        self.rows: list[Row] = [dict(zip(self.columns, line, strict=True)) for line in fields]
        if last is not None:
            self._drop_release(dict(zip(self.columns, last[:-1], strict=False)))

    def _drop_release(self, read: Row) -> None:
        """Drop the last release of a study with several rows per release, unless the broken line shows another one.

        Args:
            read: What can be read of the broken line.
        """
        releases = [self.study.identity(row) for row in self.rows]
        known = [name for name in (*self.study.key, "draw") if name in read]
        if self.study.part or len(set(releases)) == len(releases):
            return
        if all(plain(self.rows[-1][name]) == plain(read[name]) for name in known):
            self.rows = [row for row, release in zip(self.rows, releases, strict=True) if release != releases[-1]]

    def stale(self) -> list[Row]:
        """Rows of another recipe than the current one."""
        return [row for row in self.rows if row["recipe"] != self.study.recipe_of(row)]

    def place(self, row: Row) -> tuple[tuple[str, ...], str]:
        """Cell and draw of a row, and its part."""
        return self.study.identity(row), str(row.get(self.study.part, ""))

    def current(self) -> set[tuple[tuple[str, ...], str]]:
        """Places that have a row of the current recipe."""
        return {self.place(row) for row in self.rows if row["recipe"] == self.study.recipe_of(row)}

    def missing(self, asked: Iterable[tuple[int, Cell]]) -> Iterator[tuple[int, Cell]]:
        """Select the draws of cells, and parts of these, that have no row of the current recipe."""
        known = self.current()
        releases = {release for release, _ in known}
        for draw, cell in asked:
            release = self.study.identity({**cell.values, "draw": draw})
            parts = tuple(part for part in cell.parts if (release, part) not in known)
            if parts or release not in releases:
                yield draw, Cell(cell.values, parts, cell.draws)

    def add(self, rows: list[Row]) -> None:
        """Write the rows of one release together, in the place of stale ones; of parts that are there, none."""
        known = self.current()
        rows = [{name: str(value) for name, value in row.items()} for row in rows if self.place(row) not in known]
        places = {self.place(row) for row in rows}
        replaced = [row for row in self.stale() if self.place(row) in places]
        whole = self.broken or replaced or not self.path.exists() or not self.path.stat().st_size
        self.rows = [row for row in self.rows if not any(row is each for each in replaced)] + rows
        if whole:
            beside = self.path.with_suffix(".part")
            beside.write_text(self.text(self.rows), encoding="utf-8", newline="")
            beside.replace(self.path)
            self.broken = False
        else:
            with self.path.open("ab", buffering=0) as file:
                file.write(self.text(rows, header=False).encode())  # in one piece: no crash parts rows of a release

    def text(self, rows: list[Row], *, header: bool = True) -> str:
        """Rows as lines of a file."""
        file = io.StringIO()
        writer = csv.DictWriter(file, self.columns, lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows(rows)
        return file.getvalue()

    def frame(self) -> pd.DataFrame:
        """The rows as a table, with a column that says which are of an earlier recipe than others."""
        stale = [row["recipe"] != self.study.recipe_of(row) for row in self.rows]
        rows = pd.read_csv(io.StringIO(self.text(self.rows)), dtype={"recipe": str})
        return rows.assign(stale=np.array(stale, dtype=np.bool_) & (not all(stale)))
