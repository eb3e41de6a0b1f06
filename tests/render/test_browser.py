"""Pages in a real browser, Debian's Chromium: accessible, alone, quiet, usable without a mouse and without scripts.

``python tests/render/test_browser.py docs/images/report.png`` takes the picture of the guide.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, Curator, Guarantee, Interval, LaplaceResponse, RandomizedResponse
from labeldp._strict_json import plain
from labeldp.bounds import Conventions, UnitSizes, forecast
from labeldp.cli import main
from labeldp.learning.tables._scores import class_scores, number_scores
from labeldp.release import folder
from labeldp.render import html_of, save_figure
from labeldp.results import (
    Choosing,
    Evaluated,
    Page,
    Part,
    Planned,
    ledger_part,
    plan_chart,
    plan_part,
    release_part,
    result_part,
)
from labeldp.results import _blocks as blocks

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/command"
CHROMIUM = shutil.which("chromium")
HOSTILE = "</script><img src=//example.org/x onerror=alert(1)>\u202e שלום {{ 7 }} '\""


@pytest.fixture(scope="module")
def browser():
    """A browser without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="it drives the browser")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def hostile():
    """A page with a hostile text in every place, and a table and a certificate of it."""
    section = blocks.Section(
        HOSTILE,
        (
            blocks.Prose(HOSTILE, "heed"),
            blocks.Terms(((HOSTILE, HOSTILE),)),
            blocks.Points((HOSTILE,)),
            blocks.Checks(((HOSTILE, False, HOSTILE), (HOSTILE, True, ""))),
            blocks.Grid(HOSTILE, (HOSTILE, "n"), ((HOSTILE, "1"),), frozenset({1})),
            blocks.Choice(
                blocks.Grid(HOSTILE, (HOSTILE, "n"), (("1", HOSTILE), (HOSTILE, "2"))),
                0,
                (blocks.Target(HOSTILE, (1.0, 2.0), at_most=True, largest=True),),
                HOSTILE,
                f"labeldp EPSILON {shlex.quote(HOSTILE)}",
            ),
            blocks.Signatures((HOSTILE,), filled=HOSTILE),
            blocks.CertificateText(HOSTILE),
        ),
    )
    return Page((Part(HOSTILE, HOSTILE, "bad", (HOSTILE,), ((HOSTILE, HOSTILE),), (section,), private=True),))


def page_of_folder(path):
    """The part of a release."""
    return release_part(path, folder.verify(path))


def scores_page(place, name, rows):
    """The page of a model's scores on released labels, of many rows or of few."""
    random = np.random.default_rng(1)
    space, stated = Classes(["no", "yes", "perhaps"]), random.dirichlet([0.5] * 3, rows)
    labels = [space.points[random.choice(3, p=each)] for each in stated]
    found = class_scores(Curator(labels, space).randomize(RandomizedResponse(space, 2.0)), stated)
    path = place / f"{name}.json"
    path.write_text(json.dumps(plain(Evaluated.of(found, "released labels", space))), encoding="utf-8")
    return Page((result_part(path),))


def numbers_page(place):
    """The page of a regressor's scores on released labels, in thousands."""
    random, space = np.random.default_rng(1), Interval(0, 200_000, 1000)
    predicted = random.uniform(20_000, 180_000, 4000)
    labels = np.rint(random.normal(predicted, 10_000).clip(0, 200_000) / 1000) * 1000
    found = number_scores(Curator(labels, space).randomize(LaplaceResponse(space, 2.0)), predicted)
    path = place / "numbers.json"
    path.write_text(json.dumps(plain(Evaluated.of(found, "released labels", space))), encoding="utf-8")
    return Page((result_part(path),))


def choice_page():
    """The page of a plan to choose an epsilon on, after a release at epsilon 0.5."""
    plane, epsilons = Conventions(dimension=4), (0.5, 1.0, 2.0, 4.0)
    plan = Planned.of(forecast(Classes(["no", "yes"]), 5000, 1.0, conventions=plane, epsilons=epsilons))
    choosing = Choosing(plan.over_epsilon, Guarantee(0.5), "labeldp release t.csv --epsilon EPSILON --output shared")
    return Page((plan_part(plan, choosing),))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Pages on disk, by name."""
    place = tmp_path_factory.mktemp("pages")
    broken = place / "broken"
    shutil.copytree(GOLDEN / "auto", broken)
    (broken / "more.txt").write_text("?", encoding="utf-8")
    parts = {name: page_of_folder(GOLDEN / name) for name in ("auto", "noisy-histogram", "auto-numbers-of-units")}
    scores = {name: scores_page(place, name, rows) for name, rows in {"scores": 4000, "noise": 40}.items()}
    pages = {
        **scores,
        "numbers": numbers_page(place),
        "choice": choice_page(),
        **{name: Page((part,)) for name, part in parts.items()},
        "broken": Page((page_of_folder(broken),)),
        "dossier": Page((*parts.values(), page_of_folder(broken), ledger_part("t", [], [])), "Dossier of 5 parts"),
        "hostile": hostile(),
    }
    for name, page in pages.items():
        (place / f"{name}.html").write_text(html_of(page), encoding="utf-8")
    return place


NAMES = (
    "scores",
    "noise",
    "numbers",
    "choice",
    "auto",
    "noisy-histogram",
    "auto-numbers-of-units",
    "broken",
    "dossier",
    "hostile",
)


@pytest.fixture
def opened(browser, written):
    """A page that is open; at the end it has asked for nothing but itself, and said nothing."""
    contexts, requests, said = [], [], []

    def opening(name, path=None, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda problem: said.append(str(problem)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        requests.clear()
        page.goto((path or written / f"{name}.html").as_uri())
        return page

    yield opening
    assert len(requests) == 1, requests
    assert said == []
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_pages_are_accessible(opened, name, scheme):
    """axe-core finds no violation, and enough to look at; on the narrowest screen nothing is cut off."""
    axe = pytest.importorskip("axe_core_python", reason="it ships axe-core")
    page = opened(name, color_scheme=scheme, viewport={"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    ends = "[...document.querySelectorAll('svg text')].map((each) => each.getBoundingClientRect())"
    assert page.evaluate(f"{ends}.filter((each) => each.right > innerWidth || each.left < 0).length") == 0
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    page.evaluate(files(axe).joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    assert [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found["violations"]] == []
    assert len(found["passes"]) > 10


@pytest.mark.parametrize("classes", [2, 10])
def test_a_figure_alone_cuts_no_words(opened, tmp_path, classes):
    """A plan of privacy units as a picture of its own: all its words are inside it."""
    sizes = UnitSizes((1, 4), (1_000, 4_000))
    planned = forecast(Classes(range(classes)), 5_000, 1.0, conventions=Conventions(dimension=4), units=sizes)
    page = opened("figure", save_figure(plan_chart(planned), tmp_path / "plan.svg"))
    width = page.evaluate("document.documentElement.viewBox.baseVal.width")
    box = "(each) => [each.textContent, each.getBBox().x, each.getBBox().width]"
    found = page.evaluate(f"[...document.querySelectorAll('text')].map({box})")
    assert len(found) > 5
    assert [text for text, start, wide in found if start < 0 or start + wide > width] == []


@pytest.fixture(scope="module")
def site():
    """The built site; what has not changed is not built again."""
    pytest.importorskip("sphinx", reason="it builds the site")
    subprocess.run([ROOT / "scripts/docs"], check=True)
    return ROOT / "build/docs/html"


@pytest.mark.timeout(7200)  # 240 pages, of which large ones take half a minute
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_site_is_accessible(browser, site, scheme):
    """axe-core finds no violation on any page of the site, and none scrolls sideways on a telephone of 390 pixels."""
    axe = pytest.importorskip("axe_core_python", reason="it ships axe-core")
    script = files(axe).joinpath("axe.min.js").read_text(encoding="utf-8")
    page, wrong = browser.new_page(color_scheme=scheme, viewport={"width": 390, "height": 844}), {}
    pages = sorted(site.rglob("*.html"))
    for path in pages:
        page.goto(path.as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth")
        page.evaluate(script)
        found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        problems = [(each["id"], each["nodes"][0]["html"][:200]) for each in found]
        if problems or wide > 390:
            wrong[str(path.relative_to(site))] = (wide, problems)
    page.close()
    assert len(pages) > 200
    assert wrong == {}


def test_the_page_works_by_keyboard_alone(opened):
    """The slider is reached and moved, the certificate is opened, and the odds are those of the table."""
    page = opened("auto")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "range":
            break
    assert page.inner_text(".odds .before") == "30"
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    assert (page.inner_text(".odds .before"), page.inner_text(".odds .most")) == ("50", "73.2")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    assert not page.is_visible("pre")
    page.keyboard.press("Enter")
    assert page.is_visible("pre")
    text = (GOLDEN / "auto/certificate.json").read_text(encoding="utf-8")
    assert json.loads(page.inner_text("pre")) == json.loads(text)


#: What a belief can become by the release that is chosen, and by all together.
BY_IT = "what everything else makes 10 % sure becomes at most"
BY_ALL = "what everything else, without earlier releases, makes 10 % sure becomes at most, by all releases"


def cells_of(page):
    """What the page says of the chosen epsilon, by the names of the rows."""
    rows = page.locator(".chosen .terms > div").all()
    return {row.locator("dt").text_content(): row.locator("dd").text_content() for row in rows}


def test_an_epsilon_is_chosen_by_keyboard_alone(opened):
    """The slider is moved by arrows and by targets that are typed; figures, command and decision follow."""
    page = opened("choice")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "range":
            break
    assert (cells_of(page)["epsilon"], cells_of(page)[BY_IT]) == ("1", "23.2 %")
    page.keyboard.press("ArrowRight")
    chosen = cells_of(page)
    assert (chosen["epsilon"], chosen[BY_IT]) == ("2", "45.1 %")
    assert (chosen["epsilon of all releases together"], chosen[BY_ALL]) == (
        "2.5",
        "57.6 %",
    )
    assert "--epsilon 2 --output shared" in page.inner_text(".command")
    assert page.inner_text(".filled") == "2"
    assert page.get_attribute(".slide", "aria-valuetext") == "2"
    page.keyboard.press("Tab")
    page.keyboard.type("40")  # percent, by all releases: 1 + 0.5 gives 33.3, and 2 + 0.5 gives 57.6
    assert (page.inner_text(".sought"), page.inner_text(".filled")) == ("Epsilon 1.", "1")
    page.keyboard.press("Tab")
    page.keyboard.type("0")
    assert page.inner_text(".sought") == "No epsilon of this page reaches that."
    assert page.inner_text(".filled") == "1"
    page.keyboard.press("Tab")  # past the command, which is a place to scroll in
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "copy"
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('.copying span').textContent")
    assert page.evaluate("getSelection().toString()") == page.inner_text(".command")


def test_an_epsilon_is_chosen_without_scripts(opened):
    """The table of every epsilon is open, with the command for the first one; nothing waits for a script."""
    page = opened("choice", java_script_enabled=False)
    assert "57.6 %" in page.inner_text(".choice table")
    assert "--epsilon 1 --output shared" in page.inner_text(".command")
    assert not page.is_visible(".slide")
    assert not page.is_visible(".copy")


def test_a_choice_is_printed_with_room_to_sign(opened):
    """With its figures, its command and its table, and without what only a screen has."""
    page = opened("choice", color_scheme="dark")
    page.locator(".slide").press("ArrowRight")
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    page.emulate_media(media="print")
    assert not any(page.is_visible(name) for name in (".slide", ".target", ".copy"))
    assert cells_of(page)["epsilon"] == page.inner_text(".filled") == "2"
    assert page.is_visible(".choice table")
    assert page.locator(".signatures dd").last.bounding_box()["height"] > 40


def test_the_certificate_is_checked_in_the_browser(opened):
    """A certificate that holds is said to hold."""
    assert "epsilon 1 follows from the integers" in opened("auto").inner_text(".recheck")


def test_a_forged_certificate_is_refused_in_the_browser(opened, tmp_path):
    """In red, with what is wrong."""
    text = (GOLDEN / "auto/certificate.json").read_text(encoding="utf-8").replace('"epsilon": 1.0', '"epsilon": 0.5')
    part = Part("t", "r", sections=(blocks.Section("s", (blocks.CertificateText(text),)),))
    path = tmp_path / "forged.html"
    path.write_text(html_of(Page((part,))), encoding="utf-8")
    page = opened("forged", path)
    assert "does not hold" in page.inner_text(".recheck.bad")
    assert "expected epsilon 1 and delta 0, found another" in page.inner_text(".recheck.bad")


def test_nothing_of_a_hostile_text_runs(opened):
    """No element of it is there, and what was to run did not."""
    page = opened("hostile")
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    assert "does not hold" in page.inner_text(".recheck.bad")
    assert "onerror=alert(1)" in page.inner_text("h1")


def test_a_page_without_scripts_says_the_same(opened):
    """The table of odds is there, and what needs scripts is not."""
    page = opened("auto", java_script_enabled=False)
    assert "73.2 %" in page.inner_text("table >> nth=0")
    assert not page.is_visible(".odds")
    assert not page.is_visible(".recheck")


def test_a_page_prints_to_a_tagged_pdf(opened):
    """With its structure for screen readers, on few pages, light also where the screen is dark."""
    page = opened("auto", color_scheme="dark")
    content = page.pdf(tagged=True, prefer_css_page_size=True)
    assert content.startswith(b"%PDF")
    assert b"/StructTreeRoot" in content
    assert 2 <= content.count(b"/Type /Page\n") <= 8
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.is_visible(".odds")
    assert "The certificate is not printed" in page.inner_text(".printed")
    page.emulate_media(media="screen")
    assert not page.is_visible(".printed")


@pytest.mark.parametrize("scripts", [True, False])
def test_what_is_folded_is_printed(opened, scripts):
    """A section for learners is closed on a screen and open on paper, with scripts and without."""
    page = opened("auto", java_script_enabled=scripts)
    told = page.locator(".folded p", has_text="Learning from it")
    assert not told.is_visible()
    page.pdf()  # before it prints, a script opens what is folded
    page.emulate_media(media="print")
    assert told.bounding_box()["height"] > 0
    assert page.locator(".folded h2").bounding_box()["height"] > 0


@pytest.mark.parametrize("name", NAMES)
def test_letters_of_charts_are_legible_on_a_phone(opened, name):
    """On a screen of 390 pixels no letter of a drawing is smaller than those of its caption by a quarter."""
    page = opened(name, viewport={"width": 390, "height": 800})
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg text')].map("
        "(each) => parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().a)"
    )
    assert all(size >= 0.75 * 15 for size in sizes)


def test_many_classes_and_right_to_left_names_are_laid_out(opened, tmp_path):
    """Ten thousand classes in Hebrew: the first are named, names keep their direction, and sentences theirs."""
    names = [f"מחלה {number}" for number in range(10_000)]
    space = Classes(names)
    release = Curator([names[7]] * 50, space, name="אבחנה").randomize(RandomizedResponse(space, 2.0))
    shared = release.save(tmp_path / "shared", pd.DataFrame({"גיל": np.arange(50)}), keep="all")
    path = tmp_path / "page.html"
    path.write_text(html_of(Page((page_of_folder(shared),))), encoding="utf-8")
    page = opened("many", path)
    assert "and 9,980 more" in page.inner_text("main")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("innerWidth")
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).direction") == "ltr"
    assert f"epsilon {release.guarantee.epsilon} follows from the integers" in page.inner_text(".recheck")


def test_a_page_of_many_rows_takes_little_more_than_their_verification(tmp_path):
    """Two million rows: at most twice the time of the processor that verification takes, and two seconds."""
    space = Classes(["a", "b", "c"])
    labels = np.array(["a", "b", "c"])[np.arange(2_000_000) % 3]
    release = Curator(labels, space).randomize(RandomizedResponse(space, 1.0))
    shared = release.save(tmp_path / "shared", pd.DataFrame({"age": np.arange(len(labels)) % 90}), keep="all")
    before = time.process_time()
    verdict = folder.verify(shared)
    verified = time.process_time() - before
    html_of(Page((release_part(shared, verdict),)))
    assert time.process_time() - before - verified < 2 * verified + 2.0


def picture(target):
    """Take the picture of the guide: the head of the page of the sample release."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (where it is not installed, tests are skipped)

    with tempfile.TemporaryDirectory() as place, sync_playwright() as play:
        table, shared, page = (os.path.join(place, name) for name in ("patients.csv", "shared", "report.html"))
        declared = ("--label", "diagnosis", "--classes", "none,heart disease", "--epsilon", "1", "--unit", "patient_id")
        for command in (
            ("demo", place),
            ("release", table, *declared, "--drop", "postcode", "--output", shared),
            ("report", shared, "--output", page),
        ):
            assert main(command) == 0
        opened = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        view = opened.new_page(viewport={"width": 860, "height": 1180})
        view.goto(Path(page).as_uri())
        view.screenshot(path=target)
        opened.close()


if __name__ == "__main__":
    picture(sys.argv[1])
