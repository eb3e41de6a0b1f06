"""The exchange between peers as a protocol on sockets: its law, its faults, and what it claims after them.

Statistical tests compare exact binomial tails with ``ALARM`` divided by the number of comparisons, so each raises a
false alarm with a probability of at most 1e-9, and all fail on both sides.
"""

import asyncio
import contextlib
import functools
import importlib.util
import itertools
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from scipy.stats import binom

from labeldp import PeerExchange
from labeldp._random_words import TapeWords
from labeldp.mechanisms.queries import exchange

WORD = 1 << 64
FLIPS, KEEPS = 0, WORD - 1  # words that flip a label and that do not
PATH = Path(__file__).parent.parent / "examples" / "peers.py"
_SPEC = importlib.util.spec_from_file_location("peers_example", PATH)
protocol = importlib.util.module_from_spec(_SPEC)
sys.modules["peers_example"] = protocol
with mock.patch.object(sys, "dont_write_bytecode", True):  # nothing is left beside the example
    _SPEC.loader.exec_module(protocol)


async def held(peers, clusters, *, others=(), sample=WORD, chosen=None, seconds=1.5):
    """The reports of a session of peers in this process, beside the ports of others that are no peers."""
    rows = sum(map(len, clusters))
    learner = protocol.Learner(rows)
    ports = [0] * rows
    for peer in peers:
        ports[peer.row] = await peer.listen()
    for row, port in others:
        ports[row] = port
    plan = protocol.Plan(clusters, ports, await learner.listen(), sample, time.time() + seconds, chosen)
    await asyncio.gather(*(peer.take_part(plan) for peer in peers))
    await learner.close()
    return learner.reports


def words(*given):
    """Words that were written down; a peer that draws one more than there are fails."""
    return iter(given).__next__


def peer_of(row, label, *given, flip=1 << 62):
    """A peer with a tape."""
    return protocol.Peer(row, label, flip, words(*given))


# ------------------------------------------------------------------------------------------------------- its law


@pytest.mark.parametrize(
    ("subsample", "sampling"), [(1.0, "random"), (0.5, "random"), (0.5, "fixed")], ids=["all", "random", "fixed"]
)
def test_with_the_same_words_the_network_releases_what_a_draw_in_one_place_does(subsample, sampling):
    """With the words of ``exchange``, each peer reports what ``exchange`` releases of its row, spare words included."""
    rng = np.random.default_rng(1)
    groups = rng.permutation(np.repeat(np.arange(12), [1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8, 9]))
    rows = groups.size
    codes, tape = rng.integers(0, 2, rows), rng.integers(0, WORD, 6 * rows, dtype=np.uint64)
    tape[1 : 3 * rows : 6] = WORD - 1  # in clusters whose size is no power of two, this one is replaced
    tape[3 * rows : 4 * rows : 4] = WORD - 1  # and some of its replacements too
    peers = PeerExchange(0.3, subsample, sampling)
    released, sampled = exchange(codes, groups, peers, TapeWords(tape))
    several = [
        protocol.Peer(row, int(codes[row]), peers.law.flip, words(*map(int, [*tape[3 * row : 3 * row + 3], *spare])))
        for row, spare in enumerate(tape[3 * rows :].reshape(3, rows).T)
    ]
    clusters = [np.flatnonzero(groups == group).tolist() for group in range(12)]
    chosen = np.flatnonzero(sampled).tolist() if sampling == "fixed" else None
    reports = asyncio.run(held(several, clusters, sample=peers.law.sample, chosen=chosen))
    assert [reports[row].label for row in range(rows)] == [None if label < 0 else label for label in released]
    assert all(reports[row].in_vain is None for row in range(rows))


def test_raw_labels_cross_no_socket(monkeypatch):
    """Where every label is a one and every peer flips, all that is ever written is zeros and who asked."""
    written = []
    write = asyncio.StreamWriter.write
    monkeypatch.setattr(asyncio.StreamWriter, "write", lambda self, data: (written.append(data), write(self, data))[1])
    peers = [peer_of(row, 1, FLIPS, row, 0) for row in range(6)]
    asyncio.run(held(peers, [[0, 1, 2], [3, 4, 5]], seconds=0.5))
    assert Counter(data for data in written if not data[:-1].isdigit() and b" " not in data) == {b"stayed\n": 6}
    assert Counter(data for data in written if data[:-1].isdigit()) == {b"0\n": 6}
    assert sorted(data for data in written if b" " in data) == [b"%d released 0\n" % row for row in range(6)]
    assert len(written) == 18


def test_a_peer_says_the_same_bit_to_whoever_asks():
    """It flips once: who asks twenty times hears one bit twenty times, and no further word is drawn for it."""

    async def asked_often():
        peers = [peer_of(0, 0, FLIPS), peer_of(1, 0, KEEPS)]
        ports, closes = [await peer.listen() for peer in peers], time.time() + 2.0
        for peer in peers:
            asyncio.get_running_loop().call_later(2.0, peer._closed.set)
        heard = await asyncio.gather(*(protocol.ask(port, closes) for port in ports for _ in range(20)))
        await asyncio.gather(*(peer.close() for peer in peers))
        return heard

    assert asyncio.run(asked_often()) == [1] * 20 + [0] * 20


# ---------------------------------------------------------------------------------------------------------- faults


async def speaker(says, calls, *, ends=True):
    """A server that says some bytes to each caller, and hangs up or not."""

    async def answer(reader, writer):
        calls.append(1)
        writer.write(says)
        if not ends:
            await reader.read()  # until the caller hangs up
        writer.close()

    return await asyncio.start_server(answer, protocol.HERE, 0)


NONSENSE = {
    "nothing": b"",
    "cut off": b"1\n",
    "half a word": b"1\nstay",
    "another label": b"2\nstayed\n",
    "no label": b"stayed\n",
    "a minus": b"-1\nstayed\n",
    "two labels": b"1\n0\nstayed\n",
    "two answers": b"1\nstayed\n1\nstayed\n",
    "no end": b"1\nstayed\n" + b"x" * 100_000,
    "other bytes": bytes(range(256)),
    "JSON": b'{"label": 1}\nstayed\n',
    "spaces": b" 1\nstayed\n",
}


@pytest.mark.parametrize("says", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_no_label_and_is_not_asked_about_again(says):
    """A peer that says anything but its bit and that it stayed is asked once, and its asker releases nothing."""

    async def session(calls):
        server = await speaker(says, calls)
        async with server:
            others = [(1, server.sockets[0].getsockname()[1])]
            return await held([peer_of(0, 1, KEEPS, 1, 0)], [[0, 1]], others=others, seconds=0.5)

    calls = []
    assert asyncio.run(session(calls)) == {0: (None, 1)}
    assert len(calls) == 1


@pytest.mark.parametrize("says", [b"", b"1\n", b"1\nstayed\n"], ids=["silent", "unclosed", "endless"])
def test_who_does_not_end_is_not_waited_for(says, monkeypatch):
    """A peer that keeps the connection open after the close, whatever it said before, is asked in vain."""
    monkeypatch.setattr(protocol, "GRACE", 0.6)

    async def session(calls):
        server = await speaker(says, calls, ends=False)
        async with server:
            others = [(1, server.sockets[0].getsockname()[1])]
            return await held([peer_of(0, 1, KEEPS, 1, 0)], [[0, 1]], others=others, seconds=0.5)

    calls = []
    assert asyncio.run(asyncio.wait_for(session(calls), 30)) == {0: (None, 1)}
    assert len(calls) == 1


def test_peers_that_are_gone_leave_rows_of_nothing():
    """Who asked a port that nobody listens at names it; who asked others is released."""
    with socket.socket() as unused:
        unused.bind((protocol.HERE, 0))
        peers = [peer_of(0, 1, KEEPS, 1, 0), peer_of(2, 1, KEEPS, 0, 0)]
        others = [(1, unused.getsockname()[1])]
        reports = asyncio.run(held(peers, [[0, 1, 2]], others=others, seconds=0.5))
    assert reports == {0: (None, 1), 2: (1, None)}


def test_who_vanishes_after_its_answer_takes_all_its_rows_along():
    """A bit that was heard is not released before its peer said at the close that it stayed."""

    async def session():
        lost = peer_of(2, 1, KEEPS, 0, 0)
        port = await lost.listen()
        peers = [peer_of(row, 1, KEEPS, 2, 0) for row in (0, 1)]

        async def vanish():
            while len(lost._calls) < 2:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            calls = list(lost._calls)
            for call in calls:
                call.cancel()
            lost._server.close()
            await asyncio.gather(*calls, return_exceptions=True)

        reports, _ = await asyncio.gather(held(peers, [[0, 1, 2]], others=[(2, port)], seconds=0.6), vanish())
        return reports

    assert asyncio.run(session()) == {0: (None, 2), 1: (None, 2)}


def test_who_comes_after_the_close_is_told_nothing():
    """A peer answers until the close; a plan that comes late leaves an asker with nothing."""
    peers = [peer_of(0, 1, KEEPS, 0, 0)]
    assert asyncio.run(held(peers, [[0]], seconds=-1.0)) == {0: (None, 0)}


def test_who_is_not_sampled_asks_nobody():
    """A row that is not to be released costs its peer's label nothing: no connection is made."""

    async def session(calls):
        server = await speaker(b"1\nstayed\n", calls)
        async with server:
            others = [(1, server.sockets[0].getsockname()[1])]
            return await held([peer_of(0, 1, KEEPS, 1, 5)], [[0, 1]], others=others, sample=5, seconds=0.5)

    calls = []
    assert asyncio.run(session(calls)) == {0: (None, None)}
    assert calls == []


def test_the_learner_hears_one_report_of_each_row_and_no_nonsense():
    """Second reports, rows that do not exist, long lines and silence change nothing."""

    async def session():
        learner = protocol.Learner(20)
        port = await learner.listen()
        lines = [b"3 released 1\n", b"3 released 0\n", b"20 released 1\n", b"4 released 2\n", b"5\n", b"x" * 200_000]
        lines += [b"6 asked 7 in vain\n", b"8 not sampled\n", b"9 released 1", b"", b"\xff\n", b"-1 released 1\n"]
        for line in lines:
            reader, writer = await asyncio.open_connection(protocol.HERE, port)
            writer.write(line)
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
        await learner.close()
        return learner.reports

    assert asyncio.run(session()) == {3: (1, None), 6: (None, 7), 8: (None, None)}


def test_an_interrupted_session_leaves_no_process():
    """Ctrl-C ends all processes of peers, and their parent, before the close."""
    run = subprocess.Popen(
        [sys.executable, str(PATH)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        start_new_session=True,
    )
    for _ in range(3):
        run.stdout.readline()  # then it starts processes
    time.sleep(0.7)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    assert run.returncode != 0
    with pytest.raises(ProcessLookupError):
        os.killpg(run.pid, 0)


# ---------------------------------------------------------------------------------------------------------- claims


@functools.cache
def enumerated(labels, flip, answered, reporting=None):
    """What a cluster releases for each set of released rows: labels of those rows, and their exact probability.

    Args:
        labels: The labels.
        flip: The probability to flip, a fraction.
        answered: The pairs of a row and the member that answered it.
        reporting: The rows that report; by default all.
    """
    n = len(labels)
    reporting = range(n) if reporting is None else reporting
    found = defaultdict(Counter)
    for flips, asked in itertools.product(itertools.product((0, 1), repeat=n), itertools.product(range(n), repeat=n)):
        rows = tuple(row for row in reporting if (row, asked[row]) in answered)
        ways = math.prod(flip.numerator if bit else flip.denominator - flip.numerator for bit in flips)
        found[rows][tuple(labels[asked[row]] ^ flips[asked[row]] for row in rows)] += ways
    return {
        rows: {seen: Fraction(ways, law.total()) for seen, ways in law.items()} for rows, law in sorted(found.items())
    }


def divergences(n, flip, epsilon, answered, reporting, changed):
    """The largest hockey-stick divergence over all labels, given each set of released rows."""
    worst = defaultdict(Fraction)
    factor = Fraction(math.exp(epsilon))
    for labels in itertools.product((0, 1), repeat=n):
        other = tuple(label ^ (row == changed) for row, label in enumerate(labels))
        one, two = (enumerated(each, flip, answered, reporting) for each in (labels, other))
        assert one.keys() == two.keys()
        for rows, law in one.items():
            found = sum(max(Fraction(0), chance - factor * two[rows].get(seen, 0)) for seen, chance in law.items())
            worst[rows] = max(worst[rows], found)
    return worst


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("n", "stayed"), [(3, 2), (4, 2), (4, 3)])
def test_rows_of_vanished_peers_leave_the_exchange_of_those_who_stayed(n, stayed, epsilon):
    """Given who is missing, the largest divergence is that of a cluster of those who stayed: no less, and no more.

    With the members that there were, and the same rows, the account would claim too little.
    """
    flip, present = 0.125, range(stayed)
    answered = frozenset(itertools.product(range(n), present))
    found = divergences(n, Fraction(flip), epsilon, answered, present, changed=0)
    for rows, delta in found.items():
        if rows:
            claimed = PeerExchange(flip, len(rows) / stayed, sampling="fixed")
            assert delta <= claimed.delta_at(epsilon, [stayed]) == pytest.approx(float(delta), rel=1e-8, abs=1e-15)
            naive = PeerExchange(flip, len(rows) / n, sampling="fixed")
            assert naive.delta_at(epsilon, [n]) < delta
    assert max(divergences(n, Fraction(flip), epsilon, answered, present, changed=n - 1).values()) == 0


@pytest.mark.parametrize("heard", [(0, 1), (0,), ()], ids=["by all", "by some", "by none"])
def test_those_who_stayed_are_promised_the_same_whoever_a_vanished_peer_told_that_it_stayed(heard):
    """A peer that vanishes between the close and its report, told to some or to all, changes no claim of the others.

    Its own label has flipping alone.
    """
    flip, epsilon, present = 0.125, 0.3, range(2)
    answered = frozenset(itertools.product(present, present)) | {(row, 2) for row in heard}
    for rows, delta in divergences(3, Fraction(flip), epsilon, answered, present, changed=0).items():
        if rows:
            assert delta <= PeerExchange(flip, len(rows) / 2, sampling="fixed").delta_at(epsilon, [2])
    alone = math.nextafter(PeerExchange(flip).view_of_one_peer, math.inf)
    original = divergences(3, Fraction(flip), alone, answered, present, changed=2)
    assert max(original.values()) == 0


def report(label=None, in_vain=None):
    """What a peer tells the learner."""
    return protocol.Report(label, in_vain)


def test_a_claim_counts_who_stayed_and_what_was_released():
    """Epsilon is that of as many members as stayed, and as many rows as were released, whatever labels these have."""
    for labels in ((0,) * 42, (1,) * 42, (0, 1) * 21):
        reports = {row: report(label) for row, label in enumerate(labels)}
        reports |= {row: report(in_vain=50 + row % 10) for row in range(42, 50)}
        claim = protocol.Claim.of(0.05, range(60), reports, 1e-4)
        assert (claim.members, claim.stayed, claim.labels) == (60, 50, labels)
        assert claim.guarantee == PeerExchange(0.05, 42 / 50, sampling="fixed").guarantee([50], 1e-4)
        assert claim.guarantee.epsilon > PeerExchange(0.05, 42 / 60, sampling="fixed").guarantee([60], 1e-4).epsilon


def test_every_number_of_released_rows_is_counted():
    """The share of rows, a float, is accounted as the very number of rows that it stands for."""
    for stayed in (1, 2, 3, 7, 50, 120, 999, 4096):
        for released in {1, 2, stayed // 3, stayed // 2, stayed - 1, stayed} - {0}:
            if released <= stayed:
                reports = {row: report(0 if row < released else None) for row in range(stayed)}
                claim = protocol.Claim.of(0.25, range(stayed), reports, 0.999999)
                assert claim.peers.law.released(stayed) == released


@pytest.mark.parametrize(
    ("reports", "delta"),
    [
        ({}, 0.1),
        ({0: report()}, 0.1),
        ({0: report(1), 1: report(0), 2: report(in_vain=1)}, 0.1),
        ({0: report(1), 1: report(0), 2: report(in_vain=2)}, 0.1),
        ({0: report(1), 1: report(0)}, 0.5),
    ],
    ids=["nobody", "no label", "a peer that stayed is named", "oneself is named", "delta says nothing"],
)
def test_what_nobody_can_account_for_is_flipping_alone(reports, delta):
    """Where a peer that stayed is said not to have answered, or too few stayed, no amplification is claimed."""
    assert protocol.Claim.of(0.05, range(4), reports, delta).guarantee is None
    explained = {0: report(1), 1: report(0), 2: report(in_vain=3)}
    assert protocol.Claim.of(0.05, range(4), explained, 0.1).guarantee is not None


def test_the_interval_of_the_share_keeps_its_promise():
    """Over all that can be released by 12 peers, the interval misses the true share with at most its probability."""
    flip, stayed, released = 0.1, 12, 9
    claims = [
        protocol.Claim(12, stayed, (1,) * ones + (0,) * (released - ones), None, PeerExchange(flip)).share(0.2)
        for ones in range(released + 1)
    ]
    missed = []
    for true in range(stayed + 1):
        urn = np.convolve(
            binom.pmf(np.arange(true + 1), true, 1 - flip),
            binom.pmf(np.arange(stayed - true + 1), stayed - true, flip),
        )
        law = urn @ binom.pmf(np.arange(released + 1), released, np.arange(stayed + 1)[:, None] / stayed)
        missed.append(sum(law[ones] for ones, (_, low, high) in enumerate(claims) if not low <= true / stayed <= high))
    assert 0.02 < max(missed) <= 0.2
    mean = sum(law[ones] * estimate for ones, (estimate, _, _) in enumerate(claims))
    assert mean == pytest.approx(1.0)  # of the last, in which all are ones: the estimate is unbiased
