"""A release as a data set for people: what its publisher declares, its title and columns, and its README."""

from __future__ import annotations

import json
import math
import re
import textwrap
from dataclasses import astuple, dataclass
from typing import Self

import numpy as np

from labeldp._checks import printable
from labeldp._strict_json import strict_json
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import Expectation, NumberExpectation, expectation
from labeldp.privacy import Classes, Interval, LabelSpace
from labeldp.privacy.channels import GroupedChannel, GroupedNumberChannel
from labeldp.release.folder._certificate import Certificate, clipping
from labeldp.release.folder._columns import CODES, added_columns, group_column, released_columns
from labeldp.release.folder._staging import CERTIFICATE

_LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,59}")
_MOST_NAME = 200
#: A line of a data card, or of Croissant metadata, that declares something; the value is in JSON.
_LINE = re.compile(r'^(license|pretty_name| "license"): (".*"),?$', re.MULTILINE)


@dataclass(frozen=True)
class Declared:
    """Declarations of a publisher, which no certificate has; None if there is none.

    Attributes:
        license: The identifier of a license, such as ``cc-by-4.0``.
        name: The name of the data set for people.
    """

    license: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.license is not None and not _LICENSE.fullmatch(self.license):
            raise InputError(
                "expected the identifier of a license in at most 60 letters, digits, dots, + and -, found another "
                "value; write for example cc-by-4.0"
            )
        if self.name is not None and not (
            self.name.strip() and self.name.isprintable() and len(self.name) <= _MOST_NAME
        ):
            raise InputError(f"expected a name of 1 to {_MOST_NAME} printable characters, found another value")

    @classmethod
    def read(cls, text: str) -> Self:
        """The declarations that a derived file states.

        Raises:
            InputError: One is of no form that is written.
        """
        found: dict[str, str] = {}
        for key, value in _LINE.findall(text):
            found.setdefault(key.strip(' "'), _text(value))
        return cls(found.get("license"), found.get("pretty_name"))

    def shown(self, key: str) -> str | None:
        """A declaration in JSON, which is YAML too."""
        value = getattr(self, key)
        return None if value is None else json.dumps(value, ensure_ascii=False)


def _text(value: str) -> str:
    """The text that a value in JSON stands for."""
    try:
        return str(strict_json(value))
    except ValueError:
        raise InputError("expected a declaration as a text in JSON, found something else") from None


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
#: The same where the channels of groups of rows differ.
_FORMS_OF_GROUPS = {
    "class": "{right} of them are expected to be true",
    "set": "each is a set of classes, and {right} of these are expected to contain the true {noun}",
    "index": "each stands for a set of classes, and {right} of these are expected to contain the true {noun}",
}


def title(certificate: Certificate) -> str:
    """The title of a release as a data set."""
    return f"Table with the label {certificate.label}, released with label differential privacy"


def cautions(certificate: Certificate) -> tuple[str, ...]:
    """Sentences that say how often released labels are wrong, and that they are not to be taken for true ones.

    The first are written; the others were, and verify too.
    """
    return tuple(
        f"The labels in {released_columns(certificate)[CODES]} are randomized: {each}. Do not train on them, or "
        "measure accuracy against them, as if they were true."
        for each in dict.fromkeys((_difference(certificate, _ends(certificate)), _difference(certificate, "")))
    )


def _difference(certificate: Certificate, ends: str) -> str:
    """The expected difference of released labels from true ones, with its ends over groups of rows."""
    expects, space = certificate.expects, certificate.space
    if isinstance(expects, NumberExpectation) and isinstance(space, Interval) and expects.squared_error >= 0.0:
        range_of = f"(root mean square, with true numbers spread evenly over the range){ends}"
        return f"each is off by about {_figure(expects, space)} {range_of}"
    if not isinstance(expects, Expectation) or certificate.channel.form not in _FORMS:
        return "how far from the true ones, the certificate does not say"  # it will not verify
    noun, form = "class" if isinstance(space, Classes) else "number", certificate.channel.form
    if ends:
        return _FORMS_OF_GROUPS[form].format(noun=noun, right=_figure(expects, space)) + ends
    truth, wrong = _probability(expects.truth_probability), _percent(1.0 - expects.truth_probability)
    averaged = ", on average over a prior" if "candidates" in certificate.law["by_row"] else ""
    return _FORMS[form].format(noun=noun, truth=f"{truth}{averaged}", wrong=wrong)


def _figure(expects: Expectation | NumberExpectation, space: LabelSpace) -> str:
    """The expected share of true labels, or the expected error of numbers."""
    if isinstance(expects, Expectation):
        return _percent(expects.truth_probability)
    return f"{math.sqrt(expects.squared_error) * (space.step if isinstance(space, Interval) else 1.0):.3g}"


def _ends(certificate: Certificate) -> str:
    """The lowest and the highest expected figure over groups of rows; empty where they are one."""
    channel, unit = certificate.channel, certificate.guarantee.unit
    if not isinstance(channel, GroupedChannel | GroupedNumberChannel):
        return ""
    found = [(expectation(each, np.ones(())), size) for each, size in channel.units]
    found.sort(key=lambda pair: astuple(pair[0])[0])
    low, high = (_figure(found[place][0], certificate.space) for place in (0, -1))
    if low == high:
        return ""
    sizes = [size for _, size in found]
    if len({*sizes}) < len(sizes):  # of several releases
        return f", from {low} to {high} by the group of the row"
    most = "" if any(size & (size - 1) for size in sizes) else "at most "  # more than 64 sizes are rounded up
    first, last = (f"{most if size > 2 else ''}{size} row{'s' if size > 1 else ''}" for size in (sizes[0], sizes[-1]))
    return f", from {low} ({unit} with {first}) to {high} ({unit} with {last})"


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


_WIDTH = 100
_ANSWER = (
    "This folder holds an answer about the labels of a table. It was randomized: noise was added, or labels were "
    "exchanged within clusters of rows. Do not take it for the true answer."
)
_PATH = "In Python, with the path of this folder in place of 'shared':"
_VERIFY = f"To verify the folder, run 'labeldp verify shared': it recomputes the guarantee from {CERTIFICATE}."
#: Nothing proposes to install a name that a registry may have given to somebody else.
_GET = (
    "labeldp is a package for Python. Ask whoever gave you this folder where to get it: elsewhere, a package of this "
    "name may be a stranger's."
)
_ASK = "Questions about the data: ask whoever gave you this folder."


def readmes(certificate: Certificate) -> tuple[str, ...]:
    """The text file in every release folder that says what the folder is, for whoever finds it without anything else.

    It follows from the certificate, and its bytes are a promise, as those of a data card are: the first is written, and
    the others, which were written once, verify too.
    """
    if certificate.of_answer:
        forms, code = [[_ANSWER]], ["from labeldp import Answer", "", 'print(Answer.load("shared"))']
    else:
        forms, code = [[f"{title(certificate)}.", each] for each in cautions(certificate)], python(certificate)
    forms = [[*form, *more] for more in dict.fromkeys((clipping(certificate.assumptions), ())) for form in forms]
    facts = [f"{certificate.rows:,} rows.", *certificate.sentence.split("\n\n"), _PATH]
    lines, get = textwrap.indent("\n".join(code), "    "), [_wrapped(_GET)]
    return tuple(
        "\n\n".join([*map(_wrapped, [*about, *facts]), lines, _wrapped(_VERIFY), *way, _ASK]) + "\n"
        for about in forms
        for way in (get, [])
    )


def _wrapped(text: str) -> str:
    """A paragraph in lines, none of which begins with a percent sign."""
    whole = printable(text).replace(" %", "\0%")
    return textwrap.fill(whole, _WIDTH, break_long_words=False, break_on_hyphens=False).replace("\0%", " %")
