"""Journeys of users: the commands of a story, typed one after another, and what the screen says at each step.

A story is a page: in its console blocks, a line that begins with a dollar sign is typed, with the lines after it that
begin with ``>``. The lines below are on the screen in this order, among others. In them, ``#`` is any number and
``...`` any text; all else is as it stands. ``[exit 1]`` is the exit code of a command that fails. The tables are made
by ``tables.py``. A story runs on the package under test, and in a fresh environment, into which pip installed its
wheel.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from labeldp._locks import locked

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_EXIT = re.compile(r"\[exit (\d+)\]")
_NOT_INHERITED = ("FORCE_COLOR", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Step:
    """A command, its exit code, and lines that the screen shows."""

    command: str
    exit: int
    lines: tuple[str, ...]


def steps(story):
    """The steps of a story."""
    found = []
    for block in _BLOCK.findall(story):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *below = part.splitlines()
            typed = [line.removeprefix("> ") for line in below if line.startswith(">")]
            shown = [line.strip() for line in below if line.strip() and not line.startswith(">")]
            codes = [int(match[1]) for line in shown if (match := _EXIT.fullmatch(line))]
            lines = tuple(line for line in shown if not _EXIT.fullmatch(line))
            found.append(Step("\n".join([command, *typed]), codes[0] if codes else 0, lines))
    return found


def missing(lines, screen):
    """The first of the lines that the screen does not show after those before it; None if it shows all of them."""
    printed = iter([" ".join(re.sub(r"[─━┏┓┗┛└┘┴┬┳┻╇┡┩│┃]", " ", line).split()) for line in screen.splitlines()])
    for line in lines:
        shape = re.escape(" ".join(line.split())).replace(r"\.\.\.", ".*").replace(r"\#", r"[+-]?\d[\d,.]*")
        if not any(re.fullmatch(shape, each) for each in printed):
            return line
    return None


def typed(command, folder, programs, environment):
    """Type a command; return its exit code, and all that it wrote to the screen."""
    settings = environment | {"COLUMNS": "120", "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="session")
def fresh(tmp_path_factory):
    """The programs of a new environment, into which pip installed the wheel of this package with what it needs."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    programs, wheels = shared / "fresh" / "bin", shared / "wheels"
    with locked(shared / "fresh.lock", patience=600):  # one environment for all processes of a run
        if not (programs / "labeldp").exists():
            pip = [programs / "python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
            subprocess.run([sys.executable, "-m", "venv", shared / "fresh"], check=True)
            reached = subprocess.run([*pip, "download", "--no-deps", "--dest", wheels, "lazy_loader"], check=False)
            if reached.returncode:
                pytest.skip("pip reaches no index to install what the wheel needs")
            subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, ROOT], check=True)
            (wheel,) = wheels.glob("labeldp-*.whl")
            subprocess.run([*pip, "install", "--no-compile", f"{wheel}[learn]"], check=True)
    return programs


@pytest.fixture
def programs(request):
    """The folder of the programs of an environment by name."""
    return Path(sys.executable).parent if request.param == "here" else request.getfixturevalue("fresh")


@pytest.mark.parametrize(
    ("story", "programs"),
    [
        ("hospital", "here"),
        ("months", "here"),
        ("hospital", "fresh"),
        ("insurance", "fresh"),
        ("advertising", "fresh"),
    ],
    indirect=["programs"],
)
def test_a_journey_ends_well(story, programs, tmp_path):
    """Each command ends as the story says, and the screen says what a user needs at that step.

    Labels are drawn anew in each run: lines that depend on them are four standard deviations from another one, or more.
    """
    pytest.importorskip("sklearn")
    fresh = programs.parent != Path(sys.prefix)
    environment = {name: value for name, value in os.environ.items() if not (fresh and name in _NOT_INHERITED)}
    typed(f"python {HERE / 'tables.py'} {story}", tmp_path, programs, environment)
    for step in steps((HERE / f"{story}.md").read_text(encoding="utf-8")):
        code, screen = typed(step.command, tmp_path, programs, environment)
        absent = missing(step.lines, screen)
        if code != step.exit or absent or re.search("Traceback|Warning", screen):
            pytest.fail(
                f"$ {step.command}\n{screen}[exit {code}, expected {step.exit}; without {absent!r}]", pytrace=False
            )


def test_a_screen_that_says_something_else_is_noticed():
    """Numbers and dots stand for what they stand for; another word, number or order is missing."""
    screen = "Released 12 rows at epsilon 1.\n\n│ accuracy │ 80.1% │\nspent  epsilon 1 of 1"
    assert missing(["Released 12 rows at epsilon #", "accuracy #%", "spent ... of 1"], screen) is None
    for lines in (["Released 13 rows at ..."], ["Released 12 rows"], ["spent ...", "Released ..."], ["accuracy #"]):
        assert missing(lines, screen) == lines[-1]


def test_every_step_of_a_story_is_read():
    """Commands of several lines, their output and their exit codes are told apart."""
    story = "Text.\n```console\n$ one <<'END'\n> two\n> END\nshown\n\n$ three\n[exit 2]\n```\n"
    assert steps(story) == [Step("one <<'END'\ntwo\nEND", 0, ("shown",)), Step("three", 2, ())]
