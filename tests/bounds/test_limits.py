"""Every bound that applies to a problem, in one list, and what a plan shows of it."""

import inspect
import json
import math
import re

import pytest

import labeldp.bounds
from labeldp import Classes, Interval
from labeldp.bounds import Conventions, Premises, limits, theorems
from labeldp.cli import main
from labeldp.errors import InputError
from labeldp.testing import check_result

PLANE = Conventions(dimension=2)
EVERYTHING = Premises(
    delta=1e-6,
    candidates=2,
    outside=0.05,
    heterogeneity=0.1,
    cluster_size=1,
    flipped=0.2,
    divergence=0.3,
    moments=3.0,
    moment=2.0,
)
#: Problems under which each bound applies at least once.
PROBLEMS = [
    (Classes(range(2)), "local"),
    (Classes(range(10)), "central"),
    (Interval(0, 100, 1), "local"),
    (Interval(0, 100, 1), "central"),
]


def found(space, trust, premises=EVERYTHING, epsilon=0.5):
    """The bounds of a problem with features."""
    return limits(space, 100_000, epsilon, trust=trust, conventions=PLANE, premises=premises).bounds


def test_every_theorem_is_reached(monkeypatch):
    """Each function of a theorem that gives a bound is called for some problem, or has a public name of its own."""
    called = set()
    functions = {name: getattr(theorems, name) for name in dir(theorems) if name.islower() and name[0] != "_"}
    giving = {name for name, each in functions.items() if inspect.get_annotations(each).get("return") == "Bound"}
    for name in giving:
        traced = lambda *args, _name=name, **more: called.add(_name) or functions[_name](*args, **more)  # noqa: E731
        monkeypatch.setattr(theorems, name, traced)
    for problem in PROBLEMS:
        found(*problem)
    assert len(giving) > 20
    assert giving - called - set(labeldp.bounds.__all__) == set()


@pytest.mark.parametrize(("space", "trust"), PROBLEMS)
def test_bounds_of_the_same_proven_quantity_do_not_cross(space, trust):
    """No proven lower bound of the excess loss is above a proven upper one, and each list is shown in every form."""
    listed = limits(space, 100_000, 0.5, trust=trust, conventions=PLANE, premises=EVERYTHING)
    convex = [each for each in listed.bounds if each.constants == "proven" and "excess loss" in each.statement]
    lower = max(each.value for each in convex if each.kind == "lower")
    assert all(lower <= each.value for each in convex if each.kind == "upper")
    check_result(listed)


def test_premises_that_are_not_stated_leave_their_bounds_out():
    """Without features, delta or clusters, only what rows, classes and epsilon decide is listed."""
    bare = {each.theorem for each in limits(Classes(range(2)), 1000, 0.5).bounds}
    every = {each.theorem for each in found(Classes(range(2)), "local")}
    assert bare < every
    missing = " ".join(every - bare)
    for each in ("Zhao", "proposition 11", "corollary 10", "theorem 4", "theorem 5", "theorem 7.1"):
        assert each in missing, each
    assert not re.search("Zhao|proposition 11|theorem 7.1", " ".join(bare))


def test_trust_decides_what_applies():
    """Bounds for labels that are randomized alone are no limits of a curator, who has Zhao's theorems 3 and 4."""
    local, central = ({each.theorem for each in found(Classes(range(10)), trust)} for trust in ("local", "central"))
    assert {"Zhao et al. 2025, theorem 1", "Chua et al. 2025, theorem 2"} <= local - central
    assert {"Zhao et al. 2025, theorem 3", "Esfandiari et al. 2022, corollary 2"} <= central - local
    with pytest.raises(InputError, match="trust model"):
        limits(Classes(range(2)), 10, 1.0, trust="peers")


def test_large_epsilons_have_the_bounds_that_hold_there():
    """Theorem 9 and corollary 10 hold up to epsilon 1, and are left out above."""
    small, large = ({each.theorem for each in found(Classes(range(10)), "local", epsilon=e)} for e in (1.0, 1.01))
    assert small - large == {f"Ghazi et al. 2021, {each}" for each in ("theorem 9", "corollary 10")}


def test_numbers_are_bounded_in_their_own_units():
    """A range that is ten times as long has errors that are a hundred times as large."""
    one, ten = (found(Interval(0, size, 1), "central", Premises()) for size in (10, 100))
    pairs = [(a.value, b.value) for a, b in zip(one, ten, strict=True) if "squared" in a.statement]
    assert len(pairs) == 2
    assert all(b == pytest.approx(100 * a, rel=1e-6) for a, b in pairs)


def test_a_plan_shows_limits_where_they_are_asked_for(capsys):
    """``plan --limits`` has every theorem in text and in JSON, and a plan without has none."""
    line = ["plan", "--classes", "3", "--rows", "1000", "--epsilon", "0.5", "--dimension", "2"]
    names = [each.theorem for each in limits(Classes(range(3)), 1000, 0.5, conventions=PLANE).bounds]
    main([*line, "--limits", "--json"])
    body = json.loads(capsys.readouterr().out)
    assert [each["theorem"] for each in body["limits"]["bounds"]] == names
    assert all(math.isfinite(each["value"]) for each in body["limits"]["bounds"])
    main([*line, "--json"])
    assert "limits" not in json.loads(capsys.readouterr().out)
    main([*line, "--limits"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in names)
