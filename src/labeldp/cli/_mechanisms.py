"""``labeldp mechanisms`` lists what is installed; ``labeldp schema`` describes what commands print, and files."""

from __future__ import annotations

import json

from labeldp import _checks, render, results
from labeldp import release as releases
from labeldp.cli._terminal import show

_AUTO = "auto"
_NOTES = (
    "'auto' takes one of these for the labels at hand. 'labeldp plan --detail' compares what they cost.",
    "With 'cluster', 'bins', 'optimal-counts' and the noisy answers you are a trusted curator: true labels are counted "
    "with noise, and labels or counts leave.",
    "'peer' simulates users who exchange labels inside clusters, and 'shuffle' a shuffler of the randomized labels of "
    "each cluster. Their guarantees do not hold against those who watch the exchange or the shuffling.",
    "'double' is for features that are private too and that disclose the label: it resamples the features of some "
    "rows. 'dummy' releases no features.",
)


def mechanisms() -> None:
    """List every installed mechanism: for classes, for numeric labels, and those of other packages."""
    known = [each for name, each in sorted(releases.table_mechanisms().items()) if name != _AUTO]
    titles = {False: "For classes (--classes)", True: "For numeric labels (--interval)"}
    rows = {kind: [(each.name, each.about) for each in known if each.numeric is kind] for kind in titles}
    grids = [results.Grid.of(titles[kind], ("--mechanism", "what it does"), rows[kind]) for kind in titles]
    part = results.Part("Mechanisms", "Mechanisms", sections=tuple(results.Section("", (grid,)) for grid in grids))
    show(*render.on_terminal(part), "", *_NOTES)


_FILES = ("certificate", "declaration")


def schema(command: str | None = None) -> None:
    """Print the JSON Schema of what a command prints with --json, of a certificate, or of a declaration.

    Args:
        command ([COMMAND]): A command, such as release, or 'certificate' or 'declaration'; without one, all that have a
            schema.
    """
    if command is None:
        show(*results.JSON_COMMANDS, *_FILES)
        return
    what = "a command with --json, certificate or declaration"
    name = _checks.among(command, what, [*results.JSON_COMMANDS, *_FILES])
    written = {"certificate": results.CERTIFICATE_SCHEMA, "declaration": results.DECLARATION_SCHEMA}
    print(json.dumps(written.get(name) or results.schema_of(name), indent=1))  # noqa: T201 (plain on any terminal)
