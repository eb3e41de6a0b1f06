"""Twin runs: with the draw made constant, neighbouring tables must leave the same bytes, words and errors."""

import hashlib
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as dp
import labeldp.release.curator._curator as curator_module
import labeldp.release.folder._run as run_module
import labeldp.release.jobs._job as table_module
import labeldp.release.tables._first_pass as survey_module
import labeldp.release.tables._tables as tables_module
from labeldp._random_words import TapeWords
from labeldp.mechanisms.randomizers import class_randomizers, number_randomizers
from labeldp.privacy.channels import pack, unpack
from labeldp.release import ledger_path

CASES = {
    **{name: {"mechanism": name} for name in ("auto", *(kind.name for kind in class_randomizers()))},
    "prior": {"mechanism": dp.PriorMechanism(prior="prior_")},
    "prior-subset": {"mechanism": dp.PriorMechanism(dp.PriorSubsetResponse, "prior_")},
    "unit": {"unit": "street"},
    "unit bits": {"unit": "street", "mechanism": "bits"},
}


def constant(channel, codes, *_):
    """Released labels that do not depend on the true ones: each row's first possible outcome."""
    if channel.form == "number":
        return np.zeros(codes.size, dtype=np.int16)
    if channel.form == "class" and channel.kind != "candidates":
        return np.zeros(codes.size, dtype=np.int32)
    if channel.kind == "candidates":
        return np.argmax(unpack(channel.candidates, channel.classes), axis=1).astype(np.int32)
    if channel.kind == "candidate-subset":
        inside = unpack(channel.candidates, channel.classes)
        return pack(inside & (np.cumsum(inside, axis=1) <= np.array(channel.size)[channel.sizes][:, None]))
    size = getattr(channel, "size", None) or getattr(getattr(channel, "channels", [None])[0], "size", 1)
    mask = np.zeros((codes.size, channel.classes), dtype=np.bool_)
    mask[:, :size] = True
    return np.packbits(mask, axis=1, bitorder="little")


@pytest.fixture
def fixed(monkeypatch):
    """No randomness: constant draws and names."""
    monkeypatch.setattr("labeldp.release.curator._drawing.draw", constant)
    for module in (table_module, curator_module):
        monkeypatch.setattr(module, "identifier", lambda: "ab" * 16)


def neighbours(labels, classes):
    """One label replaced: the first row's by each class, and others, at the ends of batches, by one class each."""
    for row in (0, 6, 7, len(labels) - 1):
        others = [label for label in classes if label != labels[row]]
        for label in others if row == 0 else [others[row % len(others)]]:
            yield [*labels[:row], label, *labels[row + 1 :]]


def files(folder):
    """Every file of a folder, by its name, byte for byte."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*"))}


def run(make, labels, **options):
    """What a release of a table leaves: files, or the whole text of its error; then everything is removed."""
    folder = make(labels)
    space = options.pop("space", dp.Classes(["red", "green", "blue", "grey", "pink"]))
    output = folder.parent / "o"
    seen = []
    try:
        given = {"keep": ["id"], "progress": lambda *args: seen.append(args), **options}
        done = dp.release_table(folder, "colour", space, 1.0, output, **given)
        left = files(output)
        for path in sorted(output.iterdir()):
            path.unlink()
        output.rmdir()
        return left, done.certificate.to_json(), seen
    except Exception as problem:  # noqa: BLE001 (every failure is compared)
        return type(problem).__name__, str(problem), "".join(traceback.format_exception_only(problem))
    finally:
        assert not output.exists()
        for path in folder.parent.glob("*labeldp-ledger*"):
            path.unlink()


@pytest.fixture
def maker(write_table, columns, tables):
    """A function that gives a function that writes a table with given labels."""

    def of(name):
        return lambda labels: write_table(tables / name, {**columns, "colour": labels})

    return of


# Byte for byte


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("fixed", "as_users_call")
def test_neighbours_leave_the_same_bytes(maker, labels, space, monkeypatch, name, case):
    """Any label replaced by any other, the output, the certificate and the reports of progress are the same."""
    monkeypatch.setattr(table_module, "_ROWS_PER_BATCH", 7)
    make = maker(name)
    expected = run(make, labels, **CASES[case])
    assert set(expected[0]) == {"_README.txt", "_certificate.json", "data.parquet"}
    for other in neighbours(labels, space.values):
        assert run(make, other, **CASES[case]) == expected


def test_the_twin_run_can_fail(maker, labels, space):
    """With the true draw, or a draw that keeps one row, the bytes differ: the comparison sees labels."""
    make = maker("t.parquet")
    assert run(make, labels)[0] != run(make, labels)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "identifier", lambda: "ab" * 16)
        patch.setattr(
            "labeldp.release.curator._drawing.draw", lambda _, codes, *__: codes * (np.arange(codes.size) == 59)
        )
        options = {"mechanism": "randomized-response"}
        expected = run(make, labels, **options)
        other = [*labels[:-1], next(label for label in space.values if label != labels[-1])]
        assert run(make, other, **options)[0] != expected[0]


@pytest.mark.parametrize("block", [256, 300, 512])
@pytest.mark.usefixtures("fixed")
def test_the_length_of_a_label_moves_nothing_in_csv(maker, labels, space, monkeypatch, block):
    """Labels of other lengths move the reader's blocks, but neither row groups nor figures of the output."""
    monkeypatch.setattr(tables_module, "_CSV_BLOCK", block)
    long = ["red" if label == "pink" else label for label in labels]
    make = maker("t.csv")
    expected = run(make, long)
    assert isinstance(expected[0], dict)
    for other in neighbours(long, space.values):
        assert run(make, other) == expected


@pytest.mark.parametrize("odd", [30, 40, 50, 59])
@pytest.mark.usefixtures("fixed")
def test_the_length_of_a_label_decides_no_type_in_csv(write_table, tables, monkeypatch, odd):
    """Whether a column reads as whole numbers, and whether that fails later, does not depend on labels before it."""
    monkeypatch.setattr(tables_module, "_CSV_BLOCK", 400)
    numbers = [i % 10 for i in range(60)]
    numbers[odd] = 1.5

    def make(labels):
        return write_table(tables / "t.csv", {"id": numbers, "colour": labels})

    outcomes = [run(make, ["red"] * n + ["green"] * (60 - n)) for n in range(0, 60, 3)]
    assert len({outcome[0] if isinstance(outcome[0], str) else "released" for outcome in outcomes}) == 1


@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.usefixtures("fixed")
def test_the_row_groups_of_a_source_are_not_copied(tables, labels, by_label):
    """Row groups that end where a label begins do not show in the output, in columns with dictionaries too."""
    table = pa.table({"id": pa.array([f"n{i % 3}" for i in range(60)]).dictionary_encode(), "colour": sorted(labels)})
    if by_label:
        table = table.set_column(1, "colour", table["colour"].dictionary_encode())

    def make(edges):
        with pq.ParquetWriter(tables / "t.parquet", table.schema) as writer:
            for low, high in zip([0, *edges], [*edges, 60], strict=True):
                writer.write_table(table.slice(low, high - low))
        return tables / "t.parquet"

    assert run(make, [10, 31]) == run(make, [17, 18, 40])


@pytest.mark.usefixtures("fixed")
def test_neighbours_in_a_folder(write_table, columns, tables, labels, space):
    """The same for a folder of files."""

    def make(given):
        for i in range(3):
            piece = {name: columns[name][20 * i : 20 * (i + 1)] for name in ("id", "height")}
            write_table(tables / "t" / f"{i}.csv", {**piece, "colour": given[20 * i : 20 * (i + 1)]})
        return tables / "t"

    expected = run(make, labels)
    assert len(expected[0]) == 5
    for other in list(neighbours(labels, space.values))[::3]:
        assert run(make, other) == expected


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.usefixtures("fixed")
def test_neighbours_that_are_missing(maker, labels, name):
    """Where missing labels have a declared class, a missing label leaves the same bytes as any other."""
    space = dp.Classes(["red", "green", "blue", "grey", "pink"], missing="grey")
    make = maker(name)
    expected = run(make, labels, space=space)
    for row in (0, 30, 59):
        assert run(make, [*labels[:row], None, *labels[row + 1 :]], space=space) == expected
    assert run(make, [None] * 60, space=space) == expected


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("mechanism", ["auto", *(kind.name for kind in number_randomizers())])
@pytest.mark.parametrize("unit", [None, "street"])
@pytest.mark.usefixtures("fixed")
def test_neighbours_in_an_interval(maker, name, mechanism, unit):
    """So it is for numbers, far outside the range too."""
    make, values = maker(name), [0.25 * (i % 5) for i in range(60)]
    options = {"space": dp.Interval(0, 1, 0.25), "mechanism": mechanism, "unit": unit}
    expected = run(make, values, **options)
    assert isinstance(expected[0], dict)
    for value in (0.123456789, -1e300, 7.0, 1e-300):
        assert run(make, [*values[:59], value], **options) == expected


@pytest.mark.parametrize("labels_", [["red"] * 60, ["red"] * 30 + ["blue"] * 30, ["pink", *["grey"] * 59]])
@pytest.mark.usefixtures("fixed")
def test_what_labels_look_like_together_changes_nothing(maker, labels, labels_):
    """One class only, labels in order, a class that occurs once: the same bytes as for any labels."""
    for name in ("t.csv", "t.parquet"):
        assert run(maker(name), labels_) == run(maker(name), labels)


# The same tape


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_tape_changes_one_row_only(maker, labels, space, tables, monkeypatch, name, case):
    """With the same words, replacing one label changes that row's released label and nothing else."""
    monkeypatch.setattr(table_module, "_ROWS_PER_BATCH", 7)
    tape = np.random.default_rng(11).integers(0, 2**64, 60 * 64, dtype=np.uint64)
    monkeypatch.setattr(run_module, "RunKey", lambda: TapeWords(tape))
    monkeypatch.setattr(table_module, "identifier", lambda: "ab" * 16)

    def released(given):
        source = maker(name)(given)
        options = {"keep": ["id", "height"], "epsilon": 6.0, **CASES[case]}
        epsilon = options.pop("epsilon")
        done = dp.release_table(source, "colour", space, epsilon, tables / "o", **options)
        table = pq.read_table(done.output / "data.parquet").to_pylist()
        assert "NOT PRIVATE" in repr(done.certificate) or not done.certificate.private
        for path in (*done.output.iterdir(), *tables.glob("*ledger*")):
            path.unlink()
        done.output.rmdir()
        return table

    one, changed = released(labels), 0
    for row in (0, 6, 7, 59):
        other = [*labels]
        other[row] = next(label for label in space.values if label != labels[row])
        two = released(other)
        differ = [i for i, pair in enumerate(zip(one, two, strict=True)) if pair[0] != pair[1]]
        assert differ in ([], [row])
        changed += len(differ)
        different = {key for key in one[row] if one[row][key] != two[row][key]}
        assert different <= {"colour_released"}
    assert changed >= 1 or case in ("prior", "bits", "unit bits", "unit")


# Errors


def bad_tables():
    """Tables that fail for a reason other than their labels: a way to write each, and options."""

    def ragged(path, labels):
        path.write_text("id,colour\n" + "".join(f"{i},{x}\n" for i, x in enumerate(labels)) + "60,red,7\n")

    def headless(path, labels):
        path.write_text("".join(f"{x},{i}\n" for i, x in enumerate(labels)))

    def unquoted(path, labels):
        path.write_text("id,colour\n" + "".join(f"{i},{x}\n" for i, x in enumerate(labels)) + '"60,red\n')

    def latin(path, labels):
        text = "id,colour\n" + "".join(f"{i},{x}\n" for i, x in enumerate(labels))
        path.write_bytes(text.encode() + b"\xe9,red\n")

    def fine(path, labels):
        path.write_text("id,colour\n" + "".join(f"{i},{x}\n" for i, x in enumerate(labels)))

    return {
        "ragged": (ragged, {}),
        "headless": (headless, {}),
        "unquoted": (unquoted, {}),
        "latin": (latin, {}),
        "kept column": (fine, {"keep": ["age"]}),
        "kept label": (fine, {"keep": ["colour"]}),
        "unit": (fine, {"unit": "street"}),
        "prior": (fine, {"mechanism": dp.PriorMechanism(prior="p_")}),
        "mechanism": (fine, {"mechanism": "laplace"}),
    }


@pytest.mark.parametrize("case", bad_tables())
def test_neighbours_fail_in_the_same_words(tables, labels, space, monkeypatch, case):
    """Where both of two neighbours fail for another reason than labels, the whole error is the same."""
    monkeypatch.setattr(tables_module, "_CSV_BLOCK", 512)
    write, options = bad_tables()[case]

    def make(given):
        write(tables / "t.csv", given)
        return tables / "t.csv"

    expected = run(make, labels, **options)
    assert isinstance(expected[0], str)
    for other in neighbours(labels, space.values):
        found = run(make, other, **options)
        assert found == expected


@pytest.mark.parametrize("problem", ["output", "budget"])
def test_neighbours_are_refused_in_the_same_words(maker, labels, space, tables, problem):
    """A refusal because of the output or the budget says the same of any labels."""
    make, found = maker("t.csv"), set()
    if problem == "output":
        (tables / "out").mkdir()
    else:
        dp.release_table(make(labels), "colour", space, 1.0, tables / "first", keep=["id"])
    for other in neighbours(labels, space.values):
        with pytest.raises(Exception, match=r"exists already|budget exceeded") as refused:
            dp.release_table(make(other), "colour", space, 1.0, tables / "out", keep=["id"])
        found.add((type(refused.value).__name__, str(refused.value)))
    assert len(found) == 1


# The ledger and the curator


@pytest.mark.usefixtures("fixed")
def test_neighbours_leave_the_same_ledger(maker, labels, space, tables, monkeypatch):
    """What the ledger keeps is the same of neighbours, under one key."""
    monkeypatch.setattr("labeldp.release.ledger._database.identifier", lambda: "cd" * 16)
    found = []
    for given in (labels, ["red"] * 60):
        source = maker("t.csv")(given)
        dp.release_table(source, "colour", space, 1.0, tables / "o", keep=["id"])
        found.append(
            [(e.marks, e.rows, e.guarantee, e.state, e.budget) for e in dp.Ledger(ledger_path(source)).entries()]
        )
        for path in (*(tables / "o").iterdir(), *tables.glob("*ledger*")):
            path.unlink()
        (tables / "o").rmdir()
    assert found[0] == found[1]


@pytest.mark.usefixtures("fixed")
def test_neighbours_of_a_curator_leave_the_same_bytes(labels, space, randomizer_for, tmp_path):
    """Saved releases of neighbouring labels are the same, and so are their hash and text."""
    found = []
    for i, given in enumerate((labels, *neighbours(labels, space.values))):
        release = dp.Curator(given, space).randomize(randomizer_for(space, 1.0, 60))
        folder = release.save(tmp_path / str(i), pd.DataFrame({"x": range(60)}), keep="all")
        found.append((files(folder), release.hash, repr(release), release.certificate.to_json()))
    assert all(one == found[0] for one in found)


def test_neighbours_of_a_curator_fail_in_the_same_words(labels, space):
    """Refusals of a curator say the same of any labels."""
    found = set()
    for given in neighbours(labels, space.values):
        curator = dp.Curator(given, space)
        curator.randomize(dp.RandomizedResponse(space, 1.0))
        for rows in (None, [60], [0, 0]):
            with pytest.raises(Exception, match=r"expected|budget exceeded") as refused:
                curator.randomize(dp.RandomizedResponse(space, 1.0), rows)
            found.add((str(rows), type(refused.value).__name__, str(refused.value)))
    assert len(found) == 3


@pytest.mark.usefixtures("fixed")
def test_all_randomness_goes_through_one_door(maker, labels):
    """With the draw and the name constant, a run is repeated byte for byte: nothing else in it is random."""
    make = maker("t.parquet")
    assert len({hashlib.sha256(repr(run(make, labels)).encode()).hexdigest() for _ in range(3)}) == 1
    assert Path(survey_module.__file__).read_text().replace("labeldp.mechanisms.randomizers", "").count("random") == 0
