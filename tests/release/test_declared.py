"""Labels that were randomized elsewhere: they are taken as they are, and nobody takes them for true labels."""

from decimal import Context, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

import labeldp as dp
from labeldp.cli import main
from labeldp.errors import EpsilonError, InputError, LabelError
from labeldp.learning.inference import coefficients as regression
from labeldp.learning.sklearn import SoftmaxRegression
from labeldp.mechanisms.randomizers import class_randomizers, number_randomizers
from labeldp.release.released import check_possible, check_rows_possible

SPACE = dp.Classes(["no", "yes"])
SURVEY = "survey 2026"


def answers(rows=4000, seed=0, keep=0.75):
    """A feature, and answers whose logit it raises by one, each kept with a probability."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    truth = rng.random(rows) < 1 / (1 + np.exp(-x))
    return x, np.array(["no", "yes"])[(truth ^ (rng.random(rows) >= keep)).astype(int)]


@pytest.fixture
def survey(tmp_path):
    """A table of a survey with a coin, and the arguments that import it."""
    x, y = answers()
    path = tmp_path / "survey.csv"
    pa.csv.write_csv(pa.table({"age": x, "answer": y}), path)
    return path, ("--label", "answer", "--classes", "no,yes", "--keep", "age", "--declared-by", SURVEY)


def test_a_learner_corrects_for_noise_that_was_drawn_elsewhere():
    """The slope of a logistic regression is that of true answers, within two standard errors (the draw has a seed)."""
    x, y = answers(20_000)
    release = dp.Release.randomized(y, dp.RandomizedResponse.keeping(SPACE, 0.75), declared_by=SURVEY)
    coefficients = SoftmaxRegression().fit(x[:, None], release).coef_
    (_, slope) = regression(release, {"x": x}, ["x"], units="rows").coefficients
    assert 0.04 < slope.std_err < 0.05
    for each in (coefficients[1, 0] - coefficients[0, 0], slope.coef):
        assert abs(each - 1.0) < 2 * slope.std_err
    assert not release.is_public


@pytest.mark.parametrize("kind", [*class_randomizers(), *number_randomizers()], ids=lambda kind: kind.name)
def test_released_labels_of_every_mechanism_are_read_back(kind):
    """What a curator released by a mechanism is the same release when it is declared."""
    space = dp.Interval(0, 6, 1) if kind in number_randomizers() else dp.Classes(list("abcdefg"))
    mechanism, labels = kind(space, 1.0), list(space.points) * 30
    drawn = dp.Curator(labels, space).randomize(mechanism)
    taken = dp.Release.randomized(drawn.to_arrow(), mechanism, declared_by=SURVEY, name="label")
    assert taken.hash == drawn.hash
    assert taken.guarantee == drawn.guarantee
    assert taken.certificate.expects == drawn.certificate.expects
    assert (taken.likelihood() == drawn.likelihood()).all()


SHARES = [[0.6, 0.3, 0.1], [0.25, 0.5, 0.25], [0.1, 0.3, 0.6]]
ABC = dp.Classes(list("abc"))


def reported(truth, probabilities, rng):
    """A report for each true class by its line of probabilities."""
    limits = np.cumsum(probabilities, axis=1)[truth]
    return np.array(list("abc"))[(rng.random(len(truth))[:, None] > limits[:, :-1]).sum(axis=1)]


def declarations():
    """Channels that no randomizer has, with a function of true classes that reports by them."""
    rng = np.random.default_rng(2)
    rates = rng.choice([0.5, 0.6, 0.8], 3000)
    by_rate = dp.DeclaredChannel.by_row([dp.RandomizedResponse.keeping(ABC, rate) for rate in rates])
    prior = dp.PriorResponse(ABC, 1.0, rng.dirichlet([5, 5, 5], 3000))
    groups = dp.GroupResponse(ABC, 1.0, groups=[[["a"], ["b", "c"]], [["a", "b"], ["c"]]] * 1500)

    def keep(truth):
        moved = (truth + rng.integers(1, 3, len(truth))) % 3
        return np.array(list("abc"))[np.where(rng.random(len(truth)) < rates, truth, moved)]

    def drawn(mechanism):
        return lambda truth: dp.Curator(np.array(list("abc"))[truth], ABC).randomize(mechanism).to_arrow()

    return {
        "matrix": (dp.DeclaredChannel.matrix(ABC, SHARES, rounded=0.005), lambda y: reported(y, SHARES, rng)),
        "rates": (by_rate, keep),
        "prior": (prior, drawn(prior)),
        "groups": (groups, drawn(groups)),
    }


@pytest.mark.parametrize("name", ["matrix", "rates", "prior", "groups"])
def test_channels_of_others_and_of_rows_are_taken_over(name, tmp_path):
    """They are saved, verified and learned from; a learner does as well as with the channel known to a curator."""
    how, report = declarations()[name]
    truth = np.random.default_rng(1).integers(0, 3, 3000)
    release = dp.Release.randomized(report(truth), how, declared_by=SURVEY, name="answer")
    folder = release.save(tmp_path / "out")
    assert dp.verify(folder).certificate.sentence.startswith(f"Declared by {SURVEY}, not drawn here.")
    again = dp.Release.load(folder)
    assert again.hash == release.hash
    assert (again.likelihood() == release.likelihood()).all()
    rows = truth[:, None] + np.random.default_rng(3).normal(size=(3000, 1)) / 4
    model = SoftmaxRegression().fit(rows, again)
    assert (model.predict(rows) == np.array(list("abc"))[truth]).mean() > 0.85
    if release.class_channel.identifies:
        assert release.unbiased().mean(axis=0) == pytest.approx(np.bincount(truth) / 3000, abs=0.2)


def test_epsilon_covers_the_rounding_of_a_matrix():
    """It is that of the worst matrix whose probabilities round to those that were stated, and no less."""
    exact = dp.DeclaredChannel.matrix(ABC, SHARES).channel().epsilon
    rounded = dp.DeclaredChannel.matrix(ABC, SHARES, rounded=0.005).channel().epsilon
    assert 0 <= exact - np.log(6) < 1e-12
    assert 0 <= rounded - np.log(0.605 / 0.095) < 1e-12
    thirds = dp.DeclaredChannel.matrix(ABC, [[1 / 3, 1 / 6, 1 / 2], [1 / 6, 1 / 2, 1 / 3], [1 / 2, 1 / 3, 1 / 6]])
    assert 0 <= thirds.channel().epsilon - np.log(3) < 1e-12


@pytest.mark.parametrize(
    ("probabilities", "rounded", "words"),
    [
        ([[0.6, 0.3, 0.1]] * 3, 0.0, "tell classes apart"),
        ([[0.6, 0.4, 0.0], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]], 0.0, "may be 0"),
        ([[0.6, 0.36, 0.04], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]], 0.05, "may be 0"),
        ([[0.6, 0.3, 0.2], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]], 0.01, "sum to 1"),
        ([[0.6, 0.4], [0.4, 0.6]], 0.0, "matrix of probabilities for 3"),
        ([[float("nan")] * 3] * 3, 0.0, "matrix of probabilities for 3"),
        ([[0.6, 0.5, -0.1], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]], 0.0, "sum to 1"),
    ],
)
def test_a_matrix_that_is_none_is_refused(probabilities, rounded, words):
    """It says nothing of a class, may have no epsilon, or is none."""
    with pytest.raises(InputError, match=words):
        dp.DeclaredChannel.matrix(ABC, probabilities, rounded=rounded)


def test_epsilons_of_a_persons_answers_add_up(tmp_path):
    """Each of three answers of a person has the whole epsilon, in memory and in a folder."""
    mechanism, people = dp.RandomizedResponse(SPACE, 1.0), np.repeat(np.arange(40), [1, 3] * 20)
    release = dp.Release.randomized(["no", "yes"] * 40, mechanism, declared_by=SURVEY, units=people)
    assert release.guarantee.epsilon == pytest.approx(3 * mechanism.channel().epsilon)
    assert release.guarantee.unit == "unit"
    assert dp.verify(release.save(tmp_path / "out")).certificate.guarantee == release.guarantee
    alone = dp.Release.randomized(["no", "yes"] * 40, mechanism, declared_by=SURVEY)
    assert (alone.likelihood() == release.likelihood()).all()
    with pytest.raises(InputError, match="one mechanism for all rows of units"):
        dp.Release.randomized(["a"] * 2, dp.DeclaredChannel.by_row([dp.RandomizedResponse(ABC, e) for e in (1.0, 2.0)]),
                           declared_by=SURVEY, units=[1, 1])  # fmt: skip


def test_the_certificate_says_that_it_was_declared(tmp_path):
    """The sentence begins with it, in memory and in a folder, and the folder holds."""
    release = dp.Release.randomized(answers()[1], dp.RandomizedResponse.keeping(SPACE, 0.75), declared_by=SURVEY)
    folder = release.save(tmp_path / "out")
    for certificate in (release.certificate, dp.Release.load(folder).certificate, dp.verify(folder).certificate):
        assert certificate.sentence.startswith(f"Declared by {SURVEY}, not drawn here. Each label")
    assert SURVEY in repr(release)


def test_cards_and_pages_say_who_declares_it(tmp_path):
    """They say that nothing was drawn here, and do not say that the holder of the table saw true labels."""
    folder, page = tmp_path / "out", tmp_path / "page.html"
    release = dp.Release.randomized(["no", "yes"] * 40, dp.RandomizedResponse(SPACE, 1.0), declared_by=SURVEY)
    release.save(folder)
    assert main(["report", str(folder), "--output", str(page)]) == 0
    assert main(["card", str(folder)]) == 0
    for file in (page, folder / "README.md", folder / "croissant.json", folder / "_README.txt"):
        text = file.read_text(encoding="utf-8")
        assert f"Declared by {SURVEY}, not drawn here." in text
        assert "holder of the table" not in text
    assert f"Nobody here, says {SURVEY}: labels came randomized." in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("probability", [0.5, 1.0, 0.2, float("nan"), 2])
def test_a_coin_that_says_nothing_or_all_is_refused(probability):
    """A label is kept more often than another class is reported, and not always."""
    with pytest.raises((InputError, EpsilonError)):
        dp.RandomizedResponse.keeping(SPACE, probability)


@pytest.mark.parametrize("share", [0.501, 0.6, 0.7, 0.75, 0.868, 0.9, 0.999, 0.9999])
def test_the_decimals_of_declared_probabilities_have_no_larger_epsilon(share):
    """A coin of 0.6 is the decimal for people: labels that were drawn by it are within the epsilon that is printed."""
    with localcontext(Context(prec=60)):
        decimal = Decimal(repr(share))
        truth = (decimal / (1 - decimal)).ln()
        rest = float(1 - decimal)
        coin = dp.RandomizedResponse.keeping(SPACE, share).channel().epsilon
        matrix = dp.DeclaredChannel.matrix(SPACE, [[share, rest], [rest, share]]).channel().epsilon
        assert truth <= Decimal(repr(coin)) <= truth + Decimal("1e-3")
        assert truth <= Decimal(repr(matrix)) <= truth + Decimal("1e-3")


def test_the_epsilon_of_a_coin_is_rounded_up():
    """It is at least the logarithm of the odds, and the distribution is that of the coin."""
    kept = dp.RandomizedResponse.keeping(dp.Classes(list("abcd")), 0.7)
    assert 0 <= kept.epsilon - np.log(0.7 * 3 / 0.3) < 1e-12
    assert float(kept.channel().membership.true) == pytest.approx(0.7, abs=1e-12)


@pytest.mark.parametrize(
    ("labels", "mechanism", "error", "words"),
    [
        (["no", "maybe"], dp.RandomizedResponse(SPACE, 1.0), LabelError, "declared classes"),
        (["no", None], dp.RandomizedResponse(SPACE, 1.0), LabelError, "there is no label in row"),
        ([["yes", "no"]], dp.SubsetResponse(dp.Classes(list("abcd")), 1.0), InputError, "cannot come"),
        ([["b", "a"]], dp.SubsetResponse(dp.Classes(list("abcd")), 0.1), InputError, "declared order"),
        ([["a"]], dp.SubsetResponse(dp.Classes(list("abcd")), 0.1), InputError, "cannot come"),
        ([0.5], number_randomizers()[0](dp.Interval(0, 6, 1), 1.0), InputError, "cannot come"),
        (["no"] * 2, dp.PriorResponse(SPACE, 1.0, np.array([[0.9, 0.1]])), InputError, "for each of the 2 rows"),
        (7, dp.RandomizedResponse(SPACE, 1.0), InputError, "a list or an array"),
    ],
)
def test_labels_that_no_such_mechanism_releases_are_refused(labels, mechanism, error, words):
    """Other values, sets of another size or order, missing labels, and rows that differ."""
    with pytest.raises(error, match=words):
        dp.Release.randomized(labels, mechanism, declared_by=SURVEY)


@pytest.mark.parametrize("by", ["", " ", "two\nlines", "x" * 300])
def test_somebody_declares_it(by):
    """Who says so is a short line, since a certificate shows it."""
    with pytest.raises(InputError, match="whoever declares"):
        dp.Release.randomized(["no"], dp.RandomizedResponse(SPACE, 1.0), declared_by=by)


def test_a_wrong_declaration_is_refuted():
    """Answers of which a tenth says yes cannot come from a mechanism that reports either class in a quarter."""
    with pytest.raises(InputError, match="not randomized as declared") as raised:
        dp.Release.randomized(
            ["no"] * 900 + ["yes"] * 100, dp.RandomizedResponse.keeping(SPACE, 0.75), declared_by=SURVEY
        )
    assert not any(shown in str(raised.value) for shown in ("900", "100", "'no'", "'yes'"))  # they may be true labels


@pytest.mark.parametrize("name", ["coin", "matrix", "rates"])
def test_wrong_declarations_are_refuted_at_ten_thousand_rows(name):
    """True labels of which a tenth is not the first class, passed off as randomized, in each of 20 runs."""
    rng = np.random.default_rng(4)
    coins = np.array([dp.RandomizedResponse.keeping(SPACE, rate) for rate in (0.55, 0.65, 0.8)], dtype=object)
    how = {
        "coin": lambda: dp.RandomizedResponse.keeping(SPACE, 0.75),
        "matrix": lambda: dp.DeclaredChannel.matrix(SPACE, [[0.7, 0.3], [0.25, 0.75]]),
        "rates": lambda: dp.DeclaredChannel.by_row(rng.choice(coins, 10_000).tolist()),
    }[name]().channel()
    for _ in range(20):
        with pytest.raises(InputError):
            check_rows_possible(how, (rng.random(10_000) < 0.1).astype(np.int32))


def test_a_matrix_is_refuted_by_shares_below_zero():
    """Each count alone is possible, and no shares of true classes give all of them together."""
    how, rng = dp.DeclaredChannel.matrix(ABC, SHARES), np.random.default_rng(4)
    counts = np.array([1200, 4500, 4300])  # between the least and the largest, and a's share would be -0.19
    truth = rng.choice(3, 10_000, p=[0.2, 0.1, 0.7])
    right = np.bincount(np.searchsorted(list("abc"), reported(truth, SHARES, rng)), minlength=3)
    check_possible(how.channel(), right, 10_000)
    with pytest.raises(InputError, match="not randomized as declared"):
        check_possible(how.channel(), counts, 10_000)


@pytest.mark.parametrize("name", ["answer", "copy"])
def test_a_label_that_left_with_noise_is_not_imported(survey, name, capsys):
    """By its name, and by its values under another one: whatever is declared, it would publish the true labels."""
    path, _ = survey
    table = pa.csv.read_csv(path)
    pa.csv.write_csv(table.append_column("copy", table["answer"]), path)
    out, more = path.parent / "out", ("--keep", "age", "--budget", "99")
    drawn = ("--label", "answer", "--classes", "no,yes", "--epsilon", "4", *more, "--output", str(out))
    assert main(["release", str(path), *drawn]) == 0
    declared = ("--label", name, "--classes", "no,yes", "--keeping", "0.75", "--declared-by", SURVEY)
    assert main(["import", str(path), *declared, *more, "--output", str(out.with_name("two"))]) == 1
    assert "labeldp import would publish" in " ".join(capsys.readouterr().err.split())
    assert not out.with_name("two").exists()


def test_what_was_imported_is_not_called_a_true_label(survey, capsys):
    """It may be imported again or kept, within the budget, and a release that draws from it anew says nothing of it."""
    path, arguments = survey
    how, out = (*arguments, "--keeping", "0.75", "--budget", "9", "--output"), path.parent
    assert main(["import", str(path), *how, str(out / "one")]) == 0
    assert main(["import", str(path), *how, str(out / "two")]) == 0
    again = ("--label", "answer", "--classes", "no,yes", "--epsilon", "1", "--keep", "age", "--budget", "9")
    assert main(["release", str(path), *again, "--output", str(out / "three")]) == 0
    assert "true values left" not in " ".join(capsys.readouterr().out.split())


def test_people_with_several_rows_are_declared(survey, capsys):
    """Each of their answers has the declared epsilon, so somebody says that rows are the unit."""
    path, arguments = survey
    table = pa.csv.read_csv(path)
    pa.csv.write_csv(table.append_column("patient_id", pa.array(np.arange(len(table)) // 4 + 100_000)), path)
    how = (*arguments, "--keeping", "0.75", "--output", str(path.parent / "out"))
    assert main(["import", str(path), *how]) == 1
    assert "patient_id" in capsys.readouterr().err
    assert main(["import", str(path), *how, "--unit", "row"]) == 0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("rows", [1, 10, 10_000])
def test_a_right_declaration_is_seldom_accused(epsilon, rows):
    """Where all true labels are one class, the extreme case, counts are refused with probability 0.001 at most."""
    space = dp.Classes(list("abc"))
    channel = dp.RandomizedResponse(space, epsilon).channel()
    true, other = float(channel.membership.true), float(channel.membership.other)
    accused = 0.0
    for place, chance in ((0, true), (1, other), (2, other)):
        weights = binom.pmf(np.arange(rows + 1), rows, chance)
        for count in np.flatnonzero(weights >= 1e-9):
            counts = np.full(3, round(rows * other))  # which alone raise no alarm
            counts[place] = count
            try:
                check_possible(channel, counts, rows)
            except InputError:
                accused += weights[count]
    assert accused <= 0.001
    assert rows < 10_000 or accused > 0.00005  # the test has power: it uses a fair part of its level


def test_noise_without_a_certificate_is_no_public_label():
    """A release with a noisy channel and no certificate cannot be built, so no learner takes it for true labels."""
    codes = np.zeros(3, np.int32)
    with pytest.raises(InputError, match="declared_by"):
        dp.Release(codes, dp.RandomizedResponse(SPACE, 1.0).channel(), SPACE, None)
    assert dp.Release.public(["no", "yes"], SPACE).is_public


def test_a_table_is_imported_as_it_is(survey, capsys):
    """The command writes the answers unchanged, charges the ledger, and the folder is verified and learned from."""
    path, arguments = survey
    out = path.parent / "out"
    assert main(["import", str(path), *arguments, "--keeping", "0.75", "--output", str(out)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("Imported 4,000 rows at epsilon 1.1 per row.")
    assert f"Declared by {SURVEY}, not drawn here." in printed
    assert pq.read_table(out / "data.parquet")["answer_released"].to_pylist() == answers()[1].tolist()
    assert main(["verify", str(out)]) == 0
    assert main(["import", str(path), *arguments, "--keeping", "0.75", "--output", str(out.with_name("two"))]) == 1
    assert "budget exceeded" in capsys.readouterr().err


@pytest.fixture
def reports(tmp_path):
    """A table of answers that were reported by a matrix, and by rates of rows, and a file of the matrix."""
    rng, rates = np.random.default_rng(4), np.tile([0.5, 0.75, 0.9], 1000)
    truth = rng.integers(0, 3, 3000)
    moved = (truth + rng.integers(1, 3, 3000)) % 3
    columns = {"answer": reported(truth, np.array(SHARES), rng), "rate": rates, "person": np.arange(3000) // 2}
    columns["kept"] = np.array(list("abc"))[np.where(rng.random(3000) < rates, truth, moved)]
    pa.csv.write_csv(pa.table(columns), tmp_path / "reports.csv")
    lines = [f"{name},{line[2]},{line[0]},{line[1]}" for name, line in zip("abc", SHARES, strict=True)]
    (tmp_path / "matrix.csv").write_text("\n".join(["true,c,a,b", *reversed(lines)]), encoding="utf-8")
    arguments = ("--classes", "a,b,c", "--keep", "none", "--declared-by", SURVEY, "--output", str(tmp_path / "out"))
    return tmp_path / "reports.csv", arguments, columns


@pytest.mark.parametrize("unit", ["row", "person"])
def test_a_table_is_imported_by_a_matrix_of_any_order(reports, unit, capsys):
    """Names say which probability is which; epsilon covers their rounding, and the rows of a person add up."""
    path, arguments, columns = reports
    matrix = ("--matrix", str(path.with_name("matrix.csv")), "--rounded", "0.005", "--unit", unit)
    assert main(["import", str(path), "--label", "answer", *arguments, *matrix]) == 0, capsys.readouterr().err
    found = dp.Release.load(path.with_name("out"))
    channel = dp.DeclaredChannel.matrix(ABC, SHARES, rounded=0.005)
    units = None if unit == "row" else columns["person"]
    expected = dp.Release.randomized(columns["answer"], channel, declared_by=SURVEY, units=units)
    assert found.guarantee.epsilon == expected.guarantee.epsilon
    assert (found.likelihood() == expected.likelihood()).all()
    assert main(["verify", str(path.with_name("out"))]) == 0


def test_a_table_is_imported_by_the_rate_of_each_row(reports, capsys):
    """The certificate lists each rate, and the likelihood of a row is that of its own."""
    path, arguments, columns = reports
    by_rates = ("--label", "kept", "--rates", "rate", "--unit", "row")
    assert main(["import", str(path), *arguments, *by_rates]) == 0, capsys.readouterr().err
    found = dp.Release.load(path.with_name("out"))
    by_row = dp.DeclaredChannel.by_row([dp.RandomizedResponse.keeping(ABC, rate) for rate in columns["rate"]])
    expected = dp.Release.randomized(columns["kept"], by_row, declared_by=SURVEY)
    assert found.guarantee == expected.guarantee
    assert (found.likelihood() == expected.likelihood()).all()
    assert main(["verify", str(path.with_name("out"))]) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--matrix", "matrix.csv", "--epsilon", "1"), "leave those out"),
        (("--matrix", "matrix.csv", "--rates", "rate"), "another combination"),
        (("--epsilon", "1", "--rounded", "0.01"), "another combination"),
        (("--matrix", "reports.csv"), "with the 3 classes of --classes"),
        (("--rates", "person", "--unit", "row"), "above 1/3 and below 1"),
        (("--rates", "kept", "--unit", "row"), "found gaps or texts"),
        (("--rates", "answer"), "'answer' is the label"),
        (("--rates", "rate", "--unit", "person"), "one mechanism for all rows of units"),
    ],
)
def test_matrices_and_rates_that_cannot_be_are_refused(reports, monkeypatch, options, words, capsys):
    """Nothing is written; the label is no column of rates."""
    path, arguments, _ = reports
    monkeypatch.chdir(path.parent)
    assert main(["import", str(path), "--label", "answer", *arguments, *options]) == 1
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (path.parent / "out").exists()
    assert not list(path.parent.glob("*ledger"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--epsilon", "0.01"), "not randomized as declared"),
        ((), "found neither"),
        (("--epsilon", "1", "--keeping", "0.7"), "found both"),
        (("--keeping", "0.7", "--mechanism", "subset"), "goes with randomized-response"),
        (("--epsilon", "1", "--mechanism", "subset"), "one declared class for each row"),
        (("--epsilon", "1", "--mechanism", "randomised-response"), "did you mean"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused_before_a_charge(survey, options, words, capsys):
    """Nothing is written: no release, and no ledger."""
    path, arguments = survey
    x, y = answers(keep=0.999)
    pa.csv.write_csv(pa.table({"age": x, "answer": np.where(x > -1, y, "yes")}), path)
    assert main(["import", str(path), *arguments, *options, "--output", str(path.parent / "out")]) == 1
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (path.parent / "out").exists()
    assert not list(path.parent.glob("*ledger"))


def test_the_mechanism_of_another_label_space_is_refused(survey):
    """What is declared is about the classes of the table."""
    path, _ = survey
    mechanism = dp.DeclaredMechanism(how=dp.RandomizedResponse(dp.Classes(["a", "b"]), 1.0), declared_by=SURVEY)
    for epsilon, message in ((None, "expected a mechanism that releases one declared class"), (1.0, "pass None")):
        with pytest.raises(InputError, match=message):
            dp.release_table(path, "answer", SPACE, epsilon, path.parent / "out", keep=["age"], mechanism=mechanism)
