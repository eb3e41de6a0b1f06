"""Images as features: IDX files, and folders of PNG files, which need the extra ``images``.

The files are not trusted: an image's header is checked before it is unpacked, and sizes are limited.
"""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from labeldp._extras import require_extra
from labeldp._shapes import UInt8
from labeldp.errors import InputError, TableError
from labeldp.privacy import row_name
from labeldp.release.tables import read_idx

_MOST_BYTES = 1 << 32
_MOST_PIXELS = 1 << 24
_ENDING = ".png"
#: What Pillow raises on a file that is damaged or something else.
_DAMAGED = (OSError, SyntaxError, EOFError, zlib.error, struct.error, ValueError)
#: The channels of an image by Pillow's name for its form.
_CHANNELS = MappingProxyType({"L": 1, "RGB": 3})


@dataclass(frozen=True, eq=False)
class Images:
    """Images of one size in a fixed order.

    Attributes:
        pixels: Shape (n, channels, height, width), from 0 to 255.
        names: Names of the files, or None if one file held all images.
    """

    pixels: UInt8[np.ndarray, "n channels height width"]
    names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.pixels)

    def of_rows(
        self, rows: int, names: Collection[object] | None = None
    ) -> UInt8[np.ndarray, "m channels height width"]:
        """The image of each row of a table.

        Args:
            rows: Number of rows.
            names: File name of each row; None if the images are in the order of the rows.

        Raises:
            InputError: A row has no image, or names are missing or not needed.
        """
        if (names is None) != (self.names is None):
            found = "a folder and no such column" if names is None else "one file and such a column"
            raise InputError(
                "expected a column of file names (--image-column) with a folder of images, and none with one file, "
                f"found {found}"
            )
        if names is None:
            if len(self) != rows:
                raise InputError(f"expected an image for each of the {rows:,} rows, found {len(self):,}")
            return self.pixels
        places = {name: place for place, name in enumerate(self.names or ())}
        missing = next((row for row, name in enumerate(names) if str(name) not in places), None)
        if missing is not None:
            raise InputError(
                f"expected an image for every row, found none for the file name in {row_name(missing)}; add it"
            )
        return self.pixels[[places[str(name)] for name in names]]


def read_images(path: str | Path) -> Images:
    """The images in an IDX file or in a folder.

    Args:
        path: An IDX file of three dimensions, plain or gzipped; or a folder, whose PNG files are read in the order of
            their names. They must have one size and be gray or RGB, with 8 bits per channel.

    Raises:
        TableError: The path does not exist, a file is damaged or of another kind, or the images do not fit in memory.

    Example:
        >>> import tempfile
        >>> file = tempfile.mkdtemp() + "/two-idx3-ubyte"
        >>> with open(file, "wb") as opened:
        ...     _ = opened.write(bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, *range(12)]))
        >>> read_images(file).pixels.shape
        (2, 1, 2, 3)
    """
    source = Path(path)
    if source.is_dir():
        return _read_folder(source)
    if not source.is_file():
        raise TableError(f"expected an IDX file of images or a folder of PNG files, found nothing at {source}")
    pixels = read_idx(source, 3, _MOST_BYTES)
    if pixels.dtype != np.uint8:
        raise TableError(f"expected pixels from 0 to 255 in {source.name}, found {pixels.dtype}")
    return Images(pixels[:, None])


def _read_folder(folder: Path) -> Images:
    """The PNG files of a folder, in the order of their names."""
    require_extra("images", "PIL")
    from PIL import Image  # noqa: PLC0415 (only folders need it)

    files = sorted(file for file in folder.iterdir() if file.name.lower().endswith(_ENDING) and file.is_file())
    if not files:
        raise TableError(f"expected PNG files in the folder {folder}, found none; convert images of other kinds")
    pixels = np.empty((0, 0, 0, 0), dtype=np.uint8)
    for place, file in enumerate(files):
        image = _read_png(Image, file, pixels.shape[1:] if place else None)
        if place == 0:
            if image.nbytes * len(files) > _MOST_BYTES:
                raise TableError(
                    f"expected at most {_MOST_BYTES:,} bytes of pixels in {folder}, found more; make the images smaller"
                )
            pixels = np.empty((len(files), *image.shape), dtype=np.uint8)
        pixels[place] = image
    return Images(pixels, tuple(file.name for file in files))


def _read_png(library: Any, file: Path, shape: tuple[int, ...] | None) -> UInt8[np.ndarray, "channels height width"]:
    """The pixels of a PNG file of the expected shape, which is checked before anything is unpacked."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large images, which are refused below
            with library.open(file, formats=["PNG"]) as image:
                found = (_CHANNELS.get(image.mode, 0), image.height, image.width)
                _check_header(file, image.mode, found, shape, getattr(image, "n_frames", 1))
                return np.moveaxis(np.asarray(image).reshape(*found[1:], found[0]), -1, 0)
    except TableError:
        raise
    except (library.DecompressionBombError, *_DAMAGED):
        pass
    raise TableError(f"expected a PNG file of moderate size in {file.name}, found something else, or a damaged one")


def _check_header(file: Path, mode: str, found: tuple[int, ...], shape: tuple[int, ...] | None, frames: int) -> None:
    """Refuse an image whose header shows a wrong form, or too many pixels."""
    if not found[0] or frames != 1:
        what = f"{frames} of them" if found[0] else f"Pillow's {mode!r}"
        raise TableError(f"expected one image, grayscale or RGB, in {file.name}, found {what}; convert it")
    if found[1] * found[2] > _MOST_PIXELS:
        raise TableError(f"expected at most {_MOST_PIXELS:,} pixels in {file.name}, found {found[1]} x {found[2]}")
    if shape is not None and found != shape:
        raise TableError(
            f"expected images of one size and form, found {found[0]} x {found[1]} x {found[2]} (channels, "
            f"height, width) in {file.name} after {shape[0]} x {shape[1]} x {shape[2]}; convert them"
        )
