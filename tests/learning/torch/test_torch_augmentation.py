"""Random changes of images: what stays, what moves, and by whose chance."""

import numpy as np
import pytest
import torch

from labeldp.errors import InputError
from labeldp.learning.torch import augmentation

torch.set_num_threads(1)


def gray(rows, height=8, width=10):
    """Images in which each point has a value of its own, none of them 0."""
    points = torch.arange(1.0, height * width + 1).reshape(1, 1, height, width)
    return points.repeat(rows, 2, 1, 1)


def test_a_crop_moves_each_image_by_its_own_few_points():
    """Every image is the given one moved by at most two points in each direction, with 0 where nothing was."""
    torch.manual_seed(0)
    images, found = gray(40), augmentation(2, flip=False, cutout=0)(gray(40))
    moves = set()
    for image, given in zip(found, images, strict=True):
        padded = torch.nn.functional.pad(given, (2, 2, 2, 2))
        fits = [(i, j) for i in range(5) for j in range(5) if torch.equal(image, padded[:, i : i + 8, j : j + 10])]
        assert len(fits) == 1
        moves.add(fits[0])
    assert len(moves) > 10


def test_a_flip_mirrors_about_every_other_image():
    """Images are as given or mirrored left to right; of 400 both kinds are more than 130 (false alarm below 1e-11)."""
    torch.manual_seed(0)
    images, found = gray(400), augmentation(0, cutout=0)(gray(400))
    kept = sum(torch.equal(one, other) for one, other in zip(found, images, strict=True))
    turned = sum(torch.equal(one, other.flip(2)) for one, other in zip(found, images, strict=True))
    assert kept + turned == 400
    assert min(kept, turned) > 130


def test_a_cutout_is_one_square_of_each_image():
    """Three by three points of every channel are 0, at different places, and nothing else changes."""
    torch.manual_seed(0)
    images, found = gray(40), augmentation(0, flip=False, cutout=3)(gray(40))
    places = set()
    for image, given in zip(found, images, strict=True):
        gone = image == 0
        rows, columns = torch.nonzero(gone[0], as_tuple=True)
        assert gone.sum() == 2 * 9
        assert torch.equal(gone[0], gone[1])
        assert rows.max() - rows.min() == columns.max() - columns.min() == 2
        assert torch.equal(image[~gone], given[~gone])
        places.add((int(rows.min()), int(columns.min())))
    assert len(places) > 10


def test_chance_is_that_of_torch_alone():
    """The same state of PyTorch gives the same images, whatever NumPy's is; another state gives others."""
    change, found = augmentation(2, cutout=3), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        np.random.seed(len(found))  # noqa: NPY002 (the global state is the point)
        found.append(change(gray(30)))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("shape", [(4, 8, 8), (4, 64)])
def test_what_is_no_batch_of_images_is_refused(shape):
    """The shape that was found is named."""
    with pytest.raises(InputError, match=rf"found \({shape[0]}, {shape[1]}"):
        augmentation()(torch.zeros(shape))


def test_settings_that_fit_no_image_are_refused():
    """A cutout larger than the image, and numbers below 0."""
    with pytest.raises(InputError, match="cutout within images of 8 x 10 pixels, found 9"):
        augmentation(cutout=9)(gray(2))
    with pytest.raises(InputError, match="crop between 0"):
        augmentation(crop=-1)


def test_a_turned_image_keeps_its_middle_and_goes_on_at_its_edges():
    """Half black and half white: both stay away from the border between them, and beyond an edge is what is at it."""
    torch.manual_seed(0)
    halves = torch.zeros(40, 1, 21, 21)
    halves[:, :, 11:] = 1.0
    found = augmentation(0, flip=False, cutout=0, turn=10.0)(halves)
    assert (found[:, :, 16:] > 0.999).all()  # by 10 degrees an edge of 21 points moves by less than two
    assert (found[:, :, :5] < 0.001).all()
    turned = {round(float(each[0, 11, 0] - each[0, 11, 20]), 3) for each in found}
    assert len(turned) > 10
    assert min(turned) < 0 < max(turned)


def test_a_stretched_image_is_larger_or_smaller_by_no_more_than_the_share():
    """A square of 20 points in 60: its area is between those of 0.8 and 1.2 times its side, and on both sides of it."""
    torch.manual_seed(0)
    square = torch.zeros(40, 1, 60, 60)
    square[:, :, 20:40, 20:40] = 1.0
    sides = augmentation(0, flip=False, cutout=0, stretch=0.2)(square).sum(dim=(1, 2, 3)).sqrt()
    assert 15.9 < sides.min() < 18
    assert 22 < sides.max() < 24.1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"turn": -1.0}, "expected turn to be a finite number of at least 0"), ({"stretch": 1.0}, "expected stretch")],
    ids=str,
)
def test_turns_and_stretches_are_checked(wrong, message):
    """A negative turn, and an image that shrinks to nothing."""
    with pytest.raises(InputError, match=message):
        augmentation(2, **wrong)
