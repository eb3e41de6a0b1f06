"""``labeldp verify``: 0 where files, law and guarantee agree, 1 where they do not."""

import json

import pytest

from labeldp import Guarantee
from labeldp.release.folder import Certificate


@pytest.fixture
def released(release, table, tmp_path):
    """A release on disk."""
    assert release(table, tmp_path / "out").code == 0
    return tmp_path / "out"


def changed(path, change):
    """Change the certificate."""
    body = json.loads(path.read_text(encoding="utf-8"))
    change(body)
    path.write_text(json.dumps(body), encoding="utf-8")


DAMAGE = {
    "another byte": lambda f: (f / "data.parquet").write_bytes((f / "data.parquet").read_bytes() + b" "),
    "no certificate": lambda f: (f / "_certificate.json").unlink(),
    "a smaller epsilon": lambda f: changed(f / "_certificate.json", lambda body: body["guarantee"].update(epsilon=0.5)),
}


def test_what_was_released_holds(run, released):
    """Every check is shown as ok, with the sentence, what was declared, and what cannot be known."""
    ran = run("verify", released)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("ok  ") == 7
    assert "FAILED" not in ran.out
    text = (released / "_certificate.json").read_text(encoding="utf-8")
    certificate = json.loads(text)
    assert certificate["guarantee"]["sentence"] in ran.out
    assert f"\n{Guarantee(certificate['guarantee']['epsilon']).posterior_sentence()}\n" in ran.out
    listed = ran.out.split("Verification cannot show:\n")[1].split("\n\n")[0].splitlines()
    assert [line.strip() for line in listed] == [f"- {what}" for what in Certificate.from_json(text).unknown]
    assert len(listed) == len(certificate["cannot_know"])
    for what in certificate["assumptions"]:
        assert f"declared, not checked: {what}" in ran.out


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_was_changed_does_not_hold(run, released, damage):
    """A change of data, certificate or folder is found: exit code 1, what failed, and no guarantee is repeated."""
    DAMAGE[damage](released)
    ran = run("verify", released)
    assert ran.code == 1
    assert ran.err == ""
    assert ran.out.count("FAILED") == 1
    assert "expected" in ran.out
    assert "found" in ran.out
    assert "Each label was randomized alone" not in ran.out
    assert "Traceback" not in ran.out


def test_a_release_is_signed_and_its_signature_checked(run, release, table, tmp_path):
    """A key is made, a release is signed with it, and its signature holds with the public key alone."""
    assert run("key", tmp_path / "office").code == 0
    assert release(table, tmp_path / "out", sign=tmp_path / "office").code == 0
    unchecked, checked = (
        run("verify", tmp_path / "out"),
        run("verify", tmp_path / "out", "--public-key", tmp_path / "office.pub"),
    )
    assert (unchecked.code, checked.code) == (0, 0)
    assert "Signed, not checked: pass --public-key." in unchecked.out
    assert "not checked: pass" not in checked.out
    assert "certificate is no signature" not in checked.out
    (tmp_path / "out" / "_signature.json").unlink()
    assert run("verify", tmp_path / "out", "--public-key", tmp_path / "office.pub").code == 1


def test_a_key_that_is_none_is_refused_before_the_release(release, table, tmp_path):
    """Nothing is charged or written."""
    (tmp_path / "office").write_text("no key", encoding="utf-8")
    assert release(table, tmp_path / "out", sign=tmp_path / "office").code == 1
    assert not (tmp_path / "out").exists()


def test_what_is_no_folder_is_not_called_a_bad_release(run, tmp_path):
    """A wrong path is named, with exit code 1 and without a verdict."""
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    for name, found in (("nowhere", "nothing"), ("table.csv", "a file")):
        ran = run("verify", tmp_path / name)
        assert (ran.code, ran.out) == (1, "")
        assert f"expected the folder of a release at {tmp_path / name}, found {found}" in ran.err
