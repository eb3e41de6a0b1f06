"""Pages as one self-contained file: every text is escaped here, and nothing but our own script may run."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from labeldp._checks import printable
from labeldp._own_files import check_new_file, write_new_file
from labeldp._version import __version__
from labeldp.errors import OutputError
from labeldp.release.folder import is_release
from labeldp.render._drawings import drawn
from labeldp.results._blocks import Page, Part
from labeldp.results._charts import Chart

_ENDING = ".html"
#: The certificate of a release, and as older versions named it.
_CERTIFICATES = ("_certificate.json", "certificate.json")


def dossier(parts: list[Part]) -> Page:
    """A page of one part, or of several under one title."""
    if len(parts) == 1:
        return Page(tuple(parts))
    return Page(tuple(parts), f"Dossier of {len(parts)} parts")


def sourced(part: Part, path: Path, name: str) -> Part:
    """A part that names the folder or file that it was made from, and the day on which that was last changed (UTC)."""
    file = next((found for name in _CERTIFICATES if (found := path / name).is_file()), path)
    day = datetime.fromtimestamp(file.stat().st_mtime, tz=UTC).date()
    kind = "folder" if path.is_dir() else "file"
    return dataclasses.replace(part, source=f"{kind} {printable(name)}, of {day}")


def check_page(path: Path) -> Path:
    """Check that a page can be written to a path, before its contents are computed.

    Raises:
        OutputError: Its ending is another, it exists, its folder does not, or that is a release.
    """
    if path.suffix.lower() != _ENDING:
        raise OutputError(
            f"expected a page whose name ends in {_ENDING}, found {path.name}; write {path.stem}{_ENDING}"
        )
    check_new_file(path, "a page")
    if is_release(path.parent):
        raise OutputError(
            f"expected a page outside of release folders, found {path}: with a file that is not in its certificate, "
            f"that release would no longer verify; write it beside {path.absolute().parent.name}"
        )
    return path


def write_page(page: Page, path: Path) -> Path:
    """Write a page to a new file, which its owner alone may read if it is for the holder alone.

    Raises:
        OutputError: It cannot be written.
    """
    return write_new_file(check_page(path), html_of(page).encode("utf-8"), private=page.private)


def html_of(page: Page) -> str:
    """A page as HTML: the same bytes for the same page.

    Every text goes through ``printable`` and is escaped. The content policy allows this style sheet and this script by
    their hashes, and nothing else: no request, no image, no form, no other script.
    """
    style, script = _part("page.css"), _part("verifier.js") + _part("page.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    marked = {"style": Markup(style), "script": Markup(script)}  # noqa: S704 (our own)
    parts = {"page": page, **marked, "policy": policy, "drawn": _drawn, "version": __version__}
    return f"{_template().render(parts)}\n"


def _drawn(chart: Chart) -> Markup:
    """A chart as SVG, whose texts are escaped where it is drawn."""
    return Markup(drawn(chart))  # noqa: S704


def _template() -> Any:
    """The template of all pages."""
    from jinja2 import DictLoader, Environment, StrictUndefined  # noqa: PLC0415 (an extra)

    environment = Environment(
        loader=DictLoader({"page": _part("page.html.jinja")}),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page")


def _shown(value: object) -> object:
    """A text without letters that are invisible or change the direction of others; our own markup as it is."""
    if isinstance(value, Markup):
        return value
    return "\n".join(map(printable, value.split("\n"))) if isinstance(value, str) else value


def _part(name: str) -> str:
    """A file of the page."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The hash of a style sheet or a script, as a content policy has it."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
