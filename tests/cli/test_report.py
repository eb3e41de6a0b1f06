"""``labeldp report``: one page of what was verified, and of nothing else."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from base64 import b64encode
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from labeldp.release.folder import Certificate

GOLDEN = Path(__file__).parents[1] / "golden/command"
#: Elements without an end.
VOID = {"meta", "link", "br", "input", "line", "rect", "circle", "polygon", "polyline", "path"}


class Reading(HTMLParser):
    """The elements of a page, with their attributes, and the text of each kind of element."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.open, self.texts = [], [], {}
        self.feed(page)
        self.close()
        assert self.open == [], "an element is not closed"

    def handle_starttag(self, tag, attrs):
        """Note an element."""
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        """Close an element."""
        if tag not in VOID:
            assert self.open.pop() == tag, "elements overlap"

    def handle_data(self, data):
        """Note a text under the elements that it is in."""
        for tag in set(self.open):
            self.texts[tag] = self.texts.get(tag, "") + data


def words(page):
    """The text of a page that people read, without line breaks."""
    body = re.sub(r"<(script|style)>.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def said(text):
    """A text as ``words`` gives it."""
    return " ".join(text.split())


def check_alone(page):
    """A page asks nothing of anybody: its policy names the style and the script by hash, and there is nothing else."""
    read = Reading(page)
    kinds = [tag for tag, _ in read.elements]
    assert (kinds.count("script"), kinds.count("style")) == (1, 1)
    assert not {"link", "img", "iframe", "object", "embed", "form", "base", "image", "use"} & set(kinds)
    for tag, attributes in read.elements:
        assert not {name for name in attributes if name.startswith("on")} | ({"style", "src"} & set(attributes)), tag
        assert attributes.get("href", "#").startswith("#")
    policy = next(a["content"] for _, a in read.elements if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.split(maxsplit=1) for rule in policy.split("; "))
    assert rules.pop("default-src") == rules.pop("base-uri") == rules.pop("form-action") == "'none'"
    for name in ("script", "style"):
        digest = b64encode(hashlib.sha256(read.texts[name].encode()).digest()).decode()
        assert rules.pop(f"{name}-src") == f"'sha256-{digest}'"
    assert rules == {}


@pytest.fixture
def page_of(run, tmp_path):
    """The page of some paths, with the exit code of its command."""

    def paging(*paths, name="page.html", code=0):
        output = tmp_path / name
        output.unlink(missing_ok=True)
        ran = run("report", *paths, "--output", output)
        assert (ran.code, ran.err) == (code, "")
        return output.read_text(encoding="utf-8")

    return paging


@pytest.mark.parametrize("name", ["auto", "noisy-histogram", "stages", "double"])
def test_every_kind_of_release_has_a_page(run, page_of, name):
    """Its guarantee, what it means, what was declared and cannot be known, files and hashes, and the certificate."""
    folder = GOLDEN / name
    page = page_of(folder)
    check_alone(page)
    text = next(folder.glob("*certificate.json")).read_text(encoding="utf-8")
    certificate, shown, body = Certificate.from_json(text), words(page), json.loads(text)
    for expected in (
        certificate.sentence,
        certificate.meaning,
        *certificate.assumptions,
        *certificate.unknown,
        *(file.sha256 for file in certificate.files),
        *(column for column, _ in certificate.columns),
        certificate.label,
        fingerprint := hashlib.sha256(text.encode()).hexdigest(),
    ):
        assert said(expected) in shown
    assert f"fingerprint  {fingerprint} (" in run("verify", folder).out, "a folder and a page can be matched"
    assert json.loads(run("verify", folder, "--json").out)["fingerprint"] == fingerprint
    assert json.loads(Reading(page).texts["pre"]) == body
    assert "Not verified" not in shown
    assert page == page_of(folder, name="again.html"), "the same folder gives the same bytes"


def test_a_folder_that_does_not_verify_is_not_repeated(page_of, tmp_path):
    """The page says that it failed, and where, and nothing that the certificate states."""
    folder = tmp_path / "shared"
    shutil.copytree(GOLDEN / "auto", folder)
    with (folder / "data.parquet").open("ab") as file:
        file.write(b" ")
    page = page_of(folder, code=1)
    check_alone(page)
    shown = words(page)
    assert "Not verified: do not rely on this release" in shown
    assert "expected data.parquet as it was released, found different bytes" in shown
    for stated in ("level", "2.7183", "73.2", "town", "randomized-response", "Each label", "80 rows"):
        assert stated not in shown
    assert {"pre", "svg"}.isdisjoint(tag for tag, _ in Reading(page).elements)


def test_a_page_says_to_whom_it_is_handed_over(page_of):
    """The recipient and the purpose as the holder states them, with places for signatures; else there are none."""
    stated = ("--recipient", "Dr. <b>No</b>", "--purpose", "a study of costs")
    page = page_of(GOLDEN / "auto", *stated)
    check_alone(page)
    shown = words(page)
    assert "Handed over recipient Dr. <b>No</b> purpose a study of costs" in shown
    assert shown.count("Place, date and signature of the") == 2
    assert "signature of the" not in words(page_of(GOLDEN / "auto", name="plain.html"))


def test_several_make_a_dossier_with_their_total(page_of, release, table, tmp_path):
    """Each has its part, and the total of the same label is that of the account; none if one does not verify."""
    for name in ("one", "two"):
        assert release(table, tmp_path / name, budget=2).code == 0
    page = page_of(tmp_path / "one", tmp_path / "two")
    check_alone(page)
    shown = words(page)
    assert "Dossier of 3 parts" in shown
    assert "y: epsilon 2 per row in total." in shown
    kinds = [tag for tag, _ in Reading(page).elements]
    assert (kinds.count("article"), kinds.count("h1"), kinds.count("h2")) == (3, 1, 3)
    assert re.findall(r'id="([^"]+)"', page) == [f"part-{i}" for i in (1, 2, 3)]
    (tmp_path / "two/more.txt").write_text("?", encoding="utf-8")
    shown = words(page_of(tmp_path / "one", tmp_path / "two", code=1))
    assert "Not verified" in shown
    assert "in total" not in shown, "a sum with a part that is not known"


def test_two_months_of_other_people_are_one_label_of_two_sets_of_rows(run, page_of, tmp_path):
    """The page, the ledger and the account say which rows each total is of, and that no person is in two of them."""
    for month, first in (("january", 0), ("february", 20)):
        rows = "".join(f"p{first + row // 2},{10 * first + row},{'ab'[row % 2]}\n" for row in range(40))
        (tmp_path / f"{month}.csv").write_text(f"person,x,y\n{rows}", encoding="utf-8")
        options = f"--label y --classes a,b --unit person --drop person --epsilon 1 --ledger {tmp_path}/l --output"
        assert run("release", tmp_path / f"{month}.csv", *options.split(), tmp_path / month).code == 0
    apart = "By the ledger no person is in two totals of one label: for one person they do not add up."
    shown = words(page_of(tmp_path / "january", tmp_path / "february", tmp_path / "l"))
    assert "2 charges counted, for 1 label, in 2 sets of rows, at most epsilon 1 " in shown
    assert "y 1 1 0 0 by sums january y 1 1 0 0 by sums february " + apart in shown
    text = run("account", tmp_path / "january", tmp_path / "february", tmp_path / "l").out
    for month in ("january", "february"):
        assert f"y: epsilon 1 per person in total, of the rows of {month}." in text
    assert apart in text
    folders = run("account", tmp_path / "january", tmp_path / "february").out
    assert "y: epsilon 2 per person in total.\n" in folders
    assert "of the same rows. If they are not, name the ledger that charged them." in folders
    spent = json.loads(run("ledger", tmp_path / "l", "--json").out)["spent"]
    assert [Path(name).name for each in spent for name in each["outputs"]] == ["january", "february"]


def test_a_page_states_effective_rows_once(page_of, run, tmp_path):
    """The bars have the share that stands above them, rounded alike."""
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{row},{'abc'[row % 3]}\n" for row in range(2155)), "utf-8")
    options = "--label y --classes a,b,c --epsilon 1.0 --unit row --keep x --output"
    assert run("release", tmp_path / "t.csv", *options.split(), tmp_path / "o").code == 0
    shown = words(page_of(tmp_path / "o"))
    rows, part = re.search(r"at most ([\d,]+) of 2,155 \(([\d.]+%)\)", shown).groups()
    assert f"{rows} rows ({part})" in shown


def test_a_ledger_shows_what_was_spent_over_time(page_of, release, table, tmp_path):
    """The total of each label against its budget, a figure of it over time, and every charge."""
    for name, options in {"one": {}, "two": {"budget": 3}}.items():
        assert release(table, tmp_path / name, **options).code == 0
    page = page_of(tmp_path / "t.csv.labeldp-ledger")
    check_alone(page)
    shown = words(page)
    assert "2 charges counted, for 1 label" in shown
    assert "y 2 3 0 0 by sums" in shown
    assert "unit rows state output" in shown
    assert shown.count("row 30 released") == 2, "the rows of each charge"
    figure = next(a["aria-label"] for tag, a in Reading(page).elements if tag == "svg")
    assert figure == "Epsilon spent over time: y: 2 after 2 charges."
    assert str(tmp_path) not in page, "a path of this machine"
    assert page == page_of(table, name="of-table.html"), "a table stands for the ledger beside it"
    assert "zq-secret" not in page


def test_a_folder_of_files_stands_for_its_ledger(page_of, release, table, tmp_path):
    """A table of several files is no release that does not verify."""
    (tmp_path / "parts").mkdir()
    shutil.copy(table, tmp_path / "parts/one.csv")
    assert release(tmp_path / "parts", tmp_path / "shared").code == 0
    shown = words(page_of(tmp_path / "parts"))
    assert "1 charge counted, for 1 label" in shown
    assert "Not verified" not in shown


def test_folders_of_one_name_are_told_apart(page_of, run, tmp_path):
    """By their parents, in a dossier and in its total; a folder that holds releases is refused by their names."""
    for month, name in (("december", "auto"), ("january", "bits")):
        shutil.copytree(GOLDEN / name, tmp_path / month / "shared")
    shown = words(page_of(tmp_path / "december/shared", tmp_path / "january/shared"))
    assert "What december/shared, january/shared cost together." in shown
    refused = run("report", tmp_path / "december", "--output", tmp_path / "none.html")
    assert refused.code == 1
    assert f"found another folder; inside it there are releases: {tmp_path / 'december/shared'}" in refused.err
    assert not (tmp_path / "none.html").exists()


def test_a_signature_is_checked_with_the_key_of_its_maker(page_of, run, release, table, tmp_path):
    """Without a key the page says that it was not checked, with the key that it was, and with another one it fails."""
    for name in ("office", "other"):
        assert run("key", tmp_path / name).code == 0
    assert release(table, tmp_path / "shared", sign=tmp_path / "office").code == 0
    signed = "the certificate is signed with the private key of the given public key"
    for key, code, expected in (
        ((), 0, "the signature was not checked"),
        ("office", 0, f"Holds {signed}"),
        ("other", 1, f"Failed {signed}"),
    ):
        given = ("--public-key", tmp_path / f"{key}.pub") if key else ()
        shown = words(page_of(tmp_path / "shared", *given, code=code))
        assert expected in shown
        assert ("2.7183" in shown) == (code == 0)


@pytest.fixture
def saved(run, tmp_path):
    """The results of commands on a table of invented people and a release of it, saved with ``--json``."""
    table, shared = GOLDEN.parent / "people.csv", tmp_path / "shared"
    shutil.copytree(GOLDEN / "auto", shared)
    commands = {
        "plan": ("--classes", 2, "--rows", 100),
        "audit": (shared,),
        "check": (table, "--label", "level"),
        "attack": (shared, "--truth", table, "--label", "level", "--labels-are-public"),
    }
    for name, arguments in commands.items():
        done = run({"attack": "audit"}.get(name, name), *arguments, "--json")
        assert done.code == 0, done.err
        (tmp_path / f"{name}.json").write_text(done.out, encoding="utf-8")
    return tmp_path


def test_saved_results_have_pages_and_true_labels_stay_with_the_holder(page_of, run, saved, tmp_path):
    """What depends on true labels gets no page under a name to share, alone or beside others, and a banner."""
    for name, expected in {
        "plan": "What privacy would cost",
        "audit": "No claim was refuted",
    }.items():
        page = page_of(saved / f"{name}.json", name=f"{name}.html")
        check_alone(page)
        assert expected in words(page)
        assert "For the holder alone" not in words(page)
        assert "carries no proof" in words(page)
    for paths in (["check.json"], ["attack.json"], ["shared", "check.json"], ["plan.json", "attack.json"]):
        ran = run("report", *(saved / path for path in paths), "--output", tmp_path / "shareable.html")
        assert ran.code == 1
        assert "write shareable.holder.html, and share it with nobody" in ran.err
        assert not (tmp_path / "shareable.html").exists()
        page = page_of(*(saved / path for path in paths), name="shareable.holder.html")
        check_alone(page)
        assert "For the holder alone. This page depends on true labels." in words(page)
    shown = words(page_of(saved / "attack.json", name="attack.holder.html"))
    found = json.loads((saved / "attack.json").read_text(encoding="utf-8"))["measures"]
    for each in found:  # the area of each attacker stands beside its line, and the shares in a table
        assert f"{each['knows']}: {each['classes'][-1]['area']:.2f}" in shown
        assert each["knows"] in shown
    assert "of the tenth that the attacker is surest of, guessed right" in shown
    counts = json.loads((saved / "check.json").read_text(encoding="utf-8"))["label"]["counts"]
    named = [f"{name} {count}" for name, count in counts.items()]
    assert all(text in words(page_of(saved / "check.json", name="c.holder.html")) for text in named)
    assert not any(text in words(page_of(saved / "shared", name="shared.html")) for text in named)


def test_a_saved_result_is_a_strangers_file(run, tmp_path):
    """Other documents, numbers of a wrong kind, deep or large files: one sentence, and no page."""
    text = run("audit", GOLDEN / "auto", "--json").out
    body = json.loads(text)
    hostile = {
        "no JSON": "{",
        "a list": "[]",
        "deep": "[" * 100_000,
        "deep object": '{"a":' * 30 + "1" + "}" * 30,
        "deep beside the result": text.replace("{", '{"more": ' + "[" * 40 + "]" * 40 + ",", 1),
        "another document": "{}",
        "NaN": text.replace('"confidence": 0.999999', '"confidence": NaN'),
        "infinity": text.replace('"confidence": 0.999999', '"confidence": 1e999'),
        "text for a number": json.dumps(body | {"confidence": "high"}),
        "audits of another kind": json.dumps(body | {"audits": [7]}),
        "large": json.dumps(body | {"more": "x" * (1 << 23)}),
        "many digits": json.dumps(body | {"confidence": 10**4000}),
        "a future check": json.dumps({"private": True, "rows": 3}),
    }
    for name, content in hostile.items():
        (tmp_path / "hostile.json").write_text(content, encoding="utf-8")
        ran = run("report", tmp_path / "hostile.json", "--output", tmp_path / "page.html")
        assert ran.code == 1, name
        assert ran.err.startswith("error: expected the result of plan, learn, evaluate, describe, audit"), name
        assert not (tmp_path / "page.html").exists(), name


def test_no_other_command_loads_the_template_engine():
    """Neither the command line nor its verification, which the pages are made from."""
    code = f"from labeldp.cli import main; import sys; main(['verify', {str(GOLDEN / 'auto')!r}]); "
    code += "print({'jinja2', 'markupsafe'} & set(sys.modules) or 'none')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "none"
