"""Releases by workers: one release, the same bytes whoever writes them, whatever dies meanwhile."""

import errno
import hashlib
import json
import os
import pickle
import re
import signal
import stat
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as dp
import labeldp.release.curator._drawing as drawing_module
import labeldp.release.curator._sink as sink_module
import labeldp.release.engines._engine as engine_module
import labeldp.release.folder._run as run_module
import labeldp.release.folder._staging as staging_module
import labeldp.release.jobs._job as table_module
import labeldp.release.tables._look as parts_module
from labeldp import _version
from labeldp._random_words import RunKey
from labeldp.errors import AttemptError, BudgetError, EngineError, InputError, LabelDPError, LabelError, TableError
from labeldp.release import ledger_path
from labeldp.release.engines import InProcess, Processes, open_engine
from labeldp.release.folder import File, staged
from labeldp.release.folder._limits import MOST_BYTES
from labeldp.release.folder._staging import run_of, staging_of
from labeldp.release.tables import Table, unit_keys

sys.path.insert(0, str(Path(__file__).parent))
from forks import DEATHS, Forks, Twice, at, die, once

COLOURS = ("red", "green", "blue", "grey", "pink")
SPACE, RANGE = dp.Classes(COLOURS), dp.Interval(0, 8, 1)
KEY = bytes(range(32))
ROWS, PARTS = 240, 4

CASES = {
    **{name: {"mechanism": name} for name in ("randomized-response", "subset", "bits", "auto")},
    "prior": {"mechanism": dp.PriorMechanism(prior="prior_")},
    "prior-subset": {"mechanism": dp.PriorMechanism(dp.PriorSubsetResponse, "prior_")},
    "unit": {"unit": "street"},
    "unit bits": {"unit": "street", "mechanism": "bits"},
    "cluster": {"mechanism": dp.ClusterMechanism("town")},
    "histogram": {"mechanism": "noisy-histogram", "keep": []},
    "histogram of units": {"mechanism": "noisy-histogram", "keep": [], "unit": "street"},
    "numbers": {"label": "visits", "space": RANGE},
    "bins": {"label": "visits", "space": RANGE, "mechanism": "bins"},
}


#: Later Pythons warn of forks where there are threads.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def fixed(monkeypatch, one_name):
    """One key and one name for all releases, so that their bytes can be compared, and batches of seventeen rows."""
    one_name(KEY)
    monkeypatch.setattr(table_module, "_ROWS_PER_BATCH", 17)


def rows_of(part):
    """The columns of a part of the table; labels follow from their place, in no order."""
    places = np.arange(part * ROWS // PARTS, (part + 1) * ROWS // PARTS)
    prior = np.where((np.arange(5)[None, :] - places[:, None]) % 5 < 2, 6.0, 1.0)
    prior /= prior.sum(axis=1, keepdims=True)
    return {
        "z": places,
        "text": [f"t{i * 7 % 9}" for i in places],
        "street": [f"f{(i * 11 % ROWS) ** 2 // 900}" for i in places],
        "town": [f"w{i * i * 5 % 11 % 3}" for i in places],
        **{f"prior_{name}": prior[:, j] for j, name in enumerate(COLOURS)},
        "visits": places * places * 13 % 9,
        "colour": [COLOURS[i * i * 7 % 5] for i in places],
    }


@pytest.fixture
def table(tmp_path):
    """A folder of four files, and of one without rows."""
    (tmp_path / "t").mkdir()
    for part in range(PARTS):
        pq.write_table(pa.table(rows_of(part)), tmp_path / "t" / f"{part}.parquet", row_group_size=25)
    empty = pa.table(rows_of(0)).slice(0, 0)
    pq.write_table(empty, tmp_path / "t" / "1a.parquet")
    return tmp_path / "t"


def release(table, output="o", **options):
    """A release of the table."""
    given = {"label": "colour", "space": SPACE, "epsilon": 1.0, "keep": ["z", "text"], **options}
    return dp.release_table(table, output=table.parent / output, **given)


def content(folder):
    """Every file of a folder, by its name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def states(table):
    """What became of the charges."""
    return [entry.state for entry in dp.Ledger(ledger_path(table)).entries()]


def left(table, *expected):
    """What lies beside the table but ledgers, and is not expected."""
    return [p.name for p in table.parent.iterdir() if "ledger" not in p.name and p.name not in {"t", *expected}]


def forget(table, output="o"):
    """Remove a release and its ledger."""
    for path in (*(table.parent / output).iterdir(), *table.parent.glob("*ledger*")):
        path.unlink()
    (table.parent / output).rmdir()


# One path


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("fixed")
def test_workers_write_what_one_process_writes(table, case):
    """With one key, files and certificate are the same bytes without an engine and by workers, and verify."""
    noise = "histogram" in case or case in ("cluster", "bins")
    expected = content(release(table, **CASES[case]).output)
    forget(table)
    forks = Forks()
    done = release(table, **CASES[case], executor=forks)
    assert dp.verify(done.output).holds
    assert states(table) == ["released"]
    assert left(table, "o") == []
    assert len(forks.calls) >= 2 * PARTS
    found = content(done.output)
    assert found.keys() == expected.keys()
    if not noise:  # which is drawn once, at the driver, under a fresh key
        assert found == expected
    elif "histogram" not in case:
        assert all(pq.read_table(done.output / f"part-0000{i}.parquet").num_rows in (0, 60) for i in range(5))


def test_counts_of_workers_are_those_of_the_table(table, monkeypatch):
    """Parts are summed, in clusters too, and noise is added once, at the driver."""
    from labeldp.mechanisms.queries import NoisyHistogram  # noqa: PLC0415 (patched)

    seen = []

    def values(_, counts, *__):
        seen.append(counts)
        return counts

    monkeypatch.setattr(NoisyHistogram, "values", values)
    release(table, "a", mechanism="noisy-histogram", keep=[], budget=9.0, executor=Forks())
    labels = [label for part in range(PARTS) for label in rows_of(part)["colour"]]
    assert seen[0].tolist() == [[labels.count(name) for name in COLOURS]]
    assert dp.Answer.load(table.parent / "a").value.tolist() == seen[0].tolist()
    release(table, "b", mechanism=dp.ClusterMechanism("town"), budget=9.0, executor=Forks())
    release(table, "c", mechanism=dp.ClusterMechanism("town"), budget=9.0)
    assert seen[1].tolist() == seen[2].tolist()
    towns = [[0] * len(COLOURS) for _ in range(3)]
    keys = np.unique(np.concatenate([unit_keys(pa.array(rows_of(part)["town"]), as_stored=True) for part in range(4)]))
    for part in range(PARTS):
        rows = rows_of(part)
        places = np.searchsorted(keys, unit_keys(pa.array(rows["town"]), as_stored=True))
        for town, label in zip(places, rows["colour"], strict=True):
            towns[town][COLOURS.index(label)] += 1
    assert seen[1].tolist() == towns


@pytest.mark.usefixtures("fixed")
def test_a_large_file_is_read_by_row_groups(table, monkeypatch):
    """One file becomes parts of its row groups, with all of its rows in order, by workers and without."""
    whole = pa.concat_tables([pa.table(rows_of(part)) for part in range(PARTS)])
    source = table.parent / "t" / "one.parquet"
    for path in table.iterdir():
        path.unlink()
    pq.write_table(whole, source, row_group_size=11)
    monkeypatch.setattr(parts_module, "_ROWS_PER_PART", 50)
    expected = release(table)
    assert [file.rows for file in expected.certificate.files] == [55, 55, 55, 55, 20]
    assert pq.read_table(expected.output, partitioning=None)["z"].to_pylist() == list(range(ROWS))
    before = content(expected.output)
    forget(table)
    assert content(release(table, executor=Forks()).output) == before


@pytest.mark.usefixtures("fixed")
def test_csv_is_shared_out_by_files(tmp_path, write_table):
    """CSV files, of a label alone too, have their rows counted before labels are read."""
    for columns in (["z", "text", "colour"], ["colour"]):
        for part in range(PARTS):
            write_table(tmp_path / "t" / f"{part}.csv", {name: rows_of(part)[name] for name in columns})
        table, keep = tmp_path / "t", columns[:-1]
        expected = content(release(table, keep=keep).output)
        forget(table)
        assert content(release(table, keep=keep, executor=Forks()).output) == expected
        forget(table)


@pytest.mark.parametrize("executor", [None, Forks])
def test_an_error_names_the_row_of_the_whole_table(table, executor):
    """A label outside the space is named by its row among all, by whoever finds it."""
    rows = rows_of(2)
    rows["colour"][5] = "a colour of its own"
    pq.write_table(pa.table(rows), table / "2.parquet")
    with pytest.raises(LabelError, match="row 126 ") as found:
        release(table, executor=executor and executor())
    assert "of its own" not in str(found.value)
    assert states(table) == []


def test_a_pool_of_the_caller_releases(table):
    """Processes that Python's own library starts, whose release verifies."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        done = release(table, unit="street", executor=pool)
    assert dp.verify(done.output).holds
    assert states(table) == ["released"]


# Deaths


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.usefixtures("fixed")
def test_a_worker_that_dies_costs_nothing(table, death, tmp_path, monkeypatch):
    """After SIGKILL the part is done again, with the same bytes; nothing is left of the first attempt."""
    expected = content(release(table).output)
    forget(table)
    marker = tmp_path / "died"
    pool = Forks(lambda: DEATHS[death](partial(once, marker, die)))
    monkeypatch.setattr(Processes, "_pool", lambda _: pool)
    assert content(release(table, executor=Processes(2)).output) == expected
    assert marker.exists()
    assert states(table) == ["released"]
    assert left(table, "o", "died") == []


def test_workers_that_always_die_give_up(table, monkeypatch):
    """The attempts are bounded; nothing is published, and the charge is void."""
    pool = Forks(lambda: DEATHS["after the write"](die))
    monkeypatch.setattr(Processes, "_pool", lambda _: pool)
    with pytest.raises(EngineError, match="nothing was published"):
        release(table, executor=Processes(2))
    assert states(table) == ["void"]
    assert left(table) == []


@pytest.mark.usefixtures("fixed")
def test_the_same_task_twice_at_once_is_one_release(table):
    """Each part by two workers at the same time: the first link stays, and the other attempt is dropped."""
    expected = content(release(table).output)
    forget(table)
    assert content(release(table, executor=Twice()).output) == expected
    assert left(table, "o") == []


def test_a_copy_that_comes_late_draws_nothing(table):
    """A speculative copy of a task that runs after the release finds no key, and leaves no trace."""
    forks = Forks()
    done = release(table, executor=forks)
    before = content(done.output)
    function, arguments = forks.calls[-1]
    value, name, message = function(*arguments)
    assert value is None
    assert (name, "private files" in message or "read and write" in message) == ("EngineError", True)
    assert content(done.output) == before
    assert left(table, "o") == []


def test_an_attempt_with_other_bytes_fails_the_release(table, tmp_path, monkeypatch):
    """A second attempt that drew something else is an error: it would be a second release."""
    marker = tmp_path / "died"

    def prepare():
        """Let the first worker die after its link, and every later one draw other labels."""
        if marker.exists():
            original = drawing_module.draw
            drawing_module.draw = lambda *args: np.roll(original(*args), 1)
        DEATHS["after the link"](partial(once, marker, die))

    monkeypatch.setattr(Processes, "_pool", lambda _: Forks(prepare))
    monkeypatch.setattr("labeldp.release.engines._submitted._AHEAD", 1)
    with pytest.raises(AttemptError, match="same bytes"):
        release(table, executor=Processes(1))
    assert states(table) == ["drawn"]
    dp.Ledger(ledger_path(table)).settle()
    assert states(table) == ["drawn"]
    assert left(table, "died") == []


@pytest.mark.parametrize("death", ["after the write", "after the link"])
def test_a_driver_that_dies_is_settled(table, death, in_child):
    """After SIGKILL of the driver, the key lies in a private file until the next run voids the charge and wipes it."""

    def run():
        driver = os.getpid()
        release(table, executor=Forks(lambda: DEATHS[death](lambda: os.kill(driver, signal.SIGKILL))))

    assert in_child(run) == -signal.SIGKILL
    (key,) = table.parent.glob(".o.labeldp~*/key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert key.stat().st_size == len(KEY)
    assert states(table) == ["charged"]
    done = release(table)  # which settles
    assert states(table) == ["void", "released"]
    assert dp.verify(done.output).holds
    assert left(table, "o") == []


@pytest.mark.parametrize("ledger", [None, "ledgers/l.labeldp-ledger"])
def test_a_driver_that_died_is_settled_where_its_folder_is_now(table, ledger, in_child, tmp_path):
    """A project folder that was renamed in between keeps no key: it is found from the ledger."""
    project = tmp_path / "project"
    (project / "ledgers").mkdir(parents=True)
    table = table.rename(project / "t")

    def run():
        driver = os.getpid()
        dying = Forks(lambda: DEATHS["after the link"](lambda: os.kill(driver, signal.SIGKILL)))
        release(table, executor=dying, ledger=ledger and project / ledger)

    assert in_child(run) == -signal.SIGKILL
    moved = project.rename(tmp_path / "renamed")
    assert len(list(moved.glob(".o.labeldp~*/key"))) == 1
    kept = dp.Ledger(moved / ledger if ledger else ledger_path(moved / table.name))
    kept.settle()
    assert [entry.state for entry in kept.entries()] == ["void"]
    assert not list(moved.glob(".o.labeldp*"))


def test_a_full_disk_on_a_worker_is_an_error(table):
    """Nothing is published, the charge is void, and the message says why."""

    def full():
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(EngineError, match="No space left on device"):
        release(table, executor=Forks(lambda: DEATHS["before the write"](full)))
    assert states(table) == ["void"]
    assert left(table) == []


# Tables that change


@pytest.mark.parametrize("executor", [None, Forks])
@pytest.mark.parametrize(("column", "options"), [("colour", {}), ("street", {"unit": "street"})])
def test_a_part_that_changed_unnoticed_is_refused(table, executor, column, options, monkeypatch):
    """Other labels or units in the second pass are seen by their digest, whatever the times of files say."""
    original = table_module.survey

    def survey(*args):
        found = original(*args)
        rows = rows_of(1)
        rows[column] = [*rows[column][1:], rows[column][0]]
        pq.write_table(pa.table(rows), table / "1.parquet")
        return found

    monkeypatch.setattr(table_module, "survey", survey)
    monkeypatch.setattr(Table, "stamp", ())
    with pytest.raises(TableError, match="does not change"):
        release(table, executor=executor and executor(), **options)
    assert states(table) == ["void"]
    assert left(table) == []


@pytest.mark.parametrize("executor", [None, Forks])
def test_a_folder_that_gains_a_file_is_refused(table, executor, monkeypatch):
    """A file that comes while the release runs would be missing in it unseen."""
    original = table_module.survey

    def survey(*args):
        found = original(*args)
        pq.write_table(pa.table(rows_of(3)), table / "late.parquet")
        return found

    monkeypatch.setattr(table_module, "survey", survey)
    with pytest.raises(TableError, match="changed"):
        release(table, executor=executor and executor())
    assert states(table) == ["void"]
    assert left(table) == []


# Workers that do not fit


def test_a_worker_of_another_version_is_refused(table):
    """Before anything is charged, with both versions in the message."""

    def other():
        _version.__version__ = "0.0.1"

    with pytest.raises(EngineError, match=r"found one with labeldp 0\.0\.1"):
        release(table, executor=Forks(other))
    assert states(table) == []


def test_a_worker_without_the_folder_is_refused(table):
    """Before anything is charged, and no file of the probe is left."""

    def apart():
        def nothing(path, **_):
            raise FileNotFoundError(errno.ENOENT, "No such file", path)

        Path.read_text = nothing

    with pytest.raises(EngineError, match="all workers share"):
        release(table, executor=Forks(apart))
    assert states(table) == []
    assert left(table) == []


def test_a_folder_without_links_is_refused_for_workers_alone(table, monkeypatch):
    """Without hard links one process renames its files, and an engine is refused."""

    def no_links(*_, **__):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(Path, "hardlink_to", no_links)
    with pytest.raises(EngineError, match="hard links"):
        release(table, executor=Forks())
    assert states(table) == []
    assert dp.verify(release(table).output).holds
    assert left(table, "o") == []


@pytest.mark.parametrize("mechanism", ["peer", "shuffle", "noisy-quantile", "double", "dummy"])
def test_mechanisms_that_need_one_place_are_refused(table, mechanism):
    """Each with its reason, before anything is charged."""
    with pytest.raises(InputError, match="leave out the engine"):
        release(table, mechanism=mechanism, executor=Forks())
    assert states(table) == []


@pytest.mark.usefixtures("as_users_call")
def test_what_is_no_executor_is_refused(table):
    """Something without submit."""
    with pytest.raises(EngineError, match="submit"):
        release(table, executor=object())
    assert states(table) == []


@pytest.mark.parametrize("text", ["", "process", "dusk", ":", "processes:0", "processes:two"])
def test_an_engine_that_there_is_not(text):
    """The message names the choices, or the nearest."""
    with pytest.raises(InputError, match=r"processes|dask"), open_engine(text):
        pass


def test_no_engine_is_this_process():
    """Without a name, parts are worked on here."""
    with open_engine(None) as engine:
        assert isinstance(engine, InProcess)
        assert not engine.shared


# Verification


def test_workers_give_the_same_verdict(table):
    """Of a release that holds, of changed bytes, and of values that are impossible or unreadable."""
    folder = release(table, unit="street").output

    def verdicts():
        one, two = dp.verify(folder), dp.verify(folder, executor=Forks())
        assert one == two
        return one

    assert verdicts().holds
    file = folder / "part-00001.parquet"
    before = file.read_bytes()
    file.write_bytes(before[:-1] + b"x")
    assert not verdicts().holds
    assert "different bytes" in verdicts().checks[-1].found
    file.write_bytes(before)
    assert verdicts().holds
    groups = pq.read_table(file)
    name = next(name for name in groups.column_names if name not in {"z", "text", "colour_released"})
    wrong = pa.array([77] * len(groups), groups.schema.field(name).type)
    pq.write_table(groups.set_column(groups.column_names.index(name), name, wrong), file)
    for spoil in (lambda: None, lambda: file.write_bytes(b"no table")):
        spoil()
        certificate = json.loads((folder / "_certificate.json").read_text())
        certificate["table"]["files"][1]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
        (folder / "_certificate.json").write_text(json.dumps(certificate))
        assert not verdicts().holds


# Many small files


@pytest.mark.usefixtures("fixed")
def test_small_parts_share_a_task(table, monkeypatch):
    """Beyond a number of tasks each has several parts; the bytes are those of one process."""
    expected = content(release(table).output)
    forget(table)
    monkeypatch.setattr(engine_module, "_TASKS", 2)
    forks = Forks()
    assert content(release(table, executor=forks).output) == expected
    of_each_pass = [sum(name in call[1][1] for call in forks.calls) for name in (b"survey_part", b"write_part")]
    assert of_each_pass == [2, 2]  # of three parts and two
    assert left(table, "o") == []


@pytest.mark.usefixtures("fixed")
def test_threads_change_nothing(table, monkeypatch):
    """Batches of few rows are read, hashed and written without threads; with them the bytes are the same."""
    expected = content(release(table).output)
    forget(table)
    for module in ("tables._tables", "tables._fingerprints", "folder._write"):
        monkeypatch.setattr(f"labeldp.release.{module}.FEW_ROWS", 0)
    assert content(release(table).output) == expected


@pytest.mark.parametrize("engine", [None, "processes:1", "forks"])
def test_files_are_flushed_before_the_folder_has_its_name(table, monkeypatch, engine):
    """Once by the driver, all of them, with their folder; before that by workers that may be on other machines."""
    events, flush = [], staging_module.sync
    monkeypatch.setattr(staging_module, "sync", lambda path: (events.append(path), flush(path)))
    marks = table.parent / "flushed"

    def prepare():
        at(run_module, "sync", after=marks.touch)

    with open_engine(None if engine == "forks" else engine) as workers:
        done = release(table, executor=Forks(prepare) if engine == "forks" else workers)
    staging = events[-2]
    assert {path.name for path in events[:-2]} == {path.name for path in done.output.iterdir()}
    assert {path.parent for path in events[:-2]} == {staging}
    assert events[-1] == done.output.parent
    assert marks.exists() == (engine == "forks")


def test_names_of_files_are_in_the_order_of_rows(table, monkeypatch):
    """Readers of folders sort names as texts, so all have the same length, however many there are."""
    for path in table.iterdir():
        path.unlink()
    for number in range(12):
        pq.write_table(pa.table(rows_of(0)).slice(number, 1), table / f"{number:02d}.parquet")
    monkeypatch.setattr(sink_module, "_DIGITS", 1)
    done = release(table)
    assert pq.read_table(done.output)["z"].to_pylist() == list(range(12))
    assert dp.verify(done.output).holds


def test_more_files_than_a_certificate_can_name_are_refused(table, monkeypatch):
    """Before any is read: nobody could verify the certificate. The bound leaves room for all else in it."""
    files = tuple(File(f"part-{number:06d}.parquet", 1 << 22, "0" * 64) for number in range(1000))
    certificate = release(table).certificate
    entries = len(replace(certificate, files=files).to_json()) - len(replace(certificate, files=()).to_json())
    assert table_module._MOST_FILES * entries / len(files) < 0.99 * MOST_BYTES
    monkeypatch.setattr(table_module, "_MOST_FILES", PARTS)
    with pytest.raises(TableError, match=r"expected a table of at most 4 files, .*, found 5; join"):
        release(table, "again")
    assert states(table) == ["released"]


@pytest.mark.parametrize("mechanism", ["randomized-response", "noisy-histogram"])
def test_a_task_names_its_own_file_alone(table, mechanism):
    """Of a hundred thousand files, tasks that named them all would not fit into memory."""
    forks = Forks()
    release(table, unit="street", executor=forks, mechanism=mechanism, keep=["z"] if mechanism[0] == "r" else [])
    named = [set(re.findall(rb"(?<![-\d])\d+a?\.parquet", pickle.dumps(call))) for call in forks.calls]
    assert max(map(len, named)) == 1
    assert len(set().union(*named)) == PARTS + 1


def test_a_worker_without_the_release_says_nothing_about_it(table):
    """Files that a worker cannot find are no forgery."""
    folder = release(table).output

    def apart():
        Path.is_dir = lambda _: False

    with pytest.raises(EngineError, match="all workers share"):
        dp.verify(folder, executor=Forks(apart))


# The key


@pytest.mark.usefixtures("fixed")
def test_the_key_is_in_nothing_that_leaves_the_driver(table, capfd):
    """Not in calls, results, files, ledgers, texts or what is printed: in its private file alone, while it draws."""
    forks, seen = Forks(), []
    original = forks.submit

    def submit(function, /, *arguments):
        seen.extend(path.read_bytes() for path in table.parent.glob(".o.labeldp~*/key"))
        return original(function, *arguments)

    forks.submit = submit
    done = release(table, unit="street", executor=forks)
    assert set(seen) == {KEY}
    texts = [KEY, KEY.hex().encode(), repr(KEY).encode()]
    streams = [pickle.dumps(forks.calls), pickle.dumps(forks.outcomes), *map(bytes, content(done.output).values())]
    streams += [path.read_bytes() for path in table.parent.iterdir() if path.is_file()]
    streams += [repr(done).encode(), repr(RunKey()).encode(), "".join(capfd.readouterr()).encode()]
    assert not [text for text in texts for stream in streams if text in stream]


def test_alone_no_key_is_written(table, monkeypatch):
    """Without an engine the key stays in memory."""
    monkeypatch.setattr(RunKey, "store", None)
    assert dp.verify(release(table).output).holds


def test_a_release_at_work_keeps_its_folder(tmp_path):
    """Another release of the same output clears empty folders of dead jobs, and not one that workers write to."""
    alive, dead = (staging_of(tmp_path / "o", name) for name in ("alive", "dead"))
    for folder in (alive, dead, run_of(alive)):
        folder.mkdir()
    with staged(tmp_path / "o", "new"):
        assert alive.is_dir()
        assert not dead.exists()


def test_budgets_hold_with_workers(table):
    """One charge for all parts, and a second release beyond the budget draws nothing."""
    forks = Forks()
    release(table, executor=forks)
    before = len(forks.calls)
    with pytest.raises(BudgetError):
        release(table, "again", executor=forks)
    assert states(table) == ["released"]
    drawn = [call for call in forks.calls[before:] if b"write_part" in call[1][1]]
    assert drawn == []


def test_unknown_errors_of_workers_are_named_alone(table):
    """The text of an error that is not ours may quote a label."""

    def quote():
        def fail():
            raise ValueError("red")

        at(sink_module.FileWriter, "write", before=fail)

    with pytest.raises(LabelDPError, match="ValueError") as found:
        release(table, executor=Forks(quote))
    assert "red" not in str(found.value)
    assert found.value.__cause__ is None
