"""The front door: what is exported, what is loaded when, and examples that run."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import labeldp

HEAVY = {"numpy", "scipy", "pyarrow", "numba", "rich", "typer", "torch", "sklearn", "matplotlib", "pandas"}
ROOMS = ["privacy", "mechanisms", "release", "audit", "bounds", "report", "cli"]
EXPORTED = [
    "Answer",
    "BitResponse",
    "Budget",
    "Certificate",
    "Channel",
    "Classes",
    "ClusterResponse",
    "Curator",
    "DoubleResponse",
    "DummyResponse",
    "Guarantee",
    "Interval",
    "LabelMoments",
    "NoisyArgmax",
    "NoisyGradients",
    "NoisyHistogram",
    "NoisyMean",
    "NoisyQuantile",
    "NumberMoments",
    "PeerExchange",
    "PriorResponse",
    "PriorSubsetResponse",
    "RandomizedResponse",
    "Randomizer",
    "Release",
    "RowRelease",
    "SubsetResponse",
    "TopKResponse",
    "__version__",
    "cluster_response",
    "release_table",
    "verify",
]


def source_files():
    """Every Python file of the package."""
    return sorted(Path(labeldp.__file__).parent.rglob("*.py"))


def modules():
    """Every module of the package but the one that runs it."""
    names = [info.name for info in pkgutil.walk_packages(labeldp.__path__, "labeldp.")]
    return [labeldp, *(importlib.import_module(name) for name in names if not name.endswith("__main__"))]


def loaded_by(code):
    """Which heavy libraries a new process has loaded after some code."""
    report = f"import sys; print('LOADED', *sorted({HEAVY!r} & {{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_exactly_these_names_are_exported():
    """The front door has these names, in this order, and no other."""
    assert labeldp.__all__ == EXPORTED
    assert dir(labeldp) == sorted(EXPORTED)


@pytest.mark.parametrize("name", EXPORTED)
def test_every_name_is_there_and_explained(name):
    """Every name can be imported, is what its room exports, and has a docstring."""
    found = getattr(labeldp, name)
    if name == "__version__":
        assert re.fullmatch(r"\d+\.\d+\.\d+.*", found)
        return
    assert inspect.getdoc(found)
    room = importlib.import_module(".".join(found.__module__.split(".")[:2]))
    assert name in room.__all__
    assert getattr(room, name) is found


def test_a_star_brings_the_same_names():
    """``from labeldp import *`` in a new process brings every name."""
    code = "before = set(dir())\nfrom labeldp import *\nprint('NAMES', *sorted(set(dir()) - before - {'before'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1:] == sorted(EXPORTED)


def test_a_name_that_is_not_there():
    """An unknown name is an AttributeError, and an ImportError where it is imported."""
    with pytest.raises(AttributeError, match="has no attribute 'magic'"):
        _ = labeldp.magic
    with pytest.raises(ImportError):
        exec("from labeldp import magic")  # noqa: S102 (what a user would type)


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_exports_its_public_names(room):
    """``__all__`` of a room is sorted, and is all that its module holds without an underscore; cli has one name."""
    module = importlib.import_module(f"labeldp.{room}")
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "annotations" and not isinstance(value, types.ModuleType)
    }
    exported = set(module.__all__)
    assert len(exported) == len(module.__all__)
    assert exported == ({"main"} if room == "cli" else public)
    for name in exported:
        found = getattr(module, name)
        if callable(found):
            assert inspect.getdoc(found)


def test_every_public_method_is_explained():
    """Every public function, class, method and property of the exported names has a docstring of its own line."""
    bare = []
    for room in ROOMS:
        module = importlib.import_module(f"labeldp.{room}")
        for name in module.__all__:
            found = getattr(module, name)
            members = vars(found).items() if isinstance(found, type) else []
            bare += [
                f"{name}.{member}"
                for member, value in members
                if not member.startswith("_")
                and (inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod))
                and not inspect.getdoc(value)
            ]
    assert bare == []


def test_importing_the_package_is_light():
    """``import labeldp`` loads no heavy library at all."""
    assert loaded_by("import labeldp; dir(labeldp)") == set()


@pytest.mark.parametrize("name", ["Classes", "Interval", "Guarantee", "RandomizedResponse"])
def test_declaring_loads_no_engine(name):
    """Declaring a space, a guarantee or a mechanism loads neither a compiler nor Arrow nor a learner."""
    loaded = loaded_by(f"import labeldp; labeldp.{name}; labeldp.Classes(['a', 'b'])")
    assert loaded <= {"numpy"}


@pytest.mark.parametrize("arguments", [["--help"], ["release", "--help"], ["plan", "--help"]])
def test_help_is_light(arguments):
    """Showing help loads the libraries of the command line and no other."""
    assert loaded_by(f"from labeldp.cli import main; assert main({arguments!r}) == 0") <= {"rich", "typer"}


def test_a_plan_compiles_nothing():
    """A plan without a figure loads neither the compiler nor the plotting library."""
    loaded = loaded_by("from labeldp.cli import main; main('plan --classes 3 --rows 9 --epsilon 1'.split())")
    assert not loaded & {"numba", "matplotlib", "torch", "sklearn", "pandas"}


def imported(path):
    """The dotted names that a file imports, with the names taken from them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", source_files(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_nobody_elses_private_module_is_imported(path):
    """What another library keeps private is left alone."""
    others = [name for name in imported(path) if name.split(".")[0] not in ("labeldp", "__future__")]
    assert [name for name in others if any(part.startswith("_") for part in name.split("."))] == []


def examples():
    """Every docstring of the package that holds examples, with its number of examples."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for module in modules() for test in finder.find(module) if test.examples]


def test_every_example_of_a_docstring_runs():
    """All examples of all docstrings give what they say."""
    runner = doctest.DocTestRunner()
    lines = []
    for test in examples():
        runner.run(test, out=lines.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(lines)


def test_no_example_is_skipped():
    """No docstring example is skipped, and the mechanisms and spaces of the front door each have one."""
    found = examples()
    assert not any(doctest.SKIP in example.options for test in found for example in test.examples)
    shown = {test.name.rsplit(".", 1)[-1] for test in found}
    makers = {"BitResponse", "Classes", "Curator", "Interval", "PriorResponse", "RandomizedResponse", "SubsetResponse"}
    assert makers | {"TopKResponse"} <= shown
