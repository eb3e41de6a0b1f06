"""Kinds that another distribution defines: found by entry points, named in certificates, refused where incomplete."""

import importlib
import sys

import pytest

from labeldp import Classes, Curator, Release, verify
from labeldp.audit import audit_folder
from labeldp.bounds import plan
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import RANDOMIZERS
from labeldp.privacy.channels import CHANNELS, ResponseChannel, law_of

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
