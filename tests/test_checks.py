"""The keyword validators, and the execution of annotations that the tests rely on."""

import decimal
import fractions
import math
import re
import sys

import numpy as np
import pytest
from beartype.roar import BeartypeCallHintViolation
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from labeldp import _checks, _threads, errors
from labeldp.errors import EpsilonError, InputError, LabelDPError
from labeldp.learning.losses import RowLoss
from labeldp.privacy.channels import ResponseChannel

NOT_NUMBERS = [None, "1", b"1", True, np.True_, 1j, [1.0], (), decimal.Decimal(1), object()]


@pytest.mark.parametrize(
    "good", [1, 0.5, 1e-3, 700, np.float32(0.5), np.float64(3), np.int64(2), fractions.Fraction(1)]
)
def test_an_epsilon_is_a_finite_number_above_zero(good):
    """Real numbers of any type come back as the float that is used."""
    found = _checks.epsilon(good)
    assert type(found) is float
    assert found == float(good)


@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, -math.inf, 0, -0.0, -1, 800, math.nextafter(700, 800), *NOT_NUMBERS]
)
def test_a_bad_epsilon_is_refused_by_its_name(bad):
    """NaN, infinities, zero, negative numbers, too large ones and other types are refused."""
    with pytest.raises(EpsilonError, match="expected budget to be"):
        _checks.epsilon(bad, "budget")


@pytest.mark.parametrize("bad", [10**400, -(10**400), fractions.Fraction(10**400)], ids=["whole", "minus", "fraction"])
def test_a_number_beyond_floats_is_refused(bad):
    """A whole number or fraction that no float holds is an EpsilonError too, not an OverflowError."""
    with pytest.raises(EpsilonError, match="expected epsilon to be"):
        _checks.epsilon(bad)


@given(st.floats(allow_nan=True, allow_infinity=True))
@settings(derandomize=True, max_examples=300)
def test_an_epsilon_is_accepted_as_it_is_or_refused(value):
    """No float is changed on the way, and exactly those in (0, 700] pass."""
    if 0 < value <= 700:
        assert _checks.epsilon(value) == value
    else:
        with pytest.raises(EpsilonError):
            _checks.epsilon(value)


@pytest.mark.parametrize("good", [0, 0.0, 1e-9, 0.999])
def test_a_delta_may_be_zero(good):
    """A failure probability is at least 0 and below 1."""
    assert _checks.delta(good) == good


@pytest.mark.parametrize("bad", [1, 1.5, -1e-12, math.nan, math.inf, *NOT_NUMBERS])
def test_a_bad_delta_is_refused(bad):
    """One, negative numbers and other types are no failure probability."""
    with pytest.raises(EpsilonError, match="expected delta to be"):
        _checks.delta(bad)


@pytest.mark.parametrize("good", [1, 7, np.uint8(3), np.int64(7)])
def test_a_whole_number_comes_back_as_a_plain_integer(good):
    """NumPy integers become plain ones, which do not wrap."""
    found = _checks.whole(good, "size", 1, 7)
    assert type(found) is int
    assert found == good


@pytest.mark.parametrize("bad", [0, 8, -1, 1.0, "1", True, None, np.float64(1)])
def test_a_bad_whole_number_is_refused(bad):
    """Numbers outside the bounds, floats and booleans are refused."""
    with pytest.raises(InputError, match="expected size"):
        _checks.whole(bad, "size", 1, 7)


def test_a_choice_is_among_those_known_or_refused():
    """The message lists the choices in their order."""
    assert _checks.among("b", "a method", ("b", "a")) == "b"
    with pytest.raises(InputError, match="expected a method among b, a, found 'c'"):
        _checks.among("c", "a method", ("b", "a"))


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (np.zeros(2), np.zeros((2, 1), dtype=np.uint64)),
        (np.zeros(3, dtype=np.int32), np.zeros((2, 1), dtype=np.uint64)),
        (np.zeros(2, dtype=np.int32), np.zeros((2, 1), dtype=np.int64)),
    ],
)
def test_annotations_are_executed_in_the_tests(codes, words):
    """The import hook is at work: an array of the wrong type or shape does not pass a channel's annotations."""
    channel = ResponseChannel.at(3, 1.0)
    with pytest.raises(TypeCheckError):
        channel.draw(codes, words)
    assert len(channel.draw(np.zeros(2, dtype=np.int32), np.zeros((2, 1), dtype=np.uint64))) == 2


def test_annotations_are_executed_at_the_first_calls_of_each_test():
    """A call in a long loop is not checked any more; that is what a test of a loop costs less by."""
    rows = np.int64(10)  # no int, and taken for one
    with pytest.raises(BeartypeCallHintViolation):
        _threads.blocks(rows, 1, 5)
    for _ in range(1000):
        _threads.blocks(10, 1, 5)
    assert len(_threads.blocks(rows, 1, 5)) == 2


def test_annotations_of_a_dataclass_are_executed_at_its_first_calls():
    """Shapes that do not agree are refused in what is stored too, until many of a kind were made."""
    mask, two, three = np.zeros((2, 1), dtype=np.uint8), np.zeros(2), np.zeros(3)
    with pytest.raises(TypeCheckError):
        RowLoss(mask, mask[:, :0], two, two, three, likelihood=True)
    for _ in range(1000):
        RowLoss(mask, mask[:, :0], two, two, two, likelihood=True)
    assert len(RowLoss(mask, mask[:, :0], two, two, three, likelihood=True).outside) == 3


def test_annotations_without_a_shape_are_executed():
    """A function without arrays is checked too, by its arguments and by what it returns."""
    with pytest.raises(BeartypeCallHintViolation):
        _threads.over_chunks(print, "rows", 1)


def test_compiled_functions_are_left_alone():
    """The hook does not touch modules of compiled functions, whose annotations nobody executes."""
    ResponseChannel.at(3, 1.0).draw(np.zeros(1, dtype=np.int32), np.zeros((1, 1), dtype=np.uint64))
    kernels = sys.modules["labeldp.privacy.channels._kernels"]
    assert "jaxtyping" not in type(kernels.__spec__.loader).__module__
    assert "jaxtyping" in type(sys.modules["labeldp.privacy.channels._candidates"].__spec__.loader).__module__


def test_shares_and_signs():
    """A share keeps the ends that belong to its interval; a positive number is finite, and not zero."""
    assert [_checks.share(end, "share") for end in (0, 1)] == [0.0, 1.0]
    assert (_checks.positive(1e-300, "size"), _checks.not_negative(0, "size")) == (1e-300, 0.0)
    for bad, ends in ((0, "(]"), (1, "[)"), (-0.1, "[]"), (1.1, "[]"), (math.nan, "[]")):
        with pytest.raises(InputError, match=r"expected share .* found"):
            _checks.share(bad, "share", ends)
    for bad in (0.0, -1.0, math.inf):
        with pytest.raises(InputError, match="expected size to be a finite number above 0, found"):
            _checks.positive(bad, "size")
    for bad in (-1.0, math.inf):
        with pytest.raises(InputError, match="expected size to be a finite number of at least 0, found"):
            _checks.not_negative(bad, "size")


@pytest.mark.parametrize(
    "letter", ["\n", "\t", "\r", "\x1b", "\x9b", "\x85", "\u2028", "\u2029", "\u202e", "\u2066", "\ud800"]
)
def test_text_is_printed_on_one_line(letter):
    """What would begin a line, command a terminal or turn the direction of text is escaped; all else stays."""
    shown = _checks.printable(f"grün {letter}ok epsilon 0.001")
    assert letter not in shown
    assert shown.startswith("grün \\")
    assert shown.encode("utf-8").endswith(b"ok epsilon 0.001")


# The tree of errors.


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
