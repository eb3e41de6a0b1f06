"""Effective rows that a plan and a release state, against the rows with true labels that give as good a model.

effective_rows.md has the protocol and what the results show.
"""

import functools
import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from _data import adult as adult_table
from _data import digits as digits_table
from _data import encoded
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA

from labeldp import Classes, Curator, Release, best_response
from labeldp.bounds import label_shares, plan
from labeldp.learning.sklearn import SoftmaxRegression

ROWS, COMPONENTS = 10_000, 20
#: Sizes of the clean tables: the first, and the ratio of one to the next.
FIRST, RATIO = 25, 1.6
#: Subsets of each size, up to a number of rows and beyond it.
SUBSETS, MANY_ROWS, SUBSETS_OF_MANY = 6, 2_000, 3
BANK = (
    *("age", "job", "marital", "education", "default", "balance", "housing", "loan", "contact", "day", "month"),
    *("duration", "campaign", "pdays", "previous", "outcome", "y"),
)


@dataclass(frozen=True)
class Table:
    """Features and class codes of rows to fit on, and of rows held out."""

    features: np.ndarray
    codes: np.ndarray
    test_features: np.ndarray
    test_codes: np.ndarray

    @property
    def space(self) -> Classes:
        """The classes."""
        return Classes(range(int(self.codes.max()) + 1))


def adult(folder: Path) -> Table:
    """Adult: an income above 50 000 dollars, 24 % of rows."""
    data = adult_table(folder)
    rows = np.random.default_rng(0).permutation(len(data.labels))[:ROWS]
    return Table(
        data.features[rows],
        data.space.encode(data.labels[rows]),
        data.test_features,
        data.space.encode(data.test_labels),
    )


def bank(folder: Path) -> Table:
    """Bank marketing, without the duration of the call: a client who agreed, 12 %."""
    frame = pd.read_csv(folder / "bank-marketing" / "bank-full.csv.gz", header=None, names=list(BANK))
    codes = (frame["y"] == "yes").to_numpy().astype(int)
    order = np.random.default_rng(0).permutation(len(frame))
    fit, test = order[:ROWS], order[ROWS : 3 * ROWS]
    words = ["job", "marital", "education", "default", "housing", "loan", "contact", "month", "outcome"]
    (features, test_features), _ = encoded(
        frame.iloc[fit], frame.iloc[test], ["age", "balance", "campaign", "previous", "pdays"], words
    )
    return Table(features, codes[fit], test_features, codes[test])


def images(folder: Path, name: str) -> list[np.ndarray]:
    """Pixels and codes to fit on, and those held out."""
    parts = []
    for part in ("train", "t10k"):
        pixels, codes = (
            np.frombuffer(gzip.decompress((folder / name / f"{part}-{kind}-ubyte.gz").read_bytes()), np.uint8)
            for kind in ("images-idx3", "labels-idx1")
        )
        parts += [pixels[16:].reshape(-1, 784) / 255.0, codes[8:].astype(int)]
    return parts


def components(features: np.ndarray, codes: np.ndarray, test_features: np.ndarray, test_codes: np.ndarray) -> Table:
    """A table of the leading principal components, whitened."""
    fitted = PCA(COMPONENTS, whiten=True, random_state=0).fit(features)
    return Table(fitted.transform(features), codes, fitted.transform(test_features), test_codes)


def fashion(folder: Path) -> Table:
    """Fashion-MNIST: ten even classes."""
    features, codes, *test = images(folder, "fashion-mnist")
    return components(features[:ROWS], codes[:ROWS], *test)


def skewed(folder: Path) -> Table:
    """Fashion-MNIST, class j thinned to a share of 0.6^j: from 40 % down to 0.4 %."""
    parts = images(folder, "fashion-mnist")
    random = np.random.default_rng(0)
    features, codes, *test = thinned(parts, random, 0.6 ** np.arange(10))
    return components(features[:ROWS], codes[:ROWS], *test)


def rare(folder: Path) -> Table:
    """MNIST: a five or not, with fives thinned to 2 %, 40 000 rows."""
    random = np.random.default_rng(0)
    features, codes, test_features, test_codes = thinned(
        images(folder, "mnist"), random, np.where(np.arange(10) == 5, 0.2, 1.0)
    )
    fives, test_fives = (codes == 5).astype(int), (test_codes == 5).astype(int)
    return components(features[: 4 * ROWS], fives[: 4 * ROWS], test_features, test_fives)


def thinned(parts: list[np.ndarray], random: np.random.Generator, shares: np.ndarray) -> list[np.ndarray]:
    """Rows of each class with its share, to fit on and held out alike."""
    found = []
    for features, codes in (parts[:2], parts[2:]):
        chosen = random.random(len(codes)) < shares[codes]
        found += [features[chosen], codes[chosen]]
    return found


def digits(_: Path) -> Table:
    """Digits of scikit-learn: ten even classes, 1 272 rows."""
    data = digits_table(Path())
    return components(data.features, np.asarray(data.labels), data.test_features, np.asarray(data.test_labels))


def cancer(_: Path) -> Table:
    """Breast cancer of scikit-learn: malignant, 37 %, 417 rows."""
    features, benign = load_breast_cancer(return_X_y=True)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    test = np.random.default_rng(0).random(len(benign)) < 0.3
    return Table(features[~test], 1 - benign[~test], features[test], 1 - benign[test])


TABLES: dict[str, Callable[[Path], Table]] = {
    "adult": adult,
    "bank": bank,
    "fashion": fashion,
    "digits": digits,
    "cancer": cancer,
    "rare": rare,
    "skewed": skewed,
}
BUNDLED = ("digits", "cancer")


@functools.cache
def loaded(folder: str | None, name: str) -> Table:
    """A table; those of scikit-learn need no folder."""
    return TABLES[name](Path() if name in BUNDLED else data_folder(Given(folder=folder)))


def scores(table: Table, rows: np.ndarray, release: Release) -> tuple[float, float]:
    """Log loss and share of wrong classes on the rows held out, of the default softmax regression."""
    model = SoftmaxRegression().fit(table.features[rows], release)
    chances = model.predict_proba(table.test_features)
    own = chances[np.arange(len(chances)), table.test_codes]
    return float(-np.log(np.maximum(own, 1e-12)).mean()), float((chances.argmax(axis=1) != table.test_codes).mean())


@functools.cache
def clean_curve(folder: str | None, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Sizes of subsets with true labels, and both scores at each, which fall: running minima of means."""
    table = loaded(folder, name)
    n, random = len(table.codes), np.random.default_rng(1)
    sizes = [size for size in (int(FIRST * RATIO**i) for i in range(40)) if size < n] + [n]
    found = []
    for size in sizes:
        subsets = [random.permutation(n)[:size] for _ in range(SUBSETS if size <= MANY_ROWS else SUBSETS_OF_MANY)]
        public = [scores(table, rows, Release.public(table.codes[rows].tolist(), table.space)) for rows in subsets]
        found.append(np.mean(public, axis=0))
    return np.array(sizes), np.minimum.accumulate(np.array(found), axis=0)


def as_good(sizes: np.ndarray, curve: np.ndarray, score: float) -> float:
    """The rows with true labels that have a score: by interpolation of their logarithm, between the ends of sizes."""
    return float(np.exp(np.interp(-score, -curve, np.log(sizes))))


def cells(given: Given) -> Iterator[Cell]:
    """Each table, over epsilon."""
    for name in given.data:
        for epsilon in given.epsilons:
            yield Cell({"data": name, "epsilon": epsilon})


def run(given: Given, cell: Cell, _: int) -> Iterator[Row]:
    """One release by the default mechanism, one model, the rows that are as good, and those that are stated."""
    table, epsilon = loaded(given.folder, cell["data"]), cell["epsilon"]
    sizes, curves = clean_curve(given.folder, cell["data"])
    release = Curator(table.codes.tolist(), table.space, budget=epsilon).randomize(best_response(table.space, epsilon))
    loss, wrong = scores(table, np.arange(len(table.codes)), release)
    stated = plan(table.space.size, len(table.codes), epsilon, (), label_shares(release))
    option = next(each for each in stated.options if each.best)
    by_loss, by_accuracy = as_good(sizes, curves[:, 0], loss), as_good(sizes, curves[:, 1], wrong)
    yield {
        "rows": len(table.codes),
        "certified_epsilon": release.guarantee.epsilon,
        **{name: round(value, 4) for name, value in (("loss", loss), ("wrong", wrong))},
        **{name: round(value) for name, value in (("by_loss", by_loss), ("by_accuracy", by_accuracy))},
        "expected": option.effective_rows,
        "at_most": option.at_most,
        "expected_ratio": round(option.effective_rows / by_loss, 3),
        "at_most_ratio": round(option.at_most / by_loss, 3),
    }


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Stated effective rows over those found by log loss, and the numbers themselves."""
    rows = frames["effective_rows"]
    titles = {
        "expected_ratio": "Stated effective rows (at the released class shares) over rows found by log loss",
        "at_most_ratio": "The upper bound over rows found by log loss",
        "by_loss": "Rows with true labels that give the same log loss",
        "by_accuracy": "Rows with true labels that give the same accuracy",
        "expected": "Stated effective rows",
        "at_most": "Upper bound",
    }
    lines = []
    for column, title in titles.items():
        form = ".2f" if column.endswith("ratio") else ".0f"
        lines += ["", f"{title}:", "", *pivot(rows.sort_values("data"), ["data"], column, form=form)]
    return lines


STUDY = Study(
    name="effective_rows",
    recipe="1",
    key=("data", "epsilon"),
    columns=(
        *("data", "epsilon", "draw", "rows", "certified_epsilon", "loss", "wrong", "by_loss", "by_accuracy"),
        *("expected", "at_most", "expected_ratio", "at_most_ratio", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(Spot(Cell({"data": "cancer", "epsilon": 3.0}), "expected", draws=2, least=5.0),),
)
EXPERIMENT = Experiment(
    name="effective_rows",
    question="How many rows with true labels is a release worth?",
    studies=(STUDY,),
    page=page,
    draws=3,
    tables=tuple(TABLES),
    bundled=BUNDLED,
    epsilons=(0.3, 1.0, 3.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
