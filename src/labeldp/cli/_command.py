"""Commands from functions: parameters are arguments and options, and docstrings are their help."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperOption

#: Appends to the help of an option, in ``Annotated``; called when the help is shown, since it may load much.
MoreHelp = Callable[[], str]

_ENTRY = re.compile(r"^    (\w+)(?: \((\S+)\))?: ", re.MULTILINE)


def _number(text: str | float) -> float:
    """Parse a number; a default is one already."""
    try:
        return float(text)
    except ValueError:
        comma = f"; write {str(text).replace(',', '.')}, with a point" if str(text).count(",") == 1 else ""
        raise typer.BadParameter(f"expected a number, such as 0.5, found {text!r}{comma}") from None


def _whole(text: str | int) -> int:
    """Parse a whole number; a default is one already."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"expected a whole number, such as 1000, found {text!r}") from None


_NUMBERS: dict[type, Callable[..., float]] = {float: _number, int: _whole}
_METAVARS = {float: "NUMBER", int: "INTEGER"}


def add_command(app: typer.Typer, function: Callable[..., None]) -> None:
    """Add a function to an application as the command of its name.

    Positional parameters are arguments, keyword-only ones are options, and a parameter of a dataclass is one option for
    each field. An option that is off by default is a flag. The ``Args`` sections of the function and of the dataclasses
    are the help: ``name (METAVAR): text``. A parameter annotated with an option of its own keeps it; one annotated with
    a function gets the text that it returns appended to its help.
    """
    more: dict[str, MoreHelp] = {}

    class Command(TyperCommand):
        """The command, whose help is complete when it is shown."""

        def format_help(self, ctx: Any, formatter: Any) -> None:
            """Append the text of each function to the help of its option."""
            for option in self.params:
                if isinstance(option, TyperOption) and option.name in more:
                    option.help = f"{option.help}\n\n{more[option.name]()}"
            super().format_help(ctx, formatter)

    @functools.wraps(function)
    def command(**values: Any) -> None:
        function(**_gathered(function, values))

    parameters = list(_parameters(function, more))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.command(help=_sections(function)[0], cls=Command)(command)


def _parameters(owner: Callable[..., object], more: dict[str, MoreHelp]) -> Iterator[inspect.Parameter]:
    """The parameters of a function or a dataclass, each as typer expects it."""
    hints, (_, texts) = get_type_hints(owner, include_extras=True), _sections(owner)
    for name, parameter in inspect.signature(owner).parameters.items():
        hint = hints[name]
        if dataclasses.is_dataclass(hint):
            yield from _parameters(hint, more)  # type: ignore[arg-type]
            continue
        if get_origin(hint) is Annotated and inspect.isfunction(get_args(hint)[1]):
            hint, more[name] = get_args(hint)
        if get_origin(hint) is not Annotated:
            metavar, text = texts[name]
            argument = parameter.kind is not parameter.KEYWORD_ONLY and inspect.isfunction(owner)
            flag = () if argument else (f"--{name.strip('_').replace('_', '-')}",)
            kind = next((kind for kind in _NUMBERS if hint in (kind, kind | None)), None)
            parsed: dict[str, Any] = {"metavar": metavar}
            if kind is not None:
                parsed, hint = {"parser": _NUMBERS[kind], "metavar": metavar or _METAVARS[kind]}, Any
            hint = Annotated[hint, (typer.Argument if argument else typer.Option)(*flag, help=text, **parsed)]
        yield parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hint)


def _gathered(owner: Callable[..., object], values: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a function or a dataclass, from the values of all options."""
    hints: dict[str, Any] = get_type_hints(owner, include_extras=True)
    return {
        name: hints[name](**_gathered(hints[name], values)) if dataclasses.is_dataclass(hints[name]) else values[name]
        for name in inspect.signature(owner).parameters
    }


def _sections(owner: Callable[..., object]) -> tuple[str, dict[str, tuple[str | None, str]]]:
    """The text of a docstring, and of each argument its metavar and help."""
    text, _, arguments = inspect.cleandoc(owner.__doc__ or "").partition("\n\nArgs:\n")
    _, *entries = _ENTRY.split(arguments)
    triples = zip(entries[::3], entries[1::3], entries[2::3], strict=True)
    return text, {name: (metavar, " ".join(words.split())) for name, metavar, words in triples}
