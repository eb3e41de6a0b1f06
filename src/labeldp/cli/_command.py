"""Commands from functions: parameters are arguments and options, and docstrings are their help."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NewType, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperOption

from labeldp._checks import is_address
from labeldp.errors import InputError

#: Values of options that others declare, by name, as a parameter in ``Annotated``.
Declared = dict[str, Any]
#: In ``Annotated``: what is appended to the help of an option; or, with ``Declared``, for each name the flag, the type
#: (``str``, ``float``, ``int`` or ``list``), the metavar and the help. Called when needed, since it may load much.
More = Callable[[], Any]

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


def _place(text: str | Path) -> Any:
    """Parse a path, or an address of an object store."""
    if not is_address(text):
        return Path(text)
    from labeldp.release.tables import place_of  # noqa: PLC0415 (it loads Arrow)

    try:
        return place_of(text)
    except InputError as problem:
        raise typer.BadParameter(str(problem)) from None


if TYPE_CHECKING:
    from labeldp.release import tables

    Place = tables.Place
else:  #: A path, or the ``StorePath`` of an address; what that is, Arrow must be loaded to say.
    Place = NewType("Place", object)
#: The folder of a release: that of an address is a private copy, which is there while the command runs.
ReleaseFolder = NewType("ReleaseFolder", Path)
_PLACES = {hint: of for of in (Place, ReleaseFolder) for hint in (of, of | None, list[of], list[of] | None)}  # type: ignore[valid-type]

_NUMBERS: dict[type, Callable[..., float]] = {float: _number, int: _whole}
_METAVARS = {float: "NUMBER", int: "INTEGER"}


def add_command(app: typer.Typer, function: Callable[..., None]) -> None:
    """Add a function to an application as the command of its name.

    Positional parameters are arguments, keyword-only ones are options, and a parameter of a dataclass is one option for
    each field, in a panel of the help that is titled by the first line of its docstring. An option that is off by
    default is a flag. The ``Args`` sections of the function and of the dataclasses
    are the help: ``name (METAVAR): text``. A parameter annotated with an option of its own keeps its parser; one with
    a function gets the text that it returns appended to its help, and a ``Declared`` one has options of its own.
    """
    more: dict[str, More] = {}

    @functools.cache
    def declared(name: str, panel: str | None) -> list[Any]:
        """The options in the place of a ``Declared`` parameter, but for names that the command takes itself."""
        known, app = {parameter.name for parameter in parameters}, typer.Typer(add_completion=False)
        found = [_declared(each, *said, panel=panel) for each, said in more[name]().items() if each not in known]
        app.command()(_taking(lambda **_: None, found))
        return [each for each in typer.main.get_command(app).params if each.name != "help"]

    class Command(TyperCommand):
        """The command, whose options and help are complete when they are needed."""

        def get_params(self, ctx: Any) -> list[Any]:
            """Look up the options that others declare."""
            own: list[Any] = super().get_params(ctx)
            found = (declared(one.name, one.rich_help_panel) if _is_place(one) else [one] for one in own)
            return [each for those in found for each in those]

        def invoke(self, ctx: Any) -> Any:
            """Pass the values of options that others declare as one."""
            places: list[Any] = list(filter(_is_place, self.params))
            for each in places:
                values = {one.name: ctx.params.pop(one.name) for one in declared(each.name, each.rich_help_panel)}
                ctx.params[each.name] = {name: value for name, value in values.items() if value not in (None, [], ())}
            return super().invoke(ctx)

        def format_help(self, ctx: Any, formatter: Any) -> None:
            """Append the text of each function to the help of its option."""
            for option in self.params:
                if isinstance(option, TyperOption) and option.name in more and not option.hidden:
                    option.help = f"{option.help}\n\n{more[option.name]()}"
            super().format_help(ctx, formatter)

    @functools.wraps(function)
    def command(**values: Any) -> None:
        with ExitStack() as copies:
            function(**_gathered(function, values, copies))

    parameters = list(_parameters(function, more))
    app.command(function.__name__.rstrip("_"), help=documented(function)[0], cls=Command)(_taking(command, parameters))


def _is_place(parameter: Any) -> bool:
    """True for a parameter in whose place options are looked up."""
    return isinstance(parameter, TyperOption) and parameter.hidden


def _taking(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """The function with these parameters, as typer reads them."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


def _declared(
    name: str, flag: str, kind: type, metavar: str | None, text: str, *, panel: str | None
) -> inspect.Parameter:
    """The parameter of an option that others declare."""
    hint = _annotated(list[str] | None if kind is list else kind | None, metavar, text, typer.Option, flag, panel=panel)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)


def _parameters(owner: Callable[..., object], more: dict[str, More]) -> Iterator[inspect.Parameter]:
    """The parameters of a function or a dataclass, each as typer expects it."""
    hints, (about, texts) = get_type_hints(owner, include_extras=True), documented(owner)
    panel = about.partition(".")[0] if dataclasses.is_dataclass(owner) else None
    for name, parameter in inspect.signature(owner).parameters.items():
        hint = hints[name]
        if dataclasses.is_dataclass(hint):
            yield from _parameters(hint, more)  # type: ignore[arg-type]
            continue
        if get_origin(hint) is Annotated and inspect.isfunction(get_args(hint)[1]):
            hint, more[name] = get_args(hint)
        if hint == Declared:
            hint = Annotated[str, typer.Option(hidden=True, rich_help_panel=panel)]  # in the place of those looked up
        elif get_origin(hint) is Annotated:
            (kind, own), (metavar, text) = get_args(hint), texts[name]
            hint = Annotated[kind, typer.Option(parser=own.parser, metavar=metavar, help=text, rich_help_panel=panel)]
        else:
            argument = parameter.kind is not parameter.KEYWORD_ONLY and inspect.isfunction(owner)
            flag = () if argument else (f"--{name.strip('_').replace('_', '-')}",)
            hint = _annotated(hint, *texts[name], typer.Argument if argument else typer.Option, *flag, panel=panel)
        yield parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hint)


def _annotated(
    hint: Any, metavar: str | None, text: str, of: Callable[..., Any], *flag: str, panel: str | None = None
) -> Any:
    """The type of an argument or an option with its parser, its help, and the panel that this is shown in."""
    kind = next((kind for kind in _NUMBERS if hint in (kind, kind | None)), None)
    parsed: dict[str, Any] = {"metavar": metavar}
    if hint in _PLACES:
        parsed, hint = {"parser": _place, "metavar": metavar or "PATH"}, list[Any] if _is_list(hint) else Any
    if kind is not None:
        parsed, hint = {"parser": _NUMBERS[kind], "metavar": metavar or _METAVARS[kind]}, Any
    return Annotated[hint, of(*flag, help=text, rich_help_panel=panel, **parsed)]


def _gathered(owner: Callable[..., object], values: dict[str, Any], copies: ExitStack) -> dict[str, Any]:
    """The arguments of a function or a dataclass, from the values of all options; release folders are on a disk."""
    hints: dict[str, Any] = get_type_hints(owner, include_extras=True)
    given: dict[str, Any] = {}
    for name in inspect.signature(owner).parameters:
        if dataclasses.is_dataclass(hints[name]):
            given[name] = hints[name](**_gathered(hints[name], values, copies))
        elif _PLACES.get(hints[name]) is ReleaseFolder:
            given[name] = _on_disk(values[name], copies)
        else:
            _check_on_disk(name, values[name])
            given[name] = values[name]
    return given


def _check_on_disk(name: str, value: Any) -> None:
    """Refuse an address where there can only be a path, without repeating it: it may hold a password.

    Raises:
        InputError: A path begins as an address does.
    """
    for path in value if isinstance(value, list | tuple) else [value]:
        if isinstance(path, Path) and is_address(path):
            shown = name.strip("_").replace("_", "-")
            raise InputError(
                f"expected a path on a disk as {shown!r}, found an address; name one, and copy between it and the store"
            )


def _on_disk(value: Any, copies: ExitStack) -> Any:
    """A folder or several, each on a disk while the command runs."""
    if isinstance(value, list | tuple):
        return [_on_disk(each, copies) for each in value]
    if value is None or isinstance(value, Path):
        return value
    from labeldp.release.folder import local_copy  # noqa: PLC0415 (it loads Arrow)

    return copies.enter_context(local_copy(value))


def _is_list(hint: Any) -> bool:
    """True for the type of an argument that is given several times."""
    return any(get_origin(each) is list for each in (hint, *get_args(hint)))


def documented(owner: Callable[..., object]) -> tuple[str, dict[str, tuple[str | None, str]]]:
    """The text of a docstring, a line for each paragraph, and of each argument its metavar and help."""
    text, _, arguments = inspect.cleandoc(owner.__doc__ or "").partition("\n\nArgs:\n")
    _, *entries = _ENTRY.split(arguments)
    triples = zip(entries[::3], entries[1::3], entries[2::3], strict=True)
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return text, {name: (metavar, " ".join(words.split())) for name, metavar, words in triples}
