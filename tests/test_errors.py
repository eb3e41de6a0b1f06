"""The tree of errors."""

import re

import pytest

from labeldp import errors
from labeldp.errors import LabelDPError

BUILTINS = {
    "InputError": ValueError,
    "EpsilonError": ValueError,
    "LabelError": ValueError,
    "PriorError": ValueError,
    "RowsError": IndexError,
    "TableError": ValueError,
    "BudgetError": PermissionError,
    "LedgerError": RuntimeError,
    "OutputError": FileExistsError,
    "AttemptError": FileExistsError,
    "EngineError": RuntimeError,
    "NotTrueLabelsError": TypeError,
    "MissingExtraError": ImportError,
    "VerificationError": ValueError,
}


def classes():
    """Every error class of the module by name."""
    found = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    return {name: kind for name, kind in found.items() if issubclass(kind, BaseException)}


def test_every_error_is_in_the_tree_and_known_here():
    """Every class of the module is a LabelDPError, and each but the root has its builtin."""
    assert all(issubclass(kind, LabelDPError) for kind in classes().values())
    assert set(classes()) - {"LabelDPError"} == set(BUILTINS)


@pytest.mark.parametrize("name", BUILTINS)
def test_every_error_is_also_its_builtin(name):
    """Code that expects the builtin catches the error, and its message is its whole text."""
    with pytest.raises(BUILTINS[name], match=r"^expected a, found b, do c$"):
        raise classes()[name]("expected a, found b, do c")


def test_the_docstring_is_the_tree():
    """Each line of the drawn tree names a class, its parent by indentation, and its builtin."""
    parents = {0: LabelDPError}
    drawn = set()
    for line in errors.__doc__.splitlines():
        found = re.match(r"^ {4}([│ ]*)[├└]── (\w+)(?: \((\w+)\))?", line)
        if not found:
            continue
        depth, name, builtin = len(found[1]) // 4, found[2], found[3]
        kind = classes()[name]
        assert parents[depth] in kind.__bases__, name
        if builtin:
            assert builtin in {base.__name__ for base in kind.__bases__}, name
        parents[depth + 1] = kind
        drawn.add(name)
    assert drawn == set(BUILTINS)
