"""The curator, who alone sees true labels: sources of them, sinks of draws, two-step protocols, random splits."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
