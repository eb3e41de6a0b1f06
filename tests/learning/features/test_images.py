"""Images as features: what is read from IDX files and folders of PNG, in which order, and what is refused."""

import struct
import zlib

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")

from labeldp.errors import InputError, TableError  # noqa: E402 (Pillow is an extra)
from labeldp.learning.features import Images, read_images  # noqa: E402


def points(*shape, seed=0):
    """Random points of images."""
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def folder_of(folder, images):
    """A folder of PNG files by name."""
    folder.mkdir()
    for name, pixels in images.items():
        Image.fromarray(pixels).save(folder / name, format="PNG")
    return folder


def chunk(kind, data):
    """One part of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, *parts, color=0):
    """A PNG file with any header, and any parts after it."""
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0))
        + b"".join(parts)
    )


def test_a_file_of_images_has_one_channel(tmp_path):
    """IDX images come in the order of the file, with their channel, and without names."""
    pixels = points(4, 3, 5)
    (tmp_path / "t").write_bytes(struct.pack(">BBBBIII", 0, 0, 8, 3, 4, 3, 5) + pixels.tobytes())
    found = read_images(tmp_path / "t")
    assert found.names is None
    np.testing.assert_array_equal(found.pixels, pixels[:, None])
    np.testing.assert_array_equal(found.of_rows(4), found.pixels)


@pytest.mark.parametrize("colour", [False, True])
def test_a_folder_is_read_in_the_order_of_names(tmp_path, colour):
    """Gray and coloured images, height before width, channels first; what is no PNG is left alone."""
    held = {f"{name}.png": points(2, 7, *([3] if colour else []), seed=i) for i, name in enumerate("cab")}
    folder = folder_of(tmp_path / "f", held)
    (folder / "labels.csv").write_text("no image")
    found = read_images(folder)
    assert found.names == ("a.png", "b.png", "c.png")
    assert found.pixels.shape == (3, 3 if colour else 1, 2, 7)
    for name, pixels in zip(found.names, found.pixels, strict=True):
        np.testing.assert_array_equal(np.moveaxis(pixels, 0, -1).reshape(held[name].shape), held[name])


def test_images_are_joined_by_name(tmp_path):
    """Each row gets the image that it names, in any order, more than once or never."""
    images = read_images(folder_of(tmp_path / "f", {f"{i}.png": points(2, 2, seed=i) for i in range(4)}))
    names = ["3.png", "0.png", "3.png"]
    np.testing.assert_array_equal(images.of_rows(3, names), images.pixels[[3, 0, 3]])


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        (None, ["a.png", "b.png"], "found one file and such a column"),
        (("a.png", "b.png"), None, "found a folder and no such column"),
        (("a.png", "b.png"), ["b.png", "c.png"], "found none for the file name in row 2"),
        (("a.png", "b.png"), ["b.png", None], "found none for the file name in row 2"),
    ],
)
def test_a_join_that_does_not_fit_is_refused(names, given, message):
    """Names where there are none, none where there are some, and a name without an image."""
    images = Images(points(2, 1, 3, 3), names)
    with pytest.raises(InputError, match=message):
        images.of_rows(2, given)


def test_rows_without_images_are_refused():
    """In row order there are as many images as rows."""
    with pytest.raises(InputError, match="each of the 3 rows, found 2"):
        Images(points(2, 1, 3, 3)).of_rows(3)


GOOD = png(4, 4, chunk(b"IDAT", zlib.compress(bytes(5) * 4)), chunk(b"IEND", b""))
BAD = {
    "text": (b"no image", "found something else"),
    "nothing": (b"", "found something else"),
    "a header alone": (png(4, 4), "found something else"),
    "points cut off": (GOOD[:-30], "found something else"),
    "a JPEG's beginning": (b"\xff\xd8\xff\xe0" + bytes(100), "found something else"),
    "a huge image": (png(2**31 - 1, 2**31 - 1, chunk(b"IDAT", b"")), "found something else"),
    "a large image": (png(8192, 4096, chunk(b"IDAT", b"")), "at most 16,777,216 pixels in b.png, found 4096 x 8192"),
    "no size": (png(0, 4, chunk(b"IDAT", b"")), "found"),
    "another size": (png(5, 4, chunk(b"IDAT", b"")), "in b.png after 1 x 4 x 4"),
    "colour after gray": (png(4, 4, chunk(b"IDAT", b""), color=2), "found 3 x 4 x 4 (channels, height, width)"),
    "transparent": (png(4, 4, chunk(b"IDAT", b""), color=4), "found Pillow's 'LA'"),
    "a bomb of text": (
        png(4, 4, chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(50_000_000))), chunk(b"IDAT", b"")),
        "found something else",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_such_image_is_refused(tmp_path, case):
    """With a message that names the file; a large image is refused before it is unpacked."""
    data, message = BAD[case]
    folder = folder_of(tmp_path / "f", {"a.png": points(4, 4)})
    (folder / "b.png").write_bytes(data)
    with pytest.raises(TableError, match=r"^expected .*b\.png") as caught:
        read_images(folder)
    assert message in str(caught.value)


def test_a_file_of_several_images_is_refused(tmp_path):
    """Of an animation it would not be clear which is meant."""
    first, second = (Image.fromarray(points(4, 4, seed=i)) for i in range(2))
    (tmp_path / "f").mkdir()
    first.save(tmp_path / "f" / "a.png", save_all=True, append_images=[second])
    with pytest.raises(TableError, match=r"expected one image.*found 2 of them"):
        read_images(tmp_path / "f")


def test_sixteen_bits_are_refused(tmp_path):
    """They would lose half of what they say."""
    folder = folder_of(tmp_path / "f", {"a.png": points(4, 4).astype(np.uint16)})
    with pytest.raises(TableError, match="convert it"):
        read_images(folder)


def test_all_images_together_have_a_limit(tmp_path, monkeypatch):
    """So many that they cannot be held at once are refused after the first."""
    monkeypatch.setattr("labeldp.learning.features._images._MOST_BYTES", 47)
    with pytest.raises(TableError, match="at most 47 bytes of pixels"):
        read_images(folder_of(tmp_path / "f", {f"{i}.png": points(4, 4) for i in range(3)}))


def test_what_is_not_there_is_said(tmp_path):
    """No file, a folder without images, and an IDX file of other numbers."""
    with pytest.raises(TableError, match="found nothing at"):
        read_images(tmp_path / "none")
    with pytest.raises(TableError, match="expected PNG files in the folder"):
        read_images(tmp_path)
    folder_of(tmp_path / "j", {"1.jpg": points(2, 2)})
    with pytest.raises(TableError, match="found none; convert images of other kinds"):
        read_images(tmp_path / "j")
    (tmp_path / "t").write_bytes(struct.pack(">BBBBIII", 0, 0, 11, 3, 1, 1, 1) + bytes(2))
    with pytest.raises(TableError, match="pixels from 0 to 255"):
        read_images(tmp_path / "t")
