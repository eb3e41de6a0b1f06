"""Images for experiments: pixels that are public, labels that are private, and trees of clusters of the pixels."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

from labeldp import Classes
from labeldp.learning.cells import ClusterTree, embed
from labeldp.learning.tables import read_images
from labeldp.release.tables import read_idx

SPACE = Classes(range(10))
COMPONENTS, NEIGHBOURS, EIGENVECTORS, ROWS_PER_LEAF = 50, 15, (15, 30, 60), 60
PARTS = 8


@dataclass(frozen=True)
class Data:
    """A table of images.

    Attributes:
        images: Images to fit on, bytes of shape (n, 1, height, width).
        labels: Their true labels, which only curators see.
        test_images: Images held out.
        test_labels: Their true labels, read to score models that are finished.
        mirrored: Whether an image and its mirror image are of one class.
        leaves: The leaf of each image to fit on in each tree, shape (n, trees).
        test_leaves: Those of the images held out.
        trees: The trees.
    """

    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    mirrored: bool = False
    leaves: np.ndarray | None = None
    test_leaves: np.ndarray | None = None
    trees: tuple[ClusterTree, ...] = ()

    def first(self, rows: int | None) -> "Data":
        """The first rows to fit on alone, without trees; None: all."""
        return replace(self, images=self.images[:rows], labels=self.labels[:rows], leaves=None, trees=())


def published(folder: Path, name: str, train: str = "train", *, mirrored: bool = False) -> Data:
    """A table from its published files."""
    parts = []
    for part in (train, "t10k"):
        parts.append(read_images(folder / name / f"{part}-images-idx3-ubyte.gz").pixels)
        parts.append(read_idx(folder / name / f"{part}-labels-idx1-ubyte.gz", 1).astype(np.int64))
    return Data(*parts, mirrored=mirrored)


def digits(_: Path) -> Data:
    """1 797 scanned digits of 8 x 8 pixels, three in ten of them held out."""
    features, labels = load_digits(return_X_y=True)
    held = np.random.default_rng(0).random(len(labels)) < 0.3
    images = (features * 15.9).astype(np.uint8).reshape(-1, 1, 8, 8)
    return Data(images[~held], labels[~held].astype(np.int64), images[held], labels[held].astype(np.int64))


TABLES: dict[str, Callable[[Path], Data]] = {
    "mnist": lambda folder: published(folder, "mnist"),
    "fashion-mnist": lambda folder: published(folder, "fashion-mnist", mirrored=True),
    "kmnist": lambda folder: published(folder, "kmnist", "train7011"),
    "digits": digits,
}


def with_trees(name: str, data: Data, cache: Path) -> Data:
    """The table with trees, from the cache where these very images were put into trees before."""
    settings = repr((COMPONENTS, NEIGHBOURS, EIGENVECTORS, ROWS_PER_LEAF)).encode()
    mark = hashlib.sha256(b"".join([settings, data.images.tobytes(), data.test_images.tobytes()])).hexdigest()[:16]
    path = cache / f"trees-{name}-{mark}.npz"
    if not path.exists():
        start = time.perf_counter()
        flat, test = (each.reshape(len(each), -1).astype(np.float32) for each in (data.images, data.test_images))
        embedding = embed(flat, components=COMPONENTS, neighbours=NEIGHBOURS, eigenvectors=max(EIGENVECTORS))
        leaves = max(10, len(flat) // ROWS_PER_LEAF)
        trees = [embedding.tree(leaves, eigenvectors=count) for count in EIGENVECTORS]
        found = {
            "leaves": np.stack([tree.leaves for tree in trees], axis=1),
            "test_leaves": np.stack([tree.predict(test) for tree in trees], axis=1),
            "merges": np.stack([tree.merges for tree in trees]),
        }
        np.savez(path.with_suffix(".part.npz"), **found)
        path.with_suffix(".part.npz").replace(path)
        print(f"{name}: graph and trees took {time.perf_counter() - start:.0f} seconds", flush=True)
    with np.load(path) as kept:
        trees = [ClusterTree(leaf, merges, None) for leaf, merges in zip(kept["leaves"].T, kept["merges"], strict=True)]
        return replace(data, leaves=kept["leaves"], test_leaves=kept["test_leaves"], trees=tuple(trees))


@dataclass(frozen=True)
class Moved:
    """Moves images by up to so many points, each part of a batch alike, and mirrors every other one.

    Attributes:
        points: The most points.
        mirrored: Whether images are mirrored.
    """

    points: int
    mirrored: bool

    def __call__(self, images: Tensor) -> Tensor:
        """Images moved and mirrored by PyTorch's random numbers."""
        steps = torch.randint(-self.points, self.points + 1, (PARTS, 2)).tolist()
        parts = images.chunk(PARTS)
        moved = [torch.roll(part, step, (2, 3)) for part, step in zip(parts, steps[: len(parts)], strict=True)]
        images = torch.cat(moved)
        if not self.mirrored:
            return images
        turned = torch.rand(len(images)) < 0.5
        return torch.where(turned[:, None, None, None], images.flip(3), images)
