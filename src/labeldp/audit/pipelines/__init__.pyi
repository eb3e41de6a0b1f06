from ._canaries import canary_memorisation as canary_memorisation
from ._canaries import plant_canaries as plant_canaries
from ._discriminator import Discriminator as Discriminator
from ._discriminator import DivergenceEstimate as DivergenceEstimate
from ._discriminator import divergence_of_log_odds as divergence_of_log_odds
from ._discriminator import estimate_divergence as estimate_divergence
from ._discriminator import held_out_log_odds as held_out_log_odds
from ._one_run import audit_pipeline as audit_pipeline
