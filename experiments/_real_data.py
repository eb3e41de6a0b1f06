"""The tables of numeric labels: public features, a declared range, private labels, and rows held out for a test.

Progression comes with scikit-learn. The others are read from the folder in the environment variable LABELDP_DATA, from
files named as their publishers name them. Every choice of rows and columns here is made without a look at labels, and
ranges are declared from what is publicly known.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from labeldp import Interval
from labeldp.learning.cells import clip_for

ROWS, TEST_ROWS = 10_000, 5_000
#: What claims are clipped to where one limit serves all epsilons, and where errors are compared.
COMMON_LIMIT = 10_000
#: A bound of the mean square of a claim, known beforehand: of motor insurance about 1 500 on average, with twice that
#: for a deviation.
CLAIM_SQUARE = 1500.0**2 * (1 + 2.0**2)
_FACTORS = 4


@dataclass(frozen=True)
class Data:
    """A table in two parts.

    Attributes:
        declared: The declared range, in which errors are compared.
        features: Features to fit on, shape (n, d), in units of their deviations.
        labels: True labels of those rows; only a curator sees them.
        test_features: Features of the rows held out.
        test_labels: True labels of the rows held out, read to score a finished model.
        limited: Whether the upper end follows epsilon, as the theory asks for.
        rated: Of ratings: who rated what, by numbers, with public columns; the rows to fit on, and those held out.
    """

    declared: Interval
    features: np.ndarray
    labels: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray
    limited: bool = False
    rated: tuple[np.ndarray, np.ndarray] | None = None

    def space(self, epsilon: float) -> Interval:
        """The range that is declared at an epsilon."""
        return limited(*self.features.shape, epsilon) if self.limited and np.isfinite(epsilon) else self.declared


def progression(_: Path) -> Data:
    """Progression of diabetes in a year, of 442 patients (25 to 346), a quarter of them held out."""
    features, labels = load_diabetes(return_X_y=True)
    test = np.random.default_rng(0).random(len(labels)) < 0.25
    features = (features / features.std(axis=0)).astype(np.float32)
    return Data(Interval(0, 350, 1), features[~test], labels[~test], features[test], labels[test])


def age(folder: Path, rows: int = ROWS, test_rows: int = TEST_ROWS) -> Data:
    """Adult: the age of a person (17 to 90) from education, work, family, income and sex, with its own test file."""
    parts = []
    for name, skipped, size in (("adult.data.gz", 0, rows), ("adult.test.gz", 1, test_rows)):
        frame = pd.read_csv(folder / "adult" / name, header=None, skipinitialspace=True, skiprows=skipped)
        frame.columns = [f"c{number}" for number in range(15)]
        frame["c10"] = np.log1p(frame["c10"])  # gains of capital
        frame["c14"] = frame["c14"].str.rstrip(".")
        parts.append(frame.iloc[np.random.default_rng(0).permutation(len(frame))[:size]])
    words = ["c1", "c5", "c7", "c9", "c14"]  # work class, marriage, relationship, sex, income
    features = _encoded(*parts, ["c4", "c10", "c12"], words)
    labels = [part["c0"].to_numpy(dtype=float) for part in parts]
    return Data(Interval(17, 90, 1), features[0], labels[0], features[1], labels[1])


def claims(folder: Path) -> Data:
    """freMTPL2: the cost in a year, in euros, of those motor policies that had a claim; its largest is 4 million."""
    path = folder / "fremtpl2"
    costs = pd.read_parquet(path / "freMTPL2sev.parquet").groupby("IDpol")["ClaimAmount"].sum()
    frame = pd.read_parquet(path / "freMTPL2freq.parquet").merge(costs.rename("cost").reset_index(), on="IDpol")
    words = ["VehBrand", "VehGas", "Region"]
    frame = frame.astype(dict.fromkeys(words, str))
    frame[["Density", "BonusMalus"]] = np.log(frame[["Density", "BonusMalus"]])
    order = np.random.default_rng(0).permutation(len(frame))
    train, test = frame.iloc[order[:ROWS]], frame.iloc[order[-TEST_ROWS:]]
    numbers = ["Exposure", "VehPower", "VehAge", "DrivAge", "BonusMalus", "Density", "ClaimNb"]
    features = _encoded(train, test, numbers, words)
    space = Interval(0, COMMON_LIMIT, 10)
    return Data(space, features[0], train["cost"].to_numpy(), features[1], test["cost"].to_numpy())


def stay(folder: Path, rows: int = ROWS, test_rows: int = TEST_ROWS) -> Data:
    """Diabetes readmission: days in hospital (1 to 14), from what was done there and who was treated."""
    frame = pd.read_csv(folder / "diabetes-readmission" / "diabetic_data.csv.gz", low_memory=False)
    frame = frame.drop_duplicates("patient_nbr").astype({"admission_type_id": str, "discharge_disposition_id": str})
    frame["age"] = frame["age"].str.extract(r"(\d+)").astype(float)
    numbers = [
        *("age", "num_lab_procedures", "num_procedures", "num_medications", "number_diagnoses"),
        *("number_outpatient", "number_emergency", "number_inpatient"),
    ]
    words = ["race", "gender", "admission_type_id", "discharge_disposition_id", "insulin", "change", "A1Cresult"]
    return _split(frame, "time_in_hospital", Interval(1, 14, 1), numbers, words, rows, test_rows)


def balance(folder: Path) -> Data:
    """Bank marketing: the yearly balance in euros, clipped to -1,000 to 10,000, from who the client is and owes."""
    names = [
        *("age", "job", "marital", "education", "default", "balance", "housing", "loan", "contact", "day", "month"),
        *("duration", "campaign", "pdays", "previous", "outcome", "y"),
    ]
    frame = pd.read_csv(folder / "bank-marketing" / "bank-full.csv.gz", header=None, names=names)
    words = ["job", "marital", "education", "default", "housing", "loan", "contact", "outcome", "y"]
    return _split(frame, "balance", Interval(-1000, 10_000, 10), ["age", "campaign", "previous"], words)


def viewers(folder: Path) -> Data:
    """MovieLens-1M: the age group of a user (1 to 56), from the genres of the films that the user rated."""
    path = folder / "movielens-1m-pairs"
    pairs = pd.read_parquet(path / "pairs.parquet")
    users, films = (
        pd.read_csv(path / name, sep="::", header=None, engine="python", encoding="latin-1")
        for name in ("users.dat.gz", "movies.dat.gz")
    )
    genres = films.set_index(0)[2].str.get_dummies()
    watched = genres.reindex(pairs["movie"]).groupby(pairs["user"].to_numpy()).mean()
    frame = watched.assign(
        count=np.log(pairs.groupby("user").size()), sex=users.set_index(0)[1], age=users.set_index(0)[2]
    )
    return _split(frame, "age", Interval(1, 56, 1), [*genres.columns, "count"], ["sex"], 5_000, 1_000)


def _split(
    frame: pd.DataFrame,
    label: str,
    space: Interval,
    numbers: list[str],
    words: list[str],
    rows: int = ROWS,
    test_rows: int = TEST_ROWS,
) -> Data:
    """Rows to fit on and rows held out, at random."""
    order = np.random.default_rng(0).permutation(len(frame))
    train, test = (frame.iloc[part].astype(dict.fromkeys(words, str)) for part in (order[:rows], order[-test_rows:]))
    features = _encoded(train, test, numbers, words)
    labels = [part[label].to_numpy(dtype=float) for part in (train, test)]
    return Data(space, features[0], labels[0], features[1], labels[1])


def limited_claims(folder: Path) -> Data:
    """Claims, with the limit of the theory at each epsilon."""
    return replace(claims(folder), limited=True)


def limited(rows: int, columns: int, epsilon: float) -> Interval:
    """From 0 to the limit that balances what it cuts off and the noise it saves, in means of ``rows / columns`` labels.

    ``clip_for`` is for one draw of noise on a sum of n labels, of variance 8 T^2 / (n epsilon)^2 in the mean. Labels
    with noise each have 8 T^2 / (m epsilon^2) in a mean of m: that of n = sqrt(m).
    """
    limit = clip_for(math.sqrt(rows / columns), epsilon, 2, CLAIM_SQUARE)
    return Interval(0, round(limit, -2), 10)


def ratings(folder: Path) -> Data:
    """MovieLens-100k, some ratings (1 to 5): age, gender, year, how often both rate, and factors of who rated what."""
    return _rated(folder, ROWS, TEST_ROWS)


def all_ratings(folder: Path) -> Data:
    """All ratings, of users and films by their numbers, with the split of ``movielens.py``."""
    return _rated(folder, None, None)


def _rated(folder: Path, rows: int | None, test_rows: int | None) -> Data:
    from movielens import loaded, public_features  # noqa: PLC0415 (it needs torch)

    found = loaded(folder / "movielens-100k" / "u.data.gz")
    sides, parts = public_features(found), (found.rows[:rows], found.test_rows[:test_rows])
    features, test_features = (_of_pairs(sides, part[:, :2].astype(int)) for part in parts)
    labels, test_labels = found.labels[:rows].astype(float), found.test_labels[:test_rows].astype(float)
    return Data(Interval(1, 5, 1), features, labels, test_features, test_labels, rated=parts)


def _of_pairs(sides: list[np.ndarray], pairs: np.ndarray) -> np.ndarray:
    """Features of a user and a film, and products of their factors of who rated what."""
    user, film = (side[pairs[:, place]] for place, side in enumerate(sides))
    often, factors = -14, slice(-12, -12 + _FACTORS)  # the last columns: how often, its square, and 12 factors
    columns = [user[:, [0, 1, often]], user[:, factors], film[:, [0, often]], film[:, factors]]
    return np.column_stack([*columns, user[:, factors] * film[:, factors]]).astype(np.float32)


TABLES: dict[str, Callable[[Path], Data]] = {
    "progression": progression,
    "age": age,
    "ratings": ratings,
    "claims": claims,
    "limited claims": limited_claims,
    "all ratings": all_ratings,
}


def _encoded(
    train: pd.DataFrame, test: pd.DataFrame, numbers: list[str], words: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Scaled numbers, and the three most frequent words of each column and the rest."""
    frequent = OneHotEncoder(max_categories=4, drop="if_binary", handle_unknown="infrequent_if_exist")
    encoder = ColumnTransformer(
        [("numbers", StandardScaler(), numbers), ("words", frequent, words)], sparse_threshold=0.0
    )
    return tuple(np.asarray(part, dtype=np.float32) for part in (encoder.fit_transform(train), encoder.transform(test)))
