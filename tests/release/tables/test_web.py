"""Tables on web servers: single files that are fetched once, and read as those on a disk."""

import gzip
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as dp
import labeldp.release.tables._web as module
from labeldp.errors import EngineError, InputError, OutputError, TableError
from labeldp.release import check_table, public_columns
from labeldp.release.engines import open_engine
from labeldp.release.tables import StorePath, open_table, place_of

sys.path.insert(0, str(Path(__file__).parents[1]))
import web

SPACE, ROWS = dp.Classes(["no", "yes"]), 60
TABLE = pa.table(
    {"age": [row % 17 + 0.5 for row in range(ROWS)], "ill": [SPACE.points[row % 2] for row in range(ROWS)]}
)
CSV = ("age,ill\n" + "".join(f"{age},{ill}\n" for age, ill in zip(*TABLE.to_pydict().values(), strict=True))).encode()
REDIRECT = {"Content-Length": 0}


def written(write, table=TABLE):
    """The bytes of a table in a format."""
    write(table, file := io.BytesIO())
    return file.getvalue()


def arrow(table, file):
    """Write a table as Arrow does."""
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


FILES = {
    "t.parquet": written(lambda table, file: pq.write_table(table, file, row_group_size=7)),
    "t.csv": CSV,
    "t.csv.gz": gzip.compress(CSV),
    "t.feather": written(arrow),
    "t.jsonl": TABLE.to_pandas().to_json(orient="records", lines=True).encode(),
}


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server with each file, whose certificate is trusted."""
    found = web.serving(monkeypatch, tmp_path)
    found.answers |= FILES
    yield found
    found.stop()


def released(source, output, **options):
    """A release of a table, whose ledger lies in a folder of its own."""
    if "ledger" not in options:
        options["ledger"] = output.parent / "ledgers" / "l.labeldp-ledger"
        options["ledger"].parent.mkdir(exist_ok=True)
    return dp.release_table(source, "ill", SPACE, 1.0, output, keep=["age"], **options)


@pytest.mark.parametrize("name", FILES)
def test_a_table_on_a_web_server_is_released_as_one_on_a_disk(server, tmp_path, temporary, name):
    """With the same public columns, from one request for check and another for the release; nothing is left."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / name).write_bytes(FILES[name])
    released(tmp_path / "disk" / name, tmp_path / "disk" / "o", ledger=tmp_path / "disk" / "l", unit="row")
    assert check_table(server.address(name), "ill").rows == ROWS
    done = released(server.address(name), tmp_path / "o", unit="row")
    assert dp.verify(done.output).holds
    assert public_columns(done.output).equals(public_columns(tmp_path / "disk" / "o"))
    assert server.asked == [f"/{name}"] * 2
    assert list(temporary.iterdir()) == []


def test_what_is_checked_is_what_is_released(server, tmp_path):
    """A server that gives other rows each time is asked once."""
    server.answers["t.csv"] = lambda handler: handler.say(
        200, CSV if len(server.asked) == 1 else b"", {"Content-Length": len(CSV)}
    )
    path = place_of(server.address("t.csv"))
    assert check_table(path, "ill").rows == ROWS
    assert released(path, tmp_path / "o", unit="row").certificate.rows == ROWS
    assert server.asked == ["/t.csv"]


def test_the_ledger_knows_the_table_by_its_address(server, tmp_path):
    """In one spelling; the same rows from a disk are charged with it, and so is the address once more."""
    address = server.address("t.parquet")
    released(address.replace("https", "HTTPS"), tmp_path / "o", unit="row")
    (entry,) = dp.Ledger(tmp_path / "ledgers" / "l.labeldp-ledger").entries()
    assert entry.table == address
    (tmp_path / "t.parquet").write_bytes(FILES["t.parquet"])
    assert released(tmp_path / "t.parquet", tmp_path / "p", unit="row", budget=2.0).spent[0] == 2.0
    assert released(address, tmp_path / "q", unit="row", budget=3.0).spent[0] == 3.0
    assert str(place_of("https://HOST/T.csv")) == "https://host/T.csv"


def test_the_proxy_of_the_environment_is_asked(server, monkeypatch):
    """Here one that does not listen."""
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with pytest.raises(InputError, match="did not answer, or broke off"):
        open_table(server.address("t.csv"), "ill")
    assert server.asked == []


def test_the_progress_of_a_fetch_is_reported(server, monkeypatch):
    """In bytes, of all where the server says how many; a second time there is nothing to fetch."""
    monkeypatch.setattr(module, "_BLOCK", 500)
    path, reports, size = place_of(server.address("t.csv")), [], len(CSV)
    for _ in range(2):
        path.fetch(lambda *report: reports.append(report))
    assert reports == [("fetch", done, size) for done in (*range(0, size, 500), size)]
    place_of("s3://bucket/t").fetch(lambda *report: reports.append(report))


def test_names_with_spaces_and_other_letters_are_asked_for_as_a_browser_does(server):
    """What is encoded in the address stays so."""
    server.answers["a%20b/%C3%BC.csv"] = CSV
    for name in ("a b/ü.csv", "a%20b/%C3%BC.csv"):
        assert open_table(server.address(name), "ill").schema.names == ["age", "ill"]


def chunked(handler):
    """Answer with a body in chunks, without its size."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (CSV[:100], CSV[100:])) + b"0\r\n\r\n"
    handler.say(200, body, {"Transfer-Encoding": "chunked"})


def test_other_answers_are_read_too(server):
    """In chunks; after a redirect to https; packed as its name says, whatever the server calls that."""
    server.answers["c.csv"] = chunked
    server.answers["r.csv"] = lambda handler: handler.say(302, b"", {"Location": "/t.csv?sig=secret", **REDIRECT})
    server.answers["t.csv?sig=secret"] = CSV
    packed = {"Content-Length": len(FILES["t.csv.gz"]), "Content-Encoding": "gzip"}
    server.answers["p.csv.gz"] = lambda handler: handler.say(200, FILES["t.csv.gz"], packed)
    for name in ("c.csv", "r.csv", "p.csv.gz"):
        table = open_table(server.address(name), "ill")
        assert sum(batch.num_rows for batch in table.batches(["age"], 100)) == ROWS
        assert str(table.path) == server.address(name)


def endless(handler):
    """Answer with chunks until the reader goes away."""
    handler.say(200, b"", {"Transfer-Encoding": "chunked"})
    while True:
        handler.wfile.write(b"10000\r\n%b\r\n" % (b"secret\n" * 10000)[:65536])


def endless_redirect(handler):
    """Redirect with a body without an end."""
    handler.say(302, b"", {"Location": "/t.csv", "Transfer-Encoding": "chunked"})
    while True:
        handler.wfile.write(b"10000\r\n%b\r\n" % bytes(65536))


def saying(code, body, **headers):
    """A function that gives an answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.say(code, body, named)


REFUSED = {
    "cut": (saying(200, b"age,ill\n1,secret\n", Content_Length=1000), "broke off after 17 of 1,000 bytes; try again"),
    "cut chunks": (saying(200, b"100\r\nsecret", Transfer_Encoding="chunked"), "did not answer, or broke off"),
    "without an end": (endless, "more than the 1,000,000 bytes that a copy of it may have"),
    "large": (saying(200, b"secret", Content_Length=1 << 50), "more than the 1,000,000 bytes"),
    "of unknown size": (saying(200, b"secret"), "does not say where the file ends"),
    "of two sizes": (saying(200, b"secret", Content_Length="6, 7"), "does not say where the file ends"),
    "a part": (saying(206, b"secret", Content_Length=6), "the server answered 206; download"),
    "packed": (saying(200, b"secret", Content_Length=6, Content_Encoding="gzip"), "packed it on its way"),
    "gone": (None, "there is no such file; check the address"),
    "forbidden": (saying(403, b"secret", Content_Length=6), "may not be read without credentials"),
    "for users": (saying(401, b"secret", Content_Length=6), "may not be read without credentials"),
    "failing": (saying(503, b"secret", Content_Length=6), "the server answered 503; try again later"),
    "to http": (saying(302, b"", Location="http://127.0.0.1:9/secret", **REDIRECT), "leads to an address that is not"),
    "to ftp": (saying(302, b"", Location="ftp://127.0.0.1:9/secret", **REDIRECT), "leads to an address that is not"),
    "to a file": (saying(302, b"", Location="file:///secret", **REDIRECT), "the server answered 302"),
    "to itself": (saying(302, b"", Location="/to-itself.csv", **REDIRECT), "the server answered 302"),
    "no answer": (lambda handler: handler.wfile.write(b"secret"), "did not answer, or broke off"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_answers_are_refused(server, tmp_path, temporary, monkeypatch, case):
    """With a reason of ours, which quotes neither a body nor another address, and with nothing left or charged."""
    monkeypatch.setattr(module, "_LARGEST", 1_000_000)
    name = f"{case.replace(' ', '-')}.csv"
    server.answers[name], message = REFUSED[case]
    with pytest.raises(InputError, match=message) as found:
        released(server.address(name), tmp_path / "o", unit="row")
    assert server.address(name) in str(found.value)
    assert "secret" not in str(found.value)
    assert found.value.__cause__ is found.value.__context__ is None
    assert (list(temporary.iterdir()), list((tmp_path / "ledgers").iterdir())) == ([], [])


def test_a_body_after_a_redirect_is_not_read(server):
    """It may have no end."""
    server.answers["r.csv"] = endless_redirect
    assert open_table(server.address("r.csv"), "ill").schema.names == ["age", "ill"]


def test_what_follows_the_body_is_not_read(server):
    """A server that sends more than it said has said where the file ends."""
    server.answers["m.csv"] = saying(200, CSV + b"1,secret\n", Content_Length=len(CSV))
    table = open_table(server.address("m.csv"), "ill")
    assert sum(batch.num_rows for batch in table.batches(["age"], 100)) == ROWS


def test_a_server_that_nobody_vouches_for_is_refused(server, monkeypatch):
    """Its certificate is checked by the authorities that the machine trusts."""
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(InputError, match="its certificate is not one that this machine trusts"):
        open_table(server.address("t.csv"), "ill")
    assert server.asked == []
    monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
    with pytest.raises(InputError, match="its certificate is not one that this machine trusts"):
        open_table(server.address("t.csv").replace("127.0.0.1", "localhost"), "ill")


def test_a_full_disk_is_named(server, temporary, monkeypatch):
    """And the variable that names another."""
    del temporary

    def full(*_, **__):
        raise OSError(28, "secret")

    monkeypatch.setattr(module.tempfile, "TemporaryFile", full)
    with pytest.raises(InputError, match=r"there is no space for a copy of it in .*; set TMPDIR"):
        open_table(server.address("t.csv"), "ill")


def test_broken_files_are_refused_as_on_a_disk(server):
    """The network is no reason, and nothing is quoted."""
    server.answers |= {"b.parquet": b"secret", "b.csv.gz": b"secret", "e.csv": b""}
    for name in ("b.parquet", "b.csv.gz", "e.csv"):
        with pytest.raises(TableError, match=r"cannot be read: it is") as found:
            open_table(server.address(name), "ill")
        assert "secret" not in str(found.value)


def test_nothing_is_written_to_a_web_server(server, tmp_path):
    """An output there is refused before anything is drawn or charged, and nothing is asked."""
    with pytest.raises(OutputError, match="nothing is written to a web server; name a folder on a disk"):
        released(server.address("t.csv"), StorePath.of(server.address("o")), ledger=tmp_path / "l", unit="row")
    assert server.asked == ["/t.csv"]
    assert not (tmp_path / "l").exists()


def test_a_folder_is_not_listed(server):
    """Neither of a release, nor of a table; nothing is asked."""
    for read in (dp.verify, dp.Release.load, public_columns):
        with pytest.raises(InputError, match="of a web server single files are read alone; download the folder"):
            read(server.address("shared"))
    assert server.asked == []


def test_other_processes_are_not_given_the_copy(server, tmp_path):
    """They would fetch another one, which may differ; nothing is charged."""
    refused = pytest.raises(EngineError, match="of which this process alone has a copy; release without an engine")
    with open_engine("processes:1") as engine, refused:
        released(server.address("t.csv"), tmp_path / "o", unit="row", executor=engine)
    assert list((tmp_path / "ledgers").iterdir()) == []
    path = place_of(server.address("t.csv"))
    assert pickle.dumps(path)
    path.is_file()
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(path)


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_no_copy(server, temporary, name):
    """The copy has no name from its first byte on."""
    hold = "import sys; from labeldp.release.tables import place_of; table = place_of(sys.argv[1]); "
    hold += "table.is_file(); print(1, flush=True); input()"
    given = {"env": os.environ | {"TMPDIR": str(temporary)}, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", hold, server.address("t.csv")], **given) as process:
        assert process.stdout.readline() == b"1\n"
        process.send_signal(name)
    assert process.returncode == -name
    assert list(temporary.iterdir()) == []
