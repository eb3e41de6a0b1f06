"""What is possible: rates, limits and plans. Formulas only; no label and no table is read here."""

from labeldp.bounds._plan import EPSILONS, Option, Plan, plan

__all__ = ["EPSILONS", "Option", "Plan", "plan"]
