"""``labeldp schema``: the JSON Schema of what a command prints, of a certificate, and of a declaration."""

from __future__ import annotations

import json

from labeldp import _checks, results
from labeldp.cli._terminal import show

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
