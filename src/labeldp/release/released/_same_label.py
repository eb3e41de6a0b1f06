"""Comparison of a column with a label, through released labels alone: whether it is that label."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from labeldp._shapes import Float, Int
from labeldp.columns import as_array
from labeldp.errors import InputError, LabelDPError
from labeldp.privacy import Classes, LabelSpace
from labeldp.privacy.channels import CandidateRows, Channel, ClassChannel

#: Most entries of unbiased vectors that are computed.
_MOST_ENTRIES = 1 << 22
#: How much likelier released labels must be if a column is the label than if it says nothing about it.
_EVIDENCE = 20.0
#: Standard errors within which two means are taken to be equal.
_ERRORS = 3.0
#: Shares of rows in which a column may be the label.
_SHARES = np.linspace(0.0, 1.0, 101)
#: Steps in which the class shares of released labels are estimated.
_STEPS = 50


def refuse_possible_labels(table: pa.Table, space: LabelSpace, channel: Channel | None, released: np.ndarray) -> None:
    """Refuse a table with a column that may be the true label.

    Args:
        table: The columns.
        space: The declared label space.
        channel: The channel of released labels; None if what is released in a row does not tell of that row alone.
        released: What is released in each row.
    """
    agrees = "" if channel is None else " and go with the released labels"
    for name, column in zip(table.column_names, table.columns, strict=True):
        if may_be_label(column, space, channel, released):
            raise InputError(
                f"expected no column that may be the true label, found {name!r}, whose values are the declared "
                f"classes{agrees}; leave it out, or name the columns to keep (keep=[...])"
            )


def may_be_label(column: pa.ChunkedArray, space: LabelSpace, channel: Channel | None, released: np.ndarray) -> bool:
    """True for a column of declared classes that agrees with the true label in all rows, as far as labels tell.

    The unbiased vector of a row has, at a true class that may be released, the mean 1: so its mean over rows, at the
    classes of the column, estimates the share of rows in which the column is the label. Without a channel labels tell
    nothing of it.
    """
    if not (isinstance(space, Classes) and isinstance(channel, ClassChannel | None) and len(released)):
        return False
    places = np.arange(0, len(released), 1 + len(released) * space.size // _MOST_ENTRIES)
    try:
        codes = space.encode(column.take(places))
    except LabelDPError:
        return False
    several = len(np.unique(codes)) > 1
    return several and (channel is None or _agrees(channel.take(places), released[places], codes))


def is_label_renamed(column: pa.Array, channel: ClassChannel, released: np.ndarray) -> bool:
    """True for a column that has one value for each class of a label, as far as its released labels tell.

    The classes of the values are the likeliest ones. Released labels must agree with them as with true ones, and be

    - ``_EVIDENCE`` times likelier than if the column said nothing: a column that says nothing reaches that with a
      probability of at most 1 / ``_EVIDENCE``, over all ways to give its values different classes;
    - at least as likely as if the column were the label in an unknown share of the rows, each share as likely as any
      other, and said nothing in the rest: a column that predicts the label is not the label.
    """
    places = np.arange(0, len(released), 1 + len(released) * channel.classes // _MOST_ENTRIES)
    channel, released = channel.take(places), released[places]
    values = column.take(places).dictionary_encode(null_encoding="encode").indices
    codes, count = as_array(values).astype(np.int64), len(values.unique())
    if not 2 <= count <= channel.classes:
        return False
    likelihood = channel.likelihood(released)
    scores = np.zeros((count, channel.classes))
    with np.errstate(divide="ignore"):
        np.add.at(scores, codes, np.log(likelihood))
    classes = scores.argmax(axis=1)
    if len(np.unique(classes)) < count:
        return False
    shares = np.full(channel.classes, 1 / channel.classes)
    for _ in range(_STEPS):  # of expectation maximization
        shares = (likelihood * shares / (likelihood @ shares)[:, None]).mean(axis=0)
    own, other = likelihood[np.arange(len(codes)), classes[codes]], likelihood @ shares
    with np.errstate(divide="ignore"):
        odds = np.array([np.log(share * own + (1 - share) * other).sum() for share in _SHARES])
    ways = math.lgamma(channel.classes + 1) - math.lgamma(channel.classes - count + 1)
    is_likely = odds[-1] - odds[0] >= math.log(_EVIDENCE) + ways and np.exp(odds - odds[-1]).mean() <= 1.0
    mean, error = _agreement_of(channel, released, classes[codes])
    return bool(is_likely) and abs(mean - 1.0) <= _ERRORS * error


def _agrees(channel: ClassChannel, released: np.ndarray, codes: Int[np.ndarray, "n"]) -> bool:
    """True if released labels agree with classes at least as with true ones, within three standard errors."""
    mean, error = _agreement_of(channel, released, codes)
    return mean + _ERRORS * error >= 1.0


def _agreement_of(channel: ClassChannel, released: np.ndarray, codes: Int[np.ndarray, "n"]) -> tuple[float, float]:
    """The mean of ``_agreement``, which is 1 if the classes are the true ones, and its standard error; 1 without any.

    The error allows for one more row of another kind, since at large epsilons all rows may be of one kind.
    """
    own = _agreement(channel, released, codes)
    if not len(own):
        return 1.0, 0.0
    return float(own.mean()), float(own.std() / np.sqrt(len(own)) + (np.abs(own).max() + 1.0) / len(own))


def _agreement(channel: ClassChannel, released: np.ndarray, codes: Int[np.ndarray, "n"]) -> Float[np.ndarray, "m"]:
    """Of rows whose released label depends on whether a class is the true one, a number whose mean is then 1.

    Without unbiased vectors for all classes, as for groups of classes, it is how often labels are or contain the class,
    relative to how often they would if it were the true one, and if it were not.
    """
    if isinstance(channel, CandidateRows):
        inside = channel.support()[np.arange(len(codes)), codes]
        return np.asarray(channel.unbiased(released)[np.arange(len(codes)), codes][inside])
    if channel.identifies:
        return np.asarray(channel.unbiased(released)[np.arange(len(codes)), codes])
    keep, other = (np.broadcast_to(chance, len(codes)) for chance in channel.holding(codes))
    told = keep > other
    return np.asarray((channel.holds(released, codes)[told] - other[told]) / (keep - other)[told])
