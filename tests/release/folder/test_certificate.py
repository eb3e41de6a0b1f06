"""Certificates: what they hold can be recomputed from the JSON alone, and nothing in them can be changed."""

import copy
import itertools
import json
import math
import re
from fractions import Fraction

import mpmath
import numpy as np
import pyarrow as pa
import pytest

import labeldp as dp
from labeldp.errors import VerificationError
from labeldp.learning.stages import MultiStage, ReleasePrior, UniformPrior
from labeldp.release import mechanism_of

mpmath.mp.dps = 60


@pytest.fixture
def folder(space, labels, randomizer_for, tmp_path):
    """A saved release by each mechanism."""
    release = dp.Curator(labels, space).randomize(randomizer_for(space, 1.0, len(labels)))
    return release.save(tmp_path / "out", pa.table({"x": range(60)}), keep="all")


@pytest.fixture
def unit_folder(space, labels, tmp_path):
    """A saved release of units of three rows."""
    curator = dp.Curator(labels, space, units=np.arange(60) // 3)
    return curator.randomize(dp.SubsetResponse(space, 1.0, 2)).save(tmp_path / "out")


def read(folder):
    """The certificate of a folder as plain data."""
    return json.loads((folder / "_certificate.json").read_text())


def verdict_of(folder, body):
    """What verification says with another certificate."""
    (folder / "_certificate.json").write_text(json.dumps(body))
    return dp.verify(folder)


def changed(body, path, value):
    """The same plain data with another value at a path."""
    body = copy.deepcopy(body)
    at = body
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return body


# An independent path to the guarantee


def worst_ratio(law):
    """The largest ratio of an outcome's probabilities given two true classes, from a law in JSON, by counting."""
    k, word = int(law["classes"]), 1 << int(law["bits"])
    match law["kind"]:
        case "response":
            keep, other = int(law["keep"]), int(law["other"])
            assert keep + (k - 1) * other == word
            return Fraction(keep, other)
        case "subset":
            size, member = int(law["size"]), int(law["member"])
            inside = Fraction(member, word * math.comb(k - 1, size - 1))
            outside = Fraction(word - member, word * math.comb(k - 1, size))
            return max(inside / outside, outside / inside)
        case "bits":
            chance = [
                [Fraction(int(law[name]), word), 1 - Fraction(int(law[name]), word)] for name in ("true", "false")
            ]
            given_a = [chance[0][a] * chance[1][b] for a, b in itertools.product((0, 1), repeat=2)]
            given_b = [chance[1][a] * chance[0][b] for a, b in itertools.product((0, 1), repeat=2)]
            return max(one / two for one, two in zip(given_a, given_b, strict=True))
        case "candidates":
            return max(candidate_ratio(int(law["keep"][m]), int(law["other"][m]), m, word) for m in range(1, k + 1))
        case "candidate-subset":
            laws = zip(law["size"], law["member"], range(k + 1), strict=True)
            return max(subset_ratio(int(d), int(member), m, word) for d, member, m in laws if m > 1)
        case "grouped":
            pairs = zip(law["channels"], law["repeats"], strict=True)
            return max(worst_ratio(channel) ** int(repeat) for channel, repeat in pairs)
    raise AssertionError(law["kind"])


def candidate_ratio(keep, other, m, word):
    """The same for ``m`` candidates, each outcome under each true class, and under a class outside."""
    usual = -(-word // m)
    rows = [[keep if i == j else other for j in range(m)] for i in range(m)] if m > 1 else [[word]]
    rows.append([usual] * (m - 1) + [word - (m - 1) * usual])
    assert all(sum(row) == word for row in rows)
    return max(Fraction(one[j], two[j]) for one in rows for two in rows for j in range(m))


def subset_ratio(size, member, m, word):
    """The same for subsets of ``m`` candidates: two of them, or one of them and a class outside."""
    inside = Fraction(member, word * math.comb(m - 1, size - 1))
    other = Fraction(word - member, word * math.comb(m - 1, size))
    outside = (size * inside + (m - size) * other) / m
    assert math.comb(m, size) * outside == 1
    return max(one / two for one in (inside, other, outside) for two in (inside, other, outside))


def assert_follows(body):
    """The stated epsilon is the logarithm of the worst ratio, rounded up and by very little."""
    (charge,) = body["charges"]
    ratio = worst_ratio(charge["law"])
    exact = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
    for stated in (charge["guarantee"]["epsilon"], body["guarantee"]["epsilon"]):
        assert exact <= mpmath.mpf(repr(stated)) < exact * (1 + mpmath.mpf("1e-12"))
    assert body["guarantee"]["delta"] == 0
    (factor,) = re.findall(r"a factor of at most (\S+)", body["guarantee"]["sentence"])
    assert mpmath.exp(exact) <= mpmath.mpf(factor) < mpmath.exp(exact) * mpmath.mpf("1.001")


def test_the_guarantee_follows_from_the_text(folder):
    """From the JSON alone, in exact arithmetic written again here, comes the epsilon that is stated."""
    assert_follows(read(folder))
    wrong = read(folder)
    wrong["guarantee"]["epsilon"] *= 0.99
    with pytest.raises(AssertionError):
        assert_follows(wrong)


def test_the_guarantee_of_units_follows_from_the_text(unit_folder):
    """So does that of units of several rows."""
    assert_follows(read(unit_folder))
    assert read(unit_folder)["guarantee"]["unit"] != "row"


@pytest.mark.parametrize("mechanism", ["auto", "randomized-response", "subset", "bits", "prior", "prior-subset"])
@pytest.mark.parametrize("epsilon", [0.01, 2.0, 20.0])
def test_the_guarantee_of_a_table_follows_from_the_text(write_table, columns, space, tables, mechanism, epsilon):
    """So does that of a table on disk, at small and large epsilon, and it is at most what was asked for."""
    source = write_table(tables / "t.parquet", columns)
    options = {"prior": "prior_"} if mechanism.startswith("prior") else {}
    asked = mechanism_of(mechanism, **options)
    dp.release_table(source, "colour", space, epsilon, tables / "o", keep=["id"], mechanism=asked)
    body = read(tables / "o")
    assert_follows(body)
    assert body["guarantee"]["epsilon"] <= epsilon
    assert dp.verify(tables / "o").holds


# There and back


@pytest.mark.parametrize(
    "space",
    [
        dp.Classes(["a", "b"], missing="a"),
        dp.Classes([2**62, -1]),
        dp.Classes([True, False]),
        dp.Interval(-1, 1, 0.5, missing=0),
    ],
    ids=repr,
)
def test_certificates_come_back(space):
    """Read and written again, the text is the same, whatever the space."""
    release = dp.Curator(list(space.points) * 3, space, name="ü \"'\n").randomize(dp.RandomizedResponse(space, 1.0))
    text = release.certificate.to_json()
    back = dp.Certificate.from_json(text)
    assert back.to_json() == text
    assert back.space == space
    assert back.guarantee == release.guarantee


def test_every_mechanism_comes_back(folder):
    """The text of a saved certificate is the text that its own reading writes."""
    text = (folder / "_certificate.json").read_text()
    assert dp.Certificate.from_json(text).to_json() == text


def test_integers_are_written_so_that_no_reader_rounds_them(folder):
    """No number in a law is beyond 53 bits but in a string."""

    def numbers(value):
        if isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                yield from numbers(item)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield value

    assert all(abs(number) < 2**53 for number in numbers(read(folder)))


# Tampering


def law_integers(law, path=()):
    """Every integer in a law, by its path; those that the law does not use are left out."""
    for name, value in law.items():
        if isinstance(value, str) and name != "kind":
            yield (*path, name)
        elif isinstance(value, list):
            for i, item in enumerate(value):
                unused = law["kind"] == "candidates" and (i == 0 or (name, i) == ("other", 1))
                if isinstance(item, dict):
                    yield from law_integers(item, (*path, name, i))
                elif name != "by_row" and not unused:
                    yield (*path, name, i)


def assert_integers_are_held(folder):
    """Every integer of the law, made larger or smaller, makes verification fail."""
    body = read(folder)
    where = ("charges", 0, "law")
    paths = list(law_integers(body["charges"][0]["law"]))
    assert len(paths) >= 4
    for path in paths:
        at = body["charges"][0]["law"]
        for step in path:
            at = at[step]
        for value in (int(at) + max(1, int(at) >> 20), int(at) - max(1, int(at) >> 20), 0, -int(at), "x", None):
            verdict = verdict_of(folder, changed(body, where + path, value if value is None else str(value)))
            assert not verdict.holds, (path, value)
    assert verdict_of(folder, body).holds


def test_every_integer_of_a_law_is_held(folder):
    """No weight, size or count can be replaced by another, in either direction."""
    assert_integers_are_held(folder)


def test_every_integer_of_a_unit_law_is_held(unit_folder):
    """The same where rows are grouped by their units."""
    assert_integers_are_held(unit_folder)


CHANGES = {
    "schema": (("schema",), "labeldp/certificate/2"),
    "no schema": (("schema",), None),
    "kind": (("charges", 0, "law", "kind"), "laplace"),
    "kind of kinds": (("charges", 0, "law", "kind"), ["response"]),
    "by row": (("charges", 0, "law", "by_row"), ["codes"]),
    "unknown field": (("charges", 0, "law", "extra"), "1"),
    "not a law": (("charges", 0, "law"), []),
    "no charges": (("charges",), []),
    "charge twice": (("charges", 0, "rows"), [[0, 60], [0, 60]]),
    "fewer rows charged": (("charges", 0, "rows"), [[0, 59]]),
    "more rows charged": (("charges", 0, "rows"), [[0, 61]]),
    "no rows charged": (("charges", 0, "rows"), []),
    "charged epsilon": (("charges", 0, "guarantee", "epsilon"), 0.5),
    "larger charged epsilon": (("charges", 0, "guarantee", "epsilon"), 1.5),
    "epsilon": (("guarantee", "epsilon"), 0.5),
    "infinite epsilon": (("guarantee", "epsilon"), math.inf),
    "nan epsilon": (("guarantee", "epsilon"), math.nan),
    "delta": (("guarantee", "delta"), 0.5),
    "trust": (("guarantee", "trust"), "central"),
    "unit": (("guarantee", "unit"), "street"),
    "features": (("guarantee", "features"), "private"),
    "assumptions": (("guarantee", "assumptions"), ["none"]),
    "sentence": (("guarantee", "sentence"), "Perfectly anonymous."),
    "rows": (("table", "rows"), 61),
    "infinite rows": (("table", "rows"), math.inf),
    "text rows": (("table", "rows"), "many"),
    "file rows": (("table", "files", 0, "rows"), 61),
    "hash": (("table", "files", 0, "sha256"), "0" * 64),
    "file": (("table", "files", 0, "name"), "../out/data.parquet"),
    "no files": (("table", "files"), []),
    "column": (("table", "columns", 0, "name"), "y"),
    "column type": (("table", "columns", 0, "type"), "double"),
    "label": (("label", "column"), "x"),
    "fewer classes": (("label", "space", "values"), ["red", "green", "blue", "grey"]),
    "other classes": (("label", "space", "values"), ["red", "green", "blue", "grey", "gold"]),
    "one class": (("label", "space", "values"), ["red"]),
    "space kind": (("label", "space", "kind"), "reals"),
    "huge interval": (("label", "space"), {"kind": "interval", "low": 0, "high": 1e300, "step": 1e-300}),
    "not private": (("private",), False),
    "almost private": (("private",), "yes"),
    "unknown part": (("true_labels",), ["red", "green"]),
    "unknown part of the table": (("table", "true_labels"), ["red", "green"]),
    "expectation": (("expects", "truth_probability"), 0.01),
    "more expected": (("expects", "flipped"), 17),
    "what can't be known": (("cannot_know",), []),
    "mechanism": (("charges", 0, "mechanism"), 5),
    "parts": (("table",), None),
    "strange parent": (("parent",), "its mother"),
}


@pytest.mark.parametrize(("path", "value"), CHANGES.values(), ids=CHANGES)
def test_no_part_can_be_changed(space, labels, tmp_path, path, value):
    """A certificate with another value anywhere fails, with a verdict and not with an exception."""
    release = dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 1.0))
    folder = release.save(tmp_path / "out", pa.table({"x": range(60)}), keep="all")
    body = changed(read(folder), path, value)
    assert not verdict_of(folder, body).holds


def test_a_smaller_epsilon_everywhere_fails(folder):
    """Claimed less in the charge, the guarantee and the sentence alike, the law still tells."""
    body = read(folder)
    for guarantee in (body["guarantee"], body["charges"][0]["guarantee"]):
        guarantee["epsilon"] = 0.5
    body["guarantee"]["sentence"] = dp.Guarantee(0.5).sentence()
    verdict = verdict_of(folder, body)
    assert not verdict.holds
    assert verdict.certificate is not None
    assert "epsilon follows" in verdict.checks[-1].what


def test_a_unit_needs_a_law_for_units(folder):
    """A promise for whole units on top of a law for single rows fails, though its parts agree."""
    body = read(folder)
    for guarantee in (body["guarantee"], body["charges"][0]["guarantee"]):
        guarantee["unit"] = "street"
    body["guarantee"]["sentence"] = dp.Guarantee(body["guarantee"]["epsilon"], unit="street").sentence()
    assert not verdict_of(folder, body).holds


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "5", '"text"', "{}", "[" * 100_000, '{"schema": ' * 50_000, "\x00", "NaN"],
    ids=lambda text: f"{text[:12]!r} {len(text)}",
)
def test_other_texts_are_no_certificate(space, labels, tmp_path, text):
    """What is no certificate gives a verdict, however strange it is."""
    folder = dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 1.0)).save(tmp_path / "out")
    with pytest.raises(VerificationError):
        dp.Certificate.from_json(text)
    (folder / "_certificate.json").write_text(text)
    assert not dp.verify(folder).holds


def test_bytes_that_are_no_text_are_no_certificate(space, labels, tmp_path):
    """Neither are bytes outside UTF-8, a folder in its place, or nothing."""
    folder = dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 1.0)).save(tmp_path / "out")
    (folder / "_certificate.json").write_bytes(b"\xff\xfe{}")
    assert not dp.verify(folder).holds
    (folder / "_certificate.json").unlink()
    assert not dp.verify(folder).holds
    (folder / "_certificate.json").mkdir()
    assert not dp.verify(folder).holds
    assert not dp.verify(tmp_path / "nowhere").holds


def test_what_a_prior_rests_on_is_said_beside_the_guarantee(space, labels):
    """A prior from an earlier release of the same rows: nobody is told that the later epsilon is all that it costs.

    Whoever takes the words out makes the certificate contradict itself.
    """
    curator = dp.Curator(labels, space, budget=3.0)
    first = curator.randomize(dp.RandomizedResponse(space, 2.0))
    stages = [MultiStage(epsilon=1.0, stages=1, prior=prior) for prior in (ReleasePrior(first), UniformPrior())]
    rests, alone = (each.fit(np.eye(60), dp.Curator(labels, space, budget=9.0)).release_.certificate for each in stages)
    assert alone.sentence == alone.guarantee.sentence()
    assert rests.sentence.startswith(rests.guarantee.sentence())
    assert "what both cost adds up" in rests.sentence
    text = rests.to_json()
    assert dp.Certificate.from_json(text) == rests
    for body in (
        changed(json.loads(text), ["guarantee", "sentence"], alone.sentence),
        changed(json.loads(text), ["assumptions"], [5]),
    ):
        with pytest.raises(VerificationError):
            dp.Certificate.from_json(json.dumps(body))


def test_a_wrong_rho_is_named(space, labels, tmp_path):
    """What is printed of two numbers is the one that differs."""
    folder = dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 1.0)).save(tmp_path / "out")
    body = read(folder)
    for part in (body, *body["charges"]):
        part["guarantee"]["rho"] = 0.25
    assert verdict_of(folder, body).checks[-1].found == "expected rho None, found rho 0.25"
