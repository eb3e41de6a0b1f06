"""``labeldp schema``: the JSON Schema of what a command prints, and of a certificate."""

from __future__ import annotations

import json

from labeldp import _checks, results
from labeldp.cli._terminal import show

_CERTIFICATE = "certificate"


def schema(command: str | None = None) -> None:
    """Print the JSON Schema of what a command prints with --json, or of a certificate.

    Args:
        command ([COMMAND]): A command, such as release, or 'certificate'; without one, all that have a schema.
    """
    if command is None:
        show(*results.JSON_COMMANDS, _CERTIFICATE)
        return
    known = _checks.among(command, "a command with --json, or certificate", [*results.JSON_COMMANDS, _CERTIFICATE])
    found = results.CERTIFICATE_SCHEMA if known == _CERTIFICATE else results.schema_of(known)
    print(json.dumps(found, indent=1))  # noqa: T201 (plain text, whatever the terminal)
