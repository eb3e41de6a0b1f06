"""``labeldp audit``: 0 where nothing beyond the claim was found, 1 where it was, 2 where nothing could be audited."""

import json

import pytest

MECHANISMS = """
import numpy as np
rng = np.random.default_rng()

def response(label, n, keep=0.731):
    other = {"zq-a": "zq-b", "zq-b": "zq-a"}[label]
    return np.where(rng.random(n) < keep, label, other)

def doubled(label, n):
    return response(label, n, 0.88)

def counted(label, n):
    return rng.integers(0, 2, n) + label

def one(label):
    return round(label + rng.laplace(0, 2), 3)

def clipped_below_alone(label):
    return round(max(label, 0.0) + rng.laplace(0, 1), 3)

def boom(label, n):
    raise ValueError(label)

def short(label, n):
    return [label]

number = 7
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a module of mechanisms, from which the command is run."""
    (tmp_path / "zq_mechanisms.py").write_text(MECHANISMS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    return tmp_path


@pytest.fixture
def audit(run, here):
    """Audit a function of the module."""
    del here

    def auditing(name, *options, claim="1.01"):
        return run("audit", "--callable", f"zq_mechanisms:{name}", "--claim", claim, "--draws", "40000", *options)

    return auditing


def test_a_sound_function_holds(audit):
    """Nothing beyond the claim: exit code 0, with the claim, what was shown, how, and that this is no proof."""
    ran = audit("response", "--classes", "zq-a,zq-b", "--confidence", "0.999999")
    assert (ran.code, ran.err) == (0, "")
    assert "The claim of epsilon 1.01 was not refuted: it is between" in ran.out
    assert "200,000" not in ran.out
    assert "confidence 0.999999" in ran.out
    assert "no proof of privacy" in ran.out


def test_a_broken_function_fails(audit):
    """More than the claim: exit code 1, with the event and the counts that show it."""
    ran = audit("doubled", "--classes", "zq-a,zq-b")
    assert (ran.code, ran.err) == (1, "")
    assert "The claim of epsilon 1.01 is wrong: at least" in ran.out
    assert "from 'zq-a'" in ran.out or "from 'zq-b'" in ran.out


def test_whole_numbers_are_given_as_such(audit):
    """Classes that are whole numbers reach the function as whole numbers."""
    assert audit("counted", "--classes", "0,1").code == 1


def test_labels_of_a_range_are_its_ends_and_middle(audit):
    """A function of a real label is called with both ends, so that one that clips one side alone is caught."""
    assert audit("one", "--interval=-1,1,0.5", "--confidence", "0.999999").code == 0
    assert audit("clipped_below_alone", "--interval=-3,3,0.5").code == 1
    assert (
        audit(
            "clipped_below_alone",
            "--interval=-3,3,0.5",
            claim="0.5",
        ).code
        == 1
    )


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("boom", ["--classes", "zq-a,zq-b"], "raised ValueError"),
        ("short", ["--classes", "zq-a,zq-b"], "outputs, found 1"),
        ("number", ["--classes", "zq-a,zq-b"], "can be called, found int"),
        ("nothing", ["--classes", "zq-a,zq-b"], "found no such name"),
        ("response", [], "either --classes or --interval"),
        ("response", ["--classes", "zq-a,zq-b", "--interval", "0,1,0.5"], "either --classes or --interval"),
        ("response", ["--classes", "zq-a"], "at least two declared classes"),
        ("response", ["--classes", "zq-a,zq-b", "--delta", "1"], "below 1"),
        ("response", ["--classes", "zq-a,zq-b", "--delta", "nan"], "found nan"),
        ("response", ["--classes", "zq-a,zq-b", "--confidence", "2"], "below 1"),
        ("response", ["--interval", "0,1"], "LO,HI,STEP"),
    ],
)
def test_what_cannot_be_audited_ends_with_two(audit, name, options, words, as_users_call):
    """Bad usage, and functions that fail, end with exit code 2 and a reason that shows no label."""
    del as_users_call
    ran = audit(name, *options)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "zq-" not in ran.err


@pytest.mark.parametrize("claim", ["0", "-1", "nan", "inf"])
def test_a_claim_that_none_can_be_ends_with_two(audit, claim):
    """Claims of zero and the like are refused."""
    assert audit("response", "--classes", "zq-a,zq-b", claim=claim).code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["out", "--callable", "zq_mechanisms:response"],
        ["--callable", "zq_mechanisms:response", "--classes", "a,b"],
        ["--callable", "zq_nowhere:response", "--claim", "1", "--classes", "a,b"],
        ["out", "--claim", "1"],
        ["out", "--classes", "a,b"],
        ["--draws", "many"],
        ["out", "--truth", "t.csv", "--label", "y"],
        ["out", "--label", "y"],
        ["--callable", "zq_mechanisms:response", "--claim", "1", "--classes", "zq-a,zq-b", "--model", "m.skops"],
        ["--callable", "zq_mechanisms:response", "--claim", "1", "--classes", "zq-a,zq-b", "--profile"],
    ],
)
def test_bad_usage_ends_with_two(run, here, arguments):
    """Neither or both of a folder and a function, or options of the other, end with exit code 2."""
    del here
    assert run("audit", *arguments).code == 2


def test_a_release_is_audited(run, release, table, tmp_path):
    """A sound release holds, beside another of the same rows: each check, the law, the draw, and what is unknown."""
    for name in ("one", "two"):
        assert release(table, tmp_path / name, budget=2).code == 0
    ran = run("audit", tmp_path / "one", "--against", tmp_path / "two")
    assert (ran.code, ran.err) == (0, "")
    assert "FAILED" not in ran.out
    assert ran.out.count("ok  ") == 10
    assert "the law, from its integers: The claim of epsilon 1 holds: it is 1." in ran.out
    assert "features that tell the label give it away at any epsilon" in ran.out


def test_a_release_is_attacked(run, release, table, tmp_path):
    """With true labels that are public, it is shown what attacks by the released label gain, and what is proven."""
    assert release(table, tmp_path / "out").code == 0
    ran = run("audit", tmp_path / "out", "--truth", table, "--label", "y", "--labels-are-public")
    assert (ran.code, ran.err) == (0, "")
    assert "what an attack on the labels gains" in ran.out
    assert "any class equally often" in ran.out


def test_a_release_that_does_not_verify_fails(run, release, table, tmp_path):
    """Exit code 1, and what failed."""
    assert release(table, tmp_path / "out").code == 0
    certificate = tmp_path / "out" / "certificate.json"
    body = json.loads(certificate.read_text(encoding="utf-8"))
    body["guarantee"]["epsilon"] = 0.5
    certificate.write_text(json.dumps(body), encoding="utf-8")
    ran = run("audit", tmp_path / "out")
    assert ran.code == 1
    assert "FAILED" in ran.out


def test_the_same_release_twice_ends_with_two(run, release, table, tmp_path):
    """A release is not compared with itself."""
    assert release(table, tmp_path / "out").code == 0
    ran = run("audit", tmp_path / "out", "--against", tmp_path / "out")
    assert ran.code == 2
    assert "found the same one" in ran.err
