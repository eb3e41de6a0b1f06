"""Documents of results: their schemas are promises, and what was saved is read back as it was.

``python tests/results/test_documents.py`` writes the schemas anew, once a key is to be added.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp import Interval
from labeldp._strict_json import UnreadError, absent, plain, read, schema
from labeldp.bounds import forecast, plan
from labeldp.results import JSON_COMMANDS, Planned, schema_of

SCHEMAS = Path(__file__).parents[2] / "docs/schemas"


@pytest.mark.parametrize("command", JSON_COMMANDS)
def test_a_schema_is_the_promise_that_is_committed(command):
    """What is derived from the types is what docs/schemas has, key by key: a changed type breaks a promise."""
    assert json.loads((SCHEMAS / f"{command}.json").read_text(encoding="utf-8")) == schema_of(command)


@dataclasses.dataclass(frozen=True)
class Inner:
    """A value with a range."""

    share: float

    def __post_init__(self):
        if self.share > 1:
            raise ValueError(self.share)


@dataclasses.dataclass(frozen=True, eq=False)
class Outer:
    """A value of every kind of type."""

    text: str
    count: int
    flag: bool
    pair: tuple[str, float]
    inner: tuple[Inner, ...]
    named: Mapping[str, Inner | None]
    kind: Literal["a", "b"]
    any: Any
    array: np.ndarray
    scalar: object = None
    left_out: Inner | None = absent()


INNER = st.builds(Inner, st.floats(0, 1))
OUTER = st.builds(
    Outer,
    text=st.text(max_size=5),
    count=st.integers(-5, 1 << 60),
    flag=st.booleans(),
    pair=st.tuples(st.text(max_size=2), st.floats(allow_nan=False, allow_infinity=False)),
    inner=st.lists(INNER, max_size=3).map(tuple),
    named=st.dictionaries(st.text(max_size=3), INNER | st.none(), max_size=3),
    kind=st.sampled_from("ab"),
    any=st.none() | st.lists(st.integers()),
    array=st.lists(st.floats(-1, 1), max_size=4).map(np.array),
    scalar=st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    left_out=INNER | st.none(),
)


@settings(deadline=None, max_examples=40)
@given(OUTER)
def test_what_was_written_is_read_back_and_is_of_the_schema(value):
    """For any value: reading turns JSON into an equal one, and the derived schema allows it."""
    jsonschema = pytest.importorskip("jsonschema", reason="it checks schemas")
    body = json.loads(json.dumps(plain(value)))
    assert ("left_out" in body) == (value.left_out is not None)
    jsonschema.Draft202012Validator(schema(Outer)).validate(body)
    assert plain(read(Outer, body | {"of a later version": 1})) == plain(value)


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("text", 1),
        ("count", 1.5),
        ("count", True),
        ("flag", 1),
        ("pair", ["a"]),
        ("pair", ["a", "b"]),
        ("inner", {"share": 1.0}),
        ("inner", [{"share": 2.0}]),
        ("inner", [{}]),
        ("named", [1]),
        ("kind", "c"),
        ("array", [[1], [1, 2]]),
        ("array", ["x"]),
        ("scalar", {}),
        ("left_out", []),
    ],
)
def test_what_is_of_another_type_is_not_read(key, wrong):
    """A stranger's file has the types of its fields and values that there can be, or is refused."""
    body = plain(Outer("a", 1, True, ("a", 1.0), (), {}, "a", None, np.zeros(2)))
    assert isinstance(read(Outer, body), Outer)
    with pytest.raises(UnreadError):
        read(Outer, body | {key: wrong})


def test_a_plan_is_read_back():
    """As it was computed."""
    for forecasts in (plan(3, 500, 1.0), forecast(Interval(0, 1, 0.5), 500, 1.0)):
        planned = Planned.of(forecasts)
        assert read(Planned, json.loads(json.dumps(plain(planned)))) == planned


def write_schemas():
    """Write the schemas of all commands anew."""
    SCHEMAS.mkdir(exist_ok=True)
    for command in JSON_COMMANDS:
        text = json.dumps(schema_of(command), indent=1)
        (SCHEMAS / f"{command}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    write_schemas()
