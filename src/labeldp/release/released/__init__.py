"""Releases of labels, answers and rows, the gate that public columns pass, and totals of releases."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
