"""New files: written where nobody can foresee, whole or not at all, and for their owner alone where they must be."""

import os
import stat
from pathlib import Path

import pytest

from labeldp._own_files import OTHERS, create, keep_private, objection, opened_own, replace_file, write_new_file
from labeldp.errors import OutputError

pytestmark = pytest.mark.usefixtures("umask")


@pytest.mark.parametrize("write", ["new", "again"])
def test_a_file_is_written_for_its_owner_under_no_name_that_can_be_foreseen(write, tmp_path):
    """Links planted under every name beside the target are not followed, and nobody else may read the file."""
    target, victim = tmp_path / "model", tmp_path / "victim"
    victim.write_bytes(b"mine")
    for name in (".model", f".model.{os.getpid()}"):
        (tmp_path / name).symlink_to(victim)
    if write == "new":
        write_new_file(target, lambda file: file.write_bytes(b"numbers"), private=True)
    else:
        target.symlink_to(victim)
        replace_file(target, lambda file: file.write(b"numbers"))
    assert (target.read_bytes(), victim.read_bytes()) == (b"numbers", b"mine")
    assert stat.S_IMODE(target.lstat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir() if not path.is_symlink()) == ["model", "victim"]


CONTENTS = {"bytes": b"numbers", "a function": lambda path: path.write_bytes(b"numbers")}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("private", [True, False])
def test_a_private_file_is_its_owners_alone(content, private, tmp_path):
    """Others read what may be shared, as the umask has it, and nothing that is private."""
    write_new_file(tmp_path / "file", CONTENTS[content], private=private)
    assert (tmp_path / "file").read_bytes() == b"numbers"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == (0o600 if private else 0o644)


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("there", ["file", "link", "dangling link", "folder"])
def test_nothing_is_overwritten_and_no_link_is_followed(content, there, tmp_path):
    """Whatever has the name stays as it is, and so does whatever a link leads to."""
    path, victim = tmp_path / "file", tmp_path / "victim"
    if there == "folder":
        path.mkdir()
    elif there == "file":
        path.write_bytes(b"mine")
    else:
        path.symlink_to(victim)
    if there == "link":
        victim.write_bytes(b"mine")
    with pytest.raises(OutputError):
        write_new_file(path, CONTENTS[content], private=True)
    assert victim.exists() == (there == "link")
    assert not path.is_file() or path.read_bytes() == b"mine"
    assert {each.name for each in tmp_path.iterdir()} <= {"file", "victim"}


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_takes_the_name_meanwhile_stays(links, tmp_path, monkeypatch):
    """A function that writes takes a while: a file that has the name by its end is not replaced."""

    def writing(path):
        path.write_bytes(b"numbers")
        (tmp_path / "file").write_bytes(b"mine")

    if not links:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "no links")))
    with pytest.raises(OutputError, match="does not exist yet"):
        write_new_file(tmp_path / "file", writing, private=True)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_file_without_links_is_moved(tmp_path, monkeypatch):
    """On a file system that has no hard links a file gets its name by a move."""
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "no links")))
    write_new_file(tmp_path / "file", CONTENTS["a function"], private=True)
    assert (tmp_path / "file").read_bytes() == b"numbers"


@pytest.mark.parametrize("content", [b"x" * (1 << 20), lambda path: path.write_bytes(b"x" * (1 << 20))])
def test_a_file_that_cannot_be_written_is_not_there(content, tmp_path, monkeypatch):
    """A disk that is full leaves no half of a file, and an error in words of ours that has no other behind it."""
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    monkeypatch.setattr("pathlib.Path.replace", os.replace)
    with pytest.raises(OutputError, match="No space left") as problem:
        write_new_file(tmp_path / "file", content, private=True)
    assert problem.value.__context__ is None
    assert list(tmp_path.iterdir()) == []


def test_an_open_file_becomes_private(tmp_path):
    """What is printed into a file can be kept from others; a pipe is left as it is."""
    with (tmp_path / "file").open("w") as file:
        keep_private(file.fileno())
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    read, write = os.pipe()
    keep_private(write)
    os.close(read)
    os.close(write)


def hard_link(path):
    """A second name of the file."""
    path.with_name("second").hardlink_to(path)


ALTERED = {
    "one of another user": lambda _: None,
    "one with 2 hard links": hard_link,
    "one that other users can write to": lambda path: path.chmod(0o664),
    "one that other users can write to; see": lambda path: path.chmod(0o646),
}


@pytest.fixture
def own(tmp_path):
    """A file of this user's, that others may read."""
    (tmp_path / "own").write_bytes(b"state")
    (tmp_path / "own").chmod(0o644)
    return tmp_path / "own"


@pytest.mark.parametrize("why", ALTERED)
def test_a_file_that_others_can_have_written_is_not_read(own, why, monkeypatch):
    """Of another user, with another name, or open to others: it is refused with what to do."""
    ALTERED[why](own)
    if why == "one of another user":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with (
        pytest.raises(OutputError, match=f"expected a file that only you can write at .*own, found {why}"),
        opened_own(own),
    ):
        pass


def test_a_file_of_this_users_is_read(own):
    """That others can read it says nothing about who wrote it; a private one is refused to them too."""
    with opened_own(own) as file:
        assert file.read() == b"state"
    assert objection(own.stat(), OTHERS)
    own.chmod(0o600)
    assert not objection(own.stat(), OTHERS)


@pytest.mark.parametrize("kind", ["link", "pipe", "device"])
def test_what_is_no_file_is_not_opened(own, kind):
    """Neither followed nor waited for."""
    other = own.with_name("other")
    if kind == "link":
        other.symlink_to(own)
    elif kind == "pipe":
        os.mkfifo(other)
    with pytest.raises(OSError), opened_own(other if kind != "device" else Path(os.devnull)):  # noqa: PT011
        pass
    assert kind == "device" or objection(other.lstat()) == "a link, or something else than a file"


def test_a_team_may_write_and_others_may_not(own, monkeypatch):
    """Whoever of the team owns it."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    for mode, fine in ((0o660, True), (0o664, True), (0o662, False), (0o666, False)):
        own.chmod(mode)
        assert (not objection(own.stat(), team=True)) == fine


def test_a_file_is_created_once_with_its_mode(tmp_path):
    """Whatever the umask is; one that is there stays as it is, and no link is followed."""
    before = os.umask(0o077)
    try:
        create(tmp_path / "new", 0o660)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o660
    (tmp_path / "new").chmod(0o600)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("new", "link"):
        create(tmp_path / name, 0o660)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    assert not (tmp_path / "nowhere").exists()
