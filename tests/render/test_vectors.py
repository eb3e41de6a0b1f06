"""The second verifier, in JavaScript, and the test vectors: what Python finds of each certificate, it finds too."""

import contextlib
import importlib.util
import json
import math
import random
import re
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.errors import VerificationError
from labeldp.mechanisms.queries import QUERIES
from labeldp.mechanisms.randomizers import RANDOMIZERS
from labeldp.mechanisms.resampling import DoubleResponse, DummyResponse
from labeldp.privacy import Guarantee, shown_above
from labeldp.privacy._rounding import exp_above, log_above, printed_above
from labeldp.privacy.channels import CHANNELS, CoarseningChannel, ResponseChannel, SubsetChannel, law_of, pack
from labeldp.release.folder import read_alone
from labeldp.results import CERTIFICATE_SCHEMA

HERE = Path(__file__).parent
VECTORS, GOLDEN = HERE.parent / "vectors", HERE.parent / "golden"
SPEC = importlib.util.spec_from_file_location("labeldp_vectors", VECTORS / "make.py")
make = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make)


def read(name):
    """The vectors of a file."""
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def script():
    """The second verifier in an engine of its own."""
    quickjs = pytest.importorskip("quickjs", reason="it runs the second verifier")
    context = quickjs.Context()
    context.set_memory_limit(1 << 28)
    context.set_time_limit(60)
    context.eval(files("labeldp.render").joinpath("verifier.js").read_text(encoding="utf-8"))
    return context


@pytest.fixture(scope="module")
def verified(script):
    """What the second verifier finds of a certificate's text."""
    return lambda text: json.loads(script.get("verifyCertificate")(text).json())


def python_refuses(body, tmp_path):
    """Whether Python refuses a certificate."""
    path = tmp_path / "_certificate.json"
    path.write_text(json.dumps(body), encoding="utf-8")
    try:
        read_alone(path)
    except VerificationError:
        return True
    return False


def test_the_vectors_are_those_that_are_made():
    """Byte for byte: nobody has edited what is computed, and the code still gives it."""
    for name, made in make.FILES.items():
        assert (VECTORS / name).read_text(encoding="utf-8") == make.text(made()), name


def test_both_verifiers_agree_on_every_certificate(verified):
    """Every golden certificate holds, at the same epsilon, and what is left to Python is what the vectors say."""
    vectors = read("certificates.json")
    assert len(vectors) >= 90
    for vector in vectors:
        found = verified((GOLDEN / vector["file"]).read_text(encoding="utf-8"))
        features = "the guarantees of resampled features" in found["left"]
        assert found["holds"] is (None if vector["left"] or features else True), (vector["file"], found)
        assert found["epsilon"] == float(vector["epsilon"])
        left = "the output distribution of "
        laws = [each.removeprefix(left) for each in found["left"] if each.startswith(left)]
        assert sorted(set(laws)) == vector["left"]


def test_both_verifiers_have_the_same_kinds_and_mechanisms(script):
    """The second one lists by hand what the registries of Python find."""

    def listed(name):
        return json.loads(script.eval(f"JSON.stringify({name})"))

    drawn = {name: kind.draws_from.kind for name, kind in RANDOMIZERS.own.items()}
    assert listed("MECHANISMS") == drawn | dict.fromkeys(listed("WITH_FEATURES"), "response")
    assert set(listed("WITH_FEATURES")) == {DoubleResponse.name, DummyResponse.name}
    assert {*listed("Object.keys(ODDS)"), *listed("GROUPS")} == set(CHANNELS.own)
    assert {*listed("Object.keys(SENSITIVITY)"), *listed("LEFT")} == set(QUERIES.own)


def test_both_verifiers_refuse_every_forgery(verified, tmp_path):
    """Whatever is changed in a certificate, and none for another reason than that it was changed."""
    for vector in read("forged.json"):
        body = json.loads((GOLDEN / vector["file"]).read_text(encoding="utf-8"))
        forged = make.edited(body, vector["edits"])
        found = verified(json.dumps(forged))
        assert not found["holds"], vector["why"]
        left = found["holds"] is None and len(found["left"]) > 2
        assert left or found["checks"][-1][2].startswith("expected"), vector["why"]
        assert python_refuses(forged, tmp_path), vector["why"]
        assert verified(json.dumps(body))["holds"]


def test_both_verifiers_accept_what_is_odd_and_honest(verified, tmp_path):
    """Codes of 60 bits, names of properties of every object, empty names."""
    for vector in read("honest.json"):
        body = make.edited(json.loads((GOLDEN / vector["file"]).read_text(encoding="utf-8")), vector["edits"])
        assert verified(json.dumps(body))["holds"] is True, (vector["why"], verified(json.dumps(body)))
        assert not python_refuses(body, tmp_path), vector["why"]


def test_both_verifiers_agree_on_a_thousand_forgeries(tmp_path, monkeypatch):
    """Edited, spelled anew, resealed: one verdict, one epsilon, one delta. Each day has other texts: `scripts/fuzz`."""
    pytest.importorskip("quickjs", reason="it runs the second verifier")
    monkeypatch.syspath_prepend(str(HERE.parent))
    two_verifiers = importlib.import_module("two_verifiers")
    day, verdicts = datetime.now(tz=UTC).date().isoformat(), []
    for number in range(1000):
        with contextlib.suppress(LookupError, TypeError, ValueError, RecursionError, AttributeError):
            chance = random.Random(f"{day} {number}")  # noqa: S311 (what a forger tries is no secret)
            text = two_verifiers.text_of(chance)
            found = two_verifiers.compared(text, tmp_path / "certificate.json")
            assert not found["differs"], f"seed '{day} {number}': {found['differs']}"
            verdicts.append(found["holds"])
    assert min(verdicts.count(True), verdicts.count(False)) > 100, "some hold, some do not"


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "7", '"text"', "[]", '{"schema": 1}', "{" * 5000, '{"a": 1, "a": 2}'],
)
def test_what_is_no_certificate_is_refused(verified, text):
    """Without an error of the language."""
    assert not verified(text)["holds"]


def test_a_repeated_key_is_refused(verified):
    """Readers would resolve it differently."""
    text = (GOLDEN / "command/auto/certificate.json").read_text(encoding="utf-8")
    assert verified(text)["holds"]
    for key in ('"epsilon": 1.0', '"private": true', '"kind": "response"'):
        assert key in text
        assert not verified(text.replace(key, f"{key}, {key}", 1))["holds"]


def test_a_zero_with_a_sign_is_no_whole_number(verified, tmp_path):
    """It reads as another zero in each language."""
    body = json.loads((GOLDEN / "command/auto/certificate.json").read_text(encoding="utf-8"))
    text = json.dumps(make.edited(body, [("label/space/values", [1, 0, 2])]))
    file = tmp_path / "certificate.json"
    for each, holds in ((text, True), (text.replace("[1, 0, 2]", "[1, -0, 2]"), False)):
        assert verified(each)["holds"] is holds
        file.write_text(each, encoding="utf-8")
        with contextlib.nullcontext() if holds else pytest.raises(VerificationError, match="zero with a sign"):
            read_alone(file)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 1 << 70), st.integers(0, 1 << 70), st.integers(1, 40))
def test_logarithms_and_decimals_are_those_of_python(script, small, more, digits):
    """The smallest float above a logarithm, the decimal that is shown, and the factor: to the last digit."""
    ratio = Fraction(small + more, small)
    fraction = f"[{ratio.numerator}n, {ratio.denominator}n]"
    epsilon = script.eval(f"floatAbove(logAbove({fraction}))")
    assert epsilon == log_above(ratio)
    assert script.eval(f"printedAbove({fraction})") == printed_above(_decimal_above(ratio))
    exact = Decimal(repr(float(epsilon)))
    assert script.eval(f"shownAbove(printed({float(epsilon)!r}), {digits})") == shown_above(exact, digits)
    if 0 < epsilon < 100:
        larger = f"larger(printed({epsilon!r}), binary({epsilon!r}))"
        assert script.eval(f"shownAbove(expAbove({larger}), 5)") == shown_above(exp_above(epsilon), 5)


def _decimal_above(ratio):
    """A decimal of 200 digits that is at least a fraction."""
    places = 200
    return Decimal(-((-ratio.numerator * 10**places) // ratio.denominator)).scaleb(-places)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(1e-6, 700),
    st.text(max_size=8),
    st.sampled_from(["local", "central", "peer", "shuffle"]),
    st.sampled_from([0.0, 1e-6, 0.3]),
)
def test_sentences_are_those_of_python(script, epsilon, unit, trust, delta):
    """For every epsilon, delta, unit and trust."""
    if any("\ud800" <= letter <= "\udfff" for letter in unit):
        return
    body = {"epsilon": epsilon, "delta": delta, "trust": trust, "unit": unit}
    script.set("given", json.dumps(body))
    found = script.eval("sentenceOf(JSON.parse(given), [])")
    assert found == Guarantee(epsilon, delta, trust, unit).sentence()


def test_a_number_far_off_ends(verified):
    """Integers of a hundred digits, where floats end, take no time and pass for nothing."""
    body = json.loads((GOLDEN / "command/auto-of-units/certificate.json").read_text(encoding="utf-8"))
    for path in ("charges/0/law/repeats/1", "charges/0/law/classes"):
        assert not verified(json.dumps(make.edited(body, [(path, "9" * 100)])))["holds"]
    assert not math.isfinite(float("1e999"))


def test_the_schema_is_that_of_every_certificate():
    """By a library, and forgeries of another shape are of no such schema."""
    jsonschema = pytest.importorskip("jsonschema", reason="it checks schemas")
    jsonschema.Draft202012Validator.check_schema(CERTIFICATE_SCHEMA)
    schema = jsonschema.Draft202012Validator(CERTIFICATE_SCHEMA)
    for vector in read("certificates.json"):
        schema.validate(json.loads((GOLDEN / vector["file"]).read_text(encoding="utf-8")))
    body = json.loads((GOLDEN / "command/auto/certificate.json").read_text(encoding="utf-8"))
    for path, value in (("charges/0/law/keep", 7), ("private", "yes"), ("more", 1), ("charges/0/law/more", "1")):
        assert not schema.is_valid(make.edited(body, [(path, value)])), path


def drawn(law, code, words, groups=()):
    """The label that docs/certificate-format.md says is released for words, written from that page."""
    word = 1 << 64
    if law["kind"] == "coarsening":  # of m groups: randomized response on their numbers
        m = groups[-1] + 1
        of_groups = {"kind": "response", "classes": m, "keep": law["keep"][m], "other": law["other"][m]}
        return [int(group == drawn(of_groups, groups[code], words)) for group in groups]
    if law["kind"] == "bits":
        limits = [int(law["true" if j == code else "false"]) for j in range(int(law["classes"]))]
        halves = [half for u in words for half in (u % (1 << 32), u >> 32)]
        numbers = [high << 32 | low for high, low in zip(halves, halves[len(words) :], strict=False)]
        return [int(number < limit) for number, limit in zip(numbers, limits, strict=False)]
    keep, others = (
        (int(law["keep"]), [int(law["other"])] * (int(law["classes"]) - 1))
        if law["kind"] == "response"
        else (int(law["keep"][0]), [int(weight) for weight in law["weights"][0]])
    )
    assert keep + sum(others) == word
    if words[0] < keep:
        return code
    total = keep
    for place, weight in enumerate(others):
        total += weight
        if words[0] < total:
            return place + (law["kind"] == "response" and place >= code)
    raise AssertionError("every word decides")


def test_words_are_drawn_as_the_page_says():
    """Each vector of four kinds, by a reading of the page that shares no code with the package."""
    seen = set()
    for vector in read("draws.json"):
        law, words = vector["law"], [int(word) for word in vector["words"]]
        if law["kind"] in {"response", "bits", "cluster", "coarsening"}:
            assert drawn(law, vector["code"], words, vector.get("groups", ())) == vector["released"], vector
            seen.add(law["kind"])
    assert seen == {"response", "bits", "cluster", "coarsening"}


@pytest.fixture(scope="module")
def drawn_in_javascript():
    """The label that a device releases for words, and the number of words that it takes."""
    context = pytest.importorskip("quickjs", reason="it runs JavaScript").Context()
    context.set_time_limit(60)
    source = (HERE.parents[1] / "js/labeldp.js").read_text(encoding="utf-8")
    context.eval(re.sub("^export ", "", source, flags=re.MULTILINE))
    context.eval(
        "const run = (text) => "
        "{ const [law, y, words, groups] = JSON.parse(text); return draw(law, y, words.map(BigInt), groups); }"
    )
    run, count = context.eval("run"), context.eval("(text) => wordsPerRow(JSON.parse(text))")

    def drawing(law, code, words, groups=None):
        found = run(json.dumps([law, code, list(map(str, words)), groups]))
        return int(found) if isinstance(found, int | float) else json.loads(found.json())

    return drawing, lambda law: int(count(json.dumps(law)))


def test_javascript_draws_every_vector(drawn_in_javascript):
    """Randomized response, subsets, bits and groups, at both sides of every limit, and rejected halves."""
    drawing, count = drawn_in_javascript
    seen = {"response": 0, "subset": 0, "bits": 0, "coarsening": 0}
    for vector in read("draws.json"):
        if (kind := vector["law"]["kind"]) in seen:
            released = drawing(vector["law"], vector["code"], vector["words"], vector.get("groups"))
            assert released == vector["released"], vector
            assert count(vector["law"]) == len(vector["words"])
            seen[kind] += 1
    assert min(seen.values()) >= 18, seen


@pytest.mark.parametrize("code", ["1", "0", None, -1, 2, 0.5, True, [1]])
def test_javascript_draws_for_numbers_of_classes_alone(drawn_in_javascript, code):
    """A text would be released as it is where it is kept, and as a number where it is not."""
    drawing, _ = drawn_in_javascript
    with pytest.raises(Exception, match="expected a class as a whole number"):
        drawing(law_of(ResponseChannel.at(2, 1.0)), code, [0])


@pytest.mark.parametrize(
    "change", [{"keep": str(1 << 64)}, {"other": "0"}, {"bits": "8"}, {"by_row": ["groups"]}, {"kind": "cluster"}]
)
def test_javascript_draws_from_laws_that_hide_alone(drawn_in_javascript, change):
    """A law that always keeps the label, or is another for each row, is refused."""
    drawing, _ = drawn_in_javascript
    with pytest.raises(Exception, match="expected the law"):
        drawing(law_of(ResponseChannel.at(2, 1.0)) | change, 1, [0])


@pytest.mark.parametrize(
    "groups", [None, [0, 0, 0], [0, 1], [0, 2, 2], [1, 1, 2], [0, 1, 0], ["0", "1", "1"], [0, 1, 2, 2]]
)
def test_javascript_draws_for_groups_of_all_classes(drawn_in_javascript, groups):
    """One group, or numbers of groups that are none of adjacent classes, are refused."""
    drawing, _ = drawn_in_javascript
    law = law_of(CoarseningChannel.at(3, 1.0, pack(np.array([[True, False, True]]))))
    assert drawing(law, 1, [0], [0, 0, 1]) == [1, 1, 0]
    with pytest.raises(Exception, match="expected the law"):
        drawing(law, 1, [0], groups)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.data())
def test_javascript_draws_what_python_does(drawn_in_javascript, classes, data):
    """For any words, classes, size of subsets and true class; where words run out, they do in both."""
    drawing, count = drawn_in_javascript
    size, epsilon = data.draw(st.integers(1, classes - 1)), data.draw(st.sampled_from([0.1, 1.0, 4.0]))
    channel = data.draw(
        st.sampled_from([ResponseChannel.at(classes, epsilon), SubsetChannel.at(classes, size, epsilon)])
    )
    code, number = data.draw(st.integers(0, classes - 1)), channel.words_per_row
    word = st.integers(0, (1 << 64) - 1)
    words = data.draw(st.lists(word, min_size=number, max_size=number))
    assert count(law_of(channel)) == number
    try:
        released = channel.draw(np.array([code], dtype=np.int32), np.array([words], dtype=np.uint64))[0]
    except RuntimeError:
        with pytest.raises(Exception, match="ran out of words"):
            drawing(law_of(channel), code, words)
        return
    if channel.form == "set":
        released = np.unpackbits(released, count=classes, bitorder="little")
    assert drawing(law_of(channel), code, words) == released.tolist()


def test_javascript_stops_where_words_run_out(drawn_in_javascript):
    """A row whose halves are all rejected is no release of anything."""
    drawing, _ = drawn_in_javascript
    law = law_of(SubsetChannel.at(5, 2, 1.0))
    with pytest.raises(Exception, match="ran out of words"):
        drawing(law, 0, [(1 << 64) - 1, 0, 0])
