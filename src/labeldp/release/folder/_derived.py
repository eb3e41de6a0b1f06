"""Files in a release folder that follow from its certificate, and from what they declare: data card and Croissant.

Their bytes are a promise, as a certificate is: ``verify`` makes them again and compares.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from labeldp._checks import printable
from labeldp._own_files import write_new_file
from labeldp.errors import InputError, OutputError
from labeldp.privacy import Classes, shown_above
from labeldp.privacy.channels import ClassChannel, GroupedChannel
from labeldp.release.folder._certificate import Certificate
from labeldp.release.folder._columns import released_columns
from labeldp.release.folder._description import Declared, cautions, described_columns, python, title
from labeldp.release.folder._limits import opened
from labeldp.release.folder._staging import CERTIFICATE, SIGNATURE, is_signed

#: The vocabulary of a guarantee, whose terms ``docs/vocabulary.md`` defines.
VOCABULARY = "urn:labeldp:vocabulary:1:"

_CONFORMS = ("http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0")
#: Names of columns that are identifiers in metadata.
_NAME = re.compile(r"(?!column-)[A-Za-z0-9_.-]+")
#: Beginnings of Arrow types, and the data types of schema.org.
_TYPES = (
    ("bool", "sc:Boolean"),
    (("int", "uint"), "sc:Integer"),
    (("float", "double", "halffloat", "decimal"), "sc:Float"),
    ("date", "sc:Date"),
    ("timestamp", "sc:DateTime"),
)
#: Beginnings of the types of lists.
_LISTS = ("list", "large_list", "fixed_size_list")
#: Beginnings of types that readers of Croissant cannot convert, alone or in a list.
_UNREAD = ("time32", "time64", "duration", "struct", "map", *_LISTS)
_TRUST = {
    "local": "each label was randomized alone",
    "central": "a trusted curator answered from all labels together",
    "peer": "peers exchanged their labels",
    "shuffle": "each label was randomized alone, and those of each public cell were shuffled",
}
#: The terms of Croissant 1.1, in the order in which its specification prints their context.
_TERMS = (
    "@language @vocab citeAs column conformsTo containedIn cr data dataType dct equivalentProperty examples "
    "extract field fileObject fileProperty fileSet format includes isArray arrayShape isLiveDataset jsonPath key "
    "labeldp md5 parentField path rai recordSet references regex repeated replace samplingRate sc separator "
    "source subField transform"
)
#: Terms that are not of the namespace ``cr`` under their own name; ``labeldp`` is the vocabulary of a guarantee.
_OTHER_TERMS: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "labeldp": VOCABULARY,
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}
_CONTEXT: Mapping[str, Any] = {term: _OTHER_TERMS.get(term, f"cr:{term}") for term in _TERMS.split()}


def croissant(certificate: Certificate, declared: Declared) -> str:
    """Croissant metadata of a release, as JSON-LD: its files, its columns, its guarantee and its limits."""
    promise = certificate.guarantee
    body = {
        "@context": dict(_CONTEXT),
        "@type": "sc:Dataset",
        "name": title(certificate),
        "description": f"{certificate.rows:,} rows. {certificate.sentence} {certificate.meaning}".strip(),
        "conformsTo": list(_CONFORMS),
        **({} if declared.license is None else {"license": declared.license}),
        "version": "1.0.0",
        "isLiveDataset": False,
        "distribution": [_file(file.name, file.sha256) for file in certificate.files],
        "recordSet": [_records(certificate, i, file.name) for i, file in enumerate(certificate.files)],
        "rai:personalSensitiveInformation": certificate.sentence,
        "rai:dataManipulationProtocol": f"{certificate.draws[-1].mechanism}: {_protocol(certificate)}",
        "rai:dataLimitations": [*certificate.unknown],
        "labeldp:guarantee": {
            "@type": "labeldp:Guarantee",
            "labeldp:epsilon": shown_above(promise.epsilon, 17),
            "labeldp:delta": shown_above(promise.delta, 17),
            "labeldp:privacyUnit": promise.unit,
            "labeldp:trust": promise.trust,
            "labeldp:protects": certificate.label,
            "labeldp:mechanism": [draw.mechanism for draw in certificate.draws],
            "labeldp:statement": certificate.sentence,
            "labeldp:assumption": list(certificate.assumptions),
            "labeldp:certificate": CERTIFICATE,
        },
    }
    return json.dumps(body, indent=1, ensure_ascii=True) + "\n"


def _protocol(certificate: Certificate) -> str:
    """The protocol of the release, in sentences."""
    return f"{_TRUST[certificate.guarantee.trust]}; {certificate.channel.detail}"


def _file(name: str, sha256: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": f"file/{name}",
        "name": name,
        "contentUrl": quote(name),
        "encodingFormat": "application/x-parquet",
        "sha256": sha256,
    }


def _records(certificate: Certificate, number: int, file: str) -> dict[str, Any]:
    """The rows of a file; columns of plain names are known by them, others by their place."""
    name = "rows" if len(certificate.files) == 1 else f"rows-{number}"
    fields, left = [], []
    for place, column in enumerate(described_columns(certificate)):
        known = column[0] if _NAME.fullmatch(column[0]) else f"column-{place}"
        element = _element(column[1])
        if element.startswith(_UNREAD):
            left.append(f"{column[0]} ({column[1]})")
        else:
            fields.append(_field(f"{name}/{known}", file, column, element))
    more = f", without {', '.join(left)}: Croissant has no such types" if left else ""
    description = f"Rows of {file}{more}"
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "description": description, "field": fields}


def _element(kind: str) -> str:
    """The type of the elements of a list, or that of other columns."""
    return kind[kind.find(": ") + 2 :] if kind.startswith(_LISTS) else kind


def _field(identifier: str, file: str, column: tuple[str, str, str], element: str) -> dict[str, Any]:
    """A column of a file; of lists, that its values repeat."""
    name, kind, what = column
    field = {
        "@type": "cr:Field",
        "@id": identifier,
        "name": name,
        "description": what,
        "dataType": next((data for begins, data in _TYPES if element.startswith(begins)), "sc:Text"),
        "source": {"fileObject": {"@id": f"file/{file}"}, "extract": {"column": name}},
    }
    return field if element == kind else {**field, "isArray": True, "arrayShape": "-1"}


_SPECIAL = frozenset("\\`*_{}[]<>()#|!&~$")
#: What GitHub's dialect of Markdown makes a link of, to the next blank; a bar would end the cell of a table.
_ADDRESS = re.compile(r"([^\s|]*(?:://|www\.|[-.\w+]@[-\w])[^\s|]*)", re.IGNORECASE)
_ROW = "row"
#: The most classes whose transition matrix is shown, and the most groups of rows.
_MOST_OF_MATRIX, _MOST_OF_GROUPS = 10, 40
#: The names for numbers of rows, of the hub, and the numbers below which they hold.
_SIZES = {
    "n<1K": 10**3,
    "1K<n<10K": 10**4,
    "10K<n<100K": 10**5,
    "100K<n<1M": 10**6,
    "1M<n<10M": 10**7,
    "10M<n<100M": 10**8,
    "100M<n<1B": 10**9,
    "1B<n<10B": 10**10,
    "10B<n<100B": 10**11,
    "100B<n<1T": 10**12,
}


def plain_text(text: str) -> str:
    """A text that Markdown shows as it is; what GitHub's dialect would take for an address is in a code span."""
    parts = _ADDRESS.split(printable(text))  # every second one is an address
    return "".join(_code(part) if i % 2 else escaped(part) for i, part in enumerate(parts))


def escaped(text: str) -> str:
    """A text that Markdown shows as it is, with backslashes; but for addresses."""
    return "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in printable(text))


def _code(text: str) -> str:
    """A text in a code span, between more backticks than it has in a row."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def data_card(
    certificate: Certificate, declared: Declared, *, signed: bool, warning: str, by_group: bool = True
) -> str:
    """The data card of a release, in Markdown: what it is, how to use it, its guarantee and its columns.

    Args:
        certificate: The certificate.
        declared: The declarations of the publisher.
        signed: True if the folder was signed when the card was written.
        warning: The sentences on how often released labels are wrong.
        by_group: Show the probabilities of each group of rows, which earlier cards left to the package.
    """
    lines = [
        "---",
        *(f"{key}: {declared.shown(name)}" for key, name in _DECLARED.items() if declared.shown(name)),
        "size_categories:",
        f"- {next((name for name, rows in _SIZES.items() if certificate.rows < rows), 'n>1T')}",
        "task_categories:",
        f"- tabular-{'classification' if isinstance(certificate.space, Classes) else 'regression'}",
        "tags:",
        "- label-differential-privacy",
        *_CONFIGURATION,
        "---",
        "",
        f"# {plain_text(title(certificate))}",
        "",
        f"**{plain_text(warning)}**",
        "",
        *_promise(certificate),
        "",
        "## Learn from it",
        "",
        "```python",
        *python(certificate),
        "```",
        "",
        "Write the path of this folder in place of `shared`. A learner takes the released labels through the "
        "probabilities below, and predicts true ones.",
        "",
        "## Released labels given true ones",
        "",
        *_transitions(certificate, by_group=by_group),
        "",
        "## Columns",
        "",
        *_grid(("column", "type", "what it is"), (map(plain_text, row) for row in described_columns(certificate))),
        "",
        "## Verify it",
        "",
        f"`labeldp verify shared` recomputes the guarantee from `{CERTIFICATE}`, and compares this card with it.",
        _SIGNED if signed else _NOT_SIGNED,
        "",
        *_limits(certificate, declared),
    ]
    return "\n".join(lines) + "\n"


#: Keys of the hub, and the declarations that are their values.
_DECLARED = {"license": "license", "pretty_name": "name"}
_CONFIGURATION = ("configs:", "- config_name: default", '  data_files: "*.parquet"')
_SIGNED = (
    f"When this card was written, the folder was signed: `{SIGNATURE}`. With `--public-key`, and the public key of "
    "whoever made it, that is checked too."
)
_NOT_SIGNED = "When this card was written, the folder was not signed: nothing shows who made it."


def _promise(certificate: Certificate) -> list[str]:
    """The number of rows, the guarantee, and its meaning."""
    sentences = map(plain_text, certificate.sentence.split("\n"))
    return [f"{certificate.rows:,} rows.", "", *sentences, "", plain_text(certificate.meaning)]


def _limits(certificate: Certificate, declared: Declared) -> list[str]:
    """Declared assumptions, and statements that no certificate can show."""
    own = [f"{key} {value}, by whoever wrote this card" for key, value in vars(declared).items() if value is not None]
    return [
        "Declared, and not checked:",
        "",
        *(f"- {plain_text(each)}" for each in (*certificate.assumptions, *own)),
        "",
        "No certificate can show:",
        "",
        *(f"- {plain_text(each)}" for each in certificate.unknown),
    ]


def _transitions(certificate: Certificate, *, by_group: bool) -> list[str]:
    """The transition matrix, of few classes; else the probabilities that it consists of."""
    channel, space = certificate.channel, certificate.space
    if by_group and isinstance(channel, GroupedChannel) and channel.even:
        return _of_groups(certificate, channel)
    if not isinstance(channel, ClassChannel):
        return [f"{plain_text(channel.detail).capitalize()}; `{CERTIFICATE}` has their probabilities."]
    if certificate.law["by_row"]:
        return [f"{plain_text(channel.detail).capitalize()}; `release.likelihood()` has the probabilities of each row."]
    if channel.form != "class" or space.size > _MOST_OF_MATRIX:
        chance, noun = channel.membership, "class" if isinstance(space, Classes) else "number"
        return [
            f"The true {noun} is released, or in the released set, with probability {float(chance.true):.6f}, and each "
            f"other {noun} with probability {float(chance.other):.6f}."
        ]
    table, names = channel.table(), [plain_text(str(value)) for value in space.points]
    rows = [(name, *(f"{p:.6f}" for p in chances)) for name, chances in zip(names, table.matrix, strict=True)]
    return _grid(("true class", *(names[int(code)] for code in table.outcomes)), rows)


def _of_groups(certificate: Certificate, channel: GroupedChannel) -> list[str]:
    """The probabilities of each group of rows, by its number in the column that tells the groups."""
    column, unit = released_columns(certificate)["groups"], certificate.guarantee.unit
    noun = "class" if isinstance(certificate.space, Classes) else "number"
    what = "is released" if channel.form == "class" else "is in the released set"
    head = (column, f"rows of one {unit}", f"the true {noun} {what}", f"each other {noun}")
    rows = [
        (f"{at}", f"{count:,}", f"{float(chance.true):.6f}", f"{float(chance.other):.6f}")
        for at, (count, chance) in enumerate(
            zip(channel.repeats, (each.membership for each in channel.channels), strict=True)
        )
    ]
    why = f"Rows of one {unit} share one epsilon: t" if unit != _ROW else "T"
    more = f"`{CERTIFICATE}` has {len(rows) - _MOST_OF_GROUPS:,} more, in the order of these numbers."
    return [
        plain_text(f"{why}he number in {column} decides the probabilities of a row."),
        "",
        *_grid(tuple(map(plain_text, head)), rows[:_MOST_OF_GROUPS]),
        *(["", more] if len(rows) > _MOST_OF_GROUPS else []),
    ]


def _grid(head: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A table in Markdown."""
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]


#: The most bytes of declarations in a derived file.
_MOST_DECLARED = 1 << 13


def _cards(certificate: Certificate, declared: Declared, signed: bool) -> list[str]:
    """The forms of a data card: a card stays when the folder is signed after it, and where it said less once."""
    forms = (
        data_card(certificate, declared, signed=each, warning=text, by_group=by_group)
        for by_group in (True, False)
        for text in cautions(certificate)
        for each in (True, False)[not signed :]
    )
    return list(dict.fromkeys(forms))


def _metadata(certificate: Certificate, declared: Declared, _: bool) -> list[str]:
    """The forms of Croissant metadata."""
    return [croissant(certificate, declared)]


#: Files that may lie in a release folder, and the forms in which they verify, of which the first is written.
DERIVED: Mapping[str, Callable[[Certificate, Declared, bool], list[str]]] = MappingProxyType(
    {"README.md": _cards, "croissant.json": _metadata}
)


def write_card(folder: Path, certificate: Certificate, declared: Declared | None = None) -> list[Path]:
    """Write the derived files of a verified release into its folder; those that are there already are left.

    Raises:
        InputError: It is an answer, which is no table of rows to learn from.
        OutputError: A file of the name has other contents or declarations, or cannot be written.
    """
    if certificate.of_answer:
        raise InputError("expected released labels, found an answer; a card is for a data set to learn from")
    written, new = [], declared or Declared()
    for name, forms in DERIVED.items():
        path = folder / name
        if not os.path.lexists(path):
            write_new_file(path, forms(certificate, new, is_signed(folder))[0].encode(), private=False)
        elif not is_derived(folder, name, certificate, declared):
            raise OutputError(
                f"expected no other {name} in {folder}, found one with other contents, license or name; move it away"
            )
        written.append(path)
    return written


def is_derived(folder: Path, name: str, certificate: Certificate, declared: Declared | None = None) -> bool:
    """True for a file that follows from the certificate, byte for byte, and from its own or the given declarations."""
    if name not in DERIVED or certificate.of_answer:
        return False
    try:
        with opened(folder / name) as file:
            content = file.read(_most_bytes(name, certificate) + 1)
        own = declared or Declared.read(content.decode("utf-8"))
    except (OSError, UnicodeError, InputError):
        return False
    return content in [form.encode() for form in DERIVED[name](certificate, own, is_signed(folder))]


def _most_bytes(name: str, certificate: Certificate) -> int:
    """The most bytes of a derived file."""
    return _MOST_DECLARED + max(len(form.encode()) for form in DERIVED[name](certificate, Declared(), True))
