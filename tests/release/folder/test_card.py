"""Data cards: they follow from the certificate byte for byte, and others load the folder as a data set."""

import html
import json
import os
import re
import shutil
import textwrap
import warnings
from datetime import date, time, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp import Classes, Curator, RandomizedResponse, Release, public_columns, release_table, sign, verify
from labeldp.errors import InputError, OutputError
from labeldp.learning.metrics import UnitsWarning
from labeldp.release.folder import Declared, make_key, read_certificate, write_card
from labeldp.release.folder._derived import DERIVED, croissant, data_card
from labeldp.release.folder._description import cautions

TESTS = Path(__file__).parents[2]
DECLARED = Declared("cc-by-4.0", "Levels of *one* town")
GOLDEN, KEPT = TESTS / "golden/command", TESTS / "vectors/cards"


@pytest.fixture
def carded(tmp_path):
    """A release with a card."""

    def making(name="auto", declared=None):
        folder = tmp_path / name
        shutil.copytree(GOLDEN / name, folder)
        write_card(folder, read_certificate(folder), declared)
        return folder

    return making


def test_a_card_verifies_and_is_written_once(carded):
    """The folder holds with it, and writing it again changes nothing."""
    folder = carded()
    assert verify(folder).holds
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert [path.name for path in write_card(folder, read_certificate(folder))] == ["README.md", "croissant.json"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert set(before) == {"README.md", "croissant.json", "certificate.json", "data.parquet"}


@pytest.mark.parametrize("name", sorted(DERIVED))
def test_a_card_that_does_not_follow_is_refused(carded, name):
    """Changed, longer, of another release, or no regular file: the folder does not verify, and nothing is written."""
    folder, other = carded(), carded("subset")
    path = folder / name
    text = path.read_bytes()

    def refused():
        verdict = verify(folder)
        assert not verdict.holds
        assert f"expected {name} as it follows from the certificate" in verdict.checks[-1].found
        with pytest.raises(OutputError, match=f"expected no other {name}"):
            write_card(folder, read_certificate(folder))

    for changed in (
        text + b" ",
        text[:-1],
        text.replace(b"epsilon 1,", b"epsilon 0,"),
        b"",
        (other / name).read_bytes(),
    ):
        assert changed != text
        path.write_bytes(changed)
        refused()
    path.unlink()
    os.mkfifo(path)
    refused()
    path.unlink()
    path.mkdir()
    refused()
    path.rmdir()
    assert verify(folder).holds, "one of the two may be there alone"


@pytest.mark.parametrize(
    "name", ["report.html", "readme.md", "README.md~", "data.csv", ".hidden", "croissant.json.bak"]
)
def test_any_other_file_is_refused_as_before(carded, name):
    """Beside a card as without one."""
    folder = carded()
    (folder / name).write_text("y\n", encoding="utf-8")
    assert not verify(folder).holds


def test_answers_have_no_card(tmp_path):
    """And a card in the folder of one is a stray file."""
    folder = tmp_path / "counts"
    shutil.copytree(GOLDEN / "noisy-histogram", folder)
    with pytest.raises(InputError, match="expected released labels, found an answer"):
        write_card(folder, read_certificate(folder))
    (folder / "README.md").write_text("x", encoding="utf-8")
    assert not verify(folder).holds


@pytest.mark.parametrize("name", ["auto", "subset", "double"])
def test_cards_keep_their_bytes(name, carded):
    """What was written once verifies in every later version: a promise, like that of a certificate."""
    folder = carded(name, DECLARED if name == "auto" else None)
    for file in DERIVED:
        assert (folder / file).read_bytes() == (KEPT / name / file).read_bytes(), file


def test_a_card_with_the_earlier_warning_stays(carded):
    """It stated one probability for units of any size, and verifies as before."""
    name = "auto-of-units"
    folder = carded(name)
    assert "46.4 % of them are expected to be true" in (folder / "README.md").read_text(encoding="utf-8")
    shutil.copyfile(KEPT / name / "README.md", folder / "README.md")
    assert verify(folder).holds
    write_card(folder, read_certificate(folder))
    assert (folder / "README.md").read_bytes() == (KEPT / name / "README.md").read_bytes()


@pytest.mark.parametrize("name", ["auto-of-units", "subset-of-units", "randomized-response-of-units"])
def test_a_card_has_the_probabilities_of_each_number_of_rows(carded, name):
    """By the number in the released column: whoever has no package of ours estimates shares with them, as it does."""
    folder = carded(name)
    text = (folder / "README.md").read_text(encoding="utf-8").replace("\\", "")
    release, label = Release.load(folder), read_certificate(folder).label
    codes = pq.read_table(next(folder.glob("*.parquet")))[f"{label}_groups"].to_numpy()
    lines = re.findall(r"^\| (\d+) \| (\d+) \| (0\.\d{6}) \| (0\.\d{6}) \|$", text, flags=re.MULTILINE)
    assert f"| {label}_groups | rows of one {release.guarantee.unit} | the true class is " in text
    assert [int(number) for number, *_ in lines] == list(range(len(release.channel.repeats)))
    assert [int(rows) for _, rows, *_ in lines] == list(release.channel.repeats)
    chances = np.array(lines, dtype=float)[codes][:, 2:]
    assert np.abs(chances[:, 0] - release.channel.membership.true).max() < 1e-6
    assert np.abs(chances[:, 1] - release.channel.membership.other).max() < 1e-6


def test_a_card_declares_a_license_and_a_name(carded):
    """In the hub's own fields, whatever letters the name has; without flags the card that is there stays."""
    card = pytest.importorskip("huggingface_hub", reason="it reads cards").DatasetCard
    for number, name in enumerate(('My "x": \\ #1', "שלום 😀", "---", "null")):
        folder = carded("subset", declared := Declared("cc-by-4.0", name))
        text = (folder / "README.md").read_text(encoding="utf-8")
        data = card(text).data
        assert (data.license, data.pretty_name) == ("cc-by-4.0", name)
        assert (data.size_categories, data.task_categories) == (["n<1K"], ["tabular-classification"])
        assert data.tags == ["label-differential-privacy"]
        assert json.loads((folder / "croissant.json").read_text(encoding="utf-8"))["license"] == "cc-by-4.0"
        assert verify(folder).holds
        for same in (None, declared):
            write_card(folder, read_certificate(folder), same)
        with pytest.raises(OutputError, match=r"expected no other README\.md"):
            write_card(folder, read_certificate(folder), Declared("mit", name))
        for changed in ('"mit"', '"MIT"', "cc-by-4.0", '"a\\nb"', '"\\q"', f'"{"a" * 61}"'):
            (folder / "README.md").write_text(text.replace('"cc-by-4.0"', changed, 1), encoding="utf-8")
            assert not verify(folder).holds, "the body states the license too"
        folder.rename(folder.with_name(f"named-{number}"))


@pytest.mark.parametrize("declared", [{"license": ""}, {"license": "a b"}, {"license": "CC"}, {"license": "a" * 61}])
def test_a_license_is_an_identifier(declared):
    """Nothing else fits into metadata that programs read."""
    with pytest.raises(InputError, match="expected the identifier of a license"):
        Declared(**declared)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\u202ea", "a" * 201])
def test_a_name_is_one_short_line(name):
    """A name ends no line, turns no text around, and is bounded."""
    with pytest.raises(InputError, match="expected a name of 1 to 200 printable characters"):
        Declared(name=name)


def test_a_card_says_whether_the_folder_was_signed(carded, tmp_path):
    """A card that was written before the signature stays; one that names a signature needs one."""
    folder = carded()
    private, public = make_key(tmp_path / "office")
    before = (folder / "README.md").read_text(encoding="utf-8")
    assert "the folder was not signed" in before
    sign(folder, private)
    assert verify(folder, public_key=public).holds
    (folder / "README.md").unlink()
    write_card(folder, read_certificate(folder))
    assert "the folder was signed" in (folder / "README.md").read_text(encoding="utf-8")
    assert verify(folder, public_key=public).holds
    (folder / "_signature.json").unlink()
    assert not verify(folder).holds


@pytest.mark.parametrize(
    ("name", "warned"),
    [
        ("auto", "each is the true class with probability 0.576, so 42.4 % of them are expected to be wrong"),
        ("bits", "each is a set of classes that contains the true class with probability 0.5"),
        ("projective", "each stands for a set of classes that contains the true class with probability 0.576"),
        ("prior", "the true class with probability 0.632, on average over a prior"),
        ("optimal", "each is off by about 9.9 (root mean square, with true numbers spread evenly over the range)"),
        ("randomized-response-of-numbers", "each is the true number with probability 0.214"),
    ],
)
def test_the_second_line_warns(carded, name, warned):
    """It says how often released labels are wrong, and not to take them for true ones."""
    card = re.sub(r"\\(.)", r"\1", (carded(name) / "README.md").read_text(encoding="utf-8"))
    lines = [line for line in card.rpartition("\n---\n")[2].split("\n") if line]
    assert warned in lines[1]
    assert lines[1].startswith("**The labels in ")
    assert lines[1].endswith("Do not train on them, or measure accuracy against them, as if they were true.**")


@pytest.mark.parametrize("name", ["auto", "double", "projective", "randomized-response-of-numbers"])
def test_the_matrix_of_a_card_is_that_of_the_channel(carded, name):
    """Every probability, in six decimals; of sets and many classes the two that all follow from."""
    card = (carded(name) / "README.md").read_text(encoding="utf-8")
    section = card.partition("## Released labels given true ones\n\n")[2].partition("\n\n")[0]
    channel = read_certificate(GOLDEN / name).channel
    shown = [float(number) for number in re.findall(r"\d\.\d{6}", section)]
    if name in ("auto", "double"):
        assert np.allclose(np.reshape(shown, (3, 3)), channel.matrix(), atol=1e-6)
    else:
        assert np.allclose(shown, [channel.membership.true, channel.membership.other], atol=1e-6)


@pytest.mark.parametrize("name", ["auto", "images", "prior"])
@pytest.mark.filterwarnings("ignore")
def test_the_lines_of_python_in_a_card_run(carded, name, monkeypatch):
    """As they stand, in the folder above."""
    folder = carded(name)
    folder.rename(folder.with_name("shared"))
    monkeypatch.chdir(folder.parent)
    card = (folder.with_name("shared") / "README.md").read_text(encoding="utf-8")
    names = {}
    exec(re.search("```python\n(.*?)```", card, re.DOTALL)[1], names)  # noqa: S102 (they are ours)
    assert name == "images" or len(names["model"].predict(public_columns("shared"))) == 80


@pytest.mark.parametrize("renumbered", [True, False])
@pytest.mark.parametrize("file", ["README.md", "_README.txt"])
def test_the_lines_of_python_name_the_units_that_are_kept(file, renumbered, tmp_path, monkeypatch):
    """Numbers of people are groups, and no feature: nothing warns that rows of one person are taken as independent."""
    people = [f"p{row // 3}" for row in range(120)]
    table = pa.table({"it's": people, "age": np.arange(120.0), "y": ["no", "yes"] * 60})
    pq.write_table(table, tmp_path / "t.parquet")
    monkeypatch.chdir(tmp_path)
    kept = {"renumber": True, "keep": ["age"]} if renumbered else {"keep": ["it's", "age"]}
    release_table("t.parquet", "y", Classes(["no", "yes"]), 3.0, "shared", unit="it's", **kept)
    write_card(Path("shared"), read_certificate(Path("shared")))
    text = (tmp_path / "shared" / file).read_text(encoding="utf-8")
    start, names = text.index("from labeldp") - 4 * file.endswith("txt"), {}
    code = textwrap.dedent(text[start:].partition("groups)")[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnitsWarning)
        exec(f"{code}groups)", names)  # noqa: S102 (they are ours)
    assert list(names["columns"]) == ["age"]
    assert len(set(names["groups"])) == 40
    assert verify("shared").holds


def test_every_kind_of_release_has_a_card():
    """With its sentence, its columns and its hashes, in JSON that names each field once."""
    for folder in sorted(GOLDEN.iterdir()):
        certificate = read_certificate(folder)
        if certificate.of_answer:
            continue
        body = json.loads(croissant(certificate, Declared()))
        (records,) = body["recordSet"]
        names = [field["@id"] for field in records["field"]]
        assert len(set(names)) == len(names) == len(certificate.columns)
        assert body["distribution"][0]["sha256"] == certificate.files[0].sha256
        assert body["labeldp:guarantee"]["labeldp:statement"] == certificate.sentence
        assert float(body["labeldp:guarantee"]["labeldp:epsilon"]) == certificate.guarantee.epsilon
        card = data_card(certificate, Declared(), signed=False, warning=cautions(certificate)[0])
        text = re.sub(r"\\(.)", r"\1", card)
        assert all(line in text for line in certificate.sentence.split("\n"))
        assert all(what in text for what in (*certificate.assumptions, *certificate.unknown))


ADDRESSES = [
    "https://evil.example/x",
    "WWW.evil.example",
    "mail@evil.example",
    "a`www.evil.example``b",
    "ftp://e.e|x@y.z",
]


def test_no_name_becomes_a_link(tmp_path):
    """In the parser of GitHub."""
    cmarkgfm = pytest.importorskip("cmarkgfm", reason="it renders cards")
    classes, names = [*ADDRESSES, "b*c", "`"], [f"({each}" for each in ADDRESSES]
    release = Curator(classes * 9, Classes(classes), name="me@here.example").randomize(epsilon=1.0)
    folder = release.save(tmp_path / "shared", pd.DataFrame({name: range(63) for name in names}), keep="all")
    certificate = read_certificate(folder)
    write_card(folder, certificate)
    shown = cmarkgfm.github_flavored_markdown_to_html((folder / "README.md").read_text(encoding="utf-8"))
    assert "<a " not in shown
    text = html.unescape(re.sub("<[^>]*>", "", shown))
    assert all(each in text for each in (*classes, *names, certificate.label))


HOSTILE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | st.sampled_from(
    ["<script>alert(1)</script>", "](javascript:x)", "| a | b |", "`x`", "\n---\nconfigs: []", "\u202e", "שלום", '"'],
)


@settings(max_examples=20, deadline=None)
@given(
    names=st.lists(HOSTILE, min_size=2, max_size=2, unique=True),
    classes=st.lists(HOSTILE, min_size=2, max_size=2, unique=True),
)
def test_hostile_names_are_text_in_a_card(tmp_path_factory, names, classes):
    """No letter that Markdown reads stands alone, no line is theirs, and the folder verifies and stays JSON."""
    place = tmp_path_factory.mktemp("hostile")
    space = Classes(classes)
    release = Curator([classes[0]] * 3, space, name="a longer name").randomize(RandomizedResponse(space, 1.0))
    folder = release.save(place / "shared", pd.DataFrame({name: [1, 2, 3] for name in names}), keep="all")
    certificate = read_certificate(folder)
    write_card(folder, certificate)
    assert verify(folder).holds
    fields = json.loads((folder / "croissant.json").read_text(encoding="ascii"))["recordSet"][0]["field"]
    assert len({field["@id"] for field in fields}) == len(fields)
    assert {field["source"]["extract"]["column"] for field in fields} >= set(names)
    card = (folder / "README.md").read_bytes().decode("utf-8")
    tables = [line for line in card.split("\n") if line.startswith("| ")]
    assert len(tables) == 2 + space.size + 2 + len(certificate.columns)
    for line in (re.sub(r"(?<!\\)(`+)[^|]+?(?<!`)\1(?!`)", "an address", line) for line in tables):
        assert re.fullmatch(r"\| ([^\\|<>`]|\\.)* \| ([^\\|<>`]|\\.)* \| ([^\\|<>`]|\\.)* \|", line)
    assert card.count("\n---\n") == 1


def test_tables_are_read_by_their_files(carded):
    """By pandas and Arrow, and by polars and DuckDB where they are installed."""
    folder = carded("subset")
    expected = pq.read_table(folder / "data.parquet")
    assert pd.read_parquet(folder / "data.parquet").shape == expected.shape
    with pytest.raises(pa.ArrowInvalid):
        pd.read_parquet(folder)  # a card is no table to it, as docs/guide/data-sets.md says
    polars = pytest.importorskip("polars", reason="it reads the folder")
    assert polars.read_parquet(f"{folder}/*.parquet").shape == expected.shape


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_datasets_loads_a_folder_with_a_card(carded, tmp_path, monkeypatch):
    """By the path alone, with the types of the table; without a network."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="it loads the folder")
    folder = carded("subset")
    loaded = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))["train"]
    assert loaded.to_pandas().shape == pd.read_parquet(folder / "data.parquet").shape
    assert all(set(labels) <= {"low", "middle", "high"} for labels in loaded["level_released"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["auto", "subset", "prior", "auto-numbers"])
def test_mlcroissant_loads_a_folder_with_a_card(carded, name):
    """Every record, after a check of the hashes; what it misses is what nobody but the holder knows."""
    mlcroissant = pytest.importorskip("mlcroissant", reason="it loads the metadata")
    folder = carded(name)
    dataset = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
    assert not dataset.metadata.issues.errors
    missing = {re.search(r'Property "\S*/(\w+)"', issue)[1] for issue in map(str, dataset.metadata.issues.warnings)}
    assert missing <= {"citeAs", "datePublished", "license"}
    table = pd.read_parquet(folder / "data.parquet")
    records = list(dataset.records("rows"))
    assert len(records) == len(table)
    assert [record["rows/age"] for record in records] == table["age"].tolist()
    released = next(column for column in table if column.endswith("_released"))
    first = records[0][f"rows/{released}"]
    plain = [each.decode() for each in first] if isinstance(first, list) else first
    expected = table[released][0]
    assert np.array_equal(plain.decode() if isinstance(plain, bytes) else plain, expected)


#: A column of each kind that Croissant cannot give, and of some that it can.
KINDS = {
    "clock": pa.array([time(1)] * 3),
    "wait": pa.array([timedelta(1)] * 3),
    "pair": pa.array([{"a": 1}] * 3),
    "dictionary": pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64())),
    "grid": pa.array([[[1]]] * 3),
    "clocks": pa.array([[time(1)]] * 3),
    "point": pa.array([[0.5, 2.0]] * 3, pa.list_(pa.float32(), 2)),
    "day": pa.array([[date(2020, 1, 1)]] * 3),
    "gaps": pa.array([1, None, 3]),
}


def test_croissant_names_the_columns_that_it_leaves_out(tmp_path):
    """A column that its readers fail on has no field, and the rows say so."""
    space = Classes(["no", "yes"])
    release = Curator(["no"] * 3, space).randomize(RandomizedResponse(space, 1.0))
    folder = release.save(tmp_path / "shared", pa.table(KINDS), keep="all")
    certificate = read_certificate(folder)
    write_card(folder, certificate)
    (rows,) = json.loads((folder / "croissant.json").read_text(encoding="utf-8"))["recordSet"]
    assert [field["name"] for field in rows["field"]] == ["point", "day", "gaps", "label_released"]
    assert "without clock (time64[us]), wait (duration[us]), pair (struct<a: int64>), dictionary" in rows["description"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlcroissant_reads_every_kind_of_column_and_several_files(tmp_path):
    """All that has a field, by the record set of each file."""
    mlcroissant = pytest.importorskip("mlcroissant", reason="it loads the metadata")
    table, space = pa.table({**KINDS, "y": ["no", "yes", "no"]}), Classes(["no", "yes"])
    (tmp_path / "table").mkdir()
    for name, part in (("a", table[:2]), ("b", table[2:])):
        pq.write_table(part, tmp_path / f"table/{name}.parquet")
    folder = tmp_path / "shared"
    release_table(tmp_path / "table", "y", space, 1.0, folder, keep=list(KINDS), unit="row")
    write_card(folder, read_certificate(folder))
    dataset = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
    records = [record for part in ("rows-0", "rows-1") for record in dataset.records(part)]
    assert len(records) == 3
    assert records[0]["rows-0/point"] == [0.5, 2.0]
    assert records[0]["rows-0/day"] == [pd.Timestamp("2020-01-01")]
    assert verify(folder).holds
