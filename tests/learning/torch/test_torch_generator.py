"""Generators of images: images of the class that is asked for, in the form, drawn afresh, and kept in plain files."""

import json
import multiprocessing

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors import safe_open  # noqa: E402 (PyTorch is an extra)
from safetensors.torch import load_file, save_file  # noqa: E402
from torch import nn  # noqa: E402

from labeldp import (  # noqa: E402
    Classes,
    Curator,
    Generator,
    Interval,
    RandomizedResponse,
    Release,
)
from labeldp.errors import InputError, NotTrueLabelsError, OutputError, RowsError  # noqa: E402
from labeldp.learning.torch import ConditionalGenerator, ImageGenerator, ImageMixture, TorchClassifier  # noqa: E402

torch.set_num_threads(1)

SPACE = Classes(["left", "right"])
ROWS, DRAWN = 160, 200
KINDS = {
    "network": ConditionalGenerator(noise=8, filters=8, epochs=25, batch_size=20, averaging=0.9),
    "mixture": ImageMixture(components=8, parts=2),
}


def made_up(rows=ROWS):
    """Images whose left or right half is light, and which half it is."""
    random = np.random.default_rng(0)
    codes = np.arange(rows) % 2
    images = random.integers(0, 60, (rows, 8, 8))
    images[codes == 0, :, :4] += 150
    images[codes == 1, :, 4:] += 150
    return images.astype(np.uint8), np.array(SPACE.points)[codes]


def nearest(images):
    """The class whose mean each image is nearest to."""
    means = np.stack([made_up()[0][code::2].mean(axis=0) for code in (0, 1)])
    return ((images[:, None] - means) ** 2).sum(axis=(2, 3)).argmin(axis=1)


def drawn(generator, codes):
    """Images of classes."""
    return generator.form.array(generator.sample(codes))


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    """Each kind of generator, fitted on labels that are public."""
    torch.manual_seed(0)
    images, labels = made_up()
    return KINDS[request.param].fit(images, Release.public(labels, SPACE), "made up", kind="public")


def test_images_are_of_their_form_and_of_their_class(fitted):
    """Images have the shape and the bytes of those given, and all but a twentieth are nearest to their class's mean.

    In 5 fits of each kind every one of 2 000 images was: a false alarm comes less than once in a million runs.
    """
    images, _ = made_up()
    generator = fitted.generator()
    assert isinstance(generator, Generator)
    assert generator.source.sentence() == "public data: made up"
    codes = np.arange(DRAWN) % 2
    found = drawn(generator, codes)
    assert found.dtype == np.uint8
    assert found.shape == (DRAWN, *images.shape[1:])
    assert np.mean(nearest(found) == codes) > 0.95
    assert drawn(generator, np.empty(0, dtype=np.int64)).shape == (0, 8, 8)


def test_points_have_the_levels_of_the_given_ones(fitted):
    """Where given images have no point between dark and light, made ones have none: they are as light, too."""
    found = drawn(fitted.generator(), np.zeros(DRAWN, dtype=np.int64))
    given = made_up()[0][::2]
    assert set(np.unique(found)) <= set(np.unique(given))
    assert abs(found.mean() - given.mean()) < 3  # at most 0.6 in 50 draws


def _send(generator, pipe):
    pipe.send(drawn(generator, [0] * 8))


def test_no_two_calls_and_no_fork_draw_alike(fitted):
    """The same images never come twice: not with PyTorch's and NumPy's states reset, and not in a child process."""
    generator, calls = fitted.generator(), []
    for _ in range(2):
        torch.manual_seed(5)
        np.random.seed(5)  # noqa: NPY002 (the state that must not matter)
        calls.append(drawn(generator, [0] * 8))
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(generator, send))
    child.start()
    calls.append(receive.recv())
    child.join()
    assert len({each.tobytes() for each in calls}) == 3
    assert len(np.unique(calls[0].reshape(8, -1), axis=0)) == 8


def test_what_was_kept_draws_by_the_same_law(fitted, tmp_path):
    """A file holds the same law, source and digests; a model is never written over another."""
    kept = ImageGenerator.load(fitted.save(tmp_path / "g.safetensors"))
    chance, codes = torch.rand(20, fitted.law.uniforms, dtype=torch.float64), torch.arange(20) % 2
    assert torch.equal(kept.law(chance, codes), fitted.law(chance, codes))
    assert (kept.source, kept.form, kept.space, kept.seen) == (fitted.source, fitted.form, fitted.space, fitted.seen)
    assert drawn(kept.generator(), [0, 1]).shape == (2, 8, 8)
    if fitted.discriminator is not None:
        images, _ = made_up()
        np.testing.assert_allclose(kept.log_odds(images, "left"), fitted.log_odds(images, "left"), atol=1e-5)
    with pytest.raises(OutputError):
        fitted.save(tmp_path / "g.safetensors")


FORGERIES = {
    "another law": lambda about, _: about.update(law="pickle"),
    "a size too large": lambda about, _: about["sizes"].update(height=1 << 40),
    "a size of another kind": lambda about, _: about["sizes"].update(channels=True),
    "another space": lambda about, _: about["space"].update(values=["a", "b", "c"]),
    "another form": lambda about, _: about["form"]["columns"][0].update(high=7),
    "no source": lambda about, _: about["source"].update(text=""),
    "another schema": lambda about, _: about.update(schema="labeldp/network/1"),
    "numbers missing": lambda _, numbers: numbers.pop(sorted(numbers)[0]),
    "numbers of another shape": lambda _, numbers: numbers.update(seen=torch.zeros(2, 2, dtype=torch.int64)),
    "numbers without end": lambda _, numbers: (
        next(each for each in numbers.values() if each.is_floating_point()).view(-1)[0].fill_(float("nan"))
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_another_file_is_refused(fitted, forgery, tmp_path):
    """A file that describes anything else, or whose parts contradict each other, is refused with one clear error."""
    path = fitted.save(tmp_path / "g.safetensors")
    with safe_open(path, framework="pt") as opened:
        about = json.loads(opened.metadata()["labeldp"])
    numbers = load_file(path)
    FORGERIES[forgery](about, numbers)
    save_file(numbers, tmp_path / "forged", {"labeldp": json.dumps(about)})
    with pytest.raises(InputError, match="expected a generator of images"):
        ImageGenerator.load(tmp_path / "forged")
    (tmp_path / "text").write_text("no generator")
    for wrong in ("text", "nothing"):
        with pytest.raises(InputError, match="expected a generator of images"):
            ImageGenerator.load(tmp_path / wrong)


def test_the_rows_that_it_was_fitted_on_are_refused(fitted):
    """Private rows that it knows are refused, and others are not."""
    generator = fitted.generator()
    images, _ = made_up()
    with pytest.raises(InputError, match="not fitted on"):
        generator.check_private(generator.form.table(images))
    generator.check_private(generator.form.table(255 - images))


def test_own_discriminator_tells_images_from_noise(fitted):
    """Its log odds that an image was given are larger for given images than for their negatives; a mixture has none."""
    original = made_up()[0][::2]
    if fitted.discriminator is None:
        with pytest.raises(InputError, match="found a mixture"):
            fitted.log_odds(original, "left")
        return
    assert fitted.log_odds(original, "left").shape == (len(original),)
    assert fitted.log_odds(original, "left").mean() > fitted.log_odds(255 - original, "left").mean()
    with pytest.raises(InputError, match="expected bytes"):
        fitted.log_odds(original[:, :4], "left")


def test_a_paid_split_is_named_by_what_its_release_says():
    """Labels with noise are undone: images are of their class though a fifth of the labels are wrong, and it is paid.

    Classes that were taken as released would give a fifth of the images another class. In 20 fits at least 0.969 were
    of their class, with a deviation of 0.008: fewer than 0.9 come less than once in a million runs.
    """
    images, labels = made_up(800)
    release = Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, epsilon=1.4))
    learner = TorchClassifier(lambda k: nn.Sequential(nn.Flatten(), nn.Linear(64, k)), epochs=30, learning_rate=0.01)
    fitted = ImageMixture(8, 2, learner).fit(images[:, None], release, "the first rows")
    assert fitted.source.kind == "paid split"
    assert json.loads(fitted.source.certificate)["guarantee"]["epsilon"] == release.guarantee.epsilon
    codes = np.arange(5 * DRAWN) % 2
    found = drawn(fitted.generator(), codes)
    assert found.shape == (5 * DRAWN, 1, 8, 8)
    assert np.mean(nearest(found[:, 0]) == codes) > 0.9


def test_a_law_without_end_lets_nothing_out(fitted):
    """Numbers that are no numbers are refused by the file, and no sampler of broken rows gives any."""
    broken = Generator(
        fitted.space, fitted.form, fitted.source, lambda codes: fitted._drawn(codes).astype(np.float64) * np.nan
    )
    with pytest.raises(InputError):
        broken.sample([0, 1])


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_is_refused(kind):
    """Bare labels, numbers for labels, other images, other counts and classes without an example get clear errors."""
    images, labels = made_up()
    release, maker = Release.public(labels, SPACE), KINDS[kind]
    with pytest.raises(NotTrueLabelsError):
        maker.fit(images, labels, "made up")
    with pytest.raises(InputError, match="found numbers"):
        maker.fit(images, Release.public(np.zeros(ROWS), Interval(0, 1, 0.5)), "made up")
    with pytest.raises(RowsError):
        maker.fit(images[1:], release, "made up")
    with pytest.raises(InputError, match="found none of right"):
        maker.fit(images, Release.public(["left"] * ROWS, SPACE), "made up")
    with pytest.raises(InputError, match="names the data"):
        maker.fit(images, release, " ")
    for wrong in (images.astype(float), images[:, :3], images[:, 0], np.zeros((ROWS, 2, 8, 8), dtype=np.uint8)):
        with pytest.raises(InputError, match="expected images as bytes"):
            maker.fit(wrong, release, "made up")
