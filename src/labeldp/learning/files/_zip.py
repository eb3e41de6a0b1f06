"""The check of a zip file that others may have written: nothing in it is larger than the file."""

from __future__ import annotations

import math
import os
import zipfile
from types import MappingProxyType
from typing import BinaryIO

import numpy as np

#: The ending of arrays in a zip file, and the readers of their headers by version.
_ARRAY = ".npy"
_ARRAY_HEADERS = MappingProxyType(
    {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
)


def check_stored(file: BinaryIO) -> None:
    """Refuse a zip file that holds more than its own bytes, or an array of more than its part of the file.

    Raises:
        ValueError: Its parts are compressed or overlap, or an array's header says that it is larger than its part.
    """
    with zipfile.ZipFile(file) as opened:
        parts = opened.infolist()
        stored = all(
            part.compress_type == zipfile.ZIP_STORED and part.file_size == part.compress_size for part in parts
        )
        if not stored or sum(part.file_size for part in parts) > os.fstat(file.fileno()).st_size:
            raise ValueError("parts that are larger than the file")
        for part in parts:
            if part.filename.endswith(_ARRAY):
                with opened.open(part) as array:
                    shape, _, kind = _ARRAY_HEADERS[np.lib.format.read_magic(array)](array)
                if kind.hasobject or math.prod(shape) * kind.itemsize > part.file_size:
                    raise ValueError("an array that is larger than its part of the file")
