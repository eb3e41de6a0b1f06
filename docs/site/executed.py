"""Pages that run: each Python or R block and each command, as a reader would paste them into an empty folder.

python docs/site/executed.py PAGE     runs a page here, and prints what it prints as JSON
"""

import ast
import contextlib
import hashlib
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Pages whose output the site shows; learning.md and tools.md take minutes, and their output is figures in tables.
SHOWN = re.compile(r"docs/guide/(?!learning|tools)[\w-]+")
_BLOCK = re.compile(r"^```(python|console|r)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_KEPT = ROOT / "build" / "docs" / "outputs"
_MOST_LINES = 60


def blocks(text):
    """The blocks of a page that run, each with its kind."""
    return [(found[1], found[2]) for found in _BLOCK.finditer(text)]


def absent(text):
    """What this machine lacks to run a page: libraries that its Python imports, and R."""
    found = []
    for kind, code in blocks(text):
        for node in ast.walk(ast.parse(code)) if kind == "python" else ():
            found += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            found += [node.module] if isinstance(node, ast.ImportFrom) else []
    absent = [name for name in {name.partition(".")[0] for name in found} if importlib.util.find_spec(name) is None]
    return sorted(absent) + ["R"] * (any(kind == "r" for kind, _ in blocks(text)) and shutil.which("Rscript") is None)


def commands(code):
    """The commands of a console, as they are written; not what it prints."""
    return re.findall(r"^\$ (labeldp (?:.*\\\n)*.*)$", code, re.MULTILINE)


def type_commands(code, _names):
    """Run the commands of a console, each printed before what it prints."""
    from labeldp.cli import main  # noqa: PLC0415 (a page without commands needs it not)

    for place, command in enumerate(commands(code)):
        sys.stdout.write("\n" * bool(place) + f"$ {command}\n")
        words = shlex.split(command.replace("\\\n", ""), comments=True)[1:]
        if (code := main(words)) != 0:
            raise RuntimeError(f"expected exit code 0 of {words}, found {code}")


def run(text):
    """Run the blocks of a page in this folder, in which they may write; what each prints, and its new pictures."""
    names, outputs = {"__name__": "__main__"}, []
    for kind, code in blocks(text):
        before, printed = {*Path().rglob("*.svg")}, io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            RUNNERS[kind](code, names)
        pictures = [path.read_text("utf-8") for path in sorted({*Path().rglob("*.svg")} - before)]
        lines = printed.getvalue().replace(f"{Path.cwd()}/", "").splitlines()
        outputs.append(("".join(f"{line.rstrip()}\n" for line in lines), pictures))
    return outputs


def paste(code, names):
    """Run a block as a notebook does: the value of a last expression is shown."""
    body = ast.parse(code).body
    last = [body.pop()] if isinstance(body[-1], ast.Expr) else []
    for tree, mode in ((ast.Module(body, []), "exec"), (ast.Interactive(last), "single")):
        exec(compile(tree, "a page", mode), names)  # noqa: S102 (the text is ours)


def source_in_r(code, _names):
    """Run a block of R in a process of its own."""
    done = subprocess.run(["Rscript", "-"], input=code, capture_output=True, text=True, check=False)  # noqa: S607
    if done.returncode:
        raise RuntimeError(f"expected R code that runs, found\n{done.stderr}")
    sys.stdout.write(done.stdout)


#: What runs a block of each kind: its code, and the names of the page's Python.
RUNNERS = {"python": paste, "console": type_commands, "r": source_in_r}


@cache
def version():
    """A hash of the source of the package: what pages print may change with it."""
    files = sorted(path for kind in ("py", "c") for path in (ROOT / "src").rglob(f"*.{kind}"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def outputs_of(text):
    """The outputs of a page, from the last time that the same page ran on the same package."""
    kept = _KEPT / f"{hashlib.sha256(f'{version()}{blocks(text)}'.encode()).hexdigest()}.json"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.md")
            page.write_text(text, "utf-8")
            source = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "88", "NO_COLOR": "1"}
            ran = [sys.executable, __file__, str(page)]
            done = subprocess.run(ran, cwd=folder, env=source, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise RuntimeError(f"expected a page that runs, found\n{done.stderr[-2000:]}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(done.stdout, "utf-8")
    return json.loads(kept.read_text("utf-8"))


def shown(name, text):
    """A page with what its blocks print below them, its pictures, and a link to it as a notebook."""
    outputs = iter(outputs_of(text))
    place = ROOT / "docs" / "generated"
    notebook = place / f"{Path(name).name}.ipynb"
    notebook.write_text(json.dumps(as_notebook(text), indent=1), "utf-8")

    def with_output(found):
        printed, pictures = next(outputs)
        lines = printed.rstrip().splitlines()
        lines = [*lines[:_MOST_LINES], *(["..."] if len(lines) > _MOST_LINES else [])]
        if found[1] == "console":  # the page may have the beginning of what it prints
            parts = ["```console", *lines, "```", ""]
        else:
            parts = [found[0], *(["```text", *lines, "```", ""] if lines else [])]
        for picture in pictures:
            path = place / f"{hashlib.sha256(picture.encode()).hexdigest()[:16]}.svg"
            path.write_text(picture, "utf-8")
            parts += [f"![A picture that this block wrote](../generated/{path.name})", ""]
        return "\n".join(parts)

    link = f"{{download}}`As a notebook <../generated/{notebook.name}>`"
    title, _, below = _BLOCK.sub(with_output, text).partition("\n")
    return f"{title}\n\n{link}\n{below}"


def as_notebook(text):
    """A page as a notebook: prose, Python, and commands with an exclamation mark."""
    cells, place = [], 0
    for found in _BLOCK.finditer(text):
        code = {
            "python": found[2],
            "console": "\n".join(f"!{each}" for each in commands(found[2])),
            "r": f"%%script Rscript -\n{found[2]}",
        }[found[1]]
        cells += [("markdown", text[place : found.start()]), ("code", code)]
        place = found.end()
    cells.append(("markdown", text[place:]))
    more = {"markdown": {}, "code": {"execution_count": None, "outputs": []}}
    return {
        "cells": [
            {"cell_type": kind, "id": f"cell-{at}", "metadata": {}, "source": source.strip(), **more[kind]}
            for at, (kind, source) in enumerate(cells)
            if source.strip()
        ],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def show_outputs(app, name, source):
    """Show what a page prints, where it has something to run and what it needs is here."""
    if app.config.run_pages and SHOWN.fullmatch(name) and blocks(source[0]) and not absent(source[0]):
        source[0] = shown(name, source[0])


def run_all(app):
    """Run the pages that changed, as many at a time as there are processors: readers of pages have uneven shares."""
    paths = sorted(path for path in (ROOT / "docs/guide").glob("*.md") if app.config.run_pages)
    texts = [path.read_text("utf-8") for path in paths if SHOWN.fullmatch(f"docs/guide/{path.stem}")]
    texts = [text for text in texts if blocks(text) and not absent(text)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(outputs_of, sorted(texts, key=len, reverse=True)))


def setup(app):
    """Run pages before they are read."""
    app.add_config_value("run_pages", default=True, rebuild="env", types=bool)
    app.connect("builder-inited", run_all)
    app.connect("source-read", show_outputs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    json.dump(run(Path(sys.argv[1]).read_text("utf-8")), sys.stdout)
