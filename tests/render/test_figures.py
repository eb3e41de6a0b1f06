"""Figures: written in the format that was asked for, with the numbers of the plan."""

import dataclasses
import re
import sys

import pytest

from labeldp import Charge, Guarantee
from labeldp.bounds import plan
from labeldp.bounds.planning._plan import EPSILONS
from labeldp.errors import InputError, MissingExtraError, OutputError
from labeldp.privacy.accounting import Composition, RowRanges
from labeldp.release import CombinedGuarantee
from labeldp.render import save_account_figure, save_lines, save_plan_figure
from labeldp.render._curves import curves
from labeldp.render._figures import by_sums, draw_lines, new_figure
from labeldp.results import account_text

STARTS = {"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF-"}
LINES = {f"line {i}": [(0.1, 0.0), (1.0, float(i))] for i in range(9)}


def save_plan(path):
    """The figure of a plan."""
    return save_plan_figure(plan(5, 100, 1.5), path)


def accounts(delta=0.0):
    """Charges for labels of awkward names, and some that may fail."""
    charge = Charge(Guarantee(0.5, delta), RowRanges.all(3))
    whole = Composition.of([(charge, None)] * 9)
    return [CombinedGuarantee(label, "row", ("x",), whole, 3, deltas=(1e-6,)) for label in ("_a", "$b", "[red]c^_{")]


def save_account(path):
    """The figure of what releases cost together."""
    return save_account_figure(accounts(), path)


def save_some(path):
    """A figure of lines."""
    return save_lines(LINES, path, "title", "x", "y")


@pytest.mark.parametrize("save", [save_plan, save_account, save_some])
@pytest.mark.parametrize("ending", STARTS)
def test_a_figure_is_written(tmp_path, save, ending):
    """PNG, SVG and PDF are what their endings say, and not empty."""
    path = save(tmp_path / f"figure.{ending}")
    assert path == tmp_path / f"figure.{ending}"
    assert path.read_bytes().startswith(STARTS[ending])
    assert path.stat().st_size > 2000


@pytest.mark.parametrize("save", [save_plan, save_account, save_some])
@pytest.mark.parametrize("name", ["figure.txt", "figure", "figure.", "none/figure.png"])
def test_a_figure_that_cannot_be_written(tmp_path, save, name):
    """Any other ending, none at all, or a missing folder is an OutputError, and no file appears."""
    with pytest.raises(OutputError, match=r"expected .* found"):
        save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_curves_are_the_numbers_of_the_plan():
    """Every point of a curve is an option's share at its epsilon in percent, and every option is a point."""
    found = plan(8, 1000, 1.5)
    lines = curves(found)
    assert set(lines) == {"randomized-response", "subset", "projective", "bits"}
    for line in lines.values():
        assert [epsilon for epsilon, _ in line] == sorted([*EPSILONS, 1.5])
    points = {point for line in lines.values() for point in line}
    options = [option for row in (*found.sweep, found.options) for option in row]
    assert points == {(option.epsilon, 100 * option.expected_share) for option in options}
    for option in found.options:
        assert (1.5, 100 * option.expected_share) in lines[option.mechanism]


def test_no_curve_hides_another(tmp_path):
    """Curves that cannot be told apart are one with both names, and of others each is thinner than those below it."""
    assert set(curves(plan(2, 1000, 1.0))) == {"randomized-response, subset", "projective", "bits"}
    _, axes = new_figure(tmp_path / "figure.svg")
    draw_lines(axes, curves(plan(8, 1000, 1.5)))
    widths = [line.get_linewidth() for line in axes.lines]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == len(widths) == 4


def test_every_curve_is_drawn(tmp_path):
    """An SVG names every mechanism in its legend, as text or as its comment."""
    text = save_plan(tmp_path / "figure.svg").read_text(encoding="utf-8")
    for name in [
        *curves(plan(5, 100, 1.5)),
        "epsilon 1.5",
        "5 equally common classes",
        "effective rows, in % of all rows",
    ]:
        assert re.search(re.escape(name), text)


def test_every_account_is_drawn(tmp_path):
    """Names that mean something to a plot are shown as they are; what fails has no curve, nothing has no figure."""
    text = save_account(tmp_path / "figure.svg").read_text(encoding="utf-8")
    for name in ("_a", "$b", "[red]c^_{"):
        assert f"fixed beforehand: {name}" in text.replace("\\$", "$")
        assert f"by sums: {name}" in text.replace("\\$", "$")
    failing = save_account_figure(accounts(0.1), tmp_path / "failing.svg").read_text(encoding="utf-8")
    assert "by sums" in failing
    assert "fixed beforehand" not in failing
    assert "in the table" in text
    assert "in the table" not in failing
    tables = [part for part in account_text(accounts(0.1)) if hasattr(part, "columns")]
    assert [[str(cell) for cell in table.columns[1].cells] for table in tables] == [["4.5", "none"]] * 3
    with pytest.raises(InputError, match="expected charges to draw"):
        save_account_figure([], tmp_path / "none.svg")


@pytest.mark.parametrize(
    ("delta", "deltas"), [(0.0, [1e-12, 1e-2]), (1e-5, [9e-5, 1e-2]), (0.1, [0.9, 0.9]), (0.2, [])]
)
def test_sums_are_drawn_where_they_hold(delta, deltas):
    """Below the sum of the deltas there is no epsilon by sums; where they add up to one there is none at all."""
    each = accounts(delta)[0]
    assert by_sums(each) == [(pytest.approx(at), 4.5) for at in deltas]
    assert all(at >= each.composition.delta for at, _ in by_sums(each))


def test_points_that_were_asked_for_are_marked(tmp_path, monkeypatch):
    """Every delta and epsilon of the table that has both is a mark, and no other is."""
    (each, *_) = accounts()
    each = dataclasses.replace(each, deltas=(1e-9, 1e-6), epsilons=(4.0, 4.5))
    marked = []
    monkeypatch.setattr("labeldp.render._figures.save_lines", lambda *given: marked.extend(given[-1]) or given[1])
    save_account_figure([each], tmp_path / "figure.svg")
    assert marked == [*each.at_deltas, (each.at_epsilons[0][1], 4.0)]
    assert each.at_epsilons[1] == (4.5, 0.0)  # no place on a logarithmic axis


def test_more_lines_than_markers(tmp_path):
    """Nine lines are nine lines."""
    text = save_some(tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert all(name in text for name in LINES)


@pytest.mark.parametrize("save", [save_plan, save_account, save_some])
def test_without_matplotlib_there_is_no_figure(tmp_path, monkeypatch, save):
    """A missing matplotlib is an error that says what to install."""
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="pip install 'matplotlib>="):
        save(tmp_path / "figure.png")
    assert list(tmp_path.iterdir()) == []
