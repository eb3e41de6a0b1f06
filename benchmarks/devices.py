"""Devices that report to a real collector: kills, double sends, wrong clocks, hostile JSON and wrong declarations.

    python benchmarks/devices.py [DEVICES] [KILLS]

starts ``labeldp collect`` on the loopback address, sends the reports of many devices at once, kills the collector
(SIGKILL) and starts it again while they are sent, and compares what is kept at the end with what was answered. It
prints figures of load, and fails if a report that was answered is missing, or one is kept twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from labeldp import Classes, Declaration, RandomizedResponse, Release
from labeldp.privacy.channels import ResponseChannel
from labeldp.release.collection import Collection

_AT_ONCE = 100
#: Seconds for which a device tries: a collector that was killed starts again meanwhile.
_PATIENCE = 400
_HOSTILE = (
    b"",
    b"{",
    b"[]",
    b"null",
    b'{"declaration": 1}',
    b"[" * 8000,
    b'{"a": 1, "a": 2}',
    b"\xff\xfe",
    b"1" * 8000,
    b"x" * 100_000,
)
#: What devices take the time to be.
_CLOCKS = ("Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "yesterday")


class Collector:
    """The process under test, which may be killed."""

    def __init__(self, box: Path, port: int) -> None:
        self.box, self.port, self.peak = box, port, 0
        self.start()

    def start(self) -> None:
        """Start it anew, on the same file."""
        listen = ("--listen", f"127.0.0.1:{self.port}", "--most-per-second", "100000")
        command = [sys.executable, "-m", "labeldp", "collect", str(self.box), *listen]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def measure(self) -> None:
        """Note the largest memory so far, in MiB."""
        try:
            lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        except OSError:
            return
        self.peak = max(self.peak, *(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM")), 0)

    def kill(self) -> None:
        """Kill it as a power failure of the process would."""
        self.measure()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Tell it to stop."""
        self.measure()
        self.process.terminate()
        self.process.wait(30)


async def posted(port: int, content: bytes) -> int:
    """The status that a report is answered with; 0 if the collector is away."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = ("POST / HTTP/1.1", "host: x", f"date: {random.choice(_CLOCKS)}", f"content-length: {len(content)}")
        writer.write("\r\n".join((*lines, "connection: close", "", "")).encode() + content)
        await writer.drain()
        line = await asyncio.wait_for(reader.readline(), 30)
        writer.close()
        return int(line.split()[1]) if line else 0
    except (OSError, TimeoutError, IndexError, ValueError):
        return 0


async def device(number: int, port: int, name: str, report: str, seen: Counter[str]) -> bool:
    """Send a report until it is answered, some twice, and some with what is no report of the collection."""
    token = f"{number:08x}" + "0" * 24
    body = {"declaration": name, "token": token, "report": report}
    if number % 10 == 0:
        seen[f"hostile {await posted(port, random.choice(_HOSTILE))}"] += 1
    if number % 10 == 1:
        seen[f"wrong declaration {await posted(port, json.dumps(body | {'declaration': '0' * 32}).encode())}"] += 1
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        status = await posted(port, json.dumps(body).encode())
        seen[f"report {status}"] += 1
        if status == 200:
            break
        await asyncio.sleep(0.1 + random.random() / 2)
    else:
        return False
    if number % 5 == 0:
        seen[f"double send {await posted(port, json.dumps(body).encode())}"] += 1
    if number % 10 == 2:
        other = {"yes": "no", "no": "yes"}[report]
        seen[f"another report {await posted(port, json.dumps(body | {'report': other}).encode())}"] += 1
    return True


async def everyone(collector: Collector, name: str, reports: list[str], kills: int) -> tuple[list[bool], Counter[str]]:
    """All devices, some at a time, with kills spread over them."""
    seen: Counter[str] = Counter()
    gate, done = asyncio.Semaphore(_AT_ONCE), 0
    at = {(k + 1) * len(reports) // (kills + 1) for k in range(kills)}

    async def one(number: int) -> bool:
        nonlocal done
        async with gate:
            answered = await device(number, collector.port, name, reports[number], seen)
        done += 1
        if done in at:
            await asyncio.to_thread(collector.kill)
            collector.start()
        elif done % 500 == 0:
            collector.measure()
        return answered

    return await asyncio.gather(*map(one, range(len(reports)))), seen


def run(devices: int, kills: int, folder: Path) -> dict[str, object]:
    """Collect, compare, and return the figures."""
    space = Classes(["no", "yes"])
    declaration = Declaration("answer", RandomizedResponse(space, 1.0), "a trial")
    box = folder / "box"
    Collection.begin(box, declaration, {})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    channel, random_state = declaration.channel, np.random.default_rng(1)
    assert isinstance(channel, ResponseChannel)
    truth = random_state.random(devices) < 0.3
    kept = random_state.random(devices) < float(channel.membership.true)
    reports = ["yes" if yes else "no" for yes in truth ^ ~kept]
    collector, start = Collector(box, port), time.monotonic()
    answered, seen = asyncio.run(everyone(collector, declaration.name, reports, kills))
    seconds = time.monotonic() - start
    collector.stop()
    stored = Collection(box)
    release, _ = stored.release()
    folder_of_release = release.save(folder / "out")
    counts = Counter(Release.load(folder_of_release).to_arrow().to_pylist())
    if not all(answered) or len(stored) != devices or counts != Counter(reports):
        raise SystemExit(f"lost or twice: {sum(answered)} answered of {devices}, {len(stored)} kept")
    return {
        "devices": devices,
        "kills": kills,
        "kept": len(stored),
        "reports a second": round(devices / seconds),
        "peak memory (MiB)": collector.peak,
        "share of yes": round(float(release.unbiased()[:, 1].mean()), 3),
        "true share": round(float(truth.mean()), 3),
        **dict(sorted(seen.items())),
    }


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    numbers = [int(text) for text in sys.argv[1:]] or [10_000, 5]
    with tempfile.TemporaryDirectory() as place:
        for name, value in run(numbers[0], numbers[1] if len(numbers) > 1 else 5, Path(place)).items():
            print(f"{name}: {value}")
