import dataclasses
import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as dp
from labeldp._random_words import TapeWords
from labeldp.errors import EpsilonError, InputError, LabelError, VerificationError
from labeldp.mechanisms.queries import ExchangedLabels
from labeldp.mechanisms.resampling import ColumnForm, FeatureLaw, seen_in

SPACE = dp.Classes(["no", "yes"])
FORM = dp.Form(
    (ColumnForm("town", "string", values=("Bonn", "Ulm", "Wien")), ColumnForm("age", "int64", low=0, high=99))
)
PUBLIC = dp.Source("public", "a made-up town")


def sampler(codes):
    """Rows whose town goes with the class."""
    random = np.random.default_rng()
    towns = np.array(["Bonn", "Ulm", "Wien"])[np.minimum(codes + random.integers(0, 2, len(codes)), 2)]
    return pd.DataFrame({"town": towns, "age": random.integers(0, 100, len(codes))})


def even_towns(codes):
    """Towns at random, the same for every class."""
    return pd.DataFrame({"town": np.random.default_rng().choice(["Bonn", "Ulm", "Wien"], len(codes))})


GENERATOR = dp.Generator(SPACE, FORM, PUBLIC, sampler)
FLOORED = dp.Generator(SPACE, dp.Form(FORM.columns[:1]), PUBLIC, even_towns, log_floor=-math.log(3))


def features(count):
    """Rows of one town and one age, which no generator draws all alike."""
    return pd.DataFrame({"town": ["Ulm"] * count, "age": [50] * count})


def curator(count=200, **options):
    """Labels that alternate."""
    return dp.Curator((["no", "yes"] * count)[:count], SPACE, **options)


@pytest.fixture
def released():
    """Two hundred released rows."""
    return curator().randomize_rows(
        dp.DoubleResponse(SPACE, 1.0, GENERATOR), features(200), divergences={2.0: 0.3, math.inf: 1.5}
    )


def marked_sampler(codes):
    """Rows that nobody has, which tell the class that they were drawn for."""
    return pd.DataFrame({"town": ["Wien"] * len(codes), "age": np.asarray(codes)})


@pytest.mark.parametrize("replaced", [None, 0.25, 1.0])
def test_features_are_redrawn_with_exactly_the_stated_chance_and_class(replaced):
    """ClassIndicators over all words of a tape: which rows are redrawn, and for which class, is what the law says."""
    double = dp.DoubleResponse(SPACE, 1.0, dataclasses.replace(GENERATOR, sampler=marked_sampler), replaced)
    law = double.law("anyone")
    steps = np.arange(256, dtype=np.uint64) << np.uint64(56)  # evenly over all words
    edge = law.replaced
    words = [edge - 1] + ([edge] if edge < 1 << 64 else [])
    tape = [(int(step), which) for step in steps for which in (4, 7)] + [(word, 1) for word in words]
    original = double.original_features(features(len(tape)), len(tape))
    drawn = double.draw(original, TapeWords(np.array(tape, dtype=np.uint64).ravel())).to_pandas()
    expected = [(word < edge, which % 2) for word, which in tape]
    assert [(town == "Wien") for town in drawn["town"]] == [redrawn for redrawn, _ in expected]
    assert all(age == code for age, (redrawn, code) in zip(drawn["age"], expected, strict=True) if redrawn)
    asked = replaced if replaced is not None else double.noise
    assert abs(law.chance - Fraction(asked)) <= Fraction(1, 1 << 50)


def test_labels_and_features_are_drawn_apart():
    """The same words of features with other labels give the same features, and the other way round."""
    double, rows = dp.DoubleResponse(SPACE, 1.0, dataclasses.replace(GENERATOR, sampler=marked_sampler)), features(64)
    tapes = [np.random.default_rng(seed).integers(0, 1 << 64, 200, dtype=np.uint64) for seed in (1, 2, 3)]

    def run(labels, label_tape, feature_tape):
        return dp.Curator(labels, SPACE)._randomize_rows(
            double, rows, None, None, "anyone", TapeWords(label_tape), TapeWords(feature_tape)
        )

    ones, others = ["no"] * 64, ["no"] * 63 + ["yes"]
    first, second = run(ones, tapes[0], tapes[1]), run(others, tapes[0], tapes[1])
    assert first.features == second.features
    assert np.flatnonzero(first.labels.codes != second.labels.codes).tolist() in ([63], [])
    third = run(ones, tapes[0], tapes[2])
    assert third.features != first.features
    assert (third.labels.codes == first.labels.codes).all()
    assert not first.certificate.private


def test_the_conditional_guarantee_is_never_below_the_truth_and_close_to_it():
    """On random finite laws of features the stated sum bounds what whole rows diverge by, and nearly is it."""
    random, closest = np.random.default_rng(3), 0.0
    for _ in range(300):
        k, cells = int(random.integers(2, 4)), int(random.integers(2, 5))
        original = random.dirichlet(np.full(cells, 0.6), size=k) + 1e-9
        original /= original.sum(axis=1, keepdims=True)
        drawn = random.dirichlet(np.full(cells, 0.8), size=k).mean(axis=0) + 1e-6
        drawn /= drawn.sum()
        channel = dp.RandomizedResponse(dp.Classes(range(k)), float(random.uniform(0.3, 3))).channel()
        alpha, replaced = float(random.choice([1.2, 2.0, 6.0])), int(random.integers(1 << 56, 1 << 63)) * 2
        apart = max(0.0, *(math.log((law**alpha * drawn ** (1 - alpha)).sum()) / (alpha - 1) for law in original))
        law = FeatureLaw.of(replaced, k, GENERATOR.describe(), "anyone", {alpha: apart}, None)
        (found,) = law.conditional(channel)
        chance, matrix = float(law.chance), channel.matrix()
        rows = [np.outer((1 - chance) * original[y] + chance * drawn, matrix[y]).ravel() for y in range(k)]
        truth = max(
            math.log((rows[y] ** alpha * rows[z] ** (1 - alpha)).sum()) / (alpha - 1)
            for y, z in itertools.permutations(range(k), 2)
        )
        assert truth <= found.epsilon + 1e-9
        assert (found.alpha, found.features) == (alpha, "conditional")
        closest = max(closest, truth / found.epsilon)
    assert closest > 0.98


def test_a_floor_of_the_density_proves_what_need_not_be_declared():
    """A generator that gives every row of its form a chance has a bound of its own; another promises nothing."""
    rows = curator().randomize_rows(dp.DoubleResponse(SPACE, 1.0, FLOORED), features(200)[["town"]])
    assert rows.law.basis == "floor"
    assert [each.alpha for each in rows.conditional] == [2.0, 8.0, 64.0, math.inf]
    pure, lam = rows.conditional[-1].epsilon, rows.replaced
    assert pure == pytest.approx(1.0 + math.log1p((1 - lam) / lam * 3), abs=1e-6)
    declared = dp.DoubleResponse(SPACE, 1.0, FLOORED).law("anyone", {2.0: 5.0})
    assert (declared.basis, declared.divergences) == ("floor", rows.law.divergences)  # what is proven is better
    better = dp.DoubleResponse(SPACE, 1.0, FLOORED).law("anyone", {2.0: 0.3})
    floor = rows.law.divergences[0][1]
    assert better.divergences == ((2.0, 0.3), (8.0, floor), (64.0, floor), (math.inf, floor))
    nothing = curator().randomize_rows(dp.DoubleResponse(SPACE, 1.0, GENERATOR), features(200))
    assert nothing.conditional == ()
    assert "nothing is promised of what the released features tell" in nothing.certificate.sentence


def test_a_declared_divergence_and_a_proven_one_stand_side_by_side():
    """Each order has the smaller of the two bounds, no law diverges by more, and a folder that has both verifies."""
    random, towns = np.random.default_rng(5), ("Bonn", "Ulm", "Wien")
    form = dp.Form((ColumnForm("town", "string", values=towns),))
    for alpha, *_ in itertools.product([1.5, 2.0, 8.0, 20.0, math.inf], range(20)):
        original, drawn = random.dirichlet(np.ones(3), size=2) + 1e-6, random.dirichlet(np.full(3, 4.0)) + 1e-3
        original, drawn = original / original.sum(axis=1, keepdims=True), drawn / drawn.sum()
        described = dp.Generator(SPACE, form, PUBLIC, lambda codes: codes, log_floor=math.log(drawn.min())).describe()

        def truth(order, original=original, drawn=drawn):
            if math.isinf(order):
                return math.log((original / drawn).max())
            return max(0.0, math.log((original**order * drawn ** (1 - order)).sum(axis=1).max()) / (order - 1))

        of = (1 << 63, 2, described, "anyone")
        declared = FeatureLaw.of(*of, {alpha: truth(alpha)}, None)
        proven = FeatureLaw.of(*of, None, math.log(drawn.min()))
        both = FeatureLaw.of(*of, {alpha: truth(alpha)}, math.log(drawn.min()))
        assert {order for order, _ in (*declared.divergences, *proven.divergences)} == dict(both.divergences).keys()
        for order, bound in both.divergences:
            known = [each for above, each in declared.divergences if above >= order] + [proven.divergences[0][1]]
            assert truth(order) - 1e-12 <= bound == min(known)
        assert FeatureLaw.from_plain(json.loads(json.dumps(both.plain()))) == both


def test_the_sentence_of_each_order_says_what_its_bound_rests_on(tmp_path):
    """Beside a declared bound at one order, the others rest on the floor of the generator's density."""
    rows = curator().randomize_rows(
        dp.DoubleResponse(SPACE, 1.0, FLOORED), features(200)[["town"]], divergences={2.0: 0.3}
    )
    first, *others = rows.conditional
    assert "by at most 0.3, as declared" in first.sentence()
    assert len(others) == 3
    assert all("gives every row of its form the chance" in each.sentence() for each in others)
    assert dp.verify(rows.save(tmp_path / "rows")).holds
    forged(tmp_path / "rows", lambda body: law_of(body).update(floor="1.0"))
    assert not dp.verify(tmp_path / "rows").holds


def test_labels_alone_promise_the_same_of_any_features():
    """Without features the conditional guarantee is that of the label, exactly, and rests on no divergence."""
    rows = curator().randomize_rows(dp.DummyResponse(SPACE, 1.0))
    assert rows.features.num_columns == 0
    assert rows.conditional[-1].epsilon == rows.guarantee.epsilon
    assert "any law of features" in rows.certificate.sentence
    with pytest.raises(InputError, match="found labels alone"):
        rows.array()


def test_rows_survive_a_folder(released, tmp_path):
    """What was saved verifies, loads the same, and its labels open as any release."""
    folder = released.save(tmp_path / "rows")
    assert dp.verify(folder).holds
    again = dp.RowRelease.load(folder)
    assert again.features == released.features
    assert (again.labels.codes == released.labels.codes).all()
    assert again.conditional == released.conditional
    assert again.conditional[0].features == "conditional"
    assert dp.Release.load(folder).guarantee == released.guarantee
    assert len(again.take(slice(3, 8))) == 5
    assert again.take([5]).features.to_pylist() == again.features.slice(5, 1).to_pylist()
    plain = curator().randomize(dp.RandomizedResponse(SPACE, 1.0)).save(tmp_path / "labels")
    with pytest.raises(VerificationError, match="public features"):
        dp.RowRelease.load(plain)


def test_own_and_drawn_rows_leave_in_one_form(tmp_path):
    """Whatever own values look like, all released rows have the generator's types, precision, range and spelling."""
    form = dp.Form.of(pd.DataFrame({"x": [0.25, 1.5, 7.75], "town": ["Ulm", "Bonn", "Ulm"]}))

    def drawn(codes):
        random = np.random.default_rng()
        return pd.DataFrame({"x": random.normal(3, 2, len(codes)), "town": random.choice(["Ulm", "Bonn"], len(codes))})

    odd = pd.DataFrame(
        {"x": [-0.0, 1e300, np.nan, math.inf, 1 / 3] * 40, "town": ["ulm", None, "Bonn", "?", "Ulm"] * 40}
    )
    double = dp.DoubleResponse(SPACE, 1.0, dp.Generator(SPACE, form, PUBLIC, drawn))
    rows = curator().randomize_rows(double, odd)
    assert rows.features.schema == form.schema
    again, changed = form.shaped(rows.features)
    assert again == rows.features
    assert not changed.any()
    folder = rows.save(tmp_path / "rows")
    stored = pq.read_table(folder / "data.parquet")
    assert stored["town"].null_count == stored["x"].null_count == 0


@pytest.mark.parametrize("earlier", ["redrawn", "kept"])
def test_features_do_not_leave_twice(tmp_path, earlier):
    """A second release of the features of the same rows is refused, and of other rows it is not."""
    table = tmp_path / "table.csv"
    features(40).assign(y=["no", "yes"] * 20).to_csv(table, index=False)

    def release(name, mechanism, keep=("town", "age"), **options):
        return dp.release_table(
            table, "y", SPACE, 1.0, tmp_path / name, keep=keep, mechanism=mechanism, budget=9, **options
        )

    double = dp.DoubleMechanism(GENERATOR)
    release("first", double if earlier == "redrawn" else "auto")
    with pytest.raises(InputError, match="comparing the two would disclose"):
        release("second", double)
    if earlier == "redrawn":
        with pytest.raises(InputError, match="comparing the two would disclose"):
            release("third", "auto", keep=("age",))
    release("labels", "dummy", keep=())
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize(
    "other",
    [
        {"mechanism": dp.ClusterMechanism("town")},
        {"mechanism": dp.ClusterMechanism(np.arange(40) % 2)},
        {"mechanism": dp.ShuffleMechanism("town", delta=1e-3), "budget": (9, 0.1)},
        {"mechanism": dp.ResampledMechanism("p_")},
        {"unit": "town", "renumber": True},
    ],
    ids=["clusters", "numbers of clusters", "shuffled clusters", "priors", "made-up numbers"],
)
@pytest.mark.parametrize("first", [True, False])
def test_features_do_not_leave_beside_resampled_ones_by_other_options(tmp_path, other, first):
    """Clusters, priors and numbers that follow from public columns disclose features as kept columns do."""
    table, number = tmp_path / "table.csv", np.arange(40)
    table_of = features(40).assign(number=number * 7919 % 1009, p_no=0.5, p_yes=0.5, y=["no", "yes"] * 20)
    table_of.to_csv(table, index=False)
    double = {"keep": ["town", "age"], "mechanism": dp.DoubleMechanism(GENERATOR), "unit": "row"}
    one, two = (other, double) if first else (double, other)
    options = {"keep": [], "budget": 9}
    dp.release_table(table, "y", SPACE, 1.0, tmp_path / "one", **options | one)
    with pytest.raises(InputError, match="comparing the two would disclose"):
        dp.release_table(table, "y", SPACE, 1.0, tmp_path / "two", **options | two)


def test_features_leave_once_in_another_order_too(tmp_path):
    """A shuffled copy of rows whose features were kept, elsewhere, is known to the ledger that counts them."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"town": random.choice(["Bonn", "Ulm"], 200), "age": random.integers(0, 100, 200)})
    frame = frame.assign(y=random.choice(["no", "yes"], 200))
    frame.to_csv(tmp_path / "table.csv", index=False)
    done = dp.release_table(tmp_path / "table.csv", "y", SPACE, 1.0, tmp_path / "first", drop=[])
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / "copy.parquet"
    frame.sample(frac=1, random_state=1).to_parquet(copy, index=False)
    asked = {"mechanism": dp.DoubleMechanism(GENERATOR), "budget": 9, "ledger": done.ledger}
    with pytest.raises(InputError, match="comparing the two would disclose"):
        dp.release_table(copy, "y", SPACE, 1.0, tmp_path / "second", keep=["town", "age"], **asked)


@pytest.mark.parametrize(
    ("mechanism", "keep"), [(dp.DoubleMechanism(GENERATOR), ["town", "age"]), ("dummy", [])], ids=["double", "dummy"]
)
def test_the_files_of_a_table_do_not_show_beside_resampled_features(tmp_path, mechanism, keep):
    """How rows are split into files may depend on features: one file leaves, in row groups of one length."""
    groups = set()
    for number, sizes in enumerate(([7, 293, 100], [200, 100, 100], [400])):
        folder = tmp_path / f"t{number}"
        folder.mkdir()
        table = features(400).assign(age=np.arange(400) % 100, y=["no", "yes"] * 200)
        for part, high in enumerate(np.cumsum(sizes)):
            table[high - sizes[part] : high].to_parquet(folder / f"{part}.parquet", index=False)
        options = {"other_people": "a test of its own", "mechanism": mechanism, "keep": keep}
        done = dp.release_table(folder, "y", SPACE, 1.0, tmp_path / f"o{number}", **options)
        written = pq.ParquetFile(done.output / "data.parquet").metadata
        groups.add(tuple(written.row_group(i).num_rows for i in range(written.num_row_groups)))
    assert groups == {(400,)}


def test_features_leave_once_whatever_the_label(tmp_path):
    """Features that left redrawn with one label do not leave with another, or as one."""
    table = tmp_path / "table.csv"
    features(40).assign(y=["no", "yes"] * 20, z=["no", "yes"] * 20).to_csv(table, index=False)
    asked = {"mechanism": dp.DoubleMechanism(GENERATOR), "budget": 9}
    dp.release_table(table, "y", SPACE, 1.0, tmp_path / "first", keep=["town", "age"], **asked)
    with pytest.raises(InputError, match="comparing the two would disclose"):
        dp.release_table(table, "z", SPACE, 1.0, tmp_path / "second", keep=["town", "age"], **asked)
    with pytest.raises(InputError, match="comparing the two would disclose"):
        dp.release_table(table, "age", dp.Classes([50, 51]), 1.0, tmp_path / "third", keep=["town"], budget=9)
    dp.release_table(table, "z", SPACE, 1.0, tmp_path / "alone", keep=[], budget=9)
    copy = tmp_path / "copy.csv"
    copy.write_bytes(table.read_bytes())
    with pytest.raises(InputError, match="comparing the two would disclose"):
        dp.release_table(copy, "z", SPACE, 1.0, tmp_path / "fourth", keep=["town", "age"], budget=9)


def test_rows_of_a_curator_leave_once(tmp_path):
    """Other rows may leave, rows that left may not, and labels that are drawn later are saved without a table."""
    holder, double = curator(budget=(9, 1e-2)), dp.DoubleResponse(SPACE, 1.0, GENERATOR)
    holder.randomize_rows(double, features(100), slice(0, 100))
    holder.randomize_rows(double, features(100), slice(100, 200))
    with pytest.raises(InputError, match="comparing the two would disclose"):
        holder.randomize_rows(double, features(3), [3, 50, 120])
    assert holder.spent == (1.0, 0.0)
    labels = holder.randomize(dp.RandomizedResponse(SPACE, 1.0), slice(0, 50))
    with pytest.raises(InputError, match="save the labels alone"):
        labels.save(tmp_path / "both", features(50), keep="all")
    exchanged = holder.answer(ExchangedLabels(SPACE, dp.PeerExchange(0.2), np.zeros(50, dtype=int), 1e-3), slice(0, 50))
    with pytest.raises(InputError, match="save the labels alone"):
        exchanged.save(tmp_path / "both", features(50), keep="all")
    mine = dp.cluster_response(holder, np.zeros(200, dtype=int), 0.5).release
    with pytest.raises(InputError, match="save the labels alone"):
        mine.save(tmp_path / "both", features(200), keep="all")
    assert dp.verify(labels.save(tmp_path / "alone")).holds
    again = holder.randomize_rows(dp.DummyResponse(SPACE, 1.0), rows=slice(50, 100))
    assert dp.verify(again.save(tmp_path / "dummy")).holds


@pytest.mark.parametrize("table", [None, features(200)], ids=["alone", "with a table"])
def test_labels_of_rows_are_not_saved_apart(released, tmp_path, table):
    """Beside true features their certificate would be wrong: rows are saved whole."""
    with pytest.raises(InputError, match="save the rows"):
        released.labels.save(tmp_path / "out", table, keep=None if table is None else "all")


ODD = ["12.5", "1e3", "unknown", "+30", " 30", "inf", "", "9" * 40, "0x10"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_no_private_value_decides_whether_it_fails(tmp_path, kind):
    """Whatever the features of a table say, it is released, and every row is in form."""
    frame = features(200).astype({"age": str})
    frame.loc[: len(ODD) - 1, "age"] = ODD
    frame.loc[: len(ODD) - 1, "town"] = ODD
    path = tmp_path / f"table.{kind}"
    getattr(frame.assign(y=["no", "yes"] * 100), f"to_{kind}")(path, index=False)
    done = dp.release_table(
        path, "y", SPACE, 1.0, tmp_path / "out", keep=["town", "age"], mechanism=dp.DoubleMechanism(GENERATOR)
    )
    assert dp.verify(done.output).holds
    assert "9 rows had features outside the generator's form" in " ".join(done.notes)
    ages = dp.RowRelease.load(done.output).features["age"].to_numpy()
    assert ((ages >= 0) & (ages <= 99)).all()


def test_no_python_object_decides_whether_it_fails():
    """A frame or a mapping whose columns hold objects of several types is released as any other."""
    ages = [12.5, "x", True, 2**70, None, math.nan, "7"] + [50] * 193
    for rows in (features(200).astype(object).assign(age=ages), {"town": ["Ulm"] * 200, "age": ages}):
        found = (
            curator().randomize_rows(dp.DoubleResponse(SPACE, 1.0, GENERATOR, 1e-9), rows).features["age"].to_pylist()
        )
        assert found[:8] == [12, 0, 0, 99, 0, 0, 7, 50]


def test_texts_are_read_as_what_they_say():
    """Numbers, days, times and flags are read, and what is none is missing."""
    form = dp.Form(
        (
            ColumnForm("whole", "int64"),
            ColumnForm("real", "double", low=-9.0, high=9.0),
            ColumnForm("day", "date32[day]"),
            ColumnForm("time", "timestamp[us]"),
            ColumnForm("flag", "bool"),
        )
    )
    rows = {
        "whole": ["+30", "12.5", "123456789012345678", "1e30", "x", "0x1"],
        "real": [" .5", "-5.", "1e-400", "nan", "inf", "1_0"],
        "day": ["2020-02-29", "2021-02-29", "2020-13-01", "20200101", "", "1970-01-01"],
        "time": [
            "2020-01-02 10:11:12.5",
            "2020-01-02T23:59",
            "2020-01-02 25:00",
            "2021-02-30 10:00",
            "x",
            "2020-01-02",
        ],
        "flag": ["true", "False", "1", "0", "yes", ""],
    }
    found = form.read(pa.table(rows)).to_pydict()
    assert found["whole"] == [30, 12, 123456789012345678, 1 << 62, None, None]
    assert found["real"] == [0.5, -5.0, 0.0, None, None, None]
    assert [None if day is None else day.isoformat() for day in found["day"]] == [
        "2020-02-29", None, None, None, None, "1970-01-01",
    ]  # fmt: skip
    assert [None if time is None else time.isoformat() for time in found["time"]] == [
        "2020-01-02T10:11:12.500000", "2020-01-02T23:59:00", None, None, None, "2020-01-02T00:00:00",
    ]  # fmt: skip
    assert found["flag"] == [True, False, True, False, None, None]


def failing(_):
    """A sampler that breaks down, and says what nobody should read."""
    raise ValueError("secret row 17")


BAD = {
    "fails": failing,
    "NaN midway": lambda codes: sampler(codes).assign(age=[np.nan, *[1.0] * (len(codes) - 1)]),
    "wrong columns": lambda codes: sampler(codes).rename(columns={"age": "years"}),
    "wrong types": lambda codes: sampler(codes).assign(age="old"),
    "too few rows": lambda codes: sampler(codes[:-1]),
    "infinite": lambda codes: sampler(codes).assign(age=math.inf),
}


@pytest.mark.parametrize("kind", sorted(BAD))
def test_a_generator_that_fails_lets_nothing_leave(kind, tmp_path):
    """Nothing is written, nothing is charged, and the message quotes no row."""
    double = dp.DoubleResponse(SPACE, 1.0, dataclasses.replace(GENERATOR, sampler=BAD[kind]))
    holder = curator(budget=1.0)
    with pytest.raises(InputError) as problem:
        holder.randomize_rows(double, features(200))
    assert "secret" not in str(problem.value)
    assert problem.value.__cause__ is None
    assert holder.spent == (0.0, 0.0)
    table = tmp_path / "table.csv"
    features(200).assign(y=["no", "yes"] * 100).to_csv(table, index=False)
    given = (table, "y", SPACE, 1.0, tmp_path / "out")
    with pytest.raises(InputError):
        dp.release_table(*given, keep=["town", "age"], mechanism=dp.DoubleMechanism(double.generator))
    assert sorted(path.name for path in tmp_path.iterdir() if "ledger" not in path.name) == ["table.csv"]
    done = dp.release_table(*given, keep=["town", "age"], mechanism=dp.DoubleMechanism(GENERATOR))
    assert done.spent == (1.0, 0.0)


def test_a_column_beside_those_that_a_generator_draws_is_refused(tmp_path):
    """It stays where features are resampled, and so tells which rows kept theirs."""
    features(40).assign(y=["no", "yes"] * 20, z=range(40)).to_csv(tmp_path / "t.csv", index=False)
    options = {"keep": ["age", "town", "z"], "mechanism": dp.DoubleMechanism(GENERATOR)}
    with pytest.raises(InputError, match="any other column would disclose which features are original"):
        dp.release_table(tmp_path / "t.csv", "y", SPACE, 1.0, tmp_path / "out", **options)


def test_a_table_is_released_whole(tmp_path):
    """A folder of files becomes one file in the generator's form, whose rows are its own or drawn."""
    (tmp_path / "in").mkdir()
    for part in range(3):
        frame = features(500).assign(y=["no", "yes"] * 250, name="nobody")
        frame.to_csv(tmp_path / "in" / f"{part}.csv", index=False)
    generator = dataclasses.replace(GENERATOR, sampler=marked_sampler)
    double = dp.DoubleMechanism(generator, replaced=0.25, divergences={2.0: 0.5}, population="a town")
    done = dp.release_table(tmp_path / "in", "y", SPACE, 1.0, tmp_path / "out", keep=["age", "town"], mechanism=double)
    assert dp.verify(done.output).holds
    rows = dp.RowRelease.load(done.output)
    assert [file.name for file in rows.certificate.files] == ["data.parquet"]
    assert rows.features.column_names == ["town", "age"]
    towns = rows.features["town"].to_numpy(zero_copy_only=False)
    drawn = np.count_nonzero(towns == "Wien")
    assert 250 < drawn < 510  # 375 expected; beyond 7 standard deviations, 1e-11
    assert not any("kept columns" in each for each in rows.certificate.assumptions)


REFUSED = {
    "no generator": lambda: dp.DoubleResponse(SPACE, 1.0, None),
    "another space": lambda: dp.DoubleResponse(dp.Classes(["a", "b"]), 1.0, GENERATOR),
    "never replaced": lambda: dp.DoubleResponse(SPACE, 1.0, GENERATOR, 0.0),
    "replaced too often": lambda: dp.DoubleResponse(SPACE, 1.0, GENERATOR, 1.5),
    "no epsilon": lambda: dp.DoubleResponse(SPACE, 0.0, GENERATOR),
    "no features": lambda: curator().randomize_rows(dp.DoubleResponse(SPACE, 1.0, GENERATOR)),
    "features of other rows": lambda: curator().randomize_rows(dp.DoubleResponse(SPACE, 1.0, GENERATOR), features(7)),
    "features with the label's name": lambda: curator(name="age").randomize_rows(
        dp.DoubleResponse(SPACE, 1.0, GENERATOR), features(200)
    ),
    "features for nothing": lambda: curator().randomize_rows(dp.DummyResponse(SPACE, 1.0), features(200)),
    "another curator": lambda: dp.Curator([1, 2], dp.Classes([1, 2])).randomize_rows(dp.DummyResponse(SPACE, 1.0)),
    "units": lambda: curator(units=[1] * 200).randomize_rows(dp.DummyResponse(SPACE, 1.0)),
    "an order of 1": lambda: FeatureLaw.of(1 << 63, 2, GENERATOR.describe(), "anyone", {1.0: 0.3}, None),
    "a divergence below 0": lambda: FeatureLaw.of(1 << 63, 2, GENERATOR.describe(), "anyone", {2.0: -0.3}, None),
    "an endless divergence": lambda: FeatureLaw.of(1 << 63, 2, GENERATOR.describe(), "anyone", {2.0: math.inf}, None),
    "divergences that fall": lambda: FeatureLaw(
        1 << 63, 2, GENERATOR.describe(), "anyone", ((2.0, 0.5), (math.inf, 0.1)), "declared"
    ),
    "an order beyond all": lambda: curator().randomize_rows(
        dp.DoubleResponse(SPACE, 1.0, GENERATOR), features(200), divergences={1e8: 0.3}
    ),
    "a divergence beyond all": lambda: curator().randomize_rows(
        dp.DoubleResponse(SPACE, 1.0, GENERATOR), features(200), divergences={2.0: 1e7}
    ),
    "nobody": lambda: FeatureLaw.of(1 << 63, 2, GENERATOR.describe(), " ", {2.0: 0.3}, None),
    "no chance": lambda: FeatureLaw.of(0, 2, GENERATOR.describe(), "anyone", None, None),
}


@pytest.mark.parametrize("what", sorted(REFUSED))
def test_what_does_not_go_together_is_refused(what):
    """Each has an error of its own, before anything is charged."""
    with pytest.raises((InputError, EpsilonError, LabelError), match="expected"):
        REFUSED[what]()


def test_a_generator_of_these_rows_is_refused():
    """One that was fitted on the private rows, or on a release of some of them, is not used on them."""
    rows = pd.DataFrame({"town": ["Ulm"] * 200, "age": np.arange(200) % 100})
    rows.loc[100:, "town"] = "Bonn"
    known = dataclasses.replace(GENERATOR, seen=seen_in(FORM, FORM.table(rows)))
    with pytest.raises(InputError, match="not fitted on"):
        curator().randomize_rows(dp.DoubleResponse(SPACE, 1.0, known), rows)
    holder = curator(budget=2.0)
    paid = holder.randomize(dp.RandomizedResponse(SPACE, 1.0), slice(0, 50))
    source = dp.Source("paid split", "the first fifty", paid.certificate.to_json())
    double = dp.DoubleResponse(SPACE, 1.0, dataclasses.replace(GENERATOR, source=source))
    with pytest.raises(InputError, match="a generator that was fitted on them"):
        holder.randomize_rows(double, features(60), slice(40, 100))
    rest = holder.randomize_rows(double, features(150), slice(50, 200))
    assert "paid" not in rest.guarantee.sentence()
    assert any("other rows, whose labels were released" in each for each in rest.certificate.assumptions)
    assert holder.spent == (1.0, 0.0)
    with pytest.raises(
        InputError, match="a generator that was fitted on them"
    ):  # the first fifty, by a generator of others
        holder.randomize_rows(dp.DoubleResponse(SPACE, 1.0, GENERATOR), features(50), slice(0, 50))
    source = dp.Source("paid split", "all", holder.randomize(dp.RandomizedResponse(SPACE, 0.5)).certificate.to_json())
    other = dp.DoubleResponse(SPACE, 0.1, dataclasses.replace(GENERATOR, source=source))
    with pytest.raises(InputError, match="a generator that was fitted on them"):  # that generator knows redrawn rows
        holder.randomize_rows(other, features(50), slice(0, 50))


def test_rows_are_not_joined(released):
    """Stages are of labels whose features are public."""
    with pytest.raises(InputError, match="resampled features"):
        dp.concatenate([(None, released.labels)])


def forged(path, change):
    """Change the certificate in a folder."""
    body = json.loads((path / "_certificate.json").read_text())
    change(body)
    (path / "_certificate.json").write_text(json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def law_of(body):
    """The law of features in a certificate."""
    return body["features"]["law"]


FORGERIES = {
    "less": lambda body: body["features"]["conditional"][0].update(epsilon="0.1"),
    "kept less": lambda body: law_of(body).update(replaced=str(1 << 64)),
    "without": lambda body: body.pop("features"),
    "closer": lambda body: law_of(body).update(divergences=[["2.0", "0.0"], ["inf", "0.0"]]),
    "unsaid": lambda body: body.update(assumptions=[each for each in body["assumptions"] if "generator" not in each]),
    "renamed": lambda body: body["charges"][0].update(mechanism="randomized-response"),
    "labels alone": lambda body: law_of(body).update(generator=None, basis="no features", replaced=str(1 << 64)),
    "a floor that no form has": lambda body: law_of(body).update(
        basis="floor", divergences=[[order, "0.01"] for order in ("2.0", "8.0", "64.0", "inf")]
    ),
    "a note": lambda body: law_of(body)["generator"].update(note="row 5 is yes"),
    "no certificate of a paid split": lambda body: law_of(body)["generator"]["source"].update(
        kind="paid split", certificate="{}"
    ),
    "another form": lambda body: law_of(body)["generator"]["form"]["columns"][0].update(values=["Rome"]),
}


@pytest.mark.parametrize("kind", sorted(FORGERIES))
def test_a_forged_law_of_features_is_noticed(released, tmp_path, kind):
    """No change of what features promise passes alone."""
    folder = released.save(tmp_path / "rows")
    forged(folder, FORGERIES[kind])
    assert not dp.verify(folder).holds


def test_rows_out_of_form_are_noticed(released, tmp_path):
    """A folder whose rows have values that the form does not allow does not verify, though its hashes are right."""
    folder = released.save(tmp_path / "rows")
    table = pq.read_table(folder / "data.parquet")
    odd = pa.array(["Rome", *table["town"].to_pylist()[1:]])
    dp.RowRelease(released.labels, pa.table({"town": odd, "age": table["age"]})).save(tmp_path / "odd")
    assert not dp.verify(tmp_path / "odd").holds


def test_the_largest_orders_and_divergences_have_a_sentence():
    """At the ends of what is accepted nothing overflows."""
    rows = curator().randomize_rows(
        dp.DoubleResponse(SPACE, 700.0 / 20, GENERATOR, 1e-9), features(200), divergences={1e6: 600.0, math.inf: 700.0}
    )
    assert 600 < rows.conditional[0].epsilon < rows.conditional[1].epsilon < 800
    assert "Conditional features" in rows.certificate.sentence
    assert any("resampled as often as stated" in each for each in rows.certificate.unknown)
