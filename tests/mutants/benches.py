"""A bench breaks a copy of the package again and again, and has a process run tests against it."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from edits import PACKAGE, changed_functions, text_of
from hatch_build import compile_library
from tests.forks import Server

SERVER = Path(__file__).with_name("server.py")
LIBRARY = "_c/library.bin"
WORDS = "tests/cli/test_words.py"  # what commands print depends on how their process was started
PASSED, FAILED = 0, 1  # the exit codes of pytest; others are crashes and collection errors, which kill nothing


@dataclass(frozen=True)
class Result:
    """How a run of pytest ended, what it printed, and the first test that failed."""

    code: int
    printed: str
    test: str

    @property
    def killed(self):
        """Whether a test failed, by an assertion or an error inside it."""
        return self.code == FAILED and " failed" in self.printed and "error" not in self.printed.splitlines()[-1]


class Bench:
    """A copy of the package that is broken and mended again and again, and processes that run tests against it."""

    def __init__(self, folder):
        self.folder = folder
        self.mutants = 0
        shutil.copytree(PACKAGE, folder / "labeldp", ignore=shutil.ignore_patterns("__pycache__"))
        self.server = Server(SERVER, folder)
        self.collected, self.options = None, ()

    def collect(self, tests, options=()):
        """Have a process that has collected tests; all runs have these options of pytest."""
        if self.collected:
            self.collected.close()
        ids = self.folder / "tests.json"
        ids.write_text(json.dumps(sorted(tests)), encoding="utf-8")
        self.collected, self.options = Server(SERVER, self.folder, ids, *options), options

    def run(self, tests, **wishes):
        """Run tests against the copy as it is; ``server.py`` says what may be wished for."""
        output = self.folder / "printed.txt"
        code = self.server.ask(tests=list(tests), output=str(output), **wishes)
        return Result(code, output.read_text(encoding="utf-8", errors="replace"), self.failed())

    def failed(self):
        """The test that the last run noted."""
        file = self.folder / "failed.txt"
        name = file.read_text(encoding="utf-8") if file.exists() else ""
        file.unlink(missing_ok=True)
        return name

    def tried(self, texts, tests, again=True):
        """What tests say while files of the package have other texts.

        Where functions alone change, collected tests run with their new code, in half the time. What was read from the
        package before, as parameters of tests, is as it was; so a mutant that survives is tried ``again`` by pytest.
        """
        self.mutants += 1
        in_c = any(name.endswith((".c", ".h")) for name in texts)
        changed = {name: changed_functions(text_of(name), text) for name, text in texts.items() if name.endswith(".py")}
        try:
            for name, text in texts.items():
                file = self.folder / "labeldp" / name
                file.write_text(text, encoding="utf-8")
                os.utime(file, (self.mutants,) * 2)  # no two mutants of a file are taken for one
            if in_c:
                library = self.folder / "labeldp" / LIBRARY
                compile_library(library.parent, library, "-w", "-O0")  # the same words, in a tenth of the time
            words = any(test.startswith(WORDS) for test in tests)
            if self.collected and not words and len(changed) == len(texts) and all(changed.values()):
                code = self.collected.ask(tests=list(tests), changed=changed)
                if code == FAILED or not again:
                    return Result(code, "1 failed" if code == FAILED else "", self.failed())
            return self.run(tests, options=self.options)
        finally:
            for name in [*texts, *([LIBRARY] if in_c else [])]:
                shutil.copy2(PACKAGE / name, self.folder / "labeldp" / name)

    def close(self):
        """End the processes."""
        for server in filter(None, (self.server, self.collected)):
            server.close()


def collect_at(benches, tests, options=()):
    """Have all benches, which are free, collect tests of the package before it is broken."""
    every = [benches.get() for _ in range(benches.qsize())]
    for bench in every:
        bench.collect(tests, options)
    for bench in every:
        bench.collected.ask(tests=[], changed={})  # it answers when it has loaded the package
        benches.put(bench)


def at_a_bench(benches, work):
    """What work says at the next bench that is free."""
    bench = benches.get()
    try:
        return work(bench)
    finally:
        benches.put(bench)
