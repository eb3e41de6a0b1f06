"""Names in a release folder: readers of Parquet pass over the certificate, and former names are read."""

import json
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
    assert sorted(file.name for file in shared.iterdir()) == [
        "_README.txt",
        "_certificate.json",
        "_signature.json",
        "data.parquet",
    ]
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


FORGED = {
    "beside the folder": "../shared/data.parquet",
    "absolute": "{folder}/data.parquet",
    "in a folder": "month=11/data.parquet",
    "around": "./data.parquet",
    "through a folder": "month=11/../data.parquet",
}


@pytest.mark.parametrize("name", FORGED.values(), ids=FORGED)
def test_forged_names_of_files_do_not_verify(shared, name):
    """A release is one folder of files, whatever its certificate names, and whatever is there under the name."""
    (shared / "month=11").mkdir()
    forged = name.format(folder=shared)
    if forged.startswith("month=11/d"):
        (shared / "data.parquet").rename(shared / forged)
    body = json.loads((shared / "_certificate.json").read_text())
    body["table"]["files"][0]["name"] = forged
    text = json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (shared / "_certificate.json").write_text(text)
    verdict = verify(shared)
    assert (verdict.holds, len(verdict.checks)) == (False, 4)
    with pytest.raises(VerificationError):
        Release.load(shared)


def test_files_may_be_links_into_a_store(shared, key, tmp_path):
    """As in the cache of a hub, or the checkout of a large-file store, which keep contents by their hash."""
    (tmp_path / "blobs").mkdir()
    for number, file in enumerate(sorted(shared.iterdir())):
        file.rename(tmp_path / "blobs" / str(number))
        file.symlink_to(tmp_path / "blobs" / str(number))
    assert verify(shared, public_key=key.with_suffix(".pub")).holds
    assert len(Release.load(shared)) == 10
    assert sum(len(labels) for _, labels in release_batches(shared)) == 10
    (tmp_path / "blobs" / "3").write_bytes(b"others")
    assert not verify(shared).holds


def test_a_link_to_a_folder_is_a_stranger(shared, tmp_path):
    """A release has no folders, and what is in one is not looked at."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("x")
    (shared / "more").symlink_to(tmp_path / "elsewhere")
    verdict = verify(shared)
    assert not verdict.holds
    assert "'more'" in verdict.checks[-1].found
    assert "secret" not in verdict.checks[-1].found
