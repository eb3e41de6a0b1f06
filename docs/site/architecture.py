"""The page of the architecture: packages on their floors, drawn from what imports what."""

import importlib.machinery
import importlib.util
from functools import cache
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LOADER = importlib.machinery.SourceFileLoader("structure", str(ROOT / "scripts/structure"))
structure = importlib.util.module_from_spec(importlib.util.spec_from_loader(_LOADER.name, _LOADER))
_LOADER.exec_module(structure)

#: Files of the ground floor, which are shown as one box.
GROUND = "(ground)"
_WIDE, _HIGH, _GAP = 118, 44, 30
_WORDS = """# Architecture

{count} packages, and the files of the ground, on the floors on which imports put them: a package is above all that it
imports. `scripts/structure` computes this from the source, and refuses circles. [Packages](../design/packages.md)
explains each, and [a day in the code](../design/a-day.md) follows one label through them.

![Packages on their floors, with a line from each to those that it imports](architecture.svg)

| package | files | lines of code | imports |
| --- | ---: | ---: | --- |
{rows}
"""


def part_of(module):
    """The package of a module: a folder of the library, or the ground."""
    first = module.split(".")[1] if "." in module else ""
    return first if (ROOT / "src/labeldp" / first / "__init__.py").exists() and first else GROUND


@cache
def packages():
    """The packages, each with the packages that it imports, and its files."""
    modules = structure.modules_in(ROOT / "src")
    needs, files = {}, {}
    for name, needed in structure.arrows_of(modules).items():
        if name not in ("labeldp", "labeldp.__main__"):  # the doors, which name everything
            needs.setdefault(part_of(name), set()).update(part_of(each) for each in needed if each != "labeldp")
            files.setdefault(part_of(name), []).append(modules[name])
    needs[GROUND] = set()  # a result that a notebook shows asks for what renders it, late
    return {name: needed - {name} for name, needed in needs.items()}, files


def floors(needs):
    """The floor of each package, the ground being 0."""
    found = {}
    for name in TopologicalSorter(needs).static_order():
        found[name] = 1 + max((found[each] for each in needs[name]), default=-1)
    return found


def drawing(needs):
    """The packages as boxes on their floors, with a line for each import of another package than the ground."""
    high = floors(needs)
    rows = {floor: [name for name in needs if high[name] == floor] for floor in range(max(high.values()) + 1)}
    widest, top = max(map(len, rows.values())), max(rows)
    width = widest * (_WIDE + _GAP)
    places = {
        name: (width / 2 + (at - (len(row) - 1) / 2) * (_WIDE + _GAP), (top - floor) * (_HIGH + _GAP) + _HIGH / 2 + 4)
        for floor, row in rows.items()
        for at, name in enumerate(row)
    }
    form = '<line x1="{:.0f}" y1="{:.0f}" x2="{:.0f}" y2="{:.0f}" stroke="#7aa" stroke-width="1.2"/>'
    lines = [form.format(*places[name], *places[each]) for name in needs for each in sorted(needs[name] - {GROUND})]
    box = (
        '<rect x="{:.0f}" y="{:.0f}" width="{}" height="{}" rx="5" fill="#e3efec" stroke="#0d6661"/>'
        '<text x="{:.0f}" y="{:.0f}" text-anchor="middle" font-family="sans-serif" font-size="15">{}</text>'
    )
    boxes = [
        box.format(x - _WIDE / 2, y - _HIGH / 2, _WIDE, _HIGH, x, y + 5, escape(name))
        for name, (x, y) in places.items()
    ]
    size = f"0 0 {width:.0f} {(top + 1) * (_HIGH + _GAP):.0f}"
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}">{"".join(lines + boxes)}</svg>\n'


def page():
    """The page, and its drawing."""
    needs, files = packages()
    high = floors(needs)
    rows = []
    for name in sorted(needs, key=lambda name: (-high[name], name)):
        lines = sum(structure.lines_of_code(path.read_text("utf-8")) for path in files[name])
        imported = ", ".join(f"`{each}`" for each in sorted(needs[name]))
        rows.append(f"| `{name}` | {len(files[name])} | {lines:,} | {imported} |")
    return _WORDS.format(count=len(needs) - 1, rows="\n".join(rows)), drawing(needs)
