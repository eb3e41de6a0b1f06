"""What is said of audits: the verdict, its numbers, and nothing that is markup."""

import math

import pytest
from rich.console import Console

from labeldp.audit import Audit
from labeldp.render import on_terminal
from labeldp.results import Audited, audit_part
from labeldp.results._numbers import factor_below, interval, posterior, share_above, share_below


def printed(audit):
    """What a terminal shows."""
    console = Console(width=200, color_system=None)
    with console.capture() as caught:
        console.print(*on_terminal(audit_part(Audited.of(audit))), sep="\n")
    return caught.get()


def test_names_are_shown_as_they_are():
    """A label that is markup, or commands a terminal, is text."""
    said = printed(Audit(1.0, 0.0, 2.0, None, 0.99, 10, "sampled", "'[red]\x1b[2J' from '[/]'"))
    assert "[red]\\x1b[2J" in said
    assert "\x1b" not in said


def test_bounds_are_rounded_to_the_side_that_claims_less():
    """The factor of a growth of log odds, and a share, are at least what is printed."""
    assert (factor_below(math.log(1.239)), factor_below(0.0), factor_below(-0.1)) == ("1.23", "1", "0.904")
    assert (share_below(0.09999), share_below(1.0)) == ("9.9%", "100.0%")
    assert (share_above(0.12501), share_above(2.0), interval(-0.1, 0.29)) == ("12.6%", "100.0%", "0.0% to 29.0%")
    assert (posterior(0.12516), posterior(1.0)) == ("12.6 %", "100 %")


@pytest.mark.parametrize(
    ("lower", "upper", "words"),
    [
        (
            0.12345678,
            0.98765432,
            ["at least 0.1234567", "epsilon 0.9876544, assuming every possible output", "no proof of privacy"],
        ),
        (0.0, None, ["nothing", "no proof of privacy"]),
        (1.5, 1.7, ["is wrong: epsilon is at least 1.5", "how      by events"]),
    ],
)
def test_numbers_are_rounded_to_the_side_that_claims_less(lower, upper, words):
    """What was shown is rounded down, what it is at most is rounded up; a claim that holds is not called proven."""
    said = printed(Audit(1.0, 1e-6, lower, upper, 0.99, 10_000, "sampled", "an event"))
    for each in words:
        assert each in said
    assert ("no proof" in said) == (lower <= 1.0)


def test_a_certain_leak_is_said_to_be_infinite():
    """An output that one input alone can give has no finite epsilon."""
    said = printed(Audit(1.0, 0.0, math.inf, math.inf, 1.0, 0, "exact", "an event"))
    assert "epsilon is infinity, by an event" in said
    assert "by exact computation, without sampling" in said
