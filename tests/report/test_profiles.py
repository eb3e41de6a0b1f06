"""Privacy-loss profiles in words and as figures."""

import io

import numpy as np
import pytest
from rich.console import Console

from labeldp import Classes, Release
from labeldp.audit import loss_profile
from labeldp.errors import OutputError
from labeldp.report import profile_text, save_profile_figure


@pytest.fixture(scope="module")
def profile():
    """A profile of a label whose chance rises with the only feature."""
    random = np.random.default_rng(8)
    features = random.random((2000, 1))
    labels = np.where(random.random(2000) < 0.02 + 0.96 * (features[:, 0] > 0.7), "yes", "[red]no")
    release = Release.public(labels, Classes(["[red]no", "yes"]))
    return loss_profile(features, release, neighbours=200, rows=1000, flips=[0.01, 0.1])


def printed(parts):
    """What a wide terminal shows."""
    console = Console(width=1000, file=io.StringIO())
    console.print(*parts, sep="\n")
    return console.file.getvalue()


def test_a_profile_says_what_rows_give_away(profile):
    """The text has the share beyond the static epsilon, what the most exposed rows lose, and every assumption."""
    text = printed(profile_text(profile))
    for curve in profile.curves:
        assert f"static epsilon {curve.epsilon:.4g}" in text
        assert f"{curve.beyond.estimate:.1%} ({curve.beyond.lower:.1%} to {curve.beyond.upper:.1%})" in text
        assert "for 5% of the rows the features and the released label together give away at least " in text
        assert f"{curve.loss(0.05).lower:.3g} on average" in text
    low, high = profile.chances_beyond(0.01)
    assert f"is at most {low:.3g}, or at least {high:.3g}." in text
    assert all(f"assumed: {each}" in text for each in profile.assumptions)
    assert "confidence 0.99" in text
    assert "declared public" in text


def test_a_figure_has_the_static_epsilon_and_both_bounds(profile, tmp_path):
    """The figure is written as an SVG with a name for each curve and each static epsilon; other endings are refused."""
    path = save_profile_figure(profile, tmp_path / "profile.svg")
    drawn = path.read_text()
    assert drawn.count("flipped with chance") == drawn.count("its static epsilon") == 2
    assert drawn.count("FillBetweenPolyCollection") == 2
    with pytest.raises(OutputError, match="expected a figure that ends in"):
        save_profile_figure(profile, tmp_path / "profile.txt")
