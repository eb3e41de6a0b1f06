"""What slow.toml says is about tests that exist."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TABLE = tomllib.loads(Path(__file__).with_name("slow.toml").read_text(encoding="utf-8"))
ENTRIES = [{"name": name} for name in TABLE["whole"]] + TABLE["test"]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"].partition("::")[2])
def test_an_entry_names_a_test(entry):
    """A test that is renamed takes its entry along, and says which cases are kept or which are slow, not both."""
    assert set(entry) in ({"name"}, {"name", "kept"}, {"name", "slow"})
    file, _, name = entry["name"].partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_an_entry_is_there_once():
    """A second entry would take the place of the first."""
    assert len({entry["name"] for entry in ENTRIES}) == len(ENTRIES)
