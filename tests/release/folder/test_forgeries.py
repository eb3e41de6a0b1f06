"""Certificates that agree with themselves and claim too little: each part that could make them do so is refused."""

import dataclasses
import json

import numpy as np
import pytest

import labeldp as dp
from labeldp.mechanisms.queries import ExchangedLabels, promise_of
from labeldp.privacy.accounting import RowRanges
from labeldp.privacy.channels import channel_of
from labeldp.release.folder import read_certificate
from labeldp.release.folder._staging import CERTIFICATE

SPACE = dp.Classes(["no", "yes"])
LABELS, CELLS = ["no", "yes", "yes"] * 100, np.arange(300) % 3
NO_ROWS = RowRanges(())
MIXED = pytest.mark.parametrize("name", ["peers", "shuffle"])


@pytest.fixture(scope="module")
def made():
    """What a curator said, by name."""
    curator = dp.Curator(LABELS, SPACE, budget=(20.0, 1e-3))
    exchange = ExchangedLabels(SPACE, dp.PeerExchange(0.1, sampling="fixed"), CELLS, 1e-4)
    return {
        "labels": curator.randomize(dp.RandomizedResponse(SPACE, 1.0)),
        "clusters": dp.cluster_response(curator, CELLS, 1.0).release,
        "counts": curator.answer(dp.NoisyHistogram(SPACE, 0.01)),
        "peers": curator.answer(exchange),
        "shuffle": curator.answer(dp.ShuffledLabels(SPACE, dp.CellShuffle(1.0), CELLS, 1e-4)),
        "moments": curator.answer(dp.LabelMoments(SPACE, 1.0, 1e-4, np.ones((300, 2)))),
    }


def verdict(what, folder, **changes):
    """What is found of a folder whose maker wrote another certificate, with all that follows from it."""
    folder.mkdir(exist_ok=True)
    certificate = dataclasses.replace(what.certificate, **changes)
    return dp.verify(dataclasses.replace(what, certificate=certificate).save(folder / "shared"))


def with_law(draw, **parts):
    """A charge with another law, and the guarantee that follows from it."""
    law = {**draw.law, **parts}
    return dataclasses.replace(draw, law=law, guarantee=promise_of(law, SPACE))


def refused(found):
    """Whether the law was what was found wrong."""
    return not found.holds and found.checks[-1].what == "each epsilon follows from the integers of its mechanism"


@pytest.mark.parametrize("name", ["labels", "clusters", "counts", "peers", "shuffle", "moments"])
def test_what_was_made_holds(made, name, tmp_path):
    """Without a change, everything is as it must be."""
    assert verdict(made[name], tmp_path).holds


@pytest.mark.parametrize("name", ["labels", "clusters", "counts", "peers", "shuffle"])
def test_charges_for_no_rows_cost_something(made, name, tmp_path):
    """A charge for no rows would cost nothing; also in a part of a release, whose rows are not counted."""
    first, *others = made[name].certificate.draws
    for_none = (dataclasses.replace(first, rows=NO_ROWS), *others)
    assert refused(verdict(made[name], tmp_path, draws=for_none, parent="a" * 64))


@pytest.mark.parametrize("rows", [(300, 301), (0, 1)])
def test_an_answer_is_about_the_rows_of_its_cells(made, rows, tmp_path):
    """A charge for other rows than those that were counted would not add up with that of the labels."""
    counts, labels = made["clusters"].certificate.draws
    elsewhere = dataclasses.replace(counts, rows=RowRanges.between(*rows))
    found = verdict(made["clusters"], tmp_path, draws=(elsewhere, labels))
    assert refused(found)
    assert "the 300 rows of the law's cells" in found.checks[-1].found


def test_a_part_keeps_what_it_cost(made, tmp_path):
    """Slices of a release hold, and hold no less than it."""
    part = made["labels"][:50]
    assert dp.verify(part.save(tmp_path / "part")).holds
    draw = dataclasses.replace(part.certificate.draws[0], rows=NO_ROWS)
    assert refused(verdict(part, tmp_path, draws=(draw,)))


def test_answers_have_no_parts(made, tmp_path):
    """An answer is about all rows that were charged for, so it names no parent, and is about some rows."""
    assert refused(verdict(made["counts"], tmp_path / "a", parent="a" * 64))
    for_none = dataclasses.replace(made["counts"].certificate.draws[0], rows=NO_ROWS)
    assert refused(verdict(made["counts"], tmp_path / "b", draws=(for_none,), rows=0))


@MIXED
def test_peers_say_nothing_of_units(made, tmp_path, name):
    """An account of single rows is no promise to whoever has several."""
    (draw,) = made[name].certificate.draws
    units = dataclasses.replace(draw, guarantee=dataclasses.replace(draw.guarantee, unit="patient"))
    assert refused(verdict(made[name], tmp_path, draws=(units,)))


@MIXED
def test_what_peers_assume_holds_of_the_whole(made, tmp_path, name):
    """Another charge before that of peers cannot hide them, and what they assume is among what is declared."""
    draws = (*made["counts"].certificate.draws, *made[name].certificate.draws)
    assert refused(verdict(made[name], tmp_path / "a", draws=draws))
    draws = (*made["counts"].certificate.draws, *made[name].certificate.draws, *made["labels"].certificate.draws)
    assert refused(verdict(made["labels"], tmp_path / "b", draws=draws))
    assert refused(verdict(made[name], tmp_path / "c", assumptions=()))


@MIXED
def test_clusters_are_among_the_rows(made, tmp_path, name):
    """Peers, or shuffled labels, in clusters of more rows than there are would promise more."""
    draw = with_law(made[name].certificate.draws[0], cluster_sizes=["100", "300"])
    declared = (*made[name].certificate.assumptions, *draw.guarantee.assumptions)
    found = verdict(made[name], tmp_path, draws=(draw,), assumptions=declared)
    assert "clusters of at most 300 rows" in found.checks[-1].found


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("counts", {"rate": 1.9}),
        ("counts", {"rate": True}),
        ("counts", {"rate": " 7 "}),
        ("counts", {"rate": "1_0"}),
        ("counts", {"rate": "\u0663"}),
        ("counts", {"rate": "1e3"}),
        ("counts", {"also": "1"}),
        ("counts", {"labels_of_a_unit": 1}),
        ("peers", {"fixed": 1}),
        ("peers", {"cluster_sizes": "99"}),
        ("peers", {"cluster_sizes": ["100", "100"]}),
        ("peers", {"delta": "1e-4"}),
        ("peers", {"delta": "nan"}),
        ("shuffle", {"keep": "1.0"}),
        ("shuffle", {"cluster_sizes": ["100", "100"]}),
        ("shuffle", {"fixed": True}),
        ("moments", {"deviation": "1e9"}),
        ("moments", {"bits": 29}),
        ("moments", {"sensitivity_squared": "+2"}),
    ],
)
def test_a_law_is_written_one_way(made, name, parts):
    """What two readers could take for different integers is no law."""
    with pytest.raises(ValueError, match=r"in its one form|could not convert|invalid literal|found nan"):
        with_law(made[name].certificate.draws[0], **parts)


def test_a_channel_is_written_one_way(made, tmp_path):
    """The same of released labels."""
    draw = made["labels"].certificate.draws[0]
    other = dataclasses.replace(draw, law={**draw.law, "bits": 64})
    assert refused(verdict(made["labels"], tmp_path, draws=(other,)))


def test_an_answer_is_called_what_it_is(made, tmp_path):
    """Counts are not opened as classes."""
    draw = dataclasses.replace(made["counts"].certificate.draws[0], mechanism=dp.NoisyArgmax.name)
    assert refused(verdict(made["counts"], tmp_path, draws=(draw,)))


@pytest.mark.parametrize("parts", [{"columns": "3"}, {"bits": "-3"}])
def test_moments_are_sums_of_as_many_features_in_whole_steps(made, parts, tmp_path):
    """Lines and steps are those of the law that noise was drawn by."""
    draw = with_law(made["moments"].certificate.draws[0], **parts)
    found = verdict(made["moments"], tmp_path, draws=(draw,))
    assert not found.holds
    assert found.checks[-1].what == "every released value is a possible outcome of its mechanism"


def test_counts_are_whole(made, tmp_path):
    """Counts with a fraction are no counts with discrete noise."""
    answer = made["counts"]
    found = dp.verify(dp.Answer(answer.value + 0.5, answer.certificate).save(tmp_path / "shared"))
    assert "whole steps" in found.checks[-1].found


@pytest.mark.parametrize("share", [-0.1, 2, 1e300])
def test_what_is_kept_is_a_share(made, share, tmp_path):
    """Where a law differs by row its figures are not recomputed, but no more than all rows can be clean."""
    expects = dataclasses.replace(made["clusters"].certificate.expects, clean_share=share)
    assert refused(verdict(made["clusters"], tmp_path, expects=expects))


@pytest.mark.parametrize("words", [{"trust": "nobody"}, {"features": "private"}, {"unit": 7}])
def test_a_guarantee_is_of_a_known_kind(words):
    """Words that mean nothing here promise nothing."""
    with pytest.raises(ValueError, match="expected trust among"):
        dp.Guarantee(1.0, **words)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("charges", 0, "law"), 5),
        (("charges", 0, "law"), "abc"),
        (("charges", 0, "rows"), [[0, 10**30]]),
        (("charges", 0, "guarantee", "unit"), []),
        (("charges",), []),
        (("label",), "ill"),
        (("table", "files"), 3),
    ],
)
def test_whatever_a_certificate_holds_it_is_read_or_refused(made, path, value, tmp_path):
    """No text makes verification fail otherwise than by saying so."""
    file = made["counts"].save(tmp_path / "shared") / CERTIFICATE
    body = json.loads(file.read_text(encoding="utf-8"))
    *where, last = path
    inner = body
    for step in where:
        inner = inner[step]
    inner[last] = value
    file.write_text(json.dumps(body), encoding="utf-8")
    assert not dp.verify(tmp_path / "shared").holds


def test_releases_of_another_unit_are_no_certificate(made, tmp_path):
    """Charges whose epsilons have no sum are refused, and no error of another kind escapes."""
    file = made["clusters"].save(tmp_path / "shared") / CERTIFICATE
    body = json.loads(file.read_text(encoding="utf-8"))
    body["charges"][1]["guarantee"]["unit"] = "patient"
    file.write_text(json.dumps(body), encoding="utf-8")
    found = dp.verify(tmp_path / "shared")
    assert "BudgetError" in found.checks[-1].found
    assert isinstance(made["clusters"], dp.Release)


def test_counts_that_fit_too_well_are_refuted(tmp_path):
    """Their sum is the number of rows and noise: of a rate that would cost nothing it cannot be so small."""
    answer = dp.Curator(LABELS, SPACE).answer(dp.NoisyHistogram(SPACE, 1.0, cells=CELLS))
    assert verdict(answer, tmp_path / "a").holds
    for rate, holds in ((1, False), (1 << 38, True)):
        (draw,) = answer.certificate.draws
        forged = dataclasses.replace(with_law(draw, rate=str(rate)), rows=draw.rows)
        assumed = dataclasses.replace(forged.guarantee, assumptions=draw.guarantee.assumptions)
        found = verdict(answer, tmp_path / str(rate), draws=(dataclasses.replace(forged, guarantee=assumed),))
        assert found.holds == holds
        assert holds or "probability" in found.checks[-1].found


def test_large_noise_is_no_forgery(tmp_path):
    """Counts at a tiny epsilon are far off, as they must be."""
    for number in range(20):
        answer = dp.Curator(LABELS, SPACE).answer(dp.NoisyHistogram(SPACE, 1e-9))
        assert verdict(answer, tmp_path / str(number)).holds


@pytest.mark.parametrize("sizes", [range(1, 4), range(1, 90)])
def test_groups_hold_whole_units(sizes, tmp_path):
    """The rows of a group of units of m rows are a multiple of m, or a sum of numbers that are rounded up to m."""
    units = np.repeat(np.arange(len(sizes)), list(sizes))
    release = dp.Curator(np.resize(["no", "yes"], len(units)), SPACE, units=units).randomize(
        dp.RandomizedResponse(SPACE, 1.0)
    )
    assert verdict(release, tmp_path / "a").holds
    if len(sizes) > 3:
        return
    (draw,) = release.certificate.draws
    law = {**draw.law, "repeats": ["1", "2", "5"]}
    guarantee = dataclasses.replace(draw.guarantee, epsilon=channel_of(law).epsilon)
    forged = (dataclasses.replace(draw, law=law, guarantee=guarantee),)
    folder = release.save(tmp_path / "b")
    certificate = dataclasses.replace(read_certificate(folder), draws=forged)
    (folder / CERTIFICATE).write_text(certificate.to_json(), encoding="utf-8")
    assert "in a group" in dp.verify(folder).checks[-1].found


@pytest.mark.parametrize(
    "path", [("assumptions", 0), ("charges", 0, "guarantee", "assumptions"), ("table", "columns", 0, "name")]
)
def test_words_are_words(made, path, tmp_path):
    """What is printed or compared as text is text."""
    folder = made["peers"].save(tmp_path / "shared")
    body = json.loads((folder / CERTIFICATE).read_text(encoding="utf-8"))
    *where, last = path
    part = body
    for step in where:
        part = part[step]
    part[last] = [None] if isinstance(part[last], list) else None
    (folder / CERTIFICATE).write_text(json.dumps(body), encoding="utf-8")
    assert "in words" in dp.verify(folder).checks[-1].found
