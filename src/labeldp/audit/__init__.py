"""Audits and attacks: lower bounds on the leakage of mechanisms, releases and trained pipelines."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "Audit",
    "Knowledge",
    "Neighbourhood",
    "ObservedPairs",
    "PlantedPairs",
    "attack_folder",
    "attack_release",
    "audit_channel",
    "audit_folder",
    "audit_matrix",
    "audit_mechanism",
    "audit_pipeline",
    "bound_exposure",
    "canary_memorisation",
    "estimate_divergence",
    "infer_from_repeats",
    "infer_labels",
    "loss_profile",
    "plant_canaries",
    "repeated_success",
]
