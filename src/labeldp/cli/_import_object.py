"""What a user's own module holds, named on the command line as ``module:name``."""

from __future__ import annotations

import importlib
import os
import sys

from labeldp.errors import InputError


def named_object(text: str, option: str) -> object:
    """What ``module:name`` names; modules of the present folder are found too.

    Raises:
        InputError: The module cannot be imported, or has no such name. What it said is not shown: it may hold data.
    """
    module, _, name = text.partition(":")
    if not module or not name:
        raise InputError(f"expected module:name for {option}, found {text!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except Exception as problem:  # noqa: BLE001 (anything may happen while a module is run)
        why = type(problem).__name__
        raise InputError(f"expected a module {module!r} that can be imported for {option}, found a {why}") from None
    if not hasattr(found, name):
        raise InputError(f"expected {name!r} in the module {module!r} for {option}, found no such name")
    return getattr(found, name)
