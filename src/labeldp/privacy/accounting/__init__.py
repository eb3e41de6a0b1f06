"""Privacy accounting: charges and their composition, under pure, approximate, concentrated and Rényi privacy."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
