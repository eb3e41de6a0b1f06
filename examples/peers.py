"""Peer protocol: peers exchange flipped labels, and a learner hears one from each (Esfandiari 2022, Algorithm 2).

Every peer holds one label. It flips it at random, once, forgets the true one, and opens a port. At the start of a
session it picks a member of its public cluster uniformly (itself included), connects to it, and receives that member's
flipped label. When the session closes it reports the received label to the learner. Run this file: twelve processes
with ten peers each exchange on this machine, and one process is killed on the way.

**A peer gives the same bit to everyone.** A connection is the request, and peers read nothing. Someone who repeatedly
asks all peers learns every flipped label and no more: flipping alone protects against that, ``view_of_one_peer``. A
peer that does so and tells the learner undoes the exchange; ``collusion`` is about one that follows the protocol.

**No label is asked twice.** If a peer is gone, is cut off, is late, or sends anything but its bit, once, and at the
close that it stayed, then the peer that asked it releases nothing, and reports to the learner whom it asked in vain.

**Missing rows.** Which peers vanish must not depend on labels or on who asked whom. Then a released row carries the
flipped label of a uniform member *among those that stayed*, and the guarantee is that of a cluster of as many members
as stayed; computed with all initial members it would claim too little. It may use the number of released rows, since
which rows these are is independent of labels. If a peer is reported as asked in vain but did stay, the assignment of
answers is unknown, and flipping alone is claimed. Flipping alone is also the guarantee of peers that vanish.
``docs/design/peers.md`` has the proof.

Out of scope: encryption, and authenticated identities. An observer of the traffic sees who asked whom.
"""

import asyncio
import contextlib
import json
import re
import secrets
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, Self

import labeldp  # loads lazily: the processes of peers load no part of it

HERE = "127.0.0.1"
WORD = 1 << 64
STAYED = b"stayed\n"
#: The complete messages that a peer may send on a connection.
HEARD = {b"%d\n%b" % (label, STAYED): label for label in (0, 1)}
LONGEST = max(map(len, HEARD))
REPORT = re.compile(rb"(\d{1,9}) (?:released ([01])|asked (\d{1,9}) in vain|not sampled)\n")
#: Seconds after the close within which everything ends.
GRACE = 3.0


@dataclass(frozen=True)
class Plan:
    """Public parameters of a session.

    Attributes:
        clusters: The rows of each cluster, in order; the number of a row is that of its peer.
        ports: The port of each peer.
        learner: The port on which the learner receives reports.
        sample: A peer takes part if a random 64-bit word of its own is below this.
        closes: When peers stop answering, in seconds since the epoch.
        chosen: Instead of ``sample``, the rows that take part, chosen before anybody was asked.
    """

    clusters: Sequence[Sequence[int]]
    ports: Sequence[int]
    learner: int
    sample: int
    closes: float
    chosen: Sequence[int] | None = None


class Report(NamedTuple):
    """Report of a peer that stayed: a label, the peer it asked in vain, or neither if it was not sampled."""

    label: int | None = None
    in_vain: int | None = None


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that is closed at the end, whatever happens."""
    reader, writer = await asyncio.open_connection(HERE, port)
    try:
        yield reader, writer
    finally:
        await ended(writer)


async def ended(writer: asyncio.StreamWriter) -> None:
    """Close a connection."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


class Server(ABC):
    """A listener on a port chosen by the system, which waits for its callers before it ends."""

    def __init__(self) -> None:
        self._calls: set[asyncio.Task[None]] = set()

    async def listen(self) -> int:
        """Open the port, and return its number."""
        self._server = await asyncio.start_server(self._called, HERE, 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Accept no more calls, and finish the open ones."""
        self._server.close()
        await asyncio.gather(*self._calls)

    async def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._calls.add(call := asyncio.current_task())
        try:
            with contextlib.suppress(OSError):
                await self._answer(reader, writer)
        finally:
            await ended(writer)
            self._calls.discard(call)

    @abstractmethod
    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a call."""


class Peer(Server):
    """Holder of one label, which keeps only the flipped label.

    Args:
        row: Number of the row.
        label: The label, 0 or 1.
        flip: The label is flipped if a random 64-bit word is below this: ``PeerExchange(...).law.flip``.
        word: Source of its uniform 64-bit words; insecure sources are for tests.
    """

    def __init__(self, row: int, label: int, flip: int, word: Callable[[], int] = lambda: secrets.randbits(64)) -> None:
        super().__init__()
        self.row, self._word, self._closed = row, word, asyncio.Event()
        self._flipped = label ^ (word() < flip)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send the flipped label to each caller, and confirm at the close that everybody before was answered."""
        del reader
        if not self._closed.is_set():
            writer.write(b"%d\n" % self._flipped)
            await writer.drain()
            await self._closed.wait()
            writer.write(STAYED)
            await writer.drain()

    async def take_part(self, plan: Plan) -> None:
        """Ask one member of the cluster, answer until the close, and report."""
        asyncio.get_running_loop().call_later(max(0.0, plan.closes - time.time()), self._closed.set)
        members = next(rows for rows in plan.clusters if self.row in rows)
        picked, lot = self._word(), self._word()
        asked = members[self._below(len(members), picked)]
        says = b"not sampled"
        if lot < plan.sample if plan.chosen is None else self.row in plan.chosen:
            heard = await ask(plan.ports[asked], plan.closes)
            says = b"asked %d in vain" % asked if heard is None else b"released %d" % heard
        await self._closed.wait()
        await self.close()  # a peer reports "released" only after it has answered everyone itself
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(GRACE), connected(plan.learner) as (reader, writer):
                writer.write(b"%d %b\n" % (self.row, says))
                await reader.read()

    def _below(self, size: int, word: int) -> int:
        """A uniform number: the remainder of the first word below the largest multiple of the size."""
        while word >= WORD // size * size:
            word = self._word()
        return word % size


async def ask(port: int, closes: float) -> int | None:
    """Ask a peer once for its flipped label; None unless it sends just that, and at the close that it stayed."""
    received = b""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(max(0.0, closes - time.time()) + GRACE / 2), connected(port) as (reader, _):
            while len(received) <= LONGEST and (part := await reader.read(LONGEST + 1)):
                received += part
            return HEARD.get(received)
    return None


class Learner(Server):
    """Receiver of one report for each row; malformed and repeated reports are ignored."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows, self.reports = rows, dict[int, Report]()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer
        with contextlib.suppress(ValueError, TimeoutError):
            async with asyncio.timeout(GRACE):
                match = REPORT.fullmatch(await reader.readline())
            if match and int(match[1]) < self.rows:
                label, in_vain = (None if part is None else int(part) for part in match.groups()[1:])
                self.reports.setdefault(int(match[1]), Report(label, in_vain))


@dataclass(frozen=True)
class Claim:
    """Guarantee of a session for the peers of one cluster, and the released labels.

    Attributes:
        members: The peers of the cluster.
        stayed: Those that reported.
        labels: The released labels.
        guarantee: Guarantee of the learner's view for those that stayed; None if that is flipping alone. For peers that
            vanished it is flipping alone.
        peers: The exchange that took place, with its share of released rows.
    """

    members: int
    stayed: int
    labels: tuple[int, ...]
    guarantee: "labeldp.Guarantee | None"
    peers: "labeldp.PeerExchange"

    @classmethod
    def of(cls, flip: float, members: Iterable[int], reports: Mapping[int, Report], delta: float) -> Self:
        """Create the claim from all reports; its form is independent of the labels."""
        members = list(members)
        stayed_reports = {row: reports[row] for row in members if row in reports}
        labels = tuple(report.label for report in stayed_reports.values() if report.label is not None)
        share = max(1, len(labels)) / max(1, len(stayed_reports))
        peers = labeldp.PeerExchange(flip, share, sampling="fixed")
        explained = all(report.in_vain not in stayed_reports for report in stayed_reports.values())
        exact = explained and labels and delta * len(stayed_reports) < 1
        guarantee = (
            peers.guarantee([len(stayed_reports)], delta) if exact else None
        )  # of len(labels) rows among len(found)
        return cls(len(members), len(stayed_reports), labels, guarantee, peers)

    def share(self, miss: float = 0.05) -> tuple[float, float, float]:
        """Share of ones among the peers that stayed: an estimate, and an exact interval missed rarely."""
        import numpy as np  # noqa: PLC0415 (processes of peers need none of these)
        from scipy.stats import binom  # noqa: PLC0415

        count, ones, flip = len(self.labels), sum(self.labels), self.peers.flip
        possible = []
        for true in range(self.stayed + 1):
            kept, flipped = (np.arange(part + 1) for part in (true, self.stayed - true))
            urn = np.convolve(binom.pmf(kept, true, 1 - flip), binom.pmf(flipped, self.stayed - true, flip))
            drawn = np.arange(self.stayed + 1) / self.stayed
            if min(urn @ binom.cdf(ones, count, drawn), urn @ binom.sf(ones - 1, count, drawn)) > miss / 2:
                possible.append(true / self.stayed)
        return (ones / count - flip) / (1 - 2 * flip), min(possible, default=0.0), max(possible, default=1.0)


# ------------------------------------------------------------------------------------------------ the processes

FLIP, DELTA, SECONDS = 0.05, 1e-4, 2.5
CLUSTERS = {"north": (range(60), 20), "south": (range(60, 120), 70)}  # rows, and how common ones are, in %
HOSTED = 10


def made_up_label(row: int) -> int:
    """The made-up label of a peer in this example."""
    return next(int(row * 37 % 100 < common) for rows, common in CLUSTERS.values() if row in rows)


async def host(flip: int, rows: Iterable[int]) -> None:
    """Run a process of a few peers: print their ports, read the plan, and end with the session."""
    peers = [Peer(row, made_up_label(row), flip) for row in rows]
    print(json.dumps([await peer.listen() for peer in peers]), flush=True)
    if plan := await asyncio.to_thread(sys.stdin.readline):
        await asyncio.gather(*(peer.take_part(Plan(**json.loads(plan))) for peer in peers))


async def session(peers: "labeldp.PeerExchange") -> Mapping[int, Report]:
    """Run all processes together; the last one is killed before the close."""
    learner = Learner(sum(len(rows) for rows, _ in CLUSTERS.values()))
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    children = []
    try:
        for first in range(0, learner.rows, HOSTED):
            rows = map(str, range(first, first + HOSTED))
            command = (sys.executable, __file__, str(peers.law.flip), *rows)
            children.append(await asyncio.create_subprocess_exec(*command, **pipes))
        ports = [port for child in children for port in json.loads(await child.stdout.readline())]
        clusters = [list(rows) for rows, _ in CLUSTERS.values()]
        plan = Plan(clusters, ports, await learner.listen(), peers.law.sample, time.time() + SECONDS)
        for child in children:
            child.stdin.write(json.dumps(asdict(plan)).encode() + b"\n")
        await asyncio.sleep(SECONDS / 2)
        children[-1].kill()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(child.wait() for child in children)), SECONDS + 2 * GRACE)
        await learner.close()
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
        await asyncio.gather(*(child.communicate() for child in children))
    return learner.reports


def main() -> None:
    """Run a session, and print its guarantee and its estimates."""
    peers = labeldp.PeerExchange(FLIP)
    sizes = [len(rows) for rows, _ in CLUSTERS.values()]
    before = peers.guarantee(sizes, DELTA)
    print(f"if everyone stays, the learner's view: epsilon {before.epsilon:.3f} at delta {DELTA:g}")
    print(f"the learner colluding with one peer: {peers.collusion(sizes, DELTA):.3f}")
    print(f"one peer, against any observer and under any failure: {peers.view_of_one_peer:.3f}, delta 0")
    reports = asyncio.run(session(peers))
    for name, (rows, _) in CLUSTERS.items():
        claim = Claim.of(FLIP, rows, reports, DELTA)
        print(f"\n{name}: {claim.stayed} of {claim.members} peers stayed, {len(claim.labels)} rows were released")
        if claim.guarantee is None:
            print(f"  guarantee of flipping alone: epsilon {peers.view_of_one_peer:.3f}")
        else:
            together = claim.peers.collusion([claim.stayed], DELTA)
            print(f"  guarantee of the learner's view for those who stayed: epsilon {claim.guarantee.epsilon:.3f}")
            print(f"  the learner colluding with one of them: {together:.3f}")
        if claim.labels:
            estimate, low, high = claim.share()
            true = sum(made_up_label(row) for row in rows if row in reports) / claim.stayed  # unknown in practice
            print(f"  share of ones: {estimate:.2f}, interval {low:.2f} to {high:.2f}; true {true:.2f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(host(int(sys.argv[1]), map(int, sys.argv[2:])))
    else:
        main()
