"""Descriptions of results: the parts of each, its JSON, and the schema of that. This package computes nothing."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
