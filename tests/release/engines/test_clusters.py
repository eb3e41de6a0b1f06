"""Releases on clusters that start for them: Dask and Spark, whose workers die, copy tasks or go away."""

import contextlib
import gc
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp.release.jobs._job as table_module
from labeldp import Classes, Ledger, release_table, verify
from labeldp.errors import EngineError, InputError, LabelDPError, MissingExtraError
from labeldp.release import ledger_path
from labeldp.release.engines import Processes, open_engine
from labeldp.release.engines._addresses import check_listening
from labeldp.release.engines._dask import DaskClient
from labeldp.release.engines._submitted import Submitted

KEY, ROWS, PARTS = bytes(range(32)), 4000, 6
SECRETS = (KEY, KEY.hex().encode(), repr(KEY).encode())
SPACE = Classes(["a", "b", "c"])
DEATHS = ("before the write", "after the write", "after the link", "with the result")
HERE = Path(__file__).parent
#: What each worker runs when it begins.
PREPARE = """
import pathlib, sys
sys.path.insert(0, {here!r})
import forks
forks.DEATHS[{death!r}](lambda: forks.once(pathlib.Path({marker!r}), forks.{action}))
"""
ENGINES = ("processes", "dask", "spark")


def needs(engine):
    """Skip a test of an engine that is not here."""
    if engine == "spark" and (importlib.util.find_spec("pyspark") is None or shutil.which("java") is None):
        pytest.skip("pyspark and Java are not both installed")
    if engine == "dask" and importlib.util.find_spec("distributed") is None:
        pytest.skip("dask.distributed is not installed")


#: A free port for what Dask serves: another cluster may have the usual one.
QUIET = {"scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"}}


@pytest.fixture
def table(tmp_path, monkeypatch, one_name):
    """A folder of files, one key and one name for all releases, and small batches."""
    one_name(KEY)
    monkeypatch.setattr(table_module, "_ROWS_PER_BATCH", 300)
    (tmp_path / "t").mkdir()
    chance = np.random.default_rng(0)
    for part, rows in enumerate(np.array_split(np.arange(ROWS), PARTS)):
        columns = {"z": rows, "street": [f"f{i % 1500}" for i in rows], "y": chance.choice(SPACE.points, rows.size)}
        pq.write_table(pa.table(columns), tmp_path / "t" / f"{part}.parquet")
    return tmp_path / "t"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A file that every worker runs when it begins, if it is there: Spark keeps the environment of its first start."""
    folder = tmp_path_factory.mktemp("site")
    plan = folder / "plan.py"
    (folder / "sitecustomize.py").write_text(
        f"import pathlib\nplan = pathlib.Path({str(plan)!r})\nif plan.exists():\n    exec(plan.read_text())\n",
        encoding="utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, sys.path)]))
        yield plan


@pytest.fixture
def doomed(tmp_path, site):
    """A function that lets workers that begin from now on do something once at a step; it gives the mark of that."""

    def prepare(death, action="die"):
        marker = tmp_path / "died"
        site.write_text(PREPARE.format(here=str(HERE), death=death, action=action, marker=str(marker)))
        return marker

    yield prepare
    site.unlink(missing_ok=True)


def release(table, output="o", **options):
    """A release of the table in units."""
    return release_table(
        table, "y", SPACE, 1.0, table.parent / output, keep=["z"], unit="street", budget=50.0, **options
    )


def content(folder):
    """Every file of a folder, by its name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def forget(table):
    """Remove the ledger: with one name for all releases, it could hold one alone."""
    for path in table.parent.glob("*ledger*"):
        path.unlink()


def states(table):
    """What became of the charges."""
    return [entry.state for entry in Ledger(ledger_path(table)).entries()]


def bare(table):
    """What a run left beside the table: folders that are no release."""
    return [path.name for path in table.parent.iterdir() if path.name.startswith(".o")]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("death", DEATHS)
def test_a_worker_that_dies_costs_nothing(table, doomed, engine, death):
    """SIGKILL at each step, on each engine: one release, with the bytes of one process, and nothing left."""
    needs(engine)
    expected = content(release(table).output)
    shutil.rmtree(table.parent / "o")
    forget(table)
    marker = doomed(death)
    with open_engine(f"{engine}:2") as workers:
        done = release(table, executor=workers)
    assert marker.exists(), "no worker died"
    assert content(done.output) == expected
    assert verify(done.output).holds
    assert states(table) == ["released"]
    assert bare(table) == []


@pytest.mark.slow
@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("engine", ENGINES)
def test_the_number_of_workers_changes_nothing(table, engine):
    """One, two and three workers, and none, write the same bytes."""
    needs(engine)
    found = [content(release(table, "o0").output)]
    for count in (1, 2, 3) if engine == "processes" else (2,):
        with open_engine(f"{engine}:{count}") as workers:
            forget(table)
            found.append(content(release(table, f"o{count}", executor=workers).output))
    files = [{name: data for name, data in each.items() if name.endswith("parquet")} for each in found]
    assert all(each == files[0] for each in files)
    assert len(files[0]) == PARTS


@pytest.mark.slow
def test_the_key_is_in_no_spill_and_no_log_of_dask(table, tmp_path, capfd):
    """Not in what workers write to their disks, though they spill everything, nor in what they print."""
    needs("dask")
    import dask  # noqa: PLC0415 (an extra)
    import distributed  # noqa: PLC0415 (an extra)

    spills = {"distributed.worker.memory.spill": 1e-6, "distributed.worker.memory.target": 1e-6}
    seen = []
    with (
        dask.config.set({**spills, "logging.distributed": "debug"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, **QUIET, local_directory=tmp_path / "spill"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        done = release(table, executor=Submitted(DaskClient(client)))
        seen += [path.read_bytes() for path in (tmp_path / "spill").rglob("*") if path.is_file()]
        seen += [repr(client.get_worker_logs()).encode(), repr(cluster.get_logs()).encode()]
    seen += [*content(done.output).values(), "".join(capfd.readouterr()).encode()]
    assert not [secret for secret in SECRETS for each in seen if secret in each]


@pytest.mark.slow
def test_a_cluster_that_dies_is_an_error(table):
    """The scheduler goes away while parts are drawn: void, and nothing left."""
    needs("dask")
    import distributed  # noqa: PLC0415 (an extra)

    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, **QUIET, silence_logs=60
        ) as cluster,
        distributed.Client(cluster, set_as_default=False, timeout=2) as client,
    ):
        calls = []

        class Doomed(DaskClient):
            def submit(self, function, /, *arguments):
                calls.append(arguments)
                if len(calls) == 2 * PARTS + 3:
                    cluster.close()
                return super().submit(function, *arguments)

        with pytest.raises(EngineError, match="nothing was published"):
            release(table, executor=Submitted(Doomed(client)))
    assert states(table) == ["void"]
    assert bare(table) == []


def free_port():
    """A port at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_for(port):
    """Wait until a server listens."""
    while True:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        time.sleep(0.05)


SPILLS = {"DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "1e-6", "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "1e-6"}


def connections():
    """The open sockets of this process."""
    found = {each for each in gc.get_objects() if type(each) is socket.socket}
    return {each for each in found if each.fileno() >= 0 and each.family == socket.AF_INET}


class DaskServers:
    """A Dask scheduler and workers as processes of their own, whose logs and spills are in a folder."""

    def __init__(self, folder):
        self._folder, self._begun, self._port = folder, [], free_port()
        self.address = f"tcp://127.0.0.1:{self._port}"
        folder.mkdir()

    def start(self):
        """Begin a scheduler and a worker of it."""
        self._begin("scheduler", "--host", "127.0.0.1", "--port", str(self._port), "--no-dashboard")
        wait_for(self._port)
        place = str(self._folder / f"spill-{len(self._begun)}")
        self._begin("worker", self.address, "--nthreads", "1", "--no-dashboard", "--local-directory", place)

    def _begin(self, what, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *options]
        with (self._folder / f"{what}-{len(self._begun)}.log").open("wb") as log:
            self._begun.append(subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **SPILLS}))

    def kill_scheduler(self):
        """SIGKILL the scheduler that began last."""
        self._begun[-2].kill()
        self._begun[-2].wait()

    def stop(self):
        """End all of them."""
        for each in self._begun:
            each.terminate()
        for each in self._begun:
            each.wait()

    def written(self):
        """What they logged and spilled."""
        return [path.read_bytes() for path in self._folder.rglob("*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.usefixtures("site")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # of Dask's
def test_a_scheduler_that_comes_back_has_lost_the_release(table, tmp_path):
    """SIGKILL while parts are drawn, and another at its address: an error, void; the next run releases once."""
    needs("dask")
    import distributed  # noqa: PLC0415 (an extra)

    expected = content(release(table, "one").output)
    forget(table)
    servers, calls, before = DaskServers(tmp_path / "servers"), [], connections()
    servers.start()

    class Restarting(DaskClient):
        def submit(self, function, /, *arguments):
            calls.append(arguments)
            if len(calls) == 2 * PARTS + 3:
                servers.kill_scheduler()
                servers.start()
            return super().submit(function, *arguments)

    def interrupted():
        with distributed.Client(servers.address, set_as_default=False) as client:
            release(table, executor=Submitted(Restarting(client)))

    try:
        with pytest.raises(EngineError) as found:
            interrupted()
        assert "nothing was published, so the same command can be given again" in str(found.value)
        assert (states(table), bare(table), (table.parent / "o").exists()) == (["void"], [], False)
        forget(table)
        with open_engine(f"dask:{servers.address}") as workers:
            done = release(table, executor=workers)
    finally:
        servers.stop()
        for each in connections() - before:  # Dask leaves one open, to the scheduler that died
            each.close()
    assert verify(done.output).holds
    assert {n: d for n, d in content(done.output).items() if n.endswith("parquet")} == {
        n: d for n, d in expected.items() if n.endswith("parquet")
    }
    assert (states(table), bare(table)) == (["released"], [])
    assert not [secret for secret in SECRETS for each in servers.written() if secret in each]


WRONG = {
    "dask:nonsense": "expected the address of a Dask scheduler, such as dask:tcp://host:8786, found 'nonsense'",
    "dask:tcp://host:port": "expected the address of a Dask scheduler",
    "dask:tcp://CLOSED": "expected a Dask scheduler at 'tcp://CLOSED', found none: Connection refused",
    "dask:CLOSED": "expected a Dask scheduler at 'CLOSED', found none",
    "spark:nonsense": "expected a Spark master, such as spark:spark://host:7077, found 'nonsense'",
    "spark:spark://host": "expected the address of a Spark master",
    "spark:spark://CLOSED,CLOSED": "expected a Spark master at 'CLOSED,CLOSED', found none: Connection refused",
}


@pytest.mark.parametrize("address", WRONG)
def test_a_wrong_address_is_refused_at_once(address, capfd, caplog):
    """Before a client waits for what is not there, or logs what it tried."""
    needs(address.partition(":")[0])
    began = time.monotonic()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # a port at which nothing listens
        closed = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(LabelDPError) as found, open_engine(address.replace("CLOSED", closed)):
            pass
    assert WRONG[address].replace("CLOSED", closed) in str(found.value)
    assert time.monotonic() - began < 15.0
    assert (capfd.readouterr().err, caplog.records) == ("", [])


def answering(server, words):
    """Answer each connection with some bytes and keep it open, until the server is closed."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as kept:
        while True:
            kept.enter_context(server.accept()[0]).sendall(words)


@pytest.mark.parametrize(
    ("words", "found"),
    [(b"", "found no answer within 1 seconds"), (b"SSH-2.0-OpenSSH_9.2\r\n", "found something else")],
)
def test_a_listener_that_is_no_dask_scheduler_is_refused_in_time(words, found, capfd, caplog):
    """Within the limit of Dask's own setting, whether it is silent or speaks another protocol; nothing is logged."""
    needs("dask")
    import dask  # noqa: PLC0415 (an extra)

    began = time.monotonic()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
    ):
        thread = threading.Thread(target=answering, args=(server, words))
        thread.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(EngineError, match=found), open_engine(f"dask:{address}"):
            pass
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert time.monotonic() - began < 15.0
    assert (capfd.readouterr().err, caplog.records) == ("", [])


@pytest.mark.slow
def test_a_dask_cluster_without_workers_is_refused_in_time():
    """A release would wait for them for ever; the error says how to start some."""
    needs("dask")
    import dask  # noqa: PLC0415 (an extra)
    import distributed  # noqa: PLC0415 (an extra)

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        distributed.LocalCluster(n_workers=0, dashboard_address=None, **QUIET, silence_logs=50) as cluster,
        pytest.raises(EngineError, match="found none within 2 seconds; start some with 'dask worker tcp://"),
        open_engine(f"dask:{cluster.scheduler_address}"),
    ):
        pass


@pytest.mark.parametrize("engine", ENGINES)
def test_no_workers_are_refused(engine):
    """Whichever engine is asked for them."""
    with pytest.raises(InputError, match=f"expected at least one worker, such as {engine}:4, found '{engine}:0'"):
        open_engine(f"{engine}:0")


@pytest.mark.parametrize("addresses", [["127.0.0.1:OPEN"], ["tcp://127.0.0.1:1", "127.0.0.1:OPEN"]])
def test_one_of_several_addresses_is_enough(addresses):
    """Spark's masters may stand in for each other."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        check_listening([address.replace("OPEN", port) for address in addresses], "a server", "host:1")


def test_a_listener_that_is_no_spark_master_is_refused(monkeypatch):
    """Spark stops a context by itself, after a minute, where another service listens; the context is left to nobody."""
    needs("spark")
    import pyspark  # noqa: PLC0415 (an extra)

    stopped = []
    scala = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True))
    context = SimpleNamespace(_jsc=scala, stop=lambda: stopped.append(1))
    monkeypatch.setattr(pyspark, "SparkContext", lambda **_: context)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(EngineError, match="expected a Spark master at 'spark://"),
        open_engine(f"spark:spark://127.0.0.1:{server.getsockname()[1]}"),
    ):
        pass
    assert stopped


@contextlib.contextmanager
def spark_server(what, log, *options):
    """A Spark master or worker as a process of its own."""
    import pyspark  # noqa: PLC0415 (an extra)

    home = Path(pyspark.__file__).parent
    command = ["java", "-cp", str(home / "jars" / "*"), f"org.apache.spark.deploy.{what.lower()}.{what}", *options]
    scala = next((home / "jars").glob("scala-library-*")).name.removeprefix("scala-library-").rpartition(".")[0][:4]
    known = {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": scala, "SPARK_LOCAL_IP": "127.0.0.1"}
    surroundings = {**os.environ, **known}
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=surroundings) as server:
        try:
            yield
        finally:
            server.terminate()


@pytest.mark.slow
@pytest.mark.usefixtures("site")
def test_a_spark_master_without_workers_is_refused_in_time(table, monkeypatch, tmp_path):
    """Spark itself would wait for ever; the error says how to start workers, and with one there is a release."""
    needs("spark")
    import pyspark  # noqa: PLC0415 (an extra)

    import labeldp.release.engines._spark as spark_module  # noqa: PLC0415 (beside it)

    port = free_port()
    master, here = f"spark://127.0.0.1:{port}", ("--host", "127.0.0.1", "--webui-port", "0")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with spark_server("Master", tmp_path / "master.log", *here, "--port", str(port)):
        wait_for(port)
        began = time.monotonic()
        monkeypatch.setitem(spark_module._OPTIONS, spark_module._LIMIT, "3s")
        with pytest.raises(EngineError) as found:
            open_engine(f"spark:{master}").__enter__()
        assert time.monotonic() - began < 60.0
        assert pyspark.SparkContext._active_spark_context is None
        work = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work"))
        with spark_server("Worker", tmp_path / "worker.log", *here, *work, master):
            monkeypatch.setitem(spark_module._OPTIONS, spark_module._LIMIT, "120s")
            with open_engine(f"spark:{master}") as workers:
                assert verify(release(table, executor=workers).output).holds
    assert (
        f"expected workers of the Spark master at {master!r}, found none that did a task within 3 seconds; start some "
        f"with 'start-worker.sh {master}'"
    ) in str(found.value)
    paths = (*tmp_path.glob("*.log"), *(tmp_path / "work").rglob("*"))
    written = [path.read_bytes() for path in paths if path.is_file()]
    assert len(written) > 2
    assert not [secret for secret in SECRETS for each in written if secret in each]


@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_an_engine_that_is_not_installed_names_its_extra(engine, monkeypatch):
    """What to install is in the message."""
    monkeypatch.setattr("labeldp._extras.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=rf"pip install '({engine}|distributed|pyspark)>="), open_engine(engine):
        pass


def test_our_processes_are_replaced(table, doomed):
    """A process that dies after it linked its file breaks its pool, which is made anew; the release is one."""
    marker = doomed("after the link")
    with open_engine("processes:1") as workers:
        assert isinstance(workers, Processes)
        done = release(table, executor=workers)
    assert marker.exists()
    assert verify(done.output).holds
    assert states(table) == ["released"]
    assert bare(table) == []
