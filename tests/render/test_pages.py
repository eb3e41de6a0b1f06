"""Pages: every text is text, whoever wrote it, and the printed odds never promise more than the guarantee."""

import dataclasses
import html
import importlib.util
import itertools
import json
import math
import re
import shutil
import sys
from datetime import UTC, datetime
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labeldp
import labeldp.bounds
from labeldp import Charge, Classes, Curator, Guarantee, RandomizedResponse, verify
from labeldp._checks import printable
from labeldp._strict_json import plain
from labeldp.bounds import plan
from labeldp.bounds.planning import EPSILONS
from labeldp.errors import MissingExtraError, OutputError, VerificationError
from labeldp.privacy.accounting import Composition, RowRanges
from labeldp.release import CombinedGuarantee
from labeldp.release.folder import read_certificate, rows_of_unit_sizes
from labeldp.release.folder._staging import CERTIFICATE
from labeldp.render import html_of, save_figure
from labeldp.results import (
    Curves,
    Page,
    Part,
    Planned,
    account_chart,
    account_part,
    plan_chart,
    release_part,
    result_part,
)
from labeldp.results import _blocks as blocks
from labeldp.results import _charts as charts
from labeldp.results._ledger import by_sums
from labeldp.results._release_page import _odds, _planned, shown_json

HOSTILE = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "</script><script>alert(1)</script>",
            "</style><img src=x onerror=alert(1)>",
            '"><svg onload=alert(1)>',
            "' onmouseover='alert(1)",
            "{{ 7 * 7 }}{% include 'x' %}",
            "</pre></td></main>",
            "&lt;b&gt;&amp;#60;",
            "javascript:alert(1)",
            "\u202eevil\u2066\x00\x1b[2K\ud800",
            "שלום עולם",
            "]]>--><!--",
        ]
    ),
)


class Elements(HTMLParser):
    """The elements of a page with the names of their attributes, and all text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text, self.attributes = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Note an element."""
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.attributes += [value or "" for _, value in attrs]

    def handle_endtag(self, tag):
        """Note the end of an element."""
        self.elements.append((f"/{tag}", ()))

    def handle_data(self, data):
        """Note a text."""
        self.text.append(data)

    def handle_comment(self, data):
        """A page has none."""
        raise AssertionError(data)


def everywhere(text):
    """A page with a text wherever one can stand."""
    section = blocks.Section(
        text or " ",
        (
            blocks.Prose(text),
            blocks.Terms(((text, text),)),
            blocks.Points((text,)),
            blocks.Checks(((text, False, text),)),
            blocks.Grid(text, (text,), ((text,),), frozenset({0}), 3),
            blocks.Picture(charts.Bars(text, [(text, 1.0, text, True)]), text),
            blocks.Picture(charts.Ranges(text, [(text, 0.0, 0.5, 1.0, text)], ((0.0, text), (1.0, text))), text),
            blocks.Picture(charts.Steps(text, [(text, [(0.0, 1.0)])], (text, text)), text),
            blocks.Picture(charts.Odds([(1.0, 0.5, 2.0)], [(1.0, 2.0, text)]), text),
            blocks.Odds(text, ((text, text),)),
            blocks.CertificateText(text),
        ),
    )
    part = Part(text, text, "bad", (text or " ",), ((text, text),), (section,))
    return Page((part, part), text)


@settings(max_examples=25, deadline=None)
@given(HOSTILE)
def test_no_text_becomes_markup(text):
    """With any text in every place a page has the elements that it has with a word, and shows the text as it is."""
    found, expected = Elements(html_of(everywhere(text))), Elements(html_of(everywhere("word")))
    assert found.elements == expected.elements
    assert len(found.attributes) == len(expected.attributes)
    shown = "\n".join(map(printable, text.split("\n")))
    if text.strip() and len(text) < 15:
        assert "".join(found.text).count(shown) >= 2 * 20
    assert not any(letter in "".join(found.text) for letter in "\u202e\u2066\x00\x1b\r")


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | st.sampled_from(
    [
        "<img src=x onerror=alert(1)>",
        "</script>",
        "{{ 7 }}",
        "\u202e\u2066",
        "שלום",
        '" onload="alert(1)',
        "&lt;",
        "a\nb",
    ]
)


@settings(max_examples=8, deadline=None)
@given(st.lists(NAMES, min_size=5, max_size=5, unique=True))
def test_a_release_of_hostile_names_has_the_page_of_any_other(tmp_path_factory, names):
    """Of classes, columns, the label and the unit: the elements are those of plain names, and nothing invisible is."""
    found = [_page_of_names(tmp_path_factory.mktemp("page"), each) for each in (names, ["a", "b", "c", "d", "e"])]
    read, expected = map(Elements, found)
    assert read.elements == expected.elements
    assert not any(letter in "".join(read.text) for letter in "\u202e\u2066\r")


def _page_of_names(place, names):
    """The page of a release whose names are given."""
    one, other, column, label, unit = names
    table = pd.DataFrame({column: [1, 2, 3], unit: [1, 1, 2]})
    space = Classes([one, other])
    curator = Curator([one] * 3, space, name=label, units=table[unit].rename(unit), budget=4.0)
    shared = curator.randomize(RandomizedResponse(space, 1.0)).save(place / "shared", table, keep="all")
    return html_of(Page((release_part(shared, verify(shared)),)))


def part_of_units(place, sizes, unit="patient_id"):
    """The part of a release of units with so many rows each."""
    units = np.repeat(np.arange(len(sizes)), sizes)
    pd.DataFrame({unit: units, "diagnosis": "none"}).to_parquet(place / "t.parquet")
    space, shared = Classes(["none", "flu"]), place / "shared"
    labeldp.release_table(place / "t.parquet", "diagnosis", space, 1.0, shared, keep=[unit], unit=unit)
    return release_part(shared, verify(shared), datetime(2026, 11, 27, 18, 5, tzinfo=UTC))


def test_a_page_begins_with_whom_and_what_it_is_of(tmp_path):
    """People, rows, classes and epsilon in the headline; then the verdict with its time, and one class by its name."""
    part = part_of_units(tmp_path, [1, 2, 2, 3])
    assert part.result == "Released: diagnosis of 4 people in 8 rows (none, flu), at epsilon 1 per patient_id"
    assert part.lead[0].startswith(f"Verified on 2026-11-27 at 18:05 UTC by labeldp {labeldp.__version__}: ")
    assert part.lead[0].endswith("Not signed.")
    assert part.lead[1] == (
        "For example: someone whom everything else makes 50 % sure that diagnosis of a patient_id is “flu” can become "
        "at most 73.2 % sure."
    )
    assert [section.title for section in part.sections if section.folded] == ["For those who learn from it"]
    assert part.sections[-2].folded


def test_an_officer_finds_the_terms_of_the_guide_and_room_to_sign(tmp_path):
    """Privacy unit, trust, and what was spent; earlier releases where the table told, else whom to ask."""
    part = part_of_units(tmp_path, [1, 2, 2, 3])
    assert {"privacy unit", "delta (probability of failure)"} <= dict(part.facts).keys()
    assert "a supply of chance in the computer that nobody can predict" in html_of(Page((part,)))
    promise = next(each for each in part.sections if each.title == "What is promised, and to whom")
    terms = dict(promise.blocks[0].rows)
    assert terms["privacy unit"] == "all rows of one patient_id, of which nobody has more than 3"
    assert terms["trust"].startswith("Who sees true labels? Nobody but the holder of the table")
    assert terms["spent"].startswith("epsilon 1 by this release. Earlier ones: a folder does not hold them. Ask the")
    assert part.sections[-1].blocks == (blocks.Signatures(("Approved by", "Place, date and signature")),)
    space = Classes(["none", "flu"])
    again = labeldp.release_table(
        tmp_path / "t.parquet", "diagnosis", space, 1.0, tmp_path / "2", keep=[], unit="patient_id", budget=2.0
    )
    page = html_of(Page((release_part(again.output, verify(again.output)),)))
    assert "Earlier ones: 8 of 8 rows, or others of their patient_id, were released before; together epsilon 2" in page
    assert "a folder does not hold them" not in page


def test_people_are_counted_where_they_can_be(tmp_path):
    """Other units are named; where sizes of units are rounded, or rows are units, no number is made up."""
    (tmp_path / "wards").mkdir()
    assert "of 4 different ward in 8 rows" in part_of_units(tmp_path / "wards", [1, 2, 2, 3], "ward").result
    assert "of 2,415 rows (" in part_of_units(tmp_path, range(1, 70)).result
    golden = Path(__file__).parents[1] / "golden/command/auto"
    assert re.search(r"of [\d,]+ rows \(", release_part(golden, verify(golden)).result)


@settings(max_examples=10, deadline=None)
@given(HOSTILE)
def test_a_saved_result_of_hostile_texts_is_text(tmp_path_factory, text):
    """In every text of a saved result: the elements of the page are those of plain words."""
    path = tmp_path_factory.mktemp("saved") / "saved.json"
    for document in DOCUMENTS:
        pages = []
        for each in (text or " ", "word"):
            path.write_text(json.dumps(_with_texts(document, each)), encoding="utf-8")
            pages.append(Elements(html_of(Page((result_part(path),)))))
        assert pages[0].elements == pages[1].elements


_CHECK = {"what": "w", "holds": True, "found": "w"}
_AUDIT = {"holds": True, "sentence": "w", "claim": 1.0, "delta": 0.0, "lower": 0.5, "upper": 1.0, "confidence": 1.0}
_AUDIT |= {"visible": None, "draws": 3, "method": "w", "worst": "w", "assumes": "w"}
_SCORE = {"value": 0.8, "error": 0.01, "low": 0.78, "high": 0.82}
_LISTS = {name: [each] * 2 for name, each in _SCORE.items()}
_SCORES = {
    "rows": 100,
    **dict.fromkeys(("log_likelihood", "accuracy", "better", "likelihood_gain", "majority"), _SCORE),
    **dict.fromkeys(("log_loss", "auc", "balanced_accuracy", "log_loss_gain", "recall")),
    "unpredicted": [],
    "predicted": [50, 50],
    "confusion": {name: [[20.0 * each] * 2] * 2 for name, each in _SCORE.items()},
    "calibration": {"predicted": [0.6, 0.9], "frequency": _LISTS, "rows": [50, 50]},
}
_COLUMN = {"name": "w", "kind": "w", "different": 1, "missing": 0, "remarks": ["w"], "identifies": "w"}
_LABEL = {"name": "w", "kind": "w", "counts": {"w": 3}, "missing": 0, "is_number": False, "remarks": ["w"]}
_PLAN = json.loads(json.dumps(plain(Planned.of(labeldp.bounds.plan(2, 100, 1.0))))) | {"unit": "w", "notes": ["w"]}
for _row in (*_PLAN["over_epsilon"], *_PLAN["forecast"]["options"], *itertools.chain(*_PLAN["forecast"]["sweep"])):
    _row["mechanism"] = "w"
_CHECKED = {"private": True, "rows": 3, "unit": "w", "columns": [_COLUMN], "label": _LABEL, "command": "w"}
_CHECKED |= {"people": [], "remarks": ["w"], "notes": ["w"], "earlier": []}
#: Saved results whose every text is "w".
DOCUMENTS = (
    {"holds": True, "audits": [_AUDIT], "confidence": 0.9, "checks": [_CHECK], "cannot_show": ["w"]},
    _PLAN,
    {"judged_by": "w", "classes": ["w", "x"], "scores": _SCORES},
    _CHECKED,
)


def _with_texts(value, text):
    """A document in which another text stands for each "w"."""
    if isinstance(value, dict):
        return {text if name == "w" else name: _with_texts(part, text) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_texts(part, text) for part in value]
    return text if value == "w" else value


def test_an_unknown_name_in_the_template_is_an_error():
    """A block without what its macro shows cannot be drawn as nothing."""

    class Wrong:
        kind = "prose"
        tone = ""

    with pytest.raises(Exception, match="has no attribute 'text'"):
        html_of(Page((Part("t", "r", sections=(blocks.Section("s", (Wrong(),)),)),)))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 0.0), (0.3, 0.0), (1.0, 1e-6), (4.0, 0.0), (40.0, 0.0)])
def test_the_printed_odds_never_promise_more(epsilon, delta):
    """For each prior belief the two limits contain p e / (p e + 1 - p) and p / (p + (1 - p) e), as fractions."""
    (odds,) = [block for block in _odds(Guarantee(epsilon, delta)) if isinstance(block, blocks.Odds)]
    e = Fraction(math.exp(epsilon))
    for percent, (least, most) in enumerate(odds.pairs, 1):
        p = Fraction(percent, 100)
        assert Fraction(most) >= 100 * p * e / (p * e + 1 - p) * (1 - Fraction(1, 10**12))
        assert Fraction(least) <= 100 * p / (p + (1 - p) * e) * (1 + Fraction(1, 10**12))
        assert 0 <= Fraction(least) <= percent <= Fraction(most) <= 100
    assert len(odds.pairs) == 99


def test_mechanisms_are_compared_where_a_plan_can():
    """For rows and for units, by the sizes of units that the release has; not for none, nor at an epsilon of 0."""
    golden = Path(__file__).parents[1] / "golden/command"
    for name in ("auto", "auto-of-units"):
        folder = golden / name
        certificate = read_certificate(folder)
        found = {each.mechanism: each for each in _planned(folder, certificate).options}
        ours = found[certificate.draws[0].mechanism]
        assert ours.most_share == pytest.approx(certificate.expects.clean_share, rel=1e-6)
        for changed in ({"rows": 0}, {"draws": (_costless(certificate.draws[0]),)}):
            assert _planned(folder, dataclasses.replace(certificate, **changed)) is None
    sizes = rows_of_unit_sizes(golden / "auto-of-units", read_certificate(golden / "auto-of-units"))
    groups = pd.read_parquet(golden / "auto-of-units/data.parquet")["level_groups"]
    assert sizes == {1: int((groups == 0).sum()), 2: int((groups == 1).sum())}


def _costless(draw):
    """A charge of nothing."""
    return dataclasses.replace(draw, guarantee=dataclasses.replace(draw.guarantee, epsilon=0.0))


def test_whatever_verifies_has_a_page(tmp_path):
    """Forged certificates that hold, such as those with hostile names or other rows: a page, and no error."""
    spec = importlib.util.spec_from_file_location("labeldp_forgeries", Path(__file__).parents[1] / "forgeries.py")
    forgeries = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(forgeries)
    source, held = Path(__file__).parents[1] / "golden/command/auto-of-units", 0
    shutil.copy(source / "data.parquet", tmp_path)
    body = json.loads((source / "certificate.json").read_text(encoding="utf-8"))
    named = ("label/column", "assumptions", "table/columns", "release")
    texts = [json.dumps(forged) for edit, forged in forgeries.forgeries(body) if edit.startswith(named)]
    for text in [text for text in texts if len(text) < 1 << 16][::5]:
        (tmp_path / "certificate.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        verdict = verify(tmp_path)
        page = html_of(Page((release_part(tmp_path, verdict),)))
        held += verdict.holds
        assert ("Not verified" in page) != verdict.holds
    assert held > 3


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("auto-of-units", "public: a code for how many rows its"),
        ("cluster", "public: the group of rows whose class shares its noise follows"),
        ("prior", "public: the classes that it could be released as"),
        ("groups-uniform", "public: the first class of each group of adjacent classes that it could be released as"),
    ],
)
def test_columns_that_tell_of_the_draw_are_explained(name, meaning):
    """How many rows a person has, which cluster and which candidates are public, and the page says so."""
    folder = Path(__file__).parents[1] / "golden/command" / name
    assert meaning in html.unescape(html_of(Page((release_part(folder, verify(folder)),))))


def test_a_page_shows_what_was_verified(tmp_path):
    """A certificate or an answer that is exchanged after the verdict has no place on the page."""
    curator = Curator(["yes", "no"] * 40, Classes(["no", "yes"]))
    answer = curator.answer(labeldp.NoisyHistogram(Classes(["no", "yes"]), 1.0)).save(tmp_path / "answer")
    verdict = verify(answer)
    (answer / CERTIFICATE).write_text("qxz", encoding="utf-8")
    page = html_of(Page((release_part(answer, verdict),)))
    assert "qxz" not in page
    assert verdict.text in html.unescape(page)
    (file,) = answer.glob("*.parquet")
    pq.write_table(pq.read_table(file).slice(0, 0), file)  # whose reader would fail
    with pytest.raises(VerificationError, match="as it was released, found different bytes"):
        release_part(answer, verdict)


def test_a_certificate_is_shown_as_the_same_values():
    """Plain text stays as it is, byte for byte; letters that command a screen are escaped as JSON has them."""
    plain = json.dumps({"a": "ü שלום"}, indent=2, ensure_ascii=False) + "\n"
    assert shown_json(plain) == plain
    hostile = json.dumps({"a": "\u202e\u2028\x7f"}, indent=2, ensure_ascii=False)
    assert json.loads(shown_json(hostile)) == json.loads(hostile)
    assert shown_json(hostile).replace("\n", "").isprintable()


def test_long_tables_are_cut_and_say_so():
    """The first rows, and how many there are more."""
    grid = blocks.Grid.of("rows", ("a",), [(str(i),) for i in range(1000)])
    assert (len(grid.rows), grid.more) == (blocks.MOST_ROWS, 1000 - blocks.MOST_ROWS)
    points = blocks.Points.of([str(i) for i in range(1000)])
    assert (len(points.items), points.more) == (blocks.MOST_ROWS, 1000 - blocks.MOST_ROWS)
    for block in (grid, points):
        assert "and 800 more" in html_of(Page((Part("t", "r", sections=(blocks.Section("s", (block,)),)),)))


def test_pages_are_values():
    """A part that does not hold makes the page not hold, and a private one makes it private."""
    good = Part("t", "r")
    assert (Page((good, good)).holds, Page((good,)).private) == (True, False)
    assert not Page((good, dataclasses.replace(good, holds=False))).holds
    assert Page((good, dataclasses.replace(good, private=True))).private


# Figures: written in the format that was asked for, with the numbers of what they draw.


STARTS = {"png": b"\x89PNG\r\n", "svg": b"<svg ", "pdf": b"%PDF-"}
LINES = [(f"line {i}", [(0.1, 0.0), (1.0, float(i))]) for i in range(9)]


def accounts(delta=0.0):
    """Charges for labels of awkward names, and some that may fail."""
    charge = Charge(Guarantee(0.5, delta), RowRanges.all(3))
    whole = Composition.of([(charge, None)] * 9)
    return [CombinedGuarantee(label, "row", ("x",), whole, 3, deltas=(1e-6,)) for label in ("_a", "$b", "[red]c^_{")]


CHARTS = {
    "plan": lambda: plan_chart(plan(5, 100, 1.5)),
    "account": lambda: account_chart(accounts()),
    "lines": lambda: Curves("title", ("x", "y"), LINES, logarithmic="x"),
}


def drawn(chart, path):
    """The text of an SVG file without its style sheet."""
    return save_figure(chart, path).read_text(encoding="utf-8").split("</style>")[1]


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("ending", STARTS)
def test_a_figure_is_written(tmp_path, name, ending):
    """PNG, SVG and PDF are what their endings say, and not empty."""
    path = save_figure(CHARTS[name](), tmp_path / f"figure.{ending}")
    assert path == tmp_path / f"figure.{ending}"
    assert path.read_bytes().startswith(STARTS[ending])
    assert path.stat().st_size > 2000


@pytest.mark.parametrize("name", ["figure.txt", "figure", "figure.", "none/figure.png"])
def test_a_figure_that_cannot_be_written(tmp_path, name):
    """Any other ending, none at all, or a missing folder is an OutputError, and no file appears."""
    with pytest.raises(OutputError, match=r"expected .* found|there is no folder"):
        save_figure(CHARTS["lines"](), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_curves_are_the_numbers_of_the_plan():
    """Every point of a curve is an option's share at its epsilon in percent, and every option is a point."""
    found = plan(8, 1000, 1.5)
    lines = dict(plan_chart(found).lines)
    assert set(lines) == {"randomized-response", "subset", "projective", "bits"}
    for line in lines.values():
        assert [epsilon for epsilon, _ in line] == sorted([*EPSILONS, 1.5])
    points = {point for line in lines.values() for point in line}
    options = [option for row in (*found.sweep, found.options) for option in row]
    assert points == {(option.epsilon, 100 * option.share) for option in options}
    for option in found.options:
        assert (1.5, 100 * option.share) in lines[option.mechanism]


def test_no_curve_hides_another():
    """Curves that cannot be told apart are one with both names."""
    names = {name for name, _ in plan_chart(plan(2, 1000, 1.0)).lines}
    assert names == {"randomized-response, subset", "projective", "bits"}


def test_every_curve_is_drawn(tmp_path):
    """An SVG has a line for every mechanism, its name, and all that the chart says."""
    chart = CHARTS["plan"]()
    text = drawn(chart, tmp_path / "figure.svg")
    assert text.count("<polyline") == 2 * len(chart.lines)  # with a sample beside each name
    for name in (*(name for name, _ in chart.lines), "epsilon 1.5", *chart.axes):
        assert re.search(re.escape(name), text)
    assert "5 equally common classes" in (tmp_path / "figure.svg").read_text(encoding="utf-8").split("<style>")[0]


def test_what_has_no_place_is_not_drawn(tmp_path):
    """Numbers below 0 on a logarithmic axis, and those that are not finite, as a stranger's file may have them."""
    lines = [("none", [(0.0, 1.0), (float("inf"), 1.0)]), ("some", [(-1.0, 2.0), (1.0, 1e300), (2.0, 1e-300)])]
    text = drawn(Curves("what", ("x", "y"), lines), tmp_path / "figure.svg")
    assert text.count("<polyline") == 2
    assert "nan" not in text
    assert "nothing to draw" in save_figure(Curves("what", ("x", "y"), lines[:1]), tmp_path / "none.svg").read_text()


def test_every_account_is_drawn(tmp_path):
    """Names that mean something to a plot are shown as they are; what fails has no curve, nothing has no figure."""
    chart = account_chart(accounts())
    names = [name for name, _ in chart.lines]
    assert names == [f"{how}: {name}" for name in ("_a", "$b", "[red]c^_{") for how in ("fixed beforehand", "by sums")]
    assert drawn(chart, tmp_path / "figure.svg").count("<circle") == len(chart.points) > 0
    failing = account_chart(accounts(0.1))
    assert {name.split(":")[0] for name, _ in failing.lines} == {"by sums"}
    assert not failing.points
    tables = [
        block for section in account_part(accounts(0.1)).sections for block in section.blocks if block.kind == "grid"
    ]
    assert [[row[1] for row in table.rows] for table in tables] == [["4.5", "none"]] * 3
    assert account_chart([]) is None


@pytest.mark.parametrize(
    ("delta", "deltas"), [(0.0, [1e-12, 1e-2]), (1e-5, [9e-5, 1e-2]), (0.1, [0.9, 0.9]), (0.2, [])]
)
def test_sums_are_drawn_where_they_hold(delta, deltas):
    """Below the sum of the deltas there is no epsilon by sums; where they add up to one there is none at all."""
    each = accounts(delta)[0]
    assert by_sums(each) == [(pytest.approx(at), 4.5) for at in deltas]
    assert all(at >= each.composition.delta for at, _ in by_sums(each))


def test_points_that_were_asked_for_are_marked():
    """Every delta and epsilon of the table that has both is a mark, and no other is."""
    (each, *_) = accounts()
    each = dataclasses.replace(each, deltas=(1e-9, 1e-6), epsilons=(4.0, 4.5))
    assert account_chart([each]).points == [*each.at_deltas, (each.at_epsilons[0][1], 4.0)]
    assert each.at_epsilons[1] == (4.5, 0.0)  # no place on a logarithmic axis


def test_only_other_formats_need_matplotlib(tmp_path, monkeypatch):
    """An SVG is drawn without it; of a PNG a missing matplotlib is an error that says what to install."""
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert save_figure(CHARTS["plan"](), tmp_path / "figure.svg").exists()
    with pytest.raises(MissingExtraError, match="pip install 'matplotlib>="):
        save_figure(CHARTS["plan"](), tmp_path / "figure.png")
