"""Features of images that are learned from images alone, and the default classifier of images."""

import lazy_loader

from labeldp._extras import require_extra

require_extra("sklearn", "sklearn", "threadpoolctl")
__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "EncoderFeatures",
    "GraphFeatures",
    "ImageEncoder",
    "ImageRows",
    "KernelFeatures",
    "PatchClassifier",
    "PatchFeatures",
    "likeliest_features",
    "moved_copies",
]
