"""Rows of several releases as one: each keeps its channel, and the epsilons of those who are in several add up."""

import dataclasses

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as dp
from labeldp.errors import InputError, VerificationError
from labeldp.release.folder import Certificate

SPACE = dp.Classes(["a", "b", "c", "d"])
GRID = dp.Interval(0, 100, 1)


def part(randomizer, rows=60, name="y", **curator):
    """A release of a table of its own."""
    labels = np.resize(np.array(SPACE.points), rows) if randomizer.space == SPACE else np.arange(rows) % 100.0
    return dp.Curator(labels, randomizer.space, name=name, **curator).randomize(randomizer)


@pytest.fixture
def months():
    """Two releases of single classes at different epsilons."""
    return part(dp.RandomizedResponse(SPACE, 1.0), 60), part(dp.RandomizedResponse(SPACE, 2.0), 40)


def test_each_row_keeps_its_channel(months):
    """Likelihoods and unbiased vectors of the whole are those of the parts, row by row, and so are slices of it."""
    january, february = months
    whole = dp.Release.concat(months)
    assert len(whole) == 100
    for power in ("likelihood", "unbiased"):
        parts = np.concatenate([getattr(each, power)() for each in months])
        assert np.array_equal(getattr(whole, power)(), parts)
        assert np.array_equal(getattr(whole[55:65], power)(), parts[55:65])
    for row in (0, 59, 60, 99):
        own = january if row < 60 else february
        assert np.array_equal(whole.channel.matrix(row), own.channel.matrix())
    assert np.array_equal(whole.codes, [*january.codes, *february.codes])


def test_epsilons_add_up_unless_the_rows_are_other_peoples(months):
    """Whoever is in both has the sum; a declaration that nobody is gives the largest, and stands in the certificate."""
    whole = dp.Release.concat(months)
    assert whole.guarantee.epsilon == 3.0
    others = dp.Release.concat(months, other_people="another hospital")
    assert others.guarantee.epsilon == 2.0
    assert any("other people's: another hospital" in each for each in others.certificate.assumptions)
    assert dp.Release.concat([others, part(dp.RandomizedResponse(SPACE, 0.5))]).guarantee.epsilon == 3.5
    assert "epsilon 3," in whole.certificate.sentence
    assert Certificate.from_json(whole.certificate.to_json()) == whole.certificate


def test_units_of_several_rows_always_add_up():
    """Rows do not tell people apart, so a declaration about rows changes nothing."""
    units = np.repeat(np.arange(20), 3)
    parts = [part(dp.RandomizedResponse(SPACE, 1.0), units=units) for _ in range(2)]
    for reason in ("", "another hospital"):
        whole = dp.Release.concat(parts, other_people=reason)
        assert (whole.guarantee.epsilon, whole.guarantee.unit) == (2 * parts[0].guarantee.epsilon, "unit")
    with pytest.raises(InputError, match="one privacy unit"):
        dp.Release.concat([parts[0], part(dp.RandomizedResponse(SPACE, 1.0))])


def test_slices_of_one_release_are_one_charge(months):
    """They cost what it cost, and are a slice of it again; beside another release they are one of two charges."""
    january, february = months
    again = dp.Release.concat([january[:10], january[30:]])
    assert again.guarantee == january.guarantee
    assert again.certificate == january[:40].certificate
    assert np.array_equal(again.codes, january[np.r_[:10, 30:60]].codes)
    assert dp.Release.concat([january[:10], february, january[30:]]).guarantee.epsilon == 3.0
    for twice in ([january, january], [january, january[:10]], [dp.Release.concat(months), february]):
        with pytest.raises(InputError, match="once"):
            dp.Release.concat(twice)


def test_sets_numbers_and_deltas():
    """Sets of several sizes, numbers of several mechanisms, and charges with a curator's answers."""
    sets = [part(dp.SubsetResponse(SPACE, 1.0, size=size)) for size in (1, 2)]
    whole = dp.Release.concat(sets)
    assert np.array_equal(whole.unbiased(), np.concatenate([each.unbiased() for each in sets]))
    numbers = [part(dp.OneBitResponse(GRID, 1.0)), part(dp.LaplaceResponse(GRID, 2.0))]
    whole = dp.Release.concat(numbers)
    for name in ("numbers", "noise_variance"):
        assert np.array_equal(getattr(whole, name)(), np.concatenate([getattr(each, name)() for each in numbers]))


def test_who_saw_labels_is_who_saw_any_of_them(months):
    """A charge of a trusted curator's makes the whole central, whichever part it is, and deltas add up."""
    draw = months[1].certificate.draws[0]
    central = dataclasses.replace(draw, guarantee=dataclasses.replace(draw.guarantee, trust="central", delta=1e-6))
    seen = dataclasses.replace(months[1], certificate=dataclasses.replace(months[1].certificate, draws=(central,)))
    for parts in ([months[0], seen], [seen, months[0]]):
        found = dp.Release.concat(parts).guarantee
        assert (found.trust, found.epsilon, found.delta) == ("central", 3.0, 1e-6)


def test_a_curator_and_a_shuffler_promise_nothing_together(months):
    """A sentence about a trusted curator would hold whatever else someone knows, and shuffled labels do not."""

    def trusting(month, trust):
        draw = month.certificate.draws[0]
        draws = (dataclasses.replace(draw, guarantee=dataclasses.replace(draw.guarantee, trust=trust, delta=1e-6)),)
        return dataclasses.replace(month, certificate=dataclasses.replace(month.certificate, draws=draws))

    shuffled = trusting(months[0], "shuffle")
    with pytest.raises(InputError, match="expected releases of one trust model"):
        dp.Release.concat([shuffled, trusting(months[1], "central")])
    assert dp.Release.concat([shuffled, months[1]]).guarantee.trust == "shuffle"


def test_what_has_no_common_form_is_refused(months, tmp_path):
    """Other labels, classes, forms and candidates are named; and rows of several releases are not saved as one."""
    other = dp.Classes(["d", "c", "b", "a"])
    prior = dp.PriorResponse(SPACE, 1.0, np.full((60, 4), 0.25))
    for wrong, why in (
        (part(dp.RandomizedResponse(SPACE, 1.0), name="z"), "one label"),
        (dp.Curator(["a"] * 9, other, name="y").randomize(dp.RandomizedResponse(other, 1.0)), "label spaces"),
        (part(dp.SubsetResponse(SPACE, 1.0, size=2)), "one form"),
        (part(prior), "'candidates'"),
        (dp.Release.public(["a"] * 9, SPACE), "public labels alone"),
    ):
        with pytest.raises(InputError, match=why):
            dp.Release.concat([months[0], wrong])
    with pytest.raises(InputError, match="rows of several"):
        dp.Release.concat(months).save(tmp_path / "whole")
    with pytest.raises(InputError, match="at least one"):
        dp.Release.concat([])
    public = dp.Release.concat([dp.Release.public(["a"] * 9, SPACE), dp.Release.public(["b"], SPACE)])
    assert public.is_public
    assert public.codes.tolist() == [0] * 9 + [1]


def test_candidates_of_one_law_stay_with_their_rows():
    """Releases with priors of one epsilon differ by row alone, and so can be one."""
    priors = [np.full((60, 4), 0.25), np.tile([0.8, 0.2, 0.0, 0.0], (60, 1))]
    parts = [part(dp.PriorResponse(SPACE, 1.0, prior)) for prior in priors]
    whole = dp.Release.concat(parts)
    assert np.array_equal(whole.likelihood(), np.concatenate([each.likelihood() for each in parts]))
    assert whole.guarantee.epsilon == 2.0


@pytest.mark.parametrize("name", ["concatenate", "append", "insert", "block", "hstack", "vstack", "dstack", "stack"])
def test_numpy_names_the_way(months, name):
    """Arrays of opaque labels have lost their channels, so NumPy's own functions refuse."""
    several = {"append": months, "insert": (months[0], 0, months[1])}
    arguments = several.get(name, (list(months),))
    with pytest.raises(InputError, match=r"Release\.concat"):
        getattr(np, name)(*arguments)


def test_other_functions_of_numpy_find_opaque_labels(months):
    """They do what they did with an array of objects."""
    assert np.shape(months[0]) == (60,)
    assert np.ndim(months[0]) == 1
    assert np.take(months[0], [1, 2]).dtype == object
    for labels in (months[0], np.r_[months[0], months[1]]):  # r_ asks nobody, but what it returns is opaque too
        with pytest.raises(Exception, match="true labels"):
            np.unique(labels)


def test_a_model_of_all_rows_was_fitted_on_each_part(months):
    """Certificates know that rows are shared, whole or in part, so no part is scored as new."""
    whole, new = dp.Release.concat(months).certificate, part(dp.RandomizedResponse(SPACE, 1.0)).certificate
    for each in (*months, months[0][:10]):
        assert whole.may_share_rows(each.certificate)
        assert each.certificate.may_share_rows(whole)
    assert not whole.may_share_rows(new)


def test_concatenated_releases_can_be_concatenated_again():
    """Of parts that are other people's, each with a sum of its own, the largest sum counts, however many there are."""
    pairs = [
        dp.Release.concat([part(dp.RandomizedResponse(SPACE, epsilon)), part(dp.RandomizedResponse(SPACE, 0.5))])
        for epsilon in (1.0, 3.0, 2.0)
    ]
    assert dp.Release.concat(pairs, other_people="other hospitals").guarantee.epsilon == 3.5
    assert dp.Release.concat(pairs).guarantee.epsilon == 7.5


@pytest.mark.parametrize("reason", [" ", "a\nb", "x" * 201])
def test_a_reason_is_a_short_line(months, reason):
    """What would lower the stated epsilon without a reason is refused, as at the command line."""
    with pytest.raises(InputError, match="reason for other people, of 1 to 200"):
        dp.Release.concat(months, other_people=reason)


def test_rows_of_the_same_names_are_not_other_peoples():
    """Two releases of one curator add up whatever is declared: their index, or their identities, tell."""
    names = [f"patient {i}" for i in range(60)]
    labels = np.resize(np.array(SPACE.points), 60)
    for curator in (
        dp.Curator(pd.Series(labels, index=names), SPACE, budget=3.0),
        dp.Curator(labels.tolist(), SPACE, budget=3.0, identity=names),
    ):
        twice = [curator.randomize(dp.RandomizedResponse(SPACE, epsilon)) for epsilon in (1.0, 2.0)]
        assert dp.Release.concat(twice).guarantee.epsilon == 3.0
        with pytest.raises(InputError, match="by their curator, index or identities"):
            dp.Release.concat(twice, other_people="another hospital")


def test_rows_of_one_curator_of_a_plain_list_are_not_other_peoples():
    """The curator's session tells, in slices and concatenated releases too; its other rows are other people's."""
    curator = dp.Curator(np.resize(np.array(SPACE.points), 60).tolist(), SPACE, budget=9.0, name="y")
    one, two = (curator.randomize(dp.RandomizedResponse(SPACE, epsilon)) for epsilon in (1.0, 2.0))
    new = part(dp.RandomizedResponse(SPACE, 1.0))
    for parts in ([one, two], [one[:10], two[:10]], [dp.Release.concat([one, new]), two]):
        with pytest.raises(InputError, match="found two of the same rows"):
            dp.Release.concat(parts, other_people="another hospital")
    first, rest = (curator.randomize(dp.RandomizedResponse(SPACE, 1.0), rows) for rows in (range(20), range(20, 60)))
    assert dp.Release.concat([first, rest], other_people="stays of one night").guarantee.epsilon == 1.0
    assert dp.Release.concat([one[:20], one[30:]], other_people="one charge").guarantee.epsilon == 1.0


def test_stages_know_their_curator():
    """A release of several stages is of all their rows."""
    curator = dp.Curator(np.resize(np.array(SPACE.points), 60).tolist(), SPACE, budget=9.0, name="y")
    rows = [np.arange(20), np.arange(20, 60)]
    stages = dp.concatenate([(each, curator.randomize(dp.RandomizedResponse(SPACE, 1.0), each)) for each in rows])
    again = curator.randomize(dp.RandomizedResponse(SPACE, 2.0), [59])
    with pytest.raises(InputError, match="found two of the same rows"):
        dp.Release.concat([stages, again], other_people="another hospital")


def test_a_mechanism_is_named_once():
    """However many parts it has drawn."""
    whole = dp.Release.concat([part(dp.RandomizedResponse(SPACE, 1.0)) for _ in range(9)])
    assert repr(whole) == f"<Release of {len(whole)} rows by randomized-response, epsilon 9>"


# A release folder read batch by batch is the release, in parts.


NUMBERS = dp.Interval(0.0, 8.0, 0.5)


def of_numbers(labels, _):
    """A release of numbers."""
    return dp.Curator(np.arange(len(labels)) % 9, NUMBERS).randomize(dp.PiecewiseResponse(NUMBERS, 2.0))


def of_clusters(labels, space):
    """A release whose law differs by cluster."""
    return dp.cluster_response(dp.Curator(labels, space), np.arange(len(labels)) % 3, 4.0, share=0.5).release


def of_units(labels, space):
    """A release whose law differs by the number of rows of a person."""
    people = np.resize([0, 1, 1, 2, 2, 2], len(labels)) + np.repeat(np.arange(10), 6) * 3
    return dp.Curator(labels, space, units=people).randomize(dp.RandomizedResponse(space, 2.0))


def check_batches(release, folder):
    """Each batch is what slicing the loaded release gives, with the columns of its rows, in order."""
    columns = pa.table({"x": np.arange(60), "town": [f"t{i % 5}" for i in range(60)]})
    loaded = dp.Release.load(release.save(folder, columns, keep="all"))
    for rows in (7, 60, 1000):
        low = 0
        for table, part in dp.release_batches(folder, rows):
            expected = loaded[low : low + rows]
            assert len(part) == table.num_rows == min(rows, 60 - low)
            assert table.equals(columns.slice(low, rows))
            assert (part.hash, part.certificate, part.space) == (expected.hash, expected.certificate, expected.space)
            assert np.array_equal(part.codes, expected.codes)
            low += rows
        assert low >= 60


def test_batches_are_slices_of_the_release(randomizer_for, labels, space, tmp_path):
    """Under every law of classes a batch is the slice of the loaded release, its certificate included."""
    check_batches(dp.Curator(labels, space).randomize(randomizer_for(space, 2.0, len(labels))), tmp_path / "r")


@pytest.mark.parametrize("make", [of_numbers, of_clusters, of_units])
def test_batches_of_numbers_clusters_and_units_are_slices_too(make, labels, space, tmp_path):
    """So it is where numbers were released, and where laws differ by cluster or by person."""
    check_batches(make(labels, space), tmp_path / "r")


def test_batches_of_a_part_name_what_that_is_part_of(labels, space, tmp_path):
    """A part that was saved gives batches which name the whole release."""
    whole = dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 2.0))
    whole[10:40].save(tmp_path / "part")
    assert {part.certificate.parent for _, part in dp.release_batches(tmp_path / "part", 7)} == {whole.hash}


def test_batches_go_on_from_file_to_file(tmp_path):
    """A folder of files gives the batches of one table, each but the last of the asked length."""
    (tmp_path / "t").mkdir()
    for i, rows in enumerate((500, 130, 1)):
        made = {"x": np.arange(rows) + 1000 * i, "y": ["a", "b"] * (rows // 2) + ["a"] * (rows % 2)}
        pq.write_table(pa.table(made), tmp_path / "t" / f"{i}.parquet", row_group_size=90)
    folder = dp.release_table(tmp_path / "t", "y", dp.Classes(["a", "b"]), 1.0, tmp_path / "r", keep=["x"]).output
    assert len(list(folder.glob("*.parquet"))) == 3
    batches = list(dp.release_batches(folder, 100))
    assert [len(part) for _, part in batches] == [100] * 6 + [31]
    assert (
        pa.concat_tables([table for table, _ in batches])
        .combine_chunks()
        .equals(dp.public_columns(folder).combine_chunks())
    )
    assert np.array_equal(np.concatenate([part.codes for _, part in batches]), dp.Release.load(folder).codes)


def test_a_batch_costs_the_memory_of_a_few(tmp_path):
    """Of 16 MB in a file of one piece, what is held at any batch is below 8 MB."""
    rows, space = 1_000_000, dp.Classes([0, 1])
    release = dp.Curator(np.arange(rows) % 2, space).randomize(dp.RandomizedResponse(space, 1.0))
    folder = release.save(tmp_path / "r", pa.table({"x": np.arange(rows) / 3, "z": np.arange(rows) / 7}), keep="all")
    assert pq.read_metadata(folder / "data.parquet").num_row_groups == 1
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for _ in dp.release_batches(folder, 1 << 14)]
    assert len(held) == -(-rows // (1 << 14))
    assert max(held) < 8 << 20


@pytest.mark.parametrize("rows", [0, -1, True])
def test_a_batch_has_a_whole_number_of_rows(rows, tmp_path):
    """Anything else is refused before the folder is read."""
    with pytest.raises(InputError, match="rows"):
        dp.release_batches(tmp_path / "none", rows)


def test_what_has_no_rows_to_learn_from_is_refused(labels, space, tmp_path):
    """An empty part, an answer and a folder of something else are refused at the call, before any batch is read."""
    curator = dp.Curator(labels, space)
    curator.randomize(dp.RandomizedResponse(space, 2.0))[:0].save(tmp_path / "empty")
    with pytest.raises(InputError, match="at least one row"):
        dp.release_batches(tmp_path / "empty")
    dp.Curator(labels, space).answer(dp.NoisyHistogram(space, 1.0)).save(tmp_path / "answer")
    with pytest.raises(VerificationError, match=r"Answer\.load"):
        dp.release_batches(tmp_path / "answer")
    with pytest.raises(VerificationError, match=r"no release with a _certificate\.json"):
        dp.release_batches(tmp_path)


def test_a_folder_that_was_changed_gives_no_batch(labels, space, tmp_path):
    """A file with other bytes than the certificate lists is refused before its first row is handed out."""
    folder = dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 2.0)).save(tmp_path / "r")
    file = folder / "data.parquet"
    pq.write_table(pq.read_table(file).take(np.arange(60)[::-1]), file)
    with pytest.raises(VerificationError, match="different bytes"):
        dp.release_batches(folder)


def test_a_folder_with_another_file_gives_no_batch(labels, space, tmp_path):
    """The whole folder is verified before the first batch, not its listed files alone."""
    folder = dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 2.0)).save(tmp_path / "r")
    (folder / "more.parquet").write_bytes((folder / "data.parquet").read_bytes())
    with pytest.raises(VerificationError, match="more"):
        dp.release_batches(folder)


def test_a_file_that_was_replaced_gives_no_batch(tmp_path):
    """Files are verified before the first batch; another that takes the place of one meanwhile is noticed."""
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        made = {"x": [name] * 40, "y": ["no", "yes"] * 20}
        pq.write_table(pa.table(made), tmp_path / "in" / f"{name}.parquet")
    out = dp.release_table(tmp_path / "in", "y", dp.Classes(["no", "yes"]), 1.0, tmp_path / "out", drop=[]).output
    batches = dp.release_batches(out, 5)
    next(batches)
    second = sorted(out.glob("*.parquet"))[1]
    pq.write_table(pq.read_table(second).slice(1), tmp_path / "other")
    (tmp_path / "other").replace(second)
    with pytest.raises(VerificationError, match="different bytes"):
        list(batches)
