"""``labeldp release``: printed numbers that follow from the certificate's law alone, and what is said after them."""

import itertools
import json
import math
import re
from fractions import Fraction

import mpmath
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from labeldp import Answer, Ledger
from labeldp.release import table_mechanisms


def body(output):
    """The certificate as plain JSON."""
    return json.loads((output / "_certificate.json").read_text(encoding="utf-8"))


def data(output):
    """The released rows."""
    return pa.concat_tables(pq.read_table(output / file["name"]) for file in body(output)["table"]["files"])


def kept_by(law):
    """Probability that the truth is released, and clean rows for each row, from a law's integers: exact fractions."""
    k, word = int(law["classes"]), 1 << int(law["bits"])
    if law["kind"] == "response":
        p, q = Fraction(int(law["keep"]), word), Fraction(int(law["other"]), word)
        return p, (p - q) ** 2 / (p + q)
    if law["kind"] == "subset":
        d, p = int(law["size"]), Fraction(int(law["member"]), word)
        q = (d - p) / (k - 1)
        both = p * Fraction(d - 1, k - 1)
        return p, (p - q) ** 2 / (p + q - 2 * both)
    p, q = Fraction(int(law["true"]), word), Fraction(int(law["false"]), word)
    return p, (p - q) ** 2 / (p + q - 2 * p * q)


def ratio_of(law):
    """The largest factor of a law's probabilities, from its integers."""
    word = 1 << int(law["bits"])
    if law["kind"] == "response":
        return Fraction(int(law["keep"]), int(law["other"]))
    if law["kind"] == "subset":
        k, d, a = int(law["classes"]), int(law["size"]), int(law["member"])
        return Fraction(a, math.comb(k - 1, d - 1)) / Fraction(word - a, math.comb(k - 1, d))
    p, q = int(law["true"]), int(law["false"])
    return Fraction(p, word - p) / Fraction(q, word - q)


def check_printed(ran, output, rows, truth, share, epsilon):
    """The sentence, the truth probability and the effective rows that are printed are the ones expected."""
    factor, shown = re.search(r"a factor of at most (\S+) \(epsilon (\S+), delta 0\)", ran.out).groups()
    sentence = body(output)["guarantee"]["sentence"]
    assert sentence.startswith(
        "Each label was randomized alone: whatever else someone knows, replacing one row's label "
    )
    assert ran.out.startswith(f"Released {rows:,} rows at epsilon ")
    assert f"\n{sentence}\n\nNext: labeldp verify " in ran.out
    half = re.search(r"50 % sure of .*one row's label can become at most (\S+) % sure", ran.out)[1]
    assert 0 <= mpmath.mpf(half) - 100 / (1 + mpmath.exp(-epsilon)) <= 0.1
    assert epsilon <= mpmath.mpf(shown) <= epsilon * (1 + 1e-6) + 1e-6
    assert mpmath.exp(epsilon) <= mpmath.mpf(factor) <= mpmath.exp(epsilon) * (1 + 1e-3)
    assert f"truth kept      {float(truth):.1%} of rows" in ran.out
    assert f"{math.floor(rows * share + Fraction(1, 10**9)):,} of {rows:,} ({float(share):.1%})" in ran.out
    assert str(output) in ran.out


@pytest.mark.parametrize(
    ("mechanism", "epsilon"), [("auto", 0.3), ("randomized-response", 4.0), ("subset", 1.0), ("bits", 1.0)]
)
def test_what_is_printed_follows_from_the_law(release, run, table, tmp_path, mechanism, epsilon):
    """The sentence, the truth probability and the effective rows are recomputed from the certificate's integers."""
    output = tmp_path / "out"
    ran = release(table, output, mechanism=mechanism, epsilon=epsilon)
    assert (ran.code, ran.err) == (0, "")
    (charge,) = body(output)["charges"]
    mpmath.mp.dps = 50
    ratio = ratio_of(charge["law"])
    exact = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
    assert 0.99 * epsilon <= exact <= epsilon
    assert exact <= charge["guarantee"]["epsilon"] <= epsilon
    assert mechanism in ("auto", charge["mechanism"])
    check_printed(ran, output, 30, *kept_by(charge["law"]), exact)
    assert run("verify", output).code == 0


def test_labels_without_columns_are_learned_with_images(release, table, tmp_path):
    """The next command names them, as no column is there to learn from."""
    assert "labeldp learn" in (alone := release(table, tmp_path / "alone", keep="none").out)
    assert "alone --images IMAGES --output model.safetensors" in alone
    assert "kept --output model.skops" in release(table, tmp_path / "kept", keep="id", budget=9).out


@pytest.mark.parametrize(("epsilon", "few"), [(0.1, True), (0.3, True), (1.0, False)])
def test_few_effective_rows_are_noted(release, tmp_path, write_csv, epsilon, few):
    """Below 2 for each class a release says that they are few, and never that no model can learn from them."""
    table = write_csv(tmp_path / "t.csv", {"x": [1, 2] * 90, "y": ["a", "b", "c"] * 60})
    said = " ".join(
        release(table, tmp_path / "o", classes="a,b,c", epsilon=epsilon, mechanism="randomized-response").out.split()
    )
    effective = int(re.search(r"effective rows about (\d+) of", said)[1])
    found = f"about {effective} effective rows" if effective else "less than one effective row"
    assert (effective < 6) == few
    assert (f"{found} for 3 classes: few to learn from" in said) == few
    assert "guessing" not in said


def test_groups(release, run, tmp_path, write_csv, secrets):
    """With a public prior each row has its most informative groups, without one all have those of a uniform prior.

    At epsilon 1 these would merge two classes in every row, which is refused before anything is charged.
    """
    priors = [(0.98, 0.01, 0.01), (0.4, 0.35, 0.25), (0.05, 0.05, 0.9)] * 10
    columns = {f"p_{name}": [row[i] for row in priors] for i, name in enumerate(secrets)}
    table = write_csv(tmp_path / "t.csv", {**columns, "y": [secrets[i % 3] for i in range(30)]})
    options = {"mechanism": "groups", "keep": None, "drop": ",".join(columns), "budget": 9}
    merged = release(table, tmp_path / "merged", epsilon=1, **options)
    assert merged.code == 1
    assert f"which never tell apart {secrets[0]} and {secrets[1]}. Use 'labeldp stages --response groups'" in merged.err
    unsorted = release(table, tmp_path / "merged", classes=",".join(secrets[::-1]), epsilon=1, **options)
    assert f"which never tell apart {secrets[2]} and {secrets[1]}. Use" in unsorted.err
    assert not list(tmp_path.glob("*ledger"))
    asked = release(table, tmp_path / "asked", prior="p_", epsilon=1, **options)
    uniform = release(table, tmp_path / "uniform", epsilon=2, **options)
    assert (asked.code, uniform.code) == (0, 0)
    assert {tuple(first) for first in data(tmp_path / "uniform")["y_firsts"].to_pylist()} == {tuple(secrets)}
    for name in ("asked", "uniform"):
        found = data(tmp_path / name)
        assert found.column_names == ["y_released", "y_firsts"]
        law = body(tmp_path / name)["charges"][0]["law"]
        assert (law["kind"], law["by_row"]) == ("coarsening", ["firsts"])
        firsts = found["y_firsts"].to_pylist()
        for first, out in zip(firsts, found["y_released"].to_pylist(), strict=True):
            cuts = [*map(secrets.index, first), 3]
            assert out in [list(secrets[low:high]) for low, high in itertools.pairwise(cuts)]
        assert len({tuple(first) for first in firsts}) == (2 if name == "asked" else 1)
        assert run("verify", tmp_path / name).code == 0
        assert run("audit", tmp_path / name).code == 0
    stated = body(tmp_path / "uniform")["assumptions"]
    assert "the groups of classes are those of a uniform prior over the declared classes" in stated


def test_ctrl_c_after_the_release_does_not_deny_it(release, table, tmp_path, monkeypatch, states):
    """Ctrl-C just after the output was moved to its place: the charge stands, and the message says so."""

    def stopped(_):
        if (tmp_path / "out").exists():
            raise KeyboardInterrupt

    monkeypatch.setattr("labeldp.release.folder._staging.sync", stopped)
    ran = release(table, tmp_path / "out")
    assert ran.code == 130
    assert "stopped" in ran.err
    assert (tmp_path / "out").is_dir()
    assert states(tmp_path / "t.csv.labeldp-ledger") == ["released"]
    assert "nothing was" not in ran.err


def test_the_help_lists_the_mechanisms_that_are_accepted(run, tmp_path):
    """An unknown mechanism is refused with the same names, and each has its description on the help page."""
    (tmp_path / "table.csv").write_text("x,y\n1,a\n2,b\n", encoding="utf-8")
    options = ["--label", "y", "--classes", "a,b", "--epsilon", 1, "--keep", "x", "--output", tmp_path / "out"]
    refused = run("release", tmp_path / "table.csv", *options, "--mechanism", "unknown")
    accepted = re.search(r"choose among (.*)", refused.err)[1].split(", ")
    assert accepted == sorted(table_mechanisms())
    page = re.sub(r"[\s│]+", " ", run("release", "--help").out)
    assert [m.name for m in table_mechanisms().values() if f" {m.name}: {m.about}." not in page] == ["auto"]


def test_an_end_of_the_range_can_be_bought(run, tmp_path):
    """The quantile is charged, verified and read back; at epsilon 100 another point has a chance below 1000 e^-50."""
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i % 7},{i}\n" for i in range(101)), encoding="utf-8")
    given = ("release", tmp_path / "t.csv", "--label", "y", "--interval", "0,1000,1", "--keep", "none", "--unit", "row")
    asked = (*given, "--mechanism", "noisy-quantile", "--output", tmp_path / "q", "--epsilon", 100)
    done = run(*asked, "--level", 0.75, "--budget", 101)
    assert done.code == 0, done.err
    assert re.search(r"^quantile +75 at level 0\.75 *$", done.out, re.MULTILINE)
    assert "Next: release the labels with --interval 0,75,1 and a --budget for both. About 25 % of the" in done.out
    assert "noise reaches beyond" not in done.out
    assert run("verify", tmp_path / "q").code == 0
    assert Answer.load(tmp_path / "q").value.tolist() == [75.0]
    (charge,) = Ledger(tmp_path / "t.csv.labeldp-ledger").entries()
    assert (charge.mechanism, charge.guarantee.trust, charge.state) == ("noisy-quantile", "central", "released")
    assert 99.9 < charge.guarantee.epsilon <= 100.0
    assert done.out.startswith("Answered from the labels of 101 rows at epsilon ")
    coarse = run(*asked[:-3], tmp_path / "r", "--epsilon", 0.01, "--level", 0.95)
    assert coarse.code == 0, coarse.err
    assert "The noise reaches beyond the largest label" in coarse.out
    assert "Next: release" not in coarse.out


@pytest.mark.parametrize(
    ("level", "answer", "declared"), [(0.25, "1250001", "1250001,9000001,1"), (0.5, "2500001", "")]
)
def test_a_quantile_is_printed_exactly_and_is_the_end_it_is_near(run, tmp_path, level, answer, declared):
    """All digits are shown, a low level begins the range, and the median is no end (odds against: e^50 to 10^7)."""
    rows = "".join(f"{i % 7},{50000 * i + 1}\n" for i in range(101))
    (tmp_path / "t.csv").write_text(f"x,y\n{rows}", encoding="utf-8")
    space = ("--label", "y", "--interval", "1,9000001,1", "--keep", "none", "--unit", "row")
    asked = ("--mechanism", "noisy-quantile", "--level", level, "--epsilon", 100, "--output", tmp_path / "q")
    done = run("release", tmp_path / "t.csv", *space, *asked)
    assert done.code == 0, done.err
    assert re.search(rf"^quantile +{answer} at level ", done.out, re.MULTILINE)
    (found,) = re.findall(r"--interval\s+(\S+)\s+and", done.out) or [""]
    assert found == declared
