"""Killed at any moment, a release either left and is charged for, or did not leave and is not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ZYGOTE = Path(__file__).with_name("zygote.py")
TRIALS = 300


@pytest.mark.slow
def test_random_kills_leave_a_consistent_state(tmp_path, record_property):
    """After each of 300 kills at a random time, settling leaves an output that is charged for, or neither.

    Every other release writes the hashes of its rows beside the draw. The delays are uniform over 1.2 times the
    median run. That no kill falls before the charge, during the writing or after the end has probability below 1e-6
    each, where each takes at least a twentieth of the run; the short moments between are killed at in
    ``test_ledger.py``, one by one.
    """
    done = subprocess.run(
        [sys.executable, ZYGOTE, tmp_path, str(TRIALS), "5"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    record_property("ends", found["ends"])
    assert found["wrong"] == []
    ends = found["ends"]
    assert sum(ends.values()) == TRIALS
    assert ends.get("before its charge", 0) + ends.get("staged before its charge", 0) >= 1
    assert ends.get("while it wrote", 0) + ends.get("after its charge", 0) >= 1
    assert ends.get("after it was published", 0) + ends.get("after its mark", 0) >= 1
