"""``labeldp verify`` checks a release and its guarantee; ``labeldp key`` makes keys for signing releases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from labeldp import results
from labeldp.cli._command import ReleaseFolder
from labeldp.cli._terminal import as_typed, progress, result
from labeldp.errors import InputError
from labeldp.release import engines, folder


def verify(
    directory: ReleaseFolder,
    *,
    public_key: Path | None = None,
    long: bool = False,
    engine: str | None = None,
    json_: bool = False,
) -> None:
    """Check that the files, the mechanism and the guarantee of a release agree; exit code 0 if they do, 1 if not.

    Args:
        directory (DIR): A release folder: a path, or an address such as s3://bucket/shared.
        public_key: The public key of whoever should have signed it, from 'labeldp key'.
        long: Allow recomputations that take longer than ten seconds.
        engine: Workers for the files of a large release, as for 'labeldp release'. Default: this process alone.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    if not directory.is_dir():
        if directory.exists():
            raise InputError(f"{directory} is a file; name the folder that 'labeldp release' wrote")
        raise InputError(f"there is no folder {directory}{folder.or_beside(directory)}")
    with engines.open_engine(engine) as workers, progress() as bar:
        verdict = folder.verify(directory, public_key=public_key, long=long, executor=workers, progress=bar)
    checks = tuple(replace(check, found=as_typed(check.found)) for check in verdict.checks)
    verdict = replace(verdict, checks=checks)
    result(json_, lambda: results.Verified.of(verdict), lambda: results.verdict_part(verdict))
    if not verdict.holds:
        raise typer.Exit(1)


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
