"""Registries of kinds: those of this package's files, and those that other distributions name in entry points."""

import importlib
import sys

import pytest

from labeldp import Classes, Curator, Release, verify
from labeldp.audit import audit_folder
from labeldp.bounds import plan
from labeldp.errors import InputError, VerificationError
from labeldp.mechanisms.randomizers import RANDOMIZERS
from labeldp.privacy import Kinds
from labeldp.privacy.channels import CHANNELS, ResponseChannel, law_of

COMPLETE = """
    name = {name!r}
    size = 3
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder for packages and distributions, first on the path; what is imported from it is forgotten."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        sys.modules.pop(name, None)


@pytest.fixture
def kinds(site):
    """Kinds of shapes, which the files of a package define."""
    package = site / "shapes"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_shape.py").write_text(
        "from abc import ABC, abstractmethod\n"
        "class Shape(ABC):\n"
        "    @property\n    @abstractmethod\n    def size(self): ...\n"
        "    @property\n    @abstractmethod\n    def name(self): ...\n"
    )
    file(package, "_round", "round")
    file(package, "_angular", "angular")
    (package / "_slow_kernels.py").write_text("raise RuntimeError('compiled loops are not needed for a look-up')\n")
    from shapes._shape import Shape  # noqa: PLC0415 (the fixture has just written it)

    return Kinds(Shape, "name", "shapes", "shape")


def file(folder, module, name, body=COMPLETE):
    """A file with one class derived from a shape."""
    text = (
        "from __future__ import annotations\nfrom typing import ClassVar\nfrom shapes._shape import Shape\n"
        f"class {module.strip('_').title()}(Shape):{body.format(name=name)}"
    )
    (folder / f"{module}.py").write_text(text)
    importlib.invalidate_caches()


def distribution(site, name, *entries):
    """A distribution on the path, as an installer records it: its name, and its entry points."""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = (f"{number} = {entry}\n" for number, entry in enumerate(entries))
    (info / "entry_points.txt").write_text("[labeldp.mechanisms]\n" + "".join(lines))
    importlib.invalidate_caches()


def test_the_files_of_a_package_define_its_kinds(kinds):
    """Final classes by name, in the order of files; abstract ones and compiled loops are left out."""
    assert list(kinds.own) == ["angular", "round"]
    assert kinds.find("round") is kinds.own["round"]
    assert kinds.distribution("round") is None
    assert kinds.known("angular")
    assert not kinds.known("oval")
    assert not kinds.known(None)
    assert not kinds.known(["round"])


def test_another_distribution_adds_kinds(kinds, site):
    """It is found by its name, checked by itself, and a law must name the distribution that defines it."""
    file(site, "ovals", "oval")
    distribution(site, "acme-ovals", "ovals:Ovals")
    oval = kinds.find("oval")
    assert oval.name == "oval"
    assert kinds.distribution("oval") == "acme-ovals"
    assert kinds.every() == (*kinds.own.values(), oval)
    kinds.check(oval)
    assert kinds.of_law({"kind": "oval", "package": "acme-ovals"}) is oval
    for package in (None, "acme", ["acme-ovals"]):
        with pytest.raises(VerificationError, match="expected the shape 'oval' of"):
            kinds.of_law({"kind": "oval", "package": package})
    with pytest.raises(VerificationError, match="of 'acme', found that of 'labeldp'"):
        kinds.of_law({"kind": "round", "package": "acme"})


def test_an_entry_point_may_bring_further_kinds(kinds, site):
    """A randomizer brings its channel in ``brings``; what it is itself does not matter."""
    file(site, "ovals", "oval")
    (site / "brought.py").write_text("from ovals import Ovals\nclass Bringer:\n    brings = (Ovals,)\n")
    distribution(site, "acme-ovals", "brought:Bringer")
    assert kinds.find("oval").name == "oval"


def test_a_class_without_an_entry_point_is_refused(kinds):
    """It could not be found again; neither can one that took the name of a kind."""
    for name in ("oval", "round"):
        stranger = type("Stranger", (kinds.base,), {"name": name, "size": 1})
        with pytest.raises(InputError, match=r"expected a registered shape, found Stranger; .*'labeldp\.mechanisms'"):
            kinds.check(stranger)


def test_a_name_of_two_files_is_refused(kinds, site):
    """Which of them a certificate means could not be told."""
    file(site / "shapes", "_square", "angular")
    with pytest.raises(InputError, match="name of its own, found 'angular' twice"):
        kinds.find("round")


def test_a_name_of_two_distributions_is_refused(kinds, site):
    """Both are named."""
    for module in ("ovals", "eggs"):
        file(site, module, "oval")
        distribution(site, f"acme-{module}", f"{module}:{module.title()}")
    with pytest.raises(InputError, match="found it in acme-eggs, acme-ovals; uninstall all but one"):
        kinds.find("oval")


def test_a_distribution_cannot_take_a_name_of_this_one(kinds, site):
    """The own kind is found, and the other is refused before it is charged for."""
    file(site, "ovals", "round")
    distribution(site, "acme-ovals", "ovals:Ovals")
    from ovals import Ovals  # noqa: PLC0415 (the test has just written it)

    assert kinds.find("round") is kinds.own["round"]
    with pytest.raises(InputError, match="under a name of its own"):
        kinds.check(Ovals)


def test_an_incomplete_class_names_its_missing_members(kinds, site):
    """Where it is looked up, by name."""
    file(site, "ovals", "oval", "\n    name = {name!r}\n    sides: ClassVar[int]\n")
    distribution(site, "acme-ovals", "ovals:Ovals")
    with pytest.raises(InputError, match="expected a complete shape 'oval', found none of: sides, size"):
        kinds.find("oval")


@pytest.mark.parametrize("broken", ["raise RuntimeError('broken')", "import nothing_of_that_name", "x ="])
def test_a_broken_distribution_does_not_break_the_others(kinds, site, broken):
    """The others are found, and the broken one is named where a kind is missing."""
    file(site, "ovals", "oval")
    distribution(site, "acme-ovals", "ovals:Ovals")
    (site / "cracked.py").write_text(broken)
    distribution(site, "acme-cracked", "cracked:Cracked", "nowhere:Nothing")
    assert kinds.find("oval").name == "oval"
    with pytest.raises(InputError, match="known: angular, round; distributions that could not be loaded: acme-cracked"):
        kinds.find("egg")


def test_a_law_of_an_unknown_kind_names_who_would_know_it(kinds):
    """The kind, and the distribution that the law says, if that can be the name of one."""
    with pytest.raises(VerificationError, match="found 'oval'; install 'acme-ovals', which defines it"):
        kinds.of_law({"kind": "oval", "package": "acme-ovals"})
    for law in ({"kind": "oval"}, {"kind": "oval", "package": "run this\nnow"}, {"kind": "oval", "package": 7}, {}):
        with pytest.raises(VerificationError) as caught:
            kinds.of_law(law)
        assert "install" not in str(caught.value)


def test_what_a_stranger_names_is_repeated_in_part_only():
    """A certificate with a name of a million letters does not flood a terminal."""
    kinds = Kinds(Exception, "name", "labeldp.privacy.accounting", "kind")
    object.__setattr__(kinds, "own", {})
    with pytest.raises(VerificationError) as caught:
        kinds.of_law({"kind": "x" * 10**6, "package": "y" * 10**6})
    assert len(str(caught.value)) < 400


# Kinds that another distribution defines: found by entry points, named in certificates, refused where incomplete.


SPACE = Classes(["a", "b", "c"])
SOURCE = """
from dataclasses import dataclass
from typing import ClassVar
from labeldp.privacy.channels import Channel, ResponseChannel
from labeldp.mechanisms.randomizers import RandomizedResponse


@dataclass(frozen=True, eq=False)
class ForeignChannel(ResponseChannel):
    kind: ClassVar[str] = "KIND"


@dataclass(frozen=True, eq=False)
class Unfinished(Channel):
    kind: ClassVar[str] = "unfinished"

    @property
    def odds(self):
        return 1


@dataclass(frozen=True, eq=False)
class ForeignResponse(RandomizedResponse):
    name: ClassVar[str] = "KIND"
    brings = (ForeignChannel, Unfinished)

    def channel(self):
        return ForeignChannel.at(self.space.size, self.epsilon)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A function that installs a distribution whose randomizer and channel have a name, and returns its module."""
    made = []

    def installed(distribution, kind):
        folder = tmp_path / distribution
        about = folder / f"{distribution}-1.dist-info"
        about.mkdir(parents=True)
        module = distribution.replace("-", "_")
        (folder / f"{module}.py").write_text(SOURCE.replace("KIND", kind), encoding="utf-8")
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n", encoding="utf-8")
        entry = f"[labeldp.mechanisms]\nany = {module}:ForeignResponse\n"
        (about / "entry_points.txt").write_text(entry, encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        made.append(module)
        return importlib.import_module(module)

    yield installed
    for module in made:
        sys.modules.pop(module, None)


def test_a_name_is_no_free_text(install):
    """It would be printed as a fact."""
    module = install("other-mechanisms", "exact copy (epsilon 0.001)")
    with pytest.raises(InputError, match="named with letters, digits"):
        Curator(["a", "b", "c"], SPACE).randomize(module.ForeignResponse(SPACE, 1.0))


def test_a_foreign_randomizer_works_like_ours(install, tmp_path):
    """It is released, saved, verified, audited, loaded and planned with, and its law names its distribution."""
    module = install("other-mechanisms", "foreign")
    randomizer = module.ForeignResponse(SPACE, 1.0)
    assert law_of(randomizer.channel())["package"] == "other-mechanisms"
    release = Curator(["a", "b", "c"] * 200, SPACE).randomize(randomizer)
    folder = release.save(tmp_path / "shared")
    assert verify(folder).holds
    assert audit_folder(folder).holds
    assert (Release.load(folder).codes == release.codes).all()
    assert type(Release.load(folder).channel) is module.ForeignChannel
    assert "foreign" in [option.mechanism for option in plan(3, 600, 1.0).options]
    assert RANDOMIZERS.find("foreign") is module.ForeignResponse
    RANDOMIZERS.check(module.ForeignResponse)
    CHANNELS.check(module.ForeignChannel)


def test_an_incomplete_kind_is_refused_and_says_what_is_missing(install):
    """A class without members that every channel states is not found, and the error lists them."""
    module = install("other-mechanisms", "foreign")
    missing = "bins, columns, detail, draw"
    with pytest.raises(InputError, match=f"complete kind of channel 'unfinished', found none of: {missing}"):
        CHANNELS.find("unfinished")
    assert not CHANNELS.known("unfinished")
    with pytest.raises(TypeError, match="abstract"):
        module.Unfinished(3)


def test_our_laws_name_no_distribution():
    """Certificates of our kinds are as they were."""
    assert "package" not in law_of(ResponseChannel.at(3, 1.0))


@pytest.mark.parametrize("taken", ["noisy-quantile", "double"])
def test_another_distribution_takes_no_reserved_name(install, taken):
    """The names of answers and of mechanisms on features stay ours, whatever a distribution calls its own."""
    module = install("grabby", taken)
    assert not RANDOMIZERS.known(taken)
    with pytest.raises(InputError, match="registered randomizer"):
        RANDOMIZERS.check(module.ForeignResponse)
