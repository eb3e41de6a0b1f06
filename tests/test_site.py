"""The site: its pages are complete, are the guides themselves, and are built without a warning."""

import importlib.machinery
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import labeldp
from labeldp.cli import COMMANDS, app

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs/site"))


def _module(name):
    """A module of the site by its file: tests of mutants have modules of the same names."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", ROOT / f"docs/site/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


accessible, architecture, generated, versions = map(_module, ("accessible", "architecture", "generated", "versions"))


_TREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_every_public_name_has_a_place():
    """Pages of names hold each name of ``labeldp`` once, with its docstring."""
    names = [name for package, _, listed in generated.groups() if package == "labeldp" for name in listed]
    assert sorted(names) == sorted(labeldp.__all__)
    pages = "".join(text for _, text in generated.reference_pages())
    assert [name for name in names if not re.search(rf"auto(class|function|data):: labeldp\.{name}\b", pages)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_a_command_has_every_option(name):
    """Each option that the command takes, and its help as text."""
    page, command = generated.command_page(name), typer.main.get_command(app([name]))
    command = getattr(command, "commands", {name: command})[name]
    shown = [each for each in command.params if not getattr(each, "hidden", False) and each.name != "help"]
    assert shown or name == "mechanisms"  # which has none
    for each in shown:
        spelled = each.opts[0] if each.param_type_name == "option" else each.human_readable_name
        assert spelled.casefold() in page.casefold()
        assert generated.plain(each.help) in page


def listed_in(page):
    """The pages that the trees of contents of a page list."""
    lines = (line for text in _TREE.findall(page.read_text("utf-8")) for line in text.split("\n"))
    return {line.rpartition("<")[2].rstrip(">") for line in lines}


def test_every_page_is_in_the_menu():
    """No page of docs, docs/guide and docs/design is left out of the trees of contents."""
    docs = ROOT / "docs"
    for menu, folders in ((docs / "index.md", (docs, docs / "guide")), (docs / "design/index.md", (docs / "design",))):
        pages = {str(path.relative_to(menu.parent).with_suffix("")) for at in folders for path in at.glob("*.md")}
        assert pages - listed_in(menu) == {"index"}


def test_the_architecture_is_drawn_of_the_code():
    """Every package has a box and a line of the table, above all that it imports; ``cli`` is on the highest floor."""
    needs, _ = architecture.packages()
    page, picture = architecture.page()
    folders = {path.parent.name for path in (ROOT / "src/labeldp").glob("*/__init__.py")}
    assert set(needs) == folders | {architecture.GROUND}
    high = architecture.floors(needs)
    assert all(high[name] > high[each] for name, needed in needs.items() for each in needed)
    assert high["cli"] == max(high.values())
    assert all(f">{name}</text>" in picture and f"| `{name}` |" in page for name in needs)


def test_a_day_in_the_code_names_files_that_exist():
    """Each path of the page is a file below ``src/labeldp``."""
    text = (ROOT / "docs/design/a-day.md").read_text(encoding="utf-8")
    paths = re.findall(r"`([\w/]+\.(?:py|c|js))`", text)
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / "src/labeldp" / path).is_file()] == []


def test_the_readme_is_one_screen():
    """All else is in docs/guide; of commands it types three."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    assert len(re.findall(r"^\$ labeldp ", text, re.MULTILINE)) == 3


def test_a_long_sentence_is_noticed():
    """Of prose, also of a list; not of a table, of code, or where a full stop comes in time."""
    loader = importlib.machinery.SourceFileLoader("sentences", str(ROOT / "scripts/sentences"))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("sentences", loader))
    loader.exec_module(script)
    words = "word " * 31
    assert script.long_sentences(f"# A\n\n{words}.\n")
    assert script.long_sentences(f"- One.\n- {words}\n")
    assert not script.long_sentences(f"{'word ' * 30}. {'word ' * 30}.\n\n| {words} |\n\n```text\n{words}\n```\n")
    assert script.main() == 0


def test_pages_are_mended_once():
    """What the theme leaves out is written, and a page that has it stays; the browser says whether that is enough."""
    page = '<aside class="toc-drawer no-toc"><p class="caption" role="heading">A</p></aside><pre>x</pre>'
    page += '<div id="search-results"></div>'
    mended = accessible.mended(page)
    assert mended == (
        '<aside class="toc-drawer no-toc" aria-label="This page"><p class="caption" role="heading" aria-level="2">A</p>'
        '</aside><pre tabindex="0">x</pre><h1>Search</h1><div id="search-results"></div>'
    )
    assert accessible.mended(mended) == mended


def test_sites_of_all_versions_are_listed(tmp_path):
    """The newest first, by its numbers; a site that is built again takes the place of the former."""
    sites = tmp_path / "sites"
    sites.mkdir()
    for version, text in (("0.9.0", "old"), ("0.10.0", "page"), ("0.9.0", "new")):
        built = tmp_path / text
        (built / "docs").mkdir(parents=True)
        (built / "docs/index.html").write_text(text, "utf-8")
        versions.add(built, sites, version)
    listed = re.findall(r'href="([^"]+)"', (sites / "index.html").read_text("utf-8"))
    assert listed == ["0.10.0/docs/index.html", "0.10.0/docs/index.html", "0.9.0/docs/index.html"]
    assert [(sites / each).read_text("utf-8") for each in listed] == ["page", "page", "new"]
    with pytest.raises(SystemExit, match="expected a version"):
        versions.add(built, sites, "../elsewhere")


@pytest.mark.slow
def test_the_site_is_built_without_a_warning():
    """All links lead somewhere, no page is above 1 MiB, and llms.txt lists pages that exist.

    ``tests/test_guides.py`` runs the pages.
    """
    subprocess.run([ROOT / "scripts/docs", "--quick"], check=True)
    built = ROOT / "build/docs/html"
    listed = re.findall(r"\]\((_sources/[^)]+)\)", (built / "llms.txt").read_text("utf-8"))
    assert len(listed) > 100
    assert [name for name in listed if not (built / name).exists()] == []
