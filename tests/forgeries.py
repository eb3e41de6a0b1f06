"""Forged certificates: structured edits of every part of a certificate, and a process that verifies them with limits.

As a program it takes folders of releases, one a line, and writes a line of JSON for each forgery of their certificates,
or for the folders as they are.
"""

import argparse
import dataclasses
import io
import json
import math
import os
import resource
import signal
import sys
import tempfile
import time
import unicodedata
from functools import lru_cache
from pathlib import Path

from rich.console import Console

from labeldp import verify
from labeldp.errors import LabelDPError
from labeldp.mechanisms.queries import promise_of
from labeldp.privacy import bounded_work
from labeldp.privacy.channels import CHANNELS, channel_of
from labeldp.release import combined_guarantee
from labeldp.release.folder import _certificate, _limits
from labeldp.render import on_terminal
from labeldp.results import verdict_part

MARK = "\nok      epsilon 0.001\u2028\u202e\x1b[2K"
NUMBERS = (0, -1, 1, 2**31, 10**30, 1e308, 5e-324, -0.0, 0.5, None, True, "7", [])
DIGITS = ("0", "1", "-1", "2", "17", "10000000000", str(2**63), str(2**64), "9" * 60, "9" * 4000, "1e9", " 7", "")
WORDS = ("", MARK, "x" * 100_000, "\ud800", "row", "_certificate.json", "/dev/zero", "../data.parquet", 0, None)
#: The address space of the process; a verdict may take a quarter of it.
_MEMORY = 4 << 30
OF_ANY = (None, [], {}, 0, "", [[]] * 3)


def leaves(value, path=()):
    """The paths of all parts of a certificate."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, part in inner:
        yield from leaves(part, (*path, key))


def part_at(body, path):
    """The part of a certificate at a path."""
    for step in path:
        body = body[step]
    return body


def with_part(body, path, value):
    """A certificate with another part; all others are shared."""
    if not path:
        return value
    first, *rest = path
    copy = body.copy()
    copy[first] = with_part(body[first], rest, value)
    return copy


def other_values(value):
    """Values that a forger might write for a part."""
    if isinstance(value, bool):
        return (not value, 0, 1, None)
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return (*DIGITS, str(int(value) + 1), str(int(value) - 1), str(int(value) * 10**9), int(value))
    if isinstance(value, str) or value is None:
        return WORDS
    if isinstance(value, int | float):
        return (*NUMBERS, value + 1, value / 2)
    if isinstance(value, list):
        deep = value
        for _ in range(300):
            deep = [deep]
        return (*OF_ANY, value[:-1], [*value, *value], value * 2000, value[::-1], deep)
    deep = dict(value)
    for _ in range(300):
        deep = {"kind": "grouped", "channels": [deep], "by_row": []}
    return (*OF_ANY, {**value, "more": 1}, deep)


def forgeries(body):
    """All structured edits of a certificate, by name."""
    for path in leaves(body):
        for number, value in enumerate(other_values(part_at(body, path)) if path else ()):
            yield f"{'/'.join(map(str, path))}#{number}", with_part(body, path, value)


class TooLongError(Exception):
    """A forger who has had enough."""


def resealed(body):
    """The certificate with all that follows from its charges, as its forger would compute it; None if that fails."""
    try:
        with bounded_work(3e6):
            _limits.check_plain(body)
            forged = _certificate._from_plain(_certificate.Certificate, body)
            draws = []
            for draw in forged.draws:
                known = CHANNELS.known(draw.law.get("kind"))
                promise = draw.guarantee if known else promise_of(draw.law, forged.space)
                parts = {"epsilon": channel_of(draw.law).epsilon} if known else dataclasses.asdict(promise)
                parts = {name: value for name, value in parts.items() if name in ("epsilon", "delta", "rho")}
                draws.append(dataclasses.replace(draw, guarantee=dataclasses.replace(draw.guarantee, **parts)))
            return dataclasses.replace(forged, draws=tuple(draws)).to_json()
    except Exception:  # noqa: BLE001 (whatever stops a forger)
        return None


def measured(folder, text=None, public_key=None, *, account=True):
    """What is found of a folder, with this certificate if any: the verdict, seconds, and bytes beyond those before."""
    if text is not None:
        path = next(folder.glob("*certificate.json"), folder / "_certificate.json")
        path.write_bytes(text.encode("utf-8", "surrogatepass"))

    def read():
        verdict = verify(folder, public_key=public_key)
        shown = _shown(verdict)
        found = {"holds": verdict.holds, "found": verdict.checks[-1].found}
        found["spoofed"] = sum(line.startswith("ok ") for line in shown.splitlines()) != sum(
            check.holds for check in verdict.checks
        ) or not is_plain(shown)
        if verdict.holds:
            found["epsilon"] = verdict.certificate.guarantee.epsilon
            if account:
                combined_guarantee([folder])
        return found

    return watched(read)


def watched(read):
    """The findings of a function, or its error, with its seconds and the bytes beyond those before."""
    before, start, processor = _peak(reset=True), time.process_time(), time.process_time()
    try:
        found = read()
    except LabelDPError as problem:
        found = {"refused": str(problem)[:200]}
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # noqa: BLE001 (the point is that there is none)
        found = {"escaped": f"{type(problem).__name__}: {problem}"[:200]}
    times = {"seconds": time.process_time() - start, "processor": time.process_time() - processor}
    return {**found, **times, "bytes": _peak() - before}


def rendered(parts):
    """What a terminal shows."""
    out = io.StringIO()
    Console(file=out, width=10_000).print(*parts, sep="\n")
    return out.getvalue()


def is_plain(shown):
    """True for a text without characters that move the cursor or hide others."""
    return set(map(unicodedata.category, set(shown) - {"\n"})).isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})


def _shown(verdict):
    """What is shown of a verdict; of one that does not hold that is its checks, which many forgeries have in common."""
    if verdict.holds:
        return rendered(on_terminal(verdict_part(verdict)))
    return _failure(dataclasses.replace(verdict, certificate=None, text=""))


@lru_cache(1 << 12)
def _failure(verdict):
    """What is shown of a verdict that does not hold."""
    return rendered(on_terminal(verdict_part(verdict)))


def _peak(*, reset=False):
    """The largest resident memory in bytes since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def main():
    """Verify every ``--step``-th forgery of the folders named on standard input, from the ``--first`` on."""
    options = argparse.ArgumentParser()
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--step", type=int, default=1)
    options.add_argument("--as-they-are", action="store_true")
    chosen = options.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    signal.signal(signal.SIGALRM, _stop)
    number = 0
    for line in sys.stdin:
        source = Path(line.strip())
        if chosen.as_they_are:
            signal.setitimer(signal.ITIMER_REAL, 20.0)
            write({"folder": source.name, **measured(source)})
            continue
        certificate = next(source.glob("*certificate.json"))
        body = json.loads(certificate.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for file in source.iterdir():
                if file.name != certificate.name:
                    os.symlink(file.resolve(), folder / file.name)
            for name, forged in forgeries(body):
                number += 1
                if (number - chosen.first) % chosen.step:
                    continue
                for kind, text in (("raw", json.dumps(forged)), ("resealed", resealed(forged))):
                    if text is None:
                        continue
                    signal.setitimer(signal.ITIMER_REAL, 60.0)
                    found = measured(folder, text)
                    signal.setitimer(signal.ITIMER_REAL, 0.0)
                    claimed = body["guarantee"]["epsilon"]
                    found["smaller"] = kind == "raw" and found.get("epsilon", math.inf) < claimed
                    write({"folder": source.name, "edit": name, "kind": kind, **found})


def write(found):
    """Write a line of JSON."""
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def _stop(*_):
    raise TooLongError("the time is over")


if __name__ == "__main__":
    main()
