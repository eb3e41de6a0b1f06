"""``labeldp key``: make a key pair for signing releases."""

from __future__ import annotations

from pathlib import Path

from labeldp.cli._terminal import show
from labeldp.release import folder


def key(output: Path) -> None:
    """Make a key pair: sign releases with the private key, and give the public key to those who verify them.

    Args:
        output (FILE): A new file for the private key; the public key is written to FILE.pub.
    """
    private, public = folder.make_key(output)
    show(
        f"Wrote the private key to {private}, and the public key to {public}.",
        f"Sign with 'labeldp release ... --sign {private}', and keep that file to yourself.",
        f"Verify with 'labeldp verify DIR --public-key {public}'.",
    )
