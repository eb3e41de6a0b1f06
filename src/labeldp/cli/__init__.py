"""The command line: a thin file for each command, or for a few that belong together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from labeldp.cli._command import add_command
from labeldp.cli._terminal import complain, complain_of, lasting_streams
from labeldp.errors import LabelDPError

__all__ = ["main"]

_INTERRUPTED = 130
_NOT_PRINTED = 2
_STATE = "an output that exists is complete"
_RELEASED = f"{_STATE}, and nothing else was released; labeldp ledger shows what was charged"
#: Commands that may charge a ledger.
_CHARGING = ("release", "import", "collect", "stages", "plan")
#: Commands whose result is what they print.
_PRINTING = (
    *("check", "verify", "audit", "evaluate", "describe", "effect", "coefficients"),
    *("plan", "mechanisms", "account", "ledger", "schema"),
)

#: Commands in the order of the help, each in a module of its name, or in that of another one.
COMMANDS = (
    *("demo", "check", "release", "declare", "import", "collect", "stages", "verify", "audit", "generator"),
    *("learn", "evaluate", "predict", "describe", "effect", "coefficients"),
    *("plan", "mechanisms", "account", "ledger", "key", "report", "card", "schema"),
)
#: Commands in the modules of others, with which they share what they need.
_TOGETHER = {
    "account": "ledger",
    "card": "report",
    "coefficients": "effect",
    "declare": "import",
    "describe": "effect",
    "evaluate": "predict",
    "key": "verify",
    "schema": "mechanisms",
}


def app(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command line with some commands, of which no others are loaded."""
    made = typer.Typer(
        help="Label differential privacy: release a table with a sensitive label, learn from it, and account for "
        "epsilon.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    made.callback(invoke_without_command=True)(_about)
    for name in names:
        module = import_module(f"labeldp.cli._{_TOGETHER.get(name, name)}")
        add_command(made, getattr(module, name, None) or getattr(module, f"{name}_"))
    return made


def _about(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    if version:
        from labeldp._version import __version__  # noqa: PLC0415 (reading it takes as long as a small command)

        typer.echo(f"labeldp {__version__}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code, which says what the command did, whatever happens to what it prints.

    A reader that goes away is no failure. A result that could not be printed is one where nothing else was made.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    with lasting_streams() as output:
        code = _completed(words)
        output.flush()
        if output.lost:
            printed_alone = words[:1] and words[0] in _PRINTING and not any(word.startswith("--buy") for word in words)
            complain(f"{'error' if printed_alone else 'warning'}: expected to print the result, found: {output.lost}")
            code = code or (_NOT_PRINTED if printed_alone else 0)
    return code


def _completed(words: list[str]) -> int:
    """Run a command and return its exit code. No error shows a traceback, which could contain a label."""
    state = _RELEASED if words[:1] and words[0] in _CHARGING else _STATE
    try:
        return _run(words)
    except LabelDPError as problem:
        complain_of(problem)
    except KeyboardInterrupt:
        complain(f"error: stopped; {state}")
        return _INTERRUPTED
    except OSError as problem:
        why = problem.strerror or type(problem).__name__
        where = f" ({problem.filename})" if isinstance(problem.filename, str) else ""
        complain(f"error: expected to read and write files, found: {why}{where}; {state}")
    except Exception as problem:  # noqa: BLE001 (its text may hold a label, so only its type is shown)
        complain(f"error: an unexpected {type(problem).__name__}; {state}. Please report how to reproduce it")
    return 1


def _run(arguments: list[str]) -> int:
    """Parse and run a command, and return its exit code."""
    command = typer.main.get_command(app(arguments[:1] if arguments[:1] and arguments[0] in COMMANDS else COMMANDS))
    try:
        code = command.main(arguments, prog_name="labeldp", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as problem:
        show_usage = getattr(problem, "show", None)  # errors of the argument parser print themselves
        if show_usage is None:
            if isinstance(problem, ModuleNotFoundError) and problem.name and arguments[0] not in _CHARGING:
                from labeldp._extras import require_extra  # noqa: PLC0415 (seldom needed)

                require_extra("learn", problem.name.partition(".")[0])  # results of learners need pandas
            raise
        show_usage()
        return int(getattr(problem, "exit_code", 2))
    if code == _INTERRUPTED:
        raise KeyboardInterrupt
    return int(code or 0)
