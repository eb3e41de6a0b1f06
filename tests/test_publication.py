"""What is published: one version, one address, metadata that an index shows, and archives that are complete."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Files with the address that stands in for the project's own until there is one; docs/releasing.md has the rest.
ADDRESSED = {
    ".github/ISSUE_TEMPLATE/config.yml",
    "CITATION.cff",
    "SECURITY.md",
    "docs/releasing.md",
    "js/package.json",
    "packaging/conda/recipe.yaml",
    "pyproject.toml",
    "tests/test_publication.py",
}
#: Texts that state the version, each with what stands around it.
VERSIONED = {
    ".github/actions/verify/action.yml": 'default: "{}"',
    "CITATION.cff": "\nversion: {}\n",
    "js/package.json": '"version": "{}"',
    "packaging/conda/recipe.yaml": 'version: "{}"',
    "CHANGELOG.md": "\n## {}",
}


def committed():
    """The files of the repository; skip where there is none, as in an unpacked archive."""
    try:
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("there is no repository")
    return [name for name in listed.stdout.split("\0") if name]


@pytest.mark.parametrize("file", VERSIONED)
def test_every_file_states_the_version(file):
    """One version: a release that is tagged with another is refused by the workflow."""
    assert VERSIONED[file].format(PROJECT["version"]) in (ROOT / file).read_text(encoding="utf-8")


def test_every_place_of_the_address_is_known():
    """Who registers the project replaces the placeholder in these files and nowhere else."""
    texts = {name: (ROOT / name).read_bytes() for name in committed() if (ROOT / name).is_file()}
    assert {name for name, text in texts.items() if b"labeldp.example" in text} == ADDRESSED
    assert all("labeldp.example" in url for url in PROJECT["urls"].values())


def test_links_of_the_readme_work_on_an_index():
    """An index shows the README alone: in the metadata of the wheel each link is an address."""
    text = metadata.distribution("labeldp").read_text("METADATA")
    links = re.findall(r"\]\((.*?)\)", text)
    assert len(links) > 20
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_all_extras_are_in_one():
    """``labeldp[all]`` brings whatever an extra brings."""
    extras = PROJECT["optional-dependencies"]

    def names(extra):
        inner = {
            name
            for text in extras[extra]
            for part in re.findall(r"^labeldp\[(.*)\]$", text)
            for name in part.split(",")
        }
        return inner.union(*map(names, inner)) if inner else set()

    assert names("all") == set(extras) - {"all"}


def test_what_developers_need_is_no_extra():
    """Users are offered what the package uses; tools of its development are groups."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    assert not set(groups) & set(PROJECT["optional-dependencies"])
    assert not any("pytest" in text for group in PROJECT["optional-dependencies"].values() for text in group)


def test_windows_is_told_about_wsl():
    """A system without the locks that releases need gets a sentence at import, before anything is read."""
    code = "import sys; sys.platform = 'win32'; import labeldp"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: expected Linux or macOS, found Windows" in done.stderr
    assert "WSL" in done.stderr


@pytest.mark.slow
def test_slices_have_a_type(tmp_path):
    """A type checker knows that a slice of a release is a release, as the README's idioms need."""
    snippet = tmp_path / "snippet.py"
    snippet.write_text(
        "from typing import assert_type\n\nimport numpy as np\n\nfrom labeldp import Release\n\n\n"
        "def check(release: Release) -> None:\n"
        "    assert_type(release[:800], Release)\n"
        "    assert_type(release[[1, 2]], Release)\n"
        "    assert_type(release[np.arange(3)], Release)\n"
    )
    checked = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(snippet)]
    done = subprocess.run(checked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_archives_name_no_machine(tmp_path):
    """No file of the wheel or of the source archive has the path of this tree, of a home, or an account."""
    for target in ("wheel", "sdist"):
        build = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(tmp_path)]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    found = {}
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        found |= {f"wheel {name}": wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as source:
        files = [each for each in source.getmembers() if each.isfile()]
        assert {(each.uid, each.gid, each.uname, each.gname) for each in files} == {(0, 0, "", "")}
        found |= {f"source {each.name}": source.extractfile(each).read() for each in files}
    places = [os.fsencode(place) + b"/" for place in (ROOT, Path.home(), tmp_path)]
    assert len(found) > 1000
    assert [name for name, text in found.items() if any(each in text for each in places)] == []


@pytest.mark.slow
def test_the_source_archive_is_complete_and_passes_its_tests(tmp_path):
    """Conda-forge and Debian build from it: all committed files, a compiler, and tests that run."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    source = tmp_path / f"labeldp-{PROJECT['version']}"
    packed = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert packed - set(committed()) == {"PKG-INFO"}
    assert {name for name in committed() if name not in packed} == set()
    subprocess.run([sys.executable, "hatch_build.py"], cwd=source, check=True)
    tests = ["tests/privacy/test_rounding.py", "tests/test_papers.py"]
    run = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "not slow", *tests]
    own = {**os.environ, "PYTHONPATH": str(source / "src")}
    done = subprocess.run(run, cwd=source, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
