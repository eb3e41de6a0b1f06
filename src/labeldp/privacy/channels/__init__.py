"""Output distributions of randomized labels: what each true label is released as, in integers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
