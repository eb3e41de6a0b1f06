"""``python -m labeldp``, and the command ``labeldp``."""

from __future__ import annotations

import gc
import sys

#: New objects after which Python looks for garbage: modules that are loaded make many, all of which stay.
_OBJECTS = 10_000


def main() -> int:
    """Load the command line, and run a command."""
    gc.set_threshold(_OBJECTS)
    from labeldp.cli import main as run  # noqa: PLC0415 (with fewer looks for garbage)

    return run()


if __name__ == "__main__":
    sys.exit(main())
