"""Audit of a whole pipeline, randomizer and training together, from one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from labeldp import _checks
from labeldp._shapes import Bool, Float
from labeldp.audit._audit import Audit, check_claim, check_confidence
from labeldp.audit.pipelines._pairs import ObservedPairs, PlantedPairs
from labeldp.audit.pipelines._trade_off import NOISE, Noise, least_epsilon
from labeldp.errors import InputError

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
