"""Privacy-loss profiles in words and as figures."""

import io

import numpy as np
import pytest
from rich.console import Console

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp._strict_json import plain
from labeldp.audit import Audit, Neighbourhood, bound_exposure, loss_profile
from labeldp.audit.mechanisms import FolderAudit
from labeldp.errors import OutputError
from labeldp.privacy import shown_above
from labeldp.render import on_terminal, save_figure
from labeldp.results import Audited, audit_part, profile_chart
from labeldp.results._numbers import below, share, share_above, share_below


@pytest.fixture(scope="module")
def profile():
    """A profile of a label whose chance rises with the only feature."""
    random = np.random.default_rng(8)
    features = random.random((2000, 1))
    labels = np.where(random.random(2000) < 0.02 + 0.96 * (features[:, 0] > 0.7), "yes", "[red]no")
    release = Release.public(labels, Classes(["[red]no", "yes"]))
    return loss_profile(features, release, rows=1000, flips=[0.01, 0.1], neighbourhood=Neighbourhood(200))


NO_FAULT = FolderAudit(None, (), (Audit(1.0, 0.0, 1.0, 1.0, 1.0, 0, "exact", "an event"),), 0.99, ())


def printed(**found):
    """What a wide terminal shows of an audit."""
    console = Console(width=1000, file=io.StringIO())
    console.print(*on_terminal(audit_part(Audited.of_folder(NO_FAULT, **found))), sep="\n")
    return console.file.getvalue()


def test_a_profile_says_what_rows_give_away(profile):
    """The text has the share beyond the static epsilon, what the most exposed rows lose, and every assumption.

    Bounds and estimates have columns of their own names.
    """
    text = printed(profile=profile)
    for curve in profile.curves:
        assert f"(epsilon {shown_above(curve.epsilon, 3)})" in text
        beyond, cells = curve.beyond, text.replace(" ", "")
        assert f"│{share_below(beyond.lower)}│{share(beyond.estimate)}│{share_above(beyond.upper)}│" in cells
        assert "the most exposed 5% of the rows, features and released label together disclose at least " in text
        assert f"{below(curve.loss(0.05).lower)} nats on average" in text
    assert "estimate" in text
    low, high = profile.chances_beyond(0.01)
    assert f"is at most {low:.3g}, or at least {high:.3g}." in text
    assert all(f"assumed: {each}" in text for each in profile.assumptions)
    assert "confidence 0.99" in text
    assert "declared public" in text
    assert "0.69 nats double them" in text


def test_wide_bounds_say_so_and_what_to_do():
    """Few noisy labels settle nothing: it is said that this is no finding, why, and what narrows the bounds."""
    space = Classes(["no", "yes"])
    release = Curator(["no", "yes"] * 100, space).randomize(RandomizedResponse(space, 0.5))
    found = loss_profile(np.arange(200.0)[:, None], release, p_plus=0.5)
    text = printed(profile=found)
    assert "Too few rows to tell if any disclose epsilon or more." in text
    assert "The bounds are wide: each row is judged by the labels of 10 others, and these are released ones" in text
    assert "(--neighbours)" in text
    assert "no limit" in text
    assert "inf" not in text
    assert str(found.curves[0].loss(0.05)).endswith("at most infinity")


def test_a_figure_has_the_static_epsilon_and_both_bounds(profile, tmp_path):
    """The figure is written as an SVG with a name for each curve and each static epsilon; other endings are refused."""
    path = save_figure(profile_chart(profile), tmp_path / "profile.svg", private=True)
    drawn = path.read_text().split("</style>")[1]
    assert drawn.count(">flip probability") == drawn.count(">its epsilon") == drawn.count("<polygon") == 2
    with pytest.raises(OutputError, match="expected a figure whose name ends in"):
        save_figure(profile_chart(profile), tmp_path / "profile.txt")


@pytest.mark.parametrize("public", [True, False])
def test_the_source_of_an_exposure_is_stated(public):
    """Text and JSON of an exposure say whether its labels were declared public, and only then say so."""
    space, cells = Classes(["no", "yes"]), np.arange(4000) % 2
    labels = np.where(cells == 1, "yes", "no")
    released = Curator(labels.tolist(), space).randomize(RandomizedResponse(space, 3.0))
    release, flip = (Release.public(labels, space), 0.2) if public else (released, None)
    exposure = bound_exposure(cells, release, flip=flip)
    assert ("From labels that were declared public." in printed(exposure=exposure)) is public
    assert plain(Audited.of_folder(NO_FAULT, exposure=exposure))["exposure"]["public"] is public


def test_an_exposure_that_shows_nothing_says_how_many_rows_would():
    """Few rows at epsilon 0.5 show nothing; cells of one class with twice the stated number of rows do."""
    space, cells = Classes(["no", "yes"]), np.arange(20) % 2
    few = bound_exposure(cells, released_of(space, np.where(cells == 1, "yes", "no")))
    text = printed(exposure=few)
    assert f"takes about {few.needed:,} rows; the largest group has 10." in text
    assert few.needed > 10
    many = np.arange(4 * few.needed) % 2
    found = bound_exposure(many, released_of(space, np.where(many == 1, "yes", "no")))
    assert found.average > found.of_label * 1.05
    assert "Detecting a group" not in printed(exposure=found)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 3.0])
def test_the_epsilon_of_released_labels_is_the_certified_one(epsilon):
    """Not a hair more, as computed from the flip probability: people would read 1.01 beside a stated 1."""
    space = Classes(["no", "yes"])
    release = Curator(["no", "yes"] * 100, space).randomize(RandomizedResponse(space, epsilon))
    curve = loss_profile(np.arange(200.0)[:, None], release, p_plus=0.5).curves[0]
    exposure = bound_exposure(np.arange(200) % 2, release)
    assert curve.epsilon == exposure.epsilon == release.guarantee.epsilon == epsilon


def released_of(space, labels):
    """Labels released at epsilon 0.5."""
    return Curator(labels.tolist(), space).randomize(RandomizedResponse(space, 0.5))
