"""Learning from releases that are larger than memory: seconds, peak memory and accuracy at several numbers of rows.

    OMP_NUM_THREADS=1 python benchmarks/large.py                one and ten million rows of 12 columns
    python benchmarks/large.py --rows 1000000 --engine processes:2
    python benchmarks/large.py --rows 3000000 --memory 2        at most two gigabytes for rows
    python benchmarks/large.py --rows 100000000 --passes        reading and sums alone

Eight numbers and four categories are made in parts of a million rows, with two classes that follow them by a curve, a
product, a step in some categories, and noise; labels are released at epsilon 1. Each way runs in a process of its
own: LightGBM, 100 trees, on the clean labels of the first ten million rows; ``learn`` by sums and bins of all rows;
and ``learn`` from a sample. ``processor`` is the processor time of each.
"""

import argparse
import dataclasses
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from lightgbm import LGBMClassifier
from sklearn.metrics import roc_auc_score

from labeldp import Classes, release_table
from labeldp.learning.features import columns_of
from labeldp.learning.tables import evaluate, learn, open_model
from labeldp.learning.tables._stored import StoredRelease
from labeldp.release.engines import InProcess, open_engine

EPSILON, PART, TEST, SEED, CLEAN = 1.0, 1_000_000, 200_000, 10_000, 10_000_000
WAYS = ("clean", "sums", "sample")


def made(seed, rows):
    """Rows with their true labels."""
    chance = np.random.default_rng(seed)
    x, c = chance.normal(size=(rows, 8)).round(3), chance.integers(0, 20, size=(rows, 4))
    of = 0.5 * np.random.default_rng(99).normal(size=(4, 20))
    score = 1.5 * np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * x[:, 3] + np.abs(x[:, 4]) - 1.8
    score += sum(of[place][c[:, place]] for place in range(4)) + 2.0 * ((x[:, 5] > 0) & (c[:, 0] % 3 == 0))
    labels = chance.random(rows) < 1.0 / (1.0 + np.exp(-score))
    columns = {f"x{place}": x[:, place] for place in range(8)}
    columns |= {f"c{place}": texts(c[:, place], [f"v{each}" for each in range(20)]) for place in range(4)}
    return pa.table(columns | {"y": texts(labels, ["no", "yes"])})


def texts(codes, names):
    """Names by their codes."""
    return pa.DictionaryArray.from_arrays(codes.astype(np.int32), names).cast(pa.string())


def released(folder, rows):
    """A release of so many rows, in files of a million, and a table to judge by; made once."""
    if not (folder / "released").is_dir():
        (folder / "raw").mkdir(parents=True)
        for part in range(max(1, rows // PART)):
            pq.write_table(made(part, min(rows, PART)), folder / f"raw/{part:04}.parquet", row_group_size=1 << 18)
        pq.write_table(made(SEED, TEST), folder / "test.parquet")
        release_table(
            folder / "raw", "y", Classes(["no", "yes"]), EPSILON, folder / "released", drop=[], budget=9.0, unit="row"
        )
        for file in (folder / "raw").iterdir():
            file.unlink()
    return folder


def numbers(table):
    """Features of rows as numbers, categories by their codes, and labels."""
    columns = [table[f"x{place}"].to_numpy() for place in range(8)]
    columns += [pc.utf8_slice_codeunits(table[f"c{place}"], 1).cast(pa.float32()).to_numpy() for place in range(4)]
    return np.stack(columns, axis=1).astype(np.float32), pc.equal(table["y"], "yes").to_numpy()


def processor():
    """Processor time of this process and its children."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def of_clean_labels(folder):
    """Processor time of LightGBM, 100 trees on one thread, on true labels, and scores on other rows."""
    rows = min(int(folder.name), CLEAN)
    parts = [numbers(made(part, min(rows, PART))) for part in range(max(1, rows // PART))]
    fit, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    test, truth = numbers(pq.read_table(folder / "test.parquet"))
    begun = processor()
    model = LGBMClassifier(n_jobs=1, verbose=-1).fit(fit, labels, categorical_feature=list(range(8, 12)))
    spent, chances = processor() - begun, model.predict_proba(test)[:, 1]
    scores = {"accuracy": ((chances > 0.5) == truth).mean(), "area": roc_auc_score(truth, chances)}
    return {"processor": round(spent, 1), **scores}


def once(way, engine, folder, memory):
    """Seconds of each pass, peak memory, and scores on true labels of one way, in this process."""
    if way == "clean":
        return of_clean_labels(folder)
    passes, begun, spent = {}, time.monotonic(), processor()

    def report(name, *_):
        passes.setdefault(name, [time.monotonic()] * 2)[1] = time.monotonic()

    with open_engine(engine or None) as workers:
        ready, given = time.monotonic(), None if not engine else workers
        if way == "passes":
            stored = StoredRelease.of(folder / "released", workers if engine else InProcess(), report)
            stored = dataclasses.replace(stored, room=0)  # no bins
            sampled = stored.sample(200_000)
            stored.models(sampled, columns_of(sampled.table, None, None)[0])
            scores, seconds, spent = {}, time.monotonic() - ready, processor() - spent
        else:
            rows = {} if way == "sums" else {"rows": 200_000}
            learned = learn(folder / "released", progress=report, executor=given, memory=memory, **rows)
            seconds, spent = time.monotonic() - ready, processor() - spent
            model = open_model(learned.model.save(folder / f"{way}.{time.time_ns()}.safetensors"))
            found = evaluate(model, folder / "test.parquet", "y", public=True)
            weights = {name: round(weight, 2) for name, weight in learned.model.estimator.weights_.items()}
            scores = {"accuracy": found.accuracy.value, "area": found.auc.value, "weights": weights}
            scores |= {"members": members(model, pq.read_table(folder / "test.parquet"))}
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    clock = {name: round(last - first, 1) for name, (first, last) in passes.items()}
    return {
        "start": ready - begun,
        "seconds": seconds,
        "processor": round(spent, 1),
        "MB": peak / 1024,
        "passes": clock,
        **scores,
    }


def members(model, table):
    """The accuracy of each member alone."""
    labels, rows = table["y"].to_numpy(), model.estimator.frame(table.drop_columns(["y"]).to_pandas())
    found = model.estimator.members_.items()
    return {name: round(float((member.predict(rows) == labels).mean()), 4) for name, member in found}


def main():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--engine", default="")
    parser.add_argument("--passes", action="store_true", help="verification, sample and sums alone")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--memory", type=float, help="gigabytes for rows")
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--one", nargs=3, metavar=("WAY", "ENGINE", "FOLDER"))
    given = parser.parse_args()
    if given.one:
        memory = None if given.memory is None else int(1e9 * given.memory)
        print(json.dumps(once(*given.one[:2], Path(given.one[2]), memory)))
        return
    with tempfile.TemporaryDirectory() as place:
        for rows in given.rows:
            folder = released((given.folder or Path(place)) / str(rows), rows)
            for way in ("passes",) if given.passes else given.ways:
                command = [sys.executable, __file__, "--one", way, given.engine, str(folder)]
                command += [] if given.memory is None else ["--memory", str(given.memory)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                print(f"{rows:,} {way} {given.engine}", done.stdout.splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
