"""A process that has libraries loaded, and does in children what it is asked for: most of a short run is imports."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parents[1]


class Server:
    """A process that runs a script with these words, and answers requests."""

    def __init__(self, *words: object, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *map(str, words)],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **request: Any) -> int:
        """The exit code of a child that did as it was asked."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        code = self.process.stdout.readline()
        assert code, "expected an answer, found that the process has ended; it may have failed to load a file of tests"
        return int(code)

    def close(self) -> None:
        """End the process."""
        with self.process:
            assert self.process.stdin
            self.process.stdin.close()


def answer(requests: TextIO, answers: TextIO, work: Callable[..., int]) -> None:
    """Do what each line asks for in a child, and write a line with its exit code."""
    for line in requests:
        child = os.fork()
        if child == 0:
            code = 70  # which neither pytest nor an experiment gives
            try:
                code = work(**json.loads(line))
                sys.stdout.flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()
