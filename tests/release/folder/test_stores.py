"""Tables and releases in object stores."""

import contextlib
import dataclasses
import gc
import gzip
import io
import json
import shlex
import shutil
import stat
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import labeldp as dp
import labeldp.release.tables._tables as tables_module
from labeldp.audit.attacks import some_rows
from labeldp.audit.mechanisms import audit_folder
from labeldp.errors import BudgetError, InputError, OutputError, TableError, VerificationError
from labeldp.learning.generators import open_generator
from labeldp.learning.tables import learn, open_model
from labeldp.release import check_table, public_columns
from labeldp.release.tables import StorePath, open_table, place_of
from labeldp.results import release_command

sys.path.insert(0, str(Path(__file__).parents[1]))
import stores

SPACE = dp.Classes(["no", "yes"])
TABLE, SHARED = StorePath.of(f"{stores.BUCKET}/data/visits"), StorePath.of(f"{stores.BUCKET}/shared")
ROWS = 40


STARTS = {"memory": stores.in_memory, "server": stores.serving, "google": stores.google, "azure": stores.azure}


#: Where a store's own answers matter, one behind a server is asked by default too; elsewhere, one in memory.
ANY_STORE = pytest.mark.parametrize("store", STARTS, indirect=True)


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] * (name != "memory")) for name in STARTS])
def store(request, monkeypatch):
    """A store with a table of two files in folders of its columns."""
    server = STARTS[request.param](monkeypatch)
    fill()
    yield request.param
    if request.param != "memory":
        server.stop()


def fill():
    """Write the table."""
    for month in range(2):
        rows = np.arange(ROWS * month, ROWS * month + ROWS)
        put(month, pa.table({"id": rows, "ill": [SPACE.points[row % 2] for row in rows]}))


def put(month, table):
    """Write a file of the table."""
    file = io.BytesIO()
    pq.write_table(table, file)
    stores.write(TABLE / f"month={month}/part-0.parquet", file.getvalue())


@pytest.fixture
def ledger(tmp_path):
    """The path of a ledger."""
    return tmp_path / "l.labeldp-ledger"


def released(ledger, table=TABLE, output=SHARED, **options):
    """A release of the table."""
    given = {"keep": ["id", "month"], "ledger": ledger, **options}
    return dp.release_table(str(table), "ill", SPACE, 1.0, output if isinstance(output, Path) else str(output), **given)


def states(ledger):
    """What became of the charges."""
    return [entry.state for entry in dp.Ledger(ledger).entries()]


def left(folder):
    """What lies in a folder but ledgers."""
    return [path.name for path in folder.iterdir() if "labeldp-ledger" not in path.name]


@ANY_STORE
@pytest.mark.usefixtures("store")
def test_a_table_in_a_store_is_released_to_it(ledger, tmp_path):
    """Read in batches, drawn on a disk, uploaded; then it is verified and read as one on a disk."""
    done = released(ledger)
    assert done.output == SHARED
    assert stores.names(SHARED) == ["_README.txt", "_certificate.json", "part-00000.parquet", "part-00001.parquet"]
    assert dp.verify(str(SHARED)).holds
    columns = public_columns(str(SHARED)).to_pydict()
    assert columns == {"id": list(range(2 * ROWS)), "month": [0] * ROWS + [1] * ROWS}
    assert len(dp.Release.load(str(SHARED))) == 2 * ROWS
    assert [len(labels) for _, labels in dp.release_batches(str(SHARED), 30)] == [30, 30, 20]
    assert (states(ledger), left(tmp_path)) == (["released"], [])
    assert dp.Ledger(ledger).entries()[0].output == str(SHARED)
    assert check_table(str(TABLE), "ill").rows == 2 * ROWS


def test_footers_of_a_store_are_asked_for_at_a_time(monkeypatch):
    """Each waits for the other, as far away stores would make a reader wait for one after another."""
    stores.in_memory(monkeypatch)
    fill()
    both, within = threading.Barrier(2, timeout=30), tables_module.open_parquet
    monkeypatch.setattr(tables_module, "open_parquet", lambda path, **more: both.wait() < 0 or within(path, **more))
    assert [path.name for path in open_table(str(TABLE), "ill").files] == ["part-0.parquet"] * 2


@pytest.mark.usefixtures("store")
def test_a_table_on_a_disk_and_one_in_a_store_are_the_same_people(ledger, tmp_path):
    """A second release of the rows is charged with the first, whichever place they come from."""
    released(ledger, output=tmp_path / "one")
    pq.write_table(pa.table({"id": range(2 * ROWS), "ill": ["no", "yes"] * ROWS}), tmp_path / "t.parquet")
    done = released(ledger, tmp_path / "t.parquet", keep=["id"], budget=2.0)
    assert done.spent[0] == 2.0
    assert dp.verify(str(SHARED)).holds


@pytest.mark.usefixtures("store")
def test_a_ledger_beside_that_of_a_table_in_a_store_counts(ledger, tmp_path):
    """Another one in the same folder is no way out."""
    released(ledger, output=tmp_path / "one")
    with pytest.raises(BudgetError):
        released(tmp_path / "another.labeldp-ledger")
    assert stores.names(SHARED) == []


@pytest.mark.usefixtures("store")
def test_row_groups_are_read_one_by_one(ledger, tmp_path):
    """Large files are parts by row groups, as on a disk, and files without rows give none."""
    file = io.BytesIO()
    table = pa.table({"id": range(ROWS), "ill": [SPACE.points[row % 2] for row in range(ROWS)]})
    pq.write_table(table, file, row_group_size=7)
    stores.write(TABLE.parent / "t" / "1.parquet", file.getvalue())
    pq.write_table(table.slice(0, 0), file := io.BytesIO())
    stores.write(TABLE.parent / "t" / "0.parquet", file.getvalue())
    opened = open_table(str(TABLE.parent / "t"), "ill")
    assert [batch.num_rows for batch in opened.scan(["id"], 5)] == [5, 2] * 5 + [5]
    assert [batch.num_rows for batch in opened.batches(["id"], 30)] == [30, 10]
    some = dataclasses.replace(opened, files=opened.files[1:], groups=(1, 3))
    (batch,) = some.batches(["id"], 30)
    assert batch["id"].to_pylist() == [*range(7, 14), *range(21, 28)]
    done = released(ledger, TABLE.parent / "t", tmp_path / "o", keep=["id"])
    assert public_columns(done.output)["id"].to_pylist() == list(range(ROWS))


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("packed", [False, True])
def test_a_csv_file_in_a_store(ledger, packed, tmp_path):
    """Plain and compressed, with the types of its columns."""
    text = "id,ill\n" + "".join(f"{row},{SPACE.points[row % 2]}\n" for row in range(ROWS))
    place = TABLE.parent / ("t.csv.gz" if packed else "t.csv")
    stores.write(place, gzip.compress(text.encode()) if packed else text.encode())
    done = released(ledger, place, tmp_path / "o", keep=["id"])
    assert dp.verify(done.output).holds
    assert public_columns(done.output).to_pydict() == {"id": list(range(ROWS))}


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz"])
def test_a_broken_file_in_a_store_is_refused_without_quoting_it(ledger, tmp_path, ending):
    """As one on a disk, with what to do."""
    stores.write(TABLE.parent / f"t.{ending}", b'id,ill\n1,"no\x00\xff\n2\n')
    with pytest.raises(TableError, match=r"expected|cannot be read") as found:
        released(ledger, TABLE.parent / f"t.{ending}", tmp_path / "o", keep=["id"])
    assert "no\x00" not in str(found.value)
    assert found.value.__cause__ is None
    assert left(tmp_path) == []


@pytest.mark.usefixtures("store")
def test_labels_in_idx_are_read_from_a_disk_alone(ledger, tmp_path):
    """With what to do."""
    place = TABLE.parent / "labels-idx1-ubyte"
    stores.write(place, b"\x00\x00\x08\x01\x00\x00\x00\x01\x00")
    with pytest.raises(TableError, match="expected labels in IDX on a disk"):
        dp.release_table(str(place), "label", dp.Classes([0, 1]), 1.0, tmp_path / "o", keep=[], ledger=ledger)


@pytest.mark.usefixtures("store")
def test_an_answer_is_opened_from_a_store(ledger):
    """As any folder."""
    released(ledger, keep=[], mechanism="noisy-histogram")
    assert dp.Answer.load(str(SHARED)).value.shape == (1, 2)


REFUSED = [{"ledger": None}, {"ledger": Path("none/l")}, {"output": TABLE / "o"}, {"output": SHARED / "more"}]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("options", REFUSED)
def test_what_cannot_be_released_costs_nothing(ledger, options, tmp_path):
    """No ledger for a table in a store, an output in the table, and one that is not empty."""
    stores.write(SHARED / "more" / "data.parquet", b"x")
    with pytest.raises((InputError, OutputError), match=r"expected (a ledger|an output|an existing)|exists already"):
        released(**{"ledger": ledger, **options})
    assert list(tmp_path.iterdir()) == []
    assert stores.names(SHARED) == ["more/data.parquet"]


def failing(monkeypatch, name, problem):
    """Let the upload of a file fail, after it was written."""
    write = StorePath.write

    def writing(self, source):
        write(self, source)
        if self.name == name:
            raise problem

    monkeypatch.setattr(StorePath, "write", writing)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("name", ["part-00000.parquet", "part-00001.parquet", "_certificate.json"])
@pytest.mark.parametrize("problem", [OSError("AWS Error: secret"), KeyboardInterrupt()])
def test_an_upload_that_fails_stays_charged(ledger, tmp_path, monkeypatch, name, problem):
    """What was uploaded may have been read; it is removed, and the error does not quote the store."""
    with monkeypatch.context() as patch:
        failing(patch, name, problem)
        with pytest.raises((OutputError, KeyboardInterrupt)) as found:
            released(ledger)
    assert "secret" not in str(found.value)
    assert stores.names(SHARED) == []
    assert (states(ledger), left(tmp_path)) == (["drawn"], [])
    assert not verify_or_error(SHARED)


@pytest.mark.usefixtures("store")
def test_only_the_certificate_that_was_written_is_signed(ledger, tmp_path):
    """One that somebody put in its place is refused; a signature that is there is not replaced."""
    dp.make_key(tmp_path / "key")
    dp.make_key(tmp_path / "other")
    mine = released(ledger).certificate
    released(ledger, output=StorePath.of(f"{stores.BUCKET}/two"), budget=2.0)
    with pytest.raises(VerificationError, match="found another; do not use it"):
        dp.sign(f"{stores.BUCKET}/two", tmp_path / "key", mine)
    assert "_signature.json" not in stores.names(StorePath.of(f"{stores.BUCKET}/two"))
    assert dp.sign(str(SHARED), tmp_path / "key", mine) == SHARED / "_signature.json"
    assert dp.verify(str(SHARED), public_key=tmp_path / "key.pub").holds
    with pytest.raises(OutputError, match="expected a new file"):
        dp.sign(str(SHARED), tmp_path / "other")
    assert dp.verify(str(SHARED), public_key=tmp_path / "key.pub").holds


@ANY_STORE
@pytest.mark.usefixtures("store")
def test_the_certificate_comes_last(ledger, monkeypatch):
    """Whoever looks before sees no release."""
    write, order = StorePath.write, []

    def writing(self, source):
        order.append((self.name, (SHARED / "_certificate.json").exists()))
        write(self, source)

    monkeypatch.setattr(StorePath, "write", writing)
    released(ledger)
    names = ["part-00000.parquet", "part-00001.parquet", "_certificate.json"]
    assert order[-3:] == [(name, False) for name in names]


@ANY_STORE
@pytest.mark.usefixtures("store")
def test_copies_are_private_and_removed(ledger, monkeypatch, tmp_path):
    """Also where batches are given up half way, or never begun."""
    released(ledger)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    batches = dp.release_batches(str(SHARED), 10)
    next(batches)
    (copy,) = (tmp_path / "temporary").iterdir()
    assert stat.S_IMODE(copy.stat().st_mode) == stat.S_IMODE((copy / "shared").stat().st_mode) == 0o700
    del batches
    dp.release_batches(str(SHARED), 10)
    gc.collect()
    assert dp.verify(str(SHARED)).holds
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.usefixtures("store")
def test_a_copy_that_breaks_off_is_no_release(ledger, monkeypatch):
    """A file that came in part would be taken for the whole; what the store said is not repeated."""
    released(ledger)

    def broken(_, path):
        path.write_bytes(b"PAR1")
        raise OSError("GET https://host/?signature=hidden")

    monkeypatch.setattr("labeldp.release.folder._staging._copy", broken)
    with pytest.raises(InputError, match="broke off; try again") as told:
        dp.verify(str(SHARED))
    assert "hidden" not in str(told.value)


def verify_or_error(place):
    """True if a release is at a place."""
    try:
        return dp.verify(str(place)).holds
    except InputError:
        return False


@ANY_STORE
@pytest.mark.usefixtures("store")
def test_a_store_that_takes_nothing_costs_nothing(ledger, monkeypatch):
    """It is tried before the charge."""

    def refused(*_):
        raise OSError("AWS Error ACCESS_DENIED: key AKIA")

    monkeypatch.setattr(StorePath, "write", refused)
    with pytest.raises(OutputError, match="does not take it") as found:
        released(ledger)
    assert "AKIA" not in str(found.value)
    assert not ledger.exists()


@ANY_STORE
@pytest.mark.usefixtures("store")
def test_another_upload_to_the_target_is_noticed(ledger, monkeypatch):
    """Files that are not of this release leave it without a certificate."""
    write = StorePath.write

    def writing(self, source):
        write(self, source)
        stores.write(SHARED / "strange.parquet", b"x")

    with monkeypatch.context() as patch:
        patch.setattr("labeldp.release.jobs._job.check_store", lambda _: None)
        patch.setattr(StorePath, "write", writing)
        with pytest.raises(OutputError, match="to stay empty, found 1 other files"):
            released(ledger)
    assert stores.names(SHARED) == ["strange.parquet"]
    assert states(ledger) == ["drawn"]


@pytest.mark.usefixtures("store")
def test_a_killed_upload_is_settled_as_charged(ledger, tmp_path, monkeypatch):
    """The staging folder beside the ledger is removed by the next release, and the charge stays."""
    kept = tmp_path / "kept"

    def killed(staging, _):
        staging.rename(kept)  # as it lies there after SIGKILL
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("labeldp.release.folder._write.upload", killed)
        patch.setattr("labeldp.release.ledger._ledger.Ledger._settle", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            released(ledger)
    (entry,) = dp.Ledger(ledger).entries()
    kept.rename(tmp_path / f".shared.labeldp-uploaded.labeldp-{entry.identifier}")
    dp.Ledger(ledger).settle()
    assert (states(ledger), left(tmp_path)) == (["drawn"], [])


@pytest.mark.usefixtures("store")
def test_a_copy_of_the_ledgers_folder_voids_no_upload(tmp_path, monkeypatch):
    """A copy from just before the upload holds the staging folder, and the charge stays in it."""
    folder, copy = tmp_path / "ledgers", tmp_path / "copy"
    mine, other = (each / "l.labeldp-ledger" for each in (folder, copy))
    folder.mkdir()
    drawn = dp.Ledger.drawn

    def copied(self, identifier):
        shutil.copytree(folder, copy)
        drawn(self, identifier)

    with monkeypatch.context() as patch:
        patch.setattr(dp.Ledger, "drawn", copied)
        assert dp.verify(released(mine).output).holds
    dp.Ledger(other).settle()
    assert (states(mine), states(other)) == (["released"], ["charged"])
    assert left(copy) == []


def down(self):
    """A store that does not answer."""
    raise InputError(f"expected to read {self}, found that the store did not answer")


@pytest.mark.parametrize("at_target", ["nothing", "a file", "no answer"])
@pytest.mark.parametrize("store", ["memory"], indirect=True)
@pytest.mark.usefixtures("store")
def test_a_release_to_a_store_is_void_if_nothing_is_there(ledger, tmp_path, monkeypatch, at_target):
    """A ledger that was set back to before the upload still has its staging folder: the store is asked."""

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("labeldp.release.folder._write.upload", killed)
        patch.setattr(dp.Ledger, "_settle", lambda *_: None)
        patch.setattr(dp.Ledger, "drawn", lambda *_: None)
        patch.setattr("labeldp.release.folder._staging.shutil.rmtree", lambda *_, **__: None)  # as after SIGKILL
        with pytest.raises(KeyboardInterrupt):
            released(ledger)
    assert left(tmp_path)
    if at_target == "a file":
        stores.write(SHARED / "part-00000.parquet", b"x")
    if at_target == "no answer":
        monkeypatch.setattr(StorePath, "files", down)
    with monkeypatch.context() as patch:
        patch.setattr("labeldp.release.ledger._ledger.fate_of", lambda *_, **__: "never left")
        dp.Ledger(ledger).settle()
        assert states(ledger) == ["charged"], "no address in a ledger is asked"
    dp.Ledger(ledger).settle(str(SHARED))
    assert (states(ledger), left(tmp_path)) == (["void" if at_target == "nothing" else "charged"], [])


@pytest.mark.usefixtures("store")
def test_a_killed_draw_to_a_store_is_void(ledger, tmp_path, monkeypatch):
    """Before the upload nothing left the disk, as with a release to a disk."""

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("labeldp.release.jobs._job.finish", stopped)
        patch.setattr("labeldp.release.jobs._release_table._drawn", stopped)
        with pytest.raises(KeyboardInterrupt):
            released(ledger)
    assert (states(ledger), left(tmp_path)) == (["void"], [])


@ANY_STORE
def test_a_file_that_changes_while_it_is_released_is_noticed(store):
    """By its entity tag, where the size is the same; a store without tags has the size and the time alone."""
    if store == "memory":
        pytest.skip("it has no entity tags")
    before = open_table(str(TABLE), "ill").stamp
    table = pa.table({"id": np.arange(ROWS), "ill": ["yes", "no"] * (ROWS // 2)})
    put(0, table)
    after = open_table(str(TABLE), "ill").stamp
    assert [name for name, *_ in before] == [name for name, *_ in after]
    assert before[0][1] == after[0][1]  # the size
    assert before[0] != after[0]
    assert before[1] == after[1]


@pytest.mark.usefixtures("store")
def test_objects_that_are_no_files_of_a_release_do_not_verify(ledger):
    """A name with a folder, or one that leads elsewhere, is never made a file here."""
    released(ledger)
    stores.write(SHARED / "more" / "x", b"x")
    with pytest.raises(VerificationError, match="files in one folder"):
        dp.verify(str(SHARED))


@pytest.mark.usefixtures("store")
def test_a_forged_file_in_a_store_does_not_verify(ledger):
    """The copy is compared with the certificate as any folder."""
    released(ledger)
    content = json.loads(stores.read(SHARED / "_certificate.json"))
    assert [file["name"] for file in content["table"]["files"]] == ["part-00000.parquet", "part-00001.parquet"]
    stores.write(SHARED / "part-00001.parquet", stores.read(SHARED / "part-00000.parquet"))
    assert not dp.verify(str(SHARED)).holds


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3://key:secret@bucket/t", "without credentials"),
        ("s3://key@bucket/t", "without credentials"),
        ("s3://bucket/t?access_key=secret", "without credentials"),
        ("abfs://c@account/t?sig=secret", "without credentials"),
        ("gs://user:secret@bucket/t", "without credentials"),
        ("s3://KEY:top/secret@bucket/t", "without credentials"),
        ("s3://KEY:top#secret@bucket/t", "without credentials"),
        ("s3://KEY:12/secret@bucket/t", "without credentials"),
        ("s3://KEY%3Asecret%40bucket/t", "without credentials"),
        ("abfs://account:secret/key==@c/t", "without credentials"),
        ("abfs://account:12/secret==@c/t", "without credentials"),
        ("s3://bucket/t?endpoint_override=http://user:secret@host", "without credentials"),
        ("s3://bucket/t?endpoint_override=http://user:secret%40host", "without credentials"),
        ("s3://bucket/t?region=eu;secret", "without credentials"),
        ("s3://bucket/../secret", "expected a folder or a file in a bucket"),
        ("s3://bucket", "expected a folder or a file in a bucket"),
        ("s3://bucket/../t", "expected a folder or a file in a bucket"),
        ("s3://bucket/t#x", "expected a folder or a file in a bucket"),
        ("http://host/t", "expected a path, or an address that begins with s3://"),
        ("http://host/t?x=1", "expected a path, or an address that begins with s3://"),
        ("http://host/t.csv", "found http://; write https://, or download the file, and name its path"),
        ("ftp://host/t.csv", "found ftp://; download the file, and name its path"),
        ("https://host/t.csv?X-Amz-Signature=secret", "without '@' and '?', found another; download the file"),
        ("https://user:secret@host/t.csv", "without '@' and '?', found another; download the file"),
        ("https://host", "expected a folder or a file in a bucket"),
        ("s3://KEY:secret\uff0f@bucket/t", "only looks like an address"),  # an error of the standard library
    ],
)
def test_an_address_that_is_none_is_refused(address, message):
    """And no password is repeated: addresses stand in ledgers and messages."""
    with pytest.raises(InputError) as found:
        place_of(address)
    assert message in str(found.value)
    assert "secret" not in str(found.value)
    assert "KEY" not in str(found.value)
    assert "account" not in str(found.value)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("table", [pa.table({"y": [1]}), {"y": [1]}, 3], ids=["Arrow", "mapping", "number"])
def test_a_table_in_memory_is_no_place(table):
    """The message says what to do: files and ledgers are found by paths."""
    with pytest.raises(InputError, match=f"found {type(table).__name__} in memory; save it to a private Parquet file"):
        place_of(table)


#: Spellings of an address with a password that are none, or of a store that is not read.
LOOKALIKES = [
    *("s3:/u:SECRET@b/t", " s3://u:SECRET@b/t", "\ts3://u:SECRET@b/t", "\ufeffs3://u:SECRET@b/t", "S3://u:SECRET@b/t"),
    *("S3:/u:SECRET@b/t", "s3:///u:SECRET@b/t", "s3:u:SECRET@b/t", "s3:\\\\u:SECRET@b\\t", "gs:/SECRET@b/t"),
    *("ABFSS:SECRET@b/t", "https://u:SECRET@h/t", "https:/u:SECRET@h/t", "ftp://u:SECRET@h/t"),
    *("hdfs://u:SECRET@h/t", "file://u:SECRET@h/t"),
    *("'s3://u:SECRET@b/t'", "see s3://u:SECRET@b/t", "u:SECRET@h/t", "//u:SECRET@h/t", "x s3:/u:SECRET@b/t"),
    *("s3://b/t?secret_key=SECRET", "s3://u:SECRET@b/t.parquet", "s3://[SECRET/t", "git+ssh:/u:SECRET@h/t"),
]


def shown_by(problem):
    """Everything that an error shows: its text, and that of every error behind it."""
    while problem is not None:
        yield repr(problem)
        problem = problem.__cause__ or problem.__context__


@pytest.mark.parametrize("address", LOOKALIKES)
@pytest.mark.parametrize("kind", [str, Path])
def test_what_looks_like_an_address_with_a_password_is_refused_everywhere(address, kind, tmp_path, monkeypatch):
    """By each door that takes a table, a folder or a file; and no error, nor one behind it, shows the password."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"ill": ["no", "yes"] * 20}), tmp_path / "t.parquet")
    labels = dp.Curator(["no", "yes"] * 20, SPACE).randomize(dp.RandomizedResponse(SPACE, epsilon=1.0))
    public, given = dp.make_key(tmp_path / "office")[1], kind(address)
    shared = labels.save(tmp_path / "shared")
    doors = [
        lambda: place_of(given),
        lambda: open_table(given, "ill"),
        lambda: dp.release_table(given, "ill", SPACE, 1.0, "o", keep=[]),
        lambda: dp.release_table("t.parquet", "ill", SPACE, 1.0, given, keep=[]),
        lambda: dp.release_table("t.parquet", "ill", SPACE, 1.0, "o", keep=[], ledger=given),
        lambda: check_table(given, "ill"),
        lambda: dp.verify(given),
        lambda: dp.verify(shared, public_key=given),
        lambda: dp.sign(given, tmp_path / "office"),
        lambda: dp.sign(shared, given),
        lambda: dp.make_key(given),
        lambda: dp.Release.load(given),
        lambda: labels.save(given),
        lambda: public_columns(given),
        lambda: dp.release_batches(given),
        lambda: dp.combined_guarantee([given]),
        lambda: audit_folder(given),
        lambda: open_model(given),
        lambda: open_generator(given),
        lambda: learn(given),
    ]
    for number, door in enumerate(doors):
        with pytest.raises(InputError) as found:
            door()
        assert not any("SECRET" in text for text in shown_by(found.value)), number
    assert sorted(path.name for path in tmp_path.iterdir()) == ["office", "office.pub", "shared", "t.parquet"]
    assert dp.verify(shared, public_key=public).holds is False


@pytest.mark.parametrize(
    "name", ["visits-2026-11-26T10:30:00.parquet", "a:b.parquet", "C:x.parquet", "2026:11.parquet"]
)
@pytest.mark.parametrize("where", ["file", "folder"])
def test_a_path_with_a_colon_is_a_path(name, where, tmp_path, monkeypatch):
    """It is read as it is named, from the folder that it is in and by its whole path, and so is what is made of it."""
    monkeypatch.chdir(tmp_path)
    path = Path(name) if where == "file" else Path("C:", "10:30", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"age": list(range(40)), "ill": ["no", "yes"] * 20}), path.absolute())
    for given in (path, str(path), path.absolute()):
        assert sum(batch.num_rows for batch in open_table(given, "ill").batches(["age"], 9)) == 40
    out = path.with_name("o:1")
    dp.release_table(path, "ill", SPACE, 1.0, out, keep=["age"])
    assert dp.verify(out).holds
    assert dp.verify(str(out.absolute())).holds
    assert public_columns(out).num_rows == len(dp.Release.load(out)) == 40


def test_an_address_where_a_path_must_be_is_not_repeated():
    """A release is saved to a disk, where ledgers are, too."""
    address = "s3://KEY:top/secret@bucket/t"
    labels = dp.Curator(["no", "yes"], SPACE).randomize(dp.RandomizedResponse(SPACE, epsilon=1.0))
    for wrong in (
        lambda: labels.save(address),
        lambda: dp.Curator(["no"], SPACE, ledger=address),
        lambda: dp.release_table("t.csv", "ill", SPACE, 1.0, "o", keep=[], ledger=address),
    ):
        with pytest.raises(InputError, match="expected a path on a disk, found an address") as found:
            wrong()
        assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket:9000/t",
        "abfs://container@account.dfs.core.windows.net/t",
        "s3://bucket/t?region=eu-central-1&scheme=http&endpoint_override=http://127.0.0.1:9000&anonymous=true",
        "gs://bucket/t?scheme=http&endpoint_override=127.0.0.1:9000&retry_limit_seconds=5&anonymous=true",
        "abfs://c@account.dfs.core.windows.net/t?blob_storage_authority=127.0.0.1:9000&credential_kind=cli",
    ],
)
def test_ports_containers_and_endpoints_are_no_passwords(address):
    """They stay, and are printed as they were written."""
    assert str(place_of(address)) == address


@pytest.mark.parametrize(
    ("address", "known"),
    [
        ("gs://bucket/t?region=eu", "anonymous, endpoint_override, retry_limit_seconds, scheme alone"),
        ("s3://bucket/t?credential_kind=cli", "anonymous, endpoint_override, region, scheme alone"),
        ("abfs://account@c/t?client_secret=x", "credential_kind, dfs_storage_authority, enable_tls alone"),
    ],
)
def test_the_options_of_another_store_are_refused(address, known):
    """Arrow would refuse them later, with the address in its message."""
    with pytest.raises(InputError, match=known):
        place_of(address)


def test_anonymous_addresses_ask_for_no_credentials():
    """The option is the same for all stores, and gives each its own form of it."""
    system, key = place_of("s3://bucket/t?region=eu-west-1&anonymous=true")._at()
    assert (system, key) == (fs.S3FileSystem(anonymous=True, region="eu-west-1"), "bucket/t")
    assert system != fs.S3FileSystem(anonymous=True, region="eu-west-2")
    for address, written in (
        ("gs://bucket/t?anonymous=true", "gs://anonymous@bucket/?retry_limit_seconds=60"),
        ("gs://bucket/t?retry_limit_seconds=5&anonymous=true", "gs://anonymous@bucket/?retry_limit_seconds=5"),
        ("abfs://account@c/t?anonymous=true", "abfs://account@c/?credential_kind=anonymous"),
    ):
        system, key = place_of(address)._at()
        assert (system, key) == (fs.FileSystem.from_uri(written)[0], f"{place_of(address).root.split('@')[-1]}/t")


@pytest.mark.parametrize(
    ("about", "stamp"), [({"ETag": "t"}, "t"), ({b"etag": b"t"}, b"t"), ({b"size": b"3"}, 7), (None, 7)]
)
def test_an_entity_tag_is_known_however_a_store_spells_it(monkeypatch, about, stamp):
    """Google's, Amazon's and Azure's differ in case, and some have none: then the time counts."""
    file = SimpleNamespace(size=lambda: 3, metadata=lambda: about)
    monkeypatch.setattr(StorePath, "opened", lambda _: contextlib.nullcontext(file))
    monkeypatch.setattr(StorePath, "_info", lambda _: SimpleNamespace(mtime_ns=7))
    assert SHARED.stamp() == (3, stamp)


def test_a_store_of_google_is_found_by_its_address(monkeypatch):
    """Written, listed and read by an address with its options; a file that was replaced has another stamp."""
    server = stores.google(monkeypatch)
    monkeypatch.undo()
    table = place_of(f"gs://bucket/data?scheme=http&endpoint_override={server.address}&anonymous=true")
    stores.write(table / "part-0.csv", b"a,b\n1,2\n")
    assert (stores.names(table), stores.read(table / "part-0.csv")) == (["part-0.csv"], b"a,b\n1,2\n")
    before = (table / "part-0.csv").stamp()
    assert before == (table / "part-0.csv").stamp()
    assert isinstance(before[1], str | bytes), "its entity tag, not its time"
    stores.write(table / "part-0.csv", b"a,b\n1,3\n")
    assert (table / "part-0.csv").stamp() != before
    server.stop()


@pytest.mark.usefixtures("store")
def test_objects_whose_names_are_no_paths_are_not_passed_over(ledger):
    """A release with one does not verify, and a table with one is refused: its rows would be left out."""
    for number, name in enumerate(["/odd", "sub//odd", "..", "./_signature.json", "../odd"]):
        place = TABLE.parent / f"t{number}"
        stores.write(place / "part-0.parquet", stores.read(TABLE / "month=0" / "part-0.parquet"))
        stores.put_object(f"data/t{number}/{name}", b"odd")
        with pytest.raises(VerificationError, match="expected a release of files in one folder"):
            dp.verify(str(place))
        with pytest.raises(OutputError, match="exists already, and nothing is written into it"):
            released(ledger, output=place)
        with pytest.raises(InputError, match="whose names are paths, found 1 others") as found:
            open_table(str(place), "ill")
        assert name in str(found.value)


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("s3://bucket/%64ata/%74?region=eu-central-1", "bucket/%64ata/%74"),
        ("gs://bucket/%64ata/%74", "bucket/%64ata/%74"),
        ("abfs://account@container/%64ata/%74", "container/%64ata/%74"),
        ("abfs://account.blob.core.windows.net/container/%74", "container/%74"),
    ],
)
def test_no_name_of_an_address_is_decoded(address, key):
    """Else another spelling of the table's own folder would not be known for it."""
    assert place_of(address)._at()[1] == key


@ANY_STORE
@pytest.mark.usefixtures("store")
def test_a_target_is_free_again_after_a_failure(ledger, monkeypatch):
    """Arrow leaves an empty object of its name where a file was removed."""
    with monkeypatch.context() as patch:
        failing(patch, "part-00001.parquet", OSError())
        with pytest.raises(OutputError):
            released(ledger)
    released(ledger, budget=2.0)
    assert dp.verify(str(SHARED)).holds


@pytest.mark.usefixtures("store")
def test_a_new_ledger_of_a_table_in_a_store_is_remarked(ledger, tmp_path, monkeypatch):
    """Charges elsewhere do not count, and nobody can look for them; a check looks in the current folder."""
    (remark,) = (each for each in released(ledger, output=tmp_path / "one").remarks if "ledger" in each)
    assert f"the ledger {ledger} is new: charges for these rows in ledgers of other folders do not count" in remark
    assert not any("ledger" in each for each in released(ledger, output=tmp_path / "two", budget=2.0).remarks)
    monkeypatch.chdir(tmp_path)
    found = check_table(str(TABLE), "ill")
    assert [each.entry.output for each in found.earlier] == [str(tmp_path / "one"), str(tmp_path / "two")]
    assert shlex.join(["--ledger", str(tmp_path / "visits.labeldp-ledger")]) in release_command(found)


@pytest.mark.usefixtures("store")
def test_a_label_that_a_release_in_a_store_kept_is_remarked(ledger, tmp_path):
    """The ledger knows its public columns; and a refusal names the addresses as they are typed."""
    labels = ["no", "yes"] * ROWS
    stores.write(
        TABLE.parent / "t.csv", "\n".join(["id,ill,old", *(f"{i},{x},{x}" for i, x in enumerate(labels))]).encode()
    )
    released(ledger, TABLE.parent / "t.csv", keep=["id", "old"])
    place, old = str(TABLE.parent / "t.csv"), {"keep": ["id"], "ledger": ledger, "budget": 2.0}
    found = dp.release_table(place, "old", SPACE, 1.0, tmp_path / "o", **old)
    left = f"the label 'old' was a public column of the release in {SHARED}: its true values left with it"
    assert left in found.remarks
    with pytest.raises(BudgetError, match=rf"from {place} into {SHARED} "):
        released(ledger, place, tmp_path / "more", keep=["id"])


@pytest.mark.usefixtures("store")
def test_audits_take_addresses(ledger, tmp_path, monkeypatch):
    """Each release is copied once, so that its columns and labels belong together."""
    released(ledger, output=tmp_path / "one")
    released(ledger, budget=2.0)
    assert audit_folder(str(SHARED), [tmp_path / "one"]).holds
    assert audit_folder(tmp_path / "one", [str(SHARED)]).holds
    names, listed = StorePath.names, []
    monkeypatch.setattr(StorePath, "names", lambda self: listed.append(self) or names(self))
    table, labels, _ = some_rows(str(SHARED), 10)
    assert listed == [SHARED]
    assert len(some_rows(str(SHARED), 2 * ROWS).release) == 2 * ROWS
    assert listed == [SHARED] * 2
    assert (table.num_rows, len(labels)) == (10, 10)


@pytest.mark.usefixtures("store")
def test_a_store_without_the_table_says_so():
    """With what to do."""
    for address, what in ((TABLE.parent / "none", TableError), (SHARED / "none", InputError)):
        with pytest.raises(what, match="there is no"):
            open_table(str(address), "ill") if what is TableError else dp.Release.load(str(address))


def test_a_path_survives_its_way_to_a_worker():
    """It is its address alone."""
    path = StorePath.of("s3://bucket/a//b/?region=eu-central-1")
    assert (str(path), path.name) == ("s3://bucket/a/b?region=eu-central-1", "b")
    assert str(path.parent) == "s3://bucket/a?region=eu-central-1"
    assert place_of(str(path)) == path
    assert place_of("s3/x") == Path("s3/x")
