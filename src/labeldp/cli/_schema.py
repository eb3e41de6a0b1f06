"""``labeldp schema``: the JSON Schema of what a command prints."""

from __future__ import annotations

import json

from labeldp import _checks, report
from labeldp.cli._terminal import show


def schema(command: str | None = None) -> None:
    """Print the JSON Schema of what a command prints with --json.

    Args:
        command ([COMMAND]): A command, such as release; without one, the commands that have a schema.
    """
    if command is None:
        show(*report.JSON_COMMANDS)
        return
    known = _checks.among(command, "a command with --json", report.JSON_COMMANDS)
    print(json.dumps(report.schema_of(known), indent=1))  # noqa: T201 (plain text, whatever the terminal)
