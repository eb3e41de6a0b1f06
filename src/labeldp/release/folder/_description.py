"""Descriptions of a release for people: its title, its columns, how its labels differ from the true ones."""

from __future__ import annotations

import math

from labeldp._checks import printable
from labeldp.mechanisms.randomizers import Expectation, NumberExpectation
from labeldp.privacy import Classes, Interval
from labeldp.release.folder._certificate import Certificate
from labeldp.release.folder._columns import CODES
from labeldp.release.folder._groups import group_column
from labeldp.release.folder._read import added_columns, released_columns

#: Classes to list.
_MOST_CLASSES = 100
#: A share that is nearer to 0 or 1 is shown as a bound.
_LEAST = 0.001
#: What a released label is, by the form of its channel.
_FORMS = {
    "class": "each is the true {noun} with probability {truth}, so {wrong} of them are expected to be wrong",
    "set": "each is a set of classes that contains the true {noun} with probability {truth}",
    "index": "each stands for a set of classes that contains the true {noun} with probability {truth}",
}


def title(certificate: Certificate) -> str:
    """The title of a release as a data set."""
    return f"Table with the label {certificate.label}, released with label differential privacy"


def warning(certificate: Certificate) -> str:
    """Sentences that say how often released labels are wrong, and that they are not to be taken for true ones."""
    return (
        f"The labels in {released_columns(certificate)[CODES]} are randomized: {_difference(certificate)}. Do not "
        "train on them, or measure accuracy against them, as if they were true."
    )


def _difference(certificate: Certificate) -> str:
    """The expected difference of released labels from true ones."""
    expects, space = certificate.expects, certificate.space
    if isinstance(expects, NumberExpectation) and isinstance(space, Interval) and expects.squared_error >= 0.0:
        error = math.sqrt(expects.squared_error) * space.step
        return f"each is off by about {error:.3g} (root mean square, with true numbers spread evenly over the range)"
    if not isinstance(expects, Expectation) or certificate.channel.form not in _FORMS:
        return "how far from the true ones, the certificate does not say"  # it will not verify
    noun = "class" if isinstance(space, Classes) else "number"
    truth, wrong = _probability(expects.truth_probability), _percent(1.0 - expects.truth_probability)
    averaged = ", on average over a prior" if "candidates" in certificate.law["by_row"] else ""
    return _FORMS[certificate.channel.form].format(noun=noun, truth=f"{truth}{averaged}", wrong=wrong)


def _probability(value: float) -> str:
    """A probability in three digits, or a bound near 0 and 1."""
    if value < _LEAST:
        return f"below {_LEAST}"
    return f"above {1.0 - _LEAST}" if value > 1.0 - _LEAST else f"{value:.3g}"


def _percent(share: float) -> str:
    """A share in percent, or a bound near 0 and 100."""
    if share < _LEAST:
        return "fewer than 0.1 %"
    return "more than 99.9 %" if share > 1.0 - _LEAST else f"{100.0 * share:.3g} %"


def python(certificate: Certificate) -> list[str]:
    """Lines of Python that learn from a release in a folder ``shared``."""
    numeric = isinstance(certificate.space, Interval)
    learner = "AutoRegressor" if numeric else "AutoClassifier"
    if {*released_columns(certificate).values()} >= {name for name, _ in certificate.columns}:
        use = "numbers" if numeric else "likelihood"
        return ["from labeldp import Release", "", f'print(Release.load("shared").{use}())']
    imports = ["from labeldp import Release, public_columns", f"from labeldp.learning.sklearn import {learner}", ""]
    release, fit = 'release = Release.load("shared")', f"model = {learner}().fit"
    if (groups := group_column(certificate)) not in dict(certificate.columns):
        return [*imports, release, f'{fit}(public_columns("shared").to_pandas(), release)']
    return [
        *imports,
        'release, columns = Release.load("shared"), public_columns("shared").to_pandas()',
        f"groups = columns.pop({printable(repr(groups))})",
        f"{fit}(columns, release, groups=groups)",
    ]


def described_columns(certificate: Certificate) -> list[tuple[str, str, str]]:
    """Name, type and meaning of each column."""
    added = dict.fromkeys(added_columns(certificate), "public: how the label of the row was drawn")
    space, values = certificate.space, ""
    if isinstance(space, Classes):
        more = f" and {space.size - _MOST_CLASSES:,} more" if space.size > _MOST_CLASSES else ""
        values = f", one of {space.size:,} classes: {', '.join(map(str, space.points[:_MOST_CLASSES]))}{more}"
    added[released_columns(certificate)[CODES]] = f"the released label, from {certificate.draws[-1].mechanism}{values}"
    return [(name, kind, added.get(name, "public")) for name, kind in certificate.columns]
