"""The import contracts of pyproject.toml catch what they are there for."""

import builtins
import dis
import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import labeldp

ROOT = Path(__file__).parent.parent

#: A line at the end of a file, and the contract that it breaks.
STRAYS = {
    "learning/stages/_priors.py": ("import torch", "PyTorch lives in learning.torch"),
    "learning/metrics/_classes.py": (
        "import sklearn",
        "No scikit-learn in losses, metrics, results and commands",
    ),
    "learning/losses/_rows.py": ("from labeldp.learning.tables import learn", "Inside learning"),
    "bounds/planning/_forecast.py": ("from labeldp.results import plan_text", "Packages: imports go downwards only"),
    "release/curator/_curator.py": ("import secrets", "Only the random words touch entropy"),
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
    broken = re.findall(r"^(.+?) BROKEN\b", done.stdout, re.MULTILINE)
    assert sorted(broken) == sorted(contract for _, contract in STRAYS.values())


def test_a_circle_of_imports_and_what_is_too_large_are_found(tmp_path):
    """By the script that prints the structure: an import more closes a circle, and packages, folders and files grow."""
    release = Path("src", "labeldp", "release")  # other packages have floors of their own
    shutil.copytree(ROOT / release, tmp_path / release, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "src" / "labeldp" / "__init__.py", tmp_path / "src" / "labeldp")
    (tmp_path / "tests").mkdir()
    structure = [sys.executable, ROOT / "scripts" / "structure", tmp_path]
    plain = subprocess.run(structure, capture_output=True, text=True, check=True).stdout
    counted = re.search(r"^src: ([\d,]+) lines of code", plain)
    jobs = tmp_path / "src" / "labeldp" / "release" / "jobs" / "__init__.py"
    for number in range(9):
        place = tmp_path / "src" / "labeldp" / "release" / f"_floor{number}.py"
        place.write_text(
            f'"""A floor."""\n\nfrom labeldp.release.{f"_floor{number - 1}" if number else "jobs"} import x\n'
        )
    tall = subprocess.run(structure, capture_output=True, text=True, check=False)
    assert (tall.returncode, "floors in labeldp.release, found" in tall.stderr) == (1, True)
    assert int(re.search(r"^src: ([\d,]+)", tall.stdout)[1].replace(",", "")) == int(counted[1].replace(",", "")) + 9
    crowded = jobs.parent.parent / "ledger"
    for number in range(23):
        (crowded / f"_file{number}.py").write_text("\n" * (551 if number == 7 else 1))
    large = subprocess.run(structure, capture_output=True, text=True, check=False).stderr
    assert re.findall(r"at most (\d+) (files in|lines in) \S+/(ledger|_file7.py), found", large) == [
        ("22", "files in", "ledger"),
        ("550", "lines in", "_file7.py"),
    ]
    jobs.write_text(f"{jobs.read_text()}\n\ndef late():\n    from labeldp.release._floor8 import y\n")
    found = subprocess.run(structure, capture_output=True, text=True, check=False)
    assert (found.returncode, "found labeldp.release" in found.stderr) == (1, True)


def global_names(code):
    """Names that the functions of a compiled module look up as globals."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from global_names(constant)


def test_every_name_is_defined():
    """No function uses a global that its module does not have: linters are blind here, as shapes look like names."""
    undefined = []
    for info in pkgutil.walk_packages(labeldp.__path__, "labeldp."):
        if info.name != "labeldp.__main__":
            module = importlib.import_module(info.name)
            code = compile(Path(module.__file__).read_text(encoding="utf-8"), info.name, "exec")
            undefined += [f"{info.name}: {name}" for name in {*global_names(code)} - {*vars(module), *dir(builtins)}]
    assert undefined == []
