"""Commands for tables and releases in object stores."""

import io
import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import verify
from labeldp.release.tables import StorePath

sys.path.insert(0, str(Path(__file__).parents[1] / "release"))
import stores
import web

TABLE, SHARED = f"{stores.BUCKET}/visits", f"{stores.BUCKET}/shared"
ROWS = 600


def fill(secrets):
    """Write a table of two files."""
    for part in range(2):
        rows = np.arange(ROWS * part, ROWS * part + ROWS)
        table = pa.table({"z": rows % 7, "w": (rows * rows) % 11 + 0.5, "y": [secrets[i % 3] for i in rows]})
        file = io.BytesIO()
        pq.write_table(table, file)
        stores.write(StorePath.of(TABLE) / f"{part}.parquet", file.getvalue())


def test_a_release_in_a_store_is_signed_and_gets_a_card(release, run, monkeypatch, tmp_path, secrets):
    """Both lie beside its files, verify, and are left alone by a second card; another README is refused."""
    stores.in_memory(monkeypatch)
    fill(secrets)
    run("key", tmp_path / "office")
    done = release(TABLE, SHARED, ledger=tmp_path / "l", unit="row", sign=tmp_path / "office")
    assert done.code == 0, done.err
    assert run("verify", SHARED, "--public-key", tmp_path / "office.pub").code == 0
    for _ in range(2):
        done = run("card", SHARED)
        assert done.code == 0, done.err
        assert done.out.splitlines()[0] == f"{SHARED}/README.md: follows from the certificate"
    beside = ["README.md", "_README.txt", "_certificate.json", "_signature.json", "croissant.json"]
    assert stores.names(StorePath.of(SHARED)) == [*beside, "part-00000.parquet", "part-00001.parquet"]
    assert run("verify", SHARED, "--public-key", tmp_path / "office.pub").code == 0
    done = release(TABLE, f"{SHARED}2", ledger=tmp_path / "l", unit="row", budget=2)
    stores.write(StorePath.of(f"{SHARED}2") / "README.md", b"mine")
    assert run("card", f"{SHARED}2").code == 1
    assert "croissant.json" not in stores.names(StorePath.of(f"{SHARED}2"))


def test_a_release_is_read_by_its_address(release, run, monkeypatch, tmp_path, secrets):
    """By each command that takes one; what is printed can be typed, and no copy on the disk is named."""
    stores.in_memory(monkeypatch)
    fill(secrets)
    monkeypatch.chdir(tmp_path)
    checked = json.loads(run("check", TABLE, "--label", "y", "--json").out)
    assert shlex.join(["--ledger", str(tmp_path / "visits.labeldp-ledger")]) in checked["command"]
    for output in (SHARED, f"{SHARED}2"):
        done = release(TABLE, output, ledger=tmp_path / "l.labeldp-ledger", unit="row", budget=2)
        assert done.code == 0, done.err
        assert f"labeldp verify {output}" in done.out
    model, page, truth = tmp_path / "m.safetensors", tmp_path / "r.html", (TABLE, "--label", "y", "--labels-are-public")
    for typed in (
        ("audit", SHARED, "--against", f"{SHARED}2"),
        ("learn", SHARED, "--model", "softmax", "--output", model),
        ("evaluate", model, *truth),
        ("report", SHARED, "--output", page),
        ("account", SHARED, f"{SHARED}2"),
        ("plan", "--from", SHARED, "--epsilon", "1"),
    ):
        done = run(*typed)
        assert done.code == 0, done.err
        assert "labeldp-" not in done.out.replace(str(tmp_path), "")
    assert "expected rows that the model was not fitted on" in run("evaluate", model, SHARED, "--released").err
    assert "labeldp-" not in page.read_text().replace("labeldp-ledger", "").replace("labeldp-r", "")


def test_stages_and_generators_take_addresses(release, run, monkeypatch, tmp_path, secrets):
    """Tables and releases are read from a store and written to one; models and generators are files on a disk."""
    stores.in_memory(monkeypatch)
    fill(secrets)
    declared = ["--label", "y", "--classes", ",".join(secrets)]
    staged = [TABLE, *declared, "--epsilon", "3", "--keep", "all", "--unit", "row", "--output", SHARED]
    staged += ["--ledger", tmp_path / "l"]
    done = run("stages", *staged)
    assert "expected --model-file, a file on a disk, with an output at s3://bucket/shared" in done.err
    assert not (tmp_path / "l").exists()
    done = run("stages", *staged, "--model-file", tmp_path / "m.safetensors")
    assert done.code == 0, done.err
    assert run("verify", SHARED).code == 0
    assert (tmp_path / "m.safetensors").exists()
    options = ["--keep", "z", "--model", "cells", "--source", "a store", "--output"]
    public = run("generator", TABLE, *declared, "--labels-are-public", *options, tmp_path / "public")
    assert public.code == 0, public.err
    release(TABLE, f"{SHARED}2", ledger=tmp_path / "l", unit="row", budget=9)
    paid = run("generator", f"{SHARED}2", *options, tmp_path / "paid")
    assert paid.code == 0, paid.err
    assert (tmp_path / "paid").exists()


def test_commands_read_a_table_from_a_web_server(run, monkeypatch, tmp_path, secrets):
    """Each that reads a table fetches it once; what `check` prints can be typed."""
    server = web.serving(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    rows = np.arange(ROWS)
    table = pa.table({"z": rows % 7, "w": (rows * rows) % 11 + 0.5, "y": [secrets[i % 3] for i in rows]})
    pq.write_table(table, file := io.BytesIO())
    server.answers["visits.parquet"] = file.getvalue()
    address, options = server.address("visits.parquet"), ["--label", "y"]
    public = ["--classes", ",".join(secrets), "--labels-are-public", "--keep", "z", "--model", "cells", "--source", "a"]
    done = run("generator", address, *options, *public, "--output", tmp_path / "g")
    assert done.code == 0, done.err
    checked = json.loads(run("check", address, *options, "--json").out)
    assert shlex.join(["--ledger", str(tmp_path / "visits.parquet.labeldp-ledger")]) in checked["command"]
    typed = re.sub(r"(--classes) \S+", rf"\1 {','.join(secrets)}", checked["command"]).replace("EPSILON", "1")
    done = run(*shlex.split(typed)[1:])
    assert done.code == 0, done.err
    assert run("plan", address, *options, "--classes", "3", "--epsilon", "1").code == 0
    assert run("verify", "shared").code == 0
    assert run("learn", "shared", "--model", "softmax", "--output", tmp_path / "m.safetensors").code == 0
    assert run("predict", tmp_path / "m.safetensors", address, "--output", tmp_path / "p.csv").code == 0
    assert run("evaluate", tmp_path / "m.safetensors", address, *options, "--labels-are-public").code == 0
    assert server.asked == ["/visits.parquet"] * 6
    done = run("plan", address, *options, "--classes", ",".join(secrets), "--buy", "1", "--ledger", "l")
    assert "nothing is written to a web server; name a folder on a disk" in done.err
    server.stop()


REFUSED = [
    ("verify", "s3://KEY:top/secret@bucket/shared"),
    ("release", "s3://KEY:top#secret@bucket/t", "--label", "y", "--output", "o"),
    ("learn", "shared", "--output", "s3://KEY:top/secret@bucket/m.safetensors"),
    ("ledger", "s3://KEY:top/secret@bucket/l"),
    ("report", "s3://KEY:secret@bucket/t", "--output", "r.html"),
    ("audit", "s3://bucket/t", "--against", "s3://KEY:top/secret@bucket/t"),
    ("evaluate", "s3://KEY:top/secret@bucket/m", "t.csv", "--released"),
    ("check", "s3:/KEY:secret@bucket/t"),
    ("plan", " s3://KEY:secret@bucket/t", "--epsilon", "1"),
    ("verify", "S3:KEY:secret@bucket/t"),
    ("predict", "KEY:secret@host/m", "t.csv", "--output", "p.csv"),
    ("card", "https:/KEY:secret@host/t"),
    ("account", "x s3://KEY:secret@bucket/t"),
    ("release", *shlex.split("t.csv --label y --classes @s3:/KEY:secret@bucket/c.txt --epsilon 1 --output o")),
]


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: words[0])
def test_no_message_repeats_a_password(run, words):
    """Neither where an address is refused, nor where there can only be a path on a disk."""
    done = run(*words)
    assert done.code in (1, 2)
    assert re.search("expected a|there is no", done.err)
    assert "secret" not in done.err + done.out
    assert "KEY" not in done.err + done.out


def test_processes_read_a_table_from_a_store(release, monkeypatch, tmp_path, secrets):
    """Each opens its own connection; the staging folder beside the ledger is what they share."""
    server = stores.serving(monkeypatch)
    try:
        fill(secrets)
        done = release(TABLE, SHARED, ledger=tmp_path / "l", engine="processes:1", unit="row")
        assert done.code == 0, done.err
        assert verify(SHARED).holds
    finally:
        server.stop()


@pytest.mark.parametrize("command", ["verify", "audit", "learn", "report"])
def test_a_store_without_the_release_says_so(run, monkeypatch, tmp_path, command):
    """One line, without a traceback."""
    stores.in_memory(monkeypatch)
    options = {"learn": ["--output", tmp_path / "m.safetensors"], "report": ["--output", tmp_path / "r.html"]}
    done = run(command, f"{stores.BUCKET}/none", *options.get(command, []))
    assert done.code in (1, 2)
    assert re.search("there is (nothing at|no folder) s3://bucket/none", done.err)
    assert "Traceback" not in done.err
