"""What golden artefacts say: folders, files of models, files of generators. ``make.py`` records it, tests compare it.

Only public names are used, so that what is moved inside the package does not touch this file; and no sentence of a
certificate is recorded, since sentences may be worded anew.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

import labeldp
from labeldp import Classes, ClassProbabilities, Interval

HERE = Path(__file__).parent
TABLE = HERE / "people.csv"
EXPECTED, KEPT = HERE / "expected.json", HERE / "kept" / "expected.json"
PREDICTED, GENERATED = HERE / "models" / "expected.json", HERE / "generators" / "expected.json"
ROWS, PREDICTED_ROWS = 80, 10

LEVELS, FLAGS, SCORES = ("low", "middle", "high"), ("no", "yes"), Interval(0.0, 10.0, 1.0)
SPACES = {"level": Classes(LEVELS), "flag": Classes(FLAGS), "score": SCORES}


@functools.cache
def table(path: Path = TABLE) -> pa.Table:
    """A table of made-up people."""
    return pyarrow.csv.read_csv(path)


def labels(name: str) -> list[Any]:
    """A column of true labels, or of whose rows these are."""
    return table()[name].to_pylist()


def curator(name: str = "level", **options: Any) -> labeldp.Curator:
    """A curator of a column of labels."""
    return labeldp.Curator(labels(name), SPACES[name], **({"name": name, "budget": 100.0} | options))


def features() -> np.ndarray:
    """Public numbers of each row, between -1 and 1."""
    found = table()
    town = np.array(found["town"].to_pylist())
    return np.column_stack(
        [
            np.ones(ROWS),
            found["age"].to_numpy() / 50 - 1,
            np.where(town == "north", 1.0, -1.0),
            np.where(np.array(found["smokes"].to_pylist()), 1.0, -1.0),
        ]
    )


def cells() -> np.ndarray:
    """The public cell of each row."""
    return table()["cell"].to_numpy()


def image_labels(rows: int = ROWS) -> list[int]:
    """The classes of made-up images."""
    return (np.arange(rows) % 2).tolist()


def pixels(side: int = 8, rows: int = ROWS) -> np.ndarray:
    """Made-up images: dark ones and light ones."""
    found = np.random.default_rng(3).integers(0, 128, (rows, side, side))
    return (found + 128 * np.array(image_labels(rows))[:, None, None]).astype(np.uint8)


def staged(folder: Path, asked: labeldp.Curator | None = None) -> Any:
    """A run in stages: begun, or taken up again where the folder holds one."""
    from labeldp.learning.sklearn import SoftmaxRegression  # noqa: PLC0415
    from labeldp.learning.stages import ClusterPrior, MultiStage  # noqa: PLC0415

    model = MultiStage(SoftmaxRegression(l2=0.1), epsilon=4.0, stages=2, prior=ClusterPrior(cells()), directory=folder)
    return model.fit(features(), asked or curator())


def facts(folder: Path) -> dict[str, Any]:
    """What anyone can recompute from a folder of a release or an answer.

    Raises:
        AssertionError: It does not verify.
    """
    verdict = labeldp.verify(folder)
    if not verdict.holds or verdict.certificate is None:
        raise AssertionError(f"{folder.name}: {[check for check in verdict.checks if not check.holds]}")
    certificate = verdict.certificate
    guarantee = certificate.guarantee
    return {
        "sha256": hashlib.sha256(next(folder.glob("*certificate.json")).read_bytes()).hexdigest(),
        "epsilon": repr(guarantee.epsilon),
        "delta": repr(guarantee.delta),
        "rho": repr(guarantee.rho),
        "trust": guarantee.trust,
        "unit": guarantee.unit,
        "law": certificate.law["kind"],
        "charges": [[each.mechanism, repr(each.guarantee.epsilon)] for each in certificate.draws],
        "conditional": [[repr(each.alpha), repr(each.epsilon)] for each in certificate.conditional],
        "assumptions": len(certificate.assumptions),
        "assumptions of the guarantee": len(guarantee.assumptions),
        "rows": certificate.rows,
        "columns": [name for name, _ in certificate.columns],
    }


def contents(folder: Path) -> dict[str, Any]:
    """What a folder says when it is loaded: of labels, of rows with features, or of an answer."""
    written = json.loads(next(folder.glob("*certificate.json")).read_text(encoding="utf-8"))
    if written["expects"] is None:
        return _of_answer(labeldp.Answer.load(folder))
    if "features" not in written:
        return _of_labels(labeldp.Release.load(folder))
    rows = labeldp.RowRelease.load(folder)
    return {
        **_of_labels(rows.labels),
        "noise": repr(rows.noise),
        "replaced": repr(rows.replaced),
        "features": rows.features.column_names,
        "first": [str(value) for row in rows.features.slice(0, 1).to_pylist() for value in row.values()],
    }


def _of_labels(loaded: labeldp.Release) -> dict[str, Any]:
    """What released labels say."""
    likelihood = loaded.likelihood()
    return {
        "channel": loaded.channel.kind,
        "hash": loaded.hash,
        "labels": dict(sorted(Counter(map(str, loaded.to_arrow().to_pylist())).items())),
        "likelihood": rounded((likelihood / likelihood.sum(axis=1, keepdims=True)).mean(axis=0)),
    }


def _of_answer(answer: labeldp.Answer) -> dict[str, Any]:
    """What an answer says."""
    return {
        "query": answer.query,
        "shape": list(answer.value.shape),
        "sum": rounded(np.abs(answer.value).sum()),
        "first": rounded(answer.value.ravel()[:6]),
        "points": answer.points() if answer.query == "noisy-argmax" else None,
    }


def charges(path: Path) -> list[list[Any]]:
    """What a ledger says was charged, oldest first."""
    return [
        [
            each.label,
            each.mechanism,
            repr(each.guarantee.epsilon),
            repr(each.guarantee.delta),
            each.state,
            each.rows.ranges,
        ]
        for each in labeldp.Ledger(path).entries()
    ]


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """A packed file as it was written."""
    with tempfile.TemporaryDirectory() as place:
        found = Path(place) / path.stem
        found.write_bytes(gzip.decompress(path.read_bytes()))
        yield found


def parts(content: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """The description of a model's file, the types and places of its arrays, and their bytes."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    return json.loads(header.pop("__metadata__")["labeldp"]), header, content[end:]


def predictions(path: Path) -> list[Any]:
    """What a saved model predicts of the first rows."""
    from labeldp.learning.tables import open_model  # noqa: PLC0415 (the learners are an extra)

    with unpacked(path) as file:
        return predicted(open_model(file))


def predicted(model: Any) -> list[Any]:
    """What a model predicts of the first rows: probabilities of classes in declared order, or numbers."""
    rows = table().slice(0, PREDICTED_ROWS)
    if getattr(model, "of_numbers", False):
        return rounded(model.predict(rows))
    images = pixels()[:PREDICTED_ROWS, None]
    values = model.predict_proba(rows) if model.columns else model.predict_proba(None, images)
    return rounded(ClassProbabilities(values, model.classes_).in_order(model.space.points))


def generator_facts(path: Path) -> dict[str, Any]:
    """What is known of a generator's file, and by chance: the means of what it draws."""
    from labeldp.learning.generators import open_generator  # noqa: PLC0415 (the learners are an extra)

    with unpacked(path) as file:
        drawn = open_generator(file).generator()
    return {
        "space": [str(point) for point in drawn.space.points],
        "form": hashlib.sha256(json.dumps(drawn.form.describe(), sort_keys=True).encode()).hexdigest(),
        "source": drawn.source.kind,
        "log_floor": repr(drawn.log_floor),
        "seen": len(drawn.seen),
        "columns": list(drawn.form.names),
        "means": means_of(drawn),
    }


def means_of(drawn: labeldp.Generator, rows: int = 2000) -> list[list[float]]:
    """For each class the mean of the last column that a generator draws, and its standard error."""
    found = []
    for code in range(drawn.space.size):
        sample = drawn.sample(np.full(rows, code))
        numbers = np.array([np.mean(value) for value in sample[sample.column_names[-1]].to_pylist()])
        found.append([float(numbers.mean()), float(numbers.std() / np.sqrt(rows))])
    return found


def rounded(values: object) -> Any:
    """Numbers with 9 significant digits."""
    found = np.asarray(values, dtype=np.float64)
    return np.array([float(f"{value:.9g}") for value in found.ravel()]).reshape(found.shape).tolist()


def write_json(path: Path, body: dict[str, Any]) -> None:
    """JSON with sorted keys, one line for each entry."""
    lines = [f"{json.dumps(name)}: {json.dumps(value, sort_keys=True)}" for name, value in sorted(body.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
