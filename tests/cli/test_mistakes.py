"""The most likely mistakes: each is refused by its true cause and with the way out, and shows no label of a row."""

import ast
import contextlib
import errno
import gzip
import io
import os
import pickle
import re
import shlex
import tomllib
import zipfile
from pathlib import Path

import pytest

import labeldp
from labeldp.cli import main
from labeldp.cli._terminal import complain_of
from labeldp.errors import InputError

CASES = tomllib.loads(Path(__file__).with_name("mistakes.toml").read_text(encoding="utf-8"))["mistake"]
#: The letters of two lines of a terminal, and of a refusal that names an earlier release.
TWO_LINES, WITH_A_RELEASE = 260, 350

LABELS = ("zq-ill", "zq-well")
HEAD = "patient_id,age,town,diagnosis,cost"
LINES = [
    f"p{i // 2},{20 + 11 * i % 37},{('north', 'south', 'east')[i * i % 3]},{LABELS[i * i % 7 % 2]},{137 * i % 900}.5"
    for i in range(40)
]
#: Abbreviations in commands.
GIVEN = {
    "$C": "--classes zq-ill,zq-well",
    "$G": "--epsilon 1 --unit row --keep age --output new",
    ";;": "';;'",
}


def write_files() -> None:
    """Write tables, and folders of releases, into the current directory."""
    text = "\n".join([HEAD, *LINES]) + "\n"
    tables = {
        "t.csv": text,
        "semicolons.csv": text.replace(",", ";"),
        "tabs.tsv": text.replace(",", "\t"),
        "floats.csv": "age,y\n" + "".join(f"{i},{i % 2}.0\n" for i in range(40)),
        "flags.csv": "age,y\n" + "".join(f"{i},{i % 2 == 0}\n" for i in range(40)),
        "blanks.csv": "age,y\n" + "".join(f"{i}, {LABELS[i % 2]}\n" for i in range(40)),
        "gaps.csv": "age,y\n" + "".join(f"{i},{'' if i == 7 else LABELS[i % 2]}\n" for i in range(40)),
        "number-gaps.csv": "age,y\n" + "".join(f"{i},{'' if i == 7 else 3.5 * i}\n" for i in range(40)),
        "commas.csv": "age,y\n" + "".join(f'{i},"{i},5"\n' for i in range(40)),
        "hundreds.csv": "age,y\n" + "".join(f"{i},{i % 300}\n" for i in range(600)),
        "empty.csv": "",
        "header.csv": HEAD + "\n",
        "no-header.csv": "\n".join(LINES) + "\n",
        "long.csv": "age,diagnosis\n1,zq-ill\n2,zq-ill,3\n",
        "separated.csv": f"sep=;\n{text.replace(',', ';')}",
        "twice.csv": "age,age,diagnosis\n1,2,zq-ill\n",
        "t.json": '[{"diagnosis": "zq-ill"}]',
        "t.txt": text,
        "less.csv": "\n".join([HEAD, *LINES[:30]]) + "\n",
        "kept.svg": "mine",
        "kept.html": "mine",
    }
    for name, content in tables.items():
        Path(name).write_text(content, encoding="utf-8")
    Path("latin.csv").write_bytes("age,town,diagnosis\n1,Köln,zq-ill\n2,Bonn,zq-well\n".encode("latin-1"))
    Path("binary.csv").write_bytes(bytes(range(256)) * 9)
    Path("link.csv").symlink_to("gone.csv")
    Path("t.xls").write_bytes(b"PK\x03\x04")
    Path("t.pkl").write_bytes(pickle.dumps({"diagnosis": "zq-ill"}))
    Path("cut.parquet").write_bytes(b"PAR1 cut off")
    Path("t.csv.gz").write_bytes(gzip.compress(text.encode())[:60])
    with zipfile.ZipFile("t.zip", "w") as archive:
        archive.writestr("t.csv", text)
    for folder in ("nothing", "old", "mixed"):
        Path(folder).mkdir()
    Path("old/notes.md").write_text("mine\n", encoding="utf-8")
    Path("mixed/a.csv").write_text(text, encoding="utf-8")
    Path("mixed/b.parquet").write_bytes(b"PAR1")
    for label, declared, output in (("diagnosis", "$C", "shared"), ("cost", "--interval 0,900,1", "costs")):
        command = f"release t.csv --label {label} {declared} --epsilon 1 --unit row --keep age --output {output}"
        assert main(typed(command)) == 0
    Path("damaged").mkdir()
    for part in Path("shared").iterdir():
        Path("damaged", part.name).write_bytes(part.read_bytes())
    (data,) = Path("damaged").glob("*.parquet")
    data.write_bytes(data.read_bytes()[:-40] + b"\0" * 40)


def typed(command: str) -> list[str]:
    """The arguments of a command, its abbreviations written out."""
    for short, long in GIVEN.items():
        command = command.replace(short, long)
    return shlex.split(command)


def said_of(out: str, err: str) -> str:
    """What a command says of a mistake: its error, without the usage line; or the check that failed."""
    text = re.sub(r"\d{4}-\d\d-\d\d", "DATE", (err or out).replace(f"{Path.cwd()}/", ""))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if err:
        return "\n".join(line for line in lines if not line.startswith(("Usage: ", "Try '")))
    failed = next((place for place, line in enumerate(lines) if line.startswith("FAILED")), 0)
    return "\n".join([lines[0], *lines[failed : failed + 2]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder in which all commands are typed: none of them changes it."""
    path = tmp_path_factory.mktemp("mistakes")
    before = Path.cwd()
    os.chdir(path)
    with contextlib.redirect_stdout(io.StringIO()):
        write_files()
    os.chdir(before)
    return path


@pytest.fixture
def ran(folder, capsys, monkeypatch):
    """Run a command in the folder: its exit code, and what it says of the mistake."""
    monkeypatch.chdir(folder)

    def running(command):
        capsys.readouterr()
        code = main(typed(command))
        printed = capsys.readouterr()
        assert not (printed.out and printed.err)  # nothing is shown before an error
        shown = (printed.out + printed.err).replace(str(folder), "")  # chance names its parent
        return code, shown, said_of(printed.out, printed.err)

    return running


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_mistake_is_named_with_the_way_out(ran, folder, case):
    """The message and the exit code are those of the table, in two lines, and nothing is written or charged."""
    before = {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}
    code, printed, said = ran(case["command"])
    assert (code, said) == (case["code"], case["says"].removesuffix("\n"))
    assert len(said) <= (WITH_A_RELEASE if "already released" in said else TWO_LINES)
    assert "zq-" not in printed
    assert ".5" not in printed.replace("0.5", "").replace("12.5", "")
    assert "Traceback" not in printed
    assert {path: path.lstat().st_mtime_ns for path in folder.rglob("*")} == before


def test_there_are_enough_and_no_two_are_alike():
    """At least forty different commands."""
    assert len({case["command"] for case in CASES}) == len({case["name"] for case in CASES}) == len(CASES) >= 40


@pytest.mark.parametrize("part", ["output", "table"])
def test_what_may_not_be_read_or_written_is_named(ran, monkeypatch, part):
    """A missing permission is the cause that is given, with the file (tests may run as root, who may do everything)."""
    name = "new" if part == "output" else "t.csv"

    def refused(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", name)

    monkeypatch.setattr(*(("pathlib.Path.mkdir",) if part == "output" else ("pyarrow.input_stream",)), refused)
    code, _, said = ran(
        "release tabs.tsv --label diagnosis $C --epsilon 0.1 --budget 9 --unit row --keep age --output new"
    )
    assert code == 1
    assert "Permission denied" in said
    assert ("take a place" if part == "output" else "check the file and its permissions") in said


def messages():
    """The texts in the code of the package but docstrings, with a letter for each value that is put into one."""
    for path in sorted(Path(labeldp.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value.value = ""
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                yield "".join(each.value if isinstance(each, ast.Constant) else "X" for each in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_no_argument_of_a_function_is_named_to_who_types(capsys):
    """Messages name an option, and after it the argument of a function, which the command line leaves out."""
    named = [text for text in messages() if re.search(r"[a-z]=\)|\(in Python", text)]
    assert len(named) > 5
    for text in named:
        complain_of(InputError(text))
        assert not re.search(r"[a-z]=\)|in Python", capsys.readouterr().err), text
    named = "pass --budget 2 (budget=), or --encoding latin-1 (TableFile(..., encoding=)) (in Python: g(1)); see f(x)"
    complain_of(InputError(named))
    assert capsys.readouterr().err == "error: pass --budget 2, or --encoding latin-1; see f(x)\n"
