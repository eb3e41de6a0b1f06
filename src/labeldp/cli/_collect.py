"""``labeldp collect``: take reports of devices, and release them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from labeldp import results
from labeldp.cli._options import SpendingOptions
from labeldp.cli._terminal import notes_on_terminal, progress, result
from labeldp.errors import InputError
from labeldp.release import collection, folder, jobs, released

_TOGETHER = 1000
_PORTS = 1 << 16


def collect(
    box: Path,
    *,
    declaration: Path | None = None,
    columns: str = "",
    source: Path | None = None,
    listen: str | None = None,
    origin: list[str] | None = None,
    most_per_second: float = 1000.0,
    close: Path | None = None,
    unit: str | None = None,
    spending: SpendingOptions,
    sign: Path | None = None,
) -> None:
    """Collect reports that devices randomized, each device's once, and release them.

    A report is JSON: the name of the declaration, the device's random token, the report, and public columns; js/ makes
    them. Who sent a report is not stored. Nobody but the person ever has the true label.

    Args:
        box (FILE): The private file of the collection, which only grows; it is made with --declaration.
        declaration (FILE): The file of 'labeldp declare', to begin a collection.
        columns (LIST): The public columns that come with each report, such as age:number,region:text,member:bool.
        source (PATH): Take reports from a file of JSON lines, or from a folder of some.
        listen (HOST:PORT): Take reports by HTTP, such as 127.0.0.1:8080, until stopped. Put a proxy with TLS in front.
        origin (URL): A web origin whose pages may send reports, such as https://survey.example; repeat it for more.
        most_per_second: The most reports that are taken in a second over HTTP.
        close (FOLDER): Take no more reports, and write the release with its certificate to a new folder.
        unit (COLUMN): With --close: the public column of people with several reports, whose epsilons add up.
        spending: With --close: the ledger to charge, which knows people by public columns, and its budget.
        sign (FILE): The private key to sign the release with, from 'labeldp key'.
    """
    if sum(each is not None for each in (source, listen, close)) > 1:
        raise InputError("--source, --listen and --close are done one after the other; pass one of them")
    if close is None and (sign is not None or unit is not None or spending != SpendingOptions()):
        raise InputError("--sign, --unit, --ledger and its options are about the release of --close; pass it with them")
    charge = spending.arguments()
    if charge["ledger"] is None and spending != SpendingOptions():
        raise InputError("a budget and other people are those of a ledger; name it with --ledger or --team-ledger")
    signer = None if sign is None else folder.private_key(sign)
    host, port = ("", 0) if listen is None else _address(listen)
    reports = _opened(box, declaration, columns)
    if source is not None:
        _show(f"Took reports from {source}.", reports, _taken(reports, source))
    elif listen is not None:
        endpoint = collection.Endpoint(reports, origin or (), most_per_second)
        _show(f"Collecting at http://{host}:{port}/ until stopped.", reports, Counter())
        collection.serve(endpoint, host, port)
    elif close is None:
        _show(f"A collection of {reports.declaration.label!r}.", reports, Counter())
    else:
        made = jobs.release_reports(reports, close, unit=unit, **charge)
        if signer is not None and not folder.is_signed_with(close, signer):  # by a close that was interrupted
            folder.sign(close, signer, made.certificate)
        rows = made.certificate.rows if isinstance(made, jobs.TableRelease) else len(made)
        _show(f"Released {rows:,} reports into {close}.", reports, Counter(), made)
        notes_on_terminal(made.notes if isinstance(made, jobs.TableRelease) else ())


def _opened(box: Path, declaration: Path | None, columns: str) -> collection.Collection:
    """The collection, which begins with a declaration.

    Raises:
        InputError: Columns were named for one that has begun.
    """
    if declaration is not None:
        how = released.Declaration.read(declaration)
        return collection.Collection.begin(box, how, collection.columns_of(columns))
    if columns:
        raise InputError("--columns are named once, where the collection begins with --declaration; leave it out")
    return collection.Collection(box)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < _PORTS:
        raise InputError(f"expected HOST:PORT to listen at, such as 127.0.0.1:8080, found {text!r:.100}")
    return host.strip("[]"), int(port)


def _taken(reports: collection.Collection, source: Path) -> Counter[str]:
    """Keep the reports of files, and count what became of their lines."""
    counts: Counter[str] = Counter()

    def read() -> Iterator[collection.Report]:
        for line in collection.lines_of(source):
            try:
                yield collection.read_report(line, reports.declaration, reports.columns)
            except InputError as problem:
                counts[f"refused: {problem}"] += 1

    with progress():
        lines = read()
        while batch := list(islice(lines, _TOGETHER)):
            counts.update(reports.add(batch))
    return counts


_WORDS = {
    "kept": "new",
    "known": "kept before",
    "another": "refused: another report of a token that has one",
}


def _show(
    head: str,
    reports: collection.Collection,
    counts: Counter[str],
    release: released.Release | jobs.TableRelease | None = None,
) -> None:
    """Print what happened, what is kept, who sees what, and what a ledger was charged."""
    terms = [("reports", f"{len(reports):,}{', closed' if reports.is_closed else ''}")]
    terms += [(_WORDS.get(name, name), f"{count:,}") for name, count in sorted(counts.items())]
    terms += [("trust", "nobody: answers are randomized on the device, and true ones never leave it")]
    terms += results.release_terms(release)[1].rows if isinstance(release, jobs.TableRelease) else ()
    if release is not None and release.certificate is not None:
        terms.append(("guarantee", release.certificate.sentence))
    section = results.Section("", (results.Terms(tuple(terms)),))
    result(False, lambda: None, lambda: results.Part("A collection", head, lead=(head,), sections=(section,)))
