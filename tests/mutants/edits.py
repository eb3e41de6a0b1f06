"""The tables of mutants, and the places of the package that their edits change.

A section of a table is a file of tests, and a key in it a mutant: what is broken, in words. Its value lists the numbers
of the failure modes that it would bring back (none where accuracy alone is broken), the tests of the file that must
fail, and its edits. A test has a node id without parameters or with them; one of another file begins with its path.

An edit says where, what stands there, and what stands there instead. Where is the qualified name of a function, a
class or an assigned name: ``Release.concat``, ``best_randomizer``. What stands there must occur exactly once in all of
that name, and is compared by tokens: blanks, line breaks, comments, and commas before a closing bracket do not matter.
So a mutant stays as it is where its function moves, is formatted, or gets other neighbours. Where it would occur in two
of one name, the module stands before it, as in ``_curator:labels`` or ``curator._curator:labels``; ``_curator:`` is all
of that module. A function in C has the name of its file before it, as in ``labels:draw_response``. In a file of another
kind, where is its path.
"""

import ast
import collections
import difflib
import importlib.util
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(importlib.util.find_spec("labeldp").submodule_search_locations[0])
FOLDER = Path(__file__).parent
TOKEN = re.compile(
    r"""(?P<blank>\s+|\\\n|\#[^\n]*)
    |(?i:\b[rbfu]{1,2})?(?:\"{3}(?s:.)*?\"{3}|'{3}(?s:.)*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |\d[\w.]*|\w+|\*\*=?|//=?|>>=?|<<=?|[-+*/%&|^=<>!:@]=|->|.""",
    re.VERBOSE,
)

#: A definition: from its first line, which is not indented, to a brace that stands alone or ends the line.
FUNCTION_IN_C = re.compile(r"^[a-zA-Z_][^;#={}]*?\b(\w+)\([^;{}]*\) \{(?:[^\n]*\}$|.*?^\}$)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Edit:
    """What stands in a function, and what stands there instead."""

    where: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A broken version of the package and the tests that must fail on it."""

    name: str
    failures: tuple[int, ...]
    tests: tuple[str, ...]
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Place:
    """A part of a file of the package, from one character to another."""

    file: str
    start: int
    end: int


def mutants_in(text):
    """The mutants of a table."""
    found = []
    for file, section in tomllib.loads(text).items():
        for name, (failures, tests, *edits) in section.items():
            named = [tests] if isinstance(tests, str) else tests
            ids = tuple(test if "::" in test else f"{file}::{test}" for test in named)
            found.append(Mutant(name, tuple(failures), ids, tuple(Edit(*edit) for edit in edits)))
    return found


def all_mutants():
    """The mutants of all tables."""
    return [each for path in sorted(FOLDER.glob("*.toml")) for each in mutants_in(path.read_text(encoding="utf-8"))]


@cache
def text_of(file):
    """The text of a file of the package."""
    return (PACKAGE / file).read_text(encoding="utf-8")


def definitions(node, prefix=""):
    """Each name that a module or a class defines, and the statement that does."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield prefix + child.name, child
            if isinstance(child, ast.ClassDef):
                yield from definitions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.Assign | ast.AnnAssign):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            names = (name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
            yield from ((prefix + name.id, child) for name in names)
        elif isinstance(child, ast.If | ast.Try):
            yield from definitions(child, prefix)


def changed_functions(old, new):
    """The names of the functions in whose bodies alone two texts of a module differ; none if they differ elsewhere."""
    trees = ast.parse(old), ast.parse(new)
    before, after = ([pair for pair in definitions(tree) if isinstance(pair[1], ast.FunctionDef)] for tree in trees)
    names = [name for name, _ in before]
    if names != [name for name, _ in after]:
        return []
    changed = []
    for (name, one), (_, other) in zip(before, after, strict=True):
        if ast.dump(one) != ast.dump(other):
            one.body = other.body = []
            changed.append(name)
    alike = ast.dump(trees[0]) == ast.dump(trees[1]) and all(names.count(name) == 1 for name in changed)
    return changed if alike else []


@cache
def places():
    """The places of each qualified name, and of each with its module before it."""
    found = collections.defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.[ch]")):
        for each in FUNCTION_IN_C.finditer(path.read_text(encoding="utf-8")):
            found[f"{path.stem}:{each[1]}"].append(Place(path.relative_to(PACKAGE).as_posix(), *each.span()))
    for path in sorted(PACKAGE.rglob("*.py")):
        file, text = path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        module = path.parent.name if path.stem == "__init__" else path.stem
        modules = (module, f"{path.parent.name}.{module}")
        for prefix in modules:
            found[f"{prefix}:"].append(Place(file, 0, len(text)))
        for name, node in definitions(ast.parse(text)):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
            place = Place(file, starts[first - 1], starts[node.end_lineno])
            for prefix in ("", *(f"{each}:" for each in modules)):
                found[prefix + name].append(place)
    return dict(found)


def places_of(where):
    """The places that a name or a path means; LookupError says what to write instead where there is none."""
    if (PACKAGE / where).is_file():
        return [Place(where, 0, len(text_of(where)))]
    if where not in places():
        near = ", ".join(difflib.get_close_matches(where, places(), 4)) or "none"
        raise LookupError(f"nothing in the package is called {where}: name what does its work now (alike: {near})")
    return places()[where]


def tokens(text):
    """The text, start and end of each token, without commas before a closing bracket."""
    found = [(each[0], *each.span()) for each in TOKEN.finditer(text) if not each["blank"]]
    following = [token[0] for token in found[1:]] + [""]
    pairs = zip(found, following, strict=False)
    return [token for token, after in pairs if token[0] != "," or after not in {")", "]", "}"}]


def matches(old, text):
    """Where the tokens of one text occur in another."""
    sought, found = [token[0] for token in tokens(old)], tokens(text)
    words = [token[0] for token in found]
    size = len(sought)
    return [
        (found[i][1], found[i + size - 1][2]) for i in range(len(words) - size + 1) if words[i : i + size] == sought
    ]


def occurrences(edit, place):
    """Where the text of an edit occurs in a place: file, start and end."""
    part = text_of(place.file)[place.start : place.end]
    found = matches(edit.old, part)
    if not place.file.endswith((".py", ".c", ".h")):
        found = [each.span() for each in re.finditer(re.escape(edit.old), part)]
    return [(place.file, place.start + start, place.start + end) for start, end in found]


def change(edit):
    """The file of an edit, from where to where its text goes, and what comes instead."""
    named = places_of(edit.where)
    found = [each for place in named for each in occurrences(edit, place)]
    if len(found) != 1:
        files = ", ".join(place.file for place in named)
        raise LookupError(
            f"{edit.where} in {files} has changed: {edit.old!r} occurs {len(found)} times in it; "
            "break the same thing where it is done now, by a text that occurs once"
        )
    file, start, end = found[0]
    line = text_of(file)[text_of(file).rfind("\n", 0, start) + 1 : start]
    indentation = line[: len(line) - len(line.lstrip())]
    return file, start, end, edit.new.replace("\n", f"\n{indentation}")


def edited(mutant):
    """The text of each file of the package that a mutant changes, once it is changed."""
    try:
        changes = sorted(map(change, mutant.edits), reverse=True)
    except LookupError as error:
        raise AssertionError(f"the mutant {mutant.name!r}: {error.args[0]}") from None
    texts = {}
    for file, start, end, new in changes:
        text = texts.get(file, text_of(file))
        texts[file] = text[:start] + new + text[end:]
    return texts


def files_of(mutant):
    """The files of the package that a mutant changes."""
    return {change(edit)[0] for edit in mutant.edits}
