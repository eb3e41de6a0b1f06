"""Channels: the distributions of the released label given each true label, in integers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
