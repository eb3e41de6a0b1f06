"""Results as JSON, for programs that run the command line: ``docs/guide/json.md`` lists the keys."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.privacy import Interval, LabelSpace
from labeldp.results._parts import CERTAINTIES, answer_text

if TYPE_CHECKING:  # the learners are an extra
    import pyarrow as pa

    from labeldp.audit import Audit
    from labeldp.audit.attacks import AttackReport, Exposure, LossProfile
    from labeldp.audit.mechanisms import FolderAudit
    from labeldp.audit.pipelines import DivergenceEstimate
    from labeldp.learning.generators import FittedGenerator
    from labeldp.learning.metrics import Scores
    from labeldp.learning.tables import Learned, NumberScores, Staged, TableModel
    from labeldp.learning.torch import NetworkModel
    from labeldp.privacy.accounting import Budget
    from labeldp.release import CombinedGuarantee, TableCheck, TableRelease
    from labeldp.release.folder import Certificate, Verdict
    from labeldp.release.ledger import Entry


#: What a guarantee states, besides its sentence.
_PROMISE = "epsilon delta unit trust assumptions"


def plain(value: Any) -> Any:
    """A value as JSON has it: dataclasses as objects, arrays as lists, NaN and infinity as null.

    An estimate is put within its interval, which is within what can be: no share is above 1.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if all(found.get(name) is not None for name in ("value", "low", "high")):
            found["value"] = np.clip(found["value"], found["low"], found["high"])
        return {name: plain(each) for name, each in found.items()}
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def _fields(value: object, names: str) -> dict[str, Any]:
    """The named attributes of an object, as plain values."""
    return {name: plain(getattr(value, name)) for name in names.split()}


def release_json(release: TableRelease) -> dict[str, Any]:
    """A release of a table."""
    certificate, answered = release.certificate, answer_text(release)
    return {
        "output": str(release.output),
        **_fields(certificate, "rows label"),
        "mechanism": certificate.draws[-1].mechanism,
        **_guarantee(certificate),
        "quantile": None,
        **({answered.name: answered.number} if answered else {}),
        "columns": [name for name, _ in certificate.columns],
        "spent": {"epsilon": release.spent[0], "delta": release.spent[1]},
        "budget": plain(release.budget),
        "ledger": str(release.ledger),
        "notes_file": str(release.notes_file),
        "remarks": list(release.remarks),
    }


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """The findings of verification; without a certificate that can be read, the checks alone."""
    certificate = verdict.certificate
    found = _fields(verdict, "holds checks signature_unchecked")
    if certificate is None:
        return found
    about = {**_fields(certificate, "label rows"), "mechanism": certificate.draws[-1].mechanism}
    return {**found, **about, **_guarantee(certificate), "cannot_show": list(verdict.unknown)}


def learned_json(learned: Learned, output: str) -> dict[str, Any]:
    """A learned model and its scores."""
    model = learned.model
    return {
        "output": output,
        "rows": learned.rows or model.certificate.rows,
        **_fields(model, "model method"),
        "setting": learned.setting,
        "features": list(model.inputs),
        "left_out": dict(learned.left_out),
        "judged_by": learned.judged_by,
        "classes": _classes(model.certificate.space),
        **_fields(learned, "remarks scores"),
        **_guarantee(model.certificate),
    }


def scores_json(scores: Scores | NumberScores, judged_by: str, space: LabelSpace) -> dict[str, Any]:
    """Scores of a model on a table."""
    return {"judged_by": judged_by, "classes": _classes(space), "scores": plain(scores)}


def predicted_json(model: TableModel | NetworkModel, predictions: pa.Table, output: str) -> dict[str, Any]:
    """The predictions of a model in a file."""
    return {
        "output": output,
        "rows": predictions.num_rows,
        "columns": predictions.column_names,
        **_guarantee(model.certificate),
    }


def _classes(space: LabelSpace) -> list[Any] | None:
    """The classes that scores of each class are of, in their order; None of numeric labels."""
    return None if isinstance(space, Interval) else [plain(point) for point in space.points]


def account_json(combined: Sequence[CombinedGuarantee]) -> list[dict[str, Any]]:
    """The combined guarantee of the releases of each label."""
    return [
        {
            **_fields(each, "label unit rows sources"),
            "others": [{"source": path, "unit": unit, "epsilon": epsilon} for path, unit, epsilon in each.others],
            **_fields(each.composition, "epsilon delta"),
            "fixed_beforehand": [
                {"delta": delta, "epsilon": plain(epsilon)}
                for delta, epsilon in (*each.at_deltas, *((delta, epsilon) for epsilon, delta in each.at_epsilons))
            ],
        }
        for each in combined
    ]


def ledger_json(
    entries: Sequence[Entry], totals: Iterable[tuple[str, float, float, Budget]], others: Sequence[Path] = ()
) -> dict[str, Any]:
    """All charges of a ledger, the spent part of the budget for each label, and other ledgers beside the table."""
    return {
        "charges": [
            {
                **_fields(entry, "identifier time state label mechanism"),
                **_fields(entry.guarantee, _PROMISE),
                **_fields(entry, "table output"),
            }
            for entry in entries
        ],
        "spent": [
            {"label": label, "epsilon": epsilon, "delta": delta, "budget": plain(budget)}
            for label, epsilon, delta, budget in totals
        ],
        "others": [str(path) for path in others],
    }


def check_json(found: TableCheck, command: str) -> dict[str, Any]:
    """The findings in a table, which depend on labels."""
    return {
        "private": True,
        **_fields(found, "rows unit columns label people remarks notes"),
        "earlier": [
            {
                **_fields(each.entry, "label time"),
                "epsilon": each.entry.guarantee.epsilon,
                "rows": sum(stop - start for start, stop in each.rows.ranges) if each.certain else None,
                "units": each.units,
            }
            for each in found.earlier
        ],
        "command": command,
    }


def _guarantee(certificate: Certificate) -> dict[str, Any]:
    """The guarantee of a certificate, and all assumptions that were declared and not checked."""
    own = _fields(certificate, "assumptions private sentence")
    return {**_fields(certificate.guarantee, _PROMISE), **own}


def audit_json(audit: Audit) -> dict[str, Any]:
    """The audit of a function."""
    return {"holds": audit.holds, "audits": [_audit(audit)], "confidence": audit.confidence}


def folder_audit_json(
    found: FolderAudit, attacked: AttackReport | None, profile: LossProfile | None, exposure: Exposure | None = None
) -> dict[str, Any]:
    """The audit of a release, and what was computed beside it."""
    return {
        "holds": found.holds,
        "audits": [_audit(each) for each in found.audits],
        "confidence": found.confidence,
        "checks": plain(found.checks),
        "cannot_show": list(found.unknown),
        **({} if attacked is None else {"attacks": plain(attacked.rows), "limits": plain(attacked.limits)}),
        **({} if attacked is None or not attacked.measures else {"measures": plain(attacked.measures)}),
        **({} if profile is None else {"profile": plain(profile)}),
        **({} if exposure is None else {"exposure": _exposure(exposure)}),
    }


def _exposure(exposure: Exposure) -> dict[str, Any]:
    """Lower bounds on the disclosure by columns and released labels."""
    return {
        "rows": exposure.rows,
        "cells": len(exposure.sizes),
        **_fields(exposure, "epsilon of_label average"),
        "divergence_of_order_2": exposure.divergence(2.0),
        "beyond_epsilon": exposure.beyond(),
        "known": [{"certainty": sure, "share": exposure.known(sure)} for sure in CERTAINTIES],
        "p_plus": plain(exposure.share),
        **_fields(exposure, "classes confidence assumptions public"),
    }


def _audit(audit: Audit) -> dict[str, Any]:
    """The numbers of an audit; an infinite bound is null."""
    return {**plain(audit), "holds": audit.holds, "sentence": audit.sentence()}


def generator_json(
    fitted: FittedGenerator,
    path: str,
    two_sample: tuple[float, float, float, int] | None = None,
    divergences: Mapping[str, Sequence[DivergenceEstimate]] | None = None,
) -> dict[str, Any]:
    """A fitted generator: see ``generator_text``."""
    return {
        "output": path,
        "model": fitted.law.name,
        "smoothing": fitted.smoothing,
        "source": plain(fitted.source.describe()),
        "classes": [plain(point) for point in fitted.space.points],
        "columns": list(fitted.form.names),
        "two_sample": plain(two_sample),
        "divergences": plain(divergences),
    }


def staged_json(staged: Staged) -> dict[str, Any]:
    """A release in stages: the keys of a release, its model, and each stage."""
    more = "candidates truth_probability clean_share fitted_on"
    stages = [{"rows": len(each.rows), **_fields(each, more)} for each in staged.stages]
    return {**release_json(staged.release), "model_file": str(staged.model_file), "stages": stages}
