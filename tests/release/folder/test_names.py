"""Names in a release folder: readers of Parquet pass over the certificate, and former names are read."""

import shutil

import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, Curator, RandomizedResponse, Release, make_key, sign, verify
from labeldp.errors import OutputError, VerificationError
from labeldp.release import public_columns, release_batches

FORMER = {"_certificate.json": "certificate.json", "_signature.json": "signature.json"}


@pytest.fixture
def key(tmp_path):
    """The path of a private key."""
    make_key(tmp_path / "office")
    return tmp_path / "office"


@pytest.fixture
def shared(tmp_path, key):
    """A signed release folder."""
    space = Classes(["no", "yes"])
    release = Curator(["no", "yes"] * 5, space).randomize(RandomizedResponse(space, 1.0))
    folder = release.save(tmp_path / "shared", pd.DataFrame({"age": range(10)}), keep="all")
    sign(folder, key)
    return folder


@pytest.fixture
def former(shared):
    """The folder by its former names."""
    folder = shutil.copytree(shared, shared.with_name("former"))
    for name, other in FORMER.items():
        (folder / name).rename(folder / other)
    return folder


def test_a_folder_opens_as_a_table(shared):
    """Pandas and pyarrow read a release folder as it is."""
    names = ["age", "label_released"]
    assert sorted(file.name for file in shared.iterdir()) == ["_certificate.json", "_signature.json", "data.parquet"]
    assert list(pd.read_parquet(shared).columns) == names
    assert pq.read_table(shared).column_names == ds.dataset(shared).to_table().column_names == names


def test_former_names_are_read(former, key):
    """A folder with the former names verifies, opens, and its signature holds; it is not signed again."""
    assert verify(former, public_key=key.with_suffix(".pub")).holds
    assert verify(former).signed
    assert len(Release.load(former)) == public_columns(former).num_rows == 10
    assert sum(len(labels) for _, labels in release_batches(former)) == 10
    with pytest.raises(OutputError):
        sign(former, key)


@pytest.mark.parametrize("name", FORMER)
def test_two_names_are_one_too_many(shared, name):
    """A folder with a certificate, or a signature, by both names does not verify, whatever they say."""
    shutil.copyfile(shared / name, shared / FORMER[name])
    assert not verify(shared).holds
    if name == "_certificate.json":
        for read in (Release.load, public_columns):
            with pytest.raises(VerificationError, match="found both"):
                read(shared)
