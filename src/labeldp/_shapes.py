"""Array types with shapes, as ``Float[np.ndarray, "n d"]``: executed in the tests, and plain arrays at run time.

Type checkers read jaxtyping here, and the tests put it in this module's place. Commands do without: it loads for a
twentieth of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float32, Float64, Int, Int8, Int16, Int32, Int64, Integer, Shaped, UInt8, UInt64
else:

    class _Array:
        """An array type that drops its shape."""

        def __class_getitem__(cls, item: tuple[type, str]) -> Any:
            return item[0]

    Bool = Float = Float32 = Float64 = Int = Int8 = Int16 = Int32 = Int64 = Integer = Shaped = UInt8 = UInt64 = _Array

__all__ = [
    "Bool",
    "Float",
    "Float32",
    "Float64",
    "Int",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Integer",
    "Shaped",
    "UInt8",
    "UInt64",
]
