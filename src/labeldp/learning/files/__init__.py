"""Files of what was learned: a description in JSON and named arrays, in the layout of safetensors."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
