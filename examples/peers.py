"""Peers on a network exchange flipped labels, and a learner hears one from each: Esfandiari 2022, Algorithm 2.

Every peer holds one label. It flips it by chance, once, forgets the true one, and opens a port. At the start of a
session it picks a member of its public cluster uniformly (itself included), connects to it, and hears that member's
flipped label. When the session closes it tells the learner what it heard. Run this file: twelve processes with ten
peers each exchange on this machine, and one process is killed on the way.

**Whoever asks hears the same bit each time.** To connect is to ask, and peers read nothing. Whoever asks all peers, and
asks often, learns every flipped label and no more: flipping alone holds against that, ``view_of_one_peer``. A peer that
does so and tells the learner undoes the exchange; ``collusion`` is about one that keeps to the protocol.

**No label is asked twice.** If a peer is gone, is cut off, is late, or says anything but its bit, once, and at the
close that it stayed, then whoever asked it releases nothing, and tells the learner whom it asked in vain.

**What missing rows do.** Who vanishes must not depend on labels or on who asked whom. Then a released row carries the
flipped label of a uniform member *among those that stayed*, and the account is that of a cluster of as many members as
stayed; with the members that there were it would claim too little. It may count the rows that were released, since
which they are says nothing about labels. Where a peer is named in vain that did stay, nobody knows who answers whom,
and flipping alone is claimed. That is also all that is promised to peers that vanish. ``docs/design/peers.md`` has the
proof.

Not here: encryption, and names that can be trusted. Whoever sees the traffic sees who asked whom.
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

import labeldp  # each of its parts is loaded when it is first used: processes of peers load none

HERE = "127.0.0.1"
WORD = 1 << 64
STAYED = b"stayed\n"
#: All that a peer may be heard to say, from the connection to its end.
HEARD = {b"%d\n%b" % (label, STAYED): label for label in (0, 1)}
LONGEST = max(map(len, HEARD))
REPORT = re.compile(rb"(\d{1,9}) (?:released ([01])|asked (\d{1,9}) in vain|not sampled)\n")
#: Seconds after the close within which everything ends.
GRACE = 3.0


@dataclass(frozen=True)
class Plan:
    """What everyone knows of a session.

    Attributes:
        clusters: The rows of each cluster, in order; the number of a row is that of its peer.
        ports: Where each peer is asked.
        learner: Where the learner hears reports.
        sample: Words out of ``2**64`` that let a peer take part, each by a chance of its own.
        closes: When peers stop answering, in seconds since the epoch.
        chosen: Instead of ``sample``, the rows that take part: any that were chosen before anybody was asked.
    """

    clusters: Sequence[Sequence[int]]
    ports: Sequence[int]
    learner: int
    sample: int
    closes: float
    chosen: Sequence[int] | None = None


class Report(NamedTuple):
    """What a peer that stayed tells the learner: a label, whom it asked in vain, or neither if it was not sampled."""

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
    """Something that listens on a port that the system chooses, and waits for its callers before it ends."""

    def __init__(self) -> None:
        self._calls: set[asyncio.Task[None]] = set()

    async def listen(self) -> int:
        """Open the port, and say which."""
        self._server = await asyncio.start_server(self._called, HERE, 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Take no more calls, and finish those that there are."""
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
        """What a call gets."""


class Peer(Server):
    """The holder of one label. It keeps the flipped label alone.

    Args:
        row: Its number.
        label: Its label, 0 or 1.
        flip: Words out of ``2**64`` that flip it: ``PeerExchange(...).law.flip``.
        word: Where its uniform 64-bit words come from; what is not secure is for tests.
    """

    def __init__(self, row: int, label: int, flip: int, word: Callable[[], int] = lambda: secrets.randbits(64)) -> None:
        super().__init__()
        self.row, self._word, self._closed = row, word, asyncio.Event()
        self._flipped = label ^ (word() < flip)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Say the flipped label to whoever connects, and at the close that everybody before was answered."""
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
        await self.close()  # nobody is told "released" by a peer that has not answered everyone itself
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
    """The flipped label of a peer, if it says just that, and at the close that it stayed; it is asked this once."""
    received = b""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(max(0.0, closes - time.time()) + GRACE / 2), connected(port) as (reader, _):
            while len(received) <= LONGEST and (part := await reader.read(LONGEST + 1)):
                received += part
            return HEARD.get(received)
    return None


class Learner(Server):
    """Hears one report for each row; what is no report, or a second one, is not heard."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows, self.reports = rows, dict[int, Report]()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer
        with contextlib.suppress(ValueError, TimeoutError):
            async with asyncio.timeout(GRACE):
                found = REPORT.fullmatch(await reader.readline())
            if found and int(found[1]) < self.rows:
                label, asked = (None if part is None else int(part) for part in found.groups()[1:])
                self.reports.setdefault(int(found[1]), Report(label, asked))


@dataclass(frozen=True)
class Claim:
    """What a session promises to the peers of one cluster, and what it gave.

    Attributes:
        members: The peers of the cluster.
        stayed: Those that reported.
        labels: What was released.
        guarantee: What the learner's view promises to those that stayed; None where that is flipping alone. Peers
            that vanished are promised flipping alone.
        peers: The exchange that this was, with the share of rows that it released.
    """

    members: int
    stayed: int
    labels: tuple[int, ...]
    guarantee: "labeldp.Guarantee | None"
    peers: "labeldp.PeerExchange"

    @classmethod
    def of(cls, flip: float, members: Iterable[int], reports: Mapping[int, Report], delta: float) -> Self:
        """The claim from all that was reported; which it is depends on no label."""
        members = list(members)
        found = {row: reports[row] for row in members if row in reports}
        labels = tuple(report.label for report in found.values() if report.label is not None)
        share = max(1, len(labels)) / max(1, len(found))
        peers = labeldp.PeerExchange(flip, share, sampling="fixed")
        explained = all(report.in_vain not in found for report in found.values())
        exact = explained and labels and delta * len(found) < 1
        guarantee = peers.guarantee([len(found)], delta) if exact else None  # of len(labels) rows among len(found)
        return cls(len(members), len(found), labels, guarantee, peers)

    def share(self, miss: float = 0.05) -> tuple[float, float, float]:
        """The share of ones among the peers that stayed: an estimate, and an exact interval that misses it rarely."""
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
    """The label that a peer of this example holds: of its own making, and nobody else's."""
    return next(int(row * 37 % 100 < common) for rows, common in CLUSTERS.values() if row in rows)


async def host(flip: int, rows: Iterable[int]) -> None:
    """A process of a few peers: it says their ports, is told the plan, and ends with the session."""
    peers = [Peer(row, made_up_label(row), flip) for row in rows]
    print(json.dumps([await peer.listen() for peer in peers]), flush=True)
    if plan := await asyncio.to_thread(sys.stdin.readline):
        await asyncio.gather(*(peer.take_part(Plan(**json.loads(plan))) for peer in peers))


async def session(peers: "labeldp.PeerExchange") -> Mapping[int, Report]:
    """All processes together; the last of them is killed before the close."""
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
    """Hold a session, and say what it promises beside what it taught."""
    peers = labeldp.PeerExchange(FLIP)
    sizes = [len(rows) for rows, _ in CLUSTERS.values()]
    before = peers.guarantee(sizes, DELTA)
    print(f"if everyone stays, the learner's view: epsilon {before.epsilon:.3f} at delta {DELTA:g}")
    print(f"the learner with one peer: {peers.collusion(sizes, DELTA):.3f}")
    print(f"one peer, whoever sees who asked whom, and whatever goes wrong: {peers.view_of_one_peer:.3f}, delta 0")
    reports = asyncio.run(session(peers))
    for name, (rows, _) in CLUSTERS.items():
        claim = Claim.of(FLIP, rows, reports, DELTA)
        print(f"\n{name}: {claim.stayed} of {claim.members} peers stayed, {len(claim.labels)} rows were released")
        if claim.guarantee is None:
            print(f"  flipping alone is promised: epsilon {peers.view_of_one_peer:.3f}")
        else:
            together = claim.peers.collusion([claim.stayed], DELTA)
            print(f"  the learner's view of those who stayed: epsilon {claim.guarantee.epsilon:.3f}")
            print(f"  the learner with one of them: {together:.3f}")
        if claim.labels:
            estimate, low, high = claim.share()
            true = sum(made_up_label(row) for row in rows if row in reports) / claim.stayed  # in earnest nobody knows
            print(f"  ones among them: {estimate:.2f}, between {low:.2f} and {high:.2f}; in truth {true:.2f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(host(int(sys.argv[1]), map(int, sys.argv[2:])))
    else:
        main()
