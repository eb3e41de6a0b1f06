"""docs/papers.md: complete, made of data, and about things that exist; and figures that guides quote."""

import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from labeldp.release.jobs.mechanisms import table_mechanisms

ROOT = Path(__file__).parents[1]
LOADER = importlib.machinery.SourceFileLoader("papers_script", str(ROOT / "scripts" / "papers"))
SCRIPT = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
sys.modules[LOADER.name] = SCRIPT  # where dataclasses look for their module
LOADER.exec_module(SCRIPT)
PAPERS = SCRIPT.data()
ITEMS = [(paper["name"], item, row) for paper in PAPERS["paper"] for item, row in paper["items"].items()]
#: Kinds of items that state something, which share one counter in some papers.
STATEMENTS = {"theorem", "lemma", "corollary", "proposition", "observation", "fact", "assumption", "definition"}
#: A number, and a decimal that is no part of a name, a version or code.
NUMBER, DECIMAL = re.compile(r"(?<![\d.])\d+(?:\.\d+)?"), re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")


def test_the_page_is_what_the_data_say(capsys):
    """The page and the lines of guides are those that scripts/papers writes."""
    assert SCRIPT.main(["--check"]) == 0, capsys.readouterr().err


def expanded(numbers):
    """The items that a range names, as pairs of a kind and a number; of no kind where there is only a number."""
    for each in numbers:
        *kind, ends = each.split()
        first, last = ends.split("-")
        section, dot, start = first.rpartition(".")
        for number in range(int(start), int(last.rpartition(".")[2]) + 1):
            yield (*kind, f"{section}{dot}{number}")


@pytest.mark.parametrize("paper", PAPERS["paper"], ids=lambda paper: paper["name"])
def test_every_item_of_a_paper_has_a_row(paper):
    """The numbered items of the papers are the rows, no more and no less."""
    listed = set(expanded(paper["numbers"]))
    counted_alone = {kind for kind, *rest in listed if rest}
    rows = [tuple(item.split()) for item in paper["items"]]
    found = {(kind, number) if kind in counted_alone else (number,) for kind, number in rows}
    assert found == listed
    assert len(found) == len(rows)


def public(name, listed):
    """Whether the reference lists a name, or the class that it is an attribute of."""
    *path, last = name.split(".")
    package = ".".join(["labeldp", *path])
    return last in listed.get(package, ()) or (bool(path) and path[0][0].isupper() and path[0] in listed["labeldp"])


def reference():
    """The names that docs/reference.md lists for each package."""
    text = (ROOT / "docs" / "reference.md").read_text("utf-8")
    sections = re.split(r"^## `([\w.]+)`\n", text, flags=re.MULTILINE)[1:]
    return {
        sections[at]: re.findall(r"^\| `(\w+)` \|", sections[at + 1], re.MULTILINE) for at in range(0, len(sections), 2)
    }


def test_what_rows_name_exists():
    """Public names are in the reference, tests and experiments are there, and commands take their options."""
    listed, wrong = reference(), []
    mechanisms = set(table_mechanisms())
    for paper, item, (names, commands, tests, experiments, _) in ITEMS:
        wrong += [(paper, item, name) for name in names if not public(name, listed)]
        wrong += [(paper, item, name) for name in experiments if not (ROOT / "experiments" / f"{name}.md").exists()]
        wrong += [(paper, item, test) for test in tests if not is_test(test)]
        wrong += [(paper, item, command) for command in commands if not is_command(command, mechanisms)]
    wrong += [each for each in PAPERS["erratum"] if "test" in each and not is_test(each["test"])]
    assert not wrong


def is_test(name):
    """Whether there is a test, or a file of tests."""
    file, _, function = name.partition("::")
    path = ROOT / "tests" / file
    return path.exists() and (not function or f"\ndef {function}(" in path.read_text("utf-8"))


def is_command(text, mechanisms):
    """Whether there is a command with an option and a mechanism of that name."""
    command, *options = text.split()
    source = ROOT / "src" / "labeldp" / "cli" / f"_{command}.py"
    if not source.exists():
        return False
    if options[:1] == ["--mechanism"]:
        return options[1] in mechanisms
    return all(re.search(rf"\b{option.removeprefix('--')}:", source.read_text("utf-8")) for option in options)


def test_no_statement_is_without_a_public_name():
    """Every statement, algorithm, mechanism, table and figure has a public name, or says why it has none."""
    assert not [(paper, item) for paper, item, (names, *_, remark) in ITEMS if not names and not remark]
    assert not [
        (paper, item) for paper, item, (names, _, tests, *_) in ITEMS if names and not tests and "figure" not in item
    ]


def test_every_printed_table_of_accuracies_has_its_figures():
    """Each printed method has a figure, or none, for each value of the table; ours are of results files."""
    for block in PAPERS["printed"]:
        methods = {**block["methods"], **block.get("others", {})}
        assert {len(values) for values in methods.values()} == {len(block["at"])}, block["item"]
        assert SCRIPT.Figures.of(block).lines()
    printed = {(block["paper"], block["item"]) for block in PAPERS["printed"]}
    assert {("Ghazi 2021", f"table {number}") for number in range(1, 6)} <= printed


def test_a_verdict_goes_by_the_deviation_of_draws():
    """Better by more than two deviations is above, within them level; one draw is never level."""
    three, one = SCRIPT.Cell(90.0, 0.5, 3), SCRIPT.Cell(90.0, float("nan"), 1)
    block = {"at": [1.0], "methods": {}}
    seen = [
        SCRIPT.Figures(block, {"a": {1.0: cell}}).verdict(1.0, x) for cell in (three, one) for x in (88.9, 89.1, 91.1)
    ]
    assert seen == ["above", "level", "below", "above", "above", "below"]
    lower = SCRIPT.Figures(block | {"lower": True}, {"a": {1.0: three}, "b": {1.0: SCRIPT.Cell(80.0, 0.5, 3)}})
    assert (lower.verdict(1.0, 85.0), lower.verdict(2.0, 85.0), lower.verdict(1.0, float("nan"))) == (
        "above",
        "not run",
        "",
    )


def quoting():
    """Paragraphs of guides that name experiments, with the tables below them, and these experiments."""
    experiments = {path.stem for path in (ROOT / "experiments").glob("*.md")} - {"README"}
    for path in (ROOT / "README.md", ROOT / "docs" / "bounds.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))):
        paragraphs = re.split(r"\n\s*\n", path.read_text("utf-8"))
        for place, text in enumerate(paragraphs):
            named = set(re.findall(r"experiments[/ ](?:results/)?(\w+)", text)) & experiments
            below = paragraphs[place + 1] if place + 1 < len(paragraphs) else ""
            if named:
                yield path, named, text + (f"\n{below}" if below.startswith("|") else "")


def rounds_to(figure, numbers):
    """Whether one of the numbers is a figure, as exactly as that is written."""
    digits = len(figure.partition(".")[2])
    return any(f"{number:.{digits}f}" == figure for number in numbers)


def test_figures_that_guides_quote_are_in_results_files():
    """Every decimal beside the name of an experiment is in the results page of one that is named there."""
    checked, wrong = 0, []
    for path, named, text in quoting():
        pages = [ROOT / "experiments" / "results" / f"{name}.md" for name in sorted(named)]
        results = {float(each) for page in pages if page.exists() for each in NUMBER.findall(page.read_text("utf-8"))}
        figures = DECIMAL.findall(re.sub(r"`[^`]*`", "", text))
        checked += len(figures)
        missing = [each for each in figures if not rounds_to(each, results)]
        wrong += [(path.name, *sorted(named), each) for each in missing]
    assert not wrong
    assert checked > 40
