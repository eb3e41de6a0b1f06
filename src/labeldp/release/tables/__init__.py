"""Tables on disk: readers, the first pass over labels, privacy units."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
