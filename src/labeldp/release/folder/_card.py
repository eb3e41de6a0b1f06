"""Files that make a release folder a data set: a data card and Croissant metadata, which follow from the certificate.

Their bytes are a promise, as a certificate is: ``verify`` makes them again and compares. What they say changes under
another version alone, and the former version stays.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from labeldp._checks import printable
from labeldp._new_files import write_new_file
from labeldp.errors import InputError, OutputError
from labeldp.privacy import Classes, shown_above
from labeldp.release.folder._certificate import Certificate
from labeldp.release.folder._columns import CODES
from labeldp.release.folder._limits import opened
from labeldp.release.folder._read import added_columns, released_columns
from labeldp.release.folder._staging import CERTIFICATE

#: The vocabulary of a guarantee, whose terms ``docs/vocabulary.md`` defines.
VOCABULARY = "urn:labeldp:vocabulary:1:"

_CONFORMS = ("http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0")
_SPECIAL = frozenset("\\`*_{}[]<>()#|!&~$")
#: What GitHub's dialect of Markdown makes a link of, to the next blank; a bar would end the cell of a table.
_ADDRESS = re.compile(r"([^\s|]*(?:://|www\.|[-.\w+]@[-\w])[^\s|]*)", re.IGNORECASE)
_MOST_CLASSES = 100
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
_TRUST = {
    "local": "each label was randomized alone",
    "central": "a trusted curator answered from all labels together",
    "peer": "peers exchanged their labels",
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


def _plain(text: str) -> str:
    """A text that Markdown shows as it is; what GitHub's dialect would take for an address is in a code span."""
    parts = _ADDRESS.split(printable(text))  # every second one is an address
    return "".join(_code(part) if i % 2 else _escaped(part) for i, part in enumerate(parts))


def _escaped(text: str) -> str:
    """A text that Markdown shows as it is, with backslashes; until version 0.1 also addresses, which became links."""
    return "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in printable(text))


def _code(text: str) -> str:
    """A text in a code span, between more backticks than it has in a row."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def data_card(certificate: Certificate, plain: Callable[[str], str] = _plain) -> str:
    """The data card of a release, in Markdown: what it is, its guarantee and its columns.

    Args:
        certificate: The certificate.
        plain: A function that writes a text so that Markdown shows it as it is.
    """
    lines = [
        "---",
        "configs:",
        "- config_name: default",
        '  data_files: "*.parquet"',
        "tags:",
        "- label-differential-privacy",
        "---",
        "",
        f"# {plain(_title(certificate))}",
        "",
        f"{certificate.rows:,} rows.",
        "",
        *(plain(line) for line in certificate.sentence.split("\n")),
        "",
        plain(certificate.meaning),
        "",
        "| column | type | what it is |",
        "| --- | --- | --- |",
        *(f"| {plain(name)} | {plain(kind)} | {plain(what)} |" for name, kind, what in _columns(certificate)),
        "",
        "Declared, and not checked:",
        "",
        *(f"- {plain(each)}" for each in certificate.assumptions),
        "",
        "No certificate can show:",
        "",
        *(f"- {plain(each)}" for each in certificate.unknown),
        "",
        f"`{CERTIFICATE}` states all of this for programs, and `labeldp verify` recomputes it, with this card.",
    ]
    return "\n".join(lines) + "\n"


def croissant(certificate: Certificate) -> str:
    """Croissant metadata of a release, as JSON-LD: its files, its columns, its guarantee and its limits."""
    promise = certificate.guarantee
    body = {
        "@context": dict(_CONTEXT),
        "@type": "sc:Dataset",
        "name": _title(certificate),
        "description": f"{certificate.rows:,} rows. {certificate.sentence} {certificate.meaning}".strip(),
        "conformsTo": list(_CONFORMS),
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


#: Files that may lie in a release folder, and what makes them from the certificate.
DERIVED: Mapping[str, Callable[[Certificate], str]] = MappingProxyType(
    {"README.md": data_card, "croissant.json": croissant}
)
#: Their former versions, in which they still verify.
_FORMER: Mapping[str, tuple[Callable[[Certificate], str], ...]] = MappingProxyType(
    {"README.md": (partial(data_card, plain=_escaped),)}
)


def write_card(folder: Path, certificate: Certificate) -> list[Path]:
    """Write the derived files of a verified release into its folder; those that are there already are left.

    Raises:
        InputError: It is an answer, which is no table of rows to learn from.
        OutputError: A file of the name has other contents, or cannot be written.
    """
    if certificate.of_answer:
        raise InputError("expected released labels, found an answer; a card is for a data set to learn from")
    written = []
    for name in DERIVED:
        path = folder / name
        if not os.path.lexists(path):
            write_new_file(path, DERIVED[name](certificate).encode(), private=False)
        elif not is_derived(folder, name, certificate):
            raise OutputError(f"expected no other {name} in {folder}, found one; move it away")
        written.append(path)
    return written


def is_derived(folder: Path, name: str, certificate: Certificate) -> bool:
    """True for a file that is what follows from the certificate, byte for byte."""
    if name not in DERIVED or certificate.of_answer:
        return False
    forms = [made(certificate).encode("utf-8") for made in (DERIVED[name], *_FORMER.get(name, ()))]
    try:
        with opened(folder / name) as file:
            return file.read(max(map(len, forms)) + 1) in forms
    except OSError:
        return False


def _title(certificate: Certificate) -> str:
    return f"Table with the label {certificate.label}, released with label differential privacy"


def _protocol(certificate: Certificate) -> str:
    """The protocol of the release, in sentences."""
    return f"{_TRUST[certificate.guarantee.trust]}; {certificate.channel.detail}"


def _columns(certificate: Certificate) -> list[tuple[str, str, str]]:
    """Name, type and meaning of each column."""
    added = dict.fromkeys(added_columns(certificate), "public: how the label of the row was drawn")
    space, values = certificate.space, ""
    if isinstance(space, Classes):
        more = f" and {space.size - _MOST_CLASSES:,} more" if space.size > _MOST_CLASSES else ""
        values = f", one of {space.size:,} classes: {', '.join(map(str, space.points[:_MOST_CLASSES]))}{more}"
    added[released_columns(certificate)[CODES]] = f"the released label, from {certificate.draws[-1].mechanism}{values}"
    return [(name, kind, added.get(name, "public")) for name, kind in certificate.columns]


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
    columns = _columns(certificate)
    known = [column if _NAME.fullmatch(column) else f"column-{place}" for place, (column, _, _) in enumerate(columns)]
    fields = [_field(f"{name}/{each}", file, *column) for each, column in zip(known, columns, strict=True)]
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "description": f"Rows of {file}", "field": fields}


def _field(identifier: str, file: str, name: str, kind: str, what: str) -> dict[str, Any]:
    """A column of a file; of lists, that its values repeat."""
    inner = kind[kind.find(": ") + 2 :] if kind.startswith(("list", "large_list")) else kind
    field = {
        "@type": "cr:Field",
        "@id": identifier,
        "name": name,
        "description": what,
        "dataType": next((data for begins, data in _TYPES if inner.startswith(begins)), "sc:Text"),
        "source": {"fileObject": {"@id": f"file/{file}"}, "extract": {"column": name}},
    }
    return field if inner == kind else {**field, "isArray": True, "arrayShape": "-1"}
