"""Weight, time to install and time to import of the base and of each extra, each in an environment of its own.

    python benchmarks/extras.py                   every extra; those with PyTorch or Spark take gigabytes
    python benchmarks/extras.py base learn plots  these ones

The wheel of this tree is built first. Packages come from pip's cache, which a first installation fills. The second
one is measured, in CPU seconds of pip with compiling. Weight is what packages have on disk, with bytecode. The import
is that of the module that needs the extra, in CPU seconds, the least of three.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASE = "base"
#: What each extra is for: the code whose import is measured.
IMPORTS = {
    BASE: "from labeldp import Curator",
    "plots": "import matplotlib.figure, matplotlib.backends.backend_svg",
    "report": "import jinja2",
    "sklearn": "from labeldp.learning.sklearn import AutoClassifier",
    "boosting": "from labeldp.learning.boosting import lightgbm_dataset; import lightgbm",
    "learn": "from labeldp.learning.tables import learn",
    "images": "from labeldp.learning.images import PatchClassifier; import PIL.Image",
    "torch": "from labeldp.learning.torch import ChannelLoss",
    "encoders": "import onnxruntime",
    "efficientnet": "import efficientnet_lite_pytorch",
    "earlier": "import skops.io",
    "excel": "import python_calamine",
    "dask": "import dask, distributed",
    "spark": "import pyspark",
    "collect": "import uvicorn",
    "all": "from labeldp.learning.tables import learn",
}


def seconds(*command: str) -> float:
    """CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def environment(place: Path) -> str:
    """The interpreter of a new environment."""
    venv.create(place, clear=True, with_pip=True)
    return str(place / "bin/python")


def weight(place: Path) -> tuple[int, int]:
    """Bytes and packages of an environment, without pip's own."""
    packages = next(place.glob("lib/python*/site-packages"))
    own = [path for path in packages.rglob("*") if path.relative_to(packages).parts[0].partition("-")[0] != "pip"]
    return sum(path.stat().st_size for path in own if path.is_file()), len([*packages.glob("*.dist-info")]) - 1


def main() -> None:
    """Print a line for the base and for each extra."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("extras", nargs="*", choices=[*IMPORTS, []], metavar="EXTRA")
    wanted = parser.parse_args().extras or [*IMPORTS]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    if {*project["optional-dependencies"], BASE} != {*IMPORTS}:
        sys.exit("expected the extras of pyproject.toml, found others; mend IMPORTS")
    print(
        "| extra | packages | MB | CPU s to install | CPU s to import |\n| --- | ---: | ---: | ---: | ---: |",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        python = environment(Path(folder, "first"))
        seconds(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(ROOT))
        (wheel,) = Path(folder).glob("*.whl")
        for extra in wanted:
            named = f"{wheel}[{extra}]" if extra != BASE else str(wheel)
            install = ("-m", "pip", "install", "--quiet", named)
            seconds(python, *install)  # fills the cache
            place = Path(folder, "measured")
            own = environment(place)
            took = seconds(own, *install)
            size, count = weight(place)
            start = min(seconds(own, "-c", IMPORTS[extra]) for _ in range(3))
            print(f"| `{extra}` | {count} | {size / 1e6:.0f} | {took:.0f} | {start:.2f} |", flush=True)


if __name__ == "__main__":
    main()
