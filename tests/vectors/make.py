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
    CoarseningChannel,
    GroupedChannel,
    MatrixChannel,
    ProjectiveChannel,
    ResponseChannel,
    SubsetChannel,
    law_of,
    pack,
)
from labeldp.release.folder import DECLARED, Certificate

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"
#: Kinds of laws that a verifier may leave to labeldp: their guarantee is no ratio of integers.
LEFT = ("peer-exchange", "shuffled-labels", "label-moments", "number-moments", "noisy-gradients")


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

#: Forgeries whose values are computed: the certificate, the edits, and what is wrong. Others are kept in their file.
EDITS = (
    ("command/auto", [("assumptions/0", _DECLARED)], "declared labels in the sentence of drawn ones"),
    (
        "command/auto",
        [("guarantee/sentence", f"Declared by survey 2026, not drawn here. {Guarantee(1.0).sentence()}")],
        "a declaration in the sentence alone",
    ),
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
    ("command/auto", [("charges/0/guarantee/trust", "central"), *_whole(1.0, trust="central")], "labels of a curator"),
    ("command/auto", [("charges/0/guarantee/trust", "peer"), *_whole(1.0, trust="peer")], "labels of peers"),
    ("command/auto", [("charges", [_PEERS]), ("expects", None), *_whole(1.0, trust="peer")], "peers without a law"),
    ("command/auto", [("table/columns/0/name", "level")], "a column with the name of the label"),
    ("command/auto", [("table/columns/0/name", " \uff2c\u00adEvel")], "the name of the label in other letters"),
    ("command/auto", _elsewhere(_MATRIX)[1:], "a matrix that nobody declared"),
    ("command/auto", _elsewhere(_MATRIX, 1.8), "a matrix without its slack"),
    ("command/auto", _elsewhere(_PAIRS), "two rows of a unit as single rows"),
    ("command/auto", [*_elsewhere(_MATRIX), ("charges/0/law/slack", str(1 << 62))], "more slack than weights"),
    ("command/auto", [*_elsewhere(_MATRIX), ("charges/0/law/weights/0/0", "1")], "weights that leave words over"),
)

#: Likewise, certificates that hold though a verifier may trip over them.
HONEST = (
    (
        "command/auto",
        [
            ("assumptions/0", f"{DECLARED}a survey\u202e of 2026"),
            ("guarantee/sentence", f"Declared by a survey\\u202e of 2026, not drawn here. {Guarantee(1.0).sentence()}"),
        ],
        "labels that were randomized elsewhere",
    ),
    ("command/auto", [("table/columns/0/name", "le vel")], "a column with nearly the name of the label"),
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


def of_file(name, computed):
    """The vectors of a file: those that are kept there, and then those whose values are computed."""
    own = {why for _, _, why in computed}
    kept = json.loads((HERE / name).read_text(encoding="utf-8"))
    yield from (each for each in kept if each["why"] not in own)
    for of, edits, why in computed:
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
        *(CoarseningChannel.at(5, 1.0, pack(np.array([firsts]) > 0)) for firsts in ([1, 0, 1, 0, 0], [1, 1, 0, 1, 0])),
    ]
    for channel in channels:
        law = law_of(channel)
        groups = {"groups": channel.groups()[0].tolist()} if channel.kind == "coarsening" else {}
        for code in range(min(channel.classes, 11)):
            for words in _words(channel, code):
                released = channel.draw(np.array([code], dtype=np.int32), np.array([words], dtype=np.uint64))[0]
                found = (
                    np.unpackbits(released, count=channel.classes, bitorder="little")
                    if channel.form == "set"
                    else released
                )
                numbers = {"code": code, "words": list(map(str, words)), "released": np.asarray(found).tolist()}
                yield {"law": law, **groups, **numbers}


def _words(channel, code):
    """Rows of words: the ends of the range, both sides of each limit of the law, and a few others."""
    law = law_of(channel)
    used = [law[name][channel.sizes[0]] for name in ("keep", "other")] if channel.kind == "coarsening" else law.values()
    limits = [int(value) for value in used if isinstance(value, str) and len(value) > 10]
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


FILES = {
    "certificates.json": certificates,
    "forged.json": lambda: of_file("forged.json", EDITS),
    "honest.json": lambda: of_file("honest.json", HONEST),
    "draws.json": draws,
}

if __name__ == "__main__":
    for name, made in FILES.items():
        (HERE / name).write_text(text(list(made())), encoding="utf-8")
