"""Croissant metadata of a release, which follow from its certificate."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from labeldp.privacy import shown_above
from labeldp.release.folder._certificate import Certificate
from labeldp.release.folder._description import Declared, described_columns, title
from labeldp.release.folder._staging import CERTIFICATE

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
    """Croissant metadata of a release, as JSON-LD: its files, its columns, its guarantee and its limits.

    Args:
        certificate: The certificate.
        declared: The declarations of the publisher.
    """
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
