"""Compiles the C files of the package into one library: when a wheel is built, and in a working tree.

    python hatch_build.py [FOLDER]    make FOLDER/library.bin from FOLDER/*.c, unless it is up to date

The compiler is ``$CC``, ``cc``, or else the one in the package ziglang, which building a wheel then requires. With
``LABELDP_TARGET``, one of the names below, ziglang compiles for another machine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path(__file__).resolve().parent / "src" / "labeldp" / "_c"
#: Machines to compile for: ziglang's name of each, and the platform in the name of a wheel.
TARGETS = {
    "linux-x86_64": ("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64"),
    "linux-aarch64": ("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64"),
    "macos-x86_64": ("x86_64-macos", "macosx_11_0_x86_64"),
    "macos-arm64": ("aarch64-macos", "macosx_11_0_arm64"),
}
#: No contraction: every compiler and processor gives the same numbers.
OPTIONS = ("-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-g0")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion")
LINKING = ("-shared", "-fPIC", "-fno-semantic-interposition")
#: On macOS a library states its name, which would be the path of the build; ziglang links symbols of its own on Linux.
NAMED, STRIPPED = ("-Wl,-install_name,@rpath/library.bin",), ("-s",)


def compiler() -> list[str]:
    """The system's compiler, or ziglang's."""
    found = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    return found.split() if found else [sys.executable, "-m", "ziglang", "cc"]


def digest_of(sources: Path) -> str:
    """The hash of all C files, which the library states."""
    digest = hashlib.sha256()
    for path in sorted(sources.glob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def compile_library(sources: Path, library: Path, *options: str, target: str = "") -> None:
    """Make the library from the C files of a folder.

    Args:
        sources: The folder of the C files.
        library: The file to make.
        *options: Further options of the compiler.
        target: A key of ``TARGETS``; empty for this machine.
    """
    command = [sys.executable, "-m", "ziglang", "cc", "-target", TARGETS[target][0]] if target else compiler()
    files = sorted(map(str, sources.glob("*.c")))
    apple = target.startswith("macos") if target else sys.platform == "darwin"
    last = NAMED if apple else STRIPPED if target else ()
    stated = f'-DLABELDP_SOURCES="{digest_of(sources)}"'
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        flags = (*OPTIONS, *WARNINGS, *options, *LINKING, *last, stated)
        subprocess.run([*command, *flags, "-o", str(made), *files, "-lm"], check=True)
        os.replace(made, library)


def update(sources: Path = SOURCES) -> None:
    """Make the library beside its C files, unless it was made of them."""
    library = sources / "library.bin"
    if not library.exists() or digest_of(sources).encode() not in library.read_bytes():
        compile_library(sources, library)


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the compiled library to a wheel, whose name says for which platform it is."""

    def dependencies(self) -> list[str]:
        """What building requires: a compiler, where the system has none."""
        return [] if compiler()[1:2] != ["-m"] and not os.environ.get("LABELDP_TARGET") else ["ziglang>=0.14"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say where the library belongs."""
        if version == "editable":
            update()
            return
        target = os.environ.get("LABELDP_TARGET", "")
        self.folder = tempfile.TemporaryDirectory()
        library = Path(self.folder.name) / "library.bin"
        compile_library(SOURCES, library, target=target)
        build_data["force_include"][str(library)] = "labeldp/_c/library.bin"
        platform = TARGETS[target][1] if target else sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"], build_data["pure_python"] = f"py3-none-{platform}", False


if __name__ == "__main__":
    update(*map(Path, sys.argv[1:]))
