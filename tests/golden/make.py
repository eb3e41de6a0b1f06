"""Write the golden artefacts: a release by every mechanism, answers to every query, and every kind of saved model.

``python tests/golden/make.py`` writes and records what is not there yet; whatever is named is made anew, such as
``command/laplace``, ``models/convex.skops`` or ``generators/cells.generator``. Labels are drawn with secure random
words, so it then has other bytes.

Only public names are used, so that what is moved inside the package does not touch this file.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import json
import shutil
import struct
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from facts import (
    EXPECTED,
    FLAGS,
    GENERATED,
    HERE,
    KEPT,
    LEVELS,
    PREDICTED,
    ROWS,
    SCORES,
    SPACES,
    TABLE,
    cells,
    charges,
    contents,
    curator,
    facts,
    features,
    generator_facts,
    image_labels,
    labels,
    pack,
    pixels,
    predicted,
    predictions,
    staged,
    table,
    unpacked,
    write_json,
)

import labeldp
from labeldp import Classes, cli
from labeldp.mechanisms import randomizers

PUBLIC = HERE / "public.csv"
FEATURES = ("age", "town", "smokes")
PRIOR = tuple(f"p_{level}" for level in LEVELS)
EPSILON = 1.0

#: What makes each folder, by its name; each is given the folder, which does not exist yet.
MAKERS: dict[str, Callable[[Path], object]] = {}


# The tables.


def people(seed: int) -> dict[str, list[Any]]:
    """The columns of made-up people: features, a prior, who belongs together, and three labels."""
    chance = np.random.default_rng(seed)
    age, town = chance.integers(20, 80, ROWS), chance.integers(0, 3, ROWS)
    smokes = chance.random(ROWS) < 0.4
    hidden = age / 12 + 1.5 * (town == 0) + smokes + chance.normal(0, 0.7, ROWS)
    prior = np.round(chance.dirichlet((2, 2, 2), ROWS), 4)
    columns: dict[str, list[Any]] = {
        "age": age.tolist(),
        "town": [("north", "south", "east")[code] for code in town],
        "smokes": [("false", "true")[int(code)] for code in smokes],
        "person": (np.arange(ROWS) * 5 // 9).tolist(),
        "cell": (np.arange(ROWS) % 4).tolist(),
        "who": chance.integers(0, 6, ROWS).tolist(),
        "what": chance.integers(0, 5, ROWS).tolist(),
    }
    columns |= {name: prior[:, place].tolist() for place, name in enumerate(PRIOR)}
    return columns | {
        "level": [LEVELS[code] for code in np.digitize(hidden, (4.5, 6.0))],
        "flag": [FLAGS[int(code)] for code in hidden > 5.2],
        "score": np.clip(np.round(hidden), 0, 10).tolist(),
    }


def write_table(path: Path, columns: dict[str, list[Any]]) -> None:
    """Write columns as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(columns)
        lines.writerows(zip(*columns.values(), strict=True))


def prior() -> np.ndarray:
    """The public prior of each row."""
    return np.column_stack([table()[name].to_numpy() for name in PRIOR])


def points() -> np.ndarray:
    """A public prior over the points of the interval."""
    weights = np.exp(-(((np.arange(SCORES.size) - 5) / 3) ** 2))
    return weights / weights.sum()


# The command line.


def command(*arguments: object) -> None:
    """Run a command in this process.

    Raises:
        RuntimeError: It failed.
    """
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = cli.main([str(argument) for argument in arguments])
    if code:
        raise RuntimeError(f"labeldp {' '.join(map(str, arguments))}\n{said.getvalue()}")


def release_by_command(folder: Path, label: str, mechanism: str, epsilon: float = EPSILON, **options: object) -> None:
    """``labeldp release`` on a copy of the table, so that no ledger knows another release of it."""
    space = {"interval": "0,10,1"} if label == "score" else {"classes": ",".join(SPACES[label].points)}
    declared = {"keep": ",".join(FEATURES), "unit": "row"}  # though the column of persons repeats
    chosen = {**declared, "mechanism": mechanism, "epsilon": epsilon, **space, **options}
    with tempfile.TemporaryDirectory() as place:
        source = shutil.copy(TABLE, place)
        typed = [part for name, value in chosen.items() if value is not None for part in (f"--{name}", value)]
        command("release", source, "--label", label, "--output", folder, *typed)


#: Arguments of ``release_by_command`` for each mechanism of the command line: the label, the mechanism, the options.
COMMANDS: dict[str, tuple[str, str, dict[str, object]]] = {
    "auto": ("level", "auto", {}),
    "randomized-response": ("level", "randomized-response", {}),
    "subset": ("level", "subset", {}),
    "bits": ("level", "bits", {}),
    "projective": ("level", "projective", {}),
    "prior": ("level", "prior", {"prior": "p_"}),
    "prior-subset": ("level", "prior-subset", {"prior": "p_"}),
    "resample": ("level", "resample", {"prior": "p_"}),
    "groups": ("level", "groups", {"prior": "p_"}),
    "groups-uniform": ("level", "groups", {"epsilon": 2.0}),
    "cluster": ("level", "cluster", {"clusters": "cell"}),
    "peer": ("flag", "peer", {"clusters": "cell", "delta": 1e-6}),
    "shuffle": ("level", "shuffle", {"clusters": "cell", "delta": 1e-6}),
    "double": (
        "level",
        "double",
        {"generator": "cells", "keep": "town,smokes", "population": "people of a made-up town"},
    ),
    "dummy": ("level", "dummy", {"keep": "none"}),
    "noisy-histogram": ("score", "noisy-histogram", {"keep": "none"}),
    "noisy-quantile": ("score", "noisy-quantile", {"keep": "none", "level": 0.75}),
    "auto-numbers": ("score", "auto", {}),
    "optimal": ("score", "optimal", {}),
    "minimax": ("score", "minimax", {}),
    "piecewise": ("score", "piecewise", {}),
    "one-bit": ("score", "one-bit", {}),
    "laplace": ("score", "laplace", {}),
    "bins": ("score", "bins", {"epsilon": 2.0}),
    "optimal-counts": ("score", "optimal-counts", {}),
    "randomized-response-of-numbers": ("score", "randomized-response", {}),
}
#: Those that are released again with units of several rows.
WITH_UNITS = ("auto", "randomized-response", "subset", "bits", "auto-numbers", "optimal", "laplace")
COMMANDS |= {
    f"{name}-of-units": (label, mechanism, {**options, "unit": "person"})
    for name, (label, mechanism, options) in COMMANDS.items()
    if name in WITH_UNITS
}
COMMANDS |= {
    "found-clusters": ("level", "cluster", {"clusters": 3}),
    "double-declared": ("level", "double", {"generator": "copula", "divergence": "2=0.4", "replaced": 0.5}),
    # what models are learned from
    "sure-classes": ("level", "randomized-response", {"epsilon": 6.0}),
    "sure-flags": ("flag", "randomized-response", {"epsilon": 6.0}),
    "sure-sets": ("level", "subset", {"epsilon": 6.0, "keep": "who,what"}),
    "sure-clusters": ("flag", "cluster", {"epsilon": 6.0, "clusters": "cell"}),
    "sure-peers": ("flag", "peer", {"epsilon": 6.0, "clusters": "cell", "delta": 1e-6}),
    "sure-cells": ("level", "shuffle", {"epsilon": 6.0, "clusters": "cell", "delta": 1e-6}),
    "sure-rows": ("flag", "double", {"epsilon": 6.0, "generator": "flags"}),
    "sure-numbers": ("score", "laplace", {"epsilon": 20.0, "keep": f"{','.join(FEATURES)},who,what,cell"}),
    "sure-bins": ("score", "bins", {"epsilon": 6.0}),
    "sure-grades": (
        "score",
        "groups",
        {"epsilon": 6.0, "interval": None, "classes": ",".join(map(str, map(float, range(11)))), "keep": "who,what"},
    ),
}


def by_command(name: str, folder: Path) -> None:
    """Make a release of ``COMMANDS``."""
    label, mechanism, options = COMMANDS[name]
    if "generator" in options:
        with unpacked(HERE / "generators" / f"{options['generator']}.generator.gz") as file:
            release_by_command(folder, label, mechanism, **{**options, "generator": file})  # type: ignore[arg-type]
        return
    release_by_command(folder, label, mechanism, **options)  # type: ignore[arg-type]


for _name in COMMANDS:
    MAKERS[f"command/{_name}"] = functools.partial(by_command, _name)


def stages_by_command(folder: Path) -> None:
    """``labeldp stages``: the release, and its model."""
    with tempfile.TemporaryDirectory() as place:
        source, model = shutil.copy(TABLE, place), Path(place) / "stages.safetensors"
        options = ["--label", "level", "--classes", ",".join(LEVELS), "--keep", ",".join(FEATURES)]
        options += ["--unit", "row", "--epsilon", 4.0]
        command("stages", source, *options, "--output", folder, "--model-file", model)
        shutil.move(pack(model), HERE / "models")


def images_by_command(folder: Path) -> None:
    """``labeldp release`` of labels in an IDX file."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "labels-idx1-ubyte"
        source.write_bytes(struct.pack(">4B I", 0, 0, 8, 1, ROWS) + bytes(image_labels()))
        options = ["--label", "label", "--classes", "0,1", "--epsilon", 6.0, "--keep", "none"]
        command("release", source, *options, "--output", folder)


MAKERS["command/stages"] = stages_by_command
MAKERS["command/images"] = images_by_command


# Python.


def saved(make: Callable[[], Any], folder: Path) -> None:
    """Save a release or an answer that is made."""
    make().save(folder)


def python(make: Callable[[], Any]) -> Callable[[], Any]:
    """Register what makes a release or an answer, under its name."""
    MAKERS[f"python/{make.__name__.replace('_', '-')}"] = functools.partial(saved, make)
    return make


SPREAD = [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]]

#: Every randomizer: the label that it is for, and what makes it for a label space.
RANDOMIZERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "randomized-response": ("level", lambda space: labeldp.RandomizedResponse(space, EPSILON)),
    "subset": ("level", lambda space: labeldp.SubsetResponse(space, EPSILON)),
    "subset-of-two": ("level", lambda space: labeldp.SubsetResponse(space, EPSILON, 2)),
    "bits": ("level", lambda space: labeldp.BitResponse(space, EPSILON)),
    "projective": ("level", lambda space: labeldp.ProjectiveResponse(space, EPSILON)),
    "bits-symmetric": ("level", lambda space: labeldp.BitResponse(space, EPSILON, form="symmetric")),
    "prior": ("level", lambda space: labeldp.PriorResponse(space, EPSILON, prior())),
    "prior-subset": ("level", lambda space: labeldp.PriorSubsetResponse(space, EPSILON, prior())),
    "top-k": ("level", lambda space: labeldp.TopKResponse(space, EPSILON, prior(), k=2)),
    "groups": (
        "level",
        lambda space: labeldp.GroupResponse(space, EPSILON, labeldp.ClassProbabilities(prior(), LEVELS)),
    ),
    "groups-of-one": ("level", lambda space: labeldp.GroupResponse(space, EPSILON, groups=[LEVELS[:1], LEVELS[1:]])),
    "cluster": ("level", lambda space: labeldp.ClusterResponse(space, EPSILON, SPREAD, cells(), 1 / 6)),
    "cluster-uniform": ("level", lambda space: labeldp.ClusterResponse.uniform(space, EPSILON, cells())),
    "best": ("level", lambda space: labeldp.best_response(space, EPSILON)),
    "best-of-gradients": ("level", lambda space: labeldp.gradient_response(space, EPSILON)),
    "laplace": ("score", lambda space: labeldp.LaplaceResponse(space, EPSILON)),
    "one-bit": ("score", lambda space: labeldp.OneBitResponse(space, EPSILON)),
    "piecewise": ("score", lambda space: labeldp.PiecewiseResponse(space, EPSILON)),
    "optimal": ("score", lambda space: labeldp.OptimalResponse(space, EPSILON)),
    "optimal-with-prior": ("score", lambda space: labeldp.OptimalResponse(space, EPSILON, points())),
    "minimax": ("score", lambda space: labeldp.MinimaxResponse(space, EPSILON)),
    "best-of-numbers": ("score", lambda space: labeldp.best_number_response(space, EPSILON)),
    "bins": ("score", lambda space: labeldp.BinResponse(space, 2.0, points())),
}


def randomized(name: str, folder: Path) -> None:
    """Make a release by one of ``RANDOMIZERS``."""
    label, randomizer = RANDOMIZERS[name]
    asked = curator(label)
    asked.randomize(randomizer(asked.space)).save(folder, table(), keep=list(FEATURES))


for _name in RANDOMIZERS:
    MAKERS[f"python/{_name}"] = functools.partial(randomized, _name)


class Deaf:
    """An asker who always asks the same."""

    def ask(self, row: int) -> np.ndarray:
        """One vector for each class, at right angles."""
        del row
        return np.ones(len(LEVELS))

    def tell(self, row: int, vector: np.ndarray) -> None:
        """It does not listen."""


def exchanged(space: Classes) -> labeldp.Query:
    """Labels that peers exchange, some of them."""
    peers = labeldp.PeerExchange(flip=0.2, subsample=0.8, sampling="fixed")
    return labeldp.ExchangedLabels(space, peers, cells(), 1e-6)


#: Every query: the label that it is about, and what makes it for a label space; those that learners ask are made apart.
QUERIES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "noisy-histogram": ("level", lambda space: labeldp.NoisyHistogram(space, EPSILON, cells())),
    "noisy-histogram-of-numbers": ("score", lambda space: labeldp.NoisyHistogram(space, EPSILON)),
    "noisy-argmax": ("level", lambda space: labeldp.NoisyArgmax(space, EPSILON, cells())),
    "noisy-argmax-exponential": (
        "level",
        lambda space: labeldp.NoisyArgmax(space, EPSILON, cells(), 6, method="exponential"),
    ),
    "noisy-top-k": ("level", lambda space: labeldp.NoisyTopK(space, EPSILON, cells(), top=2)),
    "noisy-mean": ("score", lambda space: labeldp.NoisyMean(space, EPSILON, cells())),
    "noisy-mean-clipped": ("score", lambda space: labeldp.NoisyMean(space, EPSILON, clip=(2.0, 8.0))),
    "noisy-mean-uncut": ("score", lambda space: labeldp.NoisyMean(space, EPSILON, cells())),
    "noisy-histogram-by-rows": ("level", lambda space: labeldp.NoisyHistogram(space, EPSILON, cells(), 6)),
    "noisy-quantile": ("score", lambda space: labeldp.NoisyQuantile(space, EPSILON, 0.5, cells())),
    "noisy-quantile-around": ("score", lambda space: labeldp.NoisyQuantile(space, EPSILON, 0.9, around=5.0)),
    "label-moments": ("level", lambda space: labeldp.LabelMoments(space, EPSILON, 1e-6, features())),
    "number-moments": ("score", lambda space: labeldp.NumberMoments(space, EPSILON, 1e-6, features())),
    "noisy-gradients": ("level", lambda space: labeldp.NoisyGradients(space, EPSILON, client=Deaf(), rows=ROWS)),
    "noisy-gradients-normal": (
        "level",
        lambda space: labeldp.NoisyGradients(space, EPSILON, 1e-6, client=Deaf(), rows=ROWS),
    ),
    "peer-exchange": ("flag", exchanged),
    "shuffled-labels": (
        "flag",
        lambda space: labeldp.ShuffledLabels(space, labeldp.CellShuffle(1.0), cells(), 1e-6),
    ),
}


def answered(name: str, folder: Path) -> None:
    """Make the answer to one of ``QUERIES``."""
    label, query = QUERIES[name]
    asked = curator(label, budget=(100.0, 0.01))
    asked.answer(query(asked.space)).save(folder)


for _name in QUERIES:
    MAKERS[f"python/{_name}"] = functools.partial(answered, _name)


def persons() -> list[Any]:
    """Whose each row is."""
    return labels("person")


#: What else Python makes, by name: units, parts, features that are redrawn, and answers that labels respond to.
PYTHON: dict[str, Callable[[], Any]] = {
    "randomized-response-of-units": lambda: curator(units=persons()).randomize(
        labeldp.RandomizedResponse(SPACES["level"], EPSILON)
    ),
    "bits-of-units": lambda: curator(units=persons()).randomize(labeldp.BitResponse(SPACES["level"], EPSILON)),
    "laplace-of-units": lambda: curator("score", units=persons()).randomize(labeldp.LaplaceResponse(SCORES, EPSILON)),
    "histogram-of-units": lambda: curator(units=persons()).answer(labeldp.NoisyHistogram(SPACES["level"], EPSILON)),
    "part-of-a-release": lambda: curator().randomize(labeldp.RandomizedResponse(SPACES["level"], EPSILON))[5:25],
    "dummy": lambda: curator().randomize_rows(labeldp.DummyResponse(SPACES["level"], EPSILON)),
    "cluster-response": lambda: labeldp.cluster_response(curator(), cells(), EPSILON).release,
    "cluster-response-counts": lambda: labeldp.cluster_response(curator(), cells(), EPSILON, share=1.0).histogram,
    "cluster-response-by-rows": lambda: labeldp.cluster_response(curator(), cells(), EPSILON, split="rows").release,
    "cluster-prior-response": lambda: labeldp.cluster_prior_response(curator(), cells(), EPSILON).release,
    "counted-bins": lambda: labeldp.counted_response(curator("score"), 2.0),
    "counted-optimal": lambda: labeldp.counted_response(curator("score"), EPSILON, labeldp.OptimalResponse),
    "interactive-classes": lambda: interactive("classes", "level", 0.0),
    "interactive-numbers": lambda: interactive("numbers", "score", 1e-6),
}
for _name, _make in PYTHON.items():
    MAKERS[f"python/{_name}"] = functools.partial(saved, _make)


@python
def best_of_units() -> Any:
    """The randomizer that suits units of so many rows."""
    asked = curator(units=persons())
    best = randomizers.best_randomizer(asked.space, EPSILON, asked.labels_of_a_unit)
    return asked.randomize(best)


@python
def moments_of_units() -> Any:
    """An answer with a delta, for units."""
    asked = curator(units=persons(), budget=(100.0, 0.01))
    return asked.answer(labeldp.LabelMoments(asked.space, EPSILON, 1e-6, features()))


@python
def identified_rows() -> Any:
    """Rows that a ledger knows by public identities, some of them."""
    asked = curator(identity=[f"p{row}" for row in range(ROWS)])
    return asked.randomize(labeldp.SubsetResponse(asked.space, EPSILON), rows=slice(10, 60))


@python
def double() -> Any:
    """Labels and features together."""
    asked = labeldp.DoubleResponse(SPACES["level"], EPSILON, opened("cells"))
    return curator().randomize_rows(asked, table().select(["town", "smokes"]))


@python
def double_declared() -> Any:
    """Labels and features together, at a divergence that was declared."""
    asked = labeldp.DoubleResponse(SPACES["level"], EPSILON, opened("copula"), replaced=0.5)
    return curator().randomize_rows(asked, table().select(FEATURES), divergences={2.0: 0.4, 8.0: 0.9})


@python
def double_paid() -> Any:
    """Features redrawn by a generator whose own labels were paid for."""
    asked = labeldp.DoubleResponse(SPACES["level"], EPSILON, opened("paid"))
    return curator().randomize_rows(asked, table().select(FEATURES))


@python
def beside_redrawn_features() -> Any:
    """Labels of rows whose features left redrawn before."""
    asked = curator()
    redrawn = labeldp.DoubleResponse(asked.space, EPSILON, opened("cells"))
    asked.randomize_rows(redrawn, table().select(["town", "smokes"]))
    return asked.randomize(labeldp.RandomizedResponse(asked.space, EPSILON))


@python
def cluster_response_as_printed() -> Any:
    """With the parameters of the paper."""
    parameters = labeldp.ClusterParameters(SPACES["level"], tau=0.1, sigma=1.0, lam=0.5)
    return labeldp.cluster_response(curator(), cells(), parameters=parameters).release


@python
def joined() -> Any:
    """Two stages and the answer that both rest on, as one release."""
    asked = curator()
    answer = asked.answer(labeldp.NoisyHistogram(asked.space, 0.25, cells()))
    likely, parts = answer.distributions()[cells()], labeldp.public_split(ROWS, (1, 1), seed=0)
    drawn = [(rows, asked.randomize(labeldp.PriorResponse(asked.space, EPSILON, likely[rows]), rows)) for rows in parts]
    return labeldp.concatenate(drawn, [answer])


@python
def rests_on_another() -> Any:
    """Labels whose prior was computed from an earlier release of theirs."""
    from labeldp.learning.stages import MultiStage, ReleasePrior  # noqa: PLC0415

    asked = curator()
    first = asked.randomize(labeldp.RandomizedResponse(asked.space, EPSILON))
    return MultiStage(epsilon=EPSILON, stages=1, prior=ReleasePrior(first)).fit(features(), asked).release_


@python
def stages_with_clusters() -> Any:
    """Stages by sets of classes, after counts in clusters."""
    from labeldp.learning.stages import ClusterPrior, MultiStage  # noqa: PLC0415

    prior = ClusterPrior(cells())
    return MultiStage(epsilon=4.0, stages=2, prior=prior, response="subset").fit(features(), curator()).release_


def interactive(kind: str, label: str, delta: float) -> Any:
    """What a curator told a convex learner step by step."""
    from labeldp.learning import convex  # noqa: PLC0415

    model = {"classes": convex.ConvexClassifier, "numbers": convex.ConvexRegressor}[kind](random_state=0)
    asked = curator(label, budget=(100.0, 0.01))
    return convex.fit_interactively(model, features(), asked, epsilon=4.0, delta=delta).answer_


# What is kept of work that may go on.


def run_of_stages(folder: Path) -> None:
    """A run in stages as it is kept, to be taken up again."""
    staged(folder)


def ledger(folder: Path) -> None:
    """A ledger with charges of both doors: a release, one that was refused, and a curator's."""
    folder.mkdir()
    path = folder / "charges.sqlite"
    with tempfile.TemporaryDirectory() as place:
        source = shutil.copy(TABLE, place)
        options = ["--label", "level", "--classes", ",".join(LEVELS), "--keep", "age", "--budget", 2.5]
        options += ["--unit", "row"]
        for number in range(2):
            output = Path(place) / f"out-{number}"
            command("release", source, *options, "--epsilon", 1.0, "--output", output, "--ledger", path)
    asked = curator("score", ledger=path, budget=(3.0, 1e-4))
    asked.randomize(labeldp.LaplaceResponse(SCORES, EPSILON), rows=slice(0, 40))
    asked.answer(labeldp.NumberMoments(SCORES, EPSILON, 1e-6, features()))
    for beside in folder.iterdir():
        if beside != path:  # the lock, and the private notes
            beside.unlink()


OTHERS: dict[str, Callable[[Path], object]] = {"kept/run-of-stages": run_of_stages, "kept/ledger": ledger}


# Models.


#: Models by name: the release of the command line that they are learned from, and what is typed.
MODELS: dict[str, tuple[str, tuple[object, ...]]] = {
    "auto": ("sure-classes", ()),
    "softmax": ("sure-classes", ("--model", "softmax")),
    "softmax-unbiased": ("sure-classes", ("--model", "softmax", "--method", "unbiased")),
    "softmax-plain": ("sure-classes", ("--model", "softmax", "--method", "plain")),
    "softmax-clusters": ("sure-clusters", ("--model", "softmax", "--method", "clusters")),
    "softmax-exchanged": ("sure-peers", ()),
    "softmax-shuffled": ("sure-cells", ()),
    "softmax-corrected": ("sure-rows", ("--generator", "flags")),
    "softmax-of-sets": ("sure-sets", ("--model", "softmax", "--features", "who,what")),
    "boosting": ("sure-flags", ("--model", "boosting")),
    "boosting-plain": ("sure-flags", ("--model", "boosting", "--method", "plain")),
    "boosting-clusters": ("sure-clusters", ("--model", "boosting", "--method", "clusters")),
    "convex": ("sure-classes", ("--model", "convex")),
    "factorization": ("sure-grades", ("--model", "factorization", "--features", "who,what")),
    "numbers-auto": ("sure-numbers", ("--model", "auto", "--features", "age,town,smokes")),
    "numbers-ridge": ("sure-numbers", ("--model", "ridge", "--features", "age,town,smokes")),
    "numbers-ridge-of-bins": ("sure-bins", ("--model", "ridge", "--method", "likelihood")),
    "numbers-boosting": ("sure-numbers", ("--model", "boosting", "--features", "age,town,smokes")),
    "numbers-neighbours": ("sure-numbers", ("--model", "neighbours")),
    "numbers-convex": ("sure-numbers", ("--model", "convex", "--features", "age,town,smokes")),
    "network-mlp": ("sure-classes", ("--model", "torch:mlp", "--epochs", 3)),
    "network-ratings": ("sure-sets", ("--model", "torch:ratings", "--features", "who,what", "--epochs", 3)),
}
#: Models that are learned once more in the present format of files, by the number of its schema.
PRESENT = ("auto", "softmax", "boosting", "numbers-auto", "numbers-neighbours")
MODELS |= {f"{name}-2": MODELS[name] for name in PRESENT}
#: A model whose file cannot be opened today: what it predicts is recorded before it is written.
IN_A_TREE = "numbers-neighbours-in-a-tree"


def model_path(name: str) -> Path:
    """Where a model goes, before it is packed; those of version 0.1 end in .skops, and cannot be made again."""
    earlier = HERE / "models" / f"{name}.skops"
    return earlier if earlier.with_name(f"{earlier.name}.gz").exists() else earlier.with_suffix(".safetensors")


def learned(name: str) -> None:
    """``labeldp learn``: the file of a model."""
    source, typed = MODELS[name]
    path = model_path(name)
    path.unlink(missing_ok=True)
    with warnings.catch_warnings(), contextlib.ExitStack() as files:
        warnings.simplefilter("ignore")  # there are few rows
        if "--generator" in typed:
            flags = files.enter_context(unpacked(HERE / "generators" / f"{typed[-1]}.generator.gz"))
            typed = (*typed[:-1], flags)
        command("learn", HERE / "command" / source, "--output", path, *typed)
    pack(path)


def learned_in_a_tree() -> list[Any]:
    """Neighbours of few rows and columns, and what they predict."""
    from labeldp.learning.tables import learn  # noqa: PLC0415

    model = learn(HERE / "command" / "sure-numbers", model="neighbours", features=["age", "smokes"]).model
    pack(model.save(model_path(IN_A_TREE)))
    return predicted(model)


def learned_from_images() -> None:
    """A small network of images, whose weights are made coarse so that its file packs well."""
    import torch  # noqa: PLC0415 (PyTorch is an extra)

    from labeldp.learning.tables import open_model  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as place:
        images, model = Path(place) / "images-idx3-ubyte", Path(place) / "network-convolutional.safetensors"
        images.write_bytes(struct.pack(">4B 3I", 0, 0, 8, 3, ROWS, 8, 8) + pixels().tobytes())
        options = ["--model", "torch:convolutional", "--images", images, "--epochs", 1, "--output", model]
        command("learn", HERE / "command" / "images", *options)
        found: Any = open_model(model)
        with torch.no_grad():
            for value in found.module.parameters():
                value.copy_((value * 16).round() / 16)
        found.save(model_path("network-convolutional"))
    pack(model_path("network-convolutional"))


# Generators.


#: What each generator of rows is: a law, the label, and whether its labels were paid for and are not public.
GENERATORS: dict[str, tuple[str, str, bool]] = {
    "cells": ("cells", "level", False),
    "copula": ("copula", "level", False),
    "flags": ("copula", "flag", False),
    "paid": ("copula", "level", True),
}


def fitted(name: str) -> None:
    """``labeldp generator``: the file of a generator."""
    kind, label, paid = GENERATORS[name]
    keep = "town,smokes" if kind == "cells" else ",".join(FEATURES)
    path = HERE / "generators" / f"{name}.generator"
    said = ["--model", kind, "--source", "people who were made up", "--output", path]
    options = ["--label", label, "--classes", ",".join(SPACES[label].points), "--keep", keep]
    if paid:
        with tempfile.TemporaryDirectory() as place:
            copied = shutil.copy(PUBLIC, place)
            command("release", copied, *options, "--epsilon", 4.0, "--output", Path(place) / "out")
            command("generator", Path(place) / "out", *said)
    else:
        command("generator", PUBLIC, *options, "--labels-are-public", *said)
    pack(path)


def opened(name: str) -> labeldp.Generator:
    """A generator that was saved."""
    from labeldp.learning.generators import open_generator  # noqa: PLC0415 (the learners are an extra)

    with unpacked(HERE / "generators" / f"{name}.generator.gz") as file:
        return open_generator(file).generator()


def make(wanted: set[str]) -> None:
    """Write what is wanted or not there, and record what it says; of the rest what is recorded stays."""
    for path, seed in ((TABLE, 1), (PUBLIC, 2)):
        if not path.exists():
            write_table(path, people(seed))
    for name in ("command", "python", "kept", "models", "generators"):
        (HERE / name).mkdir(exist_ok=True)

    def lacking(name: str) -> bool:
        return name in wanted or not (HERE / f"{name}.gz").exists()

    for name in GENERATORS:
        if lacking(f"generators/{name}.generator"):
            fitted(name)
    for name, maker in (MAKERS | OTHERS).items():
        folder = HERE / name
        if name in wanted:
            shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # deltas are large for so few rows
                maker(folder)
    for name in (*MODELS, "network-convolutional"):
        if lacking(f"models/{model_path(name).name}"):
            learned(name) if name in MODELS else learned_from_images()
    record(PREDICTED, {"made with": lambda: {name: version(name) for name in ("scikit-learn", "torch")}}, set())
    if lacking(f"models/{model_path(IN_A_TREE).name}"):
        record(PREDICTED, {f"{model_path(IN_A_TREE).name}.gz": learned_in_a_tree}, wanted)
    expect(wanted)


def expect(wanted: set[str]) -> None:
    """Record what is there and was not recorded, or is wanted anew."""

    def of_folder(name: str) -> dict[str, Any]:
        return {**facts(HERE / name), "contents": contents(HERE / name)}

    record(EXPECTED, {name: functools.partial(of_folder, name) for name in MAKERS}, wanted)
    kept = HERE / "kept"
    told = {
        "ledger": lambda: charges(kept / "ledger" / "charges.sqlite"),
        "run-of-stages": lambda: staged(kept / "run-of-stages").release_.hash,
    }
    record(KEPT, told, {name.removeprefix("kept/") for name in wanted})
    for path, says in ((PREDICTED, predictions), (GENERATED, generator_facts)):
        files = {file.name: functools.partial(says, file) for file in sorted(path.parent.glob("*.gz"))}
        record(path, files, {f"{Path(name).name}.gz" for name in wanted} - {f"{model_path(IN_A_TREE).name}.gz"})


def record(path: Path, told: dict[str, Callable[[], Any]], wanted: set[str]) -> None:
    """Add to a file of expectations what it lacks, and what is wanted anew."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    write_json(path, known | {name: say() for name, say in told.items() if name in wanted or name not in known})


if __name__ == "__main__":
    make(set(sys.argv[1:]))
