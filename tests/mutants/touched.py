"""Which mutants a run takes: those that a change touches and a rotating tenth, unless all of them are asked for.

A mutant is touched where a file that it edits, or a file of its tests, differs from the base, or where its own entry
in the tables does. The base is the environment variable LABELDP_BASE; else the place where the branch left
origin/main; else, on main itself or without a remote, the commit 20 first parents back. Changes that are not
committed count. The tenth follows from the commit, so that a commit always gets the same. Where a change touches more
than ``MOST``, as a renaming everywhere does, the commit draws ``MOST`` of them: ``scripts/test --all`` says the rest.
"""

import os
import subprocess
import zlib
from pathlib import Path

from edits import files_of, mutants_in

ROOT = Path(__file__).parents[2]
MOST = 120
BACK = 20


def git(*words):
    """What git prints, or None where it fails: without a repository, or without what was asked for."""
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


def entries_at(commit):
    """The mutants in the tables of a commit."""
    paths = (git("ls-tree", "-r", "--name-only", commit, "tests/mutants") or "").splitlines()
    tables = [git("show", f"{commit}:{path}") for path in paths if path.endswith(".toml")]
    return {mutant for table in tables if table and "[[mutant]]" not in table for mutant in mutants_in(table)}


def touched(mutants, commit):
    """The mutants that differ from a commit in their entry, a file that they edit or a file of their tests."""
    changed = set((git("diff", "--name-only", commit) or "").splitlines())
    changed |= set((git("ls-files", "--others", "--exclude-standard") or "").splitlines())
    before = entries_at(commit)

    def files(mutant):
        return {f"src/labeldp/{file}" for file in files_of(mutant)} | {test.partition("::")[0] for test in mutant.tests}

    return [mutant for mutant in mutants if files(mutant) & changed or mutant not in before]


def drawn(mutant, head):
    """A number below 1000 that follows from a mutant's name and a commit."""
    return zlib.crc32(f"{head} {mutant.name}".encode()) % 1000


def selected(mutants):
    """The touched mutants, or some of them where they are many, and a tenth of all."""
    head, commit = git("rev-parse", "HEAD"), base()
    found = touched(mutants, commit) if commit else []
    names = {mutant.name for mutant in sorted(found, key=lambda mutant: drawn(mutant, head))[:MOST]}
    return [mutant for mutant in mutants if mutant.name in names or drawn(mutant, head) < 100]
