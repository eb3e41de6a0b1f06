"""Answers that are randomized on devices: a declaration, its two readers, and reports that are taken over."""

import dataclasses
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from labeldp import (
    Classes,
    Declaration,
    GroupResponse,
    Interval,
    PriorResponse,
    RandomizedResponse,
    Release,
    __version__,
)
from labeldp.cli import main
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import class_randomizers, number_randomizers
from labeldp.privacy.channels import law_of, unpack
from labeldp.release.collection import Collection, read_report
from labeldp.results import DECLARATION_SCHEMA

DEVICE = Path(__file__).parents[1] / "js"
ANSWERS = Classes(["no", "yes", "rather not say"])
SURVEY = "survey 2026"
#: The kinds that devices draw.
ON_DEVICES = ("randomized-response", "subset", "bits", "groups")
#: The kinds that are declared.
DECLARED = (*(kind.name for kind in class_randomizers()), "groups")
GROUPS = [["no"], ["yes", "rather not say"]]


def declaration(name="randomized-response", epsilon=1.0):
    """A declaration of three answers."""
    if name == "groups":
        return Declaration("answer", GroupResponse(ANSWERS, epsilon, groups=GROUPS), SURVEY)
    kinds = {kind.name: kind for kind in class_randomizers()}
    return Declaration("answer", kinds[name](ANSWERS, epsilon), SURVEY)


@pytest.mark.parametrize("name", DECLARED)
def test_a_declaration_is_read_back(name):
    """The text says all of it, and the law is made anew from mechanism and epsilon."""
    declared = declaration(name)
    again = Declaration.from_json(declared.to_json())
    assert again.to_json() == declared.to_json()
    assert again.channel.odds == declared.channel.odds


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.5},
        {"law": {}},
        {"mechanism": "subset"},
        {"mechanism": "prior"},
        {"values": ["no", "yes"]},
        {"values": ["no", "no", "yes"]},
        {"meaning": "Nobody can learn anything."},
        {"name": "1"},
        {"declared_by": "two\nlines"},
        {"schema": "labeldp/declaration/2"},
        {"more": 1},
        {"groups": GROUPS},
        {"groups": []},
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(change):
    """Whatever was changed by hand, it does not follow from the rest."""
    body = json.loads(declaration().to_json()) | change
    with pytest.raises(InputError, match=r"expected a declaration|whoever declares"):
        Declaration.from_json(json.dumps(body))


@pytest.mark.parametrize("name", DECLARED)
def test_a_declaration_has_a_schema(name):
    """That of each mechanism validates, and one with a part more, less or of another kind does not."""
    schema = jsonschema.Draft202012Validator(DECLARATION_SCHEMA)
    jsonschema.Draft202012Validator.check_schema(DECLARATION_SCHEMA)
    body = json.loads(declaration(name).to_json())
    assert list(schema.iter_errors(body)) == []
    for change in ({"more": 1}, {"epsilon": "1"}, {"values": ["no"]}, {"law": {"kind": name}}, {"name": "1"}):
        assert not schema.is_valid(body | change)
    assert not schema.is_valid({key: value for key, value in body.items() if key != "meaning"})


GROUPINGS = [
    None,
    7,
    "no",
    [],
    [["no", "yes", "rather not say"]],
    [["no"], ["yes"]],
    [["no"], ["rather not say", "yes"]],
    [["no", "rather not say"], ["yes"]],
    [["no"], [], ["yes", "rather not say"]],
    [["no"], [["yes", "rather not say"]]],
    [["no"], {"yes": 1, "rather not say": 1}],
]


@pytest.mark.parametrize("groups", GROUPINGS)
def test_groups_are_declared_in_one_form(in_javascript, groups):
    """Each answer is in one group of adjacent ones, in declared order, for Python and for the device."""
    body = json.loads(declaration("groups").to_json()) | {"groups": groups}
    with pytest.raises(InputError, match="expected"):
        Declaration.from_json(json.dumps(body))
    with pytest.raises(Exception, match="expected two or more groups of all values"):
        in_javascript('randomize(d, "yes")', body)


def test_groups_without_their_law_are_refused_on_a_device(in_javascript):
    """A declaration has them both or neither."""
    body = json.loads(declaration().to_json()) | {"groups": GROUPS}
    with pytest.raises(Exception, match="none without a law of groups"):
        in_javascript('randomize(d, "yes")', body)


def test_groups_are_declared_on_the_command_line(tmp_path, capsys):
    """One option for each group, with the mechanism of groups alone."""
    file, how = (
        tmp_path / "d.json",
        ("--label", "stars", "--classes", "1,2,3", "--epsilon", "1", "--declared-by", SURVEY),
    )
    grouped = ("--mechanism", "groups", "--group", "1,2", "--group", "3")
    assert main(["declare", str(file), *how, *grouped]) == 0
    assert Declaration.read(file).groups == (("1", "2"), ("3",))
    for wrong in (
        grouped[:2],
        grouped[2:],
        (*grouped[:2], "--group", "1,3", "--group", "2"),
        (*grouped, "--keeping", "0.8"),
    ):
        assert main(["declare", str(tmp_path / "e.json"), *how, *wrong]) == 1
    assert "--group" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", "{}", "no JSON", '{"schema": 1, "schema": 2}'])
def test_another_text_is_no_declaration(text):
    """What strangers send is refused in one sentence."""
    with pytest.raises(InputError, match="expected a declaration"):
        Declaration.from_json(text)


def test_a_file_that_is_no_declaration_is_not_waited_for(tmp_path):
    """A pipe that nobody writes to, a device without end, and a large file are refused at once."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    large.write_text(" " * (1 << 20) + declaration().to_json(), encoding="utf-8")
    for file in (pipe, Path("/dev/zero"), large, tmp_path):
        with pytest.raises(InputError, match="found no file that can be read"):
            Declaration.read(file)


def test_rows_that_differ_and_numbers_are_not_declared():
    """A device has one mechanism, and draws classes."""
    prior = PriorResponse(Classes(["no", "yes"]), 1.0, [[0.8, 0.2]])
    of_rows = [GroupResponse(ANSWERS, 1.0, groups=[GROUPS] * rows) for rows in (1, 2)]
    for mechanism in (prior, *of_rows, number_randomizers()[0](Interval(0, 6, 1), 1.0)):
        with pytest.raises(InputError, match="same for all rows"):
            Declaration("answer", mechanism, SURVEY)


@pytest.fixture(scope="module")
def in_javascript():
    """A function that evaluates an expression with a declaration ``d``, in an engine whose random words are counted."""
    context = pytest.importorskip("quickjs", reason="it runs JavaScript").Context()
    context.set_time_limit(60)
    source = (DEVICE / "labeldp.js").read_text(encoding="utf-8")
    context.eval(
        "let taken = 0n; globalThis.crypto = { getRandomValues: (a) => { "
        "for (let i = 0; i < a.length; i += 1) a[i] = (taken += 0x9E3779B97F4A7C15n) & 0xFFFFFFFFFFFFFFFFn; "
        "return a; } };"
    )
    context.eval(re.sub("^export ", "", source, flags=re.MULTILINE))
    context.eval(
        "const kept = {}; const storage = { getItem: (k) => kept[k] ?? null, setItem: (k, v) => { kept[k] = v; } };"
    )

    def evaluated(expression, body):
        run = context.eval(f"(text) => {{ const d = JSON.parse(text); return JSON.stringify({expression}); }}")
        return json.loads(run(json.dumps(body)))

    return evaluated


@pytest.mark.parametrize("name", ON_DEVICES)
def test_a_device_reports_what_python_takes_over(in_javascript, name):
    """Reports are values, or lists of values in declared order, and stand in a release as they are."""
    declared = declaration(name)
    body = json.loads(declared.to_json())
    reports = in_javascript("Array.from({ length: 300 }, (_, i) => randomize(d, d.values[i % 3]))", body)
    release = Release.randomized(reports, declared.mechanism, declared_by=SURVEY)
    assert release.to_arrow().to_pylist() == reports


def test_a_device_that_is_asked_again_gives_the_same_report(in_javascript):
    """Whatever the answer is then; another declaration is another question."""
    one, two = (json.loads(declaration().to_json()) for _ in range(2))
    ask = 'Array.from({ length: 40 }, (_, i) => permanent(d, i % 2 ? "yes" : "no", storage))'
    assert len(set(in_javascript(ask, one))) == 1
    first = in_javascript("Object.keys(kept).length", one)
    in_javascript('permanent(d, "yes", storage)', two)
    assert in_javascript("Object.keys(kept).length", two) == first + 1
    assert "yes" not in json.dumps(in_javascript("Object.keys(kept)", one))


@pytest.mark.parametrize("name", ON_DEVICES)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0.999}, "discloses more"),
        ({"values": ["no", "yes"]}, "a law of its values"),
        ({"values": ["no", "no", "yes"]}, "a law of its values"),
        ({"law": {"kind": "projective"}}, "a law of its values"),
        ({"schema": "labeldp/declaration/2"}, "of schema"),
        ({"declared_by": None}, "of schema"),
    ],
)
def test_a_device_refuses_a_declaration_that_discloses_more(in_javascript, name, change, words):
    """Its law costs more than it says, or it is none: nothing is drawn."""
    with pytest.raises(Exception, match=words):
        in_javascript('randomize(d, "yes")', json.loads(declaration(name).to_json()) | change)


@pytest.mark.parametrize("name", ON_DEVICES)
@pytest.mark.parametrize("answers", [1, 3])
def test_a_device_shows_no_sentence_that_promises_more(in_javascript, name, answers):
    """The meaning is that of the law and of all answers: a smaller percentage or another sentence is refused."""
    declared = dataclasses.replace(declaration(name, 1.0), answers=answers)
    body, percent = json.loads(declared.to_json()), {1: "73.2", 3: "95.3"}[answers]
    assert f"at most {percent} % sure" in body["meaning"]
    assert in_javascript("read(d).meaning", body) == body["meaning"]
    one, all_of_them = "Your answer is changed", "Each answer is changed"
    other = (one, all_of_them) if answers == 1 else (all_of_them, one)
    for wrong in (
        body["meaning"].replace(percent, f"{float(percent) - 0.2:.1f}"),
        body["meaning"].replace(percent, "5"),
        body["meaning"].replace(*other),
        f"{body['meaning']} Nobody can learn anything.",
        "Nobody can learn anything.",
    ):
        with pytest.raises(Exception, match="promises more"):
            in_javascript('randomize(d, "yes")', body | {"meaning": wrong})


@pytest.mark.parametrize("name", ON_DEVICES)
def test_a_device_takes_every_sentence_that_is_declared(in_javascript, name):
    """From small to large epsilons, of one answer or several: the percentage is rounded up."""
    for epsilon, answers in itertools.product((0.01, 0.1, 0.3, 1.0, 2.5, 7.0, 20.0), (1, 2, 7, 1000)):
        body = json.loads(dataclasses.replace(declaration(name, epsilon), answers=answers).to_json())
        assert in_javascript("read(d).epsilon", body) == epsilon
    with pytest.raises(Exception, match="from 2 to 1000"):
        in_javascript("read(d)", body | {"answers": 10**9})


def test_a_device_takes_declared_answers_alone(in_javascript):
    """Another answer would leave as something, or show that it was none."""
    with pytest.raises(Exception, match="one of the declared values"):
        in_javascript('randomize(d, "maybe")', json.loads(declaration().to_json()))


@pytest.mark.parametrize("name", ON_DEVICES)
def test_a_million_draws_in_node_are_those_of_python(name, tmp_path):
    """From the same random words, bit for bit: a digest of all reports, or of a tenth where a row has several words."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("it needs Node")
    channel = declaration(name).channel
    per_row = channel.words_per_row
    rows = 1_000_000 if per_row == 1 else 100_000
    groups = channel.groups()[0].tolist() if name == "groups" else None
    words = np.random.default_rng(3).integers(0, 2**64, (rows, per_row), dtype=np.uint64)
    codes = (np.arange(rows) % 3).astype(np.int32)
    (tmp_path / "words").write_bytes(words.astype("<u8").tobytes())
    script = (
        f"import {{ draw }} from {json.dumps((DEVICE / 'labeldp.js').as_uri())};"
        "import { readFileSync } from 'node:fs'; import { createHash } from 'node:crypto';"
        f"const law = {json.dumps(law_of(channel))}, n = {rows}, w = {per_row};"
        f"const b = readFileSync({json.dumps(str(tmp_path / 'words'))});"
        "const words = new BigUint64Array(b.buffer, b.byteOffset, n * w), out = [];"
        f"const groups = {json.dumps(groups)};"
        "for (let i = 0; i < n; i += 1) out.push(draw(law, i % 3, words.subarray(i * w, i * w + w), groups));"
        "console.log(createHash('sha256').update(Uint8Array.from(out.flat())).digest('hex'));"
    )
    run = subprocess.run([node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True)
    released = channel.take(np.zeros(rows, dtype=np.int64)).draw(codes, words)
    entries = released if channel.form == "class" else unpack(released, 3)
    assert run.stdout.strip() == hashlib.sha256(entries.astype(np.uint8).tobytes()).hexdigest()


def test_several_answers_of_a_person_share_an_epsilon(in_javascript, tmp_path, capsys):
    """Each has a third, a device keeps one report for each question, and no further question is answered."""
    file = tmp_path / "answers.json"
    how = ("--label", "answer", "--classes", "no,yes,rather not say", "--declared-by", SURVEY)
    assert main(["declare", str(file), *how, "--epsilon", "3", "--answers", "3"]) == 0
    declared = Declaration.read(file)
    assert declared.answers == 3
    assert 0.999 < declared.channel.epsilon < 1
    assert "all your answers can become at most 95.3 % sure" in " ".join(capsys.readouterr().out.split())
    body = json.loads(file.read_text(encoding="utf-8"))
    reports = in_javascript('[0, 1, 2, 0].map((q) => permanent(d, "yes", storage, q))', body)
    assert reports[0] == reports[3]
    for question in (-1, 3, 0.5):
        with pytest.raises(Exception, match="a declared question"):
            in_javascript(f'permanent(d, "yes", storage, {question})', body)
    with pytest.raises(InputError, match="one answer of each person"):
        Collection.begin(tmp_path / "box", declared, {})
    assert jsonschema.Draft202012Validator(DECLARATION_SCHEMA).is_valid(body)
    with pytest.raises(InputError, match="answers"):
        Declaration("answer", declared.mechanism, SURVEY, answers=0)


def test_a_submission_is_made_once(in_javascript):
    """It has the permanent report, a token of 128 bits, and the columns of the first time."""
    body = json.loads(declaration().to_json())
    one, two = in_javascript(
        '[submission(d, "yes", { age: 3 }, storage), submission(d, "no", { age: 4 }, storage)]', body
    )
    assert one == two
    assert one["declaration"] == body["name"]
    assert one["public"] == {"age": 3}
    assert re.fullmatch("[0-9a-f]{32}", one["token"])
    assert one["report"] == in_javascript('permanent(d, "no", storage)', body)
    read_report(json.dumps(one).encode(), Declaration.from_json(json.dumps(body)), {"age": "number"})


def test_types_and_functions_of_the_package_agree():
    """Each function that the file exports has a type, and the version is that of the library."""
    functions = r"^export (?:const|(?:async )?function) (\w+)"
    exported = re.findall(functions, (DEVICE / "labeldp.js").read_text(encoding="utf-8"), re.MULTILINE)
    typed = re.findall(functions, (DEVICE / "labeldp.d.ts").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(exported) == sorted(typed) != []
    assert json.loads((DEVICE / "package.json").read_text(encoding="utf-8"))["version"] == __version__


def test_a_survey_from_declaration_to_release(tmp_path, capsys):
    """Declared on the command line, drawn in Node, taken over by the same file; frequencies are those of the law."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("it needs Node")
    file, table = tmp_path / "answer.json", tmp_path / "reports.csv"
    how = ("--label", "answer", "--classes", "no,yes", "--epsilon", "1", "--declared-by", SURVEY)
    assert main(["declare", str(file), *how]) == 0
    assert "at most 73.2 % sure" in " ".join(capsys.readouterr().out.split())
    script = (
        f"import {{ randomize }} from {json.dumps((DEVICE / 'labeldp.js').as_uri())};"
        f"import {{ readFileSync }} from 'node:fs';"
        f"const d = JSON.parse(readFileSync({json.dumps(str(file))}));"
        "console.log(JSON.stringify(Array.from({ length: 20000 }, () => randomize(d, 'yes'))));"
    )
    run = subprocess.run([node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True)
    reports = json.loads(run.stdout)
    keep = float(RandomizedResponse(Classes(["no", "yes"]), 1.0).channel().membership.true)
    assert abs(reports.count("yes") - 20_000 * keep) < 5 * (20_000 * keep * (1 - keep)) ** 0.5  # 1 in 1.7 million
    pa.csv.write_csv(pa.table({"age": range(20_000), "answer": reports}), table)
    taken = ("--declaration", str(file), "--keep", "age", "--output", str(tmp_path / "out"))
    assert main(["import", str(table), *taken]) == 0
    assert main(["import", str(table), *taken, "--epsilon", "1"]) == 1
    assert "leave those out" in capsys.readouterr().err
