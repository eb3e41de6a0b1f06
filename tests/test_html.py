"""Results in notebooks: what they show, escaped."""

from html.parser import HTMLParser

import pytest

from labeldp import Classes, Curator, NoisyHistogram, Release

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
