"""Encoders of images by name: those of installed packages, and files."""

from __future__ import annotations

from pathlib import Path

from labeldp.errors import InputError
from labeldp.learning.features import INSTALLED, NOT_STATED
from labeldp.learning.images import ImageEncoder, onnx_encoder

#: The ending of a file.
ONNX = ".onnx"


def open_encoder(
    encoder: str | Path, *, licence: str | None = None, labels: str | None = None, cache: Path | None = None
) -> ImageEncoder:
    """Open an encoder of images that others trained. Nothing is downloaded.

    Args:
        encoder: ``"efficientnet-lite0"``, which the extra ``efficientnet`` brings; or the path of an ONNX file, which
            ends in ``.onnx``.
        licence: Of a file: its licence, which you state.
        labels: Of a file: the labels that it was trained on, which you state, such as ``"ImageNet-1k"``. The guarantee
            of a release does not cover these.
        cache: Folder of features that were computed before; None for no cache.

    Raises:
        InputError: There is no such encoder, or it is not one of images; or something is stated of an installed one.
        MissingExtraError: Its packages are not installed.
    """
    if str(encoder) != INSTALLED:
        if Path(encoder).suffix != ONNX:
            raise InputError(
                f"expected an encoder that is {INSTALLED}, or a file that ends in {ONNX}, found {str(encoder)!r}"
            )
        return onnx_encoder(encoder, licence=licence or NOT_STATED, labels=labels or NOT_STATED, cache=cache)
    if licence is not None or labels is not None:
        raise InputError(
            f"expected no licence and no labels with {INSTALLED}, which has its own, found some; leave out"
        )
    from labeldp.learning.torch import efficientnet  # noqa: PLC0415 (PyTorch is an extra of its own)

    return efficientnet(cache)
