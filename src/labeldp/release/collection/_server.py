"""A small HTTP endpoint for reports, as an ASGI application.

``GET /`` is the declaration, and ``POST /`` a report. An answer with status 200 means that the report is on disk.
Reports of several devices are written together, so that a disk that writes slowly holds up nobody for long. Nothing is
logged, and no address of a client is read.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from collections.abc import Collection as Several
from typing import Any

from labeldp._extras import require_extra
from labeldp.errors import InputError, LabelDPError
from labeldp.release.collection._collection import MOST_BYTES, Collection, Received, Report, read_report

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
#: A status with a text, which is sent as JSON.
Answer = tuple[int, str]

#: The most reports that wait to be written, and that are written together.
_MOST_WAITING, _MOST_TOGETHER = 1024, 256
#: Seconds that a client may take for its report.
_PATIENCE = 10.0
_STATUS: dict[Received, Answer] = {
    "kept": (200, "kept"),
    "known": (200, "kept before"),
    "another": (409, "this device has sent another report, which stays"),
}


class Endpoint:
    """The application.

    Args:
        collection: Where reports are kept.
        origins: The web origins whose pages may send reports, such as ``https://survey.example``.
        most_per_second: The most reports that are read in a second, from all clients together.
    """

    def __init__(self, collection: Collection, origins: Several[str] = (), most_per_second: float = 1000.0) -> None:
        self.collection, self.origins, self.rate = collection, frozenset(origins), most_per_second
        self._allowance, self._filled = most_per_second, time.monotonic()
        self._waiting: asyncio.Queue[tuple[Report, asyncio.Future[Answer]]] = asyncio.Queue(_MOST_WAITING)
        self._writer: asyncio.Task[None] | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        status, text = await self._answer(scope, receive)
        declared = status == 200 and scope["method"] == "GET"
        content = (text if declared else json.dumps({"result": text})).encode()
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), *self._cors(scope)]
        headers += [(b"retry-after", b"5")] * (status in (429, 503))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})

    def _cors(self, scope: dict[str, Any]) -> list[tuple[bytes, bytes]]:
        """Headers that let a page of a named origin read the answer."""
        origin = next((value for name, value in scope["headers"] if name == b"origin"), b"")
        if origin.decode("latin-1") not in self.origins:
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", b"content-type"),
            (b"vary", b"origin"),
        ]

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> Answer:
        if scope["path"] != "/":
            return 404, "reports go to /"
        if scope["method"] == "POST":
            return await self._posted(receive)
        declaration = 200, self.collection.declaration.to_json()
        known: dict[str, Answer] = {"GET": declaration, "HEAD": declaration, "OPTIONS": (200, "ok")}
        return known.get(scope["method"], (405, "expected GET or POST"))

    async def _posted(self, receive: Receive) -> Answer:
        if not self._is_allowed():
            return 429, "too many reports at once; send it again"
        try:
            content = await asyncio.wait_for(_body(receive), _PATIENCE)
            report = read_report(content, self.collection.declaration, self.collection.columns)
        except TimeoutError:
            return 408, "a report that did not come"
        except InputError as problem:
            return 400, f"expected a report of this collection, found {problem}"
        return await self._kept(report)

    def _is_allowed(self) -> bool:
        """True unless there were too many reports in the last second."""
        now = time.monotonic()
        self._allowance = min(self.rate, self._allowance + (now - self._filled) * self.rate)
        self._filled = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True

    async def _kept(self, report: Report) -> Answer:
        """The answer once a report is on disk."""
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        try:
            self._waiting.put_nowait((report, answer))
        except asyncio.QueueFull:
            return 503, "too many reports wait to be written; send it again"
        return await answer

    async def _write(self) -> None:
        """Write the reports that wait, many together."""
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < _MOST_TOGETHER and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            try:
                found = await asyncio.to_thread(self.collection.add, [report for report, _ in batch])
                answers = [_STATUS[each] for each in found]
            except InputError:
                answers = [(410, "the collection is closed")] * len(batch)
            except LabelDPError:
                answers = [(503, "the report could not be written; send it again")] * len(batch)
            for (_, answer), text in zip(batch, answers, strict=True):
                if not answer.done():  # a client that went away
                    answer.set_result(text)


async def _body(receive: Receive) -> bytes:
    """The content of a request, which is cut where it is too long, and then refused."""
    content, more = b"", True
    while more and len(content) <= MOST_BYTES:
        message = await receive()
        content += message.get("body", b"")
        more = message["type"] == "http.request" and message.get("more_body", False)
    return content[: MOST_BYTES + 1]


def serve(endpoint: Endpoint, host: str, port: int) -> None:
    """Serve until the process is told to stop; reports that were answered are on disk at any time.

    Raises:
        MissingExtraError: uvicorn is not installed.
    """
    require_extra("collect", "uvicorn")
    import uvicorn  # noqa: PLC0415 (an extra)

    uvicorn.run(
        endpoint,
        host=host,
        port=port,
        access_log=False,
        log_level="error",
        lifespan="off",
        server_header=False,
        limit_concurrency=2 * _MOST_WAITING,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=2 * MOST_BYTES,
    )
