"""The linear model of patches: as a network, in a file, and on the command line."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch")

from labeldp import Classes, Curator, Ledger, Release  # noqa: E402 (torch is an extra)
from labeldp.errors import InputError  # noqa: E402
from labeldp.learning.features import Images  # noqa: E402
from labeldp.learning.heads import softmax  # noqa: E402
from labeldp.learning.images import PatchClassifier, PatchScores  # noqa: E402
from labeldp.learning.tables import (  # noqa: E402
    ModelChoice,
    StagePlan,
    evaluate,
    learn_in_stages,
    learn_network,
    open_model,
)

torch.set_num_threads(1)
SPACE = Classes(["upright", "across"])  # not in the order of the alphabet


@pytest.mark.parametrize(("channels", "mirrored", "scales"), [(1, False, 1), (3, True, 2)])
def test_the_scores_of_a_file_are_those_of_the_classifier(stripes, channels, mirrored, scales):
    """Features and head agree, in declared order, where cells are not of one size, and in colour at two scales."""
    images, labels = stripes(60)
    images = np.repeat(images, channels, axis=1)
    images[:, 1:] //= 2
    model = PatchClassifier((3,), filters=4, mirrored=mirrored).fit(images, Release.public(labels, SPACE))
    scores = PatchScores.of(model, np.argsort(SPACE.sorted_codes))
    assert (scores.scales, scores.views) == (scales, 1 + mirrored)
    wanted = PatchScores.shapes(classes=2, channels=channels, **scores.sizes)
    assert {name: each.shape for name, each in scores.arrays.items()} == wanted
    again = PatchScores.from_arrays(scores.arrays, scores.scales, scores.views)
    np.testing.assert_array_equal(again(images), scores(images))
    np.testing.assert_allclose(softmax(scores(images))[:, SPACE.sorted_codes], model.predict_proba(images), atol=1e-4)


def test_an_image_is_seen_one_way_or_in_a_mirror_too():
    """Other views are refused."""
    with pytest.raises(InputError, match="expected views of 1, or of 2 with mirror images, found 7"):
        PatchScores.shapes(2, views=7)


@pytest.fixture(scope="module")
def folder(stripes, tmp_path_factory):
    """A release of the directions of stripes, and their images."""
    images, labels = stripes(600)
    target = tmp_path_factory.mktemp("stripes") / "shared"
    table = pa.table({"row": np.arange(600)})
    Curator(labels, SPACE, name="way").randomize(epsilon=2.0).save(target, table, keep=["row"])
    return target, Images(images)


def test_a_model_of_images_is_learned_kept_and_judged(stripes, folder, tmp_path):
    """It is scored on released labels of a held-out tenth, and predicts the same from its file."""
    target, images = folder
    learned = learn_network(target, ModelChoice("patches", images=images))
    assert learned.setting.startswith("patches; heads of components, with their weights: ")
    assert learned.scores.accuracy.low > 0.5
    others, truth = stripes(200, seed=1)
    model = open_model(learned.model.save(tmp_path / "m.safetensors"))
    predicted = model.predict(None, others)
    assert (predicted == truth).mean() > 0.9
    np.testing.assert_array_equal(predicted, learned.model.predict(None, others))
    pq.write_table(pa.table({"way": truth}), tmp_path / "t.parquet")
    judged = evaluate(model, tmp_path / "t.parquet", "way", public=True, images=Images(others))
    assert judged.accuracy.value == pytest.approx((predicted == truth).mean())


@pytest.mark.parametrize("wrong", [{"method": "plain"}, {"training": {"epochs": 3}}], ids=str)
def test_what_it_does_not_have_is_refused(folder, wrong):
    """It has no epochs, and one method."""
    target, images = folder
    with pytest.raises(InputError, match="expected no method and no options of training with patches"):
        learn_network(target, ModelChoice("patches", images=images, **wrong))


def test_too_few_images_are_refused_before_a_label_is_drawn(stripes, tmp_path):
    """Three fifths of the rows must do for a fit; nothing is charged if they do not."""
    images, labels = stripes(6)
    pq.write_table(pa.table({"row": np.arange(6), "way": labels}), tmp_path / "t.parquet")
    plan = StagePlan(ModelChoice("patches", images=Images(images)))
    with pytest.raises(InputError) as refused:
        learn_in_stages(tmp_path / "t.parquet", "way", SPACE, 2.0, tmp_path / "shared", plan, keep=["row"])
    assert "already" not in str(refused.value)
    assert {each.state for each in Ledger(tmp_path / "t.parquet.labeldp-ledger").entries()} == {"void"}
