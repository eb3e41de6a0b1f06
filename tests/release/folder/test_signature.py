"""Signatures of folders: who made them is shown by a public key, and verification without one goes on as before."""

import base64
import json
import shutil
import stat

import pytest

from labeldp import Classes, Curator, RandomizedResponse, Release, make_key, sign, verify
from labeldp.errors import InputError, OutputError

SPACE = Classes(["no", "yes"])


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Two key pairs."""
    where = tmp_path_factory.mktemp("keys")
    return make_key(where / "office"), make_key(where / "stranger")


@pytest.fixture
def folder(tmp_path):
    """A release on disk."""
    return Curator(["no", "yes"] * 20, SPACE).randomize(RandomizedResponse(SPACE, 1.0)).save(tmp_path / "shared")


def test_a_signature_shows_who_made_a_release(keys, folder):
    """It holds with the public key, the verdict then lists its maker as known, and the release opens as before."""
    (private, public), _ = keys
    sign(folder, private)
    assert verify(folder, public_key=public).holds
    assert not any("signature" in what for what in verify(folder, public_key=public).unknown)
    assert verify(folder).holds
    assert verify(folder).signature_unchecked
    assert not verify(folder, public_key=public).signature_unchecked
    assert len(Release.load(folder)) == 40


def resealed(folder):
    """Another release in the place of this one, under its signature."""
    other = Curator(["no", "yes"] * 20, SPACE).randomize(RandomizedResponse(SPACE, 0.5))
    for file in other.save(folder.parent / "other").iterdir():
        file.replace(folder / file.name)


def changed(folder, **parts):
    """Other parts of the signature."""
    file = folder / "_signature.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | parts), encoding="utf-8")


FORGERIES = {
    "no signature": lambda f: (f / "_signature.json").unlink(),
    "another release": resealed,
    "another signature": lambda f: changed(f, signature="00" * 64),
    "no hexadecimal": lambda f: changed(f, signature="x"),
    "a number": lambda f: changed(f, signature=7),
    "another schema": lambda f: changed(f, schema="labeldp/signature/2"),
    "more": lambda f: changed(f, more=1),
    "a large file": lambda f: changed(f, signature="00" * 100_000),
    "no JSON": lambda f: (f / "_signature.json").write_text("[", encoding="utf-8"),
    "a device": lambda f: ((f / "_signature.json").unlink(), (f / "_signature.json").symlink_to("/dev/zero")),
    "a byte of the certificate": lambda f: (f / "_certificate.json").write_bytes(
        (f / "_certificate.json").read_bytes() + b"\n"
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_was_not_signed_does_not_hold(keys, folder, forgery):
    """Nobody else's release passes for one of the holder of the key."""
    (private, public), _ = keys
    sign(folder, private)
    FORGERIES[forgery](folder)
    found = verify(folder, public_key=public)
    assert not found.holds
    assert "signed" in found.checks[-1].what


@pytest.mark.parametrize("when", ["digest", "verify"])
def test_a_certificate_that_is_exchanged_meanwhile_is_not_signed(keys, folder, when):
    """The signature is checked over the certificate that gave the verdict, whatever lies in the folder by then."""
    (private, public), _ = keys
    sign(folder, private)
    signed = (folder / "_certificate.json").read_bytes()
    evil = Curator(["no", "yes"] * 20, SPACE).randomize(RandomizedResponse(SPACE, 5.0)).save(folder.parent / "evil")
    shutil.copy(folder / "_signature.json", evil)

    def swap(name, *_):
        if name == when:
            (evil / "_certificate.json").write_bytes(signed)

    found = verify(evil, public_key=public, progress=swap)
    assert (evil / "_certificate.json").read_bytes() == signed
    assert not found.holds
    assert not found.checks[-1].holds


def test_the_key_of_a_stranger_signs_nothing_of_ours(keys, folder):
    """Nor does a signature that was made for another release."""
    (private, public), (strange, _) = keys
    sign(folder, strange)
    assert not verify(folder, public_key=public).holds
    copy = shutil.copytree(folder, folder.parent / "copy")
    (copy / "_signature.json").unlink()
    sign(copy, private)
    assert verify(copy, public_key=public).holds


def test_a_signature_heals_nothing(keys, folder):
    """What does not hold without a signature does not hold with one."""
    (private, public), _ = keys
    (folder / "data.parquet").write_bytes(b"")
    sign(folder, private)
    found = verify(folder, public_key=public)
    assert found.checks[-1].holds
    assert not found.holds


def test_keys_are_new_and_private(keys, folder):
    """The private key is readable by its owner alone, nothing is overwritten, and other files are no keys."""
    (private, public), _ = keys
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert b"PRIVATE" not in public.read_bytes()
    with pytest.raises(OutputError, match=r"new file|does not exist yet"):
        make_key(private)
    sign(folder, private)
    with pytest.raises(OutputError, match="new file"):
        sign(folder, private)
    with pytest.raises(InputError, match="private key"):
        sign(folder, public)
    with pytest.raises(InputError, match="public key"):
        verify(folder, public_key=private)
    with pytest.raises(InputError, match="there is no release"):
        sign(folder.parent, private)


@pytest.mark.parametrize("which", [0, 1])
def test_a_key_of_an_unknown_kind_is_refused(folder, tmp_path, which):
    """A key file whose algorithm is known to nobody is no key: Ed25519 with another number."""
    keys = make_key(tmp_path / "office")
    first, *lines, last = keys[which].read_text(encoding="ascii").splitlines()
    content = base64.b64decode("".join(lines)).replace(b"\x2b\x65\x70", b"\x73\x65\x70")
    keys[which].write_text("\n".join([first, base64.b64encode(content).decode(), last]), encoding="ascii")
    with pytest.raises(InputError, match="found none"):
        (sign, lambda *found: verify(found[0], public_key=found[1]))[which](folder, keys[which])
