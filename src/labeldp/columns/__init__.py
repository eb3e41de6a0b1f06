"""The type, the kind and the values of a column, and how people write them; read from Arrow, here alone."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
