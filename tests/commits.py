"""Files that a commit touches, cases that these are near to, and the mutants and cases of tests that it draws."""

import os
import subprocess
import zlib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
BACK = 5


@cache
def git(*words):
    """Output of git, or None where it fails: without a repository, or without what was asked for."""
    try:
        done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return None if done.returncode else done.stdout.strip()


def base():
    """The commit that the work is compared with, or None where nothing is known."""
    if named := os.environ.get("LABELDP_BASE"):
        return git("rev-parse", "--verify", f"{named}^{{commit}}")
    left, head = git("merge-base", "HEAD", "origin/main"), git("rev-parse", "HEAD")
    if left and left != head:
        return left
    back = (git("rev-list", "--first-parent", f"--max-count={BACK + 1}", "HEAD") or "").split()
    return back[-1] if len(back) > 1 else None


def changed(commit):
    """The files that differ from a commit, those that are not committed among them."""
    found = set((git("diff", "--name-only", commit) or "").splitlines()) if commit else set()
    return found | set((git("ls-files", "--others", "--exclude-standard") or "").splitlines())


def tests_of(change):
    """The tests of a changed file: itself, and of the package those of its own folder, or of the nearest one above.

    Tests beside the folders are of all of the package, and so of none of its files.
    """
    inside = Path(change.removeprefix("src/labeldp/")).parents[:-1] if change.startswith("src/labeldp/") else ()
    return next((f"tests/{folder.as_posix()}" for folder in inside if (ROOT / "tests" / folder).is_dir()), change)


def untouched(cases, changes):
    """The cases that no change is near to: to their file, what its folder tests, or what they are named after."""
    near, names = {tests_of(change) for change in changes}, {f"{Path(change).name}]" for change in changes}
    return {
        case
        for case in cases
        if near.isdisjoint({(file := case.partition("::")[0]), Path(file).parent.as_posix()})
        and not case.endswith(tuple(names))
    }


def drawn(name, head=None):
    """A number below 1000 that follows from a name and a commit, which is the present one unless another is given."""
    return zlib.crc32(f"{head or git('rev-parse', 'HEAD')} {name}".encode()) % 1000


def others(names, head=None):
    """The names that a commit does not draw: about two thirds. Of several it always draws one."""
    kept = {name for name in names if drawn(name, head) < 334}
    if len(names) > 1:
        kept.add(min(names, key=lambda name: drawn(name, head)))
    return set(names) - kept
