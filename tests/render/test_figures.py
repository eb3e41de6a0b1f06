"""Figures: written in the format that was asked for, with the numbers of what they draw."""

import dataclasses
import re
import sys

import pytest

from labeldp import Charge, Guarantee
from labeldp.bounds import plan
from labeldp.bounds.planning import EPSILONS
from labeldp.errors import MissingExtraError, OutputError
from labeldp.privacy.accounting import Composition, RowRanges
from labeldp.release import CombinedGuarantee
from labeldp.render import save_figure
from labeldp.results import Curves, account_chart, account_part, plan_chart
from labeldp.results._ledger import by_sums

STARTS = {"png": b"\x89PNG\r\n", "svg": b"<svg ", "pdf": b"%PDF-"}
LINES = [(f"line {i}", [(0.1, 0.0), (1.0, float(i))]) for i in range(9)]


def accounts(delta=0.0):
    """Charges for labels of awkward names, and some that may fail."""
    charge = Charge(Guarantee(0.5, delta), RowRanges.all(3))
    whole = Composition.of([(charge, None)] * 9)
    return [CombinedGuarantee(label, "row", ("x",), whole, 3, deltas=(1e-6,)) for label in ("_a", "$b", "[red]c^_{")]


CHARTS = {
    "plan": lambda: plan_chart(plan(5, 100, 1.5)),
    "account": lambda: account_chart(accounts()),
    "lines": lambda: Curves("title", ("x", "y"), LINES, logarithmic="x"),
}


def drawn(chart, path):
    """The text of an SVG file without its style sheet."""
    return save_figure(chart, path).read_text(encoding="utf-8").split("</style>")[1]


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("ending", STARTS)
def test_a_figure_is_written(tmp_path, name, ending):
    """PNG, SVG and PDF are what their endings say, and not empty."""
    path = save_figure(CHARTS[name](), tmp_path / f"figure.{ending}")
    assert path == tmp_path / f"figure.{ending}"
    assert path.read_bytes().startswith(STARTS[ending])
    assert path.stat().st_size > 2000


@pytest.mark.parametrize("name", ["figure.txt", "figure", "figure.", "none/figure.png"])
def test_a_figure_that_cannot_be_written(tmp_path, name):
    """Any other ending, none at all, or a missing folder is an OutputError, and no file appears."""
    with pytest.raises(OutputError, match=r"expected .* found|there is no folder"):
        save_figure(CHARTS["lines"](), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_curves_are_the_numbers_of_the_plan():
    """Every point of a curve is an option's share at its epsilon in percent, and every option is a point."""
    found = plan(8, 1000, 1.5)
    lines = dict(plan_chart(found).lines)
    assert set(lines) == {"randomized-response", "subset", "projective", "bits"}
    for line in lines.values():
        assert [epsilon for epsilon, _ in line] == sorted([*EPSILONS, 1.5])
    points = {point for line in lines.values() for point in line}
    options = [option for row in (*found.sweep, found.options) for option in row]
    assert points == {(option.epsilon, 100 * option.share) for option in options}
    for option in found.options:
        assert (1.5, 100 * option.share) in lines[option.mechanism]


def test_no_curve_hides_another():
    """Curves that cannot be told apart are one with both names."""
    names = {name for name, _ in plan_chart(plan(2, 1000, 1.0)).lines}
    assert names == {"randomized-response, subset", "projective", "bits"}


def test_every_curve_is_drawn(tmp_path):
    """An SVG has a line for every mechanism, its name, and all that the chart says."""
    chart = CHARTS["plan"]()
    text = drawn(chart, tmp_path / "figure.svg")
    assert text.count("<polyline") == 2 * len(chart.lines)  # with a sample beside each name
    for name in (*(name for name, _ in chart.lines), "epsilon 1.5", *chart.axes):
        assert re.search(re.escape(name), text)
    assert "5 equally common classes" in (tmp_path / "figure.svg").read_text(encoding="utf-8").split("<style>")[0]


def test_what_has_no_place_is_not_drawn(tmp_path):
    """Numbers below 0 on a logarithmic axis, and those that are not finite, as a stranger's file may have them."""
    lines = [("none", [(0.0, 1.0), (float("inf"), 1.0)]), ("some", [(-1.0, 2.0), (1.0, 1e300), (2.0, 1e-300)])]
    text = drawn(Curves("what", ("x", "y"), lines), tmp_path / "figure.svg")
    assert text.count("<polyline") == 2
    assert "nan" not in text
    assert "nothing to draw" in save_figure(Curves("what", ("x", "y"), lines[:1]), tmp_path / "none.svg").read_text()


def test_every_account_is_drawn(tmp_path):
    """Names that mean something to a plot are shown as they are; what fails has no curve, nothing has no figure."""
    chart = account_chart(accounts())
    names = [name for name, _ in chart.lines]
    assert names == [f"{how}: {name}" for name in ("_a", "$b", "[red]c^_{") for how in ("fixed beforehand", "by sums")]
    assert drawn(chart, tmp_path / "figure.svg").count("<circle") == len(chart.points) > 0
    failing = account_chart(accounts(0.1))
    assert {name.split(":")[0] for name, _ in failing.lines} == {"by sums"}
    assert not failing.points
    tables = [
        block for section in account_part(accounts(0.1)).sections for block in section.blocks if block.kind == "grid"
    ]
    assert [[row[1] for row in table.rows] for table in tables] == [["4.5", "none"]] * 3
    assert account_chart([]) is None


@pytest.mark.parametrize(
    ("delta", "deltas"), [(0.0, [1e-12, 1e-2]), (1e-5, [9e-5, 1e-2]), (0.1, [0.9, 0.9]), (0.2, [])]
)
def test_sums_are_drawn_where_they_hold(delta, deltas):
    """Below the sum of the deltas there is no epsilon by sums; where they add up to one there is none at all."""
    each = accounts(delta)[0]
    assert by_sums(each) == [(pytest.approx(at), 4.5) for at in deltas]
    assert all(at >= each.composition.delta for at, _ in by_sums(each))


def test_points_that_were_asked_for_are_marked():
    """Every delta and epsilon of the table that has both is a mark, and no other is."""
    (each, *_) = accounts()
    each = dataclasses.replace(each, deltas=(1e-9, 1e-6), epsilons=(4.0, 4.5))
    assert account_chart([each]).points == [*each.at_deltas, (each.at_epsilons[0][1], 4.0)]
    assert each.at_epsilons[1] == (4.5, 0.0)  # no place on a logarithmic axis


def test_only_other_formats_need_matplotlib(tmp_path, monkeypatch):
    """An SVG is drawn without it; of a PNG a missing matplotlib is an error that says what to install."""
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert save_figure(CHARTS["plan"](), tmp_path / "figure.svg").exists()
    with pytest.raises(MissingExtraError, match="pip install 'matplotlib>="):
        save_figure(CHARTS["plan"](), tmp_path / "figure.png")
