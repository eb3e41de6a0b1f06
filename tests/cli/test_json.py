"""Results for programs: every command prints one document, with the keys that docs/guide/json.md lists."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import typer

from labeldp import Budget, Classes, Curator, PeerExchange
from labeldp._strict_json import plain
from labeldp.cli import app
from labeldp.learning.metrics import Estimate
from labeldp.learning.metrics._estimates import Estimates
from labeldp.mechanisms.queries import ExchangedLabels

GUIDE = Path(__file__).parents[2] / "docs/guide/json.md"


def keys_of(schema):
    """The keys of a document that is an object, or a list of objects."""
    return set(schema.get("items", schema)["properties"])


#: Keys that a document has where an option asks for them.
ASKED = {"audit": {"profile", "limit"}, "plan": {"limits"}, "learn": {"encoder"}}


def without_other_keys(schema):
    """A schema that allows no key but those that it names, at any depth."""
    if isinstance(schema, list):
        return [without_other_keys(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {} if "properties" not in schema else {"additionalProperties": False}
    return {name: without_other_keys(each) for name, each in schema.items()} | closed


def check_document(run, command, document):
    """A document is of the schema that its command prints, which names all of its keys."""
    jsonschema = pytest.importorskip("jsonschema", reason="it checks schemas")
    schema = json.loads(run("schema", command).out)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, without_other_keys(schema), jsonschema.Draft202012Validator)


def documented(command):
    """The keys of a command's document."""
    text = GUIDE.read_text(encoding="utf-8").split(f"\n## {command}\n")[1].split("\n##")[0]
    cells = re.findall(r"^\| (`.*?`) \|", text, flags=re.MULTILINE)
    return {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}


@pytest.fixture
def documents(run, tmp_path):
    """The document of each command, on the sample table."""
    table, shared, model = tmp_path / "patients.csv", tmp_path / "shared", tmp_path / "model.safetensors"
    declared = ("--label", "diagnosis", "--classes", "none,heart disease", "--epsilon", 2, "--unit", "patient_id")
    public = ("--label", "diagnosis", "--classes", "none,heart disease", "--labels-are-public")
    commands = {
        "demo": (tmp_path,),
        "key": (tmp_path / "key",),
        "check": (table, "--label", "diagnosis"),
        "plan": (table, "--label", "diagnosis", "--classes", 2, "--unit", "patient_id"),
        "generator": (table, *public, "--keep", "sex,smoker", "--source", "demo", "--output", tmp_path / "g.generator"),
        "release": (table, *declared, "--drop", "patient_id", "--output", shared),
        "verify": (shared,),
        "learn": (shared, "--model", "softmax", "--output", model),
        "evaluate": (model, table, "--labels-are-public"),
        "predict": (model, table, "--output", tmp_path / "p.csv"),
        "describe": (shared, "--by", "sex"),
        "effect": (shared, "--treatment", "smoker", "--features", "age,sex"),
        "coefficients": (shared, "age + smoker"),
        "account": (shared,),
        "ledger": (table,),
        "audit": (shared, "--truth", table, *public[:2], "--labels-are-public"),
    }
    printed = {}
    for name, arguments in commands.items():
        done = run(name, *arguments, "--json")
        assert done.code == 0, done.err
        printed[name] = json.loads(done.out, parse_constant=lambda _: pytest.fail("no number of JSON"))
    return printed


def test_documents_have_the_keys_that_are_listed_and_agree(documents, run):
    """Both ways, for every command."""
    for name, found in documents.items():
        assert set(found[0] if isinstance(found, list) else found) == documented(name) - ASKED.get(name, set()), name

    # numbers that belong together agree
    assert documents["check"]["private"] is True
    assert documents["release"]["rows"] == documents["check"]["rows"] == documents["verify"]["rows"]
    assert documents["verify"]["holds"] is True
    for name in ("release", "verify", "learn"):
        assert (documents[name]["epsilon"], documents[name]["unit"]) == (2.0, "patient_id")
    assert documents["account"][0]["epsilon"] == documents["ledger"]["spent"][0]["epsilon"] == 2.0
    assert 0.5 < documents["evaluate"]["scores"]["accuracy"]["value"] <= 1.0
    assert documents["ledger"]["charges"][0]["state"] == "released"
    assert documents["demo"]["rows"] == documents["check"]["rows"]
    assert documents["audit"]["holds"] is True
    assert documents["audit"]["audits"][0]["claim"] >= 1.99
    assert documents["generator"]["columns"] == ["sex", "smoker"]

    # each is of its schema, and the schema tells another
    for name, found in documents.items():
        check_document(run, name, found)
    with pytest.raises(Exception, match=r"'epsilon' is a required property"):
        check_document(run, "learn", {key: value for key, value in documents["learn"].items() if key != "epsilon"})
    with pytest.raises(Exception, match="was unexpected"):
        check_document(run, "learn", documents["learn"] | {"zq": 1})


def test_stages_have_the_keys_of_a_release_and_their_own(run, tmp_path):
    """The release's numbers, and one object for each stage."""
    assert run("demo", tmp_path).code == 0
    done = run(
        *("stages", tmp_path / "patients.csv", "--label", "diagnosis", "--classes", "none,heart disease"),
        *("--unit", "row", "--epsilon", 2, "--keep", "age,smoker", "--output", tmp_path / "out", "--json"),
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert set(found) == documented("release") | documented("stages")
    check_document(run, "stages", found)
    assert sum(stage["rows"] for stage in found["stages"]) == found["rows"] == 1991


def test_what_does_not_hold_says_so(run, tmp_path):
    """A folder that is no release has a verdict, and exit code 1."""
    (tmp_path / "shared").mkdir()
    done = run("verify", tmp_path / "shared", "--json")
    assert done.code == 1
    found = json.loads(done.out)
    assert found["holds"] is False
    check_document(run, "verify", found)


def test_every_command_has_a_schema_with_the_keys_of_the_guide(run):
    """Commands with --json, schemas, and sections of the page are the same, and so are their keys; certificates too."""
    *named, certificate, declaration = run("schema").out.split()
    assert json.loads(run("schema", certificate).out)["title"] == "labeldp/certificate/1"
    assert json.loads(run("schema", declaration).out)["title"] == "labeldp/declaration/1"
    page = re.findall(r"^## (\w+)$", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    commands = typer.main.get_command(app()).commands
    with_json = [name for name, each in commands.items() if any("--json" in option.opts for option in each.params)]
    assert sorted(named) == sorted(page) == sorted(with_json)
    for name in named:
        keys = documented(name) | (documented("release") if name in ("stages", "import") else set())
        assert keys_of(json.loads(run("schema", name).out)) == keys, name
    assert run("schema", "relase").err.endswith("found 'relase'; did you mean 'release'?\n")


def test_values_become_those_of_json():
    """Arrays, paths, and numbers that are not finite."""
    given = {"a": np.array([1.0, np.nan]), "b": (np.int64(3), float("inf")), 4: Path("x")}
    assert plain(given) == {"a": [1.0, None], "b": [3, None], "4": "x"}


def test_an_estimate_is_within_what_can_be():
    """No share above 1 is printed, whatever the noise; what cannot be told stays null."""
    given = {"far": Estimate(4e4, 3e4, 0.0, 1.0), "near": Estimate(0.7, 0.1, 0.5, 0.9)}
    many = Estimates(*np.array([[1.3, np.nan], [0.2, np.nan], [0.9, np.nan], [1.0, np.nan]]))
    found = plain(given | {"many": many})
    assert (found["far"]["value"], found["near"]["value"], found["many"]["value"]) == (1.0, 0.7, [1.0, None])


def test_where_no_epsilon_holds_there_is_none(run, tmp_path):
    """Where requests fail themselves with more than a delta, none is said and JSON has null; a ledger has the delta."""
    space, budget = Classes(["no", "yes"]), Budget(9.0, 1e-3)
    curator = Curator(["no", "yes"] * 20, space, budget=budget, name="ill", ledger=tmp_path / "ledger")
    curator.answer(ExchangedLabels(space, PeerExchange(0.1, 0.5), [0, 1] * 20, 1e-4)).save(tmp_path / "one")
    printed = run("account", tmp_path / "one").out
    assert re.search(r"│ 1e-09 +│ none +│", printed)
    assert "none: no epsilon holds, since the failure probability of these requests exceeds that delta." in printed
    (found,) = json.loads(run("account", tmp_path / "one", "--json").out, parse_constant=pytest.fail)
    assert found["fixed_beforehand"][0] == {"delta": 1e-9, "epsilon": None}
    assert json.loads(run("ledger", tmp_path / "ledger", "--json").out)["charges"][0]["delta"] == 1e-4
