"""How a label leaves: randomizers, and the draw."""

from labeldp.mechanisms._bits import BitResponse
from labeldp.mechanisms._drawing import draw
from labeldp.mechanisms._prior import PriorResponse, TopKResponse
from labeldp.mechanisms._randomizer import Randomizer
from labeldp.mechanisms._response import RandomizedResponse
from labeldp.mechanisms._subset import SubsetResponse, best_response

__all__ = [
    "BitResponse",
    "PriorResponse",
    "RandomizedResponse",
    "Randomizer",
    "SubsetResponse",
    "TopKResponse",
    "best_response",
    "draw",
]
