"""The certificate: the release, its law and its guarantee, in JSON that anyone can recompute."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from labeldp._checks import printable
from labeldp.errors import BudgetError, VerificationError
from labeldp.mechanisms.randomizers import Expectation, NumberExpectation
from labeldp.mechanisms.resampling import FeatureLaw
from labeldp.privacy import CLIPPED, FILLED, Guarantee, LabelSpace, shown_above, space_from
from labeldp.privacy.accounting import Charge, RenyiGuarantee, RowRanges, compose
from labeldp.privacy.channels import CHANNELS, Channel, ResponseChannel, channel_of, law_of
from labeldp.release.folder._limits import check_plain, parsed
from labeldp.release.folder._one_row import declarations, declared_repeats, returned_in

SCHEMA = "labeldp/certificate/1"

#: Errors of reading a file, or computing with its numbers, that mean that it is not as it should be.
UNREADABLE = (
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    BudgetError,
    RecursionError,
    MemoryError,
    AssertionError,
)

#: The assumption of releases that were drawn in stages.
IN_STAGES = "which rows are of which stage does not depend on labels, but through answers and releases that are charged"

#: Beginning of the declaration that a prior was computed from another release of these rows.
RESTS_ON = "the prior was computed from"

#: Between the names of releases whose rows were concatenated.
AND = "+"

_ADDS_UP = (
    " This is what it adds to an earlier release, which its prior was computed from: in rows that they share, what "
    "both cost adds up."
)

#: The declaration that true features must not be published beside released labels.
FEATURES_REDRAWN = "features of these rows left redrawn in another release, and are not kept beside these labels"

#: The declaration that rows left in another order than that of the table.
SHUFFLED = "the rows are in a random order, which was drawn without a look at labels and is not kept"

#: The beginning of the declaration that labels were randomized before they came here; who declares it, ends it.
DECLARED = "these labels were randomized in this way before they were imported, as declared by "

#: The mechanism of labels whose channel was declared, and that no randomizer here draws from.
ELSEWHERE = "declared"

#: The declaration that rows are the labels of units, which is public.
UNITS_PUBLIC = "the units were declared, and who is one unit with whom is public"

_NOT_PRIVATE = "NOT PRIVATE: these labels were drawn with the words of a test, and nothing is promised."

#: The fact that a signature shows.
WHO_MADE_IT = "who made it: a certificate is no signature"

#: Facts that no certificate can show.
UNKNOWN = (
    "that the labels were drawn honestly, from this distribution and from a cryptographic random source",
    "that the kept columns, the row order, the row set and the split into files do not disclose the label",
    "that these labels were not released elsewhere or at another time: releases add up, as the ledger knows",
    WHO_MADE_IT,
    "that the declared unit is the right one",
)


_UNKNOWN_OF_FEATURES = (
    "that features were resampled as often as stated, and by a generator that is what its source says",
    "that true features are as near to the generator's as was declared",
)

#: The words of schema 1 for some of these facts, which every certificate of it has.
_STORED_AS = {
    UNKNOWN[0]: "that the labels were drawn honestly, with this law and with secure random words",
    UNKNOWN[1]: "that the kept columns, the row order, the row set and the split into files do not give the label away",
    _UNKNOWN_OF_FEATURES[
        0
    ]: "that features were redrawn as often as stated, and by a generator that is what its source says",
}


@dataclass(frozen=True)
class Draw:
    """One charge: a mechanism, its law, the rows, and the guarantee."""

    mechanism: str
    law: Mapping[str, Any]
    rows: RowRanges
    guarantee: Guarantee

    @classmethod
    def of(cls, mechanism: str, channel: Channel, rows: RowRanges, guarantee: Guarantee) -> Draw:
        """The charge for a draw from a channel that its law determines."""
        draw = cls(mechanism, law_of(channel), rows, guarantee)
        vars(draw)["channel"] = channel.take(slice(0))
        return draw

    @cached_property
    def channel(self) -> Channel:
        """The channel of released labels, with no rows."""
        return channel_of(self.law)


@dataclass(frozen=True)
class File:
    """A released file: its name, rows and hash."""

    name: str
    rows: int
    sha256: str


@dataclass(frozen=True)
class Certificate:
    """The facts and the guarantee of a release.

    Nothing in it depends on a true label except through charged draws.

    Attributes:
        release: A random identifier.
        label: The label column.
        space: The declared label space.
        rows: Number of rows.
        draws: The charges, in order.
        expects: Expected utility of the released rows, from parameters alone; None for an answer.
        columns: Names and Arrow types of the released columns, in order.
        files: The released files.
        assumptions: Facts that were declared and not checked.
        private: False if randomness came from a test source; then there is no guarantee.
        parent: The hash of the release that this one is part of.
        features: The distribution of the released features, if they were not public.
    """

    release: str
    label: str
    space: LabelSpace
    rows: int
    draws: tuple[Draw, ...]
    expects: Expectation | NumberExpectation | None
    columns: tuple[tuple[str, str], ...] = ()
    files: tuple[File, ...] = ()
    assumptions: tuple[str, ...] = ()
    private: bool = True
    parent: str | None = None
    features: FeatureLaw | None = None

    @cached_property
    def guarantee(self) -> Guarantee:
        """The composition of all charges."""
        first = self.draws[0].guarantee
        epsilon, delta = compose(Charge(draw.guarantee, draw.rows) for draw in self.draws)
        return dataclasses.replace(first, epsilon=epsilon, delta=delta, rho=first.rho if len(self.draws) == 1 else None)

    @property
    def channel(self) -> Channel:
        """The channel of the last charge, with no rows yet."""
        return self.draws[-1].channel

    def channel_of_rows(self, arrays: Mapping[str, np.ndarray]) -> Channel:
        """The channel of rows with these arrays by field."""
        return dataclasses.replace(self.channel, **arrays)

    @property
    def labels(self) -> tuple[Draw, ...]:
        """The charges for released labels: one, or one for each stage, with disjoint rows."""
        return tuple(draw for draw in self.draws if CHANNELS.known(draw.law.get("kind")))

    @property
    def answers(self) -> tuple[Draw, ...]:
        """The charges for answers."""
        return tuple(draw for draw in self.draws if not CHANNELS.known(draw.law.get("kind")))

    @property
    def law(self) -> Mapping[str, Any]:
        """The law of the last charge, which is that of the released values."""
        return self.draws[-1].law

    @property
    def of_answer(self) -> bool:
        """True for the answer to a query, False for released labels, which have a channel."""
        return not CHANNELS.known(self.law.get("kind"))

    @property
    def concatenated(self) -> bool:
        """True for rows of several releases, which have no law in common: they are for learning, not for a folder."""
        return AND in self.release

    @property
    def unknown(self) -> tuple[str, ...]:
        """Facts that this certificate cannot show."""
        return UNKNOWN if self.features is None else (*UNKNOWN, *_UNKNOWN_OF_FEATURES)

    @property
    def sentence(self) -> str:
        """The guarantee in plain words, or that there is none because randomness came from a test source."""
        if not self.private:
            return _NOT_PRIVATE
        if self.features is not None:
            static = RenyiGuarantee(math.inf, self.guarantee.epsilon)
            return f"{static.sentence()}\n\n{conditional_sentence(self.conditional)}"
        declared = f"Declared by {printable(self.declared_by)}, not drawn here. " if self.declared_by else ""
        return f"{declared}{self.guarantee.sentence()}{_ADDS_UP if self.rests_on_another else ''}"

    @property
    def declared_by(self) -> str:
        """The source of the declaration that the labels were randomized before; empty if they were drawn here."""
        return next((each.removeprefix(DECLARED) for each in self.assumptions if each.startswith(DECLARED)), "")

    @property
    def meaning(self) -> str:
        """The meaning of epsilon for a person, which is printed beside the sentence and not stored; empty without one.

        If features were resampled, it is that of the guarantee with static features. If rows were declared to be units
        though a column repeats, it is about one row, and what all rows of one person have follows. So does what all
        releases of rows that return disclose together.
        """
        if not self.private:
            return ""
        together = [f"{each[0].upper()}{each[1:]}." for each in self.of_several_rows]
        about = self.guarantee.posterior_sentence(*(["one row"] if together else []))
        together += [f"{each}." for each in self.returned]
        return " ".join([about, *together])

    @property
    def returned(self) -> dict[str, float]:
        """The statements that rows were released before, each with the epsilon of all releases of these together."""
        return returned_in(self.assumptions, self.rows, self.guarantee)

    @property
    def of_several_rows(self) -> tuple[str, ...]:
        """The declarations that rows are units, each with a column that repeats, and epsilon for all rows of one."""
        return tuple(declarations(self.repeats, self.guarantee))

    @property
    def repeats(self) -> dict[str, int]:
        """The columns, by quoted name, that repeat though rows were declared to be units, and in how many rows."""
        return declared_repeats(self.assumptions, self.guarantee)

    @property
    def conditional(self) -> tuple[RenyiGuarantee, ...]:
        """The guarantees with conditional features, one for each order; none if features are public."""
        if self.features is None:
            return ()
        if not isinstance(self.channel, ResponseChannel):
            raise ValueError("expected randomized response with resampled features, found another mechanism")
        return self.features.conditional(self.channel)

    @property
    def paid_split(self) -> Certificate | None:
        """The certificate of the release that the generator of the features was fitted on."""
        source = {} if self.features is None or self.features.generator is None else self.features.generator["source"]
        text = source.get("certificate")
        return None if text is None else Certificate.from_json(text)

    @property
    def rests_on_another(self) -> bool:
        """True if its prior was computed from another release, whose charge is not among these."""
        return any(each.startswith(RESTS_ON) for each in self.assumptions)

    def of_rows(self, rows: int, parent: str) -> Certificate:
        """The certificate of a subset of rows not yet written to files; ``parent`` is the hash of the whole release."""
        return dataclasses.replace(self, rows=rows, files=(), columns=(), parent=parent)

    def may_share_rows(self, other: Certificate) -> bool:
        """True if both are of the same release, whole or in part, unless they are parts with different files.

        Of two parts without files, such as slices in memory, the certificates do not show whether they overlap.
        Concatenated releases share rows with each of their parts.
        """
        if self.concatenated or other.concatenated:
            return not set(self.release.split(AND)).isdisjoint(other.release.split(AND))
        if (self.release, self.draws) != (other.release, other.draws):
            return False
        parts_on_disk = bool(self.parent and other.parent and self.files and other.files)
        return not parts_on_disk or self.files == other.files

    def to_json(self) -> str:
        """The certificate as text, with sorted keys."""
        return json.dumps(self.plain(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    def plain(self, made_with: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The certificate as an object for JSON.

        Args:
            made_with: The versions that it names; None for those of this process, which take long to look up.
        """
        guarantee = self.guarantee
        return {
            "schema": SCHEMA,
            "release": self.release,
            "made_with": dict(_made_with() if made_with is None else made_with),
            "private": self.private,
            "label": {"column": self.label, "space": self.space.describe()},
            "table": {
                "rows": self.rows,
                "columns": [{"name": name, "type": kind} for name, kind in self.columns],
                "files": [dataclasses.asdict(file) for file in self.files],
            },
            "charges": [_draw_to_plain(draw) for draw in self.draws],
            "guarantee": {**_guarantee_to_plain(guarantee), "sentence": self.sentence},
            "expects": dataclasses.asdict(self.expects) if self.expects else None,
            "assumptions": list(self.assumptions),
            "cannot_know": [_STORED_AS.get(each, each) for each in self.unknown],
            "parent": self.parent,
            **_features_to_plain(self),
        }

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Parse a certificate.

        Raises:
            VerificationError: The text is no certificate of this schema, or its parts contradict each other.
        """
        body = parsed(text)
        if (schema := body.get("schema")) != SCHEMA:
            raise VerificationError(
                f"expected a certificate of schema {SCHEMA!r}, found {schema!r:.100}; upgrade labeldp"
            )
        try:
            check_plain(body)
            certificate = _from_plain(cls, body)
            claimed = dict(body["guarantee"])
            sentence = claimed.pop("sentence")
            recomputed = _guarantee_to_plain(certificate.guarantee)
            expected = certificate.plain(body["made_with"])
            same = json.dumps(expected, sort_keys=True) == json.dumps(body, sort_keys=True)
        except UNREADABLE as problem:
            if isinstance(problem, VerificationError):
                raise
            raise VerificationError(f"expected a complete certificate, found {type(problem).__name__}") from None
        if claimed != recomputed or sentence != certificate.sentence:
            raise VerificationError("expected a guarantee that follows from the charges, found another")
        if not same:
            raise VerificationError(
                "expected exactly the parts of a certificate, found others, or another form of them"
            )
        return certificate


@cache
def _made_with() -> Mapping[str, str]:
    """The versions that a certificate names; to look them up takes longer than to read a certificate."""
    from importlib.metadata import version  # noqa: PLC0415 (it loads slowly)

    return {"labeldp": version("labeldp"), "pyarrow": version("pyarrow")}


def digest(text: bytes) -> str:
    """SHA-256 in hexadecimal; use it on released data only."""
    return hashlib.sha256(text).hexdigest()


def _from_plain(cls: type[Certificate], body: Mapping[str, Any]) -> Certificate:
    table = body["table"]
    return cls(
        release=str(body["release"]),
        label=str(body["label"]["column"]),
        space=space_from(body["label"]["space"]),
        rows=int(table["rows"]),
        draws=tuple(_draw_from_plain(draw) for draw in body["charges"]),
        columns=tuple((column["name"], column["type"]) for column in table["columns"]),
        files=tuple(File(**{**file, "rows": int(file["rows"])}) for file in table["files"]),
        expects=_expects_from_plain(body["expects"]),
        assumptions=tuple(body["assumptions"]),
        private=body["private"] is True,
        parent=body["parent"],
        features=FeatureLaw.from_plain(body["features"]["law"]) if "features" in body else None,
    )


def clipping(assumptions: Iterable[str]) -> tuple[str, ...]:
    """Sentences on clipped numbers and filled labels, and on what figures leave out or count because of them."""
    said = {CLIPPED: "Means leave out what a long tail has beyond this range.", FILLED: "Figures count them as such."}
    return tuple(
        f"{each[0].upper()}{each[1:]}. {figures}"
        for each in assumptions
        for opening, figures in said.items()
        if each.startswith(opening)
    )


def conditional_sentence(guarantees: tuple[RenyiGuarantee, ...]) -> str:
    """The guarantees with conditional features: the largest order in words, the others as numbers."""
    if not guarantees:
        return (
            "Conditional features: nothing is promised of what the released features tell of labels, since it is not "
            "known how far the generator's features are from true ones."
        )
    others = "; ".join(f"{each.alpha:g}: {shown_above(each.epsilon, 7)}" for each in guarantees[:-1])
    return guarantees[-1].sentence() + (f"\nRényi divergences of other orders are at most: {others}." if others else "")


def _features_to_plain(certificate: Certificate) -> dict[str, Any]:
    """The law of features and its guarantees, if they were not public."""
    if certificate.features is None:
        return {}
    guarantees = [
        {"order": repr(each.alpha), "epsilon": repr(each.epsilon), "sentence": each.sentence()}
        for each in certificate.conditional
    ]
    return {"features": {"law": certificate.features.plain(), "conditional": guarantees}}


def _expects_from_plain(body: Mapping[str, Any] | None) -> Expectation | NumberExpectation | None:
    """Parse the expected utility of released classes or numbers."""
    if body is None:
        return None
    return NumberExpectation(**body) if "squared_error" in body else Expectation(**body)


def _draw_to_plain(draw: Draw) -> dict[str, Any]:
    return {
        "mechanism": draw.mechanism,
        "law": dict(draw.law),
        "rows": [list(pair) for pair in draw.rows.ranges],
        "guarantee": _guarantee_to_plain(draw.guarantee),
    }


def _draw_from_plain(body: Mapping[str, Any]) -> Draw:
    rows = RowRanges(tuple((int(a), int(b)) for a, b in body["rows"]))
    promise = Guarantee(**{**body["guarantee"], "assumptions": tuple(body["guarantee"]["assumptions"])})
    return Draw(str(body["mechanism"]), body["law"], rows, promise)


def _guarantee_to_plain(guarantee: Guarantee) -> dict[str, Any]:
    plain = {**dataclasses.asdict(guarantee), "assumptions": list(guarantee.assumptions)}
    return {name: value for name, value in plain.items() if value is not None}
