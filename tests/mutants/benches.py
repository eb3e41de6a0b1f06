"""A bench breaks a copy of the package again and again, and has a process run tests against it."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from edits import PACKAGE

ROOT = Path(__file__).parents[2]
COMPILED = "compiled"
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
    """A copy of the package that is broken and mended again and again, and a process that runs tests against it.

    Functions that are compiled for one mutant serve the next ones: all but those of mutants in compiled functions.
    """

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

    def run(self, tests, compiled=COMPILED, **wishes):
        """Run tests against the copy as it is; ``server.py`` says what may be wished for."""
        output = self.folder / "printed.txt"
        request = {"folder": self.folder, "compiled": self.folder / compiled, "output": output}
        request = {name: str(path) for name, path in request.items()} | {"tests": list(tests)} | wishes
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        code = int(self.server.stdout.readline())
        return Result(code, output.read_text(encoding="utf-8", errors="replace"))

    def tried(self, texts, tests, **wishes):
        """What tests say while files of the package have other texts."""
        self.mutants += 1
        try:
            for name, text in texts.items():
                file = self.folder / "labeldp" / name
                file.write_text(text, encoding="utf-8")
                os.utime(file, (self.mutants,) * 2)  # no two mutants of a file are taken for one
            original = any(name.endswith("_kernels.py") for name in texts)
            return self.run(tests, self.own_functions() if original else COMPILED, **wishes)
        finally:
            for name in texts:
                shutil.copy2(PACKAGE / name, self.folder / "labeldp" / name)

    def own_functions(self):
        """A folder of compiled functions for this mutant alone; those of files that it leaves alone are there."""
        name = f"{COMPILED}-{self.mutants}"
        if (self.folder / COMPILED).exists():
            shutil.copytree(self.folder / COMPILED, self.folder / name)
        return name

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
