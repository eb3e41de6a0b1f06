"""Both verifiers on one text: certificates of every kind, edited, spelled anew and resealed; and where they differ."""

import json
import re
import shlex
from functools import cache
from importlib.resources import files
from pathlib import Path

import forgeries

from labeldp.errors import VerificationError
from labeldp.release.folder import read_alone

GOLDEN = Path(__file__).parent / "golden"
#: The longest text of a case in letters; longer ones take most of the time, and say no more.
LONGEST = 1 << 16
#: Words of a certificate that forgers like.
WORDS = shlex.split("constructor __proto__ peer-exchange shuffled-labels noisy-histogram response grouped bits local")
WORDS += ["central", "shuffle"]
WORDS += ["peer", "person", "row", "refuse", "double", "randomized-response", "exact copy (epsilon 0.001)", "foreign"]
WORDS += ["a" * 64, "0" * 32, "a+b", "not listed", "all", "0.5", "1e-05", "the prior was computed from a"]
NUMBERS = (900000000000207008, 900000000000207009, 1.0, -0.0, 80.0, 2**53, 1e-300, True)
VALUES = (*WORDS, *NUMBERS, [], {}, [[0, 80]], [[0, 40]])
#: What the second verifier says that it leaves, and how Python refuses what it leaves.
LEFT = {
    "the expected utility": "expected (shares of rows as the utility|the utility)",
    "the output distribution of": "",
    "an output distribution of another package": "",
    "a mechanism of another package": "expected the name of a mechanism",
    "the guarantees of resampled features": "",
}


@cache
def second_verifier():
    """The second verifier, as a function from a text to what it finds."""
    import quickjs  # noqa: PLC0415 (not everywhere)

    context = quickjs.Context()
    context.set_memory_limit(1 << 28)
    context.set_time_limit(60)
    context.eval(files("labeldp.render").joinpath("verifier.js").read_text(encoding="utf-8"))
    return lambda text: json.loads(context.get("verifyCertificate")(text).json())


@cache
def certificates():
    """The golden certificates, each with the paths of its parts, and their weights: small ones come more often."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(GOLDEN.rglob("*certificate.json"))]
    texts = [text for text in texts if len(text) < LONGEST]
    bodies = [(json.loads(text), [path for path in forgeries.leaves(json.loads(text)) if path]) for text in texts]
    return bodies, [len(text) ** -0.5 for text in texts]


def text_of(chance):
    """The text of a case.

    Raises:
        LookupError, TypeError, ValueError, RecursionError, AttributeError: An edit is of what the one before removed.
    """
    bodies, weights = certificates()
    ((body, paths),) = chance.choices(bodies, weights)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        body = edited(body, paths, chance)
    text = chance.random() < 0.6 and forgeries.resealed(body)
    text = text or json.dumps(body)
    if chance.random() < 0.25:
        text = respelled(text, chance)
    if len(text) > LONGEST or re.search("[\ud800-\udfff]", text):
        raise ValueError("expected a text that a browser has, of some length")
    return text


def edited(body, paths, chance):
    """A certificate with another part: a forger's value, that of another certificate, or one twice or elsewhere."""
    path = chance.choice(paths)
    value = forgeries.part_at(body, path)
    ((other, _),) = chance.choices(*certificates())
    kind = chance.choice(("forged", "word", "of another", "again", "gone", "near"))
    if kind == "of another":
        return forgeries.with_part(body, path, forgeries.part_at(other, path))
    if kind == "word":
        return forgeries.with_part(body, path, chance.choice(VALUES))
    if kind == "again" and isinstance(value, list):
        return forgeries.with_part(body, path, [*value, *chance.choice((value, forgeries.part_at(other, path)))])
    if kind == "gone":
        *before, last = path
        whole = forgeries.part_at(body, before)
        rest = [each for i, each in enumerate(whole) if i != last] if isinstance(whole, list) else {**whole}
        if isinstance(rest, dict):
            del rest[last]
        return forgeries.with_part(body, before, rest)
    if kind == "near" and isinstance(value, float):
        return forgeries.with_part(body, path, chance.choice((value * (1 + 2**-52), value * (1 - 2**-53), int(value))))
    return forgeries.with_part(body, path, chance.choice(forgeries.other_values(value)))


def respelled(text, chance):
    """A text with a number, or a key, in another spelling."""
    place = re.compile(r"-?\b[0-9]+(\.[0-9]+)?(e-?[0-9]+)?\b").search(text, chance.randrange(len(text)))
    spelled = place.group()
    before, after = chance.choice((("", ".0"), ("", "e0"), ("", "0"), ("-", ""), ("0", ""), ("", "00e-2")))
    return f"{text[: place.start()]}{before}{spelled}{after}{text[place.end() :]}"


def compared(text, file):
    """What Python, which reads the text from a file, finds of it, and how the second verifier differs, if it does."""
    second = second_verifier()(text)
    file.write_text(text, encoding="utf-8")
    try:
        promise, refusal = read_alone(file).guarantee, ""
    except VerificationError as problem:
        promise, refusal = None, str(problem)
    return {"holds": promise is not None, "differs": _difference(second, promise, refusal)}


def _difference(second, promise, refusal):
    """How the findings of two verifiers differ; empty if they agree."""
    if promise is None:
        excused = (how for what, how in LEFT.items() if any(each.startswith(what) for each in second["left"]))
        agreed = second["holds"] is False or any(re.match(how, refusal) for how in excused)
        return "" if agreed else f"the second one says {second['holds']}, Python: {refusal}"
    if second["holds"] is False:
        return f"Python accepts, the second one: {second['checks'][-1]}"
    numbers = [(second["epsilon"], second["delta"]), (promise.epsilon, promise.delta)]
    return "" if numbers[0] == numbers[1] else f"different numbers: {numbers}"
