"""What slow.toml says is about tests that exist."""

import tomllib
from pathlib import Path

from tests import commits

ROOT = Path(__file__).parents[1]
TABLE = tomllib.loads(Path(__file__).with_name("slow.toml").read_text(encoding="utf-8"))
ENTRIES = [{"name": name} for name in (*TABLE["whole"], *TABLE["thirds"])] + TABLE["test"]


def test_an_entry_names_a_test():
    """A test that is renamed or deleted takes its entry along, which says what to keep or what is slow, not both."""
    assert all(set(entry) in ({"name"}, {"name", "kept"}, {"name", "slow"}) for entry in ENTRIES)
    places = [entry["name"].partition("::") for entry in ENTRIES]
    texts = {file: (ROOT / file).read_text(encoding="utf-8") for file, _, _ in places}
    assert [(file, name) for file, _, name in places if f"def {name}(" not in texts[file]] == []


def test_an_entry_is_there_once():
    """A second entry would take the place of the first."""
    entries = [*TABLE["whole"], *(entry["name"] for entry in TABLE["test"])]
    assert len(set(entries)) == len(entries)
    assert len({*TABLE["whole"], *TABLE["thirds"]}) == len(TABLE["whole"]) + len(TABLE["thirds"])


def test_every_case_is_drawn_before_long_and_each_test_at_every_commit():
    """A third of the cases runs at a commit, at least one of a test that has several, and none is left out for long."""
    names = [f"tests/a.py::test_it[{number}]" for number in range(300)]
    commit = [f"{number:040x}" for number in range(60)]
    left = [commits.others(names, head) for head in commit]
    assert all(160 < len(each) < 240 for each in left)
    assert set.intersection(*left) == set()
    assert all(len(commits.others(names[:4], head)) < 4 for head in commit)
    assert {len(commits.others(names[:1], head)) for head in commit} == {0, 1}


def test_what_a_change_is_near_to_runs_whole():
    """Its own file, the nearest folder of tests of a file of the package, and cases that are named after a page."""
    changes = {"src/labeldp/release/curator/_sink.py", "docs/guide/images.md", "tests/cli/test_words.py"}
    changes |= {"src/labeldp/release/folder/_run.py", "src/labeldp/_checks.py"}
    far = {f"tests/{name}::test_it" for name in ("test_golden.py", "release/ledger/test_edits.py", "cli/test_plan.py")}
    near = {f"tests/{name}::test_it[1]" for name in ("release/test_rows.py", "release/folder/test_card.py")}
    near |= {"tests/test_guides.py::test_it[images.md]", "tests/cli/test_words.py::test_it[1]"}
    assert commits.untouched(far | near, changes) == far
