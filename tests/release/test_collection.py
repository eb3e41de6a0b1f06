"""Reports of devices are kept, each token's once, and nothing of strangers is believed."""

import asyncio
import dataclasses
import importlib.util
import json
import os
import shutil
import signal
import sqlite3
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import BitResponse, Classes, Declaration, Ledger, RandomizedResponse, Release, SubsetResponse, verify
from labeldp.cli import main
from labeldp.errors import InputError, LedgerError, VerificationError
from labeldp.learning.inference import coefficients
from labeldp.release import public_columns
from labeldp.release.collection import MOST_BYTES, Collection, Endpoint, columns_of, read_report
from labeldp.release.jobs import release_reports

SPACE = Classes(["no", "yes", "maybe"])
TOKEN = "ab" * 16
ROOT = Path(__file__).parents[2]


def declaration(kind=RandomizedResponse, space=SPACE):
    """How devices of these tests randomize."""
    return Declaration("answer", kind(space, 1.0), "survey 2026")


def line(how, **parts):
    """A report as a device sends it."""
    body = {"declaration": how.name, "token": TOKEN, "report": "yes", "public": {"age": 30}} | parts
    return json.dumps({name: value for name, value in body.items() if value is not None}).encode()


COLUMNS = columns_of("age:number")


@pytest.fixture
def box(tmp_path):
    """A collection with one public column."""
    return Collection.begin(tmp_path / "box", declaration(), COLUMNS)


def add(box, **parts):
    """What becomes of one report."""
    return box.add([read_report(line(box.declaration, **parts), box.declaration, box.columns)])[0]


@pytest.mark.parametrize(
    "parts",
    [
        {"declaration": "0" * 32},
        {"declaration": None},
        {"token": "short"},
        {"token": 7},
        {"token": "x" * 300},
        {"token": "\ud800" * 20},
        {"report": "other"},
        {"report": True},
        {"report": ["yes"]},
        {"report": None},
        {"public": {}},
        {"public": {"age": 30, "name": "A"}},
        {"public": {"age": "30"}},
        {"public": {"age": True}},
        {"public": {"age": 1e300}},
        {"public": []},
        {"more": 1},
    ],
)
def test_what_is_no_report_is_refused(parts):
    """Of another declaration, without a token, impossible, or with other columns."""
    how = declaration()
    with pytest.raises(InputError):
        read_report(line(how, **parts), how, COLUMNS)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff",
        b"[" * 5000,
        b'{"token": 1, "token": 2}',
        b"1" * 5000,
        b"x" * (MOST_BYTES + 1),
    ],
)
def test_hostile_bytes_are_refused(content):
    """Too long, nested, twice or no text at all: one plain error, which repeats nothing."""
    with pytest.raises(InputError) as raised:
        read_report(content, declaration(), COLUMNS)
    assert len(str(raised.value)) < 100


def test_values_of_another_type_are_other_values():
    """In JSON, true is not 1 and "1" is not 1."""
    how = declaration(space=Classes([0, 1]))
    assert read_report(line(how, report=1), how, COLUMNS)
    for value in (True, "1", 1.0, 2):
        with pytest.raises(InputError, match="cannot give"):
            read_report(line(how, report=value), how, COLUMNS)


@pytest.mark.parametrize(("kind", "right"), [(SubsetResponse, ["no"]), (BitResponse, ["no", "maybe"])])
def test_sets_are_in_declared_order_and_of_the_right_size(kind, right):
    """A set that the mechanism cannot release is refused on arrival."""
    how = declaration(kind)
    assert read_report(line(how, report=right), how, COLUMNS)
    for wrong in (["yes", "no"], ["no", "no"], ["other"], "no", [["no"]]):
        with pytest.raises(InputError, match="cannot give"):
            read_report(line(how, report=wrong), how, COLUMNS)


def test_a_token_has_one_report(box, tmp_path):
    """The first stays, the same again is known, and neither token nor time nor order is in the file."""
    assert [add(box), add(box), add(box, report="no"), add(box, public={"age": 31})] == ["kept", "known"] + [
        "another"
    ] * 2
    assert len(box) == 1
    assert TOKEN.encode() not in (tmp_path / "box").read_bytes()
    assert (tmp_path / "box").stat().st_mode & 0o077 == 0
    with pytest.raises(sqlite3.DatabaseError, match="only grows"):
        box._database.execute("DELETE FROM reports")


def test_two_that_begin_one_collection_are_told(box, monkeypatch):
    """The second finds no file yet, and then what the first has written, which stays."""
    before = box.digest
    monkeypatch.setattr("labeldp.release.collection._collection.check_new_file", lambda *_: None)
    with pytest.raises(LedgerError, match="another process has just begun one"):
        Collection.begin(box.path, box.declaration, box.columns)
    assert (box.digest, Collection(box.path).declaration.name) == (before, box.declaration.name)


def test_the_label_is_no_public_column_in_another_spelling(box, tmp_path):
    """A device that reports the true label beside the randomized one would send it in the clear."""
    with pytest.raises(InputError, match="the label is the report, and no public column"):
        Collection.begin(tmp_path / "other", box.declaration, {box.declaration.label.upper(): "text"})


@pytest.mark.parametrize("name", ["answer_released", "answer_groups", "row"])
def test_a_column_that_could_never_be_released_is_refused_at_once(box, tmp_path, name):
    """Not when all reports have come."""
    with pytest.raises(InputError, match=f"no public column named '{name}'"):
        Collection.begin(tmp_path / "other", box.declaration, {"age": "number", name: "text"})
    assert not (tmp_path / "other").exists()


def test_a_failed_batch_leaves_nothing(box, monkeypatch):
    """All reports of a batch are kept, or none."""
    added, calls = Collection._added, []

    def full(self, database, report):
        calls.append(report)
        if len(calls) == 3:
            raise sqlite3.OperationalError("database or disk is full")
        return added(self, database, report)

    monkeypatch.setattr(Collection, "_added", full)
    reports = [read_report(line(box.declaration, token=TOKEN + str(i)), box.declaration, COLUMNS) for i in range(3)]
    with pytest.raises(LedgerError, match="full disk"):
        box.add(reports)
    assert len(box) == 0
    assert box.add(reports) == ["kept"] * 3


@pytest.mark.parametrize("damage", ["text", "empty", "schema"])
def test_another_file_is_no_collection(box, tmp_path, damage):
    """A text, an empty file, and a database with a trigger of somebody else."""
    path = tmp_path / "box"
    if damage == "schema":
        box._database.execute("CREATE TRIGGER t AFTER INSERT ON reports BEGIN SELECT 1; END")
    else:
        path = tmp_path / "other"
        path.write_text("" if damage == "empty" else "no database " * 99, encoding="utf-8")
        path.chmod(0o600)
    with pytest.raises(LedgerError, match="collection of reports"):
        Collection(path)


@pytest.mark.parametrize(
    "body",
    [
        "null",
        "[]",
        '"yes"',
        '["yes"]',
        '["yes", []]',
        '["yes", ["a secret"]]',
        '["yes", [null]]',
        '["yes", {"0": 1}]',
        '["other", [1]]',
        '[["yes"], [1]]',
        b"\xff",
    ],
)
def test_a_report_that_was_not_let_in_is_damage(box, body):
    """Nothing of it is repeated."""
    add(box)
    box._database.execute("INSERT INTO reports VALUES (?, ?)", ("f" * 64, body))
    with pytest.raises(LedgerError, match="collection of reports") as caught:
        box.release()
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("columns", ["null", "5", '{"age": "x"}', '{"age": []}', "[[1, 2]]", b"\xff"])
def test_columns_of_another_form_are_damage(box, columns):
    """Each public column is of a known type."""
    (trigger,) = box._database.execute("SELECT sql FROM sqlite_master WHERE name = 'about_stays'").fetchone()
    box._database.execute("DROP TRIGGER about_stays")
    box._database.execute("UPDATE about SET value = ? WHERE name = 'columns'", (columns,))
    box._database.execute(trigger)
    with pytest.raises(LedgerError, match="collection of reports"):
        Collection(box.path)


def test_a_closed_collection_is_released(box, tmp_path, capsys):
    """By the command: the release verifies, says who declares it, and holds each report with its columns."""
    reports = tmp_path / "reports"
    reports.mkdir()
    lines = [line(box.declaration, token=f"{i:032x}", report=SPACE.points[i % 3], public={"age": i}) for i in range(60)]
    (reports / "a.jsonl").write_bytes(b"\n".join([*lines, b"{}", b"y" * 30_000, lines[0]]))
    path, out = str(tmp_path / "box"), tmp_path / "out"
    assert main(["collect", path, "--source", str(reports)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "new 60" in printed
    assert "kept before 1" in printed
    assert "trust nobody" in printed
    assert main(["collect", path, "--close", str(out)]) == 0
    assert verify(out).certificate.declared_by == "survey 2026"
    release = Release.load(out)
    assert sorted(release.to_arrow().to_pylist()) == sorted(SPACE.points * 20)
    assert main(["collect", path, "--source", str(reports)]) == 1
    assert "is closed" in capsys.readouterr().err


def ended(folder, name, *options, kind=RandomizedResponse, people=20):
    """The exit code of closing a new collection of two reports of each person."""
    box = Collection.begin(folder / name, declaration(kind), columns_of("person:text,age:number"))
    for i in range(2 * people):
        report = SPACE.points[i % 3] if kind is RandomizedResponse else [SPACE.points[i % 3]]
        add(box, token=f"{i:032x}", report=report, public={"person": f"P{i // 2:04d}x", "age": 20 + i // 2})
    code = main(["collect", str(folder / name), "--close", str(folder / f"{name}-out"), *options])
    assert box.is_closed is (code == 0)
    assert [each for each in folder.iterdir() if each.suffix == ".parquet"] == []
    return code


def test_a_ledger_counts_people_that_it_knows_by_a_public_column(tmp_path, capsys):
    """Two reports of each in one collection, and two more in another one; what is refused leaves it open."""
    ledger = ("--ledger", str(tmp_path / "ledger"))
    assert ended(tmp_path, "first", *ledger) == 1
    assert "--unit person" in capsys.readouterr().err
    assert ended(tmp_path, "second", *ledger, "--unit", "person") == 0
    assert "spent epsilon 2 of 2" in " ".join(capsys.readouterr().out.split())
    assert verify(tmp_path / "second-out").certificate.guarantee.unit == "person"
    assert verify(tmp_path / "second-out").certificate.declared_by == "survey 2026"
    assert ended(tmp_path, "third", *ledger, "--unit", "person") == 1
    assert "others of their person, were already released at epsilon 2" in capsys.readouterr().err
    assert ended(tmp_path, "fourth", *ledger, "--unit", "person", "--budget", "4") == 0
    assert "spent epsilon 4 of 4" in " ".join(capsys.readouterr().out.split())


def test_without_a_ledger_the_epsilons_of_a_person_add_up_too(tmp_path, capsys):
    """The public column says whose reports are whose."""
    assert ended(tmp_path, "first", "--unit", "person") == 0
    guarantee = verify(tmp_path / "first-out").certificate.guarantee
    assert (guarantee.unit, round(guarantee.epsilon, 9)) == ("unit", 2.0)
    assert ended(tmp_path, "second", "--unit", "row") == 0
    assert verify(tmp_path / "second-out").certificate.guarantee.unit == "row"
    assert ended(tmp_path, "third", "--unit", "nobody") == 1
    assert ended(tmp_path, "fourth") == 1
    assert "expected a privacy unit: 'person'" in capsys.readouterr().err


def test_reports_that_nobody_can_tell_apart_are_charged_with_all_others(tmp_path, capsys):
    """No token is stored, so without a public column that identifies people a second collection may be of the same."""
    for name, code in (("first", 0), ("second", 1)):
        box = Collection.begin(tmp_path / name, declaration(), {})
        for i in range(30):
            add(box, token=f"{i:032x}", report=SPACE.points[i % 3], public={})
        closing = ["collect", str(tmp_path / name), "--close", str(tmp_path / f"{name}-out")]
        assert main([*closing, "--ledger", str(tmp_path / "ledger")]) == code
    assert "what may be these rows was already released at epsilon 1" in capsys.readouterr().err
    assert main([*closing, "--ledger", str(tmp_path / "ledger"), "--other-people", "another town"]) == 0


def test_a_ledger_takes_no_sets(tmp_path, capsys):
    """A table with a ledger has one class for each row; without a ledger, sets are released."""
    assert ended(tmp_path, "first", "--unit", "person", "--ledger", str(tmp_path / "ledger"), kind=SubsetResponse) == 1
    assert "one declared class for each row" in capsys.readouterr().err
    assert ended(tmp_path, "second", "--unit", "person", kind=SubsetResponse) == 0


def test_a_report_that_comes_while_a_collection_is_closed_is_told_so(box, tmp_path, monkeypatch):
    """It waits until the release is written: it is among the released ones, or it is refused."""
    add(box)
    saved, late = Release.save, []

    def save(release, *arguments, **named):
        late.append(threading.Thread(target=lambda: late.append(refused())))
        late[0].start()
        late[0].join(0.3)
        assert len(late) == 1, "it waits"
        return saved(release, *arguments, **named)

    def refused():
        with pytest.raises(InputError, match="is closed"):
            add(Collection(box.path), token=TOKEN + "x")
        return True

    monkeypatch.setattr(Release, "save", save)
    assert len(release_reports(box, tmp_path / "out")) == 1
    late[0].join(30)
    assert late[1] is True


def test_what_was_collected_is_learned_from(tmp_path):
    """The slope of true answers is that of the reports with their own columns, within four standard errors."""
    rng, out = np.random.default_rng(7), tmp_path / "out"
    box = Collection.begin(tmp_path / "box", declaration(space=Classes(["no", "yes"])), COLUMNS)
    how, age = box.declaration, rng.normal(size=3000).round(3)
    truth = rng.random(3000) < 1 / (1 + np.exp(-age))
    said = np.where(truth ^ (rng.random(3000) >= float(how.channel.membership.true)), "yes", "no").tolist()
    sent = (line(how, token=f"{i:032x}", report=said[i], public={"age": age[i]}) for i in range(3000))
    box.add([read_report(each, how, COLUMNS) for each in sent])
    release_reports(box, out, unit="row")
    (_, slope) = coefficients(Release.load(out), public_columns(out), ["age"], units="rows").coefficients
    assert abs(slope.coef - 1.0) < 4 * slope.std_err < 0.8


@pytest.mark.parametrize(
    "arguments",
    [
        ("--columns", "age:number"),
        ("--unit", "age"),
        ("--ledger", "ledger"),
        ("--close", "a", "--budget", "1"),
        ("--listen", "8080"),
        ("--listen", "127.0.0.1:99999"),
        ("--close", "a", "--source", "b"),
        ("--sign", "key"),
        ("--declaration", "nowhere.json"),
    ],
)
def test_a_wrong_command_is_refused(box, tmp_path, arguments):
    """Before anything is served or written."""
    before = box.digest
    assert main(["collect", str(tmp_path / "box"), *arguments]) == 1
    assert box.digest == before


def requested(endpoint, method="POST", path="/", body=b"", headers=()):
    """The status, the headers and the content that the endpoint answers."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    async def run():
        scope = {"type": "http", "method": method, "path": path, "headers": list(headers)}
        await endpoint(scope, receive, send)
        endpoint._writer = endpoint._writer and endpoint._writer.cancel() and None

    asyncio.run(run())
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


def test_an_endpoint_answers_by_status(box):
    """Kept, known, another, hostile, too long, elsewhere and closed."""
    bodies = (line(box.declaration), line(box.declaration), line(box.declaration, report="no"), b"{", b"x" * 9000)
    assert [requested(Endpoint(box), body=body)[0] for body in bodies] == [200, 200, 409, 400, 400]
    assert requested(Endpoint(box), path="/x")[0] == 404
    assert requested(Endpoint(box), "DELETE")[0] == 405
    assert requested(Endpoint(box), "GET")[2].decode() == box.declaration.to_json()
    box.close()
    assert requested(Endpoint(box), body=line(box.declaration, token=TOKEN + "x"))[0] == 410
    assert len(box) == 1


def test_pages_of_named_origins_may_send(box):
    """Others get no leave from the browser, and too many reports at once are told to wait."""
    allowed = b"access-control-allow-origin"
    endpoint = Endpoint(box, ["https://survey.example"], most_per_second=2)
    assert (
        requested(endpoint, "OPTIONS", headers=[(b"origin", b"https://survey.example")])[1][allowed]
        == b"https://survey.example"
    )
    assert allowed not in requested(endpoint, "OPTIONS", headers=[(b"origin", b"https://evil.example")])[1]
    statuses = [requested(endpoint, body=line(box.declaration))[0] for _ in range(4)]
    assert statuses[:2] == [200, 200]
    assert 429 in statuses[2:]


def test_devices_lose_nothing_while_the_collector_is_killed(tmp_path):
    """The trial of benchmarks/devices.py in small: a kill, double sends, hostile JSON, wrong declarations."""
    pytest.importorskip("uvicorn", reason="it serves the collector")
    spec = importlib.util.spec_from_file_location("devices", ROOT / "benchmarks/devices.py")
    trial = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(trial)
    figures = trial.run(120, 1, tmp_path)
    assert figures["kept"] == 120
    assert {figures.get("hostile 200"), figures.get("wrong declaration 200"), figures.get("another report 200")} == {
        None
    }


@pytest.mark.parametrize(
    ("place", "when", "ledger", "stands"),
    [
        ("pyarrow.parquet.write_table", "after", True, False),  # the table is not yet in its place
        ("labeldp.release.jobs._release_reports.release_table", "before", True, False),
        ("labeldp.release.jobs._job.finish", "before", True, False),  # charged, drawn and written
        ("labeldp.release.jobs._job.finish", "after", True, True),
        ("labeldp.release.jobs._release_reports.release_table", "after", True, True),
        ("labeldp.release.released._release.write_release", "after", False, True),
    ],
)
def test_a_close_that_was_killed_is_continued(tmp_path, capsys, in_child, place, when, ledger, stands):
    """The same command closes the collection, with each report once, one charge, and nothing left."""
    name, out = str(tmp_path / "box[1]*"), tmp_path / "out"
    box = Collection.begin(Path(name), declaration(), columns_of("person:text,age:number"))
    for i in range(40):
        public = {"person": f"P{i // 2:04d}x", "age": 20 + i // 2}
        add(box, token=f"{i:032x}", report=SPACE.points[i % 3], public=public)
    close = [name, "--close", str(out), "--unit", "person"] + ["--ledger", str(tmp_path / "ledger")] * ledger

    def killed():
        module, _, function = place.rpartition(".")
        module = importlib.import_module(module)
        original = getattr(module, function)

        def dying(*given, **named):
            if when == "after":
                original(*given, **named)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(module, function, dying)
        main(["collect", *close])

    assert in_child(killed) == -signal.SIGKILL
    assert (box.is_closed, out.exists()) == (False, stands)
    for _ in range(2):  # and again, when all is done
        assert main(["collect", *close]) == 0, capsys.readouterr().err
        assert (box.is_closed, len(Release.load(out)), len(public_columns(out))) == (True, 40, 40)
    known = {each.name for each in tmp_path.iterdir() if not each.name.startswith(("ledger", "box[1]*.labeldp"))}
    assert known == {"box[1]*", "out"}
    if ledger:
        entries = [each for each in Ledger(tmp_path / "ledger").entries() if each.state != "void"]
        assert [each.spent for each in entries] == [(2.0, 0.0)]
        assert main(["collect", name, "--close", f"{out}2", *close[3:]]) == 1
        assert "were already released at epsilon 2" in capsys.readouterr().err


@pytest.mark.parametrize("table", [True, False])
def test_a_close_removes_no_file_of_somebody_else(box, tmp_path, capsys, table):
    """A file with the name of its table of reports is neither written over nor removed."""
    add(box)
    file = tmp_path / "box.reports.parquet"
    if table:
        pq.write_table(pa.table({"mine": [1]}), file)
    else:
        file.write_bytes(b"mine")
    file.chmod(0o600)
    before = file.read_bytes()
    closing = ["collect", str(box.path), "--close", str(tmp_path / "out"), "--unit", "row"]
    assert main([*closing, "--ledger", str(tmp_path / "ledger")]) == 1
    assert "that does not exist yet" in capsys.readouterr().err
    assert file.read_bytes() == before
    assert not box.is_closed


@pytest.mark.parametrize("other", ["more reports", "another unit", "no charge"])
def test_a_close_is_not_finished_by_another_release(box, tmp_path, capsys, other):
    """A folder of fewer reports, for other units, or that the ledger does not know is in the way."""
    add(box)
    out, closing = tmp_path / "out", ["collect", str(tmp_path / "box"), "--close", str(tmp_path / "out")]
    if other == "more reports":
        assert main([*closing, "--unit", "row"]) == 0
        box = Collection.begin(tmp_path / "other", declaration(), COLUMNS)
        add(box), add(box, token=TOKEN + "x")
        closing[1] = str(box.path)
    else:
        assert main([*closing, "--unit", "row" if other == "another unit" else "age"]) == 0
    before = (out / "_certificate.json").read_bytes()
    options = ["--unit", "row"] if other == "more reports" else ["--unit", "age"]
    options += ["--ledger", str(tmp_path / "ledger")] * (other == "no charge")
    assert main([*closing, *options]) == 1
    assert "exists already, and nothing is written into it" in capsys.readouterr().err
    assert (out / "_certificate.json").read_bytes() == before


@pytest.mark.parametrize("ledger", [True, False])
def test_a_close_that_is_repeated_is_signed_once(box, tmp_path, capsys, ledger):
    """The same key makes the same signature, and another one is refused."""
    add(box)
    out, keys = tmp_path / "out", [tmp_path / "key", tmp_path / "another"]
    assert [main(["key", str(key)]) for key in keys] == [0, 0]
    command = ["collect", str(box.path), "--close", str(out), "--unit", "row"]
    command += ["--ledger", str(tmp_path / "ledger")] * ledger
    assert main([*command, "--sign", str(keys[0])]) == 0
    before = (out / "_signature.json").read_bytes()
    assert main([*command, "--sign", str(keys[0])]) == 0
    assert main([*command, "--sign", str(keys[1])]) == 1
    assert "_signature.json" in capsys.readouterr().err
    assert (out / "_signature.json").read_bytes() == before


@pytest.mark.parametrize("ledger", [True, False])
def test_a_close_signs_what_it_wrote(box, tmp_path, capsys, monkeypatch, ledger):
    """A release that takes its place before it is signed is not signed."""
    add(box)
    out, key = tmp_path / "out", tmp_path / "key"
    assert main(["key", str(key)]) == 0
    other = Collection.begin(tmp_path / "other", declaration(), COLUMNS)
    add(other), add(other, token=TOKEN + "x")
    release_reports(other, tmp_path / "theirs", unit="row")

    def exchanged(*arguments, **named):
        written = release_reports(*arguments, **named)
        shutil.rmtree(out)
        (tmp_path / "theirs").rename(out)
        return written

    monkeypatch.setattr("labeldp.cli._collect.jobs.release_reports", exchanged)
    command = ["collect", str(box.path), "--close", str(out), "--unit", "row", "--sign", str(key)]
    assert main([*command, *["--ledger", str(tmp_path / "ledger")] * ledger]) == 1
    assert "found another; do not use it" in capsys.readouterr().err
    assert not (out / "_signature.json").exists()


def test_a_close_notices_another_release_in_its_place(box, tmp_path, monkeypatch):
    """Of the same labels, but by somebody else's word."""
    add(box)
    save = Release.save

    def exchanged(release, directory, *arguments, **named):
        assumptions = (*release.certificate.assumptions, "more")
        release = dataclasses.replace(
            release, certificate=dataclasses.replace(release.certificate, assumptions=assumptions)
        )
        return save(release, directory, *arguments, **named)

    monkeypatch.setattr(Release, "save", exchanged)
    with pytest.raises(VerificationError, match="the certificate of these reports"):
        release_reports(box, tmp_path / "out", unit="row")
    assert not box.is_closed
