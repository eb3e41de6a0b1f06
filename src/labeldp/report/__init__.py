"""What is said: words, tables and figures from results. It computes nothing."""

from labeldp.report._attacks import attack_text, save_attack_figure
from labeldp.report._audits import audit_text, folder_audit_text
from labeldp.report._figures import check_figure, save_account_figure, save_lines
from labeldp.report._generators import generator_text
from labeldp.report._plan_figures import save_forecast_figure, save_plan_figure
from labeldp.report._plans import forecast_text, plan_text
from labeldp.report._profiles import profile_text, save_profile_figure
from labeldp.report._text import (
    account_text,
    learned_text,
    ledger_text,
    release_text,
    scores_text,
    staged_text,
    verdict_text,
)

__all__ = [
    "account_text",
    "attack_text",
    "audit_text",
    "check_figure",
    "folder_audit_text",
    "forecast_text",
    "generator_text",
    "learned_text",
    "ledger_text",
    "plan_text",
    "profile_text",
    "release_text",
    "save_account_figure",
    "save_attack_figure",
    "save_forecast_figure",
    "save_lines",
    "save_plan_figure",
    "save_profile_figure",
    "scores_text",
    "staged_text",
    "verdict_text",
]
