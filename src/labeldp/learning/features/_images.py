"""Images as features: IDX files, and folders of PNG files, which need ``pip install 'labeldp[torch]'``.

Whoever made the files is not believed: an image is looked at before it is unpacked, and sizes have a limit.
"""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import UInt8

from labeldp.errors import InputError, MissingExtraError, TableError
from labeldp.release.tables import read_idx

_MOST_BYTES = 1 << 32
_MOST_POINTS = 1 << 24
_ENDING = ".png"
#: What Pillow raises on a file that is damaged or something else.
_DAMAGED = (OSError, SyntaxError, EOFError, zlib.error, struct.error, ValueError)
#: The channels of an image by Pillow's name for its form.
_CHANNELS = MappingProxyType({"L": 1, "RGB": 3})


@dataclass(frozen=True, eq=False)
class Images:
    """Images of one size, in order.

    Attributes:
        pixels: Of shape (n, channels, height, width), from 0 to 255.
        names: The names of their files, or None where one file held them all.
    """

    pixels: UInt8[np.ndarray, "n channels height width"]
    names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.pixels)

    def of_rows(self, rows: int, names: Sequence[object] | None = None) -> UInt8[np.ndarray, "m channels height width"]:
        """The image of each row of a table.

        Args:
            rows: The number of rows.
            names: The name of each row's file; None where images are in the order of the rows.

        Raises:
            InputError: There is not an image for each row, or names are missing or not needed.
        """
        if (names is None) != (self.names is None):
            needed = "files with names, and no column of them" if names is None else "names, and one file without any"
            raise InputError(
                f"expected a column of file names for a folder of images, and none for a file of them, found {needed}"
            )
        if names is None:
            if len(self) != rows:
                raise InputError(f"expected an image for each of the {rows:,} rows, found {len(self):,}")
            return self.pixels
        places = {name: place for place, name in enumerate(self.names or ())}
        lacking = next((row for row, name in enumerate(names) if str(name) not in places), None)
        if lacking is not None:
            raise InputError(f"expected an image of that name for every row, found none of row {lacking}; add it")
        return self.pixels[[places[str(name)] for name in names]]


def read_images(path: str | Path) -> Images:
    """The images in an IDX file or in a folder.

    Args:
        path: An IDX file of three dimensions, plain or gzipped; or a folder, of which all PNG files are read in the
            order of their names. Those are of one size, gray or of three colours, 8 bits each.

    Raises:
        TableError: There is no such file or folder, one of it is something else or damaged, or all are too large to be
            held at once.

    Example:
        >>> import tempfile
        >>> file = tempfile.mkdtemp() + "/two-idx3-ubyte"
        >>> with open(file, "wb") as opened:
        ...     _ = opened.write(bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, *range(12)]))
        >>> read_images(file).pixels.shape
        (2, 1, 2, 3)
    """
    found = Path(path)
    if found.is_dir():
        return _in_folder(found)
    if not found.is_file():
        raise TableError(f"expected an IDX file of images or a folder of PNG files, found nothing at {found}")
    pixels = read_idx(found, 3, _MOST_BYTES)
    if pixels.dtype != np.uint8:
        raise TableError(f"expected points from 0 to 255 in {found.name}, found {pixels.dtype}")
    return Images(pixels[:, None])


def _in_folder(folder: Path) -> Images:
    """The PNG files of a folder, in the order of their names."""
    try:
        from PIL import Image  # noqa: PLC0415 (only folders need it)
    except ModuleNotFoundError:
        raise MissingExtraError("expected Pillow to read PNG files, found none; pip install 'labeldp[torch]'") from None
    files = sorted(file for file in folder.iterdir() if file.name.lower().endswith(_ENDING) and file.is_file())
    if not files:
        raise TableError(f"expected PNG files in the folder {folder}, found none")
    pixels = np.empty((0, 0, 0, 0), dtype=np.uint8)
    for place, file in enumerate(files):
        points = _points(Image, file, pixels.shape[1:] if place else None)
        if place == 0:
            if points.nbytes * len(files) > _MOST_BYTES:
                raise TableError(f"expected at most {_MOST_BYTES:,} points in {folder}, found more; make them smaller")
            pixels = np.empty((len(files), *points.shape), dtype=np.uint8)
        pixels[place] = points
    return Images(pixels, tuple(file.name for file in files))


def _points(library: Any, file: Path, shape: tuple[int, ...] | None) -> UInt8[np.ndarray, "channels height width"]:
    """The points of a PNG file, which has the shape of those before it; nothing is unpacked before that is known."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large images, which are refused below
            with library.open(file, formats=["PNG"]) as image:
                found = (_CHANNELS.get(image.mode, 0), image.height, image.width)
                _check(file, image.mode, found, shape, getattr(image, "n_frames", 1))
                return np.moveaxis(np.asarray(image).reshape(*found[1:], found[0]), -1, 0)
    except TableError:
        raise
    except (library.DecompressionBombError, *_DAMAGED):
        pass
    raise TableError(f"expected a PNG file of moderate size in {file.name}, found something else, or a damaged one")


def _check(file: Path, mode: str, found: tuple[int, ...], shape: tuple[int, ...] | None, frames: int) -> None:
    """Refuse an image by what its header says."""
    if not found[0] or frames != 1:
        what = f"{frames} of them" if found[0] else f"Pillow's {mode!r}"
        raise TableError(f"expected one image, gray or of three colours, in {file.name}, found {what}; convert it")
    if found[1] * found[2] > _MOST_POINTS:
        raise TableError(f"expected at most {_MOST_POINTS:,} points in {file.name}, found {found[1]} x {found[2]}")
    if shape is not None and found != shape:
        raise TableError(
            f"expected images of one size and form, found {found[1]} x {found[2]} of {found[0]} channels in "
            f"{file.name} after {shape[1]} x {shape[2]} of {shape[0]}; convert them"
        )
