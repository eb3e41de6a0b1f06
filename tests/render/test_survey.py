"""The survey of examples/survey, end to end: people in Chromium, a collector on the loopback address, a release."""

import shutil
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

import pytest

from labeldp import Classes, Declaration, RandomizedResponse, Release, verify
from labeldp.cli import main
from labeldp.release.collection import Collection

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium")
PEOPLE = 8


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that says nothing."""

    def log_message(self, *_):
        """Nothing."""


def free_port():
    """A port that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def survey(tmp_path):
    """The address of the page, and the collection that it reports to."""
    pytest.importorskip("uvicorn", reason="it serves the collector")
    web, box, port = tmp_path / "web", tmp_path / "box", free_port()
    web.mkdir()
    page = (ROOT / "examples/survey/index.html").read_text(encoding="utf-8")
    (web / "index.html").write_text(page.replace('127.0.0.1:8080/"', f'127.0.0.1:{port}/"'), encoding="utf-8")
    shutil.copy(ROOT / "js/labeldp.js", web)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(web)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    how = Declaration("answer", RandomizedResponse(Classes(["no", "yes"]), 1.0), "survey 2026")
    Collection.begin(box, how, {"age": "number"})
    listen = ("--listen", f"127.0.0.1:{port}", "--origin", address)
    process = subprocess.Popen(
        [sys.executable, "-m", "labeldp", "collect", str(box), *listen], stdout=subprocess.DEVNULL
    )
    for _ in range(300):
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.2)
    yield address, box
    process.terminate()
    process.wait(30)
    server.shutdown()
    server.server_close()


def test_a_person_answers_and_the_answer_is_released(survey, tmp_path):
    """The page is accessible, says what can be learned, sends a report once, and what comes out verifies."""
    api = pytest.importorskip("playwright.sync_api", reason="it drives the browser")
    axe = pytest.importorskip("axe_core_python", reason="it ships axe-core")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    address, box = survey
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for person in range(PEOPLE):
            context = browser.new_context(viewport={"width": 320, "height": 700})
            for _ in range(2):  # the second time the page is opened again, and another answer is given
                page = context.new_page()
                page.goto(address)
                page.wait_for_selector("button:enabled")
                assert "at most 73.2 % sure" in page.inner_text("#certainty")
                if person == 0:
                    page.evaluate(files(axe).joinpath("axe.min.js").read_text(encoding="utf-8"))
                    assert [each["id"] for each in page.evaluate("axe.run()")["violations"]] == []
                    assert page.evaluate("document.documentElement.scrollWidth") <= 320
                page.check("input[value=yes]" if person % 2 else "input[value=no]")
                page.fill("input[name=age]", str(20 + person))
                page.click("button")
                page.wait_for_function("document.querySelector('#status').textContent.startsWith('Thank you')")
                said = page.inner_text("#status")
            stored = page.evaluate("JSON.stringify(Object.entries(localStorage))")
            assert f"“{'yes' if 'yes' in said else 'no'}”" in said
            assert '"answer"' not in stored
            context.close()
        browser.close()
    assert len(Collection(box)) == PEOPLE
    out = tmp_path / "out"
    assert main(["collect", str(box), "--close", str(out)]) == 0
    assert verify(out).certificate.declared_by == "survey 2026"
    assert len(Release.load(out)) == PEOPLE
