"""``labeldp key``: make a key pair for signing releases."""

from __future__ import annotations

from pathlib import Path

from labeldp import results
from labeldp.cli._terminal import result
from labeldp.release import folder


def key(output: Path, *, json_: bool = False) -> None:
    """Make a key pair: sign releases with the private key, and give the public key to those who verify them.

    Args:
        output (FILE): A new file for the private key; the public key is written to FILE.pub.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    private, public = folder.make_key(output)
    text = (
        f"Wrote the private key to {private}, and the public key to {public}.",
        f"Sign with 'labeldp release ... --sign {private}', and keep that file to yourself.",
        f"Verify with 'labeldp verify DIR --public-key {public}'.",
    )
    part = results.Part("A key pair", text[0], lead=text)
    result(json_, lambda: results.KeyPair(str(private), str(public)), lambda: part)
