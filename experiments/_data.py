"""The tables of the experiments: features that are public, labels that are private, and rows held out for a test.

Digits come with scikit-learn. The others are read from the folder in the environment variable LABELDP_DATA, from files
named as their publishers name them. Every choice of rows here is made by a fixed generator, without a look at labels.
"""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from labeldp import Classes

MNIST_ROWS = 20_000
PATIENTS, TEST_PATIENTS = 15_000, 10_000

_ADULT_NUMBERS = [0, 2, 4, 10, 11, 12]
_ADULT_WORDS = [1, 3, 5, 6, 7, 8, 9, 13]
VISIT_NUMBERS = [
    "age",
    "time_in_hospital",
    "num_lab_procedures",
    "num_procedures",
    "num_medications",
    "number_outpatient",
    "number_emergency",
    "number_inpatient",
    "number_diagnoses",
]
VISIT_WORDS = [
    "race",
    "gender",
    "admission_type_id",
    "discharge_disposition_id",
    "admission_source_id",
    "medical_specialty",
    "diag_1",
    "max_glu_serum",
    "A1Cresult",
    "metformin",
    "insulin",
    "change",
    "diabetesMed",
]


@dataclass(frozen=True)
class Data:
    """A table in two parts.

    Attributes:
        space: The declared classes.
        features: Features to fit on, shape (n, d).
        labels: True labels of those rows; only a curator sees them.
        test_features: Features of the rows held out.
        test_labels: True labels of the rows held out, read to score a finished model.
        clusters: Clusters of the features that share a prior.
        units: Who is one unit with whom, one entry for each row to fit on; None where each row is one.
        columns: The same features to fit on and to test with, words as numbers in few columns, for trees.
    """

    space: Classes
    features: np.ndarray
    labels: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray
    clusters: int
    units: np.ndarray | None = None
    columns: tuple[np.ndarray, np.ndarray] | None = None


def digits(_: Path) -> Data:
    """1 797 scanned digits of 8 x 8 pixels, three in ten of them held out."""
    features, labels = load_digits(return_X_y=True)
    held_out = np.random.default_rng(0).random(len(labels)) < 0.3
    features = features / 16.0
    return Data(
        Classes(range(10)), features[~held_out], labels[~held_out], features[held_out], labels[held_out], clusters=10
    )


def adult(folder: Path) -> Data:
    """Adult, with its own test file: is an income above 50 000 dollars?"""
    parts = []
    for name, skipped in (("adult.data.gz", 0), ("adult.test.gz", 1)):
        frame = pd.read_csv(folder / "adult" / name, header=None, skipinitialspace=True, skiprows=skipped)
        frame[[10, 11]] = np.log1p(frame[[10, 11]])  # gains and losses of capital
        parts.append((frame, frame.pop(14).str.rstrip(".").to_numpy()))
    (train, labels), (test, test_labels) = parts
    wide, columns = encoded(train, test, _ADULT_NUMBERS, _ADULT_WORDS)
    return Data(Classes(["<=50K", ">50K"]), wide[0], labels, wide[1], test_labels, clusters=20, columns=columns)


def diabetes(folder: Path) -> Data:
    """Stays in hospital of patients with diabetes: are they readmitted, and within 30 days?"""
    frame = pd.read_csv(
        folder / "diabetes-readmission" / "diabetic_data.csv.gz", keep_default_na=False, low_memory=False
    )
    frame["age"] = frame["age"].str.extract(r"(\d+)", expand=False).astype(int)
    frame["diag_1"] = frame["diag_1"].str.extract(r"^([EV]?\d?\d?)", expand=False)  # 250.83 becomes 25, V57 V57
    visits = ["number_outpatient", "number_emergency", "number_inpatient"]
    frame[visits] = np.log1p(frame[visits])
    numbers = np.unique(frame["patient_nbr"])
    chosen = np.random.default_rng(0).permutation(numbers)[: PATIENTS + TEST_PATIENTS]
    train = frame[frame["patient_nbr"].isin(chosen[:PATIENTS])]
    test = frame[frame["patient_nbr"].isin(chosen[PATIENTS:])]
    wide, columns = encoded(train, test, VISIT_NUMBERS, VISIT_WORDS)
    return Data(
        Classes(["NO", ">30", "<30"]),
        wide[0],
        train["readmitted"].to_numpy(),
        wide[1],
        test["readmitted"].to_numpy(),
        clusters=20,
        units=train["patient_nbr"].to_numpy(),
        columns=columns,
    )


def mnist(folder: Path) -> Data:
    """The first 20 000 training images and all test images, each pixel the mean of 2 x 2."""
    parts = []
    for part, rows in (("train", MNIST_ROWS), ("t10k", 10_000)):
        pixels, labels = (
            np.frombuffer(gzip.decompress((folder / "mnist" / f"{part}-{kind}-ubyte.gz").read_bytes()), np.uint8)
            for kind in ("images-idx3", "labels-idx1")
        )
        images = pixels[16:].reshape(-1, 14, 2, 14, 2)[:rows].mean(axis=(2, 4)) / 255.0
        parts.append((images.reshape(rows, -1).astype(np.float32), labels[8:][:rows].astype(np.int64)))
    (features, labels), (test_features, test_labels) = parts
    return Data(Classes(range(10)), features, labels, test_features, test_labels, clusters=30)


TABLES: dict[str, Callable[[Path], Data]] = {"digits": digits, "adult": adult, "diabetes": diabetes, "mnist": mnist}


def encoded(
    train: pd.DataFrame, test: pd.DataFrame, numbers: list, words: list
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Features for a linear model (scaled, one column for each frequent word) and for trees (one for each column)."""
    linear = ColumnTransformer(
        [
            ("numbers", StandardScaler(), numbers),
            ("words", OneHotEncoder(max_categories=25, handle_unknown="infrequent_if_exist"), words),
        ],
        sparse_threshold=0.0,
    )
    flat = ColumnTransformer(
        [
            ("numbers", "passthrough", numbers),
            ("words", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), words),
        ]
    )
    wide, narrow = (
        tuple(np.asarray(part, dtype=np.float32) for part in (encoder.fit_transform(train), encoder.transform(test)))
        for encoder in (linear, flat)
    )
    return wide, narrow
