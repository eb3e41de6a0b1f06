"""Words that follow from a key and from what is drawn; the key in its file; attempts at a file."""

import copy
import hashlib
import hmac
import os
import pickle
import stat

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from labeldp import Classes, ClassProbabilities, PriorResponse, RandomizedResponse, SubsetResponse
from labeldp._random_words import KeyFile, RunKey, SecureWords
from labeldp.errors import AttemptError, OutputError
from labeldp.mechanisms import draw, draw_context
from labeldp.mechanisms.randomizers import grouped, per_unit
from labeldp.release.folder import run_in
from labeldp.release.folder._run import put
from labeldp.release.folder._staging import fate_of, staging_of, wipe

SPACE = Classes(["a", "b", "c"])
CODES = np.arange(64, dtype=np.int32) % 3
CHANNEL = RandomizedResponse(SPACE, 1.0).channel()


def expanded(key, info):
    """HKDF-SHA256 of a key without salt, of 32 bytes: RFC 5869, sections 2.2 and 2.3."""
    extracted = hmac.digest(bytes(32), key, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def test_words_are_aes_under_a_key_by_hkdf(tmp_path):
    """Of a key in memory and in its file, by an implementation of the standard that is not the one in use."""
    key = RunKey()
    stored = key.store(tmp_path / "key")
    secret, info = (tmp_path / "key").read_bytes(), draw_context("ab" * 16, 7, CHANNEL, CODES)
    cipher = Cipher(algorithms.AES(expanded(secret, info)), modes.CTR(bytes(16))).encryptor()
    expected = np.frombuffer(cipher.update(bytes(80)), np.uint64)
    for source in (key, stored, pickle.loads(pickle.dumps(stored))):  # noqa: S301 (made here)
        assert source.private
        assert source.of_batch(lambda: info).block(0, 10).tolist() == expected.tolist()
        assert source.of_batch(lambda: info).block(3, 4).tolist() == expected[3:7].tolist()


def contexts():
    """Contexts that differ in one thing each."""
    other = CODES.copy()
    other[-1] = 1
    prior = np.tile([0.98, 0.01, 0.01], (64, 1))
    units = per_unit(RandomizedResponse(SPACE, 1.0), (1, 2))
    sizes = np.repeat([1, 2], 32)
    yield "the batch", ("r", 0, CHANNEL, CODES)
    yield "one label", ("r", 0, CHANNEL, other)
    yield "the place", ("r", 64, CHANNEL, CODES)
    yield "the release", ("s", 0, CHANNEL, CODES)
    yield "one row less", ("r", 0, CHANNEL, CODES[:-1])
    yield "epsilon", ("r", 0, RandomizedResponse(SPACE, 1.5).channel(), CODES)
    yield "the mechanism", ("r", 0, SubsetResponse(SPACE, 1.0, 1).channel(), CODES)
    yield "units", ("r", 0, grouped(units, sizes), CODES)
    yield "the unit of one row", ("r", 0, grouped(units, np.r_[sizes[:-1], 1]), CODES)
    yield "a prior", ("r", 0, PriorResponse(SPACE, 1.0, ClassProbabilities(prior, SPACE.points)).channel(), CODES)
    prior = prior[:, ::-1]
    yield "another prior", ("r", 0, PriorResponse(SPACE, 1.0, ClassProbabilities(prior, SPACE.points)).channel(), CODES)


def test_other_labels_never_meet_the_same_words():
    """Whatever a draw depends on gives other words: one label, one unit's size, a prior, epsilon, the place."""
    key = RunKey()
    found = {name: tuple(key.of_batch(lambda c=case: draw_context(*c)).block(0, 4)) for name, case in contexts()}
    assert len(set(found.values())) == len(found) >= 11
    again = {name: tuple(key.of_batch(lambda c=case: draw_context(*c)).block(0, 4)) for name, case in contexts()}
    assert found == again


def test_other_keys_give_other_words():
    """Two runs share nothing."""
    streams = [tuple(RunKey().of_batch(lambda: b"context").block(0, 4)) for _ in range(3)]
    assert len(set(streams)) == 3


def test_the_context_is_of_what_is_drawn():
    """The same labels in another layout of memory are the same, and of another type not taken for them."""
    wide = np.zeros((64, 2), np.int32)
    wide[:, 0] = CODES
    assert draw_context("r", 0, CHANNEL, wide[:, 0]) == draw_context("r", 0, CHANNEL, CODES)
    assert draw_context("r", 0, CHANNEL, CODES.astype(np.int64)) != draw_context("r", 0, CHANNEL, CODES)


def test_every_attempt_draws_the_same():
    """A batch that is drawn again has the same released labels, and they follow the channel."""
    key = RunKey()
    codes = np.zeros(20_000, dtype=np.int32)
    first, second = (
        draw(CHANNEL, codes, key.of_batch(lambda: draw_context("r", 5, CHANNEL, codes)), 5) for _ in range(2)
    )
    assert (first == second).all()
    kept = CHANNEL.matrix()[0, 0]
    # the false-alarm rate of five standard deviations is below 1e-6
    assert abs((first == 0).mean() - kept) < 5 * np.sqrt(kept * (1 - kept) / codes.size)


# The key


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_key_in_memory_is_not_copied(duplicate):
    """Nor are the words that follow from it."""
    for secret in (RunKey(), RunKey().of_batch(lambda: b"")):
        with pytest.raises(TypeError, match="copied"):
            duplicate(secret)
        assert "bytes" not in repr(secret)


def test_a_key_is_written_for_its_owner_into_a_new_file(tmp_path, umask):
    """Neither an old file nor a link is written through, whatever the mask of modes."""
    umask(0)
    RunKey().store(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("key", "link"):
        with pytest.raises(FileExistsError):
            RunKey().store(tmp_path / name)
    assert not (tmp_path / "elsewhere").exists()


def test_a_key_that_others_can_read_is_refused(tmp_path):
    """Nor is a link, a short key, a wiped one, or none."""
    key = RunKey().store(tmp_path / "key")
    (tmp_path / "link").symlink_to(key.path)
    (tmp_path / "short").write_bytes(b"short")
    (tmp_path / "zeros").write_bytes(bytes(32))
    for name in ("short", "zeros"):
        (tmp_path / name).chmod(0o600)
    refused = ["link", "short", "zeros", "none"]
    key.path.chmod(0o640)
    for name in ["key", *refused]:
        with pytest.raises(OutputError, match="private files"):
            KeyFile(tmp_path / name).of_batch(lambda: b"")
    key.path.chmod(0o600)
    assert isinstance(key.of_batch(lambda: b"").block(0, 1)[0], np.uint64)


def test_a_wiped_key_is_overwritten_before_it_is_removed(tmp_path):
    """Another name of the file holds zeros afterwards."""
    key = RunKey().store(tmp_path / "key")
    os.link(tmp_path / "key", tmp_path / "other")
    key.wipe()
    key.wipe()
    assert not key.path.exists()
    assert (tmp_path / "other").read_bytes() == bytes(32)


# Runs


@pytest.mark.parametrize("shared", [False, True])
def test_a_run_leaves_nothing(tmp_path, shared):
    """At its end, and after an error, key and attempts are gone; what was put in its place stays."""
    staging = tmp_path / ".o.labeldp-ab"
    staging.mkdir()

    def work(fails):
        with run_in(staging, shared=shared) as run:
            assert (run.folder / "key").exists() == shared
            with run.attempt(f"file-{fails}") as path:
                path.write_text("rows")
                assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
                if fails:
                    raise RuntimeError("x")

    work(False)
    with pytest.raises(RuntimeError):
        work(True)
    assert [path.name for path in tmp_path.iterdir()] == [staging.name]
    assert [path.name for path in staging.iterdir()] == ["file-False"]


def test_the_first_link_stays(tmp_path):
    """Equal bytes are dropped, others are an error, and neither changes the file."""
    for name, text in (("one", "rows"), ("two", "rows"), ("three", "others")):
        (tmp_path / name).write_text(text)
    put(tmp_path / "one", tmp_path / "final")
    put(tmp_path / "two", tmp_path / "final")
    with pytest.raises(OutputError, match="same bytes"):
        put(tmp_path / "three", tmp_path / "final")
    assert (tmp_path / "final").read_text() == "rows"
    assert (tmp_path / "final").samefile(tmp_path / "one")
    assert hashlib.sha256(b"rows").hexdigest() != hashlib.sha256(b"others").hexdigest()


def test_streams_of_a_call_stay_fresh():
    """Noise and labels in memory have keys of their own, which follow from nothing."""
    assert SecureWords().of_batch(lambda: b"x").block(0, 2).tolist() != SecureWords().block(0, 2).tolist()


def test_a_key_of_somebody_else_is_not_drawn_with(tmp_path, monkeypatch):
    """A file or folder of another user, one that others may read, one with a second name, and links are refused."""
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    key = RunKey().store(run / "key")
    assert key.of_batch(lambda: b"").block(0, 1).size == 1
    (tmp_path / "linked").symlink_to(run)
    (run / "name").hardlink_to(run / "key")
    for other in (key, KeyFile(tmp_path / "linked" / "key")):
        with pytest.raises(OutputError, match="expected to read the private files"):
            other.of_batch(lambda: b"")
    (run / "name").unlink()
    run.chmod(0o755)
    with pytest.raises(OutputError):
        key.of_batch(lambda: b"")
    run.chmod(0o700)
    key.of_batch(lambda: b"")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(OutputError):
        key.of_batch(lambda: b"")


def test_a_planted_link_wipes_nothing_of_others(tmp_path):
    """A run folder that was replaced by a link to another folder leaves what is there."""
    (tmp_path / "mine").mkdir(mode=0o700)
    RunKey().store(tmp_path / "mine" / "key")
    (tmp_path / "run").symlink_to(tmp_path / "mine")
    wipe(tmp_path / "run")
    assert any((tmp_path / "mine" / "key").read_bytes())


def test_attempts_that_differ_are_noted_whoever_hears_of_them(tmp_path):
    """The mark lies in the private folder of the run: it counts whatever error is read first, and after a crash."""
    target, name = tmp_path / "out", "0" * 32
    staging = staging_of(target, name)
    staging.mkdir(mode=0o700)
    with run_in(staging, shared=False) as run:
        for text in ("one", "one"):
            with run.attempt("part") as path:
                path.write_text(text)
        assert not run.differed
        with pytest.raises(AttemptError), run.attempt("part") as path:
            path.write_text("other")
        assert run.differed
        assert fate_of([target], name, None, ended=True) == "unknown"  # as after a driver that was killed
