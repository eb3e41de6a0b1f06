"""The check that the libraries of an extra are installed, without loading them."""

from importlib.util import find_spec

from labeldp.errors import MissingExtraError


def require_extra(extra: str, *libraries: str) -> None:
    """Raise MissingExtraError, with the command that installs an extra, if one of its libraries is missing."""
    for library in libraries:
        if find_spec(library) is None:
            raise MissingExtraError(f"expected {library} to be installed, found none; pip install 'labeldp[{extra}]'")
