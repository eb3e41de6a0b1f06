"""Forty things that analysts do to a table between two releases: the second is refused, or the documents say so."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, release_table
from labeldp.errors import BudgetError

ROWS = 400
NUMBERS = ["age", "income"]


def people(seed, rows=ROWS):
    """A table of two columns of numbers, two of texts, and a label."""
    chance = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": chance.integers(18, 95, rows),
            "income": np.round(np.exp(chance.normal(10, 0.7, rows)), 2),
            "city": [f"city {i}" for i in chance.integers(0, 12, rows)],
            "sex": chance.choice(["f", "m"], rows),
            "ill": chance.choice(["no", "yes"], rows),
        }
    )


def shuffled(frame):
    """The rows in another order."""
    return frame.sample(frac=1.0, random_state=3)


def mapped(frame, change, names=NUMBERS):
    """The table with other numbers in some columns."""
    return frame.assign(**{name: change(frame[name].astype(float)) for name in names})


def z_scores(frame, names=NUMBERS):
    """The table with numbers of mean 0 and standard deviation 1."""
    return mapped(frame, lambda x: (x - x.mean()) / x.std(), names)


def one_hot(frame):
    """The table with a column of flags for each text."""
    return pd.get_dummies(frame, columns=["city", "sex"])


def coded(frame, *names):
    """The table with numbers in the place of texts."""
    return frame.assign(**{name: frame[name].astype("category").cat.codes for name in names})


def corrected(frame):
    """One age is another, and two rows are new."""
    changed = frame.copy()
    changed.loc[17, "age"] += 1
    return pd.concat([people(5, 2), changed], ignore_index=True)


def banded(x):
    """Quarters of a column."""
    return pd.qcut(x, 4, labels=False).astype(float)


#: What is known again.
KNOWN = {
    "a copy": lambda t: t,
    "sorted by income": lambda t: t.sort_values("income"),
    "columns renamed and shuffled": lambda t: shuffled(t.rename(columns={"age": "a", "income": "b", "city": "c"})),
    "months for years": lambda t: t.assign(age=t["age"] * 12),
    "months for years, shuffled": lambda t: shuffled(t.assign(age=t["age"] * 12)),
    "decades, shuffled": lambda t: shuffled(t.assign(age=t["age"] // 10 * 10)),
    "bands of ages, shuffled": lambda t: shuffled(t.assign(age=pd.cut(t["age"], 5, labels=list("abcde")).astype(str))),
    "city as a number, shuffled": lambda t: shuffled(coded(t, "city")),
    "city and sex as numbers, shuffled": lambda t: shuffled(coded(t, "city", "sex")),
    "one-hot, shuffled": lambda t: shuffled(one_hot(t)),
    "half of the rows": lambda t: shuffled(t).iloc[: ROWS // 2],
    "every second row": lambda t: t.iloc[::2],
    "a joined column": lambda t: shuffled(t.assign(people=t["city"].str.len() * 1000)),
    "new rows on top of a corrected one": corrected,
    "every row twice": lambda t: pd.concat([t, t]),
    "without copies": lambda t: t.drop_duplicates(),
    "a tenth of incomes missing": lambda t: shuffled(t.assign(income=t["income"].where(t.index % 10 != 0))),
    "incomes cut off at the top": lambda t: shuffled(t.assign(income=t["income"].clip(upper=60_000))),
    "income in thousands": lambda t: shuffled(t.assign(income=t["income"] / 1000)),
    "logarithm of income, shuffled": lambda t: shuffled(mapped(t, np.log, ["income"])),
    "z-scores": z_scores,
    "z-scores, shuffled": lambda t: shuffled(z_scores(t)),
    "z-scores and other names, shuffled": lambda t: shuffled(z_scores(t)).rename(columns={"age": "x", "income": "a"}),
    "z-scores alone, shuffled": lambda t: shuffled(z_scores(t)).drop(columns=["city", "sex"]),
    "z-scores and one-hot, shuffled": lambda t: shuffled(one_hot(z_scores(t))),
    "z-scores and city as a number, shuffled": lambda t: shuffled(coded(z_scores(t), "city")),
    "z-scores and products, shuffled": lambda t: shuffled(z_scores(t.assign(both=t["age"] * t["income"]))),
    "z-score of age without income, shuffled": lambda t: shuffled(z_scores(t, ["age"])).drop(columns="income"),
    "z-scores, decreasing, shuffled": lambda t: shuffled(mapped(z_scores(t), lambda x: -x, ["age"])),
    "from 0 to 1, shuffled": lambda t: shuffled(mapped(t, lambda x: (x - x.min()) / (x.max() - x.min()))),
    "logarithms, shuffled": lambda t: shuffled(mapped(t, np.log)),
    "roots and squares, shuffled": lambda t: shuffled(mapped(mapped(t, np.sqrt, ["income"]), np.square, ["age"])),
    "months and another currency, shuffled": lambda t: shuffled(mapped(mapped(t, lambda x: x * 1.1), lambda x: x * 12)),
    "ranks, shuffled": lambda t: shuffled(mapped(t, lambda x: x.rank())),
    "quantiles, shuffled": lambda t: shuffled(mapped(t, lambda x: x.rank(pct=True))),
    "reciprocals, shuffled": lambda t: shuffled(mapped(t, lambda x: 1 / x)),
    "bands of both, shuffled": lambda t: shuffled(mapped(t, banded)),
}

#: What evades the ledger; `docs/design/ledger.md` lists each by this name.
EVADES = {
    "scaled numbers of a part of the rows (a train/test split)": lambda t: shuffled(z_scores(t)).iloc[:300],
    "scaled numbers with new rows among them": lambda t: shuffled(z_scores(pd.concat([t, people(6, 5)]))),
    "scaled numbers that were rounded": lambda t: shuffled(mapped(z_scores(t), lambda x: x.round(1))),
    "noise on two columns that identify rows": lambda t: shuffled(
        mapped(t, lambda x: x + np.random.default_rng(7).normal(0, x.std() / 10, len(x)))
    ),
    "an altered column and one that is added, in a part of the rows": lambda t: shuffled(
        t.assign(age=t["age"] // 10, more=np.sqrt(t["income"]))
    ).iloc[:300],
}
#: What leaves values that other people have as well: they are taken for the same, and are declared.
ALIKE = {
    "new rows on top of a corrected one",
    "a tenth of incomes missing",
    "ranks, shuffled",
    "quantiles, shuffled",
    "bands of both, shuffled",
    "scaled numbers that were rounded",
}


def release(folder, frame, output, **options):
    """Release a table at epsilon 1 from a file of its own in a folder of its own."""
    (folder / output).mkdir()
    path = folder / output / f"{output}.parquet"
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    space = Classes(["no", "yes"])
    return release_table(path, "ill", space, 1.0, folder / output / "o", drop=[], unit="row", **options)


@pytest.mark.parametrize("edit", KNOWN)
def test_a_table_that_was_prepared_is_known(tmp_path, edit):
    """Whatever an analyst did to it: the ledger knows that these people were released."""
    first = release(tmp_path, people(0), "first")
    with pytest.raises(BudgetError):
        release(tmp_path, KNOWN[edit](people(0)), "second", ledger=first.ledger)


@pytest.mark.parametrize("edit", EVADES)
def test_what_evades_the_ledger_is_what_the_document_lists(tmp_path, edit):
    """An edit that is known by now belongs among the others, and leaves the document."""
    first = release(tmp_path, people(0), "first")
    assert release(tmp_path, EVADES[edit](people(0)), "second", ledger=first.ledger).spent == (1.0, 0.0)
    document = Path(__file__).parents[3] / "docs" / "design" / "ledger.md"
    assert f"- {edit};" in " ".join(document.read_text(encoding="utf-8").split("\n"))


@pytest.mark.parametrize("edit", [each for each in (*KNOWN, *EVADES) if each not in ALIKE])
def test_other_people_who_were_prepared_alike_are_others(tmp_path, edit):
    """What is done to a table makes it no other one's: as many other people have a budget of their own."""
    change = (KNOWN | EVADES)[edit]
    first = release(tmp_path, change(people(0)), "first")
    assert release(tmp_path, change(people(1)), "second", ledger=first.ledger).spent == (1.0, 0.0)
