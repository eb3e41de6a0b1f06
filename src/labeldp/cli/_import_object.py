"""Objects of a user's own module, named on the command line as ``module:name``."""

from __future__ import annotations

import importlib
import os
import sys

from labeldp.errors import InputError


def named_object(text: str, option: str) -> object:
    """Import the object ``module:name``; modules in the working directory can be imported too.

    Raises:
        InputError: The module cannot be imported, or has no such name. Its own error is not shown: it may contain data.
    """
    module, _, name = text.partition(":")
    if not module or not name:
        raise InputError(f"expected module:name for {option}, such as mycode:noisy, found {text!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        imported = importlib.import_module(module)
    except Exception as problem:  # noqa: BLE001 (anything may happen while a module is run)
        why = type(problem).__name__
        raise InputError(
            f"expected a module {module!r} that can be imported for {option}, found a {why}; import it to see why"
        ) from None
    if not hasattr(imported, name):
        raise InputError(f"expected {name!r} in the module {module!r} for {option}, found no such name")
    return getattr(imported, name)
