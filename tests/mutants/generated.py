"""Mutants of one token over the trust boundary: each comparison, sign, number or refusal there, wrong by one step.

Messages, annotations, decorators and texts stay as they are: what they say has tests of its own.
"""

import ast
import itertools
from dataclasses import dataclass

from edits import PACKAGE, TOKEN, definitions, text_of

FOLDERS = ("privacy", "mechanisms", "release")
PAIRS = (("<", "<="), (">", ">="), ("==", "!="), ("in", "not in"), ("is", "is not"), ("and", "or"), ("+", "-"))
SIGNS = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])} | {"*": "+", "/": "*", "//": "/", "%": "//"}
TWINS = (("min", "max"), ("minimum", "maximum"), ("any", "all"), ("floor", "ceil"), ("argmin", "argmax"))
NAMES = {one: other for pair in TWINS for one, other in (pair, pair[::-1])}
SIDES = {"left": '"right"', "right": '"left"'}  # of a search
TELLING = {"__repr__", "__str__", "_repr_html_"}


@dataclass(frozen=True)
class Change:
    """One token of a function that is another."""

    file: str
    function: str
    start: int
    end: int
    new: str

    @property
    def texts(self):
        """The text of the file with the change."""
        text = text_of(self.file)
        return {self.file: text[: self.start] + self.new + text[self.end :]}

    def __str__(self):
        text = text_of(self.file)
        first, last = text.rfind("\n", 0, self.start) + 1, text.find("\n", self.end)
        change = f"[{text[self.start : self.end]} -> {self.new or 'nothing'}]"
        line = " ".join(f"{text[first : self.start]}{change}{text[self.end : last]}".split())
        return f"{self.file}:{text.count(chr(10), 0, self.start) + 1} {self.function}: {line}"


def parts(node):
    """The parts of a node that may change."""
    match node:
        case ast.FunctionDef(name=name) if name in TELLING:
            return []
        case ast.FunctionDef():
            return [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]
        case ast.ClassDef():
            return node.body
        case ast.AnnAssign():
            return filter(None, [node.value])
        case ast.Raise() | ast.JoinedStr() | ast.Call(func=ast.Attribute(attr="warn")):
            return []
    return ast.iter_child_nodes(node)


def operands(node):
    """The nodes between which the signs of a node stand."""
    match node:
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.BoolOp():
            return node.values
        case ast.BinOp():
            return [node.left, node.right]
    return []


class Source:
    """A file of the package, in which nodes have places."""

    def __init__(self, file):
        self.text = text_of(file)
        self.lines = self.text.splitlines(keepends=True)
        self.starts = list(itertools.accumulate(map(len, self.lines), initial=0))

    def span(self, node):
        """The first character of a node and the one after its last."""
        places = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        return [self.starts[line - 1] + len(self.lines[line - 1].encode()[:byte].decode()) for line, byte in places]

    def sign(self, left, right):
        """The place of the sign between two nodes, and the sign."""
        found = TOKEN.finditer(self.text, self.span(left)[1], self.span(right)[0])
        sign = [each for each in found if not each["blank"] and each[0] not in {"(", ")", ","}]
        return sign[0].start(), sign[-1].end(), " ".join(each[0] for each in sign)

    def changes(self, node):
        """The changes of a node and of all in it: from where to where, and what comes there."""
        start, end = self.span(node) if hasattr(node, "lineno") else (0, 0)
        for left, right in itertools.pairwise(operands(node)):
            first, last, sign = self.sign(left, right)
            if sign in SIGNS:
                yield first, last, SIGNS[sign]
        match node:
            case ast.Raise():
                yield start, end, "pass"
            case ast.UnaryOp(op=ast.Not()):
                yield start, start + len("not"), ""
            case ast.Constant(value=bool(value)):
                yield start, end, str(not value)
            case ast.Constant(value=int(value)):
                yield start, end, str(value + 1)
            case ast.Constant(value=value) if value in SIDES:
                yield start, end, SIDES[value]
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in NAMES:
                last = self.span(node.func)[1]
                yield last - len(name), last, NAMES[name]
        for part in parts(node):
            yield from self.changes(part)


def changes_of(file):
    """The changes of one token in a file of the package, each in the innermost definition around it."""
    source = Source(file)
    tree = ast.parse(source.text)
    held = [(name, source.span(node)) for name, node in definitions(tree)]
    for start, end, new in source.changes(tree):
        around = [(until - since, name) for name, (since, until) in held if since <= start and end <= until]
        yield Change(file, min(around)[1] if around else "", start, end, new)


def all_changes():
    """Every change of one token over the trust boundary, file by file."""
    files = sorted(path.relative_to(PACKAGE).as_posix() for name in FOLDERS for path in (PACKAGE / name).rglob("*.py"))
    return [change for file in files for change in changes_of(file)]
