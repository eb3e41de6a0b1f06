"""The gate: a label that was released with noise leaves in the clear by no option, under its own name or another."""

import dataclasses
import inspect
import shutil
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

import labeldp as dp
from labeldp.cli import app, main
from labeldp.errors import InputError
from labeldp.learning.tables import learn_in_stages
from labeldp.release import check_table, kept_columns, release_with
from labeldp.release.released._same_label import is_label_renamed

ROWS = 240
DISEASES, SEVERE = dp.Classes(["ok", "flu", "cancer"]), dp.Classes(["low", "high"])
#: Names under which the label is known: its own, and codes of it, as text and as numbers, and one more column of it.
OWN, RENAMED = "disease", "dx"
#: Commands and functions that may draw labels of a table.
COMMANDS = ("release", "stages", "plan")
FUNCTIONS = (dp.release_table, release_with, learn_in_stages)
#: Options that name columns, with the others that they need. A new option is added here or to ``OTHERS``.
COLUMNS = {
    "keep": {},
    "drop": {},
    "unit": {"keep": "none"},
    "clusters": {"keep": "none", "mechanism": "cluster"},
    "prior": {"keep": "none", "mechanism": "prior"},
    "generator": {"mechanism": "double"},
    "image_column": {"keep": "none"},
    "features": {"keep": "none"},
}
#: Options that name no column of the table whose values could leave.
OTHERS = {
    *("source", "label", "epsilon", "output", "classes", "interval", "missing", "mechanism", "replaced", "divergence"),
    *("divergences", "population", "delta", "level", "budget", "ledger", "other_people", "separator", "encoding"),
    *("decimal", "thousands", "dates", "sheet", "report"),
    *("renumber", "shuffle", "only_new", "team_ledger", "sign", "engine", "executor", "json_", "space"),
    *("progress", "protocol", "plan", "declared", "stages", "response"),
    *("model", "choice", "model_file", "images", "epochs", "batch_size", "learning_rate", "mixup", "device", "rows"),
    *("target", "dimension", "explained", "spread", "shares", "from_", "trust", "buy", "detail", "limits"),
    *("figure", "help", "floor", "matrix", "rounded", "encoder", "encoder_licence", "encoder_labels"),
    *("rates", "group"),  # of an import: tests/release/test_declared.py, tests/test_device.py
}


def options_of(command):
    """All options of a command, also those that mechanisms declare."""
    return command.get_params(typer.Context(command))


#: The command whose options are tried.
RELEASE = typer.main.get_command(app()).commands["release"]
WRITTEN = ("output", "ledger", "team_ledger", "engine", "sign")
#: Its options that take a text, but for those that name files to write, and their flags.
TEXTS = {
    each.name: each.opts[0]
    for each in options_of(RELEASE)
    if each.param_type_name == "option" and not each.is_flag and each.name not in WRITTEN
}


def table(seed=0, rows=ROWS):
    """Patients with a disease, codes of it in other words and numbers, and how severe it is, in any order."""
    chance = np.random.default_rng(seed)
    codes = chance.integers(0, 3, rows)
    high = np.array([0.2, 0.5, 0.7])[codes]
    return pd.DataFrame(
        {
            "number": 10**6 * (seed + 1) + chance.permutation(rows),
            "weight": chance.normal(75, 9, rows).round(3),
            OWN: np.array(DISEASES.points)[codes],
            RENAMED: np.array(["A", "B", "C"])[codes],
            "p_low": 1 - high,
            "p_high": high,
            "severity": np.array(SEVERE.points)[chance.integers(0, 2, rows)],
        }
    )


def released_in(folder):
    """A table whose label was released at epsilon 4, in a folder."""
    path = folder / "patients.csv"
    table().to_csv(path, index=False)
    dp.release_table(path, OWN, DISEASES, 4.0, folder / "first", keep=["weight"], unit="row")
    return path


@pytest.fixture(scope="module")
def released_once(tmp_path_factory):
    """A folder with a table whose label was released at epsilon 4."""
    return released_in(tmp_path_factory.mktemp("once")).parent


@pytest.fixture
def patients(released_once, tmp_path):
    """A table whose label was released at epsilon 4: a copy, with its ledger, which knows the first place too."""
    shutil.copytree(released_once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "patients.csv"


@pytest.fixture
def only_patients(tmp_path):
    """The same, and no copy of the release lies anywhere."""
    (tmp_path / "work").mkdir()
    return released_in(tmp_path / "work")


def releasing(source, **options):
    """Release the severity of a table; columns are kept unless others are asked for."""
    named = {"unit": "row", "keep": ["weight"], "budget": 9.0, **options}
    if "drop" in options:
        del named["keep"]
    return dp.release_table(source, "severity", SEVERE, 1.0, source.parent / "second", **named)


def test_every_option_of_a_command_is_known_here():
    """A new option names columns, and then passes the gate, or names none."""
    commands = typer.main.get_command(app()).commands
    names = {option.name for command in COMMANDS for option in options_of(commands[command])}
    assert names <= COLUMNS.keys() | OTHERS, "say whether it names a column whose values could leave"


@pytest.mark.parametrize("columns", [{"keep": ["weight", "DISEASE"]}, {"drop": [RENAMED]}], ids=["kept", "not dropped"])
def test_the_label_in_another_spelling_leaves_by_no_option(tmp_path, columns):
    """A ledger takes both for one label, so the first release does; the command of a check drops it."""
    path = tmp_path / "t.csv"
    table().assign(DISEASE=lambda frame: frame.disease).to_csv(path, index=False)
    with pytest.raises(InputError, match="'DISEASE' is the label in another spelling, 'disease', which is"):
        dp.release_table(path, OWN, DISEASES, 1.0, tmp_path / "o", unit="row", **columns)
    assert "DISEASE" in check_table(path, OWN).left_out
    assert not (tmp_path / "o").exists()
    dp.release_table(path, OWN, DISEASES, 1.0, tmp_path / "o", unit="row", keep=["weight"])
    assert "disease" in check_table(path, "severity").left_out


def test_many_columns_are_declared_in_no_time():
    """Naming all of 20 000 columns took a minute."""
    names = [f"column {number}" for number in range(20_000)]
    schema, begun = pa.schema([(name, pa.int64()) for name in [*names, OWN]]), time.perf_counter()
    assert kept_columns(schema, OWN, names, None) == names
    assert time.perf_counter() - begun < 5


def test_every_parameter_of_a_function_is_known_here():
    """As for commands."""
    names = {name for function in FUNCTIONS for name in inspect.signature(function).parameters}
    assert names <= COLUMNS.keys() | OTHERS, "say whether it names a column whose values could leave"
    fields = {field.name for field in dataclasses.fields(inspect.signature(learn_in_stages).parameters["plan"].default)}
    assert fields <= COLUMNS.keys() | OTHERS, "say whether it names a column whose values could leave"


def discloses(folder, labels):
    """The columns of a release that tell what a label is: several values, each in rows of one class alone."""
    rows = pd.read_parquet(folder)
    for name in rows if len(rows) == len(labels) else ():
        groups = pd.Series(labels).groupby(rows[name].astype(str).to_numpy()).nunique()
        if 1 < len(groups) <= len(labels) / 2 and groups.max() == 1:
            yield name


@pytest.mark.parametrize("value", [OWN, RENAMED])
@pytest.mark.parametrize("option", TEXTS)
def test_no_option_of_a_command_lets_a_released_label_leave(patients, capsys, option, value):
    """Whatever names the label, or a column that is the label: nothing leaves that tells its true values."""
    given = {"classes": "low,high", "epsilon": 1, "label": "severity", "unit": "row", "keep": "weight", "budget": 9}
    given |= COLUMNS.get(option, {}) | {option: "number" if option == "drop" else value}
    if option == "drop":
        del given["keep"]
    words = [word for name, text in given.items() for word in (TEXTS[name], str(text))]
    code = main(["release", str(patients), "--output", str(patients.parent / "second"), *words])
    out = capsys.readouterr()
    left = patients.parent / "second"
    assert (code != 0) == (not left.exists()), out.err
    assert not left.exists() or not list(discloses(left, table()[OWN]))
    if option in ("keep", "unit", "clusters"):
        assert code == 1
        assert "was already released with noise" in out.err


@pytest.mark.parametrize("value", [OWN, RENAMED])
@pytest.mark.parametrize(
    "options",
    [
        {"keep": ["weight", "VALUE"]},
        {"drop": ["number"]},
        {"mechanism": dp.ClusterMechanism},
        {"mechanism": partial(dp.PeerMechanism, delta=1e-6), "budget": (9.0, 1e-6)},
        {"mechanism": partial(dp.ShuffleMechanism, delta=1e-6), "budget": (9.0, 1e-6)},
        {"unit": "VALUE"},
        {"unit": "VALUE", "mechanism": "noisy-histogram", "keep": []},
    ],
    ids=["keep", "drop", "cluster", "peer", "shuffle", "unit", "unit-histogram"],
)
def test_a_released_label_is_refused_by_its_name_and_by_its_values(patients, options, value):
    """By every option that names a column, before anything is drawn; the charge is void."""
    given = {
        name: [value if text == "VALUE" else text for text in named] if isinstance(named, list) else named
        for name, named in options.items()
    }
    given |= {name: value for name, named in options.items() if isinstance(named, str) and named == "VALUE"}
    given |= {name: named(value) for name, named in options.items() if callable(named)}
    with pytest.raises(InputError, match=f"copy of '{OWN}', which was already|'{OWN}' was already"):
        releasing(patients, **given)
    assert not (patients.parent / "second").exists()
    assert releasing(patients, keep=["weight"]).spent == (1.0, 0.0), "what was refused costs nothing"


@pytest.mark.parametrize("mechanism", [dp.PriorMechanism(prior="p_"), dp.PriorMechanism(dp.PriorSubsetResponse, "p_")])
def test_a_prior_that_is_the_label_is_refused(patients, mechanism):
    """Candidates follow from it."""
    with pytest.raises(InputError, match=r"'p_(low|high)' seems to be a copy of 'disease'"):
        releasing(patients, mechanism=mechanism)


def test_numbers_of_clusters_that_are_the_label_are_refused(patients):
    """An array has no name: it is compared by its values."""
    numbers = table()[OWN].astype("category").cat.codes.to_numpy()
    with pytest.raises(InputError, match="'clusters' seems to be a copy of 'disease'"):
        releasing(patients, mechanism=dp.ClusterMechanism(numbers))
    assert releasing(patients, mechanism=dp.ClusterMechanism(np.arange(ROWS) % 3)).spent == (1.0, 0.0)


def test_clusters_that_determine_a_label_are_noted_privately(patients):
    """Several clusters of each class: no copy, and yet they tell the true values, to the holder alone."""
    numbers = table()[OWN].astype("category").cat.codes.to_numpy() * 4 + np.arange(ROWS) % 4
    notes = releasing(patients, mechanism=dp.ClusterMechanism(numbers)).notes
    assert (
        "the column 'clusters' equals or determines 'disease', which was released with noise before: drop it" in notes
    )


def test_rows_of_a_released_label_are_not_counted_in_public(tmp_path):
    """Neither in how many rows a value of it is, nor how many rows are alike with it: both are what noise hides."""
    classes = [f"D{number}" for number in range(16)]
    chance = np.random.default_rng(0)
    labels = chance.choice(classes, ROWS, p=np.arange(16, 0, -1) / 136)
    frame = table().assign(diagnosis_id=labels)[["weight", "diagnosis_id", "severity"]]
    frame = pd.concat([frame, frame[:40]], ignore_index=True)
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    dp.release_table(path, "diagnosis_id", dp.Classes(classes), 1.0, tmp_path / "first", keep=["weight"], unit="row")
    dp.release_table(path, "severity", SEVERE, 1.0, tmp_path / "asked", keep=["weight"])  # no person is suspected
    done = releasing(path, keep=["weight"])
    most = str(frame["diagnosis_id"].value_counts().max())
    assert not any("diagnosis_id" in each for each in done.certificate.assumptions)
    assert not any("copies" in each for each in done.remarks)
    assert any("copies" in each for each in done.notes)
    release = dp.Curator(frame["diagnosis_id"], dp.Classes(classes)).randomize(epsilon=1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release.save(tmp_path / "saved", frame, keep=["weight"])
    assert not any("diagnosis_id" in str(each.message) or most in str(each.message) for each in caught)


def test_no_value_of_a_released_label_is_checked(tmp_path):
    """It is refused by its name before: a bad prior or a missing cluster would show in which row a true value is."""
    path = tmp_path / "t.csv"
    frame = table().assign(p_low=[0, 1] * (ROWS // 2), p_high=1, part=["x", ""] * (ROWS // 2))
    frame.to_csv(path, index=False)
    for label, classes in (("p_low", [0, 1]), ("part", ["x", "none"])):
        space = dp.Classes(classes, missing="none") if label == "part" else dp.Classes(classes)
        dp.release_table(path, label, space, 1.0, tmp_path / label, keep=["weight"], unit="row")
    with pytest.raises(InputError, match="'p_low' was already released with noise"):
        releasing(path, mechanism=dp.PriorMechanism(prior="p_"))
    with pytest.raises(InputError, match="'part' was already released with noise"):
        releasing(path, mechanism=dp.ClusterMechanism("part"))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1, 2]] * ROWS),
        pa.array([{"a": 1}] * ROWS),
        pa.array(["x", "y"] * (ROWS // 2), pa.string_view()),
        pa.array([[1.0, 2.0]] * ROWS, pa.list_(pa.float64(), 2)),
        pa.array([b"x", b"y"] * (ROWS // 2)),
    ],
    ids=lambda values: str(values.type),
)
def test_columns_of_any_type_leave(tmp_path, values):
    """What cannot be compared is no reason to refuse a release."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_pandas(table(), preserve_index=False).append_column("odd", values), path)
    dp.release_table(path, OWN, DISEASES, 4.0, tmp_path / "first", keep=["weight"], unit="row")
    assert releasing(path, keep=["weight", "odd"]).spent == (1.0, 0.0)


def test_an_earlier_folder_that_others_changed_stops_nothing(only_patients):
    """It is a hint alone: what cannot be read there is not compared."""
    certificate = only_patients.parent / "first" / "_certificate.json"
    certificate.write_text(certificate.read_text().replace('"kind": "', '"kind": "bits", "was": "'))
    assert releasing(only_patients, keep=["weight", RENAMED]).spent == (1.0, 0.0)


def test_a_folder_that_moved_with_its_ledger_is_compared(only_patients):
    """The ledger knows where it lies beside it."""
    moved = only_patients.parent.rename(only_patients.parent.with_name("archive"))
    with pytest.raises(InputError, match="'dx' seems to be a copy of 'disease'"):
        releasing(moved / "patients.csv", keep=[RENAMED])


def test_rows_in_another_order_are_compared(patients):
    """Rows are told by their values, whatever their order and file."""
    other = patients.with_name("shuffled.parquet")
    table().sample(frac=1, random_state=1).drop(columns=OWN).to_parquet(other, index=False)
    with pytest.raises(InputError, match="'dx' seems to be a copy of 'disease'"):
        releasing(other, keep=[RENAMED])


def test_stages_pass_the_gate(patients):
    """Protocols ask for columns as releases do."""
    for value in (OWN, RENAMED):
        with pytest.raises(InputError, match="already released with noise"):
            learn_in_stages(
                *(patients, "severity", SEVERE, 1.0, patients.parent / "second"), keep=[value, "weight"], unit="row"
            )
    assert not (patients.parent / "second").exists()


def test_columns_that_left_beside_the_label_may_leave_again(tmp_path):
    """They are public already: a refusal would protect nothing."""
    path = tmp_path / "t.csv"
    table().to_csv(path, index=False)
    dp.release_table(path, OWN, DISEASES, 4.0, tmp_path / "first", keep=["weight", RENAMED], unit="row")
    assert releasing(path, keep=["weight", RENAMED]).spent == (1.0, 0.0)


def test_a_refusal_does_not_depend_on_true_labels(patients, capsys):
    """Only released labels are compared: a table with other true ones gets the same words."""
    replies = []
    for row in (None, 0, ROWS - 1):
        frame = table()
        if row is not None:
            frame.loc[row, OWN] = next(each for each in DISEASES.points if each != frame.loc[row, OWN])
        frame.to_csv(patients, index=False)
        words = ("--label", "severity", "--classes", "low,high", "--epsilon", "1", "--unit", "row", "--keep", RENAMED)
        code = main(["release", str(patients), "--output", str(patients.parent / "second"), *words])
        replies.append((code, capsys.readouterr()))
    assert replies[0] == replies[1] == replies[2]
    assert replies[0][0] == 1


def test_a_column_that_is_an_earlier_label_is_noted_privately(tmp_path):
    """Released labels of a small epsilon say nothing: true ones do, to the holder alone."""
    path = tmp_path / "t.csv"
    table().to_csv(path, index=False)
    dp.release_table(path, OWN, DISEASES, 0.01, tmp_path / "first", keep=["weight"], unit="row")
    done = releasing(path, keep=[RENAMED])
    assert "the column 'dx' equals or determines 'disease', which was released with noise before: drop it" in done.notes
    assert not any("disease" in each for each in done.remarks)


@pytest.mark.parametrize(
    "options",
    [{"keep": [OWN]}, {"mechanism": dp.ClusterMechanism(OWN)}, {"unit": OWN}],
    ids=["keep", "clusters", "unit"],
)
def test_a_label_that_left_in_any_way_is_remarked(tmp_path, options):
    """Also where a column that left was made of it."""
    path = tmp_path / "t.csv"
    table().to_csv(path, index=False)
    unit = options.get("unit", "row")
    releasing(path, **options)
    done = dp.release_table(path, OWN, DISEASES, 1.0, tmp_path / "third", keep=["weight"], unit="row", budget=600.0)
    left = (
        f"the label 'disease' was a public column of the release in {tmp_path / 'second'}: its true values left with it"
    )
    assert (left in done.remarks) == (unit in ("row", OWN))


def test_a_column_that_left_and_is_the_label_is_noted_privately(tmp_path):
    """Under another name, to the holder alone, since it depends on true labels."""
    path = tmp_path / "t.csv"
    table().to_csv(path, index=False)
    releasing(path, keep=[RENAMED])
    done = dp.release_table(path, OWN, DISEASES, 1.0, tmp_path / "third", keep=["weight"], unit="row")
    assert "the column 'dx', which left in an earlier release, equals or determines the label" in done.notes


def test_an_earlier_release_that_was_moved_away_is_compared_by_name(only_patients):
    """Nothing can be read there any more: a renamed label is a private note then."""
    (only_patients.parent / "first").rename(only_patients.parent / "elsewhere")
    with pytest.raises(InputError, match="'disease' was already released with noise"):
        releasing(only_patients, keep=[OWN])
    assert any("equals or determines 'disease'" in each for each in releasing(only_patients, keep=[RENAMED]).notes)


def test_no_generator_is_fitted_on_a_released_label_that_is_called_public(patients, capsys):
    """Its form and what it draws would disclose true values; another table in the same folder may be public."""
    words = ["--source", "a survey", "--labels-are-public", "--output", str(patients.parent / "people.generator")]
    classes = {OWN: "ok,flu,cancer", "severity": "low,high"}
    other = patients.with_name("survey.csv")
    table(seed=1).to_csv(other, index=False)
    for label, keep, source, refused in (
        (OWN, "weight", patients, True),
        ("severity", OWN, patients, True),
        ("severity", "weight", patients, False),
        (OWN, "weight", other, False),
    ):
        asked = ["--label", label, "--classes", classes[label], "--keep", keep]
        code = main(["generator", str(source), *asked, *words])
        assert (code == 1) == refused
        assert ("'disease' was already released with noise" in capsys.readouterr().err) == refused
        (patients.parent / "people.generator").unlink(missing_ok=True)


def test_a_curator_refuses_units_that_are_a_released_label(tmp_path):
    """A series has a name, and the sizes of its groups leave."""
    frame, ledger = table(), tmp_path / "l.labeldp-ledger"
    dp.Curator(frame[OWN], DISEASES, ledger=ledger).randomize(epsilon=1.0)
    curator = dp.Curator(frame["severity"], SEVERE, ledger=ledger, units=frame[OWN])
    for ask in (lambda: curator.randomize(epsilon=1.0), lambda: curator.answer(dp.NoisyHistogram(SEVERE, 1.0))):
        with pytest.raises(InputError, match="'disease' was already released with noise, and this request would"):
            ask()
    assert curator.spent == (0.0, 0.0)


def test_a_release_saves_no_label_that_was_released_before(tmp_path):
    """By its name, as its ledger knows it."""
    frame, ledger = table(), tmp_path / "l.labeldp-ledger"
    dp.Curator(frame[OWN], DISEASES, ledger=ledger).randomize(epsilon=1.0)
    release = dp.Curator(frame["severity"], SEVERE, ledger=ledger).randomize(epsilon=1.0)
    with pytest.raises(InputError, match="'disease' was already released with noise, and keep= would"):
        release.save(tmp_path / "out", frame, keep=["weight", OWN])


def share_refused(agreement, epsilon, rows, draws=40, classes=3):
    """How often a column is taken for a label with which it agrees in a share of rows, and else says nothing."""
    refused = 0
    space = dp.Classes(range(classes))
    for seed in range(draws):
        chance = np.random.default_rng(seed)
        labels = chance.integers(0, classes, rows)
        values = np.where(chance.random(rows) < agreement, labels, chance.integers(0, classes, rows))
        release = dp.Curator(labels, space).randomize(epsilon=epsilon)
        refused += is_label_renamed(pa.array([f"v{value}" for value in values]), release.channel, release.codes)
    return refused / draws


@pytest.mark.parametrize(("epsilon", "rows"), [(0.5, 500), (1.0, 250), (4.0, 100)])
def test_a_renamed_label_is_mostly_found_and_other_columns_never(epsilon, rows):
    """Of 40 columns that are the label at least 28 are found, of 40 that say nothing at most 2.

    About 37 of 40 are found in truth, so that fewer than 28 have a probability below 1e-4. A column that says nothing
    is taken for the label with a probability of at most 5 %, whatever the shares of classes; here it hardly ever is.
    """
    assert share_refused(1.0, epsilon, rows) >= 0.7
    assert share_refused(0.0, epsilon, rows) <= 0.05


def test_a_column_that_says_nothing_is_no_label_in_few_rows():
    """Of 80 columns at most 4, where the agreement of 60 rows alone would take about 18 of them for the label."""
    assert share_refused(0.0, 0.5, 60, draws=80) <= 0.05


def test_a_column_that_predicts_the_label_is_not_the_label():
    """Of 40 that agree with it in three of four rows, at most 4; in truth one in a thousand."""
    assert share_refused(0.6, 1.0, 4000) <= 0.1


def share_of_predictors(draws=40, rows=2000, share=0.1, precision=0.7, recall=0.5):
    """How often a column is taken for a rare class of which it finds a part."""
    refused, space = 0, dp.Classes([0, 1])
    for seed in range(draws):
        chance = np.random.default_rng(seed)
        ill = chance.random(rows) < share
        false = share * recall * (1 - precision) / precision / (1 - share)
        found = chance.random(rows) < np.where(ill, recall, false)
        release = dp.Curator(ill.astype(int), space).randomize(epsilon=0.5)
        refused += is_label_renamed(pa.array(found), release.channel, release.codes)
    return refused / draws


def test_a_column_that_finds_half_of_a_rare_class_is_mostly_not_the_label():
    """Of 40 at most 20; about 8 in truth, so that more have a probability below 1e-4."""
    assert share_of_predictors() <= 0.5


def test_released_labels_are_not_the_label():
    """They leave again as a public column: what they say was paid for."""
    labels = np.random.default_rng(0).integers(0, 3, 500)
    for epsilon in (0.5, 1.0, 3.0):
        release = dp.Curator(labels, dp.Classes(range(3))).randomize(
            dp.RandomizedResponse(dp.Classes(range(3)), epsilon)
        )
        assert not is_label_renamed(pa.array(release.codes), release.channel, release.codes)


def test_columns_of_more_values_than_classes_are_not_compared():
    """Identifiers tell rows apart, and no class."""
    labels = np.arange(300) % 3
    release = dp.Curator(labels, dp.Classes(range(3))).randomize(epsilon=8.0)
    asked = (release.channel, release.codes)
    assert is_label_renamed(pa.array(labels), *asked)
    assert not is_label_renamed(pa.array(np.arange(300)), *asked)
    assert not is_label_renamed(pa.array(np.zeros(300)), *asked)
    assert not is_label_renamed(pa.nulls(300), *asked)
    missing = pa.array([None if value == 2 else str(value) for value in labels.tolist()])
    assert is_label_renamed(missing, *asked), "a missing value stands for a class"
