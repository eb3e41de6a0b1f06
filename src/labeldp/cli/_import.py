"""``labeldp import`` takes over labels that were randomized elsewhere; ``labeldp declare`` says how they were."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import labeldp.release as releases
from labeldp import privacy, results
from labeldp._own_files import write_new_file
from labeldp.cli._command import Place
from labeldp.cli._options import ColumnOptions, FileOptions, SpendingOptions, check_one_of, class_texts
from labeldp.cli._terminal import notes_on_terminal, progress, result
from labeldp.errors import InputError
from labeldp.mechanisms import randomizers
from labeldp.release import folder, released, tables

if TYPE_CHECKING:
    from labeldp.mechanisms.randomizers import Randomizer
    from labeldp.privacy import LabelSpace
    from labeldp.release.released import Declaration


_HOW = "either --epsilon or --keeping to say how labels are randomized"


@dataclass(frozen=True)
class DeclarationOptions:
    """Options that say how labels are randomized.

    Args:
        label: Name of the label.
        classes: All answers that can occur: a,b,c (quote those with commas), or @FILE with one per line.
        mechanism: A mechanism for classes that is the same for all rows.
        epsilon: The epsilon of that mechanism for each label.
        keeping: Instead of --epsilon: the probability that a label is reported unchanged, such as 0.75.
        answers: The most answers that a person gives, over which --epsilon is divided.
        declared_by: Who says so, such as 'survey 2026'; the certificate shows it.
    """

    label: str | None = None
    classes: str | None = None
    mechanism: str = "randomized-response"
    epsilon: float | None = None
    keeping: float | None = None
    answers: int = 1
    declared_by: str | None = None

    def of(self) -> Declaration:
        """The declaration.

        Raises:
            InputError: A part is missing, or there is no such mechanism.
        """
        for name in ("label", "classes", "declared_by"):
            if getattr(self, name) is None:
                raise InputError(f"--{name.replace('_', '-')} is missing; pass it, or a file with --declaration")
        check_one_of(_HOW, self.epsilon, self.keeping)
        made = self._randomizer(privacy.Classes(class_texts(str(self.classes))))
        return released.Declaration(str(self.label), made, str(self.declared_by), answers=self.answers)

    def _randomizer(self, space: LabelSpace) -> Randomizer:
        kind = randomizers.class_randomizer(self.mechanism)
        if self.keeping is None:
            return kind(space, randomizers.share_of(float(self.epsilon or 0), self.answers))
        if kind is not randomizers.RandomizedResponse:
            raise InputError(f"--keeping goes with randomized-response, found {self.mechanism!r}; pass --epsilon")
        return randomizers.RandomizedResponse.keeping(space, self.keeping)


def declare(output: Path, *, declared: DeclarationOptions) -> None:
    """Write how labels are randomized on devices or in a survey, for the devices and for 'labeldp import'.

    Args:
        output (FILE): A new file for the declaration, in JSON.
        declared: The mechanism.
    """
    declaration = declared.of()
    write_new_file(output, declaration.to_json().encode(), private=False)
    text = (
        f"Wrote {output}: {declaration.mechanism.name}, {declaration.channel.detail}, {declaration.declared_by}.",
        f"Tell people: {declaration.meaning}",
        f"Take over what they report with 'labeldp import TABLE --declaration {output} --keep ... --output DIR'.",
    )
    result(False, lambda: None, lambda: results.Part("A declaration", text[0], lead=text))


def import_(
    source: Place,
    *,
    output: Place,
    declared: DeclarationOptions,
    columns: ColumnOptions,
    spending: SpendingOptions,
    file: FileOptions,
    declaration: Path | None = None,
    unit: str | None = None,
    sign: Path | None = None,
    json_: bool = False,
) -> None:
    """Take over labels that a survey, a device or another library randomized already.

    Nothing is drawn: the label column leaves as it is, with a certificate that says who declares how it was
    randomized. 'learn', 'evaluate' and 'audit' then account for the noise.

    Args:
        source (INPUT): CSV or Parquet, or a folder of either.
        output: A new folder for the release.
        declared: The mechanism that randomized the labels.
        columns: The public columns.
        spending: The ledger and its budget.
        file: How CSV files are written.
        declaration: The file of 'labeldp declare', in place of the options that say how labels were randomized.
        unit (COLUMN): The column of people with several rows: the epsilons of their labels add up. 'row' if you answer
            for single rows alone.
        sign: The private key to sign the release with, from 'labeldp key'.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    signer = None if sign is None else folder.private_key(sign)
    how = declared.of() if declaration is None else _read(declaration, declared)
    given, (keep, drop) = file.of(source), columns.of(tables.open_table(file.of(source), how.label))
    texts = [str(each) for each in how.mechanism.space.points]
    how = how.of_space(tables.declared_classes(tables.open_table(given, how.label), texts, "refuse"))
    with progress() as bar:
        imported = releases.release_table(
            given,
            how.label,
            how.mechanism.space,
            how.mechanism.epsilon,
            output,
            keep=keep,
            drop=drop,
            mechanism=releases.DeclaredMechanism(declaration=how),
            unit=unit,
            **spending.arguments(),
            progress=bar,
        )
    if signer is not None:
        folder.sign(output, signer, imported.certificate)
    result(json_, lambda: results.Released.of(imported), lambda: results.shown_release(imported))
    notes_on_terminal(imported.notes)


def _read(file: Path, declared: DeclarationOptions) -> released.Declaration:
    """The declaration in a file, which says all that the options would.

    Raises:
        InputError: There is none, or options say it too.
    """
    if declared != DeclarationOptions():
        raise InputError("--declaration says how labels were randomized, and so do other options; leave those out")
    return released.Declaration.read(file)
