"""Audits of release folders: sound ones hold, and what a law cannot give is noticed."""

import dataclasses

import numpy as np
import pytest

import labeldp as dp
from labeldp._random_words import TapeWords
from labeldp.audit import audit_folder
from labeldp.errors import InputError
from labeldp.mechanisms import draw as draw_labels

SPACE, RANGE = dp.Classes(["zq-a", "zq-b", "zq-c"]), dp.Interval(0, 1, 0.25)
ROWS = 4_000
LABELS = ["zq-a"] * ROWS
PRIOR = np.random.default_rng(2).dirichlet(np.ones(3), ROWS)
RANDOMIZERS = {
    "classes": lambda: dp.RandomizedResponse(SPACE, 1.0),
    "sets": lambda: dp.SubsetResponse(SPACE, 1.0),
    "bits": lambda: dp.BitResponse(SPACE, 1.0),
    "candidates": lambda: dp.PriorResponse(SPACE, 1.0, PRIOR),
    "numbers": lambda: dp.OptimalResponse(RANGE, 1.0),
}
SHARES = "frequencies"


def released(case, words=None):
    """A release of equal labels, which is the case that leaves frequencies least room; or one with given words."""
    randomizer = RANDOMIZERS[case]()
    labels = [1.0] * ROWS if case == "numbers" else LABELS
    release = dp.Curator(labels, randomizer.space).randomize(randomizer)
    if words is None:
        return release
    codes = draw_labels(release.channel, randomizer.space.encode(labels), words)
    return dp.Release(codes, release.channel, release.space, release.certificate)


def saved(release, path):
    """Its folder."""
    return release.save(path, label="y")


def failed(found):
    """Names of the failed checks."""
    return [check.what for check in found.checks if not check.holds]


@pytest.mark.parametrize("case", RANDOMIZERS)
def test_sound_releases_hold(case, tmp_path):
    """A release and another one of the same rows pass every check (false alarm 1e-6), and the law is what it claims."""
    one, two = (saved(released(case), tmp_path / name) for name in ("one", "two"))
    told = []
    found = audit_folder(one, [two], progress=lambda *what: told.append(what))
    assert found.holds, failed(found)
    assert found.audits[0].lower == found.certificate.guarantee.epsilon
    assert any(SHARES in check.what for check in found.checks)
    assert told[-1] == ("audit", ROWS, ROWS)
    assert any("features" in what for what in found.unknown)


@pytest.mark.parametrize("case", RANDOMIZERS)
def test_shared_noise_is_noticed(case, tmp_path):
    """Two releases of the same rows whose noise came from the same words agree more often than any labels allow."""
    words = TapeWords(np.random.default_rng(3).integers(0, 2**64 - 1, 100_003, dtype=np.uint64, endpoint=True))
    one, two = (saved(released(case, words), tmp_path / name) for name in ("one", "two"))
    assert failed(audit_folder(one, [two])) == ["its noise is independent of that of two"]


@pytest.mark.parametrize("case", ["classes", "sets", "bits", "candidates"])
def test_labels_that_stayed_raw_are_noticed(case, tmp_path):
    """If every released label is the true one, a class is more frequent than the channel allows."""
    release = released(case)
    raw = np.zeros(ROWS, dtype=np.int64)
    if release.class_channel.form == "class":
        codes = np.where(release.channel.possible(raw.astype(np.int32)), 0, release.codes).astype(np.int32)
    else:
        codes = np.zeros_like(release.codes)
        codes[:, 0] = 1
    kept = dp.Release(codes, release.channel, release.space, release.certificate)
    found = audit_folder(saved(kept, tmp_path / "raw"))
    assert any(SHARES in what for what in failed(found))
    assert all("zq" not in check.found for check in found.checks)


def test_numbers_that_stay_at_one_outcome_are_noticed(tmp_path):
    """If every released number is the same, it is more frequent than the channel allows."""
    release = released("numbers")
    stuck = dp.Release(np.zeros_like(release.codes), release.channel, release.space, release.certificate)
    assert any(SHARES in what for what in failed(audit_folder(saved(stuck, tmp_path / "stuck"))))


def test_sets_that_are_too_large_are_noticed(tmp_path):
    """A tenth more bits than the law makes, spread over classes, are noticed by their number alone."""
    words = np.random.default_rng(4).integers(0, 2**64 - 1, 100_003, dtype=np.uint64, endpoint=True)
    release = released("bits", TapeWords(words))
    extra = np.random.default_rng(5).integers(0, 80, ROWS)
    codes = release.codes | np.where(extra < 3, 1 << np.minimum(extra, 2), 0).astype(np.uint8)[:, None]
    codes |= np.where(np.random.default_rng(6).random(ROWS) < 0.1, 2, 0).astype(np.uint8)[:, None]
    larger = dp.Release(codes, release.channel, release.space, release.certificate)
    assert "released sets have the sizes that the channel implies" in failed(
        audit_folder(saved(larger, tmp_path / "x"))
    )


def test_what_cannot_be_verified_is_not_audited(tmp_path):
    """A folder that does not verify fails, and no law of it is audited."""
    folder = saved(released("classes"), tmp_path / "one")
    (folder / "extra.csv").write_text("x\n", encoding="utf-8")
    found = audit_folder(folder)
    assert not found.holds
    assert found.audits == ()
    assert not audit_folder(tmp_path / "nowhere").holds


def test_an_answer_is_verified_and_no_more(tmp_path):
    """An answer to a query has no law of single labels."""
    answer = dp.Curator(LABELS, SPACE).answer(dp.NoisyHistogram(SPACE, 1.0))
    found = audit_folder(answer.save(tmp_path / "answer", label="y"))
    assert found.holds
    assert found.audits == ()


def test_an_empty_release_holds(tmp_path):
    """No rows, no frequencies."""
    assert audit_folder(saved(released("classes")[:0], tmp_path / "none")).holds


def test_rows_that_were_chosen_by_what_was_released_are_not_accused(tmp_path):
    """A part of a release is post-processing, however one-sided its labels are: its shares are not looked at."""
    release = released("classes")
    found = audit_folder(saved(release[release.codes == 1], tmp_path / "part"))
    assert found.holds
    assert any("not checked" in check.what for check in found.checks)


def test_only_releases_of_the_same_rows_are_compared(tmp_path):
    """Another number of rows, another space, the release itself, or an answer, is refused."""
    one = saved(released("classes"), tmp_path / "one")
    fewer = saved(dp.Curator(LABELS[:-1], SPACE).randomize(dp.RandomizedResponse(SPACE, 1.0)), tmp_path / "fewer")
    numbers = saved(released("numbers"), tmp_path / "numbers")
    answer = dp.Curator(LABELS, SPACE).answer(dp.NoisyHistogram(SPACE, 1.0)).save(tmp_path / "answer", label="y")
    for other, words in (
        (fewer, "same 4000 rows"),
        (numbers, "other labels"),
        (one, "same one"),
        (answer, "found none"),
    ):
        with pytest.raises(InputError, match=words):
            audit_folder(one, [other])


def test_one_audit_that_fails_is_enough(tmp_path):
    """A folder whose checks hold fails where one law gives away more than it was charged with."""
    folder = saved(released("classes"), tmp_path / "one")
    found = audit_folder(folder)
    law = found.audits[0]
    assert found.holds
    assert dataclasses.replace(found, audits=(dataclasses.replace(law, claim=0.9),)).holds is False
