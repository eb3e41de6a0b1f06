"""What options mean: each command makes one call of the library, which a recorder takes in place of the function."""

import inspect
import math
import shlex
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest

import labeldp as dp
from labeldp.audit.attacks import Neighbourhood
from labeldp.errors import InputError
from labeldp.learning.tables import ModelChoice, StagePlan
from labeldp.release.ledger import Ledger

SPACE = dp.Classes(["no", "yes"])
#: What most releases declare.
D = "--label y --classes no,yes --epsilon 1"
STAGED = StagePlan(ModelChoice("softmax"))
NETWORK = {"epochs": 3, "batch_size": 8, "learning_rate": 0.1, "mixup": 0.0, "device": "cpu"}
TRAINED = "--epochs 3 --batch-size 8 --learning-rate 0.1 --mixup 0 --device cpu"
RELEASE, STAGES = "labeldp.release.release_table", "labeldp.learning.tables.learn_in_stages"
LEARN, ACCOUNT = "labeldp.learning.tables.learn", "labeldp.release.combined_guarantee"
EFFECT = "labeldp.learning.inference.treatment_effect"
CHECK, VERIFY = "labeldp.release.check_table", "labeldp.release.folder.verify"
PUBLIC, PAID = (f"labeldp.learning.generators.from_{name}" for name in ("public_table", "release"))

#: A command, the function that it calls, and some of its arguments; arguments that are missing have their defaults.
CALLS = [
    (f"release t.csv {D} --keep all --output o", RELEASE, {
        "source": dp.TableFile(Path("t.csv")), "label": "y", "space": SPACE, "epsilon": 1.0, "output": Path("o"),
        "keep": None, "drop": [], "mechanism": dp.RandomizerMechanism(), "shuffle": False}),
    (f"release t.csv {D} --keep none --output o", RELEASE, {"keep": [], "drop": None}),
    (f"release t.csv {D} --keep x --keep z --output o", RELEASE, {"keep": ["x", "z"], "drop": None}),
    (f"release t.csv {D} --drop 'x, z' --output o", RELEASE, {"keep": None, "drop": ["x", "z"]}),
    (f"release t.csv {D} --output o", RELEASE, {"keep": None, "drop": None}),
    (f"release t.csv {D} --keep x --output o --unit x --renumber --shuffle", RELEASE, {
        "unit": "x", "renumber": True, "shuffle": True}),
    (f"release t.csv {D} --keep x --output o --mechanism peer --clusters z --delta 1e-6", RELEASE, {
        "mechanism": dp.PeerMechanism("z", 1e-6)}),
    (f"release t.csv {D} --keep x --output o --mechanism prior --prior p_", RELEASE, {
        "mechanism": dp.PriorMechanism(prior="p_")}),
    (f"release t.csv {D} --keep x --output o --mechanism double --replaced 0.5 --population 'a town' "
     "--divergence 2=0.3 --divergence inf=1.5", RELEASE, {
        "mechanism": dp.DoubleMechanism(None, 0.5, {2.0: 0.3, math.inf: 1.5}, "a town")}),
    (f"release t.csv {D} --keep x --output o --budget 2 --ledger l --only-new --other-people 'a ward'", RELEASE, {
        "budget": (2.0, 0.0), "ledger": Path("l"), "only_new": True, "other_people": "a ward"}),
    (f"release t.csv {D} --keep x --output o --budget 2,1e-6 --team-ledger l", RELEASE, {
        "budget": (2.0, 1e-6), "ledger": ("team", "l")}),
    (f"release t.csv {D} --keep x --output o --separator comma --encoding latin-1", RELEASE, {
        "source": dp.TableFile(Path("t.csv"), ",", "latin-1")}),
    (f"release t.tsv {D} --keep x --output o --separator tab", RELEASE, {"source": dp.TableFile(Path("t.tsv"), "\t")}),
    (f"release t.csv {D} --keep x --output o --missing no", RELEASE, {
        "space": dp.Classes(["no", "yes"], missing="no")}),
    ("release t.csv --label y --classes @classes --epsilon 1 --keep x --output o", RELEASE, {
        "space": dp.Classes(["no", "yes", "a, b"])}),
    ("release t.csv --label y --classes 'no,\"a, b\"' --epsilon 1 --keep x --output o", RELEASE, {
        "space": dp.Classes(["no", "a, b"])}),
    ("release t.csv --label y --classes @book.csv:text --epsilon 1 --keep x --output o", RELEASE, {
        "space": dp.Classes(["no", "a, b"])}),
    ("release t.csv --label x --interval 0,1,0.25 --missing 0.5 --epsilon 1 --keep z --output o", RELEASE, {
        "space": dp.Interval(0.0, 1.0, 0.25, 0.5)}),
    ("release t.csv --label x --interval 0,9,1 --epsilon 1 --keep z --output o --mechanism noisy-quantile --level 0.9",
     RELEASE, {"mechanism": dp.QuantileMechanism(0.9)}),
    (f"stages t.csv {D} --keep all --output o", STAGES, {
        "source": dp.TableFile(Path("t.csv")), "label": "y", "space": SPACE, "epsilon": 1.0, "output": Path("o"),
        "plan": STAGED, "drop": [], "unit": None, "budget": None}),
    (f"stages t.csv {D} --keep x --output o --stages 3 --response prior --prior clusters --clusters 6 --model-file m "
     "--model torch:mlp --features x --unit row --budget 6 --ledger l " + TRAINED, STAGES, {
         "plan": StagePlan(ModelChoice("torch:mlp", features=["x"], training=NETWORK), stages=3, response="prior",
                           prior="clusters", clusters="6", model_file=Path("m")),
         "keep": ["x"], "unit": "row", "budget": (6.0, 0.0), "ledger": Path("l")}),
    ("learn out --output m", LEARN, {"directory": Path("out"), "model": None, "method": None, "minutes": None}),
    ("learn out --output m --model boosting --method em --features x,z --minutes 2 --rows 100", LEARN, {
        "model": "boosting", "method": "em", "features": ["x", "z"], "minutes": 2.0, "rows": 100}),
    (f"learn out --output m --model torch:mlp --method plain --features x --rows 100 {TRAINED}",
     "labeldp.learning.tables.learn_network", {
         "directory": Path("out"), "choice": ModelChoice("torch:mlp", "plain", ["x"], rows=100, training=NETWORK)}),
    ("account a b --delta 0.1 --delta 0.2 --epsilon 1 --one-table --long", ACCOUNT, {
        "paths": [Path("a"), Path("b")], "deltas": [0.1, 0.2], "epsilons": [1.0], "one_table": True, "long": True}),
    ("verify here --public-key k --long", VERIFY, {"directory": Path("here"), "public_key": Path("k"), "long": True}),
    ("check t.csv --label y --unit x --ledger l --separator bar", CHECK, {
        "source": dp.TableFile(Path("t.csv"), "|"), "label": "y", "unit": "x", "ledger": Path("l")}),
    ("check t.csv --label y --team-ledger l", CHECK, {"unit": None, "ledger": ("team", "l"), "keep": None}),
    ("check t.csv --label y --drop x", CHECK, {"keep": None, "drop": ["x"]}),
    ("generator t.csv --label y --classes no,yes --labels-are-public --keep x --source 'a town' --output g", PUBLIC, {
        "label": "y", "space": SPACE, "model": "copula", "text": "a town", "kind": "public"}),
    ("generator t.csv --label y --classes no,yes --labels-are-public --auxiliary --drop x --source s --model cells "
     "--smoothing 0.2 --output g", PUBLIC, {"model": "cells", "kind": "auxiliary", "smoothing": 0.2}),
    ("generator t.csv --label y --classes no,yes --labels-are-public --keep x --source s --encoding latin-1 "
     "--separator comma --output g", PUBLIC, {"source": dp.TableFile(Path("t.csv"), ",", "latin-1")}),
    ("audit shared --truth t.csv --label y --labels-are-public --encoding latin-1 --separator ';'",
     "labeldp.release.public_table", {"source": dp.TableFile(Path("t.csv"), ";", "latin-1"), "label": "y"}),
    ("audit shared --neighbours 50", "labeldp.audit.attacks.loss_profile", {"neighbourhood": Neighbourhood(50)}),
    ("learn shared --output m --coverage 0.9 --coverage-by class", LEARN, {"coverage": 0.9, "coverage_by": "class"}),
    ("effect shared --treatment x --treated 1,3 --treated 5 --propensity 0.5", EFFECT, {"treated": ["1", "3", "5"]}),
    ("effect shared --treatment x --features x", EFFECT, {"treated": None, "features": ["x"]}),
]  # fmt: skip


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A table, files of classes, a release, and a folder that is there."""
    monkeypatch.chdir(tmp_path)
    for name, separator in (("t.csv", ","), ("t.tsv", "\t")):
        frame = pd.DataFrame({"x": range(4), "z": range(4), "y": ["no", "yes"] * 2})
        frame.to_csv(name, sep=separator, index=False)
    Path("classes").write_text("no\nyes\na, b\n", encoding="utf-8")
    Path("book.csv").write_text('code,text\n1,no\n2,"a, b"\n', encoding="utf-8")
    Path("here").mkdir()
    table = pd.DataFrame({"x": [row % 7 for row in range(200)]})
    dp.Curator(["no", "yes"] * 100, SPACE, name="y").randomize(epsilon=2.0).save("shared", table, keep=["x"])


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("command", "function", "arguments"), CALLS, ids=[f"{i}" for i in range(len(CALLS))])
def test_options_become_arguments(run, monkeypatch, command, function, arguments):
    """Of one call, whose other arguments have their defaults."""
    module, _, name = function.rpartition(".")
    signature, calls = inspect.signature(getattr(import_module(module), name)), []

    def recorded(*given, **named):
        calls.append(signature.bind(*given, **named))
        raise InputError("expected no more, found a call; stop")

    monkeypatch.setattr(function, recorded)
    ran = run(*shlex.split(command))
    assert ran.err == "error: expected no more, found a call; stop\n"
    (call,) = calls
    call.apply_defaults()
    for name, value in arguments.items():
        found = {**call.arguments, **call.kwargs}[name]
        found = ("team", found.path.name) if isinstance(found, Ledger) and found.team else found
        assert repr(found) == repr(value), name
