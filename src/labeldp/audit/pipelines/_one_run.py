"""Audit of a whole pipeline, randomizer and training together, from one run.

Each canary has two labels: planted by coins, or one observed and one drawn beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from labeldp import _checks
from labeldp._arrays import read_only
from labeldp._shapes import Bool, Float, Int
from labeldp.audit._audit import Audit, check_claim, check_confidence
from labeldp.audit.pipelines._trade_off import NOISE, Noise, least_epsilon
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.privacy import LabelSpace, declared_columns


@dataclass(frozen=True, eq=False)
class PlantedPairs:
    """Labels of all rows, and the two labels of which each canary gets one by a coin.

    Attributes:
        labels: A label for each row, made up or declared public: the audit reads labels, and replaces those of
            canaries.
        space: The declared label space, which contains the two labels of each canary.
        canaries: Row numbers, each once; for privacy units of several rows, one row of each.
        pairs: The two labels of each canary; by default the first two classes of the space.

    Raises:
        InputError: Rows do not exist or occur twice, or pairs are outside the space or of equal labels.
    """

    labels: Sequence[Any]
    space: LabelSpace
    canaries: Sequence[int] | Int[np.ndarray, "m"]
    pairs: Sequence[tuple[Any, Any]] | None = None
    assumes: ClassVar[str] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "canaries", _check_canaries(self.canaries, len(self.labels)))
        object.__setattr__(self, "pairs", _canary_pairs(self.pairs, self.space, len(self.canaries)))

    def draw(self) -> tuple[list[Any], Int[np.ndarray, "m"]]:
        """Labels of all rows with those of canaries planted, and the coins."""
        coins, planted = np.random.default_rng().integers(0, 2, len(self.canaries)), list(self.labels)
        for row, pair, coin in zip(self.canaries, self.pairs or (), coins.tolist(), strict=True):
            planted[int(row)] = pair[coin]
        return planted, coins


@dataclass(frozen=True, eq=False)
class ObservedPairs:
    """Labels that stay as they are, and beside each audited one another that could have stood there.

    Nothing is planted. For each audited row a second label is drawn from a declared distribution. If the row's own
    label was drawn from the same distribution, then nothing but the pipeline's output tells which of the two it is.
    Rows whose two labels are equal are no canaries.

    Args:
        labels: A label for each row, made up or declared public.
        space: The declared label space.
        rows: Numbers of the audited rows, each once; for privacy units of several rows, one row of each.
        distribution: Probability of each class for each audited row, shape (len(rows), k), as an array if the classes
            were declared in sorted order; or shape (k,), in declared order. It must not be computed from these labels.

    Attributes:
        canaries: Numbers of the audited rows whose two labels differ.
        pairs: Their two labels, in an order drawn by coins.

    Guarantee:
        Under the assumption that the labels of audited rows were drawn from ``distribution``, independently of one
        another and of all other labels given what is public, ``audit_pipeline`` has the guarantee of planted pairs.
        Proof: the two labels of a row are independent draws from one distribution, so given which two they are, and all
        other labels, each is the row's own with probability 1/2. That is the coin of a planted pair.

        Where the distribution is wrong, it is not the pipeline alone that is measured: if a row's true odds between two
        labels differ from the declared ones by a factor of up to e^c, the bound may exceed a pure epsilon by c. Labels
        that their holder drew from the distribution satisfy the assumption exactly.

    References:
        Kalemaj et al. 2025, "Observational auditing of label privacy" (arXiv 2511.14084), for the game.

    Raises:
        InputError: Rows do not exist or occur twice, probabilities are none, or no two labels differ.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes
        >>> labels = np.random.default_rng().choice(["no", "yes"], 1000, p=[0.7, 0.3])
        >>> observed = ObservedPairs(labels, Classes(["no", "yes"]), range(1000), [0.7, 0.3])
        >>> 300 < len(observed.canaries) < 540
        True
    """

    labels: Sequence[Any] = field(repr=False)
    space: LabelSpace
    rows: Sequence[int] | Int[np.ndarray, "n"] = field(repr=False)
    distribution: Any = field(repr=False)
    canaries: Int[np.ndarray, "m"] = field(init=False)
    pairs: Sequence[tuple[Any, Any]] = field(init=False, repr=False)
    _coins: Int[np.ndarray, "m"] = field(init=False, repr=False)
    assumes: ClassVar[str] = "labels of audited rows follow the declared distribution"

    def __post_init__(self) -> None:
        random, points = np.random.default_rng(), self.space.points
        rows = _check_canaries(self.rows, len(self.labels))
        law = _class_shares(self.distribution, self.space, len(rows))
        own = self.space.encode([self.labels[int(row)] for row in rows])
        cumulated = np.cumsum(law, axis=1)
        other = (random.random((len(rows), 1)) * cumulated[:, -1:] >= cumulated).sum(axis=1)
        differ = other != own
        if not differ.any():
            raise InputError(
                "expected rows whose label could have been another, found none; audit more rows, or declare a "
                "distribution that leaves more than one label possible"
            )
        coins = random.integers(0, 2, int(differ.sum()))
        pairs = [
            (points[a], points[b]) if coin == 0 else (points[b], points[a])
            for a, b, coin in zip(own[differ].tolist(), other[differ].tolist(), coins.tolist(), strict=True)
        ]
        object.__setattr__(self, "canaries", read_only(rows[differ]))
        object.__setattr__(self, "_coins", read_only(coins))
        object.__setattr__(self, "pairs", pairs)

    def draw(self) -> tuple[list[Any], Int[np.ndarray, "m"]]:
        """The labels, unchanged, and the coins: 0 where a canary's own label comes first."""
        return list(self.labels), self._coins


def _class_shares(distribution: Any, space: LabelSpace, rows: int) -> np.ndarray:
    """Probabilities of the classes in their order, for each row."""
    law = floats(declared_columns(distribution, space), "a distribution")
    law = np.broadcast_to(law, (rows, law.shape[0])) if law.ndim == 1 else law
    if law.shape != (rows, space.size) or not (law >= 0).all() or not np.allclose(law.sum(axis=1), 1.0, atol=1e-6):
        raise InputError(
            f"expected a distribution of shape ({rows}, {space.size}) or ({space.size},), each row of it probabilities "
            f"that sum to 1, found shape {law.shape} or other numbers"
        )
    return law


def _check_canaries(canaries: Any, rows: int) -> Int[np.ndarray, "m"]:
    """Distinct row numbers."""
    numbers = np.asarray(list(canaries))
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu":
        raise InputError("expected canaries as a non-empty list of row numbers, found something else")
    if numbers.min() < 0 or numbers.max() >= rows or len(np.unique(numbers)) != len(numbers):
        raise InputError(f"expected canaries among {rows} rows, each once, found others; count rows from 0")
    return numbers.astype(np.int64)


def _canary_pairs(pairs: Any, space: LabelSpace, count: int) -> list[tuple[Any, Any]]:
    """Two different labels of the space for each canary."""
    choices = [tuple(space.points[:2])] * count if pairs is None else [tuple(pair) for pair in pairs]
    if len(choices) != count or any(len(pair) != 2 for pair in choices):
        raise InputError(f"expected two labels for each of {count} canaries, found {len(choices)} pairs or other sizes")
    first, second = (space.encode([pair[place] for pair in choices]) for place in (0, 1))
    if (first == second).any():
        equal = np.argmax(first == second)
        raise InputError(f"expected two different labels for each canary, found equal ones for canary {equal}")
    return choices


#: Nine or more right guesses show something at usual levels; that many doublings of a few canaries are far more.
_MOST_DOUBLINGS = 12


def audit_pipeline(
    pipeline: Callable[[list[Any]], Any],
    planted: PlantedPairs | ObservedPairs,
    guess: Callable[[Any], Any],
    claim: float,
    *,
    delta: float = 0.0,
    confidence: float = 0.99,
    shares: Sequence[float] = (1.0, 0.25, 0.05),
    noise: Noise = "any",
) -> Audit:
    """Plant labels by coins, run the pipeline once, and guess the coins from its output.

    Each canary is a row whose label is replaced by one of two, by a fair coin of the audit's own. The pipeline, which
    randomizes the labels and may train on the released ones, then runs once on all labels. Its output yields a score
    for each canary: positive for its first label, negative for its second. The audit guesses where absolute scores are
    largest, abstains elsewhere, and counts the right guesses. With ``ObservedPairs`` nothing is planted: the labels
    stay as they are, and the game is to tell each from another drawn beside it.

    Args:
        pipeline: A function of a list of labels that returns anything: released labels, a model, its predictions.
        planted: The labels, and the two labels of each canary among them.
        guess: A function of the pipeline's output that returns a score for each canary, shape (m,).
        claim: The epsilon claimed for one row's label, in nats.
        delta: The claimed failure probability.
        confidence: One minus the probability of failing a sound pipeline.
        shares: Shares of the canaries to guess, those of the largest scores; several shares are tested with a
            Bonferroni correction.
        noise: An assumption on the pipeline, which the result states; for delta above 0 alone. ``"gaussian"``: for
            one label's neighbours it has the trade-off curve of Gaussian noise (as ``LabelMoments``, sums of its
            answers, and all that is learned from them have). ``"separate gaussian"``: moreover the noise that hides a
            canary's label is its own, as where canaries have features that are orthogonal to all others'. The second
            shows nearly all of epsilon to many canaries.

    Returns:
        An audit whose ``lower`` is a lower confidence bound; there is no upper bound, since a better attack may exist.

    Raises:
        EpsilonError: The claim or confidence is out of range.
        InputError: So few canaries, or so large a delta, that all guesses could be right and show nothing; scores are
            not one number for each canary; or the pipeline fails.

    Guarantee:
        If the pipeline is (epsilon, delta)-private for one row's label, and as ``noise`` and the pairs assume,
        ``lower`` exceeds epsilon with a probability of at most ``1 - confidence``, whatever the scores are. Proof for
        delta 0: let w be the output and s the coins, independent and fair. For any values of the coins before i, ``P(w
        | s_<i, s_i = 1) <= e^epsilon P(w | s_<i, s_i = 2)``, since it holds for each value of the coins after i, and
        both sides are averaged over these alike. By Bayes' rule the odds of s_i given w and s_<i are at most e^epsilon
        either way: any guess from w is right with a probability of at most ``p = e^epsilon / (1 + e^epsilon)``, given
        which guesses before it were right. So, given w, which determines the canaries guessed, the number of right
        guesses among r is stochastically at most binomial (r, p), by induction over canaries. The exact lower bound of
        p from that count is too large with a probability of at most its level, and epsilon is the log odds of p.
        Several shares of canaries split the level evenly (Bonferroni). For delta above 0 the proofs are in
        ``audit/pipelines/_trade_off.py``.

    References:
        Steinke, Nasr and Jagielski 2023, for the game; here for labels, and for neighbours that replace one label.
        Mahloujifar, Melis and Chaudhuri 2025, for delta above 0; Xiang et al. 2025, for separate noise.

    Example:
        >>> from labeldp import Classes
        >>> from labeldp.audit import PlantedPairs, audit_pipeline
        >>> planted = PlantedPairs(["no"] * 500, Classes(["no", "yes"]), range(200))
        >>> audit = audit_pipeline(  # a pipeline that releases true labels
        ...     lambda labels: labels, planted,
        ...     lambda output: [1.0 if label == "no" else -1.0 for label in output[:200]], claim=1.0)
        >>> audit.holds, audit.lower > 3
        (False, True)
    """
    claim, level, delta = check_claim(claim), check_confidence(confidence), _checks.delta(delta)
    _check_noise(noise, delta)
    count = len(planted.canaries)
    parts = _guess_counts(shares, count)
    error = (1.0 - level) / len(parts)
    _check_visible(noise, delta, count, shares, 1.0 - level)
    labels, coins = planted.draw()
    scores = _canary_scores(guess, _run_pipeline(pipeline, labels), count)
    correct = (scores > 0) == (coins == 0)
    bounds = [_guess_bound(scores, correct, part, delta, error, noise) for part in parts]
    lower, hits, guesses = max(bounds)
    worst = f"{hits:,} of {guesses:,} guesses correct, among {count:,} canaries with one of two labels each"
    assumes = " and ".join(filter(None, (planted.assumes, NOISE[noise][0])))
    return Audit(claim, delta, lower, None, level, count, "one run", worst, assumes=assumes)


def _guess_bound(
    scores: Float[np.ndarray, "m"], correct: Bool[np.ndarray, "m"], part: int, delta: float, level: float, noise: Noise
) -> tuple[float, int, int]:
    """Lower bound on epsilon from the largest scores, with its hits and guesses.

    A zero score abstains. Proofs for delta above 0 take a fixed number of guesses: there it guesses the second label.
    """
    order = np.argsort(-np.abs(scores), kind="stable")[:part]
    order = order if delta else order[scores[order] != 0]
    hits, guesses = int(correct[order].sum()), len(order)
    return least_epsilon(noise, len(scores), guesses, hits, delta, level), hits, guesses


def _check_noise(noise: str, delta: float) -> None:
    """Refuse unknown assumptions, and those that contradict a pure claim."""
    if noise not in NOISE:
        raise InputError(f"expected noise among {', '.join(map(repr, NOISE))}, found {noise!r}")
    if noise != "any" and not delta:
        raise InputError("expected a delta above 0 for a claim about Gaussian noise, found 0; give the claim's delta")


def _check_visible(noise: Noise, delta: float, count: int, shares: Sequence[float], error: float) -> None:
    """Refuse audits that show nothing even if all guesses are right."""

    def visible(canaries: int) -> bool:
        parts = _guess_counts(shares, canaries)
        return any(least_epsilon(noise, canaries, part, part, delta, error / len(parts)) > 0 for part in parts)

    if visible(count):
        return
    enough = next((count << more for more in range(1, _MOST_DOUBLINGS) if visible(count << more)), None)
    if enough is None:
        raise InputError(
            f"expected a delta well below {error / len(shares):.2g}, the error probability of each share of guesses, "
            f"found {delta:g}, at which no number of right guesses shows anything; ask for less confidence"
        )
    raise InputError(
        f"expected more canaries, found {count:,}: if all guesses of so few were right, nothing would be shown; give "
        f"{enough:,}, or ask for less confidence"
    )


def _guess_counts(shares: Sequence[float], count: int) -> list[int]:
    """Numbers of canaries to guess, one for each share."""
    numbers = [_checks.number(share, "a share of canaries") for share in shares]
    if not numbers or not all(0 < share <= 1 for share in numbers):
        raise InputError(f"expected shares of canaries above 0 and at most 1, found {list(shares)!r}")
    return sorted({max(1, round(share * count)) for share in numbers})


def _run_pipeline(pipeline: Callable[[list[Any]], Any], labels: list[Any]) -> Any:
    """Output of the pipeline. The text of its exceptions is dropped, since it may contain a label."""
    try:
        return pipeline(labels)
    except Exception as problem:  # noqa: BLE001 (its text may show a label)
        raise InputError(
            f"expected an output of the pipeline, found that it raised {type(problem).__name__}; run it yourself on "
            "labels of the same space to see why"
        ) from None


def _canary_scores(guess: Callable[[Any], Any], output: Any, count: int) -> Float[np.ndarray, "m"]:
    """A score for each canary."""
    try:
        scores = np.asarray(guess(output), dtype=np.float64)
    except Exception as problem:  # noqa: BLE001 (its text may show a label)
        raise InputError(
            f"expected a score for each canary, found that guess raised {type(problem).__name__}"
        ) from None
    if scores.shape != (count,) or np.isnan(scores).any():
        raise InputError(f"expected {count} scores that are numbers, found shape {scores.shape} or NaN")
    return scores
