"""``labeldp import`` takes over labels that were randomized elsewhere; ``labeldp declare`` says how they were."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from itertools import islice
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


_RESPONSE, _GROUPS = "randomized-response", "groups"
_NOT_SAID = (_RESPONSE, None, None, None)
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
        group (LIST): With --mechanism groups: the answers of a group of adjacent ones, such as 4,5; repeat it for each.
        answers: The most answers that a person gives, over which --epsilon is divided.
        declared_by: Who says so, such as 'survey 2026'; the certificate shows it.
    """

    label: str | None = None
    classes: str | None = None
    mechanism: str = _RESPONSE
    epsilon: float | None = None
    keeping: float | None = None
    group: list[str] | None = None
    answers: int = 1
    declared_by: str | None = None

    def of(self) -> Declaration:
        """The declaration.

        Raises:
            InputError: A part is missing, or there is no such mechanism.
        """
        label, texts, by = self.named()
        return released.Declaration(label, self.randomizer(privacy.Classes(texts)), by, answers=self.answers)

    def named(self) -> tuple[str, list[str], str]:
        """The label, its classes, and who declares how it was randomized.

        Raises:
            InputError: One is missing.
        """
        for name in ("label", "classes", "declared_by"):
            if getattr(self, name) is None:
                raise InputError(f"--{name.replace('_', '-')} is missing; pass it, or a file with --declaration")
        return str(self.label), class_texts(str(self.classes)), str(self.declared_by)

    def randomizer(self, space: LabelSpace) -> Randomizer:
        """The mechanism of all rows."""
        check_one_of(_HOW, self.epsilon, self.keeping)
        share = randomizers.share_of(float(self.epsilon or 0), self.answers)
        if (self.mechanism == _GROUPS) != bool(self.group):
            raise InputError("--group is repeated for each group of --mechanism groups; pass both, or neither")
        if self.group and self.keeping is None:
            return randomizers.GroupResponse(space, share, groups=[class_texts(each) for each in self.group])
        kind = randomizers.class_randomizer(self.mechanism)
        if self.keeping is None:
            return kind(space, share)
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
    matrix: Path | None = None,
    rounded: float = 0.0,
    rates: str | None = None,
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
        matrix (FILE): Instead of --epsilon: a CSV file of the probabilities of all reported classes (columns) for each
            true one (lines), with the names of classes in its first line and column.
        rounded: The most by which each of these is off, such as 0.005 of two decimals; epsilon covers it.
        rates (COLUMN): Instead of --epsilon: the public column of the probability with which each row's label was kept.
        unit (COLUMN): The column of people with several rows: the epsilons of their labels add up. 'row' if you answer
            for single rows alone.
        sign: The private key to sign the release with, from 'labeldp key'.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    signer = None if sign is None else folder.private_key(sign)
    if (matrix or rates) and (declared.mechanism, declared.epsilon, declared.keeping, declared.group) != _NOT_SAID:
        raise InputError("--matrix and --rates stand in place of --mechanism, --epsilon and --keeping; leave those out")
    if (rounded and matrix is None) or (matrix and rates):
        raise InputError("expected --rounded with --matrix alone, and no --rates beside it, found another combination")
    sent = None if declaration is None else _read(declaration, declared, matrix, rates)
    label, texts, by = declared.named() if sent is None else _named(sent)
    given, (keep, drop) = file.of(source), columns.of(tables.open_table(file.of(source), label))
    space = tables.declared_classes(tables.open_table(given, label), texts, "refuse")
    how: released.DeclaredHow | None = None
    if sent is not None:
        how = replace(sent.mechanism, space=space)
    elif matrix is not None:
        how = _channel(matrix, space, texts, rounded)
    elif rates is None:
        how = declared.randomizer(space)
    with progress() as bar:
        imported = releases.release_table(
            given,
            label,
            space,
            None,
            output,
            keep=keep,
            drop=drop,
            mechanism=releases.DeclaredMechanism(how=how, declared_by=by, rates=rates),
            unit=unit,
            **spending.arguments(),
            progress=bar,
        )
    if signer is not None:
        folder.sign(output, signer, imported.certificate)
    result(json_, lambda: results.Released.of(imported), lambda: results.shown_release(imported))
    notes_on_terminal(imported.notes)


def _read(file: Path, declared: DeclarationOptions, *others: object) -> released.Declaration:
    """The declaration in a file, which says all that the options would.

    Raises:
        InputError: There is none, or options say it too.
    """
    if declared != DeclarationOptions() or any(each is not None for each in others):
        raise InputError("--declaration says how labels were randomized, and so do other options; leave those out")
    return released.Declaration.read(file)


def _named(sent: released.Declaration) -> tuple[str, list[str], str]:
    return sent.label, [str(each) for each in sent.mechanism.space.points], sent.declared_by


def _channel(file: Path, space: LabelSpace, texts: list[str], rounded: float) -> released.DeclaredChannel:
    """The channel of the probabilities in a file, whose lines and columns may be in any order.

    Raises:
        InputError: They are none of these classes.
    """
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            (_, *heads), *rows = list(csv.reader(islice(lines, len(texts) + 1)))
        found = {(true, head): float(each) for true, *line in rows for head, each in zip(heads, line, strict=True)}
        values = [[found[true, reported] for reported in texts] for true in texts]
    except (OSError, UnicodeError, csv.Error, ValueError, KeyError):
        raise InputError(
            f"expected probabilities in {file}, with the {len(texts)} classes of --classes in the first line and "
            "column, found others; write one line for each true class"
        ) from None
    return released.DeclaredChannel.matrix(space, values, rounded=rounded)
