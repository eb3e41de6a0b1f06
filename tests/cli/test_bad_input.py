"""Bad input: a message that says what was expected, no label, no traceback, and nothing left behind."""

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


def damaged(folder):
    """A Parquet table with a damaged page."""
    pq.write_table(pa.table({"id": range(12), "y": [SECRETS[i % 3] for i in range(12)]}), folder / "t.parquet")
    whole = (folder / "t.parquet").read_bytes()
    (folder / "t.parquet").write_bytes(whole[:30] + b"\xff" * 60 + whole[90:])
    return {"source": folder / "t.parquet"}


def priors(folder, bad):
    """A table with a prior that is bad in its fifth row."""
    good = ["0.2,0.3,0.5"] * 12
    rows = [f"{prior},{SECRETS[i % 3]}" for i, prior in enumerate([*good[:4], bad, *good[5:]])]
    lines(folder, *rows, header=",".join([*(f"p_{name}" for name in SECRETS), "y"]))
    return {"mechanism": "prior", "prior": "p_"}


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


#: Beside the mistakes of mistakes.toml; what each function refuses is in its own tests.
CASES = {
    "text where classes are numbers": lambda f: lines(f, *ROWS) or {"classes": "1,2,3"},
    "missing label of no class": lambda f: lines(f, *ROWS) or {"missing": "none-such"},
    "no class": lambda _: {"classes": ""},
    "unknown label in the first row": lambda f: lines(f, f"12,40,{UNDECLARED}", *ROWS),
    "prior without its mechanism": lambda _: {"prior": "p_"},
    "mechanism without its prior": lambda _: {"mechanism": "prior"},
    "a prior of text": lambda f: priors(f, "half,0,0.5"),
    "epsilon nan": lambda _: {"epsilon": "nan"},
    "epsilon too large for sets": lambda _: {"epsilon": "47", "mechanism": "subset"},
    "budget nan": lambda _: {"budget": "nan"},
    "broken quotes": lambda f: lines(f, *ROWS, f'12,40,"{SECRETS[0]}'),
    "Parquet with a damaged page": damaged,
    "interval of nothing": lambda f: interval(f, ""),
    "interval of nan": lambda f: interval(f, "0,1,nan"),
    "a folder of classes": lambda f: {"classes": f"@{f}"},
    "the ledger is another database": lambda f: {"ledger": database(f / "ledger")},
    "a folder where nobody writes": lambda _: {"ledger": Path("/proc/labeldp-ledger")},
}


def shown(ran):
    """What was printed, without the names of prior columns, which are public and end in a class."""
    return re.sub("(p_|likely_)zq-secret-[789]", "", ran.out + ran.err)


def nothing_left(folder, output):
    """Neither an output nor a staging folder."""
    assert not output.exists()
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
        if ledger.is_file() and case != "the ledger is another database":
            assert set(states(ledger)) <= {"void"}
