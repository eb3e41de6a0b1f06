"""Results in notebooks: packages below the one that shows results know it by name alone."""

from __future__ import annotations

from importlib import import_module


class Shown:
    """A result that notebooks show, as ``labeldp.render`` does."""

    def _repr_html_(self) -> str:
        return str(import_module("labeldp.render").in_notebook(self))
