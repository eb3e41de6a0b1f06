"""JSON that others send."""

import ast
import importlib.util
from pathlib import Path

import pytest

from labeldp._strict_json import MOST_DEPTH, strict_json


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1, "a": 2}', "a key twice"),
        ("[NaN]", "not finite"),
        ("[-Infinity]", "not finite"),
        ("[1e999]", "not finite"),
        ("[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1), "nested more than"),
        ('[{"a": ' * (MOST_DEPTH // 2) + "[]" + "}]" * (MOST_DEPTH // 2), "nested more than"),
        ("[" * 100_000, "too deep"),
        ("1" * 4001, "too long"),
    ],
)
def test_what_readers_would_understand_differently_is_refused(text, found):
    """Repeated keys, numbers that are not finite, deep nesting and long integers are named."""
    with pytest.raises(ValueError, match=found):
        strict_json(text)


def test_a_plain_document_is_read_as_json_reads_it():
    """Nesting up to the limit and numbers of every kind stay what they are; a shorter limit of digits holds."""
    deep = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert str(strict_json(deep)) == deep
    assert strict_json('{"a": [1, -2.5, null, true, "x"]}') == {"a": [1, -2.5, None, True, "x"]}
    assert strict_json("123", digits=3) == 123
    with pytest.raises(ValueError, match="too long"):
        strict_json("1234", digits=3)


def test_nothing_else_in_the_package_reads_json():
    """Every document that is read is read strictly; what the package wrote itself needs no reading."""
    package = Path(importlib.util.find_spec("labeldp").submodule_search_locations[0])
    texts = [(path.name, path.read_text("utf-8")) for path in package.rglob("*.py")]
    nodes = [(name, node) for name, text in texts if "json" in text for node in ast.walk(ast.parse(text))]
    used = {(name, node.attr) for name, node in nodes if isinstance(node, ast.Attribute) and _is_json(node.value)}
    assert {name for name, attribute in used if attribute not in ("dumps", "JSONDecodeError")} == {"_strict_json.py"}
    assert not [name for name, node in nodes if isinstance(node, ast.ImportFrom) and node.module == "json"]


def _is_json(node):
    """True for the name of the module."""
    return isinstance(node, ast.Name) and node.id == "json"
