"""Folders that cost a reader more than they cost their maker: each gets a verdict, soon and in little memory."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.commits import drawn

import labeldp as dp
from labeldp.errors import VerificationError
from labeldp.mechanisms.queries import ExchangedLabels
from labeldp.privacy import bounded_work, spend_work
from labeldp.privacy.accounting import RowRanges
from labeldp.release.folder import _limits, columns_of, read_certificate
from labeldp.release.folder._certificate import File
from labeldp.release.folder._staging import CERTIFICATE
from labeldp.release.folder._write import file_digest

HERE = Path(__file__).parents[2]
GOLDEN = sorted(path for path in (HERE / "golden" / "python").iterdir() if path.is_dir())
SPACE = dp.Classes(["no", "yes"])

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks of memory are Linux's")


def found_of(folders, *options):
    """What is found of folders, or of forgeries of their certificates, in a process with little memory."""
    ran = subprocess.run(
        [sys.executable, HERE / "forgeries.py", *map(str, options)],
        input="\n".join(map(str, folders)),
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    check(found)
    return found


def check(found):
    """Assert that each forgery got a verdict, soon and in little memory, and that none passes for more than it was."""
    for each in found:
        assert "escaped" not in each, each
        assert "refused" not in each, each
        assert not each.get("smaller"), each
        assert not each["spoofed"], each
        assert each["seconds"] < 10.0, each
        assert each["bytes"] < 1 << 30, each


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))  # so that two processes share what takes a minute
def test_forged_certificates_get_a_verdict(part):
    """Every part of every kind of certificate, edited, also with all that follows computed anew.

    The commit draws which of 31 edits it tries.
    """
    found = found_of(GOLDEN[part::2], "--step", 31, "--first", drawn("forgeries") % 31)
    assert len(found) > 900
    assert {each["kind"] for each in found} == {"raw", "resealed"}


@pytest.fixture(scope="module")
def curator():
    """A curator of few labels."""
    return dp.Curator(["no", "yes", "yes"] * 100, SPACE, budget=(100.0, 1e-3), name="y")


class Client:
    """An interactive client that asks for nothing in particular."""

    def ask(self, _):
        """One of two vectors."""
        return np.eye(2)

    def tell(self, _, __):
        """Nothing is learned."""


@pytest.fixture(scope="module")
def folders(curator, tmp_path_factory):
    """Folders by name."""
    where = tmp_path_factory.mktemp("folders")
    exchange = ExchangedLabels(SPACE, dp.PeerExchange(0.1, sampling="fixed"), np.arange(300) % 3, 1e-4)
    units = dp.Curator(["no", "yes", "yes"] * 100, SPACE, units=np.arange(300) // 3, name="y")
    numbers = dp.Curator([0.0, 1.0] * 150, dp.Interval(0.0, 1.0, 0.5), name="y")
    saved = {
        "labels": curator.randomize(dp.RandomizedResponse(SPACE, 1.0)),
        "sets": curator.randomize(dp.SubsetResponse(SPACE, 1.0)),
        "peers": curator.answer(exchange),
        "shuffle": curator.answer(dp.ShuffledLabels(SPACE, dp.CellShuffle(1.0), np.arange(300) % 3, 1e-4)),
        "moments": curator.answer(dp.LabelMoments(SPACE, 1.0, 1e-4, np.ones((300, 2)))),
        "counts": curator.answer(dp.NoisyHistogram(SPACE, 1.0)),
        "gradients": curator.answer(dp.NoisyGradients(SPACE, 1.0, client=Client(), rows=300)),
        "units": units.randomize(dp.RandomizedResponse(SPACE, 1.0)),
        "mean": numbers.answer(dp.NoisyMean(dp.Interval(0.0, 1.0, 0.5), 1.0)),
    }
    return {name: release.save(where / name) for name, release in saved.items()}


LAWS = [
    ("labels", "bits", "10000000000"),
    ("labels", "bits", "100000000000000"),
    ("labels", "bits", 1 << 40),
    ("labels", "classes", "9" * 90),
    ("units", "repeats", ["9" * 4000]),
    ("units", "repeats", ["99999999"]),
    ("units", "repeats", ["9" * 90]),
    ("peers", "cluster_sizes", ["16777216"]),
    ("shuffle", "cluster_sizes", ["16777216"]),
    ("shuffle", "cluster_sizes", ["131072", "131073"]),
    ("shuffle", "keep", "1"),
    ("peers", "cluster_sizes", [str(n) for n in range(100_000, 100_050)]),
    ("gradients", "labels_of_a_unit", "99999999"),
    ("gradients", "dimension", "9" * 90),
    ("moments", "bits", "9" * 90),
    ("counts", "rate", "9" * 4000),
]


def test_a_law_that_takes_long_is_refused(folders, tmp_path):
    """Integers that are cheap to write and dear to compute with, also if many rows are claimed."""
    forged = []
    for name, part, value in LAWS:
        body = json.loads((folders[name] / CERTIFICATE).read_text(encoding="utf-8"))
        body["charges"][0]["law"][part] = value
        forged.append(copied(folders[name], tmp_path / str(len(forged)), body))
        body["charges"][0]["rows"], body["table"]["rows"] = [[0, 1 << 40]], 1 << 40
        forged.append(copied(folders[name], tmp_path / str(len(forged)), body))
    assert not any(each["holds"] for each in found_of(forged, "--as-they-are"))


def copied(folder, target, text):
    """A copy of a folder with another certificate."""
    shutil.copytree(folder, target)
    (target / CERTIFICATE).write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return target


def of_certificate(text, folder, target):
    """What is found of another certificate beside the files of a folder."""
    return found_of([copied(folder, target, text)], "--as-they-are")[0]


@pytest.mark.parametrize("deep", [1, 2, 300])
def test_nested_groups_are_refused(folders, deep, tmp_path):
    """Groups of groups of groups."""
    body = json.loads((folders["units"] / CERTIFICATE).read_text(encoding="utf-8"))
    for _ in range(deep):
        law = body["charges"][0]["law"]
        body["charges"][0]["law"] = {**law, "channels": [law]}
    assert not of_certificate(body, folders["units"], tmp_path / "forged")["holds"]


def test_deep_lists_are_refused(folders, tmp_path):
    """Lists of lists, which are of no use anywhere."""
    text = (folders["units"] / CERTIFICATE).read_text(encoding="utf-8")
    text = text.replace('"assumptions": [', '"assumptions": [' + "[" * 900 + "]" * 900 + ", ", 1)
    assert "nested" in of_certificate(text, folders["units"], tmp_path / "forged")["found"]


def test_the_points_of_an_interval_cost_little(folders, tmp_path):
    """Sixteen million grid points take a line of text: they are computed at once."""
    body = json.loads((folders["mean"] / CERTIFICATE).read_text(encoding="utf-8"))
    body["label"]["space"]["high"] = float((1 << 23) - 1)
    body["charges"][0]["law"] |= {"sensitivity": str((1 << 24) - 2), "rate": str(1 << 40)}
    body["charges"][0]["guarantee"] |= {"epsilon": float((1 << 24) - 2)}
    assert not of_certificate(body, folders["mean"], tmp_path / "forged")["holds"]


def test_many_outcomes_on_a_fine_grid_cost_little(tmp_path):
    """What numbers are expected to be follows from few distributions, not from each outcome at each grid point."""
    space = dp.Interval(0.0, float(1 << 22), 1.0)
    folder = dp.Curator([0.0, 1.0] * 50, space).randomize(dp.OneBitResponse(space, 1.0)).save(tmp_path / "honest")
    body = json.loads((folder / CERTIFICATE).read_text(encoding="utf-8"))
    body["charges"][0]["law"]["weights"] = [[str(1 << 54)] * 1024] * 2
    body["charges"][0]["law"]["values"] = [str(number) for number in range(1024)]
    body["charges"][0]["guarantee"]["epsilon"] = 0.0
    body["guarantee"] |= {"epsilon": 0.0, "sentence": dp.Guarantee(0.0).sentence()}
    assert "utility" in of_certificate(body, folder, tmp_path / "forged")["found"]


def test_a_large_certificate_is_not_read(folders, tmp_path):
    """Beyond 32 MB a certificate is not even parsed."""
    found = of_certificate(" " * (_limits.MOST_BYTES + 1), folders["labels"], tmp_path / "forged")
    assert "bytes" in found["found"]


def test_work_is_counted():
    """Sums are refused before they are computed, and there is no limit outside."""
    with bounded_work(10):
        spend_work(4)
        with pytest.raises(VerificationError, match="takes longer"):
            spend_work(7)
    spend_work(1e30)


def test_peers_take_long_if_asked_for(folders, monkeypatch):
    """What takes too long is no failure of the release, and says how to go on."""
    monkeypatch.setattr("labeldp.release.folder._verify.MOST_TERMS", 10)
    assert "--long" in dp.verify(folders["peers"]).checks[-1].found
    assert dp.verify(folders["peers"], long=True).holds


def of_data(folder, target, table, **options):
    """What is found of other data in a folder, with a certificate that agrees."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("_README.txt"))
    certificate, rows = read_certificate(folder), table.num_rows
    pq.write_table(table, target / "data.parquet", 1 << 30, write_statistics=False, store_schema=False, **options)
    file = File("data.parquet", rows, file_digest(target / "data.parquet"))
    draws = tuple(dataclasses.replace(draw, rows=RowRanges.all(rows)) for draw in certificate.draws)
    parts = {"rows": rows, "draws": draws, "files": (file,), "columns": columns_of(target / "data.parquet")}
    (target / CERTIFICATE).write_text(dataclasses.replace(certificate, **parts).to_json(), encoding="utf-8")
    return found_of([target], "--as-they-are")[0]


def constant(rows, value):
    """Many equal texts, as a dictionary of one."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value]))


def test_many_equal_labels_are_read_in_little_memory(folders, tmp_path):
    """Thirty million rows in a few kilobytes are as many as they say, and are read in batches."""
    found = of_data(folders["labels"], tmp_path / "forged", pa.table({"y_released": constant(30_000_000, "no")}))
    assert found["holds"]


@pytest.mark.parametrize("name", ["labels", "peers"])
def test_too_many_equal_labels_are_refused(folders, name, tmp_path):
    """Beyond some for each byte they would take longer than a verdict may; those of an answer are held together."""
    rows = 1 << 27 if name == "labels" else 1 << 25
    found = of_data(folders[name], tmp_path / "forged", pa.table({"y_released": constant(rows, "no")}))
    assert "for each byte" in found["found"]


def test_too_many_equal_counts_are_refused(folders, tmp_path):
    """Likewise of counts, whose number no law states."""
    zeros = pa.array(np.zeros(1 << 24, np.int8))
    found = of_data(folders["counts"], tmp_path / "forged", pa.table({"y_no": zeros, "y_yes": zeros}))
    assert not found["holds"]


@pytest.mark.parametrize("name", ["labels", "sets"])
def test_a_long_text_that_stands_for_many_rows_is_refused(folders, name, tmp_path):
    """A megabyte that a dictionary repeats in each of a hundred thousand rows, alone or in sets."""
    texts = constant(100_000, "z" * 1_000_000)
    if name == "sets":
        kind = pa.list_(pa.field("element", texts.type, nullable=False))
        texts = pa.ListArray.from_arrays(pa.array(np.arange(100_001, dtype=np.int32)), texts, type=kind)
    assert "fewer letters" in of_data(folders[name], tmp_path / "forged", pa.table({"y_released": texts}))["found"]


def test_other_compressions_are_refused(folders, tmp_path):
    """Zeros shrink a thousandfold under some: what is written here is compressed by snappy."""
    table = pa.table({"y_released": constant(300, "no")})
    assert "snappy" in of_data(folders["labels"], tmp_path / "forged", table, compression="gzip")["found"]


@pytest.mark.parametrize("name", [CERTIFICATE, "data.parquet"])
@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_what_is_no_file_is_not_waited_for(folders, name, kind, tmp_path):
    """A device without an end, a pipe that nobody writes to, and a folder."""
    target = tmp_path / "forged"
    shutil.copytree(folders["labels"], target)
    (target / name).unlink()
    {
        "device": lambda: (target / name).symlink_to("/dev/zero"),
        "pipe": lambda: os.mkfifo(target / name),
        "folder": (target / name).mkdir,
    }[kind]()
    assert not found_of([target], "--as-they-are")[0]["holds"]


def test_columns_are_known_by_the_paths_of_their_parts():
    """Names with dots, and lists; other columns with the same beginning are others."""
    columns = {"a", "b.c"}
    assert all(_limits._is_of(path, columns) for path in ("a", "a.list.element", "b.c", "b.c.list.element"))
    assert not any(_limits._is_of(path, columns) for path in ("ab", "b", "b.d", "d.list.element"))


def test_a_file_is_listed_once(folders, tmp_path):
    """A line of a certificate makes its reader read a file: a file is read once."""
    body = json.loads((folders["labels"] / CERTIFICATE).read_text(encoding="utf-8"))
    body["table"]["files"] *= 50_000
    assert "listed once" in of_certificate(body, folders["labels"], tmp_path / "forged")["found"]
