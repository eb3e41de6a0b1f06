"""Object stores for tests: in memory, and a server that speaks S3."""

import http.client
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
    monkeypatch.setattr(module, "_opened", lambda address: (system, address.removeprefix("s3://").partition("?")[0]))
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
    import boto3  # noqa: PLC0415 (``serving`` looked for it)

    boto3.client("s3").put_object(Bucket="bucket", Key=key, Body=content)


def read(path):
    """The bytes at a path of a store."""
    with path.opened() as file:
        return file.read()


def names(folder):
    """The names of the files in a folder of a store."""
    return [str(file.relative_to(folder)) for file in folder.files()]
