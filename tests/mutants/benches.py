"""A bench breaks a copy of the package again and again, and has a process run tests against it."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from edits import PACKAGE
from hatch_build import compile_library

ROOT = Path(__file__).parents[2]
LIBRARY = "_c/library.bin"
PASSED, FAILED = 0, 1  # the exit codes of pytest; others are crashes and collection errors, which kill nothing


@dataclass(frozen=True)
class Result:
    """How a run of pytest ended, and what it printed."""

    code: int
    printed: str

    @property
    def killed(self):
        """Whether a test failed, by an assertion or an error inside it."""
        return self.code == FAILED and " failed" in self.printed and "error" not in self.printed.splitlines()[-1]


class Bench:
    """A copy of the package that is broken and mended again and again, and a process that runs tests against it."""

    def __init__(self, folder):
        self.folder = folder
        self.mutants = 0
        shutil.copytree(PACKAGE, folder / "labeldp", ignore=shutil.ignore_patterns("__pycache__"))
        self.server = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("server.py")],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, tests, **wishes):
        """Run tests against the copy as it is; ``server.py`` says what may be wished for."""
        output = self.folder / "printed.txt"
        request = {"folder": str(self.folder), "output": str(output), "tests": list(tests)} | wishes
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        code = int(self.server.stdout.readline())
        return Result(code, output.read_text(encoding="utf-8", errors="replace"))

    def tried(self, texts, tests, **wishes):
        """What tests say while files of the package have other texts."""
        self.mutants += 1
        in_c = any(name.endswith((".c", ".h")) for name in texts)
        try:
            for name, text in texts.items():
                file = self.folder / "labeldp" / name
                file.write_text(text, encoding="utf-8")
                os.utime(file, (self.mutants,) * 2)  # no two mutants of a file are taken for one
            if in_c:
                library = self.folder / "labeldp" / LIBRARY
                compile_library(library.parent, library, "-w")
            return self.run(tests, **wishes)
        finally:
            for name in [*texts, *([LIBRARY] if in_c else [])]:
                shutil.copy2(PACKAGE / name, self.folder / "labeldp" / name)

    def close(self):
        """End the process."""
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()


def at_a_bench(benches, work):
    """What work says at the next bench that is free."""
    bench = benches.get()
    try:
        return work(bench)
    finally:
        benches.put(bench)
