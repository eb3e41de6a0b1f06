"""Files of earlier versions, and of images: no larger in memory than on disk."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from labeldp.errors import InputError, TableError
from labeldp.learning.features import read_images
from labeldp.learning.files import check_stored
from labeldp.learning.tables import open_model

MODEL = Path(__file__).parents[2] / "golden" / "models" / "softmax.skops.gz"


def with_parts(tmp_path, parts, compression=zipfile.ZIP_STORED):
    """A zip file."""
    path = tmp_path / "model.skops"
    with zipfile.ZipFile(path, "w", compression) as opened:
        for name, content in parts.items():
            opened.writestr(name, content)
    return path


def array_of(shape, kind="<f8"):
    """An array's header without its numbers."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize("damage", ["compressed", "a header of more", "objects", "overlapping"])
def test_a_model_that_is_larger_than_its_file_is_refused(damage, tmp_path):
    """Before anything is allocated: three megabytes of a file must not become six gigabytes."""
    with zipfile.ZipFile(io.BytesIO(gzip.decompress(MODEL.read_bytes()))) as opened:
        parts = {name: opened.read(name) for name in opened.namelist()}
    first = next(name for name in parts if name.endswith(".npy"))
    if damage == "a header of more":
        parts[first] = array_of((1 << 42,))
    if damage == "objects":
        parts[first] = array_of((1,), "|O")
    kind = zipfile.ZIP_DEFLATED if damage == "compressed" else zipfile.ZIP_STORED
    path = with_parts(tmp_path, parts, kind)
    if damage == "overlapping":
        opened = zipfile.ZipFile(path, "a")
        largest = max(opened.filelist, key=lambda part: part.file_size)
        opened.filelist += [largest] * 20
        opened._didModify = True
        opened.close()
    with pytest.raises(ValueError, match="larger than"), path.open("rb") as file:
        check_stored(file)
    with pytest.raises(InputError, match="expected a model"):
        open_model(path)


def test_an_image_file_that_grows_a_thousandfold_is_refused(tmp_path):
    """A gzipped file of zeros: read up to a multiple of its size, and refused from its header."""
    file = tmp_path / "zeros-idx3-ubyte.gz"
    header = bytes([0, 0, 8, 3]) + (1 << 12).to_bytes(4, "big") + (256).to_bytes(4, "big") * 2
    with gzip.open(file, "wb") as packed:
        packed.write(header + bytes(1 << 28))
    with pytest.raises(TableError, match="expected at most"):
        read_images(file)
