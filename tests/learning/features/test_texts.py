"""Free texts: their words as scikit-learn weighs them, components as of a plain decomposition, and models of both."""

import contextlib
import io
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from labeldp import Classes, Curator, Interval, Release, release_table
from labeldp.cli import main
from labeldp.errors import InputError
from labeldp.learning.features import TextComponents, TextWords
from labeldp.learning.sklearn import AutoClassifier, AutoRegressor
from labeldp.learning.tables import _stored as stored_module
from labeldp.learning.tables import learn, open_model

#: Annotations in loops would take longer than the fits.
pytestmark = pytest.mark.usefixtures("as_users_call")
GOOD, BAD = ["great", "lovely", "warm", "kind"], ["awful", "broken", "cold", "rude"]
OTHERS = ["the", "room", "was", "and", "staff", "we", "stayed", "there", "for", "days", "near", "sea"]


def reviews(rows, seed=0, telling=2):
    """Reviews of eight words, of which some tell the class; numbers of nothing; and classes."""
    chance = np.random.default_rng(seed)
    good = chance.random(rows) < 0.5
    texts = [
        " ".join(chance.permutation([*chance.choice(GOOD if each else BAD, telling), *chance.choice(OTHERS, 10)]))
        for each in good
    ]
    frame = pd.DataFrame({"review": texts, "night": chance.normal(size=rows)})
    return frame, np.where(good, "yes", "no")


def test_words_are_those_of_scikit_learn():
    """Of texts with missing, empty and unknown ones, beside the same weights by another implementation."""
    frame, _ = reviews(200)
    texts = [*frame["review"], None, "", "zebra unheard"]
    found = TextWords().fit(frame[["review"]]).transform(pd.DataFrame({"any": texts}))
    known = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2)).fit(frame["review"])
    assert found.shape == (203, len(known.get_feature_names_out()))
    np.testing.assert_allclose(found.toarray(), known.transform([each or "" for each in texts]).toarray(), atol=1e-12)


def test_components_are_the_leading_ones():
    """Centred, the largest of variance one, and else the singular vectors of the words; each row alone as among all."""
    frame, _ = reviews(300)
    texts = frame[["review"]]
    encoder, words = TextComponents().fit(texts), TextWords().fit_transform(texts)
    points = encoder.transform(texts)
    assert points.shape == (300, 32)
    assert np.abs(points.mean(axis=0)).max() < 1e-12
    assert points.std(axis=0).max() == pytest.approx(1.0)
    left, sizes, _ = np.linalg.svd(words.toarray(), full_matrices=False)
    leading = left[:, :3] * sizes[:3]
    known = np.abs(np.corrcoef(points[:, :3].T, leading.T)[:3, 3:])
    assert np.diag(known).min() > 0.99
    alone = np.concatenate([encoder.transform(texts[row : row + 1]) for row in range(20)])
    assert np.array_equal(alone, points[:20])


@pytest.mark.parametrize("texts", [["one two three"], ["a b c", "d e f"], [None, None], ["", "x"]])
def test_texts_without_a_common_word_say_nothing(texts):
    """No word, no component, and no error."""
    column = pd.DataFrame({"note": texts})
    for encoder in (TextWords(), TextComponents()):
        found = encoder.fit(column).transform(pd.DataFrame({"note": ["one two three", None]}))
        assert found.shape == (2, 1)
        assert abs(found).max() == 0.0


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A release of reviews, and the table of others."""
    home = tmp_path_factory.mktemp("reviews")
    frame, labels = reviews(800)
    frame.assign(y=labels).to_csv(home / "t.csv", index=False)
    release_table(home / "t.csv", "y", Classes(["no", "yes"]), 3.0, home / "o", drop=[], unit="row")
    return home


@pytest.mark.parametrize("model", ["auto", "softmax", "boosting", "convex"])
def test_a_release_with_free_text_is_learned(shared, tmp_path, model):
    """Every family reads the words; the saved model predicts the same, and others' texts."""
    learned = learn(shared / "o", model=model)
    assert learned.left_out == {}
    others, truth = reviews(400, seed=1)
    predicted = learned.model.predict(others)
    assert np.mean(predicted == truth) > 0.9
    again = open_model(learned.model.save(tmp_path / "m.safetensors"))
    assert np.array_equal(again.predict_proba(others), learned.model.predict_proba(others))
    others.loc[0, "review"] = None
    assert again.predict(others[:1]).shape == (1,)


@pytest.fixture(scope="module")
def by_command(shared):
    """What the command says that learns one model, and its file."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(["learn", str(shared / "o"), "--model", "softmax", "--output", str(shared / "m"), "--json"]) == 0
    return json.loads(said.getvalue()), shared / "m"


def test_a_file_whose_words_lack_a_weight_is_refused(by_command, tmp_path):
    """When it is opened, and not at the first text that has such a word."""
    model = open_model(by_command[1])
    (words,) = [each for _, each, _ in model.estimator[0].transformers_ if isinstance(each, TextWords)]
    words.weights_ = words.weights_[:-1]
    with pytest.raises(InputError, match="expected a model made by"):
        open_model(model.save(tmp_path / "m.safetensors"))


def test_the_command_line_says_that_words_are_read(by_command):
    """In the result, and as JSON."""
    assert "of review, which is free text, its words are learned from" in by_command[0]["notes"]


def test_words_are_added_up_over_all_rows(shared, monkeypatch):
    """A release that is larger than memory has sums and trees of the same words."""
    monkeypatch.setattr(stored_module, "SOME_ROWS", 200)
    monkeypatch.setattr("labeldp.learning.sklearn._auto.SOME_ROWS", 200)
    monkeypatch.setattr("labeldp.learning.sklearn._auto._ENOUGH_ROWS", 200)
    learned = learn(shared / "o")
    assert "sums over all 800 rows" in learned.way
    others, truth = reviews(400, seed=1)
    assert np.mean(learned.model.predict(others) == truth) > 0.9


def test_frames_with_texts_are_learned_from():
    """Classes and numbers; at prediction few rows, which no longer look like free text, are of the same kind."""
    frame, labels = reviews(400)
    classifier = AutoClassifier(folds=2).fit(frame, Curator(labels, Classes(["no", "yes"])).randomize(epsilon=3.0))
    assert classifier.columns_ == {"review": "text", "night": "number"}
    others, truth = reviews(200, seed=2)
    assert np.mean(classifier.predict(others) == truth) > 0.9
    assert classifier.predict(pd.DataFrame({"review": ["great"] * 3, "night": 0.0})).tolist() == ["yes"] * 3
    numbers = Release.public(np.where(labels == "yes", 8, 2), Interval(0, 10, 1))
    found = AutoRegressor(folds=2).fit(frame, numbers).predict(others)
    assert np.corrcoef(found, truth == "yes")[0, 1] > 0.9


def test_texts_of_noise_teach_nothing():
    """Words that have nothing to do with labels leave the constant, nearly."""
    frame, _ = reviews(600)
    labels = np.random.default_rng(5).choice(["no", "yes"], 600)
    model = AutoClassifier(folds=2).fit(frame, Curator(labels, Classes(["no", "yes"])).randomize(epsilon=2.0))
    chances = model.predict_proba(reviews(300, seed=3)[0])
    assert np.abs(chances - 0.5).max() < 0.2
