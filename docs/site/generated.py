"""Pages that are written of the code before others are read: names by group, commands, schemas; and llms.txt."""

import ast
import importlib
import inspect
import json
import re
from pathlib import Path

import architecture
import typer

from labeldp.cli import COMMANDS, app
from labeldp.release import table_mechanisms

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "docs" / "generated"
_TABLE = re.compile(r"((?:^\| .*\n)+)", re.MULTILINE)
_NAME = re.compile(r"^\| `(\w+)` \| ", re.MULTILINE)
_PARAGRAPH = re.compile(r"^(?![#>|\-*`\[!:(]|    )(.+?)$", re.MULTILINE)


def groups():
    """The groups of docs/reference.md: the package, a title, and the names of each table."""
    sections = re.split(r"^## ", (ROOT / "docs/reference.md").read_text("utf-8"), flags=re.MULTILINE)
    for section in sections:
        title = re.match(r"`([\w.]+)`\n", section)
        before, *parts = _TABLE.split(section)
        for table, following in zip(parts[::2], parts[1::2], strict=True):
            words = before.strip().splitlines()[-1] if title else ""
            if title and _NAME.findall(table):
                yield title[1], words, _NAME.findall(table)
            before = following


def reference_pages():
    """One page for each group, with the docstring of each name."""
    for number, (package, words, names) in enumerate(groups()):
        title = re.split(r"[:.;(]", words)[0].strip() if package == "labeldp" else package
        parts = [f"# {title}", f"`from {package} import ...`: {words}" if package == "labeldp" else words]
        for name in names:
            thing = getattr(importlib.import_module(package), name)
            parts.append(f"## {name}\n\n```{{eval-rst}}\n{directive(package, name, thing)}\n```")
        yield f"names-{number:02d}-{re.sub(r'[^a-z]+', '-', title.lower()).strip('-')}", "\n\n".join(parts)


def directive(package, name, thing):
    """The autodoc directive of a name, with the methods of its own."""
    if inspect.isclass(thing):
        return f".. autoclass:: {package}.{name}\n   :members:"
    return f".. auto{'function' if callable(thing) else 'data'}:: {package}.{name}"


def command_page(name):
    """A command: what it does, how it is called, and each option, as searchable text."""
    command = typer.main.get_command(app([name]))
    context = typer.Context(command, info_name="labeldp")
    command = getattr(command, "commands", {name: command})[name]
    context = typer.Context(command, info_name=name, parent=context)
    parameters = [each for each in command.get_params(context) if each.name != "help"]
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    options = [each for each in parameters if each.param_type_name == "option" and not each.hidden]
    usage = " ".join(["labeldp", name, *(each.make_metavar(context) for each in arguments), "[OPTIONS]"])
    parts = [f"# labeldp {name}", f"```text\n{usage}\n```", plain(command.help)]
    for title, rows in (("Arguments", arguments), ("Options", options)):
        if rows:
            parts.append(f"## {title}\n\n" + "\n".join(described(each, context) for each in rows))
    return "\n\n".join(parts)


def described(parameter, context):
    """An argument or an option, and its help."""
    values = "" if getattr(parameter, "is_flag", False) else f" {parameter.make_metavar(context)}"
    spelled = ", ".join(parameter.opts) + values if parameter.param_type_name == "option" else values.strip()
    required = " Required." if parameter.required and parameter.param_type_name == "option" else ""
    return f"`{spelled}`\n: {plain(parameter.help)}{required}\n"


def plain(text):
    """A text of the command line as Markdown that shows each of its letters."""
    return re.sub(r"([\\`*_<>\[\]{}|#~$])", r"\\\1", text or "")


def schema_pages():
    """One page for each schema."""
    for path in sorted((ROOT / "docs/schemas").glob("*.json")):
        schema = json.loads(path.read_text("utf-8"))
        about = schema.get("description", "")
        yield path.stem, f"# Schema of {path.stem}\n\n{about}\n\n```json\n{path.read_text('utf-8').strip()}\n```"


def example_pages():
    """One page for each example script."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text("utf-8")
        title = ast.get_docstring(ast.parse(text)).partition(":")[0].partition("\n")[0].rstrip(".")
        yield path.stem.replace("_", "-"), f"# {title}\n\n`examples/{path.name}`\n\n```python\n{text.strip()}\n```"


def listing(title, pages, words):
    """A page that lists others."""
    lines = "\n".join(pages)
    return f"# {title}\n\n{words}\n\n```{{toctree}}\n:maxdepth: 1\n\n{lines}\n```"


def write_pages(_app=None):
    """Write the pages that have changed, and remove those that are no more."""
    names, schemas = dict(reference_pages()), {f"schema-{name}": text for name, text in schema_pages()}
    commands = {f"labeldp-{name}": command_page(name) for name in COMMANDS}
    commands["labeldp-mechanisms"] += "\n\n## Mechanisms\n\n" + "\n".join(
        f"`{name}`\n: {plain(each.about)}.\n" for name, each in sorted(table_mechanisms().items())
    )
    examples = {f"example-{name}": text for name, text in example_pages()}
    pages = {
        **names, **commands, **schemas, **examples,
        "names": listing("Names by group", names, "Each name with its arguments, its guarantee and an example."),
        "commands": listing("Commands", commands, "Each command with all its options, as `--help` prints them."),
        "examples": listing("Example scripts", examples, "Whole scripts, each on one question, all tested."),
        "schemas": listing("Schemas", schemas, "JSON Schemas of what commands print with `--json`."),
    }  # fmt: skip
    PLACE.mkdir(exist_ok=True)
    pages["architecture"], picture = architecture.page()
    (PLACE / "architecture.svg").write_text(picture, "utf-8")
    for path in {*PLACE.glob("*.md")} - {PLACE / f"{name}.md" for name in pages}:
        path.unlink()
    for name, text in pages.items():
        path = PLACE / f"{name}.md"
        if not path.exists() or path.read_text("utf-8") != f"{text}\n":
            path.write_text(f"{text}\n", "utf-8")


def write_index_for_models(app, problem):
    """Write llms.txt: each page with its title and first sentence, and where its Markdown is."""
    if problem is not None or app.builder.name != "html":
        return
    lines = ["# labeldp", "", "> Label differential privacy for Python: release labels, and learn from them.", ""]
    for name, title in sorted(app.env.titles.items()):
        if not name.startswith("experiments/results/"):
            first = _PARAGRAPH.search(app.env.doc2path(name).read_text("utf-8"))
            words = "" if first is None else f": {first[1]}"
            lines.append(f"- [{title.astext()}](_sources/{name}.md.txt){words}")
    Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def setup(app):
    """Write pages before others are read, and the index after."""
    app.connect("builder-inited", write_pages)
    app.connect("build-finished", write_index_for_models)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
