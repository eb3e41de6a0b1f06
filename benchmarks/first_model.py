"""Seconds from ``git clone`` to the first verified release and model, as the README's first page says it.

    python benchmarks/first_model.py

Clones the repository that this file is in, makes an environment, installs into it with an empty cache of pip, and
types the commands of the README one after another. All of it is in a temporary folder. What pip downloads is part of
the time, so the figure depends on the network as much as on the machine.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PYTHON = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")


def commands(readme: str) -> list[str]:
    """The commands that the README shows."""
    typed = [part for block in _BLOCK.findall(readme) for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [part.replace("\\\n", "").partition("\n")[0] for part in typed]


def main() -> None:
    """Print a line for each step."""
    with tempfile.TemporaryDirectory() as name:
        folder, began = Path(name), time.perf_counter()
        settings = {key: value for key, value in os.environ.items() if key not in _PYTHON}
        settings |= {
            "PIP_CACHE_DIR": str(folder / "cache"),
            "PATH": f"{folder / 'env/bin'}{os.pathsep}{os.environ['PATH']}",
        }

        def step(command: str, place: Path = folder) -> None:
            """Type a command, and print what it took."""
            start = time.perf_counter()
            done = subprocess.run(
                ["bash", "-c", command], cwd=place, env=settings, capture_output=True, text=True, check=False
            )
            if done.returncode:
                sys.exit(f"{command}\n{done.stdout}{done.stderr}")
            print(f"{time.perf_counter() - start:7.1f}  {command}", flush=True)

        step(f"git clone {ROOT} clone")
        step(f"{sys.executable} -m venv env")
        step("pip install '.[learn]'", folder / "clone")
        for command in commands((folder / "clone/README.md").read_text(encoding="utf-8")):
            step(command)
        print(f"{time.perf_counter() - began:7.1f}  in all")


if __name__ == "__main__":
    main()
