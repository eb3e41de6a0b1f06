"""``labeldp import``: take over labels that were randomized elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import labeldp.release as releases
from labeldp import results
from labeldp._checks import nearest
from labeldp.cli._command import Place
from labeldp.cli._options import DECLARED, ColumnOptions, FileOptions, SpendingOptions, check_one_of
from labeldp.cli._release import SpaceOptions
from labeldp.cli._terminal import notes_on_terminal, progress, result
from labeldp.errors import InputError
from labeldp.mechanisms import randomizers
from labeldp.release import folder, tables

if TYPE_CHECKING:
    from labeldp.mechanisms.randomizers import Randomizer
    from labeldp.privacy import LabelSpace


def import_(
    source: Place,
    *,
    label: str,
    declared_by: str,
    output: Place,
    space: SpaceOptions,
    columns: ColumnOptions,
    spending: SpendingOptions,
    file: FileOptions,
    mechanism: str = "randomized-response",
    epsilon: float | None = None,
    keeping: float | None = None,
    sign: Path | None = None,
    json_: bool = False,
) -> None:
    """Take over labels that a survey, a device or another library randomized already.

    Nothing is drawn: the label column leaves as it is, with a certificate that says who declares how it was
    randomized. 'learn', 'evaluate' and 'audit' then account for the noise.

    Args:
        source (INPUT): CSV or Parquet, or a folder of either.
        label: Name of the column with the randomized labels.
        declared_by: Who says how they were randomized, such as 'survey 2026'; the certificate shows it.
        output: A new folder for the release.
        space: The label space.
        columns: The public columns.
        spending: The ledger and its budget.
        file: How CSV files are written.
        mechanism: A mechanism that reports one class for each row.
        epsilon: The epsilon of that mechanism for each label.
        keeping: Instead of --epsilon: the probability that a label was reported unchanged, such as 0.75.
        sign: The private key to sign the release with, from 'labeldp key'.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    signer = None if sign is None else folder.private_key(sign)
    check_one_of(DECLARED, space.classes, space.interval)
    check_one_of("either --epsilon or --keeping to say how labels were randomized", epsilon, keeping)
    given = file.of(source)
    table = tables.open_table(given, label)
    declared, (keep, drop) = space.of(table), columns.of(table)
    made = _randomizer(declared, mechanism, epsilon, keeping)
    with progress() as bar:
        released = releases.release_table(
            given,
            label,
            declared,
            made.epsilon,
            output,
            keep=keep,
            drop=drop,
            mechanism=releases.DeclaredMechanism(made=made, declared_by=declared_by),
            **spending.arguments(),
            progress=bar,
        )
    if signer is not None:
        folder.sign(output, signer, released.certificate)
    result(json_, lambda: results.Released.of(released), lambda: results.shown_release(released))
    notes_on_terminal(released.notes)


def _randomizer(space: LabelSpace, name: str, epsilon: float | None, keeping: float | None) -> Randomizer:
    """The declared randomizer.

    Raises:
        InputError: There is none of that name for these labels, or it has no probability of keeping a label.
    """
    kinds = {kind.name: kind for kind in randomizers.class_randomizers()}
    if name not in kinds:
        hint = nearest(name, kinds) or f"; choose among {', '.join(sorted(kinds))}"
        raise InputError(f"expected the name of a mechanism for classes, found {name!r}{hint}")
    if keeping is None:
        return kinds[name](space, float(epsilon or 0))
    if name != randomizers.RandomizedResponse.name:
        raise InputError(f"--keeping goes with randomized-response, found it with {name!r}; pass --epsilon")
    return randomizers.RandomizedResponse.keeping(space, keeping)
