"""What is promised: label spaces, channels, guarantees, and the arithmetic of charges."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
