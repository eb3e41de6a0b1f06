"""What is shown: how much a mechanism, a release or a trained pipeline really gives away."""

from labeldp.audit._audit import Audit
from labeldp.audit._canaries import Canaries, Memorisation, canary_memorisation, plant_canaries
from labeldp.audit._chances import Bracket
from labeldp.audit._discriminator import (
    Discriminator,
    DivergenceEstimate,
    divergence_of_log_odds,
    estimate_divergence,
    held_out_log_odds,
)
from labeldp.audit._exact import audit_channel, audit_drawing, audit_matrix
from labeldp.audit._folder import FolderAudit, audit_folder
from labeldp.audit._inference import Inference, Model, infer_labels, label_posterior, own_share
from labeldp.audit._instance_loss import InstanceLoss
from labeldp.audit._one_run import audit_pipeline
from labeldp.audit._profile import LossCurve, LossProfile, loss_profile
from labeldp.audit._repeats import infer_from_repeats, repeated_limit, repeated_success
from labeldp.audit._sampled import audit_mechanism
from labeldp.audit._utility import AttackReport, AttackRow, Utility, attack_folder, attack_release, attack_utility

__all__ = [
    "AttackReport",
    "AttackRow",
    "Audit",
    "Bracket",
    "Canaries",
    "Discriminator",
    "DivergenceEstimate",
    "FolderAudit",
    "Inference",
    "InstanceLoss",
    "LossCurve",
    "LossProfile",
    "Memorisation",
    "Model",
    "Utility",
    "attack_folder",
    "attack_release",
    "attack_utility",
    "audit_channel",
    "audit_drawing",
    "audit_folder",
    "audit_matrix",
    "audit_mechanism",
    "audit_pipeline",
    "canary_memorisation",
    "divergence_of_log_odds",
    "estimate_divergence",
    "held_out_log_odds",
    "infer_from_repeats",
    "infer_labels",
    "label_posterior",
    "loss_profile",
    "own_share",
    "plant_canaries",
    "repeated_limit",
    "repeated_success",
]
