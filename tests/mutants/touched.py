"""Which mutants a run takes: those that a change touches and a rotating tenth, unless all of them are asked for.

A mutant is touched where a file that it edits, or a file of its tests, differs from the base, or where its own entry
in the tables does. The base is the environment variable LABELDP_BASE; else the place where the branch left
origin/main; else, on main itself or without a remote, the commit five first parents back. Changes that are not
committed count. The tenth follows from the commit, so that a commit always gets the same. Where a change touches more
than ``MOST``, as a renaming everywhere does, the commit draws ``MOST`` of them: ``scripts/test --all`` says the rest.
"""

from edits import files_of, mutants_in
from tests.commits import base, changed, drawn, git

MOST = 120


def entries_at(commit):
    """The mutants in the tables of a commit."""
    paths = (git("ls-tree", "-r", "--name-only", commit, "tests/mutants") or "").splitlines()
    tables = [git("show", f"{commit}:{path}") for path in paths if path.endswith(".toml")]
    return {mutant for table in tables if table and "[[mutant]]" not in table for mutant in mutants_in(table)}


def touched(mutants, commit):
    """The mutants that differ from a commit in their entry, a file that they edit or a file of their tests."""
    differs, before = changed(commit), entries_at(commit)

    def files(mutant):
        return {f"src/labeldp/{file}" for file in files_of(mutant)} | {test.partition("::")[0] for test in mutant.tests}

    return [mutant for mutant in mutants if files(mutant) & differs or mutant not in before]


def selected(mutants):
    """The touched mutants, or some of them where they are many, and a tenth of all."""
    commit = base()
    found = touched(mutants, commit) if commit else []
    names = {mutant.name for mutant in sorted(found, key=lambda mutant: drawn(mutant.name))[:MOST]}
    return [mutant for mutant in mutants if mutant.name in names or drawn(mutant.name) < 100]
