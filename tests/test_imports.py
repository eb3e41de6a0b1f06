"""The import contracts of pyproject.toml catch what they are there for."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

#: A line at the end of a file, and the contract that it breaks.
STRAYS = {
    "learning/stages/_priors.py": ("import torch", "PyTorch lives in learning.torch"),
    "learning/metrics/_classes.py": (
        "import sklearn",
        "No scikit-learn in losses, metrics, reports and commands",
    ),
    "learning/losses/_rows.py": ("from labeldp.learning.tables import learn", "Inside learning"),
    "bounds/planning/_plan.py": ("from labeldp.report import plan_text", "Packages: imports go downwards only"),
    "release/_curator.py": ("import secrets", "Only the random words touch entropy"),
    "privacy/_stray.py": ("", "Inside privacy"),  # a file that no layer names
    "audit/attacks/_inference.py": ("from labeldp.audit.mechanisms import audit_channel", "Inside audit"),
}


def test_a_stray_import_breaks_its_contract(tmp_path):
    """Each stray line breaks the contract that forbids it, and no other contract is broken."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, (line, _) in STRAYS.items():
        with (tmp_path / "src" / "labeldp" / name).open("a") as file:
            file.write(f"\n{line}\n")
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    broken = re.findall(r"^(.+) BROKEN$", done.stdout, re.MULTILINE)
    assert sorted(broken) == sorted(contract for _, contract in STRAYS.values())
