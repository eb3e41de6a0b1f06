"""Workers that die where a test says, and an executor of forked children, each of which begins within a millisecond."""

import errno
import os
import pickle
import signal
from concurrent.futures import BrokenExecutor
from contextlib import suppress

import labeldp.release.curator._sink as sink_module
import labeldp.release.folder._run as run_module


class Fork:
    """A call in a forked child."""

    def __init__(self, prepare, function, arguments):
        self._reads, writes = os.pipe()
        self._child = os.fork()
        if self._child:
            os.close(writes)
            return
        try:
            prepare()
            with os.fdopen(writes, "wb") as out:
                pickle.dump(function(*arguments), out)
        finally:
            os._exit(0)

    def result(self):
        """What the child returned."""
        with os.fdopen(self._reads, "rb") as found:
            value = found.read()
        if os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1]):
            raise BrokenExecutor("a child died")
        return pickle.loads(value)  # noqa: S301 (of a child of this process)

    def cancel(self):
        """End the child, unless its result was read."""
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
            os.close(self._reads)


class Forks:
    """Forked children, prepared by a function that runs in each; all calls are kept."""

    def __init__(self, prepare=lambda: None):
        self.prepare, self.calls, self.outcomes = prepare, [], []

    def submit(self, function, /, *arguments):
        """Call a function in a child."""
        self.calls.append((function, arguments))
        return Kept(Fork(self.prepare, function, arguments), self.outcomes)

    def shutdown(self, **_):
        """Do nothing: children end by themselves."""


class Kept:
    """A future whose result is kept."""

    def __init__(self, fork, outcomes):
        self.cancel, self._fork, self._outcomes = fork.cancel, fork, outcomes

    def result(self):
        """What the child returned."""
        self._outcomes.append(self._fork.result())
        return self._outcomes[-1]


class Twice(Forks):
    """Each call in two children at once, as where an engine speculates; the later result counts."""

    def submit(self, function, /, *arguments):
        """Call a function in two children."""
        self.calls.append((function, arguments))
        first, second = (Fork(self.prepare, function, arguments) for _ in range(2))
        return Pair(first, second)


class Pair:
    """Two children with the same call."""

    def __init__(self, first, second):
        self._both = first, second

    def result(self):
        """What both returned, without an error in either."""
        first, second = (each.result() for each in self._both)
        assert first[1:] == second[1:], (first, second)
        return second

    def cancel(self):
        """End both."""
        for each in self._both:
            each.cancel()


def once(marker, action):
    """Do something in the first child that comes here."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return
    action()


def die():
    """Die without any clean-up."""
    os.kill(os.getpid(), signal.SIGKILL)


def at(module, name, *, before=None, after=None):
    """Do something before or after a function, in this process."""
    original = getattr(module, name)

    def wrapped(*args, **kwargs):
        if before:
            before()
        value = original(*args, **kwargs)
        if after:
            after()
        return value

    setattr(module, name, wrapped)


DEATHS = {
    "before the write": lambda do: at(sink_module.FileWriter, "write", before=do),
    "after the write": lambda do: at(run_module, "put", before=do),
    "after the link": lambda do: at(run_module, "put", after=do),
    "with the result": lambda do: at(sink_module.WrittenPart, "__init__", after=do),
}


def full():
    """Fail as where a disk is full."""
    raise OSError(errno.ENOSPC, "No space left on device")
