"""The compiled kernels: their declarations in Python agree with C, and calls are checked before C sees them."""

import ctypes
import importlib
import importlib.util
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import labeldp
from labeldp._hashes import mixed
from labeldp._native import LIBRARY, ArrayParameter, kernel, signature_of, symbols_of
from labeldp.privacy.channels._kernels import draw_response
from labeldp.release.tables._fingerprint_kernels import mix_all

ROOT = Path(__file__).parents[1]
SOURCES = LIBRARY.parent
_BUILD = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
build = importlib.util.module_from_spec(_BUILD)
_BUILD.loader.exec_module(build)

C_TYPES = {ctypes.c_int64: "int64_t", ctypes.c_uint64: "uint64_t", ctypes.c_double: "double", ctypes.c_bool: "bool"}
ENTRIES = {"bool": "bool", "float32": "float", "float64": "double"}
PROTOTYPE = re.compile(r"KERNEL (\w+) (\w+)\(([^)]*)\)")


def declarations():
    """Each kernel that a module declares, by its name."""
    names = (each.name for each in pkgutil.walk_packages(labeldp.__path__, "labeldp."))
    modules = [importlib.import_module(name) for name in names if name.endswith("_kernels")]
    return {
        name: each.__wrapped__
        for module in modules
        for name, each in vars(module).items()
        if hasattr(each, "__wrapped__") and each.__module__ == module.__name__
    }


def prototype_of(function, written):
    """The result and the parameters of the C function that a declaration stands for."""
    parameters, result = signature_of(function, written)
    in_c = [f"int64_t {symbol}" for symbol in symbols_of(parameters)]
    for each in parameters:
        if isinstance(each, ArrayParameter):
            entries = ENTRIES.get(each.entries.name, f"{each.entries.name}_t")
            in_c.append(f"{'' if each.written else 'const '}{entries} *{each.name}")
        else:
            in_c.append(f"{C_TYPES[each.kind]} {each.name}")
    return C_TYPES.get(result, "void"), in_c


def test_every_kernel_is_declared_as_it_is_written():
    """Names, types, order and constness of the arguments in C are those of the declaration; none is left over."""
    texts = "".join(path.read_text(encoding="utf-8") for path in sorted(SOURCES.glob("*.c")))
    written_in_c = {name: (result, args) for result, name, args in PROTOTYPE.findall(texts)}
    functions = declarations()
    assert len(functions) == len(written_in_c) > 30
    for name, function in functions.items():
        result, text = written_in_c[name]
        parts = [" ".join(each.split()) for each in text.split(",")]
        written = tuple(each.rpartition("*")[2] for each in parts if "*" in each and "const" not in each)
        assert (result, parts) == prototype_of(function, written), name


def test_the_library_is_made_of_the_files_beside_it():
    """The library states the hash of its C files, so that a stale one is noticed."""
    assert build.digest_of(SOURCES).encode() in LIBRARY.read_bytes()


def test_python_knows_which_arrays_a_kernel_writes():
    """An array that C may write has to be writable and laid out as C reads it: nothing is copied."""
    codes, words, out = np.zeros(3, np.int32), np.zeros((3, 1), np.uint64), np.zeros(3, np.int32)
    out.setflags(write=False)
    with pytest.raises(TypeError, match="expected out as an array of int32"):
        draw_response(codes, words, 3, 5, 1, out)
    with pytest.raises(TypeError, match="expected out as an array of int32"):
        draw_response(codes, words, 3, 5, 1, np.zeros(6, np.int32)[::2])
    with pytest.raises(TypeError, match="expected out as an array of int32"):
        draw_response(codes, words, 3, 5, 1, np.zeros(3, np.int64))


@pytest.mark.parametrize(
    ("codes", "words", "keep", "error"),
    [
        (np.zeros(2, np.int32), np.zeros((3, 1), np.uint64), 5, ValueError),
        (np.zeros((3, 1), np.int32), np.zeros((3, 1), np.uint64), 5, ValueError),
        (np.zeros(3), np.zeros((3, 1), np.uint64), 5, TypeError),
        (np.full(3, 1 << 40), np.zeros((3, 1), np.uint64), 5, ValueError),
        (np.zeros(3, np.int32), np.zeros((3, 1), np.uint64), -1, OverflowError),
        (np.zeros(3, np.int32), np.zeros((3, 1), np.uint64), 1 << 64, OverflowError),
        (np.zeros(3, np.int32), np.zeros((3, 1), np.uint64), 5.0, TypeError),
    ],
)
def test_what_c_would_misread_is_refused(codes, words, keep, error):
    """Other shapes, fractions, and numbers that do not fit are refused before C sees them."""
    with pytest.raises(error):
        draw_response(codes, words, 3, keep, 1, np.zeros(3, np.int32))


def test_whole_numbers_that_fit_are_converted():
    """Codes of another type, or in another layout, are read as the same numbers."""
    words = np.array([[0], [9], [7]], np.uint64)
    out = [np.zeros(3, np.int32) for _ in range(3)]
    for codes, to in zip((np.array([0, 1, 2], np.int32), np.array([0, 1, 2]), np.arange(5)[:3]), out, strict=True):
        draw_response(codes, words, 7, 5, 1, to)
    assert out[0].tolist() == out[1].tolist() == out[2].tolist() == [0, 5, 3]


def test_hashes_are_those_of_numpy():
    """The two places that mix words agree: fingerprints in C, and everything else in NumPy."""
    words, out = np.random.default_rng(0).integers(0, 1 << 63, 1000).astype(np.uint64), np.empty(1000, np.uint64)
    mix_all(words, 12345, out)
    assert np.array_equal(out, mixed(words ^ np.uint64(12345)))


def test_a_kernel_that_c_lacks_is_an_error():
    """A declaration without a C function fails when it is made, not when it is called."""

    def nowhere(n: "int") -> "None":
        """No such function."""

    with pytest.raises(AttributeError, match="nowhere"):
        kernel()(nowhere)


def test_strict_warnings_and_plain_builds_agree(tmp_path):
    """The files compile without a warning, and code for the oldest processors gives the same hashes and draws."""
    build.compile_library(SOURCES, tmp_path / "library.bin", "-Werror", "-DLABELDP_PLAIN")
    plain = ctypes.CDLL(str(tmp_path / "library.bin"))
    n, rng = 1000, np.random.default_rng(1)
    words, codes = rng.integers(0, 1 << 63, (n, 1)).astype(np.uint64), rng.integers(0, 7, n).astype(np.int32)
    ours, theirs = np.empty(n, np.int32), np.empty(n, np.int32)
    other = (1 << 64) // 9
    keep = (1 << 64) - 6 * other
    draw_response(codes, words, 7, keep, other, ours)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (codes, words, theirs)]
    sizes, numbers = (ctypes.c_int64(n), ctypes.c_int64(1)), (ctypes.c_int64(7), *map(ctypes.c_uint64, (keep, other)))
    plain.draw_response(*sizes, *pointers[:2], *numbers, pointers[2])
    assert np.array_equal(ours, theirs)


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    """The environment of a process whose library has address and undefined-behaviour sanitizers."""
    compiler, folder = build.compiler(), tmp_path_factory.mktemp("sanitized")
    asan = subprocess.run([*compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    if not Path(asan.strip()).is_absolute():
        pytest.skip("the compiler has no address sanitizer")
    shutil.copytree(SOURCES.parent, folder / "labeldp", ignore=shutil.ignore_patterns("__pycache__"))
    copied = folder / "labeldp" / "_c"
    options = ("-DLABELDP_PLAIN", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
    build.compile_library(copied, copied / "library.bin", *options)
    settings = {"ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(folder), "PYTHONMALLOC": "malloc"}
    return os.environ | settings | {"LD_PRELOAD": asan.strip()}


#: Tests of kernels, by the processes that run them: each takes seconds to begin.
SANITIZED = {
    "privacy": ("tests/privacy/test_channel_contract.py",),
    "draws": (
        *(f"tests/mechanisms/test_{name}.py" for name in ("moments", "prior", "prior_subset", "queries")),
        *(f"tests/release/tables/test_{name}.py" for name in ("fingerprints", "orders")),
    ),
    "learning": (
        *(f"tests/learning/{name}" for name in ("losses", "ratings", "convex/test_descent.py")),
        "tests/learning/images/test_patch_features.py",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("group", SANITIZED)
def test_sanitizers_find_nothing(sanitized, group):
    """Address and undefined-behaviour sanitizers run over the tests of draws, noise, fingerprints and losses."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *SANITIZED[group]],
        cwd=ROOT,
        env=sanitized,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


@pytest.mark.parametrize("share", ["one word", "a thousand", "33 bits", "moderate", "nearly even"])
@pytest.mark.parametrize("classes", [2, 3, 10, 1000, 1 << 20])
def test_words_of_64_bits_are_divided_exactly(classes, share):
    """At the ends of every kind of range and between them, the drawn class is that of whole numbers in Python."""
    rng, even = np.random.default_rng(classes), ((1 << 64) - 1) // classes
    words_of_other = {"one word": 1, "a thousand": 1000, "33 bits": (1 << 33) + 1, "nearly even": even}
    other = words_of_other.get(share, (1 << 64) // (classes + 2))
    keep = (1 << 64) - (classes - 1) * other
    limits = [keep + j * other + step for j in {0, 1, classes // 2, classes - 2} for step in (-1, 0, 1)]
    drawn = [
        *(each for each in limits if each < 1 << 64),
        0,
        keep - 1,
        (1 << 64) - 1,
        *rng.integers(0, (1 << 64) - 1, 250, dtype=np.uint64).tolist(),
        *rng.integers(keep, (1 << 64) - 1, 250, dtype=np.uint64, endpoint=True).tolist(),
    ]
    for word, code in zip(drawn, rng.integers(0, classes, len(drawn)).tolist(), strict=True):
        # Alone, since a word in doubt sends its whole block the slow way.
        words, codes, out = np.full((9, 1), word, np.uint64), np.full(9, code, np.int32), np.empty(9, np.int32)
        draw_response(codes, words, classes, keep, other, out)
        place = (word - keep) // other
        assert (out == (code if word < keep else place + (place >= code))).all()


@pytest.mark.parametrize("classes", [2, 3, 4, 1000])
def test_the_upper_halves_of_words_decide_as_whole_words_do(classes):
    """All 65,536 words of the law with 16 bits, shifted up by 48 with anything below, give the same classes."""
    keep, other = 65536 - (classes - 1) * (65536 // (classes + 2)), 65536 // (classes + 2)
    words, rng = np.arange(65536, dtype=np.uint64), np.random.default_rng(classes)
    codes = rng.integers(0, classes, words.size).astype(np.int32)
    narrow, wide = np.empty(words.size, np.int32), np.empty(words.size, np.int32)
    draw_response(codes, words[:, None], classes, keep, other, narrow)
    for below in (0, 1, (1 << 48) - 1):
        shifted = (words[:, None] << np.uint64(48)) + np.uint64(below)
        draw_response(codes, shifted, classes, keep << 48, other << 48, wide)
        assert np.array_equal(narrow, wide)
