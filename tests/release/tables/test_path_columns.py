"""Columns in the names of folders, such as ``year=2026/month=11/part-0.parquet``."""

import shlex

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, Interval, Ledger, Release, check_table, release_table, verify
from labeldp.cli import main
from labeldp.errors import InputError, LabelDPError, TableError
from labeldp.release import ledger_path, public_columns
from labeldp.release.tables import open_table
from labeldp.results import Checked, release_command

SPACE = Classes(["no", "yes"])
FOLDERS = (
    "year=2025/month=01",
    "year=2026/month=01",
    "year=2026/month=11",
    "year=2026/month=__HIVE_DEFAULT_PARTITION__",
)
ROWS = 7


def partitioned(root, folders=FOLDERS, ending="parquet"):
    """A table with a file of a few rows in each of the folders."""
    for i, folder in enumerate(folders):
        rows = np.arange(ROWS * i, ROWS * i + ROWS)
        table = pa.table({"id": rows, "ill": [SPACE.points[row % 2] for row in rows]})
        place = root / folder / f"part-0.{ending}"
        place.parent.mkdir(parents=True)
        table.to_pandas().to_csv(place, index=False) if ending == "csv" else pq.write_table(table, place)
    return root


def released(table, output, **options):
    """A release of the table, in which rows keep their order."""
    return release_table(table, "ill", SPACE, 1.0, output, **{"keep": ["id", "year", "month"], **options})


def test_readers_find_the_columns_in_a_release_as_in_the_table(tmp_path):
    """The same values by Arrow, pandas, polars and DuckDB, where those agree on how the table is to be read."""
    table, output = partitioned(tmp_path / "t"), tmp_path / "o"
    done = released(table, output)
    assert verify(done.output).holds
    assert "kept as numbers, as readers take the names of folders (1 for month=01): 'month'" in done.remarks
    names = ["id", "year", "month"]
    expected = ds.dataset(table, partitioning="hive").to_table(names).sort_by("id").to_pydict()
    assert expected["month"] == [1] * 14 + [11] * 7 + [None] * 7
    assert pq.read_table(output, columns=names).sort_by("id").to_pydict() == expected
    frame = pd.read_parquet(output)[names].sort_values("id")
    assert frame.astype(object).where(frame.notna(), None).to_dict("list") == expected
    assert public_columns(output).to_pydict() == expected
    assert len(Release.load(output)) == 28
    polars, duckdb = (pytest.importorskip(name, reason="it reads the release") for name in ("polars", "duckdb"))
    as_read = polars.scan_parquet(table, hive_partitioning=True).select(names).sort("id").collect()
    assert polars.read_parquet(f"{output}/*.parquet").select(names).sort("id").equals(as_read)
    with duckdb.connect() as base:
        found = base.read_parquet(f"{output}/*.parquet")
        read = base.read_parquet(f"{table}/**/*.parquet", hive_partitioning=True)
        same = [each.project("id, year, month::bigint").order("id").fetchall() for each in (found, read)]
    assert same[0] == same[1]


def test_a_reader_passes_over_the_files_of_other_folders(tmp_path):
    """Each file holds the rows of one folder, and its statistics say which."""
    released(partitioned(tmp_path / "t"), tmp_path / "o")
    wanted = (ds.field("year") == 2026) & (ds.field("month") == 11)
    fragments = ds.dataset(tmp_path / "o").get_fragments()
    assert [len(fragment.subset(wanted).row_groups) for fragment in fragments] == [0, 0, 1, 0]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1", "-02"], [1, -2]),
        (["1", "x"], ["1", "x"]),
        (["1", "1.5"], ["1", "1.5"]),
        (["9223372036854775807", "+1"], ["9223372036854775807", "+1"]),
        (["9223372036854775808", "1"], ["9223372036854775808", "1"]),
        (["2026-11-23", "2026-11-24"], ["2026-11-23", "2026-11-24"]),
        (["s%C3%BCd %2F", ""], ["süd /", ""]),
        (["٣", "1"], ["٣", "1"]),
        (["__HIVE_DEFAULT_PARTITION__", "2"], [None, 2]),
        (["__HIVE_DEFAULT_PARTITION__", "b"], [None, "b"]),
        (["__HIVE_DEFAULT_PARTITION__"], [None]),
    ],
)
def test_values_are_whole_numbers_or_texts(tmp_path, ending, texts, values):
    """A type is that of all folders together, in CSV as in Parquet; names are decoded as values are."""
    table = partitioned(tmp_path / "t", [f"a%20z={text}" for text in texts], ending)
    released(table, tmp_path / "o", keep=["id", "a z"])
    found = dict(zip(*(pq.read_table(tmp_path / "o")[name].to_pylist() for name in ("id", "a z")), strict=True))
    order = sorted(range(len(texts)), key=lambda i: f"a%20z={texts[i]}")
    assert [found[ROWS * i] for i in order] == [values[i] for i in order]


def test_a_column_of_folders_is_not_dropped(tmp_path):
    """Each file of the release has the rows of one folder, so a dropped column would show as their boundaries."""
    table = partitioned(tmp_path / "t", ["ward=1", "ward=2"])
    with pytest.raises(InputError, match="found 'ward' dropped: each file of the release holds the rows of one folder"):
        released(table, tmp_path / "o", keep=["id"])
    assert not (tmp_path / "o").exists()
    assert [entry.state for entry in Ledger(ledger_path(table)).entries()] == ["void"]


def test_a_column_of_folders_that_tells_the_label_is_named(tmp_path):
    """It has one value in each file, where it seems to tell nothing; nor does a column beside one class tell of it."""
    table = tmp_path / "t"
    for number, told in enumerate(["sick", "well"] * 2):
        folder = table / f"year={2025 + number // 2}" / f"told={told}"
        folder.mkdir(parents=True)
        label = "no" if told == "sick" else "yes"
        pq.write_table(pa.table({"id": [number, 7] * 30, "ill": [label] * 60}), folder / "part-0.parquet")
    found = check_table(table, "ill")
    assert [note for note in found.notes if "determines" in note] == [
        "the kept column 'told' equals or determines the label: drop it, or it discloses labels"
    ]
    assert any("less than half as often as in a shuffled table" in note for note in found.notes)


def test_a_check_does_not_propose_what_a_release_refuses(tmp_path):
    """A column of folders that discloses the label cannot be dropped: the command shuffles all rows into one file."""
    table = tmp_path / "t"
    for told in ("sick", "well"):
        (table / f"told={told}").mkdir(parents=True)
        rows = pa.table({"id": [1, 7] * 30, "ill": ["no" if told == "sick" else "yes"] * 60})
        pq.write_table(rows, table / f"told={told}" / "part-0.parquet")
    found = check_table(table, "ill")
    shown = " ".join(Checked.of(found).decisions)
    assert "'told' in the names of folders cannot be dropped" in shown
    words = shlex.split(release_command(found))
    assert "--shuffle" in words
    assert main([*words[1:-1], str(tmp_path / "o")]) == 0
    assert [path.name for path in (tmp_path / "o").glob("*.parquet")] == ["data.parquet"]
    assert "told" not in pd.read_parquet(tmp_path / "o").columns
    assert "cannot be dropped" not in " ".join(Checked.of(check_table(partitioned(tmp_path / "u"), "ill")).decisions)


def test_a_column_in_files_and_in_folders_is_refused(tmp_path):
    """Readers differ in which one counts."""
    table = partitioned(tmp_path / "t", ["id=1"])
    with pytest.raises(TableError, match="expected 'id' in files or in the names of their folders, found it in both"):
        open_table(table, "ill")


def test_folders_of_other_columns_are_refused(tmp_path):
    """A file without a column that others have has no value for it."""
    with pytest.raises(TableError, match="expected the same columns in the names of all folders"):
        open_table(partitioned(tmp_path / "t", ["a=1", "b=1"]), "ill")


def test_a_label_in_the_path_is_refused_first(tmp_path):
    """Whatever else is wrong with such a folder, and no label is shown."""
    table = partitioned(tmp_path / "t", ["ill=yes"])
    with pytest.raises(LabelDPError) as found:
        release_table(table, "ill", Interval(0, 1, 1), 1.0, tmp_path / "o", keep=["id"])
    assert "found it in their paths, which disclose labels" in str(found.value)
    assert "yes" not in str(found.value).replace(str(tmp_path), "")
