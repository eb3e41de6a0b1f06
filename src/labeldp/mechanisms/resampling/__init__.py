"""Features released with labels: forms of tables, generators, and double randomized response."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
