from ._draw import draw as draw
