"""Bounds, rates and plans from formulas alone; no label and no table is read."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "Conventions",
    "Premises",
    "UnitSizes",
    "attack_limit",
    "conditional_attack_limit",
    "convex_rate",
    "counting_space",
    "features_divergence",
    "forecast",
    "free_epsilon",
    "label_shares",
    "limits",
    "plan",
    "pure_attack_limit",
    "rate",
    "rows_to_name",
]
