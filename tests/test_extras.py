"""Messages that propose an installation: the distributions themselves, never a name that may be somebody else's."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import labeldp
from labeldp import _extras
from labeldp.errors import MissingExtraError

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def requirements(extra):
    """The requirements of an extra, and of the extras that it names."""
    for text in EXTRAS[extra]:
        inner = re.findall(r"^labeldp\[(.*)\]$", text)
        yield from (each for name in inner[0].split(",") for each in requirements(name)) if inner else (text,)


#: What the metadata of an installation of this source states.
STATED = [f"{requirement}; extra == '{extra}'" for extra in EXTRAS for requirement in requirements(extra)]


def calls():
    """Each extra that the package asks for, and each library of it."""
    for path in Path(labeldp.__file__).parent.rglob("*.py"):
        for found in re.findall(r'require_extra\(("[^)]*)\)', path.read_text(encoding="utf-8")):
            extra, *libraries = re.findall(r'"(\w+)"', found)
            yield from ((extra, library) for library in libraries)


CALLS = set(calls())


def test_no_message_names_this_distribution():
    """On the registry the name may be a stranger's: no text of the package proposes to install it."""
    for path in Path(labeldp.__file__).parent.rglob("*.py*"):
        text = path.read_text(encoding="utf-8") if path.suffix in (".py", ".pyi") else ""
        assert not re.search(r"labeldp\[|pip install ['\"]?labeldp", text), path


@pytest.mark.parametrize(("extra", "library"), sorted(CALLS))
def test_a_missing_library_is_named_as_it_is_installed(extra, library, monkeypatch):
    """Its distribution, with the bounds of our own metadata; all that is proposed is a requirement of the extra."""
    monkeypatch.setattr(_extras, "find_spec", lambda name: None if name == library else object())
    monkeypatch.setattr(metadata, "requires", lambda _: STATED)
    with pytest.raises(MissingExtraError) as problem:
        _extras.require_extra(extra, library)
    text, _, command = str(problem.value).partition("; pip install ")
    assert text == f"expected {library} to be installed, found none"
    proposed = re.findall(r"'([\w.-]+)([<>=!~][^']*)'", command)
    names = {name for name, _ in proposed}
    own = {"sklearn": "scikit-learn", "PIL": "pillow"}
    assert own.get(library, library.replace("_", "-")) in names
    stated = {part.split(";")[0] for part in STATED if f"extra == '{extra}'" in part}
    assert {name + bound for name, bound in proposed} <= stated
    assert command == " ".join(f"'{name}{bound}'" for name, bound in proposed)


def test_what_is_installed_is_not_proposed(monkeypatch):
    """Of an extra, the distributions that are missing are named, all of them at once."""
    stated = ["a>=1; extra == 'x'", 'b>=2; python_version < "9" and extra == "x"', "c>=3; extra == 'y'", "d>=4"]
    monkeypatch.setattr(metadata, "requires", lambda _: stated)
    monkeypatch.setattr(_extras, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'a>=1' 'b>=2'$"):
        _extras.require_extra("x", "a")
    monkeypatch.setattr(_extras, "_is_installed", lambda name: name != "b")
    with pytest.raises(MissingExtraError, match=r"pip install 'b>=2'$"):
        _extras.require_extra("x", "b")


def test_without_metadata_the_distribution_is_named(monkeypatch):
    """Where the package runs from its sources alone, nothing is known of bounds."""
    monkeypatch.setattr(metadata, "requires", lambda _: (_ for _ in ()).throw(metadata.PackageNotFoundError("labeldp")))
    monkeypatch.setattr(_extras, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install scikit-learn$"):
        _extras.require_extra("learn", "sklearn")


def test_every_extra_that_is_asked_for_exists():
    """The extras of the messages are those of the metadata."""
    assert {extra for extra, _ in CALLS} <= set(EXTRAS)
    assert len(CALLS) > 12
