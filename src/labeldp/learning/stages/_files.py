"""Checkpoint of a run in stages, which can be stopped and resumed with the same released labels."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from labeldp._own_files import check_own, opened_own, remove_staging, replace_file
from labeldp._strict_json import strict_json
from labeldp.errors import OutputError
from labeldp.privacy.accounting import RowRanges
from labeldp.release import Answer, Release

_SCHEMA = "labeldp/stages/1"
_SETTINGS, _SPLIT, _PRIOR = "stages.json", "split.npy", "prior"
#: Most bytes of the settings, of the header of the split, and of the stage of a row in it.
_MOST_BYTES, _HEADER, _STAGE_BYTES = 1 << 24, 1 << 10, 2

Parts = list[np.ndarray]


@dataclass(frozen=True)
class StageFiles:
    """A folder with the split, the answers and the releases of a run; without a folder, nothing is saved.

    Files appear complete or not at all, and none is overwritten.

    Attributes:
        directory: The folder; None to save nothing.
        settings: Settings that must be the same for a run to be resumed.
    """

    directory: Path | None
    settings: Mapping[str, Any]

    def split(self, make: Callable[[], Parts]) -> tuple[Parts, bool]:
        """The rows of each stage, and whether an earlier run saved them."""
        if self.directory is None:
            return make(), False
        self.directory.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(self.directory / _SETTINGS):
            self._check_settings()
            return self._saved_split(), True
        remove_staging(self.directory / _SPLIT)
        remove_staging(self.directory / _SETTINGS)
        if others := sorted(path.name for path in self.directory.iterdir() if path.name != _SPLIT):
            raise OutputError(
                f"expected an empty folder for the stages, or one of an earlier run, found {others[0]!r} in "
                f"{self.directory}; choose another"
            )
        parts = make()
        stage_of_row = np.empty(sum(map(len, parts)), dtype=np.int16)
        for number, rows in enumerate(parts):
            stage_of_row[rows] = number
        replace_file(self.directory / _SPLIT, lambda file: np.save(file, stage_of_row))
        text = json.dumps({"schema": _SCHEMA, **self.settings}, indent=2) + "\n"
        replace_file(self.directory / _SETTINGS, lambda file: file.write(text.encode()))
        return parts, False

    def releases(self, parts: Parts) -> list[Release]:
        """The saved releases of the first stages.

        Raises:
            VerificationError: A release does not agree with its certificate.
            OutputError: A release is of other rows, or one before it is missing.
        """
        releases: list[Release] = []
        for number, rows in enumerate(parts):
            if self.directory is None or not self._stage(number).exists():
                break
            check_own(self._stage(number), self._stage(number).lstat())
            release = Release.load(self._stage(number))
            if release.certificate is None or release.certificate.draws[-1].rows != RowRanges.of(rows):
                raise OutputError(f"expected the rows of the split in {self._stage(number)}, found others")
            releases.append(release)
        if later := [n + 1 for n in range(len(releases), len(parts)) if self.directory and self._stage(n).exists()]:
            raise OutputError(
                f"expected the releases of stages one after the other in {self.directory}, found stage {later[0]} "
                "without those before; restore a copy"
            )
        return releases

    def answers(self) -> list[Answer]:
        """The saved answer that the prior of the first stage was computed from, if it paid for one."""
        if self.directory is None or not os.path.lexists(saved := self.directory / _PRIOR):
            return []
        check_own(saved, saved.lstat())
        return [Answer.load(saved)]

    def keep(self, number: int, release: Release) -> None:
        """Save the release of a stage."""
        if self.directory is not None:
            release.save(self._stage(number))

    def keep_answer(self, answer: Answer) -> None:
        """Save the answer of a prior, which is asked for only once."""
        if self.directory is not None:
            answer.save(self.directory / _PRIOR)

    def _saved_split(self) -> Parts:
        """The rows of each stage as saved."""
        count = self.settings["rows"]
        content = self._read(_SPLIT, _HEADER + count * _STAGE_BYTES)
        try:
            stage_of_row = np.load(BytesIO(content), allow_pickle=False)
        except (ValueError, EOFError, MemoryError, OverflowError):
            stage_of_row = np.empty(0)
        parts = [np.flatnonzero(stage_of_row == number) for number in range(len(self.settings["shares"]))]
        if stage_of_row.shape != (count,) or sum(map(len, parts)) != count or not all(map(len, parts)):
            raise OutputError(
                f"expected the split of {count} rows into {len(parts)} stages in {self.directory}, found another; "
                "restore a copy"
            )
        return parts

    def _read(self, name: str, most: int) -> bytes:
        """The bytes of a file; none if it cannot be read, or is too long.

        Raises:
            OutputError: Somebody else can have written it.
        """
        try:
            with opened_own((self.directory or Path()) / name) as file:
                content = file.read(most + 1)
        except OutputError:
            raise
        except OSError:
            return b""
        return content if len(content) <= most else b""

    def _stage(self, number: int) -> Path:
        return (self.directory or Path()) / f"stage-{number + 1}"

    def _check_settings(self) -> None:
        """Refuse to resume a run with other data or settings."""
        try:
            saved = strict_json(self._read(_SETTINGS, _MOST_BYTES).decode())
        except ValueError:
            raise OutputError(f"expected the settings of a run in {self.directory}, found no JSON") from None
        wanted = strict_json(json.dumps({"schema": _SCHEMA, **self.settings}))
        if isinstance(saved, dict) and wanted["labels"] == f"labels named {wanted['label']}":
            saved.setdefault("labels", wanted["labels"])  # older runs hold the name alone
        other = [name for name in wanted if not isinstance(saved, dict) or saved.get(name) != wanted[name]]
        if other:
            raise OutputError(
                f"expected the run that was begun in {self.directory}, found another: it differs in "
                f"{', '.join(other)}; resume with the same data, name= and settings, or choose another folder"
            )


def fingerprint(features: Any) -> str:
    """A fingerprint of public features, equal for equal features."""
    parts = features if isinstance(features, tuple) else (features,)
    arrays = [np.asarray(part) if hasattr(part, "detach") else part for part in parts]
    return str(joblib.hash(arrays, hash_name="sha1"))
