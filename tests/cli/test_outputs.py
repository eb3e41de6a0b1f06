"""Files that commands write: what depends on true labels is its owner's alone, the rest is as the umask has it."""

import contextlib
import dataclasses
import inspect
import json
import shlex
import stat
import typing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, Curator, Declaration, RandomizedResponse
from labeldp.cli import app, main
from labeldp.cli._command import Place, ReleaseFolder

OWNER, TEAM, ALL = 0o600, 0o660, 0o644
#: Parameters of files and folders that a command reads, under whatever command.
READ = {
    *("against", "directories", "directory", "file", "from_", "generator", "images", "model", "paths", "public_key"),
    *("sign", "source", "table", "truth", "classes", "prior", "declaration", "matrix"),
}
SPACE = Classes(["no", "yes"])


pytestmark = pytest.mark.usefixtures("umask")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a table, a release of it, and the true labels; the working directory."""
    random = np.random.default_rng(4)
    age = random.integers(20, 80, 400)
    labels = np.where(age + random.normal(0, 5, 400) > 50, "yes", "no")
    pd.DataFrame({"age": age, "y": labels}).to_csv(tmp_path / "t.csv", index=False)
    curator = Curator(labels, SPACE, name="y")
    curator.randomize(RandomizedResponse(SPACE, 3.0)).save(tmp_path / "out", pd.DataFrame({"age": age}), keep="all")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def into(file, *typed):
    """Print what a command says into a file."""
    with Path(file).open("w", encoding="utf-8") as out, contextlib.redirect_stdout(out):
        assert main(list(typed)) == 0


def held(*typed):
    """Run a command that must end well."""
    assert main(list(typed)) == 0


TRUE = ("--truth", "t.csv", "--label", "y", "--labels-are-public")
RELEASED = shlex.split("release t.csv --label y --classes no,yes --epsilon 1 --keep all --unit row")
DECLARED = ("declare", "d.json", "--label", "y", "--classes", "no,yes", "--epsilon", "1", "--declared-by", "a survey")
LEARNED = ("learn", "out", "--model", "softmax", "--output", "m.safetensors")
AUXILIARY = ("generator", "t.csv", "--label", "y", "--classes", "no,yes", "--keep", "age", "--labels-are-public")


def holders_page():
    """A page of what a check found."""
    into("c.json", "check", "t.csv", "--label", "y", "--json")
    held("report", "c.json", "--output", "c.holder.html")


def staged():
    """A release and a model in stages."""
    typed = shlex.split("--label y --classes no,yes --epsilon 3 --keep all --unit row --model softmax")
    held("stages", "t.csv", *typed, "--output", "s", "--model-file", "s.safetensors")


def imported():
    """Labels that were randomized elsewhere, as a declaration says."""
    held(*DECLARED)
    held("import", "t.csv", "--declaration", "d.json", "--keep", "age", "--output", "i")


def collected(*charge):
    """A collection of reports, and its release."""
    held(*DECLARED)
    held("collect", "box", "--declaration", "d.json")
    name = Declaration.from_json(Path("d.json").read_text(encoding="utf-8")).name
    reports = [
        {"declaration": name, "token": f"{number:032x}", "report": ["no", "yes"][number % 2]} for number in range(40)
    ]
    Path("r.jsonl").write_text("\n".join(map(json.dumps, reports)), encoding="utf-8")
    held("collect", "box", "--source", "r.jsonl")
    held("collect", "box", "--close", "i", *charge)


def bought():
    """An answer that a plan pays for."""
    typed = ("--label", "y", "--classes", "no,yes", "--epsilon", "1", "--keep", "all", "--unit", "row")
    held("plan", "t.csv", *typed, "--buy", "0.1", "--output", "a")


def predicted():
    """Predictions of a model."""
    held(*LEARNED)
    held("predict", "m.safetensors", "t.csv", "--output", "p.csv")


#: Of each parameter of a file that is written: what writes it, and the mode of each file.
WRITTEN = {
    ("demo", "folder"): (lambda: held("demo", "d"), {"d/patients.csv": ALL}),
    ("check", "stdout"): (lambda: into("c.txt", "check", "t.csv", "--label", "y"), {"c.txt": OWNER}),
    ("check", "save_classes"): (
        lambda: held("check", "t.csv", "--label", "y", "--save-classes", "classes.txt"),
        {"classes.txt": OWNER},
    ),
    ("audit", "stdout"): (lambda: into("a.json", "audit", "out", *TRUE, "--json"), {"a.json": OWNER}),
    ("verify", "stdout"): (lambda: into("v.json", "verify", "out", "--json"), {"v.json": ALL}),
    ("release", "output"): (lambda: held(*RELEASED, "--output", "r"), {"r/_certificate.json": ALL}),
    ("release", "ledger"): (
        lambda: held(*RELEASED, "--output", "r", "--ledger", "l.labeldp-ledger"),
        {"l.labeldp-ledger": OWNER, "l.labeldp-ledger.notes": OWNER},
    ),
    ("release", "team_ledger"): (
        lambda: held(*RELEASED, "--output", "r", "--team-ledger", "l.labeldp-ledger"),
        {"l.labeldp-ledger": TEAM, "l.labeldp-ledger.notes": OWNER},
    ),
    ("declare", "output"): (lambda: held(*DECLARED), {"d.json": ALL}),
    ("import_", "output"): (imported, {"i/_certificate.json": ALL}),
    ("import_", "ledger"): (imported, {"t.csv.labeldp-ledger": OWNER}),
    ("collect", "box"): (collected, {"box": OWNER}),
    ("collect", "ledger"): (lambda: collected("--ledger", "l"), {"l": OWNER, "l.notes": OWNER}),
    ("collect", "close"): (collected, {"i/_certificate.json": ALL}),
    ("stages", "output"): (staged, {"s/_certificate.json": ALL}),
    ("stages", "model_file"): (staged, {"s.safetensors": OWNER}),
    ("stages", "ledger"): (staged, {"t.csv.labeldp-ledger": OWNER}),
    ("audit", "private_rows"): (
        lambda: held("audit", "out", *TRUE, "--private-rows", "private.csv"),
        {"private.csv": OWNER},
    ),
    ("audit", "figure"): (lambda: held("audit", "out", "--profile", "--figure", "f.png"), {"f.png": OWNER}),
    ("generator", "output"): (lambda: held(*AUXILIARY, "--source", "a town", "--output", "g"), {"g": OWNER}),
    ("learn", "output"): (lambda: held(*LEARNED), {"m.safetensors": OWNER}),
    ("predict", "output"): (predicted, {"p.csv": OWNER}),
    ("plan", "output"): (bought, {"a/_certificate.json": ALL}),
    ("plan", "ledger"): (bought, {"t.csv.labeldp-ledger": OWNER}),
    ("plan", "figure"): (
        lambda: held("plan", "--classes", "5", "--rows", "1000", "--epsilon", "1", "--figure", "f.svg"),
        {"f.svg": ALL},
    ),
    ("plan", "report"): (
        lambda: held("plan", "--classes", "5", "--rows", "1000", "--report", "p.html"),
        {"p.html": ALL},
    ),
    ("account", "figure"): (lambda: held("account", "out", "--figure", "f.pdf"), {"f.pdf": ALL}),
    ("key", "output"): (lambda: held("key", "k"), {"k": OWNER, "k.pub": ALL}),
    ("report", "output"): (holders_page, {"c.json": OWNER, "c.holder.html": OWNER}),
    ("report", "shared page"): (lambda: held("report", "out", "--output", "r.html"), {"r.html": ALL}),
    ("card", "directory"): (lambda: held("card", "out"), {"out/README.md": ALL, "out/croissant.json": ALL}),
}
#: Parameters of files that are read by some commands and written by others.
BOTH = {
    *(("check", "ledger"), *((each, "team_ledger") for each in ("check", "stages", "plan", "import_", "collect"))),
    *(("verify", "directory"), ("audit", "directory")),
}
SLOW = {"stages", "generator", "learn", "predict", "audit"}


@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=[pytest.mark.slow] * (each[0] in SLOW), id=" ".join(each)) for each in WRITTEN]
)
def test_what_depends_on_true_labels_is_its_owners_alone(command, place):
    """With the common umask, no file that depends on true labels can be read by others; what may be shared can."""
    write, modes = WRITTEN[command]
    write()
    assert {name: stat.S_IMODE((place / name).stat().st_mode) for name in modes} == modes


def test_a_result_for_the_holder_stays_whole(place):
    """What is printed into a file is the same document, mode aside."""
    into("c.json", "check", "t.csv", "--label", "y", "--json")
    assert json.loads((place / "c.json").read_text(encoding="utf-8"))["rows"] == 400


def parts_of(hint):
    """A type, and the types that it is made of."""
    return {hint}.union(*map(parts_of, typing.get_args(hint)))


def paths_of(owner):
    """The parameters of files and folders of a command, those in its dataclasses too."""
    hints = typing.get_type_hints(owner)
    for name in inspect.signature(owner).parameters:
        if dataclasses.is_dataclass(hints[name]):
            yield from paths_of(hints[name])
        elif parts_of(hints[name]) & {Path, Place, ReleaseFolder}:
            yield name


def test_every_file_that_a_command_writes_is_in_the_list_above():
    """A new parameter of a file is listed as one that is read, or with the mode of what is written."""
    commands = {each.callback.__name__: each.callback.__wrapped__ for each in app().registered_commands}
    assert len(commands) > 15
    named = {(name, path) for name, function in commands.items() for path in paths_of(function)}
    assert ("audit", "private_rows") in named
    unlisted = {each for each in named if each[1] not in READ and each not in WRITTEN.keys() | BOTH}
    assert unlisted == set()
