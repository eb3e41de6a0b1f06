"""``labeldp plan``: what it reads of a table, what it buys, and which figures rest on what is assumed."""

import html
import re
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from labeldp import Ledger, verify
from labeldp.bounds import planning


def table_with(path, labels):
    """A table of two directions in four numeric columns, with a text column, missing values and some labels."""
    rng = np.random.default_rng(3)
    spread = rng.normal(size=(400, 2)) @ np.array([[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 0.0, 1.0]])
    numbers = {f"x{i}": pa.array(spread[:, i], mask=np.arange(400) % 50 == i) for i in range(4)}
    frame = pa.table({**numbers, "who": [f"name {i}" for i in range(400)], "y": labels})
    (pacsv.write_csv if path.suffix == ".csv" else pq.write_table)(frame, path)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_labels_of_a_table_are_never_read(run, tmp_path, ending):
    """Whatever is in the label column, garbage and nothing included, the same is said, from public columns alone."""
    told = set()
    for labels in ([*np.random.default_rng(4).integers(0, 9, 400)], ["zq-secret, \"'"] * 400, [None] * 400):
        source = table_with(tmp_path / f"t.{ending}", labels)
        ran = run("plan", source, "--label", "y", "--classes", 3, "--epsilon", 1, "--detail")
        assert (ran.code, ran.err) == (0, "")
        told.add(ran.out)
    (text,) = told
    assert "zq-secret" not in text
    assert "400 rows, 3 classes" in text
    vary, spread, components = re.search(
        r"(\d) numeric columns that vary together as (\S+) independent .*; (\d)", text
    ).groups()
    assert (vary, components) == ("4", "2")
    assert 1.5 < float(spread) < 2.1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--keep x0,who", "1 numeric columns"),
        ("--drop x0,x1", "2 numeric columns"),
        ("--dimension 5", "dimension 5"),
        ("--keep who", ""),
        ("--keep none", ""),
    ],
)
def test_public_columns_of_a_table_are_declared(run, tmp_path, options, said):
    """Columns can be kept or dropped, a dimension that is typed wins, and a table has its own number of rows."""
    source = table_with(tmp_path / "t.parquet", ["a"] * 400)
    text = run("plan", source, "--label", "y", "--classes", 2, "--epsilon", 1, "--detail", *options.split()).out
    assert "400 rows" in text
    assert said in text
    assert said or "numeric columns" not in text


def test_identifiers_are_no_features(run, tmp_path):
    """The dimension is that of other numeric columns; a person with a gap is named in a column of floats, too."""
    people = np.repeat(np.arange(300), 1 + np.arange(300) % 3)
    columns = {"patient_id": people, "x": np.arange(600) % 7, "z": ["z"] * 600, "y": ["a", "b"] * 300}
    gap = {"patient_id": pa.array(people, pa.float64(), mask=people == 0)}
    for more, dropped, said in (
        ({}, "z", "1 numeric columns that vary"),
        ({"patient_weight": 60.5 + np.arange(600) % 31}, "z", "2 numeric columns that vary"),
        (gap, "z,patient_id", "up to 3 rows each: a person?"),
    ):
        pq.write_table(pa.table(columns | more), tmp_path / "t.parquet")
        given = ("--label", "y", "--classes", 2, "--drop", dropped, "--detail")
        text = run("plan", tmp_path / "t.parquet", *given).out
        assert said in text
        assert "up to 3 rows each: a person?" in text


def test_every_figure_that_rests_on_the_assumptions_is_marked(run):
    """A figure changes with the assumptions if, and only if, its name has a star."""
    given = ("plan", "--interval", "0,10,1", "--rows", 5000, "--dimension", 3, "--epsilon", 2, "--target", 0.9)
    printed = [run(*given, "--detail", *more).out for more in ((), ("--spread", 2, "--explained", 0.2))]
    one, other = (text.split("└", 1)[1] for text in printed)
    head = next(line for line in one.splitlines() if line.startswith("┃ mechanism"))
    names = [name.strip() for name in head.strip(" ┃").split("┃")]
    assert names == ["mechanism", "noise of a row", "effective rows*", "share*", "expected error*"]
    rows = [[[cell.strip() for cell in line.split("│")[1:3]] for line in text.splitlines() if line[:1] == "│"][:6]
            for text in (one, other)]  # fmt: skip
    assert sorted(rows[0]) == sorted(rows[1]), "noise rests on nothing that is assumed"
    named = [dict(re.findall(r"^([a-z]\S*(?: \S+)*)  +(.*?) *$", text, re.MULTILINE)) for text in (one, other)]
    changed = {name for name in named[0] if named[0][name] != named[1].get(name)}
    assert changed == {name for name in named[0] if name.endswith("*")}


def test_counts_are_bought_charged_and_used(run, tmp_path):
    """The ledger has the charge, and the forecast uses what was bought; a release adds up with it.

    The noise of 33 counts at epsilon 0.3 moves the standard deviation by about 1 %.
    """
    rng = np.random.default_rng(8)
    values = np.minimum(rng.lognormal(5.5, 1.0, 20_000), 5000.0)
    source, ledger = tmp_path / "costs.csv", tmp_path / "costs.csv.labeldp-ledger"
    pacsv.write_csv(pa.table({"x": rng.normal(size=20_000), "y": values.round(2)}), source)
    given = (source, "--label", "y", "--interval", "0,5000,100")
    ran = run("plan", *given, "--epsilon", 1, "--buy", 0.3, "--budget", 1)
    assert ran.code == 0, ran.err
    assert ran.out.startswith(
        "Bought noisy counts of 20,000 labels for epsilon 0.3; spent on this label so far: 0.3 of"
    )
    stated = float(re.search(r"labels have a standard deviation of (\S+), and", ran.out)[1])
    assert stated == pytest.approx(values.std(), rel=0.08)
    folder = tmp_path / "costs.csv.counts"
    certificate = verify(folder).certificate
    assert (certificate.guarantee.trust, certificate.rows) == ("central", 20_000)
    (charge,) = Ledger(ledger).entries()
    assert (charge.mechanism, charge.guarantee) == ("noisy-histogram", certificate.guarantee)
    assert 0.3 * (1 - 1e-9) < charge.guarantee.epsilon <= 0.3
    again = run("plan", *given, "--epsilon", 1, "--from", folder)
    told = ran.out[ran.out.index("Assumed: labels have a standard deviation of ") :].replace(
        " and the counts that were bought.", "; this plan read no label."
    )
    known = " What the settings say of the labels must be public knowledge, or come from a released table (--from)"
    assert again.out.partition(known)[0] == told.partition("\nEvery mechanism")[0]
    even = run("plan", *given, "--epsilon", 1).out
    assert even.startswith(
        "Assumed: labels spread evenly over their range, with a standard deviation of 1472 (default)"
    )
    assert known not in even
    assert known in run("plan", *given, "--epsilon", 1, "--spread", 900).out
    released = ("release", *given, "--keep", "x", "--unit", "row", "--output", tmp_path / "out")
    assert (run(*released, "--epsilon", 0.8).code, (tmp_path / "out").exists()) == (1, False)
    assert run(*released, "--epsilon", 0.7).code == 0
    assert len(Ledger(ledger).entries()) == 2


def test_a_plan_from_counts_that_noise_hides_assumes_even_labels(run, tmp_path, monkeypatch):
    """It says so, after a purchase and from the folder, and takes a spread that is stated."""
    monkeypatch.setattr(planning, "check_counts", lambda *_: None)  # so that noise hides them for certain
    given = (table_with(tmp_path / "t.csv", range(400)), "--label", "y", "--interval", "0,500,1", "--unit", "row")
    for source in (("--buy", 0.001, "--output", tmp_path / "counts"), ("--from", tmp_path / "counts")):
        ran = run("plan", *given, *source)
        assert (ran.code, ran.err) == (0, "")
        assert "Assumed: labels spread evenly over their range" in ran.out
        assert "Noise hides the spread of labels in what was released of them" in ran.out
    stated = run("plan", *given, *source, "--spread", 9).out
    assert "labels have a standard deviation of 9" in stated
    assert "Noise hides" not in stated


def page_of(run, source, *options, name="epsilon.html"):
    """The text of the page that a plan of a table writes."""
    page = source.with_name(name)
    ran = run("plan", source, "--label", "y", "--classes", "no,yes", *options, "--report", page)
    assert (ran.code, ran.err) == (0, "")
    assert f"page: {page}" in ran.out
    return page.read_text(encoding="utf-8")


def command_on(page):
    """The words of the command that a page shows."""
    return shlex.split(html.unescape(re.search(r'<pre class="command"[^>]*>(.*?)</pre>', page)[1]))


def test_the_command_of_the_page_runs_as_it_is_copied(run, tmp_path, monkeypatch):
    """With all that the plan was told: the release that it makes has the epsilon of the slider."""
    monkeypatch.chdir(tmp_path)
    source = table_with(tmp_path / "t.csv", ["no", "yes"] * 200)
    page = page_of(run, source, "--epsilon", 2, "--unit", "row", "--drop", "who")
    assert "Release with this command:" in page
    words = command_on(page)
    assert run(*words[1:]).code == 0
    assert verify("shared").certificate.guarantee.epsilon == 2.0


@pytest.mark.parametrize(
    ("kept", "renumbered"),
    [("--drop=who", True), ("--keep=x0", True), ("--keep=x0,who", False), ("--keep=all", False), ("--drop=x0", False)],
)
def test_the_command_of_the_page_renumbers_people_that_it_leaves_out(run, tmp_path, kept, renumbered):
    """So that models can be judged on other people; a number in place of a column that is kept is refused."""
    source = table_with(tmp_path / "t.csv", ["no", "yes"] * 200)
    page = page_of(run, source, "--unit", "who", kept)
    assert ("--renumber" in command_on(page)) == renumbered
    assert run(*command_on(page)[1:-1], tmp_path / "shared").code == 0


def test_the_page_names_what_it_was_told(run, tmp_path):
    """Words of the command that are the reader's, classes by name, and where knowledge of labels must be from."""
    source = table_with(tmp_path / "t.csv", ["no", "yes"] * 200)
    assert "Release with this command, with your own words for UNIT, COLUMNS:" in page_of(run, source)
    page = page_of(run, source, "--shares", "0.2,0.8", name="shares.html")
    assert "yes 80.0%, no 20.0%" in page
    assert "must be public knowledge, or come from a released table (--from)" in page


def test_the_page_knows_earlier_releases(run, tmp_path, monkeypatch):
    """Those of the ledger beside the table add up with each epsilon; in another unit they are stated alone."""
    monkeypatch.chdir(tmp_path)
    source = table_with(tmp_path / "t.csv", ["no", "yes"] * 200)
    declared = ("--unit", "row", "--drop", "who")
    before = page_of(run, source, *declared)
    assert "by all releases" not in before
    assert run(*command_on(before)[1:]).code == 0
    after = page_of(run, source, *declared, name="after.html")
    assert "spent epsilon 1, by the ledger" in after
    assert after.count("epsilon of all releases together") == 2
    assert command_on(after)[-4:] == ["--budget", "TOTAL", "--output", "shared-2"]
    assert "Release with this command, with your own words for TOTAL:" in after
    other = page_of(run, source, "--unit", "who", "--drop", "who", name="other.html")
    assert "have another privacy unit (row)" in other
    assert "epsilon of all releases together" not in other


def test_the_page_of_next_month_knows_the_ledger_that_it_names(run, tmp_path, monkeypatch):
    """Its command names the ledger too, and no budget where the declared one leaves room; a wrong path is refused."""
    monkeypatch.chdir(tmp_path)
    source = table_with(tmp_path / "t.csv", ["no", "yes"] * 200)
    options = "--label y --classes no,yes --unit row --drop who --ledger all.ledger"
    first = run("release", source, *options.split(), "--epsilon", 1, "--budget", 3, "--output", "january")
    assert first.code == 0
    (tmp_path / "next").mkdir()
    page = page_of(run, source.rename(tmp_path / "next/t.csv"), *options.split()[4:])
    assert "spent epsilon 1, by the ledger" in page
    assert command_on(page)[-4:] == ["--ledger", "all.ledger", "--output", "shared"]
    ran = run("plan", "next/t.csv", *options.split(), "--report", "two.html", "--ledger", "missing.ledger")
    assert ran.code == 1
    assert "there is no ledger missing.ledger, whose charges the page would add" in ran.err
    assert run("plan", "--classes", 2, "--rows", 9, "--ledger", "all.ledger", "--report", "three.html").code == 1
    ran = run("plan", "--classes", 2, "--rows", 9, "--label", "y", "--ledger", "all.ledger", "--report", "three.html")
    assert ran.code == 0
    assert "spent epsilon 1, by the ledger" in (tmp_path / "three.html").read_text("utf-8")


def test_a_plan_says_where_one_row_of_each_person_shows_more(run, tmp_path):
    """At a small epsilon, which many rows of one person share; at a large one all rows show more."""
    rows = "".join(f"p{row // 2 if row < 200 else 100 + row // 20},{row},no\n" for row in range(400))
    (tmp_path / "t.csv").write_text(f"who,x,y\n{rows}", "utf-8")
    options = ("plan", tmp_path / "t.csv", "--label", "y", "--classes", "no,yes", "--unit", "who", "--epsilon")
    small, large = (" ".join(run(*options, epsilon).out.split()) for epsilon in (1, 50))
    assert "All rows of one who share epsilon: one row of each alone would be as informative as about 23 true" in small
    assert "labels of 110. Noise would then move the difference of two classes' shares by" in small
    assert "one row of each alone" not in large


def test_a_page_reads_no_label(run, tmp_path):
    """It is the same, whatever is in the label column."""
    pages = {
        page_of(run, table_with(tmp_path / "t.csv", labels), "--drop", "who", "--unit", "row", name=f"{at}.html")
        for at, labels in enumerate((["no"] * 400, ["zq-secret"] * 400))
    }
    assert len(pages) == 1
