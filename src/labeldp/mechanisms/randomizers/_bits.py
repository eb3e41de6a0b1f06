"""Unary encoding: independent bits, one for each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from labeldp.errors import InputError
from labeldp.mechanisms.randomizers._randomizer import ClassRandomizer, kept
from labeldp.privacy.channels import BitChannel

_FORMS = {"independent": BitChannel.independent, "symmetric": BitChannel.symmetric}


@dataclass(frozen=True, eq=False)
class BitResponse(ClassRandomizer):
    """Unary encoding: a released set of classes, each in or out by its own coin.

    Args:
        space: The declared label space.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        form: ``"independent"``: the true class with probability 1/2, each other with ``1 / (exp(epsilon) + 1)``.
            ``"symmetric"``: each bit of the one-hot label flipped with ``1 / (exp(epsilon / 2) + 1)``.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``: another true class changes
          the distribution of two bits.
        * Neighbours differ in the label of one row; features are public.

    References:
        Chua et al. 2025, equation (1); Zhao et al. 2025, equation (11).

    Example:
        >>> from labeldp import BitResponse, Classes
        >>> BitResponse(Classes("abc"[i] for i in range(3)), 1.0, form="symmetric").channel().matrix().shape
        (3, 8)

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        InputError: The form is unknown.
    """

    form: Literal["independent", "symmetric"] = "independent"

    name: ClassVar[str] = "bits"
    draws_from: ClassVar[type[BitChannel]] = BitChannel
    about: ClassVar[str] = "Set of classes in which each class has a bit of its own (unary encoding)"

    def __post_init__(self) -> None:
        if self.form not in _FORMS:
            raise InputError(f"expected form to be one of {', '.join(_FORMS)}, found {self.form!r}")
        super().__post_init__()

    @kept
    def channel(self) -> BitChannel:
        """The channel from the true class to the released set."""
        return _FORMS[self.form](self.space.size, self.epsilon)

    @property
    def detail(self) -> str:
        """A set of classes by independent coins."""
        return f"{self.form} bits"
