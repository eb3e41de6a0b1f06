"""What the tests of the release room share: small tables, and one of every mechanism."""

import csv
import gzip
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as dp

LABELS = ("red", "green", "blue", "grey", "pink")


def prior_for(rows):
    """A public prior of the classes in declared order that favours others in each row: one, two or three of them."""
    apart = (np.arange(len(LABELS))[None, :] - np.arange(rows)[:, None]) % len(LABELS)
    weights = np.where(apart <= (np.arange(rows) % 3)[:, None], 6.0, 1.0)
    return weights / weights.sum(axis=1, keepdims=True)


def named_prior(rows, space):
    """The same, with the class of each column."""
    return dp.ClassProbabilities(prior_for(rows), space.points)


RANDOMIZERS = {
    "response": lambda space, epsilon, _: dp.RandomizedResponse(space, epsilon),
    "subset": lambda space, epsilon, _: dp.SubsetResponse(space, epsilon, size=2),
    "bits": lambda space, epsilon, _: dp.BitResponse(space, epsilon),
    "symmetric": lambda space, epsilon, _: dp.BitResponse(space, epsilon, form="symmetric"),
    "prior": lambda space, epsilon, rows: dp.PriorResponse(space, epsilon, named_prior(rows, space)),
    "prior-subset": lambda space, epsilon, rows: dp.PriorSubsetResponse(space, epsilon, named_prior(rows, space)),
    "top-k": lambda space, epsilon, rows: dp.TopKResponse(space, epsilon, named_prior(rows, space), k=3),
}


@pytest.fixture
def space():
    """Five classes."""
    return dp.Classes(LABELS)


@pytest.fixture(params=sorted(RANDOMIZERS))
def randomizer_for(request):
    """Every mechanism: a function of space, epsilon and number of rows."""
    return RANDOMIZERS[request.param]


@pytest.fixture
def labels():
    """Sixty labels in no particular order."""
    return [LABELS[i] for i in np.random.default_rng(7).integers(0, len(LABELS), 60)]


def write_csv(path, columns):
    """A CSV file, or a compressed one, of columns given by name."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)


@pytest.fixture
def write_table():
    """A function that writes columns by name as CSV or Parquet, by the name of the file."""

    def write(path, columns):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name.endswith(".parquet"):
            pq.write_table(pa.table(columns), path)
        else:
            write_csv(path, columns)
        return path

    return write


@pytest.fixture
def columns(labels):
    """A small table: an id, a number, a text, a unit of up to three rows, a prior, and the label."""
    rows = len(labels)
    prior = prior_for(rows)
    return {
        "id": list(range(rows)),
        "height": [round(150 + 0.5 * (i * 7 % 60), 1) for i in range(rows)],
        "name": [f"n{i * 13 % 17}" for i in range(rows)],
        "street": [f"p{i // (1 + i // 20)}" if i < 40 else f"q{i // 3}" for i in range(rows)],
        **{f"prior_{name}": prior[:, j].tolist() for j, name in enumerate(LABELS)},
        "colour": labels,
    }


@pytest.fixture
def tables(tmp_path):
    """The folder that tests put their tables and releases in."""
    return tmp_path


@pytest.fixture
def one_name(monkeypatch):
    """A function that gives all releases one name and a key, so that their bytes can be compared."""

    def fix(key):
        monkeypatch.setattr("labeldp._random_words.RunKey.__init__", lambda self: setattr(self, "_key", key))
        for module in ("jobs._job", "curator._curator"):
            monkeypatch.setattr(f"labeldp.release.{module}.identifier", lambda: "ab" * 16)

    return fix
