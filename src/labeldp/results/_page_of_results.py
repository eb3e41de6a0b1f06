"""Pages of results that were saved with ``--json``: a plan, scores of a model, an audit, or what the holder looked at.

A saved result is a file that anybody could have written. Its page says so, and repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from labeldp._checks import printable
from labeldp.results import _charts as charts
from labeldp.results._audits import rounded_down, rounded_up
from labeldp.results._blocks import MOST_ROWS, Block, Checks, Grid, Part, Picture, Points, Prose, Section, Terms
from labeldp.results._page_of_attacks import attack_sections
from labeldp.results._page_of_evaluations import NOT_CHECKED, number, scores_part, share
from labeldp.results._parts import epsilon_above, factor_below, share_below
from labeldp.results._profiles import SOURCE
from labeldp.results._saved import saved_result

#: The ending of pages that depend on true labels.
HOLDER_ENDING = ".holder.html"

#: Rows that a figure has room for.
_MOST_DRAWN = 12


def result_part(path: Path) -> Part:
    """The page of a saved result.

    Raises:
        InputError: It is no result that has a page.
    """
    command, body = saved_result(path)
    return _PARTS[command](body)


def _plan(body: Mapping[str, Any]) -> Part:
    """The page of a plan: the cost of each epsilon, before anything is spent."""
    per = "" if body["unit"] == "row" else f" per {printable(body['unit'])}"
    rows = [
        (
            epsilon_above(each["epsilon"]),
            each["mechanism"],
            number(each["effective_rows"]),
            number(each["error"]),
            f"{each['suspicion']:.1%}",
        )
        for each in body["over_epsilon"]
        if each["epsilon"] >= 0
    ]
    columns = ("epsilon", "mechanism", "effective rows", "expected error", "5 % sure becomes")
    forecast = body.get("forecast")
    sections = [] if forecast is None else [Section("What the forecast assumes", (Points.of(forecast["assumptions"]),))]
    caption = "What each epsilon costs, and how sure someone can become whom everything else makes 5 % sure"
    sections.append(Section("Over epsilon", (*_plan_figure(body), Grid.of(caption, columns, rows, (0, 2, 3, 4)))))
    options = (body.get("plan") or {}).get("options", [])[:_MOST_DRAWN]
    if options:
        drawn = [
            (each["mechanism"], max(each["clean_share"], 0.0), f"{each['clean_share']:.1%} of rows", each["best"])
            for each in options
        ]
        what = f"Effective rows of each mechanism at epsilon {epsilon_above(abs(body['plan']['epsilon']))}"
        sections.append(
            Section(
                "Mechanisms compared", (Picture(charts.Bars(what, drawn), f"{what}, at most, as a share of all rows."),)
            )
        )
    return Part(
        "A plan, before anything is spent",
        f"What privacy would cost{per}",
        lead=(NOT_CHECKED,),
        sections=tuple(sections),
    )


def _plan_figure(body: Mapping[str, Any]) -> Iterator[Block]:
    """Effective rows over epsilon."""
    known = [each for each in body["over_epsilon"] if each["share"] is not None and each["epsilon"] >= 0][:_MOST_DRAWN]
    if known:
        drawn = [
            (
                f"epsilon {epsilon_above(each['epsilon'])}",
                max(each["share"], 0.0),
                f"{each['share']:.1%} of rows",
                False,
            )
            for each in known
        ]
        yield Picture(
            charts.Bars("Effective rows over epsilon", drawn),
            "Effective rows: as informative as so many true labels, as a share of all rows.",
        )


def _exposure(found: Mapping[str, Any]) -> Section:
    """The least that public columns and released labels disclose together."""
    terms = (
        (
            "factor by which the odds of a row's true label grow, on average (geometric mean)",
            f"at least {factor_below(found['average'])}",
        ),
        ("of that, by the released label alone", f"at least {factor_below(found['of_label'])}"),
        ("rows that disclose the epsilon of their label or more", f"at least {share_below(found['beyond_epsilon'])}"),
        *(
            (
                f"rows whose columns alone make the label {share(each['certainty'])} sure",
                f"at least {share_below(each['share'])}",
            )
            for each in found["known"]
        ),
    )
    source = Prose(SOURCE[found["public"]], "heed" if found["public"] else "")
    return Section("What public columns and released labels disclose together", (Terms(terms), source))


def _audit(body: Mapping[str, Any]) -> Part:
    """The page of an audit; with attacks or a profile on true labels, for the holder alone."""
    private = any(key in body for key in ("attacks", "limits", "measures", "profile"))
    known = [each for each in body["audits"] if each["lower"] is not None and each["upper"] is not None][:_MOST_DRAWN]
    blocks: list[Block] = []
    if known:
        drawn = [
            (
                f"audit {i}, {each['method']}",
                each["lower"],
                None,
                each["upper"],
                f"{rounded_down(each['lower'])} to {rounded_up(each['upper'])}",
            )
            for i, each in enumerate(known, 1)
        ]
        claim = known[0]["claim"]
        top = max(claim, *(each["upper"] for each in known), 1e-9)
        ends = ((0.0, "0"), (1.25 * top, f"{1.25 * top:.3g}"))
        drawing = charts.Ranges(f"Bounds on epsilon, beside the claim of {claim:.7g}", drawn, ends, claim)
        blocks.append(
            Picture(drawing, "Bounds on epsilon. Dotted: the claim. Bounds that begin beyond it refute the claim.")
        )
    blocks += [Prose(each["sentence"], "" if each["holds"] else "bad") for each in body["audits"][:MOST_ROWS]]
    sections = [Section("Audits", tuple(blocks))]
    if "checks" in body:
        sections.append(
            Section(
                "What was checked",
                (Checks(tuple((c["what"], c["holds"], c["found"]) for c in body["checks"][:MOST_ROWS])),),
            )
        )
    if "exposure" in body:
        sections.append(_exposure(body["exposure"]))
    if "cannot_show" in body:
        sections.append(Section("What an audit cannot show", (Points.of(tuple(body["cannot_show"])),)))
    sections += attack_sections(body)
    if "profile" in body:
        sections.append(Section("Privacy-loss profile", tuple(_profile(body["profile"]))))
    return Part(
        "An audit",
        "No claim was refuted" if body["holds"] else "Refuted: it discloses more than was claimed",
        tone="" if body["holds"] else "bad",
        lead=(NOT_CHECKED,),
        sections=tuple(sections),
        private=private,
    )


def _profile(profile: Mapping[str, Any]) -> Iterator[Block]:
    """The shares of rows that lose more than a threshold."""
    for curve in profile["curves"][:_MOST_DRAWN]:
        rows = [
            (number(tau), share(low), share(value), share(high))
            for tau, low, value, high in zip(
                curve["taus"], curve["lower"], curve["estimate"], curve["upper"], strict=False
            )
        ]
        yield Grid.of(
            f"Rows that lose more, at epsilon {epsilon_above(abs(curve['epsilon']))}",
            ("privacy loss above", "at least", "estimate", "at most"),
            rows,
            (0, 1, 2, 3),
        )


def _check(body: Mapping[str, Any]) -> Part:
    """The page of a check before a release, for the holder alone."""
    label = body["label"]
    counts = [(name, f"{count:,}") for name, count in label["counts"].items()]
    columns = [
        (each["name"], each["kind"], f"{each['different']:,}", "; ".join(each["remarks"])) for each in body["columns"]
    ]
    notes = [*body["notes"], *body["remarks"], *label["remarks"]]
    sections = [
        Section("Labels", (Grid.of(f"Classes of {printable(label['name'])}", ("class", "rows"), counts, (1,)),)),
        Section("Columns", (Grid.of("Columns", ("column", "type", "different", "remarks"), columns, (2,)),)),
    ]
    if notes:
        sections.append(Section("Notes", (Points.of(tuple(notes)),)))
    result = f"{body['rows']:,} rows, looked at before a release"
    return Part("A table, before its release", result, lead=(NOT_CHECKED,), sections=tuple(sections), private=True)


_PARTS: Mapping[str, Callable[[Mapping[str, Any]], Part]] = MappingProxyType(
    {"plan": _plan, "learn": scores_part, "evaluate": scores_part, "audit": _audit, "check": _check}
)
