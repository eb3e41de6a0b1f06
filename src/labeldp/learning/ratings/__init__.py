"""Ratings of items by users, or other ordered classes of pairs, from released labels."""

import lazy_loader

from labeldp._extras import require_extra

require_extra("sklearn", "sklearn")
__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = ["FactorizationClassifier"]
