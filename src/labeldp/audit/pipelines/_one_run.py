"""An audit of a whole pipeline, randomizer and training together, that runs it once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from labeldp import _checks
from labeldp._intervals import log_odds, share_above
from labeldp.audit._audit import Audit, check_claim, check_confidence
from labeldp.errors import InputError
from labeldp.privacy import LabelSpace


def audit_pipeline(
    pipeline: Callable[[list[Any]], Any],
    labels: Sequence[Any],
    space: LabelSpace,
    canaries: Sequence[int] | Int[np.ndarray, "m"],
    guess: Callable[[Any], Any],
    claim: float,
    *,
    pairs: Sequence[tuple[Any, Any]] | None = None,
    delta: float = 0.0,
    confidence: float = 0.99,
    shares: Sequence[float] = (1.0, 0.25, 0.05),
) -> Audit:
    """Plant labels by coins, run the pipeline once, and see how many coins its output gives away.

    Each canary is a row whose label is replaced by one of two, by a fair coin of the audit's own. Then the pipeline,
    which randomizes the labels and may train on what was released, runs once on all labels. From its output, a score
    is computed for each canary: positive for its first label, negative for its second. The audit guesses where
    scores are largest, abstains elsewhere, and counts.

    Args:
        pipeline: A function of a list of labels, which returns anything: released labels, a model, its predictions.
        labels: A label for each row, made up or declared public: labels may be seen here, and canaries' are replaced.
        space: The declared label space, in which the two labels of each canary are.
        canaries: Numbers of rows, each once; of units of several rows, one row of each.
        guess: A function of the pipeline's output, which returns a score for each canary, shape (m,).
        claim: The epsilon that is claimed for one row's label, in nats.
        pairs: The two labels of each canary; by default the first two points of the space.
        delta: 0. Nothing is shown of claims with a delta above.
        confidence: One minus the chance to accuse a sound pipeline.
        shares: Shares of the canaries to guess, those of the largest scores; each is a look that is paid for.

    Returns:
        ``lower`` is what was shown; there is no upper bound, since a better attack may exist.

    Raises:
        EpsilonError: A claim or confidence that none can be.
        InputError: Rows that do not exist or occur twice, pairs outside the space or of equal labels, a delta above 0,
            scores of another number or that are no numbers, or a pipeline that fails.

    Guarantee:
        If the pipeline is epsilon-private for one row's label, ``lower`` exceeds epsilon with a chance of at most
        ``1 - confidence``, whatever the scores are. Proof: let w be the output and s the coins, independent and fair.
        For any values of the coins before i, ``P(w | s_<i, s_i = 1) <= e^epsilon P(w | s_<i, s_i = 2)``, since it holds
        for each value of the coins after i, over which both sides are averaged alike. By Bayes' rule the odds of s_i
        given w and s_<i are at most e^epsilon either way: whatever is guessed, from w, is right with a probability of
        at most ``p = e^epsilon / (1 + e^epsilon)``, given which guesses before it were right. So, given w, and with it
        which canaries are guessed, the number of right guesses among r is stochastically at most binomial (r, p), by
        induction over canaries. The exact lower bound of p from that count is too large with a chance of at most its
        level, and epsilon is the log odds of p. Several shares of canaries have the doubt divided among them.

    References:
        Steinke, Nasr and Jagielski 2023, for pure epsilon; here of labels, and of neighbours that replace one.

    Example:
        >>> from labeldp import Classes
        >>> space = Classes(["no", "yes"])
        >>> found = audit_pipeline(  # a pipeline that releases true labels
        ...     lambda labels: labels, ["no"] * 500, space, range(200),
        ...     lambda output: [1.0 if label == "no" else -1.0 for label in output[:200]], claim=1.0)
        >>> found.holds, found.lower > 3
        (False, True)
    """
    claim, sure = check_claim(claim), check_confidence(confidence)
    if _checks.delta(delta):
        raise InputError(
            f"expected a pure claim (delta 0) for an audit with one run, found delta {delta:g}; what can be shown of "
            "approximate claims is weaker and not built; use audit_mechanism for a mechanism that can be called often"
        )
    rows, choices = _canaries(canaries, len(labels)), _choices(pairs, space, len(canaries))
    parts = _shares(shares, len(rows))
    coins = np.random.default_rng().integers(0, 2, len(rows))
    planted = list(labels)
    for row, pair, coin in zip(rows.tolist(), choices, coins.tolist(), strict=True):
        planted[row] = pair[coin]
    scores = _scores(guess, _run(pipeline, planted), len(rows))
    right = (scores > 0) == (coins == 0)
    found = [_shown(scores, right, part, (1.0 - sure) / len(parts)) for part in parts]
    lower, hits, guesses = max(found)
    worst = f"{hits:,} right guesses of {guesses:,}, of {len(rows):,} canaries with one of two labels each"
    return Audit(claim, 0.0, max(0.0, lower), None, sure, len(rows), "one run", worst)


def _shown(
    scores: Float[np.ndarray, "m"], right: Bool[np.ndarray, "m"], part: int, level: float
) -> tuple[float, int, int]:
    """Epsilon from the guesses with the largest scores; a score of zero is no guess."""
    order = np.argsort(-np.abs(scores), kind="stable")[:part]
    order = order[scores[order] != 0]
    hits = int(right[order].sum())
    return log_odds(float(share_above(hits, max(1, len(order)), level))), hits, len(order)


def _canaries(canaries: Any, rows: int) -> Int[np.ndarray, "m"]:
    """Numbers of different rows."""
    found = np.asarray(list(canaries))
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iu":
        raise InputError("expected canaries as a list of row numbers, found something else or none")
    if found.min() < 0 or found.max() >= rows or len(np.unique(found)) != len(found):
        raise InputError(f"expected canaries among {rows} rows, each once, found others; count rows from 0")
    return found.astype(np.int64)


def _choices(pairs: Any, space: LabelSpace, count: int) -> list[tuple[Any, Any]]:
    """Two different labels of the space for each canary."""
    found = [tuple(space.points[:2])] * count if pairs is None else [tuple(pair) for pair in pairs]
    if len(found) != count or any(len(pair) != 2 for pair in found):
        raise InputError(f"expected two labels for each of {count} canaries, found {len(found)} pairs or other sizes")
    first, second = (space.encode([pair[place] for pair in found]) for place in (0, 1))
    if (first == second).any():
        raise InputError(
            f"expected two different labels for each canary, found one twice for canary {_first(first, second)}"
        )
    return found


def _first(one: np.ndarray, other: np.ndarray) -> int:
    return int(np.argmax(one == other))


def _shares(shares: Sequence[float], count: int) -> list[int]:
    """How many canaries to guess, at each look."""
    found = [_checks.number(share, "a share of canaries") for share in shares]
    if not found or not all(0 < share <= 1 for share in found):
        raise InputError(f"expected shares of canaries above 0 and at most 1, found {list(shares)!r}")
    return sorted({max(1, round(share * count)) for share in found})


def _run(pipeline: Callable[[list[Any]], Any], labels: list[Any]) -> Any:
    """The output of the pipeline; what it raises may show a label."""
    try:
        return pipeline(labels)
    except Exception as problem:  # noqa: BLE001 (its text may show a label)
        raise InputError(
            f"expected an output of the pipeline, found that it raised {type(problem).__name__}; run it yourself on "
            "labels of the same space to see why"
        ) from None


def _scores(guess: Callable[[Any], Any], output: Any, count: int) -> Float[np.ndarray, "m"]:
    """A number for each canary."""
    try:
        found = np.asarray(guess(output), dtype=np.float64)
    except Exception as problem:  # noqa: BLE001 (its text may show a label)
        raise InputError(
            f"expected a score for each canary, found that guess raised {type(problem).__name__}"
        ) from None
    if found.shape != (count,) or np.isnan(found).any():
        raise InputError(f"expected {count} scores that are numbers, found shape {found.shape} or NaN")
    return found
