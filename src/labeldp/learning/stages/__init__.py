"""Learning in stages: each stage randomizes fresh rows with a prior from the stages before."""

import lazy_loader

from labeldp._extras import require_extra

require_extra("sklearn", "sklearn", "threadpoolctl")
__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "ClusterPrior",
    "ConsensusRetraining",
    "FixedPrior",
    "ModelPrior",
    "MultiStage",
    "Prior",
    "ReleasePrior",
    "UniformPrior",
]
