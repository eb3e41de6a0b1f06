"""Choosing an epsilon: the slider says what the table of the plan says, and never less than exact arithmetic."""

import mpmath
import numpy as np
import pytest

from labeldp import Classes, ClassProbabilities, Curator, Guarantee, Interval
from labeldp.bounds import Conventions, forecast
from labeldp.learning.inference._sets import calibrated_sets
from labeldp.results import Choosing, Planned, plan_part
from labeldp.results._blocks import Choice, Grid, Prose
from labeldp.results._plan_choice import held_by_sets

SPACES = {
    "features": (Classes(["no", "yes"]), {"conventions": Conventions(dimension=4)}),
    "no features": (Classes(["no", "yes"]), {}),
    "rare": (Classes(["no", "yes"]), {"conventions": Conventions(dimension=4, shares=[0.98, 0.02])}),
    "numbers": (Interval(0, 20, 1), {"conventions": Conventions(dimension=4)}),
    "curator": (Interval(0, 20, 1), {"trust": "central"}),
}
#: The head of what a belief can become by all releases together.
BY_ALL = "what everything else, without earlier releases, makes 10 % sure becomes at most, by all releases"
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def planned(kind, rows=5000):
    """A plan of some labels."""
    space, more = SPACES[kind]
    return Planned.of(forecast(space, rows, 1.0, **more))


def blocks_of(part):
    """All blocks of a page."""
    return [block for section in part.sections for block in section.blocks]


def choice_of(part):
    """The choice of a page."""
    (choice,) = [block for block in blocks_of(part) if isinstance(block, Choice)]
    return choice


@pytest.mark.parametrize("kind", SPACES)
def test_the_slider_says_what_the_table_says(kind):
    """Each cell of what an epsilon costs, at each epsilon, is that of the plan's own table; it begins at the plan's."""
    part = plan_part(planned(kind))
    choice, table = choice_of(part), next(block for block in blocks_of(part) if isinstance(block, Grid))
    places = [choice.grid.columns.index(name) for name in table.columns if name in choice.grid.columns]
    assert len(places) >= 2
    same = [choice.grid.columns[place] for place in places]
    for ours, theirs in zip(choice.grid.rows, table.rows, strict=True):
        assert [ours[place] for place in places] == [theirs[table.columns.index(name)] for name in same]
    assert choice.grid.rows[choice.at][0] == "1"


SETS = "classes in a prediction set that is shown to hold 90 %, of 2*"


def test_more_privacy_makes_larger_prediction_sets():
    """Of a model that knows nothing they shrink towards nine tenths of the classes; few rows show no set but all."""
    for rows, first, last in ((5000, "all 2", "1 to 1.83"), (400, "all 2", "1 to 1.91"), (120, "all 2", "all 2")):
        grid = choice_of(plan_part(planned("features", rows))).grid
        cells = [row[grid.columns.index(SETS)] for row in grid.rows]
        assert (cells[0], cells[-1]) == (first, last)
        sizes = [2.0 if cell.startswith("all") else float(cell.split()[-1]) for cell in cells]
        assert sizes == sorted(sizes, reverse=True)
    without = {kind for kind in SPACES if SETS not in choice_of(plan_part(planned(kind))).grid.columns}
    assert without == {"no features", "numbers", "curator"}


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 1.0), (5, 1.0), (3, 4.0)])
def test_prediction_sets_hold_what_was_forecast(classes, epsilon):
    """Sets of released rows of a fitting model hold the forecast share of true labels, in the mean of ten releases.

    The mean has a standard error of 0.004. That of no noise, and that of four times the noise, are 0.02 away at 1.
    """
    random, rows = np.random.default_rng(1), 4000
    chances = random.dirichlet([0.5] * classes, 5 * rows)
    labels = (chances.cumsum(axis=1) < random.random(5 * rows)[:, None]).sum(axis=1).clip(0, classes - 1)
    space = Classes(range(classes))
    stated = ClassProbabilities(chances[:rows], space.points)
    plan = forecast(space, 5 * rows, epsilon, conventions=Conventions(dimension=4))
    expected = held_by_sets(next(each for each in plan.options if each.auto), classes, rows, rows)
    held = []
    for _ in range(10):
        release = Curator(labels[:rows], space).randomize(epsilon=epsilon)
        found = calibrated_sets(release, stated, 0.1)
        held.append(found.members(chances[rows:])[np.arange(4 * rows), labels[rows:]].mean())
    assert np.mean(held) == pytest.approx(expected, abs=0.017)


def bound_of(before, epsilon):
    """What a belief can become, in percent, to fifty digits."""
    with mpmath.workdps(50):
        odds = mpmath.mpf(before) / (1 - mpmath.mpf(before)) * mpmath.exp(mpmath.mpf(epsilon))
        return 100 * odds / (1 + odds)


@pytest.mark.parametrize("spent", [0.0, 0.1, 1.5])
def test_no_belief_is_shown_below_its_bound(spent):
    """Of this release, and of all together; nor above it by more than its third digit."""
    part = plan_part(planned("features"), Choosing(planned("features").over_epsilon, Guarantee(spent or 1e-9)))
    choice = choice_of(part)
    names = {
        f"what everything else makes {before:g} % sure becomes at most": (before / 100, 0.0) for before in (50, 10, 1)
    }
    names[BY_ALL] = (0.1, spent)
    for row, epsilon in zip(choice.grid.rows, EPSILONS, strict=True):
        for name, (before, earlier) in names.items():
            shown = mpmath.mpf(row[choice.grid.columns.index(name)].removesuffix(" %"))
            bound = bound_of(before, epsilon + earlier)
            assert bound <= shown <= bound * mpmath.mpf("1.0101")
    (beliefs, _) = choice.targets
    assert [f"{number:g} %" for number in beliefs.numbers] == [
        row[choice.grid.columns.index(BY_ALL)] for row in choice.grid.rows
    ]


@pytest.mark.parametrize("kind", SPACES)
def test_a_target_is_met_by_more_epsilons_the_better_it_is_for_people(kind):
    """Beliefs grow with epsilon and what is lost falls: the largest and the smallest epsilon are what they say."""
    beliefs, good = choice_of(plan_part(planned(kind))).targets
    assert beliefs.at_most
    assert beliefs.largest
    assert list(beliefs.numbers) == sorted(beliefs.numbers)
    assert not good.largest
    assert list(good.numbers) == sorted(good.numbers, reverse=good.at_most)


def heeded(part):
    """The sentences to heed."""
    return [block.text for block in blocks_of(part) if isinstance(block, Prose) and block.tone == "heed"]


def test_a_delta_of_earlier_releases_is_said():
    """Odds of all releases hold but for that failure; without a delta nothing is said of one."""
    plan = planned("features")
    failing, pure = (
        heeded(plan_part(plan, Choosing(plan.over_epsilon, Guarantee(2.0, delta, trust="central"))))[0]
        for delta in (1.23456e-6, 0.0)
    )
    assert "but for a failure of probability 0.00000124." in failing
    assert "failure" not in pure


def test_another_unit_adds_no_epsilon():
    """Its epsilon is stated with its unit, and no total is."""
    plan = planned("features")
    part = plan_part(plan, Choosing(plan.over_epsilon, Guarantee(2.0, unit="patient")))
    (said,) = heeded(part)
    assert "another privacy unit (patient)" in said
    assert not any("all releases" in name for name in choice_of(part).grid.columns)
