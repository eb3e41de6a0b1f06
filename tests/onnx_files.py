"""Tiny encoders as ONNX files, written field by field, so that tests can write hostile ones too."""

import numpy as np

_FLOAT, _BYTE, _INT_ATTRIBUTE, _GRAPH_ATTRIBUTE = 1, 2, 2, 5


def number(value):
    """A number of variable length."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes(found + bytes([value]))


def field(place, value):
    """A field of a message: a number, or bytes with their length."""
    if isinstance(value, int):
        return number(place << 3) + number(value)
    content = value.encode() if isinstance(value, str) else value
    return number(place << 3 | 2) + number(len(content)) + content


def message(*fields):
    """A message of fields."""
    return b"".join(field(*each) for each in fields)


def tensor(name, values, *more):
    """An array of floats."""
    sizes = [(1, size) for size in values.shape]
    return message(*sizes, (2, _FLOAT), (8, name), (9, values.astype("<f4").tobytes()), *more)


def value(name, kind, shape):
    """An input or an output."""
    sizes = message(*((1, message((1, size) if isinstance(size, int) else (2, size))) for size in shape))
    return message((1, name), (2, message((1, message((1, kind), (2, sizes))))))


def node(operator, given, made, *attributes, domain=""):
    """A call of an operator."""
    attributes = [(5, each) for each in attributes]
    return message(
        (1, given[0]), *((1, each) for each in given[1:]), (2, made), (4, operator), (7, domain), *attributes
    )


def encoder(
    *nodes, shape=("batch", 3, 12, 12), kind=_FLOAT, seed=0, outputs=8, weight=(), graph=(), model=(), result=None
):
    """A graph of an encoder: the mean size of responses to some filters, with more fields in its parts."""
    filters = np.random.default_rng(seed).normal(size=(outputs, shape[1], 3, 3))
    to_float = message((1, "to"), (3, _FLOAT), (20, _INT_ATTRIBUTE))
    usual = [
        node("Cast", ["images"], "numbers", to_float),
        node("Conv", ["numbers", "filters"], "responses"),
        node("Abs", ["responses"], "sizes"),
        node("GlobalAveragePool", ["sizes"], "features"),
    ]
    body = message(
        *((1, each) for each in (*usual, *nodes)),
        (2, "encoder"),
        (5, tensor("filters", filters, *weight)),
        (11, value("images", kind, shape)),
        (12, value("features", _FLOAT, result or (shape[0], outputs, 1, 1))),
        *graph,
    )
    return message((1, 8), (8, message((1, ""), (2, 13))), (7, body), *model)


def loop():
    """A loop that never ends, as an attribute of an operator."""
    return message((1, "body"), (6, message((2, "inner"))), (20, _GRAPH_ATTRIBUTE))
