"""Tables on disk: what is kept, what is refused and in which words, and that it is all or nothing."""

import errno
import gzip
import itertools
import json
import re
import stat
import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as dp
import labeldp.release.jobs._job as module
import labeldp.release.tables._tables as tables_module
from labeldp.errors import (
    BudgetError,
    EpsilonError,
    InputError,
    LabelDPError,
    LabelError,
    OutputError,
    PriorError,
    TableError,
)
from labeldp.privacy.channels import unpack
from labeldp.release import kept_columns, ledger_path
from labeldp.release.tables import open_table

#: At this epsilon one label in 2e17 changes, so a release shows which true label it came from.
CLEAR = 40.0
PUBLIC = ["id", "height", "name"]


@pytest.fixture
def release(space, tables):
    """A function that releases the colour of a table into a folder."""

    def run(source, name="o", **options):
        given = {"label": "colour", "space": space, "epsilon": 1.0, **options}
        if "drop" not in given:
            given.setdefault("keep", PUBLIC)
        return dp.release_table(source, output=tables / name, **given)

    return run


@pytest.fixture
def source(write_table, columns, tables):
    """A small Parquet table."""
    return write_table(tables / "t.parquet", columns)


def read(folder):
    """The released rows of all files in order."""
    return pa.concat_tables(pq.read_table(path) for path in sorted(folder.glob("*.parquet"))).to_pydict()


def nothing_left(tables, *names):
    """Whether a folder holds these names and ledgers only."""
    found = {path.name for path in tables.iterdir() if "labeldp-ledger" not in path.name}
    return found == set(names)


# What goes in, and how it comes out


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.CSV", "t.parquet", "t.pq"])
def test_every_kind_of_file(release, write_table, columns, tables, name):
    """Rows, their order, values and types are kept, and the label's own column is gone (false alarm below 1e-14)."""
    source = tables / name
    pq.write_table(pa.table(columns), source) if name.endswith("pq") else write_table(source, columns)
    done = release(source, epsilon=CLEAR, mechanism="randomized-response")
    assert dp.verify(done.output).holds
    found = read(done.output)
    assert list(found) == [*PUBLIC, "colour_released"]
    assert found == {**{key: columns[key] for key in PUBLIC}, "colour_released": columns["colour"]}
    assert [str(kind) for _, kind in done.certificate.columns] == ["int64", "double", "string", "string"]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_a_folder_of_files(release, write_table, columns, tables, ending):
    """Files are read in the order of their paths, in folders too, and each gives one released file."""
    parts = ("a", "b/c", "d")
    for i, part in enumerate(parts):
        piece = {name: values[20 * i : 20 * (i + 1)] for name, values in columns.items()}
        write_table(tables / "t" / f"{part}.{ending}", piece)
    (tables / "t" / "_SUCCESS").write_text("")
    (tables / "t" / ".hidden.crc").write_text("")
    for hidden in (".o.labeldp-0123", "_temporary"):
        write_table(tables / "t" / hidden / f"a.{ending}", columns)
    done = release(tables / "t", epsilon=CLEAR, mechanism="randomized-response")
    assert dp.verify(done.output).holds
    assert [file.rows for file in done.certificate.files] == [20, 20, 20]
    assert read(done.output)["colour_released"] == columns["colour"]
    assert read(done.output)["id"] == columns["id"]


def test_a_table_inside_a_folder_does_not_spoil_it(release, write_table, columns, tables):
    """The ledger of one file of a folder is no part of the folder as a table, and counts for it; the reverse too."""
    piece = {name: columns[name] for name in ("id", "colour")}
    for name in ("a", "b"):
        write_table(tables / "t" / f"{name}.parquet", piece)
    release(tables / "t" / "a.parquet", "o1", keep=["id"])
    with pytest.raises(BudgetError, match=r"a\.parquet"):
        release(tables / "t", "o2", keep=["id"], unit="row")
    assert release(tables / "t", "o2", keep=["id"], unit="row", budget=2.0).certificate.rows == 120
    with pytest.raises(BudgetError, match="Another at 1 makes 3, above"):
        release(tables / "t" / "b.parquet", "o3", keep=["id"])


def test_types_are_kept(release, space, tables):
    """Values of every type come out as they went in, missing ones too."""
    rows = 6
    values = {
        "int8": pa.array([1, None, -128, 127, 0, 5], pa.int8()),
        "uint64": pa.array([2**64 - 1, 0, None, 3, 4, 5], pa.uint64()),
        "float32": pa.array([1.5, float("nan"), None, float("inf"), -0.0, 1e-40], pa.float32()),
        "bool": pa.array([True, False, None] * 2),
        "date": pa.array(np.arange(rows), pa.int32()).cast(pa.date32()),
        "time": pa.array(np.arange(rows), pa.timestamp("ns", tz="Europe/Paris")),
        "decimal": pa.array([1, 2, None, 4, 5, 6], pa.decimal128(9, 2)),
        "binary": pa.array([b"\x00", b"", None, b"a", b"b", b"c"]),
        "large": pa.array(["ü", "", None, "a", "b", "c"], pa.large_string()),
        "list": pa.array([[1], [], None, [None, 2], [3], [4]]),
        "struct": pa.array([{"a": 1}, None, {"a": None}, {"a": 2}, {"a": 3}, {"a": 4}]),
        "null": pa.nulls(rows),
    }
    table = pa.table({**values, "colour": pa.array([*space.values, "red"])})
    pq.write_table(table, tables / "t.parquet")
    done = release(tables / "t.parquet", keep=list(values))
    written = pq.read_table(done.output / "data.parquet").drop(["colour_released"])
    for name in values:
        assert written[name].type == table[name].type, name
        assert repr(written[name].to_pylist()) == repr(table[name].to_pylist()), name
    assert dp.verify(done.output).holds


def test_quotes_and_newlines_in_csv(release, tables):
    """Fields with newlines, quotes and separators are one field each, at every block's edge."""
    texts = ['a\n"b"\r\n,c', "", '""', "é\u2028", ","] * 12
    frame = pd.DataFrame({"id": range(60), "name": texts, "colour": ["red", "green", "blue"] * 20})
    frame.to_csv(tables / "t.csv", index=False)
    for block in (1 << 24, 128):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tables_module, "_CSV_BLOCK", block)
            name = f"o{block}"
            done = release(tables / "t.csv", name, keep=["id", "name"], budget=100.0, epsilon=CLEAR, mechanism="bits")
        assert read(done.output)["name"] == texts


@pytest.mark.parametrize(
    ("texts", "classes"),
    [
        (["1", "2", "3"] * 20, ("1", "2", "3")),
        (["1", "2", "3"] * 20, (1, 2, 3)),
        (["01", "1", "1.0"] * 20, ("01", "2")),
        (["true", "false"] * 30, (False, True)),
        (["True", "False"] * 30, (False, True)),
        (["true", "false"] * 30, ("true", "false")),
        (["NA", "null", "nan"] * 20, ("NA", "null", "nan")),
        (["2020-01-01", "12:00"] * 30, ("2020-01-01", "12:00")),
        (["-1", "9223372036854775807"] * 30, (-1, 2**63 - 1)),
    ],
    ids=str,
)
def test_labels_that_look_like_something_else_in_csv(release, write_table, tables, texts, classes):
    """In CSV a label is text until the declared space reads it, whatever it looks like (false alarm below 1e-14)."""
    write_table(tables / "t.csv", {"id": list(range(60)), "colour": texts})
    done = release(
        tables / "t.csv", keep=["id"], space=dp.Classes(classes), epsilon=CLEAR, mechanism="randomized-response"
    )
    found = read(done.output)["colour_released"]
    expected = ["01"] * 60 if "01" in texts else texts
    assert [str(value).lower() for value in found] == [text.lower() for text in expected]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_missing_labels(release, write_table, columns, tables, ending):
    """Missing labels are refused, by their row, or given their declared class (false alarm below 1e-14)."""
    labels = [*columns["colour"]]
    labels[41] = None
    source = write_table(tables / f"t.{ending}", {"id": columns["id"], "colour": labels})
    with pytest.raises(LabelError, match="row 42 "):
        release(source, keep=["id"])
    space = dp.Classes(["red", "green", "blue", "grey", "pink"], missing="pink")
    done = release(source, keep=["id"], space=space, epsilon=CLEAR, mechanism="randomized-response")
    assert read(done.output)["colour_released"] == [label or "pink" for label in labels]
    assert pq.read_table(done.output / "data.parquet")["colour_released"].null_count == 0


# What is kept


def test_keep_and_drop(release, source, columns):
    """Kept columns come in the table's order; dropping names the others; neither or both is refused."""
    assert list(read(release(source, "o1", keep=["name", "id"]).output)) == ["id", "name", "colour_released"]
    others = [name for name in columns if name not in ("id", "name", "colour")]
    done = release(source, "o2", drop=others, budget=2.0)
    assert list(read(done.output)) == ["id", "name", "colour_released"]
    for options in ({"keep": None}, {"keep": ["id"], "drop": ["name"]}, {"keep": ["age"]}, {"drop": ["age"]}):
        with pytest.raises(InputError):
            release(source, "o3", **options)


def test_all_columns_or_none_are_kept_by_one_word(release, source, columns):
    """All but the label, or none; no other text stands for a list: it would be read letter by letter."""
    others = [name for name in columns if name != "colour"]
    assert list(read(release(source, "o1", keep="all").output)) == [*others, "colour_released"]
    assert list(read(release(source, "o2", keep="none", budget=2.0).output)) == ["colour_released"]
    texts = {"keep": "id"}, {"keep": None, "drop": "all"}, {"keep": None, "drop": "none"}, {"keep": "everything"}
    for options in texts:
        with pytest.raises(InputError, match=r"expected a list of columns for (keep|drop), found the text"):
            release(source, "o3", **options)
    with pytest.raises(InputError, match="both --keep and --drop"):
        release(source, "o3", keep="none", drop=["id"])


def test_the_label_is_never_kept(release, source, tables):
    """Not by naming it among the kept, and not by dropping nothing."""
    with pytest.raises(InputError):
        release(source, keep=["id", "colour"])
    assert nothing_left(tables, "t.parquet")
    done = release(source, drop=[])
    assert "colour" not in read(done.output)
    schema = open_table(source, "colour").schema
    assert "colour" not in kept_columns(schema, "colour", None, ["colour"])


def test_the_label_is_no_unit(release, source, tables):
    """Units by label would put the number of rows of each class into the certificate."""
    with pytest.raises(InputError):
        release(source, unit="colour")
    assert nothing_left(tables, "t.parquet")


def test_the_label_is_no_prior(release, write_table, tables):
    """A prior that reads the label's own column gives it away."""
    source = write_table(tables / "t.parquet", {"p0": [0, 1] * 30, "p1": [1, 0] * 30, "x": list(range(60))})
    with pytest.raises(InputError):
        release(source, label="p0", space=dp.Classes([0, 1]), keep=["x"], mechanism=dp.PriorMechanism(prior="p"))
    assert nothing_left(tables, "t.parquet")


@pytest.mark.parametrize("taken", ["colour_released", "colour_groups", "colour_candidates"])
def test_names_that_a_release_needs_are_refused(release, write_table, columns, tables, taken):
    """A kept column with the name of a released one raises, charges nothing, and leaves nothing."""
    source = write_table(tables / "t.parquet", {**columns, taken: columns["id"]})
    options = {
        "colour_groups": {"unit": "street"},
        "colour_candidates": {"mechanism": dp.PriorMechanism(prior="prior_")},
    }
    with pytest.raises(InputError, match=taken):
        release(source, keep=["id", taken], **options.get(taken, {}))
    assert nothing_left(tables, "t.parquet")
    release(source, keep=["id"], **options.get(taken, {}))


def test_hidden_content_does_not_survive(release, space, tables):
    """Unused categories, pandas' index and metadata, old statistics and dropped columns are not in the output."""
    rows = 60
    frame = pd.DataFrame(
        {
            "city": pd.Categorical(["u", "v"] * 30, categories=["unusedsecret", "u", "v"]),
            "note": ["droppedsecret"] * rows,
            "colour": pd.Categorical(["red", "green"] * 30, categories=["pink", "green", "red"]),
        },
        index=pd.Index(range(1000, 1000 + rows), name="indexsecret"),
    )
    table = pa.Table.from_pandas(frame)
    inner = pa.StructArray.from_arrays([pa.array(range(rows))], fields=[pa.field("i", pa.int64(), metadata={"m": "s"})])
    table = table.append_column(pa.field("inner", inner.type, metadata={"m": "fieldsecret"}), inner)
    pq.write_table(table, tables / "t.parquet", row_group_size=7)
    done = release(tables / "t.parquet", keep=["city", "inner"], space=space, mechanism="randomized-response")
    data = (done.output / "data.parquet").read_bytes() + (done.output / "_certificate.json").read_bytes()
    words = (b"unusedsecret", b"droppedsecret", b"indexsecret", b"fieldsecret", b"pandas")
    assert not [word for word in words if word in data]
    opened = pq.ParquetFile(done.output / "data.parquet")
    assert opened.metadata.metadata.keys() <= {b"ARROW:schema"}
    assert opened.schema_arrow.field("city").type == pa.string()
    assert opened.metadata.num_row_groups == 1
    assert not opened.schema_arrow.field("inner").type.field(0).metadata
    opened.close()


def test_statistics_are_those_of_released_values(release, write_table, tables):
    """The least and greatest value and the number of nulls in the file belong to what was released."""
    labels = [None if i % 3 == 0 else 100 + i for i in range(60)]
    source = write_table(tables / "t.parquet", {"id": list(range(60)), "colour": labels})
    space = dp.Interval(0, 4, 1, missing=2)
    done = release(source, keep=["id"], space=space, mechanism="randomized-response", epsilon=0.1)
    found = read(done.output)["colour_released"]
    opened = pq.ParquetFile(done.output / "data.parquet")
    column = opened.metadata.row_group(0).column(1)
    opened.close()
    assert (column.statistics.min, column.statistics.max) == (min(found), max(found))
    assert column.statistics.null_count == 0


# Units and priors


@pytest.mark.parametrize("kind", ["text", "int", "float", "dictionary", "date", "uint64", "bool"])
def test_units_of_every_type(release, columns, tables, kind):
    """Units are counted alike, whatever the column's type."""
    numbers = np.array([i // 3 for i in range(60)])
    kinds = {
        "text": pa.array([f"p{n}" for n in numbers]),
        "int": pa.array(numbers, pa.int32()),
        "float": pa.array(numbers + 0.5),
        "dictionary": pa.array([f"p{n}" for n in numbers]).dictionary_encode(),
        "date": pa.array(numbers, pa.int32()).cast(pa.date32()),
        "uint64": pa.array(2**64 - 1 - numbers.astype(np.uint64)),
        "bool": pa.array(numbers < 1),
    }
    pq.write_table(pa.table({"u": kinds[kind], "colour": columns["colour"]}), tables / "t.parquet")
    done = release(tables / "t.parquet", keep=[], unit="u")
    assert done.certificate.draws[0].law["repeats"] == (["3", "57"] if kind == "bool" else ["3"])
    assert dp.verify(done.output).holds


def test_units_are_counted_over_batches_and_files(release, write_table, columns, tables, monkeypatch):
    """A unit whose rows lie in several batches and files counts once."""
    monkeypatch.setattr(module, "_ROWS_PER_BATCH", 7)
    for i in range(2):
        write_table(tables / "t" / f"{i}.csv", {"u": [f"p{j % 6}" for j in range(60)], "colour": columns["colour"]})
    done = release(tables / "t", keep=[], unit="u")
    assert done.certificate.draws[0].law["repeats"] == ["20"]


def test_a_unit_that_is_missing_or_no_value_is_refused(release, columns, tables):
    """Rows without a unit, and units that are lists, raise an error of this library."""
    for values in ([None] + [1] * 59, [[1]] * 60, [{"a": 1}] * 60):
        pq.write_table(pa.table({"u": values, "colour": columns["colour"]}), tables / "t.parquet")
        with pytest.raises(LabelDPError):
            release(tables / "t.parquet", keep=[], unit="u")


def test_a_prior_gives_candidates(release, source, columns):
    """Each row's candidates are those of its own prior, in declared order, and hold the released label."""
    found = read(release(source, mechanism=dp.PriorMechanism(prior="prior_"), epsilon=0.5).output)
    assert len({len(row) for row in found["colour_candidates"]}) > 1
    order = {name: i for i, name in enumerate(("red", "green", "blue", "grey", "pink"))}
    for row, label, i in zip(found["colour_candidates"], found["colour_released"], itertools.count()):
        assert label in row
        assert row == sorted(row, key=order.get)
        inside = min(columns[f"prior_{name}"][i] for name in row)
        assert all(columns[f"prior_{name}"][i] <= inside for name in order if name not in row)


@pytest.mark.parametrize("bad", [[0.2] * 4 + [0.3], [1.2, -0.2, 0, 0, 0], [float("nan")] * 5, [None] * 5, ["x"] * 5])
def test_a_prior_that_is_none_is_refused(release, columns, tables, bad):
    """Rows that are no distribution, and columns that are no numbers, raise before anything is charged."""
    prior = {}
    for j, name in enumerate(("red", "green", "blue", "grey", "pink")):
        values = columns[f"prior_{name}"]
        prior[f"prior_{name}"] = [str(v) for v in values] if bad[0] == "x" else [*values[:59], bad[j]]
    if bad[0] == "x":
        prior["prior_red"] = ["much"] * 60
    pq.write_table(pa.table({**prior, "colour": columns["colour"]}), tables / "t.parquet")
    with pytest.raises((PriorError, TableError)):
        release(tables / "t.parquet", keep=[], mechanism=dp.PriorMechanism(prior="prior_"))
    assert nothing_left(tables, "t.parquet")


@pytest.mark.parametrize(
    "options",
    [
        {"mechanism": dp.PriorMechanism(prior="q_")},
        {"unit": "age"},
        {"label": "age"},
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"budget": -1.0},
    ],
    ids=str,
)
def test_requests_that_do_not_fit_leave_nothing(release, source, tables, options):
    """What can't be done is refused before a ledger is made."""
    with pytest.raises(InputError):
        release(source, **options)
    assert {path.name for path in tables.iterdir()} == {"t.parquet"}


# What a bad table says


LABEL = "s3cr3t-l4b3l"


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("row", [0, 6, 7, 59])
def test_a_label_outside_the_space_is_named_by_its_row(release, write_table, columns, tables, ending, row, monkeypatch):
    """At the edges of batches too, the error says which row it is and not what is in it."""
    monkeypatch.setattr(module, "_ROWS_PER_BATCH", 7)
    labels = [*columns["colour"]]
    labels[row] = LABEL
    source = write_table(tables / f"t.{ending}", {"id": columns["id"], "colour": labels})
    with pytest.raises(LabelError, match=rf"row {row + 1}\b") as found:
        release(source, keep=["id"])
    assert LABEL not in "".join(traceback.format_exception(found.value))
    assert nothing_left(tables, f"t.{ending}")
    assert not (tables / f"t.{ending}.labeldp-ledger").exists()


@pytest.mark.parametrize("space", [dp.Classes([1, 2]), dp.Classes([True, False]), dp.Interval(0, 1, 0.5)], ids=repr)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_labels_of_another_kind_are_not_shown(release, write_table, tables, ending, space):
    """Text where numbers were declared raises without quoting it."""
    source = write_table(tables / f"t.{ending}", {"id": [1, 2], "colour": ["1", LABEL]})
    with pytest.raises(LabelError) as found:
        release(source, keep=["id"], space=space)
    assert LABEL not in "".join(traceback.format_exception(found.value))


ROWS = f"id,colour\n1,red\n2,{LABEL}\n"
BROKEN = {
    "ragged.csv": f"id,colour\n1,red\n2,{LABEL},3\n".encode(),
    "short.csv": f"id,colour\n1,red\n{LABEL}\n".encode(),
    "quote.csv": f'id,colour\n1,red\n2,"{LABEL}\n'.encode(),
    "latin.csv": f"id,colour\n1,red\n2,{LABEL}é\n".encode("latin-1"),
    "header.csv": f"\xff\xfe,colour\n1,{LABEL}\n".encode("latin-1"),
    "headless.csv": f"1,{LABEL}\n2,red\n".encode(),
    "only-header.csv": b"id,colour\n",
    "zero.csv": b"",
    "newlines.csv": b"\n\n\n",
    "twice.csv": b"id,colour,id\n1,red,2\n",
    "label-twice.csv": b"colour,colour\nred,blue\n",
    "no-label.csv": b"id\n1\n",
    "junk.csv": np.random.default_rng(1).bytes(5000),
    "nul.csv": b"\x00" * 5000,
    "not.csv.gz": ROWS.encode(),
    "cut.csv.gz": gzip.compress(ROWS.encode() * 1000)[:-20],
    "zero.csv.gz": b"",
    "zero.parquet": b"",
    "magic.parquet": b"PAR1",
    "hostile.parquet": b"PAR1" + np.random.default_rng(2).bytes(5000) + b"PAR1",
    "length.parquet": b"PAR1" + np.random.default_rng(3).bytes(50) + b"\xff\xff\xff\x7fPAR1",
    "text.parquet": ROWS.encode(),
    "table.txt": ROWS.encode(),
    "table": ROWS.encode(),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_without_quoting_them(release, tables, name, monkeypatch):
    """What is no table raises a table or label error whose whole text shows no label, and leaves nothing."""
    (tables / name).write_bytes(BROKEN[name])
    monkeypatch.setattr(tables_module, "_CSV_BLOCK", 512)
    with pytest.raises((TableError, LabelError)) as found:
        release(tables / name, keep=["id"])
    assert LABEL not in "".join(traceback.format_exception(found.value))
    assert nothing_left(tables, name)


def test_damaged_parquet_is_refused(release, tables, source):
    """Every cut and every overwritten stretch of a file either reads as before or raises an error of this library."""
    good = source.read_bytes()
    rng = np.random.default_rng(4)
    cases = [good[: len(good) * i // 10] for i in range(10)]
    cases += [good[:at] + rng.bytes(16) + good[at + 16 :] for at in rng.integers(4, len(good) - 16, 60)]
    refused = 0
    for i, data in enumerate(cases):
        (tables / "bad.parquet").write_bytes(data)
        try:
            release(tables / "bad.parquet", f"o{i}", ledger=tables / f"l{i}")
        except LabelDPError:
            refused += 1
            assert not (tables / f"o{i}").exists()
    assert refused >= 10


def test_parquet_with_fewer_values_than_rows_is_refused(tmp_path):
    """Where a footer gives a column another number of values, Arrow ends early without an error."""
    pq.write_table(pa.table({"x": range(80), "y": ["a", "b"] * 40}), tmp_path / "good.parquet")
    good, rows, found = (tmp_path / "good.parquet").read_bytes(), bytes([160, 1]), []  # 80, as footers have it
    for at in (place for place in range(len(good)) if good.startswith(rows, place)):
        (tmp_path / "bad.parquet").write_bytes(good[:at] + bytes([161]) + good[at + 1 :])
        try:
            found.append(str(dp.check_table(tmp_path / "bad.parquet", "y").rows))
        except TableError as error:
            found.append(str(error))
    assert any("expected as many rows in bad.parquet as it says, found others" in each for each in found)
    assert {each for each in found if each.isdigit()} <= {"80"}


def test_folders_that_are_no_table_are_refused(release, write_table, columns, tables):
    """An empty folder, mixed kinds, other columns in one file, and no file at all raise."""
    for make in (
        lambda _: None,
        lambda folder: (folder / "_x").write_text(""),
        lambda folder: [write_table(folder / name, columns) for name in ("a.csv", "b.parquet")],
        lambda folder: [write_table(folder / "a.csv", columns), write_table(folder / "b.csv", {"colour": ["red"]})],
        lambda folder: write_table(folder / "a.txt.csv", {"other": [1]}),
    ):
        folder = tables / f"t{len(list(tables.iterdir()))}"
        folder.mkdir()
        make(folder)
        with pytest.raises(TableError):
            release(folder)
    with pytest.raises(TableError):
        release(tables / "nowhere.csv")
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array(["red"])], names=["id", "id", "colour"])
    pq.write_table(twice, tables / "twice.parquet")
    with pytest.raises(TableError):
        release(tables / "twice.parquet")


def test_an_empty_table_is_refused(release, write_table, columns, tables):
    """A table of no rows is refused; a file of no rows among others is not."""
    empty = {name: pa.array([], pa.array(values).type) for name, values in columns.items()}
    source = write_table(tables / "t" / "a.parquet", empty)
    with pytest.raises(TableError):
        release(source)
    write_table(tables / "t" / "b.parquet", columns)
    assert dp.verify(release(tables / "t", ledger=tables / "l").output).holds


# Positions

EDGES = (1, 7, 8, 15)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("rows", EDGES)
def test_every_position_is_randomized(release, write_table, tables, rows, ending, monkeypatch):
    """First, last and batch-edge rows change now and then, and not always (false alarm below 1e-7 in all).

    32 copies of the table are released with batches of 7 rows, epsilon 0.01 and two classes, so that a label
    changes with probability 0.4975. In one position a count of 0 or 32 has probability below 5e-10, and there are 62
    positions in all.
    """
    monkeypatch.setattr(module, "_ROWS_PER_BATCH", 7)
    monkeypatch.setattr(tables_module, "_CSV_BLOCK", 64)
    truth = ["red", "green"] * 32
    source = write_table(tables / f"t.{ending}", {"colour": truth[:rows]})
    space, changed = dp.Classes(["red", "green"]), np.zeros(rows)
    for i in range(32):
        options = {"keep": [], "space": space, "epsilon": 0.01, "mechanism": "randomized-response", "budget": 1.0}
        done = release(source, f"o{i}", **options)
        found = read(done.output)["colour_released"]
        changed += [label != true for label, true in zip(found, truth, strict=False)]
    assert len(found) == rows
    assert (changed >= 1).all()
    assert (changed <= 31).all()


# All or nothing


def test_an_output_that_exists_is_refused(release, source, tables):
    """A file, a folder or a dangling link at the target is left alone, and a missing parent is not made."""
    (tables / "folder").mkdir()
    (tables / "file").write_text("mine")
    (tables / "link").symlink_to(tables / "nowhere")
    for name in ("folder", "file", "link", "no/parent", "file/inside"):
        with pytest.raises(OutputError):
            release(source, name)
    assert nothing_left(tables, "t.parquet", "folder", "file", "link")
    assert (tables / "file").read_text() == "mine"


def test_an_output_with_too_long_a_name_is_an_error_of_this_library(release, source):
    """A name that the disk can't hold raises, and charges nothing."""
    for length in (230, 300):
        with pytest.raises(LabelDPError):
            release(source, "o" * length)
    release(source)


PROBLEMS = [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError(), RuntimeError("x")]
STEPS = [
    *(
        "curator._sink.FileWriter.write",
        "curator._sink.FileWriter.close",
        "curator._sink.columns_of",
        "curator._sink.to_columns",
    ),
    *("jobs._job.finish", "curator._drawing.draw"),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
@pytest.mark.parametrize("step", STEPS)
def test_a_failure_rolls_everything_back(release, source, tables, step, problem, monkeypatch):
    """A full disk, Ctrl-C or an error at any step leaves nothing; the charge is void, and the same then succeeds."""
    target = f"labeldp.release.{step}"

    def fail(*_, **__):
        raise problem

    monkeypatch.setattr(target, fail)
    with pytest.raises(type(problem)):
        release(source)
    monkeypatch.undo()
    assert nothing_left(tables, "t.parquet")
    assert [entry.state for entry in dp.Ledger(ledger_path(source)).entries()] == ["void"]
    assert dp.verify(release(source).output).holds


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_a_failure_after_the_rename_keeps_what_stands(release, source, tables, problem, monkeypatch):
    """Where the output stands already it is paid for, whatever happens afterwards."""
    import labeldp.release.folder._write as writing  # noqa: PLC0415 (the module itself is patched)

    original = writing.publish

    def publish(*args):
        original(*args)
        raise problem

    monkeypatch.setattr(writing, "publish", publish)
    with pytest.raises(type(problem)):
        release(source)
    monkeypatch.undo()
    assert dp.verify(tables / "o").holds
    assert [entry.state for entry in dp.Ledger(ledger_path(source)).entries()] == ["released"]
    with pytest.raises(BudgetError):
        release(source, "o2")


def test_progress_is_reported(release, source, monkeypatch):
    """All passes report the rows done and all of them, which Parquet states at once."""
    monkeypatch.setattr(module, "_ROWS_PER_BATCH", 25)
    seen = []
    release(source, progress=lambda *args: seen.append(args))
    passes = {"look": (0, 60), "check": (0, 25, 50, 60), "release": (0, 25, 50, 60)}
    assert seen == [(name, n, 60) for name, rows in passes.items() for n in rows]


CHANGED = {
    "longer": lambda columns: {name: [*values, values[0]] for name, values in columns.items()},
    "shorter": lambda columns: {name: values[:-1] for name, values in columns.items()},
    "another label": lambda columns: {**columns, "colour": [*columns["colour"][:-1], LABEL]},
    "no label": lambda columns: {**columns, "colour": [*columns["colour"][:-1], None]},
    "another column": lambda columns: {**columns, "id": [f"x{i}" for i in columns["id"]]},
    "no column": lambda columns: {name: values for name, values in columns.items() if name != "id"},
    "one unit": lambda columns: {**columns, "street": ["p0"] * 60},
    "new units": lambda columns: {**columns, "street": [f"zz{i}" for i in range(60)]},
}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("change", CHANGED)
def test_a_table_that_changes_between_the_passes_is_refused(
    release, write_table, columns, tables, ending, change, monkeypatch
):
    """What was checked is what is released: another table in the second pass raises, and leaves nothing."""
    source, original = write_table(tables / f"t.{ending}", columns), module.survey

    def survey(*args):
        found = original(*args)
        write_table(source, CHANGED[change](columns))
        return found

    monkeypatch.setattr(module, "survey", survey)
    with pytest.raises(LabelDPError) as found:
        release(source, unit="street")
    assert LABEL not in "".join(traceback.format_exception(found.value))
    assert nothing_left(tables, f"t.{ending}")
    assert [entry.state for entry in dp.Ledger(ledger_path(source)).entries()] in ([], ["void"])


# Private notes


def test_columns_that_determine_the_label_are_noted_privately(release, write_table, columns, tables):
    """A copy of the label and a code of it are noted for the curator, and nowhere in what leaves."""
    code = {name: i for i, name in enumerate(sorted(set(columns["colour"])))}
    source = write_table(
        tables / "t.parquet",
        {**columns, "copy": columns["colour"], "coded": [code[label] for label in columns["colour"]]},
    )
    done = release(source, keep=["id", "height", "copy", "coded"])
    assert [re.findall(r"'(\w+)'", note) for note in done.notes] == [["copy"], ["coded"]]
    assert [line[20:] for line in done.notes_file.read_text().splitlines()] == list(done.notes)
    assert not [note for note in done.notes if note in repr(done)]
    assert stat.S_IMODE(done.notes_file.stat().st_mode) == 0o600
    text = (done.output / "_certificate.json").read_text()
    assert not [note for note in done.notes if note in text]
    assert "determines" not in text
    assert {path.name for path in done.output.iterdir()} == {"_README.txt", "_certificate.json", "data.parquet"}


def test_rows_grouped_by_label_are_noted_privately(release, write_table, columns, tables):
    """An order that gives labels away is noted; of a shuffled table the notes say that nothing was found."""
    grouped = write_table(tables / "a.parquet", {"id": columns["id"], "colour": sorted(columns["colour"])})
    done = release(grouped, "o1", keep=["id"])
    assert len(done.notes) == 1
    assert "grouped" in done.notes[0]
    assert done.notes[0] in done.notes_file.read_text()
    others = [number + 100 for number in columns["id"]]
    shuffled = write_table(tables / "b.parquet", {"id": others, "colour": columns["colour"]})
    done = release(shuffled, "o2", keep=["id"], other_people="another table", ledger=tables / "l")
    assert done.notes == ()
    assert "no kept column as a whole equals or determines labels" in done.notes_file.read_text()


def test_notes_stay_private_in_a_file_that_was_not(release, write_table, columns, tables):
    """A notes file that others could read is closed to them before a note is written."""
    source = write_table(tables / "t.parquet", {"copy": columns["colour"], "colour": columns["colour"]})
    notes = tables / "t.parquet.labeldp-ledger.notes"
    notes.write_text("")
    notes.chmod(0o644)
    done = release(source, keep=["copy"])
    assert done.notes
    assert stat.S_IMODE(notes.stat().st_mode) == 0o600


def test_the_certificate_states_what_was_declared(release, source, columns):
    """Kept columns, the unit and the prior are assumptions, and the figures are those of parameters."""
    one = release(source, "o1", mechanism=dp.PriorMechanism(prior="prior_")).certificate
    two = release(source, "o2", unit="street", ledger=source.with_name("l"), budget=4.0).certificate
    assert [len(found.assumptions) for found in (one, two)] == [3, 4]  # rows of the second return
    assert "prior" in one.assumptions[2]
    assert "street" in two.assumptions[2]
    body = json.loads(one.to_json())
    assert body["expects"]["truth_probability"] == pytest.approx(
        expected_truth(read(source.parent / "o1"), columns, body["charges"][0]["law"]), rel=1e-9
    )


def expected_truth(found, columns, law):
    """The probability that the true class is released, from priors and weights, by a loop."""
    total = 0.0
    for i, row in enumerate(found["colour_candidates"]):
        total += int(law["keep"][len(row)]) / 2.0**64 * sum(columns[f"prior_{name}"][i] for name in row)
    return total / len(found["colour_candidates"])


def test_bits_come_out_in_declared_order(release, source, space):
    """A released set lists its classes as they were declared, so that its order says nothing."""
    done = release(source, mechanism="bits")
    order = {name: i for i, name in enumerate(space.values)}
    assert all(row == sorted(row, key=order.get) for row in read(done.output)["colour_released"])
    assert unpack(np.array([[0b101]], dtype=np.uint8), 3).tolist() == [[True, False, True]]


def test_a_bad_epsilon_is_refused_before_the_table_is_read(release, source, monkeypatch):
    """Parameters are looked at first."""
    monkeypatch.setattr(module, "survey", None)
    with pytest.raises(EpsilonError):
        release(source, epsilon=1e-300)


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    """The system's reason is given, without a second look at the file for another one."""
    (tmp_path / "t.csv").write_text("x,y\n1,a\n", encoding="utf-8")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tables_module.Path, "open", refuse)
    cause = tables_module._cause(tmp_path / "t.csv", PermissionError(13, "Permission denied"))
    assert cause == "Permission denied; check the file and its permissions"


def test_an_output_in_the_folder_of_the_table_is_refused(tmp_path):
    """It would be a part of the table from then on; nothing is charged."""
    (tmp_path / "parts").mkdir()
    pq.write_table(pa.table({"x": range(6), "y": ["a", "b"] * 3}), tmp_path / "parts" / "one.parquet")
    with pytest.raises(OutputError, match="expected an output beside the table's folder"):
        dp.release_table(tmp_path / "parts", "y", dp.Classes(["a", "b"]), 1.0, tmp_path / "parts" / "out", keep=["x"])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["parts"]


@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("row", [1, 900])
def test_text_that_is_not_utf_8_is_refused_without_a_word_of_it(tmp_path, name, row):
    """Arrow's and Python's errors would quote it, labels too."""
    columns = {"x": [f"t{i}" for i in range(1000)], "y": ["no", "yes"] * 500}
    texts = [text.encode() for text in columns[name]]
    texts[row] = b"\xff\xfe"
    damaged = pa.Array.from_buffers(pa.string(), 1000, pa.array(texts, pa.binary()).buffers())
    pq.write_table(pa.table({**columns, name: damaged}), tmp_path / "t.parquet")
    with pytest.raises(TableError, match="its text is not UTF-8; save it again"):
        dp.release_table(tmp_path / "t.parquet", "y", dp.Classes(["no", "yes"]), 1.0, tmp_path / "o", drop=[])
    with pytest.raises(TableError, match="its text is not UTF-8; save it again"):
        dp.check_table(tmp_path / "t.parquet", "y")
