"""Columns of every type of Arrow, through check, release, verify, learn, predict, card, audit and plan."""

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, Curator, RandomizedResponse
from labeldp.cli import main
from labeldp.errors import InputError, LabelDPError
from labeldp.learning.features import columns_of, frame_of, points_of, tree_points_of

ROWS = 60
PLACES = range(ROWS)
LABELS = ["no" if place * 7 % 13 < 6 else "yes" for place in PLACES]
SPACE = Classes(["no", "yes"])
DAYS = pa.array([dt.date(2024, 1, 1) + dt.timedelta(days=place) for place in PLACES])
TEXTS = pa.array([f"t{place % 4}" for place in PLACES])
SMALL = pa.array([place % 7 for place in PLACES])
HALVES = pa.array([place % 9 / 2 for place in PLACES])
EARLY_AND_LATE = [dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1)]
EXTENSIONS = {
    "uuid": (pa.uuid(), pa.array([uuid.UUID(int=place).bytes for place in PLACES], pa.binary(16))),
    "json": (pa.json_(), pa.array(['{"a": 1}', "{}"] * (ROWS // 2))),
    "bool8": (pa.bool8(), pa.array([place % 2 for place in PLACES], pa.int8())),
    "tensor": (
        pa.fixed_shape_tensor(pa.float32(), (2,)),
        pa.array([[place % 3, 2.0] for place in PLACES], pa.list_(pa.float32(), 2)),
    ),
    "opaque": (pa.opaque(pa.int64(), "money", "bank"), SMALL),
}
#: Columns that a model learns from, by their names.
FEATURES = {
    **{str(kind): SMALL.cast(kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(kind): SMALL.cast(kind) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    "beyond 2^53": pa.array([(1 << 60) + place % 11 * 4096 for place in PLACES]),
    "the largest": pa.array([(1 << 64) - 1 - place % 11 * 4096 for place in PLACES], pa.uint64()),
    **{str(kind): HALVES.cast(kind) for kind in (pa.float16(), pa.float32(), pa.float64())},
    "gaps": pa.array([float("nan") if place % 3 == 0 else place % 5 / 2 for place in PLACES]),
    **{str(make(9, 2)): HALVES.cast(make(9, 2)) for make in (pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256)},
    "bool": pa.array([place % 2 == 0 for place in PLACES]),
    "bool gaps": pa.array([None if place % 5 == 0 else place % 2 == 0 for place in PLACES]),
    **{str(kind): TEXTS.cast(kind) for kind in (pa.string(), pa.large_string(), pa.string_view())},
    "text gaps": pa.array([None if place % 3 == 0 else f"t{place % 4}" for place in PLACES]),
    "date32": DAYS,
    "date64": DAYS.cast(pa.date64()),
    "far dates": pa.array([EARLY_AND_LATE[place % 2].date() for place in PLACES]),
    **{f"timestamp {unit}": DAYS.cast(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    "odd nanoseconds": pa.array([(place << 46) + 1 for place in PLACES], pa.timestamp("ns")),
    "zone": DAYS.cast(pa.timestamp("us")).cast(pa.timestamp("us", "Europe/Berlin")),
    "far timestamps": pa.array([EARLY_AND_LATE[place % 2] for place in PLACES], pa.timestamp("us")),
    "dictionary": TEXTS.dictionary_encode(),
    "dictionary of numbers": SMALL.dictionary_encode(),
    "dictionary of days": pa.array(DAYS.to_pylist()[:30] * 2).dictionary_encode(),
    "bool8": pa.ExtensionArray.from_storage(*EXTENSIONS["bool8"]),
    "json": pa.ExtensionArray.from_storage(*EXTENSIONS["json"]),
    "opaque": pa.ExtensionArray.from_storage(*EXTENSIONS["opaque"]),
}
#: Columns that are left out, and words of the reason.
LEFT_OUT = {
    "infinite": (pa.array([float("inf") if place == 3 else place % 5 / 2 for place in PLACES]), "infinite numbers"),
    "huge": (pa.array([(-1) ** place * 1e308 for place in PLACES]), "numbers above 1e+38"),
    "huge decimals": (pa.array([Decimal(place) * 10**40 for place in PLACES], pa.decimal256(60, 2)), "above 1e+38"),
    "far seconds": (pa.array([place % 2 * 10**15 for place in PLACES], pa.timestamp("s")), "no instants that can be"),
    "nothing": (pa.nulls(ROWS, pa.float64()), "same in every row"),
    "empty texts": (pa.array([""] * ROWS), "same in every row"),
    "null": (pa.nulls(ROWS), "no model takes its type"),
    "names": (pa.array([f"u{place}" for place in PLACES]), "most of its values occur once"),
    **{
        str(kind): (pa.array([b"ab"[place % 2 :] for place in PLACES], kind), "no model takes its type")
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    },
    "fixed binary": (pa.array([bytes([place % 5] * 4) for place in PLACES], pa.binary(4)), "no model takes its type"),
    **{
        str(kind): (pa.array([60 * place * 10**6 % 10**8 for place in PLACES]).cast(width).cast(kind), "no model takes")
        for kind, width in (
            *((pa.time32(unit), pa.int32()) for unit in ("s", "ms")),
            *((pa.time64(unit), pa.int64()) for unit in ("us", "ns")),
            *((pa.duration(unit), pa.int64()) for unit in ("s", "ms", "us", "ns")),
        )
    },
    "list": (pa.array([[place % 3, 2] for place in PLACES]), "no model takes its type"),
    "large list": (pa.array([[place % 3] for place in PLACES], pa.large_list(pa.int64())), "no model takes its type"),
    "fixed list": (pa.array([[place % 3, 2] for place in PLACES], pa.list_(pa.float32(), 2)), "no model takes"),
    "list view": (pa.array([[place % 3] for place in PLACES], pa.list_view(pa.int64())), "no model takes its type"),
    "list of texts": (pa.array([[f"a{place % 3}"] for place in PLACES]), "no model takes its type"),
    "list of views": (pa.array([["a"]] * ROWS, pa.list_(pa.string_view())), "no model takes its type"),
    "struct": (pa.array([{"a": place % 3, "b": "x"} for place in PLACES]), "no model takes its type"),
    "map": (pa.array([[("k", place % 3)] for place in PLACES], pa.map_(pa.string(), pa.int64())), "no model takes"),
    "uuid": (pa.ExtensionArray.from_storage(*EXTENSIONS["uuid"]), "no model takes its type"),
    "tensor": (pa.ExtensionArray.from_storage(*EXTENSIONS["tensor"]), "no model takes its type"),
}
#: Columns of types that Parquet cannot hold as they are, but for their plain values.
IN_MEMORY = {
    "dictionary of views": pa.DictionaryArray.from_arrays(
        pa.array([place % 2 for place in PLACES], pa.int8()), pa.array(["p", "q"], pa.string_view())
    ),
    "runs": pc.run_end_encode(pa.array([place // 10 for place in PLACES])),
    "runs of texts": pc.run_end_encode(pa.array([f"r{place // 10}" for place in PLACES])),
}
STORED = FEATURES | {name: column for name, (column, _) in LEFT_OUT.items()}
EVERY = STORED | IN_MEMORY
#: Values of some columns, as a message of Arrow would show them.
SHOWN = {"far dates": ["9999", "0001"], "beyond 2^53": [str(1 << 60)], "names": ["u0"], "json": ['"a"']}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A Parquet file with a column of every type that it can hold."""
    path = tmp_path_factory.mktemp("types") / "types.parquet"
    pq.write_table(pa.table(STORED | {"y": LABELS}), path)
    return path


def test_there_are_sixty_types():
    """Their names are different, and so is each from what it is left out for."""
    assert len(EVERY) >= 60
    assert not FEATURES.keys() & LEFT_OUT.keys()


def test_commands_take_columns_of_every_type(table, capsys):
    """None stops a command, and the predictions are one for each row."""
    folder = table.parent
    common = ["--label", "y", "--classes", "no,yes"]
    commands = (
        ["check", table, "--label", "y"],
        ["release", table, *common, "--epsilon", "3", "--keep", "all", "--unit", "row", "--output", folder / "shared"],
        ["verify", folder / "shared"],
        ["learn", folder / "shared", "--model", "softmax", "--output", folder / "model"],
        ["predict", folder / "model", table, "--output", folder / "predicted.csv"],
        ["card", folder / "shared"],
        ["audit", folder / "shared"],
        ["plan", table, *common],
    )
    for command in commands:
        assert main(list(map(str, command))) == 0, (command[0], capsys.readouterr().err)
    assert pa.csv.read_csv(folder / "predicted.csv").num_rows == ROWS
    assert pq.read_table(folder / "shared" / "data.parquet", columns=["string_view"])["string_view"].type == pa.string()


@pytest.mark.parametrize("name", FEATURES | IN_MEMORY)
def test_a_column_is_learned_from(name):
    """As a feature with finite values, wherever a row has one."""
    rows = pa.table({name: EVERY[name]})
    columns, _ = columns_of(rows, None, None)
    assert list(columns) == [name]
    assert frame_of(rows, columns).notna().any().all()
    assert np.isfinite(points_of(rows)).all()
    assert len(tree_points_of(rows)) == ROWS


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_column_is_left_out_with_its_reason(name):
    """The other column is learned from; whoever names it among the features is told the reason or its type."""
    column, why = LEFT_OUT[name]
    columns, left_out = columns_of(pa.table({name: column, "age": HALVES}), None, None)
    assert list(columns) == ["age"]
    assert why in left_out[name]
    if why not in ("same in every row", "most of its values occur once"):
        with pytest.raises(InputError, match=f"in the feature '{name}'".replace("[", r"\[")):
            columns_of(pa.table({name: column}), [name], None)


def test_a_release_in_memory_keeps_columns_of_every_type(tmp_path):
    """In their plain types, with the same values."""
    release = Curator(LABELS, SPACE).randomize(RandomizedResponse(SPACE, epsilon=1.0))
    release.save(tmp_path / "shared", table=pa.table(EVERY), keep="all")
    saved = pq.read_table(tmp_path / "shared" / "data.parquet")
    assert saved["runs"].to_pylist() == [place // 10 for place in PLACES]
    assert saved["dictionary of views"].to_pylist() == [("p", "q")[place % 2] for place in PLACES]
    assert saved["list view"].to_pylist() == [[place % 3] for place in PLACES]
    assert saved["decimal32(9, 2)"].to_pylist() == HALVES.cast(pa.decimal128(9, 2)).to_pylist()


def test_a_type_that_parquet_cannot_hold_is_named(tmp_path):
    """With the column, before anything is written."""
    release = Curator(LABELS, SPACE).randomize(RandomizedResponse(SPACE, epsilon=1.0))
    column = pa.array([(1, place, 3) for place in PLACES], pa.month_day_nano_interval())
    with pytest.raises(InputError, match="found month_day_nano_interval in 'wait'; convert it"):
        release.save(tmp_path / "shared", table=pa.table({"wait": column}), keep="all")
    assert not (tmp_path / "shared").exists()


@pytest.mark.parametrize("name", EVERY)
def test_labels_and_units_of_any_type_are_taken_or_refused(name):
    """By an error of the package, which shows no value."""
    messages = []
    for labels, units in ((EVERY[name], None), (LABELS, EVERY[name])):
        try:
            Curator(labels, SPACE, units=units)
        except LabelDPError as problem:
            messages.append(str(problem))
    assert not [text for text in SHOWN.get(name, ()) if text in "".join(messages)]


def test_labels_of_any_type_are_looked_at_or_refused(tmp_path, capsys):
    """By the command that proposes a release, which says what to do."""
    for name in ("list", "struct", "map", "binary", "not text"):
        labels = pa.array([b"\xff\xfe"] * ROWS) if name == "not text" else EVERY[name]
        pq.write_table(pa.table({"age": HALVES, "y": labels}), tmp_path / "t.parquet")
        assert main(["check", str(tmp_path / "t.parquet"), "--label", "y"]) == (name != "binary")
        assert name == "binary" or "convert the column to text" in capsys.readouterr().err
