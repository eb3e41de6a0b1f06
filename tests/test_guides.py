"""The pages in docs/guide: their Python runs, block after block, on data of the kind that they speak of."""

import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from labeldp import Classes, Curator, Interval, Ledger, RandomizedResponse
from labeldp.cli import main
from labeldp.learning.ratings import FactorizationClassifier
from labeldp.learning.tables import ModelChoice, learn, read_images

GUIDES = Path(__file__).parents[1] / "docs/guide"
ROWS = 1000
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page):
    """The Python blocks of a page."""
    return _BLOCK.findall((GUIDES / page).read_text(encoding="utf-8"))


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the pages take for granted: public features, labels that are declared, and releases of them."""
    monkeypatch.chdir(tmp_path)
    chance = np.random.default_rng(0)
    features = pd.DataFrame(
        {
            "age": chance.integers(18, 95, ROWS),
            "sex": chance.integers(0, 2, ROWS),
            "blood_pressure": chance.normal(130, 15, ROWS).round(),
        }
    )
    space = Classes(["benign", "malignant"])
    ill = features["age"] + features["blood_pressure"] / 2 + chance.normal(0, 10, ROWS) > 120
    labels = pd.Series(np.where(ill, "malignant", "benign"), name="diagnosis")
    amounts = (features["age"] * 100 + chance.exponential(500, ROWS)).to_numpy()
    release = Curator(labels, space).randomize(RandomizedResponse(space, 1.0))
    release.save("shared", features, keep="all")
    for month in ("january", "february"):
        Curator(labels, space).randomize(RandomizedResponse(space, 1.0)).save(month, features, keep="all")
    costs = Curator(amounts, Interval(0, 20_000, 10), name="cost").randomize(epsilon=2.0)
    costs.save("costs", features, keep="all")
    digits = Classes(range(10))
    answers = chance.integers(0, 10, 64)
    return {
        "features": features,
        "labels": labels,
        "space": space,
        "release": release,
        "amounts": amounts,
        "images": chance.normal(size=(64, 1, 16, 16)).astype(np.float32),
        "image_labels": Curator(answers, digits).randomize(epsilon=4.0),
        "published": features.assign(diagnosis=labels),
        "curator": Curator(labels, space, budget=10.0, name="diagnosis"),
        "StandardScaler": StandardScaler,
        "scaler": StandardScaler().fit(features),
        "numbers": StandardScaler().fit_transform(features[["age", "blood_pressure"]]),
        "pd": pd,
    }


def save_models(features):
    """The models and the tables that the page on learning predicts with: of columns, of images and of ratings."""
    from labeldp.learning.tables import learn_network  # noqa: PLC0415 (PyTorch is an extra of its own)

    chance = np.random.default_rng(0)
    learn("shared", model="softmax").model.save("model.skops")
    features.to_csv("others.csv", index=False)
    codes = np.arange(64) % 10
    pixels = chance.integers(0, 256, (64, 8, 8), dtype=np.uint8)
    header = bytes([0, 0, 8, 3, 0, 0, 0, 64, 0, 0, 0, 8, 0, 0, 0, 8])
    Path("t10k-images-idx3-ubyte").write_bytes(header + pixels.tobytes())
    Path("pictures").mkdir()
    for name, image in zip("ab", pixels, strict=False):
        pytest.importorskip("PIL.Image").fromarray(image).save(f"pictures/{name}.png")
    Curator(codes, Classes(range(10))).randomize(epsilon=8.0).save("digits", label="digit")
    choice = ModelChoice("torch:convolutional", images=read_images("t10k-images-idx3-ubyte"), training={"epochs": 1})
    learn_network("digits", choice).model.save("digits.safetensors")
    pairs = pd.DataFrame({"user": [f"u{i // 10}" for i in range(200)], "item": [f"i{i % 10}" for i in range(200)]})
    stars = Curator(chance.integers(1, 6, 200), Classes(range(1, 6))).randomize(epsilon=4.0)
    stars.save("stars", pairs, keep="all", label="stars")
    learn("stars", model="factorization", features=["user", "item"]).model.save("ratings.skops")


@pytest.mark.parametrize("page", sorted(path.name for path in GUIDES.glob("*.md") if blocks(path.name)))
def test_the_python_of_a_page_runs(names, page, tmp_path, monkeypatch):
    """Each block after the ones before it."""
    if "labeldp.learning.torch" in "".join(blocks(page)):
        pytest.importorskip("torch")
    if page == "curator.md":  # it saves the release that other pages begin with
        (tmp_path / "shared").rename(tmp_path / "other")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if page == "learning.md":
            monkeypatch.setitem(FactorizationClassifier.__init__.__kwdefaults__, "rounds", 60)
            monkeypatch.setitem(FactorizationClassifier.__init__.__kwdefaults__, "unused", 20)
            save_models(names["features"])
        for block in blocks(page):
            exec(compile(block, page, "exec"), names)  # noqa: S102 (the text is ours)
    assert len(blocks(page)) == (GUIDES / page).read_text(encoding="utf-8").count("```python")


def commands(page):
    """The indented commands of a page."""
    text = (GUIDES / page).read_text(encoding="utf-8").replace("\\\n", "")
    return re.findall(r"^    (labeldp .*)$", text, flags=re.MULTILINE)


def test_audits_of_the_guide_run_on_the_story(tmp_path, monkeypatch, capsys):
    """Each command of the page on disclosure, on the table of the README; the claim of one is refuted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    declared = ("--label", "diagnosis", "--classes", "none,heart disease", "--epsilon", "2", "--drop", "postcode,visit")
    assert main(["demo"]) == 0
    table = pd.read_csv("patients.csv")
    table.drop_duplicates("patient_id").to_csv("first.csv", index=False)
    assert main(["release", "patients.csv", *declared, "--unit", "patient_id", "--output", "shared"]) == 0
    own = ("--unit", "row", "--ledger", "first.ledger", "--other-people", "made up", "--output", "rows")
    assert main(["release", "first.csv", *declared, *own]) == 0
    assert main(["learn", "shared", "--model", "softmax", "--output", "model.skops"]) == 0
    Path("mechanism.py").write_text(blocks("disclosure.md")[0], encoding="utf-8")
    ran = commands("disclosure.md")
    assert len(ran) == 4
    for command in ran:
        capsys.readouterr()
        words = shlex.split(command)
        assert main(words[1:]) == int("--callable" in words), command
    assert (tmp_path / "profile.svg").exists()
    assert (tmp_path / "private-rows.csv").exists()


def test_releases_of_every_month_run_as_the_guide_says(tmp_path, monkeypatch, capsys):
    """Each command of the page, on the visits of three months with patients who return; sums are those of people."""
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    table = pd.read_csv("patients.csv", dtype=str, keep_default_na=False)
    for month, rows in (("december", slice(0, 900)), ("january", slice(600, 1500)), ("february", slice(1400, None))):
        table[rows].to_csv(f"{month}.csv", index=False)
    ran = commands("again.md")
    assert len(ran) == 8
    printed = {}
    for command in ran:
        capsys.readouterr()
        assert main(shlex.split(command)[1:]) == 0, command
        printed[command.split()[1]] = " ".join(capsys.readouterr().out.split())
    assert "returning patient_id with" in printed["check"]
    assert "have a new patient_id" in printed["check"]
    assert "epsilon 0.5 per patient_id in total" in printed["account"]
    assert "a signature" not in printed["verify"].partition("cannot show")[2]
    assert [entry.budget.epsilon for entry in Ledger(Path("visits.ledger")).entries()] == [3.0, 3.0, 3.0]


def ratings(users, seed):
    """A table of ratings by users of their own, some of whom rated much."""
    random = np.random.default_rng(seed)
    chances = 0.1 + 0.8 * (np.arange(users) % 9 == 0)
    user, item = np.nonzero(random.random((users, 30)) < chances[:, None])
    grade = np.clip(np.round(3 + 1.5 * (user % 2) - 0.75 + 0.1 * (item - 15) + random.normal(0, 0.6, len(user))), 1, 5)
    return pd.DataFrame({"user": user + 1000 * seed, "item": item, "year": 1980 + item, "grade": grade.astype(int)})


def test_ratings_are_released_and_learned_as_the_guide_says(tmp_path, monkeypatch, capsys):
    """Each command of the page; nothing that is printed or written takes a rating for all that a user said."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"rounds": 40, "unused": 20}.items():
        monkeypatch.setitem(FactorizationClassifier.__init__.__kwdefaults__, name, value)
    for seed, name in enumerate(("ratings", "survey", "club")):
        ratings(120, seed).to_csv(f"{name}.csv", index=False)
    most = int(pd.read_csv("ratings.csv")["user"].value_counts().max())
    several = f"if it is a person, all labels of one with {most} rows have epsilon {2 * most} together"
    ran = commands("ratings.md")
    assert len(ran) == 9
    printed = []
    for command in ran:
        capsys.readouterr()
        assert main(shlex.split(command)[1:]) == 0, command
        printed.append(" ".join(capsys.readouterr().out.split()))
    of_user, of_row, check, stages, verified, _, judged, _, learned = printed
    assert [text.startswith(start) for text, start in ((of_user, "Epsilon 2 per user: "), (of_row, "Epsilon 2: "))]
    assert f"epsilon is {most} times as large for all labels of one with {most} rows." in of_row
    assert "--keep all" in check.partition("the release, to be edited")[2]
    page = " ".join(Path("report.html").read_text(encoding="utf-8").split())
    for text in (stages, verified, page.replace("&#39;", "'")):
        assert several in text
        assert "For one row: someone whom" in text
        assert "For a person" not in text
        assert "one person's odds" not in text
    assert "What the odds of one row" in page
    assert "RMSE of the mean class" in judged
    assert "RMSE of the mean class" in learned
    assert "grade_firsts" in pd.read_parquet("shared").columns


def test_a_folder_of_images_is_released_and_learned_as_the_guide_says(tmp_path, monkeypatch, capsys):
    """Each command of the page but the last, on the images that its Python writes; its IDX file holds the same images.

    The model names about 95 to 98 % of the test images, and guessing 10 %.
    """
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    written = {}
    for block in blocks("images.md"):
        exec(compile(block, "images.md", "exec"), written)  # noqa: S102 (the text is ours)
    names = pd.read_csv("train.csv")["file"]
    wanted = read_images("png").of_rows(len(names), list(names))
    np.testing.assert_array_equal(read_images("train-idx3-ubyte").pixels, wanted)
    *ran, other = commands("images.md")
    assert "--images train-idx3-ubyte" in other
    for command in ran:
        capsys.readouterr()
        assert main(shlex.split(command)[1:]) == 0, command
    (accuracy,) = re.findall(r"\n│ accuracy +│ +([\d.]+)%", capsys.readouterr().out)
    assert float(accuracy) > 60


def test_every_link_of_a_page_leads_somewhere():
    """Files that pages name exist."""
    for page in [*GUIDES.glob("*.md"), GUIDES.parents[1] / "README.md"]:
        text = page.read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (page.parent / link).exists(), (page.name, link)
        for path in re.findall(r"`((?:docs|examples|experiments|benchmarks)/[\w./-]+)`", text):
            assert (GUIDES.parents[1] / path).exists(), (page.name, path)
