"""From the folder of a release to a model in a file, and its evaluation."""

import lazy_loader

from labeldp._extras import require_extra

require_extra("learn", "sklearn", "pandas")
__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "ModelChoice",
    "StagePlan",
    "cluster_table",
    "evaluate",
    "learn",
    "learn_in_stages",
    "open_encoder",
    "open_model",
    "read_images",
]
