"""What is said of attacks."""

import io

import numpy as np
import pytest
from rich.console import Console

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.audit import Knowledge, attack_release
from labeldp.audit.mechanisms import FolderAudit
from labeldp.render import on_terminal
from labeldp.results import Audited, audit_part

SPACE = Classes(["no", "yes"])


@pytest.fixture(scope="module")
def report():
    """Features that give every label away at a tiny epsilon."""
    codes = np.arange(400) % 2
    labels = np.array(["no", "yes"])[codes]
    release = Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, 0.01))
    told = np.where(np.arange(2) == codes[:, None], 0.9, 0.1)
    limits = [("features unknown [bold]\x1b[31m", 0.5025)]
    return attack_release(
        release, Knowledge(told, prior=[0.5, 0.5]), truth=Release.public(labels, SPACE), limits=limits
    )


def printed(attacked):
    """What a terminal would show."""
    parts = on_terminal(audit_part(Audited.of_folder(FolderAudit(None, (), (), 0.99, ()), attacked)))
    console = Console(file=io.StringIO(), width=160)
    for part in parts:
        console.print(part)
    return console.file.getvalue()


def test_the_text_holds_every_number_and_what_epsilon_does_not_bound(report):
    """Each knowledge and source has its line, limits stand beside, and nothing in them is markup or a command."""
    text = printed(report)
    for row in report.rows:
        assert row.knows in text
        assert f"{row.utility.value:.1%}" in text
    assert "100.0%" in text
    assert "50.2%" in text or "50.3%" in text
    assert "[bold]\\x1b[31m" in text
    assert "does not bound what features disclose" in text
    assert "no attacker who knows them gains more than 90.0%" in text
    assert "unbiased if the model was not fitted" in text
    assert text.count("as believed") == sum(row.utility.source == "the model itself" for row in report.rows) == 4
    public = printed(attack_release(Release.public(["no", "yes"], SPACE), Knowledge(prior=[0.5, 0.5])))
    assert "epsilon" not in public
