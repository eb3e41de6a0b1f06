"""``labeldp plan``: what each mechanism keeps, printed and drawn."""

import pytest

from labeldp.bounds import plan


def test_what_is_printed_is_the_plan(run):
    """Every option is a row with its numbers, and the one that auto takes is marked."""
    ran = run("plan", "--classes", 10, "--rows", 5000, "--epsilon", 1.5)
    assert (ran.code, ran.err) == (0, "")
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in ran.out.splitlines() if line[:1] == "│"]
    found = plan(10, 5000, 1.5)
    for line, option in zip(lines, found.options, strict=False):
        assert line == [
            option.mechanism,
            option.detail,
            f"{option.truth_probability:.1%}",
            f"{option.clean_rows:,}",
            f"{option.clean_share:.2%}",
            f"{option.total_variance:.4g}",
            "auto" if option.best else "",
        ]
    over = lines[len(found.options) :]
    assert len(over) == 5
    assert all(len(line) == 1 + len(found.sweep) for line in over)
    for i, row in enumerate(found.sweep):
        assert over[0][1 + i] == f"{row[0].clean_share:.2%}"


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_figure_is_written(run, tmp_path, ending):
    """With --figure the plan is drawn too, in the format that the name says."""
    path = tmp_path / f"plan.{ending}"
    ran = run("plan", "--classes", 4, "--rows", 100, "--epsilon", 1, "--figure", path)
    assert (ran.code, ran.err) == (0, "")
    assert f"figure: {path}" in ran.out
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["plan.txt", "plan", "plan.jpg", "none/plan.png"])
def test_a_figure_that_cannot_be_written(run, tmp_path, name):
    """Another ending, none at all, or a missing folder is refused, and no other file appears."""
    ran = run("plan", "--classes", 4, "--rows", 100, "--epsilon", 1, "--figure", tmp_path / name)
    assert ran.code == 1
    assert ran.err.startswith("error: expected")
    assert "found" in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"classes": 1},
        {"classes": 0},
        {"classes": -3},
        {"classes": 1 << 25},
        {"rows": 0},
        {"rows": -1},
        *({"epsilon": text} for text in ("nan", "inf", "0", "-1", "1e-300", "800")),
    ],
    ids=str,
)
def test_a_plan_that_cannot_be_made(run, wrong):
    """Numbers outside what is possible are refused in words."""
    given = {"classes": 4, "rows": 100, "epsilon": 1} | wrong
    ran = run("plan", *(part for name, value in given.items() for part in (f"--{name}", value)))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: expected")
    assert "found" in ran.err
