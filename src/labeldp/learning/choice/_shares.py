"""Class shares of released rows, of which some may say more of their labels than others."""

from __future__ import annotations

import numpy as np

from labeldp._shapes import Float
from labeldp.learning.heads import share_logits, softmax
from labeldp.learning.metrics import Units
from labeldp.release import Release


def shares_of_rows(release: Release, units: Units) -> Float[np.ndarray, "k"]:
    """Class shares of all rows alike, in declared order.

    Likeliest shares weigh rows by what their labels say. Where units of few rows say more of each row than those of
    many, these are the shares of the former, and units may differ by their size. Means of unbiased vectors weigh all
    rows alike, with more noise. So the likeliest shares d away from the unbiased ones are moved towards them by the
    share of ``|d|^2`` that is beyond the variance of the unbiased ones, which is at least that of d.

    References:
        Hausman 1978, for the variance of such a difference; James and Stein 1961, for the factor.
    """
    likeliest = np.asarray(softmax(share_logits(release)[None])[0])
    if len(release.channel.units) < 2 or not release.class_channel.identifies:
        return likeliest
    vectors = release.unbiased()
    away = vectors.mean(axis=0) - likeliest
    sums = units.totals(vectors - vectors.mean(axis=0))
    variance = float((sums**2).sum()) * units.count / units.free / len(release) ** 2
    size = float(away @ away)
    moved = 1.0 - variance / size if size > variance else 0.0
    shares = np.maximum(likeliest + moved * away, likeliest.min() / 2.0)
    return np.asarray(shares / shares.sum())
