"""Bad input: a message that says what was expected, no label, no traceback, and nothing left behind."""

import os
import re
import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SECRETS = ("zq-secret-7", "zq-secret-8", "zq-secret-9")
UNDECLARED = "zq-secret-0"
NUMBER = "0.71717"
ROWS = [f"{i},{20 + i},{SECRETS[i % 3]}" for i in range(12)]


def lines(folder, *rows, header="id,age,y"):
    """The table, with these lines after the header."""
    (folder / "t.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")


def raw(folder, data):
    """The table, with these bytes."""
    (folder / "t.csv").write_bytes(data)


def parquet(folder, damage):
    """A Parquet table, damaged."""
    pq.write_table(pa.table({"id": range(12), "y": [SECRETS[i % 3] for i in range(12)]}), folder / "t.parquet")
    whole = (folder / "t.parquet").read_bytes()
    (folder / "t.parquet").write_bytes(damage(whole))
    return {"source": folder / "t.parquet"}


def priors(folder, bad):
    """A table with a prior that is bad in its fifth row."""
    good = ["0.2,0.3,0.5"] * 12
    rows = [f"{prior},{SECRETS[i % 3]}" for i, prior in enumerate([*good[:4], bad, *good[5:]])]
    lines(folder, *rows, header=",".join([*(f"p_{name}" for name in SECRETS), "y"]))
    return {"mechanism": "prior", "prior": "p_"}


def made(path, directory=True):
    """A path that exists."""
    path.mkdir() if directory else path.write_text("mine", encoding="utf-8")
    return path


def database(path):
    """Another program's SQLite database."""
    with sqlite3.connect(path) as opened:
        opened.execute("CREATE TABLE songs (name TEXT)")
    opened.close()
    return path


def interval(folder, text):
    """A table of real labels, and how its interval was typed."""
    lines(folder, *(f"{i},{i},{NUMBER}" for i in range(12)))
    return {"classes": None, "interval": text}


EPSILONS = ["nan", "inf", "-inf", "0", "-1", "1e-300", "800", "60"]

CASES = {
    "no input": lambda f: {"source": f / "none.csv"},
    "unknown ending": lambda f: {"source": (f / "t.csv").rename(f / "t.xlsx")},
    "empty folder": lambda f: {"source": made(f / "folder")},
    "missing label column": lambda _: {"label": "z"},
    "unknown label": lambda f: lines(f, *ROWS, f"12,40,{UNDECLARED}"),
    "unknown label in the first row": lambda f: lines(f, f"12,40,{UNDECLARED}", *ROWS),
    "text where classes are numbers": lambda f: lines(f, *ROWS) or {"classes": "1,2,3"},
    "missing label": lambda f: lines(f, *ROWS[:5], "5,25,", *ROWS[6:]),
    "missing label of no class": lambda f: lines(f, *ROWS) or {"missing": "none-such"},
    "header only": lines,
    "zero bytes": lambda f: raw(f, b""),
    "one class": lambda _: {"classes": SECRETS[0]},
    "no class": lambda _: {"classes": ""},
    "a class twice": lambda _: {"classes": f"{SECRETS[0]},{SECRETS[1]},{SECRETS[2]},{SECRETS[0]}"},
    "the label kept": lambda _: {"keep": "id,y"},
    "unknown kept": lambda _: {"keep": "id,height"},
    "unknown dropped": lambda _: {"keep": None, "drop": "height"},
    "neither kept nor dropped": lambda _: {"keep": None},
    "kept and dropped": lambda _: {"keep": "id", "drop": "age"},
    "unknown unit": lambda _: {"unit": "household"},
    "the label as the unit": lambda _: {"unit": "y"},
    "unknown prior": lambda _: {"mechanism": "prior", "prior": "likely_"},
    "prior without its mechanism": lambda _: {"prior": "p_"},
    "mechanism without its prior": lambda _: {"mechanism": "prior"},
    "unknown mechanism": lambda _: {"mechanism": "magic"},
    **{f"epsilon {text}": lambda _, text=text: {"epsilon": text} for text in EPSILONS},
    "epsilon too large for randomized response": lambda _: {"epsilon": "47", "mechanism": "randomized-response"},
    "epsilon too large for bits": lambda _: {"epsilon": "47", "mechanism": "bits"},
    "epsilon too large for sets": lambda _: {"epsilon": "47", "mechanism": "subset"},
    **{f"budget {text}": lambda _, text=text: {"budget": text} for text in ("nan", "0", "-1")},
    **{f"delta {text}": lambda _, text=text: {"delta": text} for text in ("nan", "1", "-0.1")},
    "ragged": lambda f: lines(f, *ROWS, f"12,40,{SECRETS[0]},{SECRETS[1]}"),
    "too short a line": lambda f: lines(f, *ROWS, SECRETS[1]),
    "broken quotes": lambda f: lines(f, *ROWS, f'12,40,"{SECRETS[0]}'),
    "invalid UTF-8": lambda f: raw(f, f"id,age,y\n1,2,{SECRETS[0]}".encode() + b"\xff\xfe\n"),
    "a column twice": lambda f: lines(f, *ROWS, header="id,id,y"),
    "truncated Parquet": lambda f: parquet(f, lambda whole: whole[:-20]),
    "Parquet without its end": lambda f: parquet(f, lambda whole: whole[: len(whole) // 2]),
    "Parquet with a damaged page": lambda f: parquet(f, lambda whole: whole[:30] + b"\xff" * 60 + whole[90:]),
    "random bytes as Parquet": lambda f: parquet(f, lambda whole: os.urandom(len(whole))),
    "nothing as Parquet": lambda f: parquet(f, lambda _: b""),
    "a released column's name": lambda f: lines(f, *ROWS, header="id,y_released,y"),
    "a prior beyond one": lambda f: priors(f, "0.5,0.5,0.5"),
    "a negative prior": lambda f: priors(f, "-0.5,1,0.5"),
    "a prior of nan": lambda f: priors(f, "nan,0.5,0.5"),
    "a missing prior": lambda f: priors(f, ",0.5,0.5"),
    "a prior of text": lambda f: priors(f, "half,0,0.5"),
    "output exists": lambda f: {"output": made(f / "taken")},
    "output is a file": lambda f: {"output": made(f / "taken", directory=False)},
    "output's parent is missing": lambda f: {"output": f / "none" / "out"},
    "output's parent is a file": lambda f: {"output": made(f / "taken", directory=False) / "out"},
    "budget exceeded": lambda _: {"epsilon": "2", "budget": "1.5"},
    **{
        f"interval {text!r}": lambda f, text=text: interval(f, text)
        for text in ("0,1", "a,b,c", "1,0,0.1", "0,1,0.3", "0,inf,1", "0,1,0", "0,1,nan", "0,1,0.1,2", "")
    },
    "real labels that are text": lambda _: {"classes": None, "interval": "0,1,0.1"},
    "classes and interval": lambda _: {"interval": "0,1,0.1"},
    "neither classes nor interval": lambda _: {"classes": None},
    "no file of classes": lambda f: {"classes": f"@{f / 'none'}"},
    "a folder of classes": lambda f: {"classes": f"@{f}"},
    "the ledger is text": lambda f: {"ledger": made(f / "ledger", directory=False)},
    "the ledger is a folder": lambda f: {"ledger": made(f / "ledger")},
    "the ledger is another database": lambda f: {"ledger": database(f / "ledger")},
    "no folder for the ledger": lambda f: {"ledger": f / "none" / "ledger"},
    "a file for the ledger's folder": lambda f: {"ledger": made(f / "taken", directory=False) / "ledger"},
    "a folder where nobody writes": lambda _: {"ledger": Path("/proc/labeldp-ledger")},
}


def shown(ran):
    """What was printed, without the names of prior columns, which are public and end in a class."""
    return re.sub("(p_|likely_)zq-secret-[789]", "", ran.out + ran.err)


def nothing_left(folder, output):
    """No output, unless it was there before, and no staging folder."""
    assert output.name == "taken" or not output.exists()
    assert [path for path in folder.rglob("*") if ".labeldp-" in path.name and path.is_dir()] == []


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused(release, tmp_path, states, case):
    """It fails with a message of the house's form, shows no label, and leaves and charges nothing."""
    lines(tmp_path, *ROWS)
    options = {"source": tmp_path / "t.csv", "output": tmp_path / "out"} | (CASES[case](tmp_path) or {})
    source, output = options.pop("source"), options.pop("output")
    ran = release(source, output, **options)
    assert ran.code == 1
    assert ran.out == ""
    assert re.search(
        r"^error: (expected .*found|[\w-]+ (goes with|needs) .*found|no .*column .*; columns: |budget exceeded: )",
        ran.err.replace("\n", " "),
    )
    assert "Traceback" not in ran.err
    assert "zq-secret" not in shown(ran)
    assert NUMBER not in shown(ran)
    nothing_left(tmp_path, output)
    for ledger in (tmp_path / f"{source.name}.labeldp-ledger", Path(options.get("ledger", tmp_path / "unnamed"))):
        if ledger.is_file() and case not in ("the ledger is text", "the ledger is another database"):
            assert set(states(ledger)) <= {"void"}


def test_a_second_release_needs_a_budget(release, tmp_path, states):
    """The default budget is the first epsilon: the same table again is refused, whatever it is called."""
    lines(tmp_path, *ROWS)
    assert release(tmp_path / "t.csv", tmp_path / "one").code == 0
    ran = release(tmp_path / "t.csv", tmp_path / "two")
    assert ran.code == 1
    assert ran.err.startswith("error: budget exceeded: these 12 rows were already released at epsilon 1 from ")
    assert "Another at 1 makes 2, above the budget of 1. Reuse " in ran.err
    assert "or pass --budget 2. If" in ran.err
    assert "zq-secret" not in shown(ran)
    nothing_left(tmp_path, tmp_path / "two")
    assert states(tmp_path / "t.csv.labeldp-ledger") == ["released"]


@pytest.mark.parametrize("option", ["epsilon", "budget", "delta"])
def test_text_for_a_number_is_a_mistake_in_typing(release, tmp_path, option):
    """Text where a number belongs is refused by the parser of arguments, which names the option."""
    lines(tmp_path, *ROWS)
    ran = release(tmp_path / "t.csv", tmp_path / "out", **{option: "x"})
    assert ran.code == 2
    assert f"'--{option}'" in ran.err
    assert "Traceback" not in ran.err
    assert "zq-secret" not in ran.err + ran.out
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_prior_that_is_the_label_is_refused(release, tmp_path):
    """The label column is not public, so it is no column of a prior."""
    lines(tmp_path, *(f"{i % 2},{1 - i % 2}" for i in range(12)), header="p0,p1")
    ran = release(tmp_path / "t.csv", tmp_path / "out", label="p0", classes="0,1", mechanism="prior", prior="p")
    assert ran.code == 1
    nothing_left(tmp_path, tmp_path / "out")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser writes everywhere")
@pytest.mark.parametrize("what", ["ledger", "output"])
def test_a_read_only_folder(release, tmp_path, what):
    """A folder in which one may not write is refused in words, for the ledger and for the output."""
    lines(tmp_path, *ROWS)
    closed = made(tmp_path / "closed")
    closed.chmod(0o500)
    options = {"output": tmp_path / "out", what: closed / "it"}
    ran = release(tmp_path / "t.csv", options.pop("output"), **options)
    assert ran.code == 1
    assert re.search(r"^error: expected .*found", ran.err)
    assert list(closed.iterdir()) == []


@pytest.mark.parametrize("arguments", [["verify", "none"], ["ledger", "none"], ["ledger", "."], ["verify", "."]])
def test_what_is_not_there_is_not_shown(run, tmp_path, monkeypatch, arguments):
    """Verifying or showing what is not there fails in words."""
    monkeypatch.chdir(tmp_path)
    ran = run(*arguments)
    assert ran.code == 1
    assert re.search(r"expected .*found", (ran.out + ran.err).replace("\n", " "))
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("kind", ["text", "database", "empty"])
def test_a_ledger_that_is_none(run, tmp_path, kind):
    """A text file or another program's database is no ledger, and is left as it is."""
    path = tmp_path / "ledger"
    if kind == "database":
        database(path)
    else:
        path.write_text("my notes" if kind == "text" else "", encoding="utf-8")
    before = path.read_bytes()
    ran = run("ledger", path)
    assert ran.code == (0 if kind == "empty" else 1)
    assert kind == "empty" or re.search(r"^error: expected a labeldp ledger .*found", ran.err)
    assert kind == "empty" or path.read_bytes() == before
