"""A query and a randomizer of another distribution: known to every package where it is installed, else named."""

import importlib
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from labeldp import Answer, Classes, Curator, Release, combined_guarantee, verify
from labeldp.cli import main
from labeldp.errors import InputError, VerificationError
from labeldp.testing import check_query, check_randomizer

FOREIGN = Path(__file__).parent.parent / "examples" / "foreign"
SPACE = Classes(["no", "yes"])
LABELS = np.repeat(["no", "yes"], [300, 100])


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The example as an installer leaves it: its module, and its name and entry points in a dist-info folder."""
    project = tomllib.loads((FOREIGN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    site = tmp_path / "site"
    info = site / "acme_labels-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(FOREIGN / "acme_labels.py", site)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["labeldp.mechanisms"]
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[labeldp.mechanisms]\n{lines}")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(site))
        yield importlib.import_module("acme_labels")
    sys.modules.pop("acme_labels", None)


def uninstall(module):
    """The distribution is gone, as in a new process without it."""
    sys.path.remove(str(Path(module.__file__).parent))  # in place: the fixture restores it
    sys.modules.pop("acme_labels")
    importlib.invalidate_caches()


def counted(module, **changed):
    """The answer to the query of the example, about 400 rows in four cells."""
    query = module.CountOfOneClass(SPACE, 1.0, np.arange(400) % 4, of="yes")
    curator = Curator(LABELS, SPACE, name="ill", **changed)
    return curator, curator.answer(query)


def test_its_query_is_answered_saved_verified_and_accounted_for(installed, tmp_path, capsys):
    """Like a query of this distribution, and its certificate names the other one."""
    curator, answer = counted(installed)
    assert (answer.value.shape, answer.guarantee.epsilon, curator.spent) == ((4,), 1.0, (1.0, 0.0))
    assert np.abs(answer.value - 25).max() < 60
    assert answer.standard_error == pytest.approx(2**0.5, rel=0.1)
    assert (answer.law["package"], answer.reading) == ("acme-labels", None)
    folder = answer.save(tmp_path / "shared")
    again = Answer.load(folder)
    assert again.value.tolist() == answer.value.tolist()
    assert verify(folder).holds
    assert [each.rows for each in combined_guarantee([folder])] == [400]
    assert main(["verify", str(folder)]) == 0
    assert main(["account", str(folder)]) == 0
    assert "epsilon" in capsys.readouterr().out


def test_without_it_the_certificate_names_the_query_and_its_distribution(installed, tmp_path, capsys):
    """Verification fails and says what to install."""
    folder = counted(installed)[1].save(tmp_path / "shared")
    uninstall(installed)
    with pytest.raises(VerificationError, match="'acme-count'; install 'acme-labels', which defines it"):
        Answer.load(folder)
    assert not verify(folder).holds
    assert main(["verify", str(folder)]) != 0
    printed = capsys.readouterr()
    assert "acme-labels" in printed.out + printed.err


@pytest.mark.parametrize("package", [None, "acme", "labeldp", 3])
def test_a_certificate_that_names_another_distribution_is_refused(installed, package, tmp_path):
    """Of two distributions with a query of that name, the right one must be found."""
    folder = counted(installed)[1].save(tmp_path / "shared")
    path = folder / "_certificate.json"
    body = json.loads(path.read_text(encoding="utf-8"))
    law = body["charges"][0]["law"]
    law.pop("package")
    if package is not None:
        law["package"] = package
    path.write_text(json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    verdict = verify(folder)
    assert not verdict.holds
    assert "expected the query 'acme-count' of" in verdict.checks[-1].found


def test_a_query_whose_guarantee_does_not_follow_is_refused_before_it_is_charged(installed, monkeypatch):
    """A law that says more noise than is drawn, that lacks a field, or that JSON cannot hold."""

    def half(self, labels_of_a_unit):
        return type(self).__mro__[1].law(self, labels_of_a_unit) | {"rate": str(self.rate(labels_of_a_unit) // 2)}

    def more(self, labels_of_a_unit):
        return type(self).__mro__[1].law(self, labels_of_a_unit) | {"more": "1"}

    def floats(self, labels_of_a_unit):
        return type(self).__mro__[1].law(self, labels_of_a_unit) | {"class": {1}}

    query = installed.CountOfOneClass(SPACE, 1.0, of="yes")
    for law in (half, more, floats):
        monkeypatch.setattr(installed.CountOfOneClass, "law", law)
        curator = Curator(LABELS, SPACE, budget=1.0)
        with pytest.raises(InputError, match="expected a guarantee that follows from the law of 'acme-count'"):
            curator.answer(query)
        assert curator.spent == (0.0, 0.0)


def test_its_query_is_refused_before_it_is_charged_where_it_is_not_registered(installed):
    """A module on the path is not enough."""
    query = installed.CountOfOneClass(SPACE, 1.0, of="yes")
    uninstall(installed)
    curator = Curator(LABELS, SPACE, budget=1.0)
    with pytest.raises(InputError, match="expected a registered query, found CountOfOneClass"):
        curator.answer(query)
    assert curator.spent == (0.0, 0.0)


def test_its_kinds_hold_the_laws_of_every_kind(installed):
    """As those of this distribution do."""
    check_randomizer(installed.ThreeQuarters(SPACE, 5.0))
    check_query(installed.CountOfOneClass(SPACE, 1.0, np.arange(400) % 4, of="yes"), LABELS)


def test_its_randomizer_is_charged_saved_and_verified(installed, tmp_path):
    """Its channel is one of this distribution."""
    curator = Curator(LABELS, SPACE, name="ill")
    release = curator.randomize(installed.ThreeQuarters(SPACE, 5.0))
    assert release.guarantee.epsilon == pytest.approx(np.log(3.0), rel=1e-9)
    assert release.guarantee.epsilon <= np.log(3.0) * (1 + 1e-12)
    folder = release.save(tmp_path / "shared")
    assert verify(folder).holds
    assert len(Release.load(folder)) == 400
    assert Release.load(folder).certificate.draws[0].mechanism == "acme-three-quarters"


@pytest.mark.usefixtures("installed")
def test_the_command_line_lists_its_randomizer(capsys):
    """``labeldp mechanisms`` has its name and its description, and the plan compares it."""
    assert main(["mechanisms"]) == 0
    page = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    assert "acme-three-quarters Randomized response of two classes that keeps a label" in page
    assert main(["plan", "--classes", "2", "--rows", "100", "--epsilon", "2", "--detail"]) == 0
    assert "acme-three-quarters" in capsys.readouterr().out


@pytest.mark.usefixtures("installed")
def test_the_command_line_answers_its_query(tmp_path):
    """By a mechanism on tables that declares what it needs, and nothing else."""
    (tmp_path / "t.csv").write_text("x,ill\n" + "".join(f"{row},{label}\n" for row, label in enumerate(LABELS)))
    declared = ("--label", "ill", "--classes", "no,yes", "--epsilon", "1", "--mechanism", "acme-count")
    command = ["release", str(tmp_path / "t.csv"), *declared, "--output", str(tmp_path / "out")]
    assert main([*command, "--keep", "x"]) == 1
    assert main([*command, "--keep", "none"]) == 0
    assert main(["verify", str(tmp_path / "out")]) == 0
    assert Answer.load(tmp_path / "out").value[0] == pytest.approx(300, abs=40)  # 40 standard deviations
