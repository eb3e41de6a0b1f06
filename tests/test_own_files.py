"""Files that are read back as this user's own: of anything that others can have written a sentence says what it is."""

import os
import stat
from pathlib import Path

import pytest

from labeldp._own_files import OTHERS, create, objection, opened_own
from labeldp.errors import OutputError


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
