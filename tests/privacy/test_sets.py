"""Packed sets, against sets of Python."""

import numpy as np
import pytest

from labeldp.privacy.channels import members, pack, unpack
from labeldp.privacy.channels._bitsets import sizes


@pytest.mark.parametrize("classes", [1, 2, 7, 8, 9, 16, 17, 300])
def test_packing_comes_back_and_is_in_class_order(classes):
    """Packed bits hold class j in bit j % 8 of byte j // 8, unpack to the same mask, and count alike."""
    mask = np.random.default_rng(classes).random((50, classes)) < 0.4
    packed = pack(mask)
    assert packed.dtype == np.uint8
    assert packed.shape == (50, (classes + 7) // 8)
    for line, row in zip(packed.tolist(), mask, strict=True):
        assert {j for j in range(classes) if line[j // 8] >> (j % 8) & 1} == set(np.flatnonzero(row).tolist())
        assert not any(byte >> bit & 1 for j in range(classes, 8 * len(line)) for byte, bit in [(line[j // 8], j % 8)])
    again = unpack(packed, classes)
    assert again.dtype == np.bool_
    assert (again == mask).all()
    assert (sizes(packed) == mask.sum(axis=1)).all()
    offsets, places = members(packed)
    assert offsets.tolist() == [0, *np.cumsum(mask.sum(axis=1))]
    assert (places == np.nonzero(mask)[1]).all()


def test_no_rows_have_no_sets():
    """Nothing packs to nothing."""
    assert pack(np.zeros((0, 9), dtype=np.bool_)).shape == (0, 2)
    assert [each.tolist() for each in members(np.zeros((0, 2), dtype=np.uint8))] == [[0], []]
    assert unpack(np.zeros((0, 2), dtype=np.uint8), 9).shape == (0, 9)
