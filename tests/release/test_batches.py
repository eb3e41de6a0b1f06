"""A release folder read batch by batch is the release, in parts."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as dp
from labeldp.errors import InputError, VerificationError

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
