from ._draw import draw as draw
from ._draw import draw_context as draw_context
