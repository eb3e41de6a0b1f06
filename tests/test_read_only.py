"""Installs in which nothing can be written: containers, functions in a cloud, executors of a cluster."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import labeldp

#: A namespace of mounts of its own, in which a folder is read-only, even for root, and then a command.
MOUNT = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
CODE = """
import sys
from labeldp import Classes, Curator, NoisyHistogram, SubsetResponse
assert sys.modules["labeldp"].__file__.startswith(sys.argv[1])
space = Classes(range(5))
curator = Curator([0, 1, 2, 3, 4] * 20, space, budget=2.0)
release = curator.randomize(SubsetResponse(space, 1.0))
print(len(release), curator.answer(NoisyHistogram(space, 1.0)).guarantee.epsilon)
"""


def test_labels_are_drawn_where_nothing_can_be_written(tmp_path):
    """In a read-only mount and without a home, labels are drawn and counts are answered."""
    if not shutil.which("unshare") or subprocess.run([*MOUNT, READ_ONLY, tmp_path, "true"], check=False).returncode:
        pytest.skip("this system does not let the test mount a folder")
    ignored = shutil.ignore_patterns("__pycache__", "learning", "audit", "bounds")
    shutil.copytree(Path(labeldp.__file__).parent, tmp_path / "labeldp", ignore=ignored)
    done = subprocess.run(
        [*MOUNT, READ_ONLY, tmp_path, sys.executable, "-c", CODE, tmp_path],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "100 1.0\n"
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc", ".pyc")]
