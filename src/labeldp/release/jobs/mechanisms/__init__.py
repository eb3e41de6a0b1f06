"""Table mechanisms: each a file with its options, what it needs of a table, and its requests to a curator."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
