"""``labeldp report`` makes one page to hand over; ``labeldp card`` describes a release folder as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import labeldp.release.ledger as ledgers
from labeldp import release, render, results
from labeldp._extras import require_extra
from labeldp.cli._command import Place, ReleaseFolder
from labeldp.cli._ledger import ledger_of
from labeldp.cli._terminal import show
from labeldp.errors import InputError, OutputError
from labeldp.release import folder

if TYPE_CHECKING:
    from labeldp.results import Part


_SAVED = ".json"


def report(
    paths: list[ReleaseFolder],
    *,
    output: Path,
    recipient: str | None = None,
    purpose: str | None = None,
    public_key: Path | None = None,
    long: bool = False,
) -> None:
    """Write one page of releases, ledgers and saved results: a self-contained HTML file to hand over, read or print.

    Each release is verified first. Exit code 0 if all hold, 1 if one does not: then the page says so, and repeats
    nothing that it states. Results that depend on true labels make a page for the holder alone.

    Args:
        paths (PATH...): Folders of releases, ledgers or the tables that they are beside, and results of plan, learn,
            evaluate, effect, coefficients, audit or check that were saved with --json; several make a dossier. A
            release may be an address, such as s3://bucket/shared.
        output (FILE): The new page: .html; .holder.html for a page that depends on true labels.
        recipient: To whom the page is handed over; it gets places for signatures.
        purpose: What the data are handed over for.
        public_key: The public key of whoever should have signed the releases, from 'labeldp key'.
        long: Allow recomputations that take longer than ten seconds.
    """
    require_extra("report", "jinja2")
    render.check_page(output)
    _check_paths(paths)
    named = dict[Path, str](zip(paths, _names(paths), strict=True))
    verdicts = {
        path: folder.verify(path, public_key=public_key, long=long) for path in named if ledger_of(path).is_dir()
    }
    parts = [_part(path, name, verdicts.get(path)) for path, name in named.items()]
    counted = [path for path in named if path.suffix != _SAVED or path in verdicts]
    if verdicts and len(counted) > 1 and all(part.holds for part in parts):
        verified = {path: verdict.certificate for path, verdict in verdicts.items() if verdict.certificate is not None}
        combined = release.combined_guarantee(list(map(ledger_of, counted)), long=long, verified=verified)
        parts.append(results.account_part(combined, [named[path] for path in counted]))
    handed = {"recipient": recipient, "purpose": purpose}
    page = replace(render.dossier(parts), handed=tuple((name, text) for name, text in handed.items() if text))
    if page.private and not output.name.endswith(results.HOLDER_ENDING):
        name = f"{output.stem}{results.HOLDER_ENDING}"
        raise OutputError(
            f"expected a page for the holder alone, since a result depends on true labels, found {output.name}; write "
            f"{name}, and share it with nobody"
        )
    render.write_page(page, output)
    show(f"Wrote {output}." + (" It is for the holder alone." if page.private else ""))
    if not page.holds:
        show("Not verified: the page says which release must not be relied on.")
        raise typer.Exit(1)


def _check_paths(paths: Sequence[Path]) -> None:
    """Refuse a path that no page is made of, before anything is computed."""
    for path in paths:
        found = ledger_of(path)
        if found.is_file() and (found.suffix == _SAVED or ledgers.is_ledger(found)):
            continue
        if not folder.is_release(path):
            what = "another file" if path.is_file() else "another folder" if path.is_dir() else "nothing"
            raise InputError(
                f"expected the folder of a release, a ledger, or a result saved with --json at {path}, found {what}"
                f"{'' if path.is_file() else folder.or_beside(path)}"
            )


def _part(path: Path, name: str, verdict: folder.Verdict | None) -> Part:
    """The part of a page for one path, by its name; that of a release has a verdict."""
    ledger = ledger_of(path)
    if verdict is not None:
        return render.sourced(results.release_part(path, verdict, datetime.now(UTC)), path, name)
    if path.suffix == _SAVED:
        return render.sourced(results.result_part(path), path, name)
    entries = ledgers.Ledger(ledger, team=True).entries()
    shown = ledger.name if name == path.name else f"{name}: {ledger.name}"
    return render.sourced(
        results.ledger_part(ledger.name, entries, ledgers.spent_by_data(entries), shared=True), ledger, shown
    )


def _names(paths: Sequence[Path]) -> list[str]:
    """Names of paths: the last of their parts, or as many of the last ones as tell them apart."""
    whole = [path.resolve().parts for path in paths]
    for count in range(1, max(map(len, whole)) + 1):
        names = ["/".join(parts[-count:]) for parts in whole]
        if len(set(names)) == len(set(whole)):
            break
    return names


def card(directory: Place, *, license: str | None = None, name: str | None = None) -> None:  # noqa: A002 (an option)
    """Write a data card (README.md) and Croissant metadata (croissant.json) into the folder of a release.

    Both follow from the certificate, and 'labeldp verify' compares them with it.

    Args:
        directory (DIR): A folder of released labels: a path, or an address such as s3://bucket/shared.
        license (ID): A license that you declare, by its identifier, such as cc-by-4.0.
        name (TEXT): A name of the data set for people, which you declare.
    """
    declared = folder.Declared(license and license.lower(), name) if license or name else None
    with folder.local_copy(directory) as copy:
        for file in folder.write_card(copy, folder.certified(copy), declared):
            show(f"{folder.add_file(directory, file)}: follows from the certificate")
    show(
        "Name the files from now on where a tool reads a folder: pandas.read_parquet of the folder takes README.md for "
        "a table (docs/guide/data-sets.md)."
    )
