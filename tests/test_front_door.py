"""The public interface: what is documented, what is importable, what is loaded when, and examples that run."""

import ast
import datetime
import doctest
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
import tomllib
from importlib import metadata
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp.mechanisms.queries import QUERIES
from labeldp.mechanisms.randomizers import RANDOMIZERS
from labeldp.mechanisms.resampling import DoubleResponse, DummyResponse

HEAVY = {
    "jaxtyping", "matplotlib", "numpy", "pandas", "pyarrow", "rich", "scipy", "sklearn", "torch", "typer",
}  # fmt: skip
ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference.md"
DOCUMENTED = (
    "labeldp",
    "labeldp.learning.boosting",
    "labeldp.learning.sklearn",
    "labeldp.learning.images",
    "labeldp.learning.ratings",
    "labeldp.learning.convex",
    "labeldp.learning.torch",
    "labeldp.learning.tables",
    "labeldp.learning.metrics",
    "labeldp.learning.inference",
    "labeldp.learning.cells",
    "labeldp.learning.stages",
    "labeldp.learning.generators",
    "labeldp.datasets",
    "labeldp.audit",
    "labeldp.bounds",
    "labeldp.testing",
)


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


def reference():
    """The names that docs/reference.md lists for each package, in the order of the page."""
    sections = re.split(r"^## ", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    titled = [(re.match(r"`([\w.]+)`\n", section), section) for section in sections]
    return {title[1]: re.findall(r"^\| `(\w+)` \| \S", section, re.MULTILINE) for title, section in titled if title}


def stubs():
    """The names that each package lets others import, from the stub beside its ``__init__.py``, by package."""
    root = Path(labeldp.__file__).parent
    found = {}
    for path in sorted(root.rglob("__init__.pyi")):
        package = ".".join(["labeldp", *path.parent.relative_to(root).parts])
        lines = ast.parse(path.read_text(encoding="utf-8")).body
        found[package] = [alias.asname or alias.name for line in lines for alias in line.names]
    return found


def importable():
    """Every name that a package lets others import, with what it is."""
    return [
        (f"{package}.{name}", getattr(importlib.import_module(package), name))
        for package, names in stubs().items()
        for name in names
    ]


def test_the_reference_lists_the_documented_packages():
    """docs/reference.md has a section for each documented package and for no other, and names nothing twice."""
    listed = reference()
    assert tuple(listed) == DOCUMENTED
    assert [package for package, names in listed.items() if len(names) != len(set(names))] == []


@pytest.mark.parametrize("package", DOCUMENTED)
def test_the_reference_lists_exactly_what_is_exported(package):
    """What docs/reference.md lists for a package is its ``__all__``, both ways, sorted in the code."""
    module = importlib.import_module(package)
    exported = list(module.__all__)
    assert set(reference()[package]) - set(exported) == set(), "in docs/reference.md and not in __all__"
    assert set(exported) - set(reference()[package]) == set(), "in __all__ and not in docs/reference.md"
    assert exported == sorted(set(exported))


def test_no_public_name_leaves_or_comes_unnoticed():
    """docs/names.toml says since which version each name is there, and which ones are deprecated or gone.

    A new name stands under the version to come. A name leaves by the way that docs/stability.md promises.
    ``LABELDP_APPROVE=1`` adds what is new.
    """
    file = ROOT / "docs/names.toml"
    exported = {package: set(importlib.import_module(package).__all__) for package in DOCUMENTED}
    since = tomllib.loads(file.read_text(encoding="utf-8"))
    known = {package: {name for names in since.values() for name in names.get(package, ())} for package in DOCUMENTED}
    if os.environ.get("LABELDP_APPROVE"):
        latest = since.setdefault(metadata.version("labeldp"), {})
        for package in DOCUMENTED:
            latest[package] = sorted({*latest.get(package, ()), *(exported[package] - known[package])})
        file.write_text(as_toml(since), encoding="utf-8")
        pytest.skip("written anew: read the change before it is committed")
    assert {
        package: exported[package] - known[package] for package in DOCUMENTED if exported[package] - known[package]
    } == {}
    gone = {package: known[package] - exported[package] for package in DOCUMENTED if known[package] - exported[package]}
    assert gone == {}, "a public name stays for a major version; see docs/stability.md"


def as_toml(since):
    """Public names by version and package, one package a paragraph."""
    text = (
        "# Public names by the first version that has them, which tests/test_front_door.py compares with the package.\n"
    )
    for version, packages in since.items():
        text += f'\n["{version}"]\n'
        for package, names in packages.items():
            lines = textwrap.wrap(", ".join(f'"{name}"' for name in names), 114)
            text += f'"{package}" = [\n' + "".join(f"    {line}\n" for line in lines) + "]\n" if names else ""
    return text


def test_the_reference_describes_mechanisms_as_they_describe_themselves():
    """The description of each mechanism on the page is the one in its file, which the command line prints."""
    described = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE))
    kinds = (*RANDOMIZERS.own.values(), *QUERIES.own.values(), DoubleResponse, DummyResponse)
    assert {kind.__name__: kind.about for kind in kinds} == {kind.__name__: described[kind.__name__] for kind in kinds}


def test_every_documented_name_is_there_and_explained():
    """Every documented name has a docstring, and is what the sub-package that it is defined in exports."""
    for package in DOCUMENTED:
        for name in set(importlib.import_module(package).__all__) - {"__version__"}:
            found = getattr(importlib.import_module(package), name)
            assert inspect.getdoc(found), f"{package}.{name}"
            home = (found.__module__ or package).rpartition("._")[0] or package
            assert getattr(importlib.import_module(home), name) is found, f"{package}.{name}"


def test_a_star_brings_the_same_names():
    """``from labeldp import *`` in a new process brings every name."""
    code = "before = set(dir())\nfrom labeldp import *\nprint('NAMES', *sorted(set(dir()) - before - {'before'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1:] == sorted(labeldp.__all__) == dir(labeldp)


def test_a_name_that_is_not_there():
    """An unknown name is an AttributeError, and an ImportError where it is imported."""
    with pytest.raises(AttributeError, match="No labeldp attribute magic"):
        _ = labeldp.magic
    with pytest.raises(ImportError):
        exec("from labeldp import magic")  # noqa: S102 (what a user would type)


def test_every_package_exports_what_its_stub_says():
    """Each package has a stub but ``cli``, which exports ``main`` alone, and ``learning``, which exports nothing.

    Every name in a stub can be imported, no stub names one twice, and ``__all__`` has no other name.
    """
    packages = {info.name for info in pkgutil.walk_packages(labeldp.__path__, "labeldp.") if info.ispkg}
    assert {"labeldp"} | packages == set(stubs()) | {"labeldp.cli", "labeldp.learning"}
    assert importlib.import_module("labeldp.cli").__all__ == ["main"]
    assert importlib.import_module("labeldp.learning").__all__ == []
    assert len(importable()) > len(DOCUMENTED)
    for package, names in stubs().items():
        module = importlib.import_module(package)
        assert len(set(names)) == len(names), package
        assert set(module.__all__) <= set(names), package
        assert package in DOCUMENTED or set(module.__all__) == set(names), package


def test_every_importable_name_is_explained():
    """Every function and class that a package exports has a docstring."""
    explained = [name for name, found in importable() if inspect.isfunction(found) or inspect.isclass(found)]
    assert explained
    assert [name for name, found in importable() if name in explained and not inspect.getdoc(found)] == []


def test_every_public_method_is_explained():
    """Every public function, class, method and property of the importable names has a docstring of its own line."""
    bare = []
    for name, found in importable():
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


def test_declaring_loads_no_engine():
    """Declaring a space, a guarantee or a mechanism loads neither a compiler nor Arrow nor a learner."""
    names = "Classes, labeldp.Interval, labeldp.Guarantee, labeldp.RandomizedResponse"
    assert loaded_by(f"import labeldp; labeldp.{names}; labeldp.Classes(['a', 'b'])") <= {"numpy"}


@pytest.mark.parametrize(("command", "libraries"), [("release", {"numpy", "pyarrow"}), ("plan", set())])
def test_help_is_light(command, libraries):
    """Showing help loads the libraries of the command line and no other, but for those of the listed mechanisms."""
    loaded = loaded_by(f"from labeldp.cli import main; assert main(['{command}', '--help']) == 0")
    assert loaded <= {"rich", "typer"} | libraries


def test_help_imports_few_modules():
    """No more than 60 of ours and 450 in all (40 and 378 here): 0.2 CPU seconds, counted since times depend on load."""
    code = """
import sys
import textwrap
import tomllib
from labeldp.cli import main
assert main(["--help"]) == 0
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    every = done.stdout.splitlines()[-1].split()
    packages = [name.split(".")[0] for name in every]
    assert 20 < packages.count("labeldp") <= 60 < len(every) <= 450
    assert HEAVY & set(packages) <= {"rich", "typer"}


def test_a_release_of_a_table_loads_no_pandas(tmp_path):
    """A third of the time of a small release would go to pandas, which has no part in one."""
    columns = {
        "text": ["a", None, "7"] * 10,
        "whole": [1, 2, None] * 10,
        "real": [0.5, None, 2.5] * 10,
        "day": [datetime.date(2026, 1, day + 1) for day in range(30)],
        "list": [[1], [], [2]] * 10,
    }
    calls = ["from labeldp import Classes, release_table"]
    for name, classes in (("texts", ["no", "yes"]), ("numbers", [0, 1])):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(columns | {"label": classes * 15}), tmp_path / name / "t.parquet")
        path = str(tmp_path / name)
        calls.append(
            f"release_table({path!r} + '/t.parquet', 'label', Classes({classes}), 1.0, {path!r} + '/o', drop=[])"
        )
    assert "pandas" not in loaded_by("\n".join(calls))


def test_a_plan_compiles_nothing():
    """A plan without a figure loads neither the compiler nor the plotting library."""
    loaded = loaded_by("from labeldp.cli import main; main('plan --classes 3 --rows 9 --epsilon 1'.split())")
    assert not loaded & {"matplotlib", "torch", "sklearn", "pandas"}


def test_verification_loads_what_it_needs():
    """Verification loads no learner, no compiler and no pandas, which pyarrow loads where it converts a column."""
    home = Path(__file__).with_name("golden") / "command"
    folders = [str(home / kind) for kind in ("auto", "subset", "optimal")]
    loaded = loaded_by(f"from labeldp.cli import main; assert not any(main(['verify', each]) for each in {folders})")
    assert loaded <= {"numpy", "pyarrow", "rich", "scipy", "typer"}


def imported(path):
    """The dotted names that a file imports, with the names taken from them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_nobody_elses_private_module_is_imported():
    """What another library keeps private is left alone (ruff's PLC2701 says it too, and is a preview)."""
    files = source_files()
    others = [(path.name, name) for path in files for name in imported(path) if name.split(".")[0] != "labeldp"]
    assert len(files) > 200 < len(others)
    private = [(path, name) for path, name in others if any(part.startswith("_") for part in name.split("."))]
    assert [(path, name) for path, name in private if not name.startswith("__future__.")] == []


def examples():
    """Every docstring of the package that holds examples, with its number of examples."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for module in modules() for test in finder.find(module) if test.examples]


#: Learners whose examples take a second or more.
LONG = {
    *("labeldp.learning.torch.ImageEnsemble", "labeldp.learning.torch._classifier.TorchClassifier"),
    "labeldp.learning.images.PatchClassifier",
    *("labeldp.learning.sklearn.AutoClassifier", "labeldp.learning.sklearn.AutoRegressor"),
}


@pytest.mark.parametrize("long", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_example_of_a_docstring_runs(long):
    """All examples of all docstrings give what they say."""
    runner = doctest.DocTestRunner()
    lines = []
    for test in examples():
        if (test.name in LONG) == long:
            runner.run(test, out=lines.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(lines)


def test_no_example_is_skipped():
    """No docstring example is skipped, and the common mechanisms and both label spaces have one each."""
    found = examples()
    assert not any(doctest.SKIP in example.options for test in found for example in test.examples)
    shown = {test.name.rsplit(".", 1)[-1] for test in found}
    makers = {"BitResponse", "Classes", "Curator", "Interval", "PriorResponse", "RandomizedResponse", "SubsetResponse"}
    assert makers | {"TopKResponse"} <= shown
