"""Laws that every kind must hold, for tests of your own kinds: of randomizers, queries, learners and results."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
