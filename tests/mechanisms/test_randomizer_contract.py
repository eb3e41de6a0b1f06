"""What every randomizer promises: a law within its epsilon, and draws that follow the law at every position.

The statistical tests compare exact binomial tails with ``ALARM`` divided by the number of comparisons in a test:
each raises a false alarm with a probability of at most 1e-9, and all of them together below 1e-6 in a run. With
secure words every run is a new sample.
"""

import copy
import dataclasses
import itertools
import math
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy.stats import beta, binom

import labeldp as dp
from labeldp._random_words import SecureWords, TapeWords
from labeldp.errors import EpsilonError, InputError, LabelError
from labeldp.mechanisms import _draw as _drawing
from labeldp.mechanisms import draw
from labeldp.mechanisms.randomizers import RANDOMIZERS, NumberRandomizer, ProjectiveResponse, draws_from
from labeldp.privacy.channels import CHANNELS, CoarseningChannel, row_arrays
from labeldp.testing import check_randomizer

ALARM = 1e-9
SPACE = dp.Classes(["a", "b", "c", "d", "e"])
COSTLY = dp.SubsetResponse(SPACE, 2.0).channel()
GRID = dp.Interval(-1.0, 3.0, 1.0)
PRIOR = [[0.4, 0.3, 0.2, 0.05, 0.05], [0.2] * 5, [0.01, 0.04, 0.9, 0.02, 0.03]]

CASES = {
    "response": (dp.RandomizedResponse, lambda e, _: dp.RandomizedResponse(SPACE, e)),
    "subset": (dp.SubsetResponse, lambda e, _: dp.SubsetResponse(SPACE, e)),
    "subset-of-3": (dp.SubsetResponse, lambda e, _: dp.SubsetResponse(SPACE, e, size=3)),
    "projective": (ProjectiveResponse, lambda e, _: ProjectiveResponse(SPACE, e)),
    "projective-of-3": (ProjectiveResponse, lambda e, _: ProjectiveResponse(SPACE, e, order=3)),
    "bits": (dp.BitResponse, lambda e, _: dp.BitResponse(SPACE, e)),
    "symmetric": (dp.BitResponse, lambda e, _: dp.BitResponse(SPACE, e, form="symmetric")),
    "top-k": (dp.TopKResponse, lambda e, n: dp.TopKResponse(SPACE, e, priors(n), k=3)),
    "cluster": (dp.ClusterResponse, lambda e, n: dp.ClusterResponse(SPACE, e, PRIOR, np.arange(n) % 3, 0.1)),
    "prior-subset": (dp.PriorSubsetResponse, lambda e, n: dp.PriorSubsetResponse(SPACE, e, priors(n))),
    "prior": (dp.PriorResponse, lambda e, n: dp.PriorResponse(SPACE, e, priors(n))),
    "groups": (dp.GroupResponse, lambda e, n: dp.GroupResponse(SPACE, e, priors(n))),
    "groups-unordered": (dp.GroupResponse, lambda e, n: dp.GroupResponse(SPACE, e, priors(n), ordered=False)),
    "one-partition": (
        dp.GroupResponse,
        lambda e, n: dp.GroupResponse(SPACE, e, groups=[["a"], ["b", "c"], ["d", "e"]]).for_rows(n),
    ),
    "laplace": (dp.LaplaceResponse, lambda e, _: dp.LaplaceResponse(GRID, e)),
    "one-bit": (dp.OneBitResponse, lambda e, _: dp.OneBitResponse(GRID, e)),
    "piecewise": (dp.PiecewiseResponse, lambda e, _: dp.PiecewiseResponse(GRID, e)),
    "optimal": (dp.OptimalResponse, lambda e, _: dp.OptimalResponse(GRID, e)),
    "minimax": (dp.MinimaxResponse, lambda e, _: dp.MinimaxResponse(GRID, e)),
    "bins": (dp.BinResponse, lambda e, _: dp.BinResponse(GRID, e, PRIOR[1])),
}
NUMBERS = [case for case, (kind, _) in CASES.items() if issubclass(kind, NumberRandomizer)]
every_case = pytest.mark.parametrize("case", CASES)
every_number = pytest.mark.parametrize("case", NUMBERS)
every_class = pytest.mark.parametrize("case", [case for case in CASES if case not in NUMBERS])


def priors(rows):
    """The three priors, in turn."""
    return np.resize(np.array(PRIOR), (rows, 5))


def build(case, epsilon, rows=3):
    """The randomizer of a case, for some rows where rows differ."""
    return CASES[case][1](epsilon, rows)


def contains(channel, released, classes):
    """For each row, whether its released label or set holds the given class; or is the likeliest number for it."""
    if channel.form == "number":
        return released == channel.matrix().argmax(axis=1)[classes]
    return channel.holds(released, classes)


def truth_of(channel, labels):
    """The chance of ``contains``."""
    return channel.matrix().max(axis=1)[labels] if channel.form == "number" else channel.holding(labels)[0]


def tape(length=4093):
    """A tape of words whose length is prime to every chunk."""
    return TapeWords(np.random.default_rng(7).integers(0, 2**64, length, dtype=np.uint64))


def test_every_registered_randomizer_has_examples():
    """A randomizer that the registry finds must be in this suite, and what the suite has must be registered."""
    assert set(RANDOMIZERS.own.values()) == {kind for kind, _ in CASES.values()}
    assert all(RANDOMIZERS.find(kind.name) is kind for kind, _ in CASES.values())


@every_case
def test_the_certified_epsilon_is_what_was_asked_for(case):
    """The channel's epsilon is at most the one asked for, and within 1e-9 of it relatively where k is small."""
    for epsilon in (1e-6, 0.1, 1 / 3, 1.0, 2, 8.0, 20.0):
        randomizer = build(case, epsilon)
        certified = randomizer.channel().epsilon
        assert certified <= epsilon == randomizer.epsilon
        assert certified >= epsilon * (1 - 1e-8)
        assert randomizer.channel() is randomizer.channel()


BAD_EPSILONS = (math.nan, math.inf, -math.inf, 0, 0.0, -1, 1e-300, 800, 100.0, True, np.True_, "1", None, [1.0], 1j)


@pytest.mark.parametrize(
    ("case", "bad"), [("response", bad) for bad in BAD_EPSILONS] + [(case, math.inf) for case in list(CASES)[1:]]
)
def test_a_bad_epsilon_is_refused(case, bad):
    """No epsilon that cannot be kept, expressed or defended makes a randomizer."""
    with pytest.raises(EpsilonError, match="expected"):
        build(case, bad)


@every_case
def test_every_randomizer_holds_the_laws_of_its_kind(case):
    """Those that ``labeldp.testing`` holds foreign ones to as well."""
    check_randomizer(build(case, 1.0))


@pytest.mark.parametrize(
    ("name", "broken", "law"),
    [
        ("channel", lambda _: COSTLY, "costs at most"),
        ("at", lambda self, epsilon: type(self)(self.space, epsilon / 2), "have the same channel"),
        ("name", "subset-of-nobody", "found|of this type"),
    ],
)
def test_a_randomizer_that_breaks_a_law_is_found(monkeypatch, name, broken, law):
    """By the words of the law."""
    randomizer = dp.SubsetResponse(SPACE, 1.0)
    monkeypatch.setattr(dp.SubsetResponse, name, broken)
    with pytest.raises((AssertionError, InputError, ValueError), match=law):
        check_randomizer(randomizer)


@every_case
def test_the_class_of_its_channels_is_stated(case):
    """A certificate that names a mechanism is refused where its law is of another kind."""
    randomizer, others = build(case, 1.0), set(CHANNELS.own.values())
    assert randomizer.draws_from is type(randomizer.channel())
    assert draws_from(randomizer.name, randomizer.channel())
    assert not draws_from("exact copy", randomizer.channel())
    named = {kind.draws_from for kind in RANDOMIZERS.own.values() if draws_from(kind.name, randomizer.channel())}
    assert named == {type(randomizer.channel())} <= others


@every_case
def test_a_space_must_be_declared(case):
    """A list of classes, which might have been read off the labels, is not a declared space."""
    with pytest.raises(LabelError, match="expected a declared label space"):
        dataclasses.replace(build(case, 1.0), space=["a", "b"])


def test_options_that_do_not_exist_are_refused():
    """Sizes, numbers of candidates and forms are checked by name."""
    for size in (0, 5, 2.0, True, "2"):
        with pytest.raises(InputError, match="expected size"):
            dp.SubsetResponse(SPACE, 1.0, size=size)
    for k in (0, 6, 2.0, True):
        with pytest.raises(InputError, match="expected k"):
            dp.TopKResponse(SPACE, 1.0, PRIOR, k=k)
    with pytest.raises(InputError, match="expected form"):
        dp.BitResponse(SPACE, 1.0, form="random")


def test_options_of_numpy_are_plain_integers():
    """A size that came out of NumPy gives the same exact integers as a plain one."""
    assert (
        dp.SubsetResponse(SPACE, 1.0, size=np.int64(3)).channel().odds
        == dp.SubsetResponse(SPACE, 1.0, 3).channel().odds
    )
    top = dp.TopKResponse(SPACE, 1.0, PRIOR, k=np.int64(3)).channel()
    assert top.odds == dp.TopKResponse(SPACE, 1.0, PRIOR, k=3).channel().odds


BEST = [
    (2, 1.0, dp.RandomizedResponse),
    (10, 1.0, dp.SubsetResponse),
    (10, 5.0, dp.RandomizedResponse),
    (100, 5.0, dp.SubsetResponse),
]


@pytest.mark.parametrize(("classes", "epsilon", "kind"), BEST)
def test_the_best_response_is_randomized_response_at_size_one(classes, epsilon, kind):
    """Subsets of one class are randomized response, and are released as classes."""
    assert type(dp.best_response(dp.Classes(range(classes)), epsilon)) is kind


# ---------------------------------------------------------------------------------------------------- the draw


@every_case
@pytest.mark.parametrize("first_row", [0, 12345])
def test_a_draw_is_a_function_of_row_and_words_alone(case, first_row):
    """Around every multiple of a chunk, the draw is what each row gives alone from its own words."""
    per_row = build(case, 1.0).channel().usual_words
    step = _drawing._WORDS_PER_CHUNK // per_row
    longest = 2 * step + 1
    whole = build(case, 1.0, longest).channel()
    codes = np.random.default_rng(1).integers(0, 5, longest).astype(np.int32)
    source = tape()
    words = source.block(first_row * per_row, longest * per_row).reshape(longest, per_row)
    alone = whole.draw(codes, words)
    for count in (0, 1, 2, step - 1, step, step + 1, 2 * step - 1, 2 * step, longest):
        drawn = draw(whole.take(slice(0, count)), codes[:count], source, first_row)
        assert drawn.dtype == alone.dtype
        assert (drawn == alone[:count]).all()


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("chunk", [1, 5, 64, 1 << 16])
def test_chunks_and_threads_do_not_change_the_draw(monkeypatch, threads, chunk):
    """The same words give the same release whatever the chunk, the number of threads, or where a part begins."""
    channel = dp.SubsetResponse(SPACE, 1.0).channel()
    codes = np.random.default_rng(2).integers(0, 5, 500).astype(np.int32)
    usual = draw(channel, codes, tape())
    monkeypatch.setattr(_drawing, "_WORDS_PER_CHUNK", chunk)
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    assert (draw(channel, codes, tape()) == usual).all()
    parts = [draw(channel, codes[low : low + 77], tape(), first_row=low) for low in range(0, 500, 77)]
    assert (np.concatenate(parts) == usual).all()


def test_no_word_is_used_twice():
    """The words that a draw asks for are those of its rows, each once, in any order."""

    class Counting(TapeWords):
        def __init__(self, words):
            super().__init__(words)
            self.asked = []

        def block(self, start, count):
            self.asked.append((start, count))
            return super().block(start, count)

    source = Counting(np.arange(4093, dtype=np.uint64))
    channel = dp.BitResponse(SPACE, 1.0).channel()
    rows = 3 * _drawing._WORDS_PER_CHUNK // channel.usual_words + 7  # several chunks
    draw(channel, np.zeros(rows, dtype=np.int32), source, first_row=9)
    edge = 9 * channel.usual_words
    for start, count in sorted(source.asked):
        assert start == edge
        edge += count
    assert edge == (9 + rows) * channel.usual_words
    assert len(source.asked) > 3


class PlacedWords(TapeWords):
    """A tape for the usual words of rows, and another one for their further words, at their own places."""

    def __init__(self, usual, further):
        super().__init__(usual.ravel())
        self.further = TapeWords(further.ravel())

    def block(self, start, count):
        """The words of either tape."""
        if start < _drawing._FURTHER:
            return super().block(start, count)
        return self.further.block(start - _drawing._FURTHER, count)


@pytest.mark.parametrize("case", ["subset", "projective-of-3", "bits", "symmetric"])
@pytest.mark.parametrize("first_row", [0, 7])
def test_rows_whose_words_do_not_suffice_have_further_ones(monkeypatch, case, first_row):
    """Each row has further words of its own, at its own place; all others are drawn as without them."""
    channel, rng = build(case, 0.9).channel(), np.random.default_rng(5)
    rows, usual = 40, channel.usual_words
    monkeypatch.setattr(_drawing, "_WORDS_PER_CHUNK", 8 * usual)
    words = rng.integers(0, 2**64, (first_row + rows, channel.words_per_row), dtype=np.uint64)
    doubtful = [first_row + 3, first_row + 17, first_row + 18]
    upper = channel.false >> 32 if channel.kind == "bits" else 2**32 - 1  # of a weight; the last word is left over
    words[doubtful, :usual] = upper | upper << 32
    words[doubtful, usual:] |= np.uint64(1 << 63 | 1 << 31)  # no half that is rejected
    codes = rng.integers(0, 5, rows).astype(np.int32)
    source = PlacedWords(words[:, :usual], words[:, usual:])
    assert (draw(channel, codes, source, first_row) == channel.draw(codes, words[first_row:])).all()
    with pytest.raises(RuntimeError, match="ran out of random words"):
        channel.draw(codes, np.ascontiguousarray(words[first_row:, :usual]))
    words[doubtful, usual:] = 0
    if channel.kind == "bits":  # any lower half decides
        draw(channel, codes, PlacedWords(words[:, :usual], words[:, usual:]), first_row)
        return
    with pytest.raises(RuntimeError, match="ran out of random words"):
        draw(channel, codes, PlacedWords(words[:, :usual], words[:, usual:]), first_row)


@pytest.mark.parametrize("case", ["top-k", "prior", "prior-subset", "groups"])
@pytest.mark.parametrize("rows", [0, 2, 4])
def test_a_law_for_other_rows_is_refused(case, rows):
    """More labels, or fewer, than the prior has rows is an error, never a law read from elsewhere in memory."""
    channel = build(case, 1.0, 3).channel()
    with pytest.raises(ValueError, match="expected"):
        draw(channel, np.zeros(rows, dtype=np.int32), tape())


@every_case
def test_a_code_outside_the_classes_is_refused(case):
    """A code that no declared class has is an error before anything is drawn, and is not shown."""
    for bad in (5, -1, 2**31 - 1):
        with pytest.raises(ValueError, match=r"^expected codes of declared classes$"):
            draw(build(case, 1.0).channel(), np.array([0, 1, bad], dtype=np.int32), tape())


# ---------------------------------------------------------------------------------------------------- positions


@pytest.mark.usefixtures("as_users_call")
@every_case
def test_every_position_is_randomized_at_the_right_rate(case, monkeypatch):
    """The first row, the last, and those at chunk edges keep their label at the stated rate.

    ``repeats`` fresh draws give a binomial count at each watched position; each count's two-sided exact tail is
    compared with ALARM divided by the number of positions, so a run of this test raises a false alarm with a
    probability of at most 1e-9. A row left raw, or drawn by a coin, would be noticed with one of at least 0.999999.
    """
    monkeypatch.setattr(_drawing, "_WORDS_PER_CHUNK", 1 << 12)  # as many edges, between fewer rows
    epsilon, repeats = 1.0, 400
    per_row = build(case, epsilon).channel().usual_words
    step = _drawing._WORDS_PER_CHUNK // per_row
    count = step + 3
    channel = build(case, epsilon, count).channel()
    codes = (np.arange(count) % 3 % 5).astype(np.int32)  # row r of the priors has class r among its candidates
    codes[2::3] = 2
    watched = np.unique(np.array([0, 1, 2, count // 2, step - 2, step - 1, step, step + 1, count - 1]))
    kept = np.zeros(len(watched), dtype=np.int64)
    part, labels = channel.take(watched), codes[watched]
    for _ in range(repeats):
        released = draw(channel, codes, SecureWords())[watched]
        kept += contains(part, released, labels)
    truth = np.broadcast_to(truth_of(part, labels), kept.shape)
    says_nothing = truth == 1.0  # one candidate
    assert (kept[says_nothing] == repeats).all()
    open_rows = ~says_nothing
    tails = np.minimum(binom.cdf(kept, repeats, truth), binom.sf(kept - 1, repeats, truth))[open_rows]
    assert open_rows.sum() >= 6
    assert tails.min() > ALARM / (2 * len(watched))


# ------------------------------------------------------------------------------------------------- the whole law


def clopper_pearson(hits, draws, alarm):
    """The exact two-sided interval of a probability at a false-alarm rate."""
    low = beta.ppf(alarm / 2, hits, draws - hits + 1) if hits else 0.0
    high = beta.isf(alarm / 2, hits + 1, draws - hits) if hits < draws else 1.0
    return low, high


def two_labels(channel):
    """Two true classes that a row may release, or the two ends of the range."""
    matrix = channel.matrix()
    able = np.flatnonzero(matrix.max(axis=1) > matrix.min(axis=1))
    return able[[0, -1]] if channel.form == "number" or isinstance(channel, CoarseningChannel) else able[:2]


def sampled(case, epsilon, draws):
    """For two true labels, how often each outcome of the table came out of a real draw."""
    channel = build(case, epsilon).channel().take(np.array([1]))
    many = channel.take(np.zeros(draws, dtype=np.int64)) if row_arrays(channel) else channel
    table = channel.table()
    support = two_labels(channel)
    counts = []
    for code in support:
        released = draw(many, np.full(draws, code, dtype=np.int32), SecureWords())
        index = released[:, 0] if channel.form == "set" else released
        outcomes = table.outcomes[:, 0] if channel.form == "set" else table.outcomes
        counts.append(np.bincount(index, minlength=256)[outcomes])
        assert counts[-1].sum() == draws
    return table.matrix[support], np.array(counts)


def alarms(stated, counts, draws):
    """Whether any outcome's stated probability is outside its interval, at ALARM for all of them together."""
    level = ALARM / stated.size
    for chance, hits in zip(stated.ravel(), counts.ravel().tolist(), strict=True):
        low, high = clopper_pearson(hits, draws, level)
        if not low <= chance <= high:
            return True
    return False


@every_case
def test_what_is_drawn_follows_the_law_on_every_outcome(case):
    """A million draws agree with the stated law from both sides, and with no law that is 5 per cent off.

    Each outcome's Clopper-Pearson interval at ALARM / outcomes holds the stated probability: a false alarm with a
    probability of at most 1e-9. The same counts reject the law of epsilon 1.05, and of 0.95, so a mechanism that is
    too weak or too strong by that much is noticed.
    """
    draws = 1_000_000
    stated, counts = sampled(case, 1.0, draws)
    assert not alarms(stated, counts, draws)
    for wrong in (0.95, 1.05):
        channel = build(case, wrong).channel().take(np.array([1]))
        assert alarms(channel.matrix()[two_labels(channel)], counts, draws), wrong


# ------------------------------------------------------------------------------------------------------ the words


def independent_keystream(key, start, count):
    """The words of a stream from the definition: each block is one AES of its number, two words to a block."""
    blocks = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 (counter mode by hand)
    first, last = start // 2, (start + count + 1) // 2
    stream = b"".join(blocks.update(number.to_bytes(16, "big")) for number in range(first, last))
    words = np.frombuffer(stream, dtype=np.uint64)
    return words[start - 2 * first :][:count]


@pytest.mark.parametrize("start", [0, 1, 2, 3, 7, 131071, 131072, 2**33 - 1, 2**64 - 1, 2**65 + 1, 2**100])
def test_the_keystream_is_aes_in_counter_mode(start):
    """At any place, odd or even or huge, the words are those of AES-256 over the block's number."""
    for count in (0, 1, 2, 3, 64, 1001):
        words = SecureWords()
        assert len(words._key) == 32
        assert (words.block(start, count) == independent_keystream(words._key, start, count)).all()


def test_long_blocks_continue_the_stream():
    """Blocks longer than the buffer of zeros are the same stream, without a seam or a repeated part."""
    words = SecureWords()
    whole = words.block(1, 300_000)
    for low in (0, 1, 131_070, 131_071, 131_072, 262_143, 299_990):
        assert (words.block(1 + low, 10) == whole[low : low + 10]).all()
    assert np.unique(whole).size == whole.size  # equal words among 3e5 have a probability below 3e-9


def test_two_streams_differ():
    """Each stream has a key of its own; equal first words have a probability of 2**-640 for ten."""
    first, second = SecureWords(), SecureWords()
    assert first._key != second._key
    assert (first.block(0, 10) != second.block(0, 10)).all()
    assert first.private
    assert not tape().private


def test_words_are_uniform_bits():
    """Every bit of the words is set half of the time: exact binomial tails at ALARM over 64 bits."""
    words = SecureWords().block(0, 200_000)
    ones = [int(((words >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(64)]
    tails = [min(binom.cdf(n, 200_000, 0.5), binom.sf(n - 1, 200_000, 0.5)) for n in ones]
    assert min(tails) > ALARM / 128


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
def test_words_cannot_be_copied_or_stored(copied):
    """A copy would repeat the draws, and a stored one would hold the key."""
    with pytest.raises(TypeError, match="cannot be copied or stored"):
        copied(SecureWords())


def test_words_do_not_show_their_key():
    """Neither text of a stream holds its key."""
    words = SecureWords()
    assert words._key.hex() not in repr(words) + str(words)
    assert repr(words._key) not in repr(words) + str(words)


def in_a_fork(function):
    """What a function returns, as bytes, in a forked child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # nothing of pytest may run in the child
        try:
            os.write(write, function())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_draw_other_words():
    """Two children and their parent draw differently, from streams made after the fork."""
    texts = [in_a_fork(lambda: SecureWords().block(0, 4).tobytes()) for _ in range(2)]
    texts.append(SecureWords().block(0, 4).tobytes())
    assert all(len(text) == 32 for text in texts)
    assert len(set(texts)) == 3


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_stream_refuses_to_work_in_a_child():
    """A stream that was made before a fork refuses in the child, and goes on in the parent."""
    words = SecureWords()
    before = words.block(0, 4)

    def attempt():
        try:
            return words.block(0, 4).tobytes()
        except RuntimeError as error:
            return str(error).encode()

    assert b"cannot be used in another process" in in_a_fork(attempt)
    assert (words.block(0, 4) == before).all()


def test_a_tape_repeats_and_cannot_be_changed_from_outside():
    """A tape is a copy of the given words, read at any place."""
    given = np.arange(5, dtype=np.uint64)
    source = TapeWords(given)
    given[:] = 9
    assert source.block(3, 7).tolist() == [3, 4, 0, 1, 2, 3, 4]
    assert source.block(0, 0).tolist() == []


# ------------------------------------------------------------------------------------------------- what is kept


@every_number
def test_the_expected_error_of_a_number_follows_from_the_matrix(case):
    """It is the mean over grid points of the squared distance of the released number and the label."""
    randomizer = build(case, 1.0)
    table = randomizer.channel().table()
    away = randomizer.channel().numbers(table.outcomes) - np.arange(5)[:, None]
    assert randomizer.expectation.squared_error == pytest.approx((table.matrix * away**2).sum() / 5, rel=1e-12)


@every_number
def test_a_number_is_released_for_an_interval_alone(case):
    """Classes have no distance: a space without a range and a grid is refused, and what to use is said."""
    with pytest.raises(LabelError, match="expected a declared range with a grid for released numbers"):
        dataclasses.replace(build(case, 1.0), space=SPACE)


@every_class
def test_what_is_expected_follows_from_the_matrix(case):
    """Truth and clean share are computed from law and prior; a row that says nothing is worth nothing."""
    randomizer = build(case, 1.0)
    channel, prior = randomizer.channel(), np.array(PRIOR)
    truths, shares = [], []
    for row in range(3):
        table = channel.table(row)
        held = channel.take(np.full(len(table.outcomes), row)).mask(table.outcomes)
        if isinstance(channel, CoarseningChannel):  # averages over pairs of classes, some of which are in one group
            law, pairs = table.matrix, list(itertools.permutations(range(5), 2))
            truths.append(law.max(axis=1).mean())
            signals = [(law[[a, b]], held[:, a].astype(float) - held[:, b]) for a, b in pairs]
            apart = [(both[0] @ signal) ** 2 / max(both.mean(axis=0) @ signal**2, 1e-300) for both, signal in signals]
            shares.append(np.mean(apart))
            continue
        if not channel.even:  # averages over true classes that are distributed as what is drawn
            kept = table.matrix[0, 0] - table.matrix[1, 0]
            match = (table.matrix[1, 0] ** 2 + ((table.matrix[0, 1:]) ** 2).sum()) / (1 - kept)
            truths.append(kept + match)
            shares.append(kept**2 / (kept + 2 * match))
            continue
        support = np.flatnonzero(held.any(axis=0))
        mass = prior[row, support].sum() if hasattr(channel, "candidates") else 1.0
        truths.append(mass * float(table.matrix[support[0]] @ held[:, support[0]]))
        if len(support) == 1:
            shares.append(0.0)
            continue
        a, b = support[:2]
        signal = held[:, a].astype(float) - held[:, b]
        both = table.matrix[[a, b]]
        shares.append(mass * (both[0] @ signal) ** 2 / (both.mean(axis=0) @ signal**2))
    expected = randomizer.expectation
    assert expected.truth_probability == pytest.approx(np.mean(truths), rel=1e-12)
    assert expected.clean_share == pytest.approx(np.mean(shares), rel=1e-12)


def test_the_smallest_unit_of_the_law_is_a_word():
    """At 64 bits the truth probability of randomized response is the stated integer over 2**64."""
    channel = dp.RandomizedResponse(dp.Classes([0, 1]), 1.0).channel()
    assert Fraction(channel.keep, 2**64) == pytest.approx(math.e / (1 + math.e), rel=1e-15)
