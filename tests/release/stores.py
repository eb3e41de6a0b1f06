"""Object stores for tests: in memory, and a server that speaks S3."""

import http.client
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import closing

import pytest
from pyarrow import fs

import labeldp.release.tables._store as module

BUCKET = "s3://bucket"


def in_memory(monkeypatch):
    """Put a store in memory in place of S3, and return its file system; it has no entity tags."""
    fsspec = pytest.importorskip("fsspec", reason="it is a store in memory")
    memory = fsspec.filesystem("memory", skip_instance_cache=True)
    memory.store, memory.pseudo_dirs = {}, [""]
    system = fs.PyFileSystem(fs.FSSpecHandler(memory))
    _in_place_of_s3(monkeypatch, system)
    return system


def serving(monkeypatch):
    """Start a server of S3 with a bucket, which the environment names, and return it; the caller stops it."""
    server_module = pytest.importorskip("moto.server", reason="it is a server of S3")
    boto3 = pytest.importorskip("boto3", reason="it makes a bucket")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    address = f"http://127.0.0.1:{port}"
    settings = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("POST", "/moto-api/reset")  # it keeps what former ones held
        connection.getresponse().read()
    boto3.client("s3", endpoint_url=address).create_bucket(Bucket="bucket")
    module._opened.cache_clear()
    return server


def _in_place_of_s3(monkeypatch, system):
    """Let addresses of the bucket lead to another store."""
    monkeypatch.setattr(module, "_opened", lambda address: (system, address.removeprefix("s3://").partition("?")[0]))


class Emulator:
    """A process that speaks as another store does; ``stop`` ends it."""

    def __init__(self, *command):
        self.folder = tempfile.mkdtemp()
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        self.address = f"127.0.0.1:{command[-1]}"
        while (line := self.process.stdout.readline()) and "successfully listens" not in line:
            pass
        assert self.process.poll() is None, "the server did not start"

    def stop(self):
        """End the process."""
        self.process.terminate()
        self.process.communicate()
        shutil.rmtree(self.folder)


def google(monkeypatch):
    """Start a server that speaks as Google's store does, with a bucket."""
    pytest.importorskip("gcp_storage_emulator", reason="it is a server of Google's store")
    start = (
        "import sys, http.server as h; h.HTTPServer = h.ThreadingHTTPServer; "
        "from gcp_storage_emulator.server import create_server as c; "
        "c('127.0.0.1', int(sys.argv[1]), in_memory=True, default_bucket='bucket').start(); "
        "print('successfully listens', flush=True)"
    )
    server = Emulator(sys.executable, "-c", start, str(_free_port()))
    options = f"scheme=http&endpoint_override={server.address}&anonymous=true"
    _in_place_of_s3(monkeypatch, module._opened(f"gs://bucket/?{options}")[0])
    return server


def azure(monkeypatch):
    """Start a server that speaks as Azure's store does, with a container in the place of the bucket."""
    command = shutil.which("azurite-blob") or pytest.skip("it needs azurite, a server of Azure's store")
    options = ("--skipApiVersionCheck", "--disableTelemetry", "--inMemoryPersistence", "--blobHost", "127.0.0.1")
    server = Emulator(command, *options, "--blobPort", str(_free_port()))
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # it is public
    hosts = {
        f"{kind}_storage_{part}": each
        for kind in ("blob", "dfs")
        for part, each in (("authority", server.address), ("scheme", "http"))
    }
    system = fs.AzureFileSystem("devstoreaccount1", account_key=key, **hosts)
    system.create_dir("bucket")
    _in_place_of_s3(monkeypatch, system)
    return server


def _free_port():
    """A port that nobody listens at."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def write(path, content):
    """Write bytes to a path of a store."""
    system, key = path._at()
    with system.open_output_stream(key, compression=None) as file:
        file.write(content)


def put_object(key, content):
    """Write an object of any name to the bucket: one that Arrow would not write."""
    system, _ = module._opened(BUCKET)
    if isinstance(system, fs.PyFileSystem):
        memory = system.handler.fs
        memory.store[f"/bucket/{key}"] = type(memory.open("/new", "wb"))(memory, f"/bucket/{key}", content)
        return
    if not isinstance(system, fs.S3FileSystem):
        pytest.skip("Arrow writes no such object, and there is no other client of this store")
    import boto3  # noqa: PLC0415 (``serving`` looked for it)

    boto3.client("s3").put_object(Bucket="bucket", Key=key, Body=content)


def read(path):
    """The bytes at a path of a store."""
    with path.opened() as file:
        return file.read()


def names(folder):
    """The names of the files in a folder of a store."""
    return [str(file.relative_to(folder)) for file in folder.files()]
