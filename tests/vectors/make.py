"""Write the test vectors beside this file from the golden certificates: ``python tests/vectors/make.py``.

Verifiers in other languages read them; ``docs/certificate-format.md`` says what they hold.
"""

import copy
import json
from pathlib import Path

import numpy as np

from labeldp.mechanisms.randomizers import expectation
from labeldp.privacy import Guarantee, shown_above
from labeldp.privacy.channels import (
    BitChannel,
    ClusterChannel,
    GroupedChannel,
    MatrixChannel,
    ProjectiveChannel,
    ResponseChannel,
    SubsetChannel,
    law_of,
)
from labeldp.release.folder import DECLARED, Certificate

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"
#: Kinds of laws that a verifier may leave to labeldp: their guarantee is no ratio of integers.
LEFT = ("peer-exchange", "label-moments", "number-moments", "noisy-gradients")

_OTHER = "Each label was randomized alone: nothing can be learned."


def _whole(epsilon, **more):
    """The edits that make the whole guarantee say so, and in words too."""
    promise = Guarantee(epsilon, **more)
    return [(f"guarantee/{name}", value) for name, value in {"epsilon": epsilon, **more}.items()] + [
        ("guarantee/sentence", promise.sentence())
    ]


def _charge(of, number=0):
    """A charge of a golden certificate."""
    (path,) = (GOLDEN / of).glob("*certificate.json")
    return json.loads(path.read_text(encoding="utf-8"))["charges"][number]


_DECLARED = f"{DECLARED}survey 2026"


def _elsewhere(channel, epsilon=None):
    """The edits that make the labels those of a declared channel, which costs what it does or another epsilon."""
    guarantee, utility = Guarantee(epsilon or channel.epsilon), expectation(channel, np.ones(()))
    return [
        ("assumptions/0", _DECLARED),
        ("charges/0/mechanism", "declared"),
        ("charges/0/law", law_of(channel)),
        ("charges/0/guarantee/epsilon", guarantee.epsilon),
        ("guarantee/epsilon", guarantee.epsilon),
        ("guarantee/sentence", f"Declared by survey 2026, not drawn here. {guarantee.sentence()}"),
        ("expects/clean_share", utility.clean_share),
        ("expects/truth_probability", utility.truth_probability),
    ]


_MATRIX = MatrixChannel.of([[0.6, 0.3, 0.1], [0.25, 0.5, 0.25], [0.1, 0.3, 0.6]], 0.005)
_NO_ROWS = np.empty(0, dtype=np.int32)
_RATES = GroupedChannel(3, (ResponseChannel.at(3, 1.0), ResponseChannel.at(3, 0.5)), (1, 1), _NO_ROWS)
_PAIRS = GroupedChannel(3, (ResponseChannel.at(3, 1.0), ResponseChannel.at(3, 0.5)), (1, 2), _NO_ROWS)
_PART = ("parent", "a" * 64)
_QUANTILE = _charge("command/noisy-quantile")
_FREE = _charge("command/noisy-histogram") | {"rows": []}
_PEERS = {
    "mechanism": "peer-exchange",
    "law": {"kind": "peer-exchange"},
    "rows": [[0, 80]],
    "guarantee": {**_charge("command/auto")["guarantee"], "trust": "peer"},
}

#: Forgeries: the certificate, the edits (a path and the value there, or a path whose part goes), and what is wrong.
EDITS = (
    ("command/auto", [("guarantee/epsilon", 0.5)], "a smaller epsilon in the guarantee"),
    ("command/auto", [("charges/0/guarantee/epsilon", 0.5)], "a smaller epsilon in the charge"),
    (
        "command/auto",
        [("charges/0/guarantee/epsilon", 0.5), ("guarantee/epsilon", 0.5)],
        "an epsilon without its sentence",
    ),
    (
        "command/auto",
        [("charges/0/guarantee/epsilon", 0.9999999999999999), ("guarantee/epsilon", 0.9999999999999999)],
        "one step less",
    ),
    ("command/auto", [("guarantee/sentence", _OTHER)], "another sentence"),
    ("command/auto", [("assumptions/0", _DECLARED)], "declared labels in the sentence of drawn ones"),
    (
        "command/auto",
        [("guarantee/sentence", f"Declared by survey 2026, not drawn here. {Guarantee(1.0).sentence()}")],
        "a declaration in the sentence alone",
    ),
    ("command/auto", [("private", False)], "drawn with test words"),
    ("command/auto", [("private", 1)], "a number for true"),
    ("command/auto", [("schema", "labeldp/certificate/2")], "a future schema"),
    ("command/auto", [("charges", [])], "no charges"),
    ("command/auto", [("charges/0/rows", [[0, 1]])], "a charge for one row"),
    ("command/auto", [("charges/0/rows", [[0, 40], [39, 80]])], "a row twice"),
    ("command/auto", [("charges/0/law/keep", "10627480729818066791")], "a word too many"),
    ("command/auto", [("charges/0/law/keep", "010627480729818066790")], "an integer in another form"),
    ("command/auto", [("charges/0/law/other", "0")], "a class that is never released"),
    ("command/auto", [("charges/0/law/bits", "16")], "words of a test"),
    ("command/auto", [("charges/0/law/classes", "4")], "another number of classes"),
    (
        "command/auto",
        [("charges/0/guarantee/unit", "person"), ("guarantee/unit", "person")],
        "a unit that the law is not for",
    ),
    ("command/auto", [("cannot_know", [])], "nothing that cannot be known"),
    ("command/auto", [("label/space/values", ["low", "middle", "middle"])], "a class twice"),
    ("command/auto", [("more", 1)], "a part of no certificate"),
    ("command/auto-of-units", [("charges/0/law/repeats", ["1", "3"])], "units of more rows"),
    ("command/subset", [("charges/0/law/size", "2")], "another size of sets"),
    ("command/bits", [("charges/0/law/false", "1")], "bits that are nearly never false"),
    ("command/projective", [("charges/0/law/order", "4")], "an order that is no prime"),
    ("command/prior", [("charges/0/law/other/3", "1")], "weights that leave words out"),
    (
        "command/prior-subset",
        [("charges/0/law/member/2", "18446744073709551615")],
        "two candidates that are told apart",
    ),
    ("command/cluster", [("charges/1/law/weights/0/0", "1")], "a cluster whose weights leave words out"),
    ("command/cluster", [("guarantee/epsilon", 0.9)], "the cost of the answer alone"),
    ("command/optimal", [("charges/0/law/values/1", "0")], "outcomes that do not increase"),
    ("command/bins", [("charges/1/law/keep", "1")], "bins that leave words out"),
    ("command/noisy-histogram", [("charges/0/law/sensitivity", "1")], "half of the sensitivity"),
    ("command/noisy-histogram", [("charges/0/law/rate", "1099511627776")], "twice the rate"),
    ("command/noisy-histogram", [("charges/0/law/parts", "2199023255552")], "the rate in other parts"),
    ("command/noisy-quantile", [("charges/0/law/labels_of_a_unit", "2")], "units of two labels"),
    ("command/stages", [("charges/1/rows", [[0, 1]])], "rows without a stage"),
    ("command/stages", [("guarantee/epsilon", 2.0)], "half of a stage"),
    (
        "command/cluster",
        [("charges/0/guarantee/trust", "local"), ("guarantee/trust", "local")],
        "a curator's answer as local",
    ),
    ("command/auto", [("parent", "")], "a parent without a digest"),
    ("command/auto", [("parent", {})], "a parent that is no text"),
    ("command/auto", [("table/rows", "80")], "rows in words"),
    ("command/auto", [("table/rows", 80.0)], "rows as a float"),
    ("command/auto", [("table/files/0/rows", 80.0)], "rows of a file as a float"),
    ("command/auto", [("charges/0/rows/0/1", 80.0)], "a row number as a float"),
    ("command/auto", [("guarantee/delta", 0)], "a delta as a whole number"),
    ("command/auto", [("guarantee/epsilon", 1)], "an epsilon as a whole number"),
    ("command/auto", [("features", None)], "no law of features in place of none"),
    ("command/auto", [("release", None)], "a release without a name"),
    ("command/auto", [("label/column", None)], "a label without a name"),
    ("command/auto", [("table/files", None)], "files that are no list"),
    ("command/auto", [("label/space/values", [True, "yes"])], "classes of two types"),
    ("command/auto", [_PART, ("charges/0/rows", []), *_whole(0.0)], "a part with a charge for no rows"),
    (
        "command/auto",
        [("charges", [_FREE, _charge("command/auto")]), *_whole(1.0, trust="central")],
        "a histogram about no rows, which costs nothing",
    ),
    (
        "command/noisy-quantile",
        [("charges", [_QUANTILE] * 2), *_whole(2 * _QUANTILE["guarantee"]["epsilon"], trust="central")],
        "several answers and no labels",
    ),
    ("command/noisy-quantile", [_PART], "a part of an answer"),
    ("command/noisy-quantile", [("expects", {"clean_share": 1.0, "truth_probability": 1.0})], "utility of an answer"),
    ("command/noisy-histogram", [("charges/0/law/rows", ["1", "2"])], "cells of other rows than were charged"),
    ("command/auto", [("expects",)], "no utility"),
    ("command/auto", [("expects", None)], "the utility of an answer"),
    ("command/auto", [("expects/clean_share", True)], "a share that is no number"),
    ("command/auto", [("charges/0/guarantee/trust", "central"), *_whole(1.0, trust="central")], "labels of a curator"),
    ("command/auto", [("charges/0/guarantee/trust", "peer"), *_whole(1.0, trust="peer")], "labels of peers"),
    ("command/auto", [("charges/0/law/kind", "constructor")], "a kind that every object has"),
    ("command/auto", [("charges/0/law/kind", "__proto__")], "a kind that is no kind"),
    ("command/auto", [("charges/0/law/kind", "perfect")], "a word as a kind"),
    ("command/auto", [("charges/0/law", {"kind": "perfect", "package": ""})], "a kind of nobody"),
    ("command/auto", [("charges/0/law/package", "perfect")], "a kind of labeldp as another package's"),
    ("command/auto", [("charges", [_PEERS]), ("expects", None), *_whole(1.0, trust="peer")], "peers without a law"),
    ("command/auto", [("charges/0/mechanism", "exact copy (epsilon 0.001)")], "words as a mechanism"),
    ("command/auto", [("charges/0/mechanism", "subset")], "a mechanism that does not draw from such a law"),
    ("command/auto", [("charges/0/mechanism", "exact-copy")], "a mechanism that nobody has"),
    ("command/auto", [("charges/0/mechanism", "double")], "resampled features without their law"),
    ("command/auto", _elsewhere(_MATRIX)[1:], "a matrix that nobody declared"),
    ("command/auto", _elsewhere(_MATRIX, 1.8), "a matrix without its slack"),
    ("command/auto", _elsewhere(_PAIRS), "two rows of a unit as single rows"),
    ("command/auto", [*_elsewhere(_MATRIX), ("charges/0/law/slack", str(1 << 62))], "more slack than weights"),
    ("command/auto", [*_elsewhere(_MATRIX), ("charges/0/law/weights/0/0", "1")], "weights that leave words over"),
    ("command/auto", [("release", "a+b")], "two releases"),
    ("command/auto", [("release", "0" * 31)], "a short name of a release"),
    ("command/auto", [("charges/0/guarantee/rho", 0.001), ("guarantee/rho", 0.001)], "a rho of released labels"),
    (
        "command/noisy-histogram",
        [("charges/0/guarantee/rho", 0.001), ("guarantee/rho", 0.001)],
        "a smaller rho than that of the noise",
    ),
    ("command/auto", [("guarantee/delta", -0.0)], "a delta with a sign"),
    ("command/auto", [("table/files/0/rows", -1)], "fewer rows than none"),
    ("command/auto", [_PART, ("table/rows", -20)], "a part of fewer rows than none"),
    ("command/auto", [("table/files/0/sha256", "none")], "a file without a digest"),
    ("command/auto", [("made_with", None)], "made with nothing"),
    ("command/auto", [("label/space/values", [1, 2, 9223372036854775808])], "a class beyond 64 bits"),
    ("command/auto", [("label/space/values", [1, 2, 3.0])], "a class that is no whole number"),
    ("command/auto", [("label/space/missing", "none")], "missing labels as no class"),
    ("command/optimal", [("label/space/low", 1e-300)], "a range that is not whole steps"),
    ("command/prior-subset", [("charges/0/law/member/3", "1")], "a set that the true class is hardly ever in"),
)

#: Certificates that hold though a verifier may trip over them: the edits, and what is odd.
HONEST = (
    ("command/auto", [("label/space/values", [900000000000207008, 900000000000207009, 3])], "classes of 60 bits"),
    ("command/auto", [("label/space/values", [-9223372036854775808, 0, 9223372036854775807])], "the ends of 64 bits"),
    ("command/auto", [("label/space/values", ["constructor", "__proto__", "1"])], "classes that every object has"),
    ("command/auto", [("label/space/missing", "middle")], "missing labels as a class"),
    ("command/auto", [("label/column", "")], "a label without a name"),
    ("command/auto", [("table/columns/0/name", "")], "a column without a name"),
    ("command/auto", [("charges/0/guarantee/epsilon", 1)], "an epsilon of a charge in fewer letters"),
    ("command/auto", [_PART, ("table/rows", 7)], "a part"),
    (
        "command/auto",
        [
            ("assumptions/0", f"{DECLARED}a survey\u202e of 2026"),
            ("guarantee/sentence", f"Declared by a survey\\u202e of 2026, not drawn here. {Guarantee(1.0).sentence()}"),
        ],
        "labels that were randomized elsewhere",
    ),
    ("command/auto", _elsewhere(_MATRIX), "labels by a matrix of probabilities"),
    ("command/auto", _elsewhere(_RATES), "labels by a mechanism for each row"),
)


def edited(body, edits):
    """A copy of a certificate with other values at some paths."""
    body = copy.deepcopy(body)
    for path, *value in edits:
        *before, last = path.split("/")
        part = body
        for step in before:
            part = part[int(step) if isinstance(part, list) else step]
        if value:
            part[int(last) if isinstance(part, list) else last] = value[0]
        else:
            del part[last]
    return body


def certificates():
    """Each golden certificate with what must be found of it."""
    for path in sorted(GOLDEN.glob("*/*/*certificate.json")):
        certificate = Certificate.from_json(path.read_text(encoding="utf-8"))
        promise = certificate.guarantee
        yield {
            "file": path.relative_to(GOLDEN).as_posix(),
            "epsilon": repr(promise.epsilon),
            "delta": repr(promise.delta),
            "shown": shown_above(promise.epsilon, 7),
            "sentence": certificate.sentence,
            "left": sorted({draw.law["kind"] for draw in certificate.draws} & {*LEFT}),
        }


def forged(all_edits=EDITS):
    """Each forgery by its edits."""
    for of, edits, why in all_edits:
        (path,) = (GOLDEN / of).glob("*certificate.json")
        yield {"file": path.relative_to(GOLDEN).as_posix(), "edits": [list(edit) for edit in edits], "why": why}


def draws():
    """Words at and beside every limit of small channels, each with what is released for it."""
    clusters = np.zeros(1, dtype=np.int32)
    channels = [
        ResponseChannel.at(3, 1.0),
        ResponseChannel.at(2, 0.1),
        SubsetChannel.at(5, 2, 1.0),
        SubsetChannel.at(11, 4, 2.0),
        SubsetChannel.at(30, 9, 1.0),  # too many sets for a list
        BitChannel.independent(3, 1.0),
        ProjectiveChannel.at(7, 2, 1.0),
        ClusterChannel.at(np.array([[0.5, 0.3, 0.2]]), 1.0, clusters),
    ]
    for channel in channels:
        law = law_of(channel)
        for code in range(min(channel.classes, 11)):
            for words in _words(channel, code):
                released = channel.draw(np.array([code], dtype=np.int32), np.array([words], dtype=np.uint64))[0]
                found = (
                    np.unpackbits(released, count=channel.classes, bitorder="little")
                    if channel.form == "set"
                    else released
                )
                yield {"law": law, "code": code, "words": list(map(str, words)), "released": np.asarray(found).tolist()}


def _words(channel, code):
    """Rows of words: the ends of the range, both sides of each limit of the law, and a few others."""
    limits = [int(value) for value in law_of(channel).values() if isinstance(value, str) and len(value) > 10]
    first = sorted({0, (1 << 64) - 1, 1 << 63, *(limit + step for limit in limits for step in (-1, 0, 1))})
    state = 0x9E3779B97F4A7C15 * (code + 1) % (1 << 64)
    for word in first:
        rest = []
        for _ in range(channel.words_per_row - 1):
            state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            rest.append(state)
        yield [word % (1 << 64), *rest]
        if channel.kind == "bits":  # this number for each class, whose upper and lower halves are in different words
            yield [part | part << 32 for part in divmod(word % (1 << 64), 1 << 32) for _ in range(channel.usual_words)]
        if channel.kind == "subset":  # a half of 0 is rejected, where 2^32 is no multiple of the bound
            yield [word % (1 << 64), rest[0] >> 32 << 32, *rest[1:]]
            yield [word % (1 << 64), 0, *rest[1:]]


def text(vectors):
    """Vectors as JSON, one a line."""
    lines = ",\n".join(json.dumps(vector, ensure_ascii=False, sort_keys=True) for vector in vectors)
    return f"[\n{lines}\n]\n"


def honest():
    """Each odd certificate that holds, by its edits."""
    return forged(HONEST)


FILES = {"certificates.json": certificates, "forged.json": forged, "honest.json": honest, "draws.json": draws}

if __name__ == "__main__":
    for name, made in FILES.items():
        (HERE / name).write_text(text(made()), encoding="utf-8")
