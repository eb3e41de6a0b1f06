"""The real executable, and ``python -m labeldp``."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from labeldp.cli import app, main

LABELDP = [str(Path(sys.executable).with_name("labeldp"))]
WAYS = {"labeldp": LABELDP, "python -m labeldp": [sys.executable, "-m", "labeldp"]}
AUTO = Path(__file__).parents[1] / "golden/command/auto"
RELEASE = ["--label", "y", "--classes", "zq-secret-7,zq-secret-8,zq-secret-9", "--epsilon", "1", "--keep", "all"]


def execute(*command, **environment):
    """Run a command in a process of its own."""
    settings = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "COLUMNS")}
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, env=settings | environment
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_bad_command_ends_with_a_message(table, tmp_path, way):
    """A refusal exits with 1 and says why on standard error, in plain text."""
    done = execute(*WAYS[way], "release", table, *RELEASE, "--output", tmp_path / "none" / "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: there is no folder")
    assert "zq-secret" not in done.stderr


def test_every_command_explains_itself(run):
    """And a wrong option or command exits with 2, as programs do."""
    for command in ([], *([name] for name in typer.main.get_command(app()).commands)):
        ran = run(*command, "--help")
        assert (ran.code, ran.err) == (0, "")
        assert f"Usage: labeldp {' '.join(command)}" in ran.out
    assert [run("release", "--magic").code, run("magic").code] == [2, 2]


def test_a_terminal_that_writes_ascii_alone(table, tmp_path):
    """A release is announced in any encoding: its exit code says that it took place."""
    done = execute(*LABELDP, "release", table, *RELEASE, "--output", tmp_path / "oé", PYTHONIOENCODING="ascii")
    assert (tmp_path / "oé").is_dir()
    assert "nothing was released" not in done.stderr
    assert (done.returncode, done.stdout != "") == (0, True)


def test_every_option_has_a_text():
    """Of each command, whatever parses the option and wherever it is declared."""
    for name, command in typer.main.get_command(app()).commands.items():
        shown = [each for each in command.get_params(typer.Context(command)) if not getattr(each, "hidden", False)]
        assert shown
        assert not [(name, each.name) for each in shown if not each.help]


WITHOUT_PANDAS = """
import sys
sys.modules["pandas"] = None
from labeldp.cli import main
for words in sys.argv[1:]:
    main(words.split())
from labeldp import Classes, Curator
from labeldp.learning.sklearn import AutoClassifier
release = Curator(["no", "yes"] * 10, Classes(["no", "yes"])).randomize(epsilon=1.0)
try:
    AutoClassifier().fit([[0.0], [1.0]] * 10, release)
except ImportError as problem:
    print(f"error: {problem}", file=sys.stderr)
"""


def test_what_needs_pandas_says_what_to_install():
    """Commands and the default learner name the extra's library, whose absence is no unexpected error."""
    commands = ("describe SHARED", "effect SHARED --treatment age --features age", "coefficients SHARED age")
    commands = *commands, "schema learn", "learn SHARED --output m", "predict m t.csv --output p.csv"
    typed = [each.replace("SHARED", str(AUTO)) for each in commands]
    done = execute(sys.executable, "-c", WITHOUT_PANDAS, *typed)
    said = "error: expected pandas to be installed, found none; pip install 'pandas>="
    assert [line.startswith(said) for line in done.stderr.splitlines()] == [True] * 7, done.stderr


# Completion by the shell: commands and options are offered from the parser itself.


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("labeldp rel", {"release"}),
        ("labeldp release --mech", {"--mechanism"}),
        ("labeldp plan --ex", {"--explained"}),
        ("labeldp ", {"check", "plan", "release", "verify", "learn", "evaluate"}),
    ],
)
def test_what_was_begun_is_offered(monkeypatch, capsys, typed, offered):
    """As bash asks for it, with the words so far in the environment."""
    monkeypatch.setenv("_LABELDP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    found = set(capsys.readouterr().out.split())
    assert found >= offered
    assert len(offered) > 1 or found == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_shown(capsys, monkeypatch, shell):
    """It asks this command, whatever shell runs the tests, and nothing is installed."""
    monkeypatch.setenv("_LABELDP_COMPLETE", f"source_{shell}")
    with pytest.raises(SystemExit):
        main([])
    assert "_LABELDP_COMPLETE=complete_" in capsys.readouterr().out


# The exit code says what a command did, whatever happens to what it prints: broken pipes, full disks.


FULL = OSError(28, "No space left on device")
GONE = BrokenPipeError(32, "Broken pipe")


class Breaking(io.StringIO):
    """A stream that takes some writes, and then fails."""

    def __init__(self, problem, after):
        super().__init__()
        self.problem, self.after = problem, after

    def _count(self):
        self.after -= 1
        if self.after < 0:
            raise self.problem

    def write(self, text):
        """Write, as long as it works."""
        self._count()
        return super().write(text)

    def flush(self):
        """Fail, once writing does."""
        if self.after <= 0:
            raise self.problem


def ran(monkeypatch, stream, problem, after, *typed):
    """The exit code of a command whose stream breaks, and what it printed on the other one."""
    broken, other = Breaking(problem, after), io.StringIO()
    monkeypatch.setattr(sys, stream, broken)
    monkeypatch.setattr(sys, "stderr" if stream == "stdout" else "stdout", other)
    code = main([str(each) for each in typed])
    assert (sys.stdout if stream == "stdout" else sys.stderr) is broken
    monkeypatch.undo()
    return code, other.getvalue()


@pytest.fixture
def typed(table, secrets, tmp_path):
    """The words of a release."""
    return (
        *("release", table, "--label", "y", "--classes", ",".join(secrets), "--epsilon", 1, "--keep", "all"),
        *("--unit", "row", "--output", tmp_path / "out"),
    )


PROBLEMS = {"pipe": GONE, "disk": FULL, "closed": ValueError("closed")}
BROKEN = (
    *("pipe-stdout-0-text", "disk-stdout-0-text", "closed-stdout-0-text", "disk-stdout-1-text", "pipe-stdout-2-text"),
    *("disk-stdout-0-json", "pipe-stderr-0-text", "disk-stderr-1-json"),
)


@pytest.mark.parametrize("case", BROKEN)
def test_a_finished_release_ends_well(case, typed, monkeypatch, tmp_path):
    """Whatever stream breaks, and whenever, the release stands and the exit code is 0; a lost text is a warning."""
    name, stream, after, form = case.split("-")
    problem, after = PROBLEMS[name], int(after)
    code, other = ran(monkeypatch, stream, problem, after, *typed, *(["--json"] if form == "json" else []))
    assert code == 0
    assert main(["verify", str(tmp_path / "out")]) == 0
    assert ("warning: expected to print the result" in other) <= (stream == "stdout" and problem is FULL)
    if (stream, after, problem) == ("stdout", 0, FULL):
        assert "found: No space left on device" in other


@pytest.mark.parametrize("problem", [GONE, FULL], ids=["pipe", "disk"])
@pytest.mark.parametrize("json_", [[], ["--json"]], ids=["text", "json"])
def test_a_verdict_stays_what_it_is(problem, json_, typed, monkeypatch, tmp_path):
    """A release that does not verify ends with 1, whoever reads; one that does is no result where the disk is full."""
    assert main([str(each) for each in typed]) == 0
    code, other = ran(monkeypatch, "stdout", problem, 0, "verify", tmp_path / "out", *json_)
    assert code == (2 if problem is FULL else 0)
    assert ("error: expected to print the result" in other) == (problem is FULL)
    shutil.copy(tmp_path / "out" / "_certificate.json", tmp_path / "out" / "more.json")
    assert ran(monkeypatch, "stdout", problem, 0, "verify", tmp_path / "out", *json_)[0] == 1


def test_an_error_stays_an_error(monkeypatch, tmp_path):
    """A command that fails ends with its code, whether or not its message could be printed."""
    for stream in ("stdout", "stderr"):
        assert ran(monkeypatch, stream, FULL, 0, "verify", tmp_path / "none")[0] == 1


@pytest.mark.parametrize("answer", [[], ["--buy", "0.1"]], ids=["plan", "answer"])
def test_a_plan_is_what_it_prints_unless_it_pays(answer, table, secrets, monkeypatch, tmp_path):
    """A plan on a full disk is an error; one that bought an answer has made something, and ends well."""
    typed = ("plan", table, "--label", "y", "--classes", ",".join(secrets), "--epsilon", 1, "--unit", "row")
    more = (*answer, "--keep", "all", "--output", tmp_path / "a") if answer else ()
    assert ran(monkeypatch, "stdout", FULL, 0, *typed, *more)[0] == (0 if answer else 2)


SLOW = [pytest.mark.slow]


@pytest.mark.parametrize(
    "where", ["pipe", *(pytest.param(each, marks=SLOW) for each in ("first line", "closed", "full"))]
)
def test_a_process_ends_well(where, typed, tmp_path):
    """The interpreter does not fail at its end either, when it writes what is still waiting."""
    command = ["sh", "-c", 'exec "$@"' + {"closed": " >&-", "full": " >/dev/full"}.get(where, "")]
    command += ["sh", sys.executable, "-m", "labeldp", *map(str, typed)]
    if where == "full" and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=buffered) as process:
        if where == "first line":
            assert process.stdout.readline().startswith("Released 30 rows")
        process.stdout.close()
        errors = process.stderr.read()
    assert process.returncode == 0
    assert "Error" not in errors
    assert ("found: No space left on device" in errors) == (where == "full")
    assert main(["verify", str(tmp_path / "out")]) == 0
