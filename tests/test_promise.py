"""Documents, cards and pages promise what the guarantee says of itself, and no probability lacks its condition."""

import csv
import html
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from labeldp import (
    Classes,
    Curator,
    Guarantee,
    LabelMoments,
    NoisyHistogram,
    RandomizedResponse,
    Release,
    RenyiGuarantee,
    verify,
)
from labeldp.cli import main

ROOT = Path(__file__).parents[1]
_ALONE, _UNIT = Guarantee(1.0), Guarantee(1.0, unit="patient_id")
_CURATOR, _DELTA = Guarantee(1.0, trust="central"), Guarantee(1.0, 1e-6, trust="central")
_MIXED = tuple(Guarantee(1.0, 1e-8, trust=trust) for trust in ("peer", "shuffle"))
#: The sentences that a document quotes, in order.
QUOTED = {
    "README.md": [_ALONE.posterior_sentence()],
    "SECURITY.md": [_ALONE.posterior_sentence(), _DELTA.sentence()],
    "docs/guide/guarantee.md": [
        *(_ALONE.posterior_sentence(), _ALONE.sentence(), _UNIT.sentence(), _CURATOR.sentence()),
        *(text for each in (_DELTA, *_MIXED) for text in (each.posterior_sentence(), each.sentence())),
        RenyiGuarantee(math.inf, 1.0).sentence(),
    ],
    "docs/guide/ratings.md": [Guarantee(2.0).posterior_sentence("one row")],
}
DOCUMENTS = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def paragraphs(text):
    """The paragraphs of a document in Markdown, each on one line."""
    lines = (re.sub(r"^\s*(> ?)?", "", line) for line in text.splitlines())
    return [" ".join(each.split()) for each in re.split(r"\n{2,}", "\n".join(lines))]


def quoted(text):
    """The paragraphs that a document quotes, each on one line."""
    found = re.findall(r"(?:^ *> .*\n)+", text, flags=re.MULTILINE)
    return [" ".join(re.sub(r"^ *> ", "", each, flags=re.MULTILINE).split()) for each in found]


def unconditional(texts):
    """The texts that say how sure somebody can become, and not that this is beside everything else."""
    becomes = re.compile(r"\d % sure|% sure.*\d %")
    promises = [text for text in texts if becomes.search(text) and re.search("becom|at most", text)]
    return [text for text in promises if "everything else" not in text.lower()]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_quotes_the_code(document):
    """Each sentence that it quotes is the guarantee's own, and whatever it says of probabilities has the condition."""
    text = (ROOT / document).read_text(encoding="utf-8")
    assert quoted(text) == QUOTED.get(document, [])
    assert unconditional(paragraphs(text)) == []


def test_the_story_prints_both_sentences():
    """What the first release of the guides prints is what the guarantee says of itself."""
    story = (ROOT / "docs/guide/first-release.md").read_text(encoding="utf-8").splitlines()
    guarantee = Guarantee(2.0, unit="patient_id")
    assert {guarantee.posterior_sentence(), guarantee.sentence()} <= {*story}


def test_the_table_of_beliefs_is_that_of_the_guarantee():
    """Each line of the guide's table is what its epsilon makes of both beliefs, rounded up."""
    text = (ROOT / "docs/guide/guarantee.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| ([\d.]+) \| ([\d.]+ %) \| ([\d.]+ %) \|$", text, flags=re.MULTILINE)
    assert len(lines) == 5
    for epsilon, half, tenth in lines:
        sentence = Guarantee(float(epsilon)).posterior_sentence()
        assert f"can become at most {half} sure; 10 % sure, at most {tenth}." in sentence


def test_what_a_model_teaches_is_what_was_measured():
    """The example beside the promise has the figures of the experiment that it names, with own labels and without."""
    with (ROOT / "experiments/results/own_label.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == "auto"]
    measured = [
        f"{np.mean([float(row[name]) for row in rows if row['learned_from'] == people]):.0f}"
        for people in ("all rows", "other people")
        for name in ("sure", "right")
    ]
    assert len(rows) == 2 * 5
    text = " ".join((ROOT / "docs/guide/guarantee.md").read_text(encoding="utf-8").split())
    example = text.partition("release is more than 73.2 % sure of ")[2]
    assert re.findall(r"(?<![\d.])(\d\d) %", example.partition("scripts/experiments own_label")[0]) == measured


def test_a_delta_is_promised_nowhere_without_its_failure():
    """A factor of exp(epsilon) alone is no promise of SECURITY.md, which covers answers with a delta too."""
    assert "factor of at most exp(epsilon)" not in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_a_promise_without_its_condition_is_noticed():
    """The sentence that the README once had, and a table whose head drops the condition."""
    once = "At epsilon 1, someone who was 50 % sure of a label can become at most 73.2 % sure."
    assert unconditional([once]) == [once]
    assert unconditional(["| epsilon | from 50 % sure to at most |"])
    assert not unconditional(["What everything else makes 50 % sure becomes at most 73.2 %."])
    assert quoted("> One\n> sentence.\n\nText.\n\n  > Another.\n") == ["One sentence.", "Another."]


def releases(folder):
    """Folders of a release of units, and of an answer with a delta."""
    labels, space = np.arange(60) % 2, Classes([0, 1])
    release = Curator(labels, space, units=np.arange(60) // 3).randomize(RandomizedResponse(space, 1.0))
    release.save(folder / "units", label="y")
    moments = LabelMoments(space, 1.0, 1e-6, np.ones((60, 1)))
    Curator(labels, space).answer(moments).save(folder / "moments", label="y")
    return [folder / "units", folder / "moments"]


def page_of(source):
    """The texts of the page of a release or a result, each on one line."""
    page = source.with_suffix(".html")
    assert main(["report", str(source), "--output", str(page)]) == 0
    body = page.read_text(encoding="utf-8").partition("<body>")[2]
    parts = re.split(r"</(?:p|h2|table|figure|div)>", body)
    return [" ".join(html.unescape(re.sub("<[^>]*>", "", each)).split()) for each in parts]


def test_cards_and_pages_say_what_the_guarantee_says(tmp_path):
    """Both sentences are on each; wherever a probability is named, so is the condition, which a page has first."""
    pytest.importorskip("jinja2")
    for folder in releases(tmp_path):
        promise = verify(folder).certificate.guarantee
        sentences = [promise.sentence(), promise.posterior_sentence()]
        texts = page_of(folder)
        assert all(any(sentence in text for text in texts) for sentence in sentences)
        assert unconditional(texts) == []
        odds = next(i for i, text in enumerate(texts) if text.endswith("can become"))
        assert texts[odds + 1].startswith(
            f"Before: how sure {promise.everything_else} makes someone of {promise.statement}."
        )
        if folder.name != "moments":
            assert main(["card", str(folder)]) == 0
            card = paragraphs((folder / "README.md").read_text(encoding="utf-8").replace("\\", ""))
            assert set(sentences) <= set(card)
            assert unconditional(card) == []


def test_the_page_of_a_plan_has_the_condition(tmp_path, capsys):
    """What someone can become who is 10 % sure stands beside what makes them so."""
    pytest.importorskip("jinja2")
    assert main(["plan", "--classes", "2", "--rows", "1000", "--json"]) == 0
    (tmp_path / "plan.json").write_text(capsys.readouterr().out, encoding="utf-8")
    texts = page_of(tmp_path / "plan.json")
    assert any("10 % sure" in text for text in texts)
    assert unconditional(texts) == []


# Results in notebooks: what they show, escaped.


HOSTILE = "<script>alert('x')</script>\u202e"
SPACE = Classes(["no", HOSTILE])


class Reader(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        """Note the tag; a chart is an image that loads nothing, and nothing else has attributes."""
        self.tags.append(tag)
        assert attrs == [] or (tag == "img" and dict(attrs)["src"].startswith("data:image/svg+xml;base64,"))

    def handle_data(self, data):
        """Note the text."""
        self.text += f"{data} "


def shown(thing):
    """What a notebook shows."""
    reader = Reader()
    reader.feed(thing._repr_html_())
    assert set(reader.tags) <= {"p", "b", "h4", "ul", "li", "table", "tr", "td", "th", "img"}
    assert "\u202e" not in reader.text
    return reader.text


@pytest.fixture
def curator():
    """A curator of labels with hostile names."""
    return Curator(["no", HOSTILE] * 20, SPACE, name=HOSTILE, budget=3.0)


def test_a_release_shows_its_guarantee(curator):
    """Rows, label and the sentence of the certificate; a public one says that it is public."""
    text = shown(curator.randomize(epsilon=1.0))
    assert "rows 40" in text
    assert "by a factor of at most 2.7183" in text
    assert "declared public" in shown(Release.public(["no"], SPACE))


def test_an_answer_and_a_guarantee(curator):
    """The query, and what epsilon means for a person."""
    answer = curator.answer(NoisyHistogram(SPACE, 1.0))
    assert "Answer to noisy-histogram" in shown(answer)
    assert "73.2 %" in shown(answer.guarantee)
