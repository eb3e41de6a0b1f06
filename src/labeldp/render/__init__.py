"""Renderings of results: pages, with a second verifier in them, and figures. This package computes nothing."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
