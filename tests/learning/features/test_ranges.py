"""Values that a model has seen, beyond which it does not extrapolate."""

import numpy as np
import pandas as pd
import pytest

from labeldp.learning.features import OutsideRangeWarning, SeenRanges


def seen():
    """The ranges of a frame with numbers, gaps, months and names."""
    frame = pd.DataFrame(
        {"day": [10.0, np.nan, 30.0], "empty": [np.nan] * 3, "day month": ["1", "1", "2"], "city": ["a", "b", None]}
    )
    return SeenRanges.of(frame.astype({"day month": object}), ["day month"])


def test_values_stay_within_what_was_seen():
    """Numbers are cut to their range, months become the most common one, and gaps and other columns stay."""
    later = pd.DataFrame(
        {"day": [5.0, 20.0, 99.0, np.nan], "empty": [1.0] * 4, "day month": ["3", "2", None, "1"], "city": list("abcd")}
    )
    found = seen().within(later)
    np.testing.assert_array_equal(found["day"], [10.0, 20.0, 30.0, np.nan])
    assert found["day month"].tolist()[:2] == ["1", "2"]
    assert pd.isna(found["day month"][2])
    assert found["city"].tolist() == list("abcd")
    assert found["empty"].tolist() == [1.0] * 4


def test_many_rows_beyond_are_told_with_their_number():
    """A warning names the columns and the rows; a few rows beyond the ends are no reason for one."""
    many = pd.DataFrame({"day": np.arange(100.0), "empty": 0.0, "day month": "1"})
    with pytest.warns(OutsideRangeWarning, match=r"100 rows .* 'day' \(79\)"):
        seen().within(many)
    few = pd.DataFrame({"day": np.where(np.arange(100) < 5, 0.0, 20.0), "empty": 0.0, "day month": "1"})
    assert seen().within(few)["day"].min() == 10.0


def test_ranges_are_kept_as_plain_data():
    """What was written is read, and nothing else is."""
    assert SeenRanges.from_plain(seen().plain()) == seen()
    for odd in ({"day": [2.0, 1.0]}, {"day": []}, {"day": [1.0]}):
        with pytest.raises(ValueError, match=r"ranges|unpack"):
            SeenRanges.from_plain(odd)
