"""Results in notebooks: what they show, escaped."""

from html.parser import HTMLParser

import pytest

from labeldp import Classes, Curator, Interval, NoisyHistogram, Release
from labeldp.bounds import UnitSizes, forecast, plan

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


def test_plans_show_one_mechanism_at_each_epsilon():
    """The epsilons of the sweep and that of the plan, in order, with what a release takes and what it means."""
    text = shown(plan(3, 1000, 1.5)).partition("Every mechanism")[0]
    assert text.count("randomized-response") == 1  # the same at every epsilon
    assert "bits" not in text
    places = [text.index(f"{sure} %") for sure in ("12.6", "19.1", "28.1")]  # at 1, 1.5 and 2, rounded up
    assert places == sorted(places)
    text = shown(forecast(Interval(0, 10, 1), 1000, 1.0, units=UnitSizes((1, 2), (400, 600))))
    assert "units of up to 2 rows, which share epsilon" in text
    assert "error of the mean" in text
    assert text.partition("What decides")[0].count("minimax") == 1


def test_what_was_learned_shows_its_scores(tmp_path):
    """The model, what it was made of, its scores with intervals, and the guarantee; names of columns are escaped."""
    pytest.importorskip("sklearn")
    from labeldp.learning.tables import learn  # noqa: PLC0415 (an extra)

    labels = ["no", "yes"] * 100
    table = {HOSTILE: [0.0, 1.0] * 100, "other": range(200)}
    release = Curator(labels, Classes(["no", "yes"])).randomize(epsilon=4.0)
    release.save(tmp_path / "shared", table, keep="all", label="ill")
    text = shown(learn(tmp_path / "shared", model="softmax"))
    assert "softmax, method likelihood" in text
    assert "accuracy" in text
    assert "95 % interval" in text
    assert "five-fold cross-validation" in text
    assert "by a factor of at most" in text
