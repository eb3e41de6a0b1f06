"""What all tests share: annotations that are executed, draws that repeat, and the folder of real data."""

import gc
import hashlib
import importlib.util
import itertools
import os
import signal
import sys
import tomllib
import types
import warnings
from collections import defaultdict
from contextlib import contextmanager
from functools import cache, partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_args

import jaxtyping
import numpy as np
import pytest
import typer
from beartype import BeartypeConf, beartype
from beartype.vale import Is
from jaxtyping import AbstractArray, install_import_hook
from tests import commits

from labeldp import _shapes

# The hook matches whole subtrees by name, so it is given single modules: packages would bring in the compiled ones.
_COMPILED = "_kernels"
_CHECKER = "labeldp_annotations"
_NOT_AN_ARRAY = Annotated[object, Is[lambda found: not isinstance(found, np.ndarray)]]
_SLOW = tomllib.loads(Path(__file__).with_name("slow.toml").read_text(encoding="utf-8"))
SLOW = [{"name": name, "kept": []} for name in _SLOW["whole"]] + _SLOW["test"]
#: Calls of each function at which its annotations are executed: the first ones in a process, and one in each test.
_CHECKED_CALLS = 20
_TEST = [""]  # that runs
_MADE = set()  # code of functions in functions that were made before
_BEGAN = pytest.StashKey[float]()
_execute = beartype(conf=BeartypeConf(is_pep484_tower=True))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell: commands would ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)


def checked_modules():
    """The modules of labeldp whose annotations are executed: every one except compiled functions, not imported."""
    found = []
    for folder in importlib.util.find_spec("labeldp").submodule_search_locations:
        for path in sorted(Path(folder).rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            if not parts[-1].endswith((_COMPILED, "__init__")):
                found.append(".".join(("labeldp", *parts)))
    return found


def check(function):
    """Execute a function's annotations; not ``Self``, nor names that exist for the type checker alone.

    Constructors check what they are given themselves, and the tests give them wrong things: there, only the shapes
    of arrays are executed.
    """
    for place, hint in function.__annotations__.items():
        if isinstance(hint, str) or "typing.Self" in repr(hint):
            function.__annotations__[place] = Any
        elif function.__name__ == "__init__":
            shaped = isinstance(hint, type) and issubclass(hint, AbstractArray)
            function.__annotations__[place] = hint | _NOT_AN_ARRAY if shaped else Any
    return _execute(function)


def _shaped(hint):
    """Whether an annotation holds the shape of an array."""
    return (isinstance(hint, type) and issubclass(hint, AbstractArray)) or any(map(_shaped, get_args(hint)))


def _read(hint, names):
    """An annotation that stands as text; Any if it uses names for the type checker alone."""
    try:
        return eval(hint, names) if isinstance(hint, str) else hint  # noqa: S307 (the text is ours)
    except (NameError, TypeError):
        return Any


def at_first(function, executing):
    """A function whose annotations are executed at its first calls, and the first in a test: others are alike.

    ``executing`` makes the function that executes them, once it is called: most are not called in a process.
    """
    test, calls, executed = "", 0, None

    @wraps(function)
    def called(*args, **kwargs):
        nonlocal test, calls, executed
        if jaxtyping.config.jaxtyping_disable or (calls >= _CHECKED_CALLS and test is _TEST[0]):
            return function(*args, **kwargs)
        test, calls = _TEST[0], calls + 1
        executed = executed or executing()
        return executed(*args, **kwargs)

    return called


def annotated(thing=None, *, typechecker):
    """Execute annotations by jaxtyping where they hold a shape, and elsewhere by beartype alone, which is faster."""
    if thing is None:
        return partial(annotated, typechecker=typechecker)
    function = thing.__init__ if isinstance(thing, type) else thing
    if "<locals>" in function.__qualname__:  # a function in a function: to execute it each time it is made takes long
        if function.__code__ in _MADE:
            return thing
        _MADE.add(function.__code__)
    hints = getattr(function, "__annotations__", {})
    read = {place: _read(hint, function.__globals__) for place, hint in hints.items()}
    if isinstance(thing, type):
        if "__init__" in vars(thing) and any(map(_shaped, read.values())):  # of a dataclass alone
            shaped = _jaxtyped(thing, typechecker=typechecker).__init__
            thing.__init__ = function if shaped is function else at_first(function, lambda: shaped)
        return thing
    if any(map(_shaped, read.values())):
        return at_first(thing, partial(_jaxtyped, thing, typechecker=typechecker))
    if not hints or function.__name__ == "__init__":
        return thing
    # A twin is checked, since Typer reads the annotations of the function itself.
    twin = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    twin.__kwdefaults__, twin.__annotations__ = function.__kwdefaults__, read
    twin.__qualname__, twin.__module__ = function.__qualname__, function.__module__
    return at_first(function, partial(check, twin))


typer.main.get_command = cache(typer.main.get_command)  # a test runs many commands of one program
vars(_shapes).update({name: getattr(jaxtyping, name) for name in _shapes.__all__})  # a user's arrays have no shapes
_jaxtyped = jaxtyping.jaxtyped
jaxtyping.jaxtyped = annotated  # the hook decorates with what is found here
sys.modules[_CHECKER] = types.ModuleType(_CHECKER)
sys.modules[_CHECKER].check = check
install_import_hook(checked_modules(), f"{_CHECKER}.check")
sys.meta_path[0].should_instrument = frozenset(checked_modules()).__contains__  # the hook's own compares with each name

from labeldp import _random_words  # noqa: E402 (imported under the hook)


def pytest_addoption(parser):
    """Let a run take the mutants that a change touches; tests/mutants/conftest.py says which these are."""
    parser.addoption("--mutants", choices=("all", "touched"), default="all", help="which mutants are tried")


def _named(case, name):
    """Whether a name of slow.toml means a case: the whole of it, or its beginning before a star."""
    return case.startswith(name[:-1]) if name.endswith("*") else case == name


def _is_slow(entry, case):
    """Whether an entry of slow.toml leaves a case, or a test without cases, to the run of everything."""
    if "kept" in entry:
        return not any(_named(case, name) for name in entry["kept"])
    return any(_named(case, name) for name in entry["slow"])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Collect without looking for garbage, and never look for it among what was collected: all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark as slow what slow.toml lists; a case that it names must be there."""
    tests = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    for entry in SLOW:
        found = tests[entry["name"]]
        cases = [item.nodeid.partition("[")[2].removesuffix("]") for item in found]
        for item, case in zip(found, cases, strict=True):
            if _is_slow(entry, case):
                item.add_marker(pytest.mark.slow)
        if found and not any("[" in argument for argument in config.args):
            for name in [*entry.get("kept", ()), *entry.get("slow", ())]:
                if not any(_named(case, name) for case in cases):
                    raise pytest.UsageError(f"slow.toml: {entry['name']} has no case {name}")
    changes = commits.changed(commits.base())
    for name in _SLOW["thirds"]:
        left = {item.nodeid: item for item in tests[name] if not item.get_closest_marker("slow")}
        for case in commits.untouched(commits.others(list(left)), changes):
            left[case].add_marker(pytest.mark.slow)


def _processor_seconds():
    """The seconds that processors spent on this process and on its children that ended."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item):
    """Note when a test begins, in which annotations are executed anew."""
    _TEST[0] = item.nodeid
    item.stash[_BEGAN] = _processor_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item):
    """Write into a junit file what a test took of the processors: unlike its time, that is the same under load."""
    result = yield
    item.user_properties.append(("processor_seconds", f"{_processor_seconds() - item.stash[_BEGAN]:.3f}"))
    return result


class _RepeatedEntropy:
    """Entropy that follows from the name of a test or of a fixture, so that a run draws what the run before drew.

    A forked child has the operating system's, since it may not repeat its parent's.
    """

    def __init__(self):
        self.getpid, self._process = os.getpid, os.getpid()
        self._name, self._calls = "", itertools.count()

    @contextmanager
    def of(self, name):
        """Entropy under a name, from its beginning; afterwards what was before goes on."""
        before = self._name, self._calls
        self._name, self._calls = name, itertools.count()
        try:
            yield
        finally:
            self._name, self._calls = before

    def __getattr__(self, name):
        """Everything else is the operating system's."""
        return getattr(os, name)

    def urandom(self, count):
        """The next bytes."""
        if os.getpid() != self._process:
            return os.urandom(count)
        return hashlib.shake_256(f"{self._name} {next(self._calls)}".encode()).digest(count)


_random_words.os = _RepeatedEntropy()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Let a fixture draw the same for whichever test it is made first."""
    with _random_words.os.of(f"{fixturedef.baseid} {fixturedef.argname} {request.param_index}"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Let a test draw the same in each run."""
    with _random_words.os.of(item.nodeid):
        return (yield)


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real data sets, where the environment names one."""
    folder = os.environ.get("LABELDP_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("the environment variable LABELDP_DATA names no folder of data sets")
    return Path(folder)


@pytest.fixture
def umask():
    """A function that sets the mask of modes, which before is the common one: who shares the machine may read."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.fixture
def in_child():
    """A function that runs an action in a forked child and gives its exit status: 0 if the action was true."""

    def run(action):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of threads in the parent
            child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if action() else 1
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    return run


@pytest.fixture
def as_users_call():
    """Annotations are not executed, as for a user: what is given wrongly reaches the function's own check."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
