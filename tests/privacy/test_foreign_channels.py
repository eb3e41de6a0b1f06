"""Kinds that another distribution defines: found by entry points, named in certificates, refused where incomplete."""

import importlib
import json
import sys

import pytest

from labeldp import Classes, Curator, Release, verify
from labeldp.audit import audit_folder
from labeldp.bounds import plan
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import RANDOMIZERS
from labeldp.privacy import _kinds
from labeldp.privacy.channels import CHANNELS, ResponseChannel, channel_of, law_of

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


def test_a_law_of_an_unknown_kind_names_it_and_its_distribution(install):
    """Where the distribution is not installed, the error says which kind it is and what to install."""
    module = install("other-mechanisms", "foreign")
    law = json.loads(json.dumps(law_of(module.ForeignChannel.at(3, 1.0))))
    assert channel_of(law).epsilon <= 1.0
    sys.path.pop(0)
    with pytest.raises(InputError, match="found 'foreign'; install 'other-mechanisms', which defines it; known: bits"):
        channel_of(law)
    with pytest.raises(InputError, match="expected a known kind of channel, found 'nothing'; known: bits"):
        channel_of(law_of(ResponseChannel.at(3, 1.0)) | {"kind": "nothing"})


def test_an_incomplete_kind_is_refused_and_says_what_is_missing(install):
    """A class without members that every channel states is not found, and the error lists them."""
    module = install("other-mechanisms", "foreign")
    missing = "bins, columns, detail, draw"
    with pytest.raises(InputError, match=f"complete kind of channel 'unfinished', found none of: {missing}"):
        CHANNELS.find("unfinished")
    assert not CHANNELS.known("unfinished")
    with pytest.raises(TypeError, match="abstract"):
        module.Unfinished(3)


def test_a_name_that_two_distributions_define_is_refused(install):
    """Neither of them is taken."""
    install("other-mechanisms", "foreign")
    install("third-mechanisms", "foreign")
    with pytest.raises(InputError, match="found it in other-mechanisms, third-mechanisms; uninstall all but one"):
        CHANNELS.find("foreign")


def test_a_name_of_ours_cannot_be_taken(install):
    """Our own kind is found, and a class with its name cannot be charged for."""
    module = install("other-mechanisms", "response")
    assert CHANNELS.find("response") is ResponseChannel
    with pytest.raises(InputError, match="expected a registered kind of channel, found ForeignChannel"):
        CHANNELS.check(module.ForeignChannel)


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


def test_a_class_that_brings_nothing_readable_breaks_nothing(install):
    """A distribution whose ``brings`` is no list counts as broken; the kinds of this package are found as before."""
    module = install("odd-bringer", "odd")
    module.ForeignResponse.brings = None
    _kinds._foreign_classes.cache_clear()
    assert RANDOMIZERS.known("subset")
    assert RANDOMIZERS.every()
    assert not RANDOMIZERS.known("odd")
