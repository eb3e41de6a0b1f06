"""Tables and a figure of convex learning, from files of results."""

import math
from pathlib import Path

import _convex_risk as risk
import _convex_tables as tables
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image
from rates import slope

#: Slopes in the number of classes by the orders of the papers: with high, medium and low privacy.
ORDERS = {
    "no privacy": (0.0, 0.0, 0.0),
    "response": (1.0, 1.0, 0.0),
    "response, Theorem 9": (1.0, 1.0, 0.0),
    "bits, Algorithm 1": (0.5, 0.5, 0.0),
    "bits": (0.5, 0.5, 0.0),
    "subset, Appendix A": (0.5, 0.5, 0.0),
    "subset": (0.5, 0.5, 0.0),
    "normal": (0.5, 0.5, 0.5),
    "vector": (0.5, 0.5, 0.5),
}
COLOURS = {
    "no privacy": "black",
    "response": "tab:red",
    "response, Theorem 9": "tab:pink",
    "bits, Algorithm 1": "tab:orange",
    "bits": "tab:brown",
    "subset, Appendix A": "tab:cyan",
    "subset": "tab:blue",
    "subset, training size": "tab:olive",
    "normal": "tab:purple",
    "vector": "tab:green",
}
GROUP = ["law", "classes", "method"]


def line(cells: object) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def head(*cells: str) -> list[str]:
    """The first two lines of a table."""
    return [line(cells), f"|{' --- |' * len(cells)}"]


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Methods in the order in which they were declared."""
    places = rows["method"].map([*risk.METHODS].index)
    return rows.assign(place=places).sort_values(["place", "classes", "rows", "epsilon"], kind="stable")


def of_rows(rows: pd.DataFrame) -> list[str]:
    """Slopes in the rows, and how the risk compares with what is proven."""
    text = head("law", "classes", "method", "rows", "points", "slope", "over upper bound", "over lower bound")
    for (law, k, method), every in rows.groupby(GROUP, sort=False):
        part = every[every["capped"] == 0]
        if len(part) < 3:
            continue
        over = [(part["excess"] / part[column]).dropna() for column in ("upper", "lower")]
        shown = ["" if each.empty else f"{each.min():.2f} to {each.max():.2f}" for each in over]
        ends = f"{part['rows'].min():,} to {part['rows'].max():,}"
        text.append(line([law, k, method, ends, len(part), slope(part), *shown]))
    return text


def fitted(every: pd.DataFrame, regime: str) -> pd.DataFrame:
    """Points that the orders speak of: of a law that is long enough, and in the regime of privacy."""
    part = every[every["capped"] == 0]
    grows = regime == "medium" and not risk.METHODS[every["method"].iloc[0]].told  # from exp(epsilon) classes on
    return part[part["classes"] >= math.exp(every["epsilon"].iloc[0])] if grows else part


def of_classes(rows: pd.DataFrame) -> list[str]:
    """Slopes in the number of classes, in each regime, beside the orders of the papers."""
    text = head("privacy", "method", "rows", "classes", "points", "slope", "order", "over upper bound")
    for place, (regime, (epsilon, _)) in enumerate(risk.REGIMES.items()):
        for method, every in rows[rows["epsilon"] == epsilon].groupby("method", sort=False):
            part = fitted(every, regime)
            if len(part) < 3:
                continue
            ends = f"{part['classes'].min()} to {part['classes'].max()}"
            over = (part["excess"] / part["upper"]).dropna()
            shown = "" if over.empty else f"{over.min():.2f} to {over.max():.2f}"
            cells = [f"{regime}, epsilon {epsilon:g}", method, f"{part['rows'].iloc[0]:,}", ends, len(part)]
            text.append(line([*cells, slope(part), f"{ORDERS[method][place]:g}", shown]))
    return text


def scaled(rows: pd.DataFrame, epsilon: float) -> pd.DataFrame:
    """The excess risk by the root of the rows, and its standard error, by method and classes."""
    part = rows[rows["epsilon"] == epsilon]
    root = np.sqrt(part["rows"])
    part = part.assign(value=part["excess"] * root, error=part["spread"] * root / np.sqrt(part["draws"]))
    return part.set_index(["method", "classes"])[["value", "error", "capped"]]


def regimes(rows: pd.DataFrame) -> list[str]:
    """Excess risk times the root of the rows, in each regime."""
    counts = sorted(rows["classes"].unique())
    text = head("privacy", "method", *(f"{k} classes" for k in counts))
    for regime, (epsilon, _) in risk.REGIMES.items():
        found = scaled(rows, epsilon)
        for method in dict.fromkeys(found.index.get_level_values(0)):
            cells = []
            for k in counts:
                known = (method, k) in found.index
                value, error, capped = found.loc[(method, k)] if known else (0.0, 0.0, 0)
                cells.append(f"{value:.3g} ({error:.1g}){'*' if capped else ''}" if known else "")
            text.append(line([f"{regime}, epsilon {epsilon:g}", method, *cells]))
    return text


def crossings(rows: pd.DataFrame) -> list[str]:
    """Numbers of classes from which randomized response has more excess risk than another method, and the ratios."""
    text = head("privacy", "method", "least classes", "response over it there", "most classes", "and there", "equal at")
    for regime, (epsilon, _) in risk.REGIMES.items():
        found = scaled(rows, epsilon)
        if "response" not in found.index:
            continue
        response = found.loc["response"]
        for method in dict.fromkeys(found.index.get_level_values(0)):
            if method in ("no privacy", "response", "response, Theorem 9"):
                continue
            both = response.join(found.loc[method].add_suffix(" other"), how="inner")
            both = both[(both["capped"] == 0) & (both["capped other"] == 0)]
            if len(both) < 2:
                continue
            ratio = both["value"] / both["value other"]
            error = ratio * np.hypot(both["error"] / both["value"], both["error other"] / both["value other"])
            shown = [f"{ratio[k]:.2f} ({error[k]:.2f})" for k in (ratio.index[0], ratio.index[-1])]
            cells = [ratio.index[0], shown[0], ratio.index[-1], shown[1], equal_at(ratio)]
            text.append(line([f"{regime}, epsilon {epsilon:g}", method, *cells]))
    return text


def equal_at(ratio: pd.Series) -> str:
    """The number of classes above which a ratio stays above one, on lines through its logarithms."""
    x, y = np.log(ratio.index.to_numpy(float)), np.log(ratio.to_numpy())
    below = np.flatnonzero(y <= 0)
    if not below.size:
        return f"below {ratio.index[0]}"
    last = below[-1]
    if last == len(y) - 1:
        return f"above {ratio.index[-1]}"
    return f"{math.exp(x[last] - y[last] * (x[last + 1] - x[last]) / (y[last + 1] - y[last])):.0f}"


def by(rows: pd.DataFrame, column: str, title: str) -> list[str]:
    """Excess risk times the root of the rows, over what is varied."""
    values = sorted(rows[column].unique())
    text = head("method", "rows", *(f"{title} {value:g}" for value in values))
    for (method, n), part in rows.groupby(["method", "rows"], sort=False):
        found = part.set_index(column)
        cells = []
        for value in values:
            if value not in found.index:
                cells.append("")
                continue
            excess, spread, draws, capped = found.loc[value, ["excess", "spread", "draws", "capped"]]
            error = spread / math.sqrt(draws) * math.sqrt(n)
            cells.append(f"{excess * math.sqrt(n):.3g} ({error:.1g}){'*' if capped else ''}")
        text.append(line([method, f"{n:,}", *cells]))
    return text


def of_variance(rows: pd.DataFrame) -> list[str]:
    """Measured and computed, and how many times that of the best is that of randomized response."""
    text = head("classes", "epsilon", "method", "size", "any", "right-angled", "measured", "response over it, measured")
    for (k, epsilon), part in rows.groupby(["classes", "epsilon"], sort=False):
        cells = part.groupby("method", sort=False)["measured"].agg(["mean", "std"])
        base = cells.loc["response", "mean"]
        for method, (mean, std) in cells.iterrows():
            first = part[part["method"] == method].iloc[0]
            size = "" if pd.isna(first["size"]) else f"{first['size']:g}"
            known = [size, f"{first['any']:.5g}", f"{first['formula']:.5g}", f"{mean:.5g} ({std:.1g})"]
            text.append(line([k, epsilon, method, *known, f"{base / mean:.2f}"]))
    return text


def of_table(part: pd.DataFrame, measure: str, title: str) -> list[str]:
    """One measure by mechanism, learner and epsilon: means, and standard deviations over draws."""
    cells = part.groupby(["mechanism", "learner", "epsilon"], sort=False)[measure].agg(["mean", "std"])
    epsilons = sorted(part["epsilon"].unique())
    text = head(title, "learner", *(f"epsilon {each:g}" if each < math.inf else "no privacy" for each in epsilons))
    for way in dict.fromkeys(key[:2] for key in cells.index):
        found = []
        for epsilon in epsilons:
            mean, std = cells.loc[(*way, epsilon)] if (*way, epsilon) in cells.index else (math.nan, math.nan)
            spread = f" ({std:.3f})" if std >= 0 else ""
            found.append("" if math.isnan(mean) else f"{mean:.3f}{spread}")
        text.append(line([*way, *found]))
    return text


def chosen(part: pd.DataFrame) -> list[str]:
    """Loss of the ball that released labels choose above that of the best one in hindsight, in percent."""
    epsilons = sorted(each for each in part["epsilon"].unique() if each < math.inf)
    text = head("ball", *(f"epsilon {each:g}" for each in epsilons))
    balls = part[part["learner"].str.startswith("bound, 5, ball")]
    best = balls.groupby(["epsilon", "draw"])["loss"].min()
    for name, learner in (("auto", "bound, 5"), ("x 1", "bound, 5, ball x 1"), ("x 10", "bound, 5, ball x 10")):
        losses = part[part["learner"] == learner].set_index(["epsilon", "draw"])["loss"]
        over = (100 * (losses / best - 1)).groupby("epsilon").agg(["mean", "max"])
        text.append(line([name, *(f"{over['mean'][each]:.1f} ({over['max'][each]:.1f})" for each in epsilons)]))
    return text


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """Tables of excess risk, variances and losses, of what is there."""
    names = {"risk": "convex_risk", "variance": "convex_variance", "tables": "convex"}
    found = {part: frames[name] for part, name in names.items() if name in frames}
    figure(found, folder / "convex.png")
    text = ["", "Slopes have 95 % intervals."]
    if "risk" in found:
        rows = in_order(found["risk"])
        sweeps = dict(iter(rows.groupby("sweep")))
        text += ["", "## Excess risk over rows", "", *of_rows(sweeps["rows"])]
        text += ["", "## Excess risk over classes", "", *of_classes(sweeps["classes"])]
        text += [
            "",
            "Excess risk times the root of the rows, with standard errors; *: no law is as long as would be hardest.",
            "",
            *regimes(sweeps["classes"]),
            "",
            "Where randomized response is no longer the better one.",
            "",
            *crossings(sweeps["classes"]),
        ]
        for sweep, title in (("epsilon", "epsilon"), ("factor", "length x")):
            if sweep in sweeps:
                text += ["", f"## Excess risk over {sweep}, 100 classes", "", "As above, times the root of the rows."]
                text += ["", *by(sweeps[sweep], sweep, title)]
    if "variance" in found:
        text += ["", "## Variance of released labels", "", *of_variance(found["variance"])]
    for (part, name), rows in found.get("tables", pd.DataFrame(columns=["part", "data"])).groupby(
        ["part", "data"], sort=False
    ):
        first = rows.iloc[0]
        text += ["", f"## {part}, {name}", ""]
        text += [f"{first['rows']:,} rows, {first['columns']} columns, {first['classes']} classes."]
        shown = rows[~rows["learner"].str.startswith("bound, 5, ball x")]
        for measure in ("loss", "accuracy"):
            text += ["", *of_table(shown, measure, measure)]
        if len(shown) < len(rows):
            text += [
                "",
                "What a ball loses to the best in hindsight, in %, with five passes: mean and most over draws.",
                "",
                *chosen(rows),
            ]
    return text


def figure(found: dict[str, pd.DataFrame], path: Path) -> None:
    """Excess risk over classes and rows, and losses on tables over epsilon."""
    drawing = Figure(figsize=(17.0, 8.4), layout="constrained")
    axes = drawing.subplots(2, 4)
    if "risk" in found:
        rows = in_order(found["risk"])
        for place, (regime, (epsilon, _)) in zip(axes[0], risk.REGIMES.items(), strict=False):
            lines(place, rows[(rows["sweep"] == "classes") & (rows["epsilon"] == epsilon)], "classes")
            place.set_title(f"{regime} privacy, epsilon {epsilon:g}")
        lines(axes[0, 3], rows[(rows["sweep"] == "epsilon")], "epsilon")
        axes[0, 3].set_title("100 classes")
        axes[0, 0].set_ylabel("excess risk x root of the rows")
        axes[0, 0].legend(fontsize=7)
    results = found.get("tables", pd.DataFrame(columns=["part", "data"]))
    shown = [("tables", "adult"), ("tables", "mnist"), ("softmax", "diagnoses"), ("softmax", "occupations")]
    for place, (part, name) in zip(axes[1], shown, strict=True):
        rows = results[(results["part"] == part) & (results["data"] == name)]
        if len(rows):
            (settings if part == "tables" else mechanisms)(place, rows)
        place.set(title=f"{part}, {name}", xlabel="epsilon")
        place.set_xscale("log", base=2)
        place.xaxis.set_major_formatter("{x:g}")
        place.set_visible(len(rows) > 0)
    axes[1, 0].set_ylabel("loss of rows held out")
    drawing.savefig(path, dpi=75)
    with Image.open(path) as image:
        image.convert("RGB").quantize(192).save(path, optimize=True)


def lines(place: object, rows: pd.DataFrame, column: str) -> None:
    """A line for each method."""
    for method, part in rows.groupby("method", sort=False):
        root = np.sqrt(part["rows"])
        errors = (part["spread"] / np.sqrt(part["draws"])).fillna(0.0) * root
        looks = {"color": COLOURS[method], "marker": ".", "linewidth": 1.0, "label": method}
        place.errorbar(part[column], part["excess"] * root, errors, **looks)
    place.set(xscale="log", yscale="log", xlabel=column)
    for axis in (place.yaxis, place.xaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    place.grid(alpha=0.3)


def settings(place: object, rows: pd.DataFrame) -> None:
    """A line for some learners from the same release, and what is optimal."""
    private = rows[np.isfinite(rows["epsilon"])]
    for learner in ("bound, 1", "bound, 5", "adaptive, 5", "chua", "likelihood", "moments, long rows cut"):
        means = private[private["learner"] == learner].groupby("epsilon")["loss"].mean()
        place.plot(means, marker=".", linewidth=1.0, label=learner)
    floor(place, rows)


def mechanisms(place: object, rows: pd.DataFrame) -> None:
    """A line for each mechanism, with a ball that is chosen, and dotted with one that is declared."""
    private = rows[np.isfinite(rows["epsilon"])]
    for (mechanism, learner), part in private.groupby(["mechanism", "learner"], sort=False):
        means, dashed = part.groupby("epsilon")["loss"].mean(), learner == tables.DECLARED
        kind = ":" if dashed else "--" if learner == "likelihood" else "-"
        name = mechanism if kind != "--" else f"{mechanism}, {learner}"
        style = {"color": COLOURS[mechanism], "linestyle": kind, "marker": ".", "linewidth": 1.0}
        place.plot(means, label=None if dashed and mechanism in tables.SETS else name, **style)
    floor(place, rows)


def floor(place: object, rows: pd.DataFrame) -> None:
    """Lines of the optimum without privacy and of the shares of the classes."""
    for learner, style in (("optimum", "-"), ("shares", "--")):
        for loss in rows.loc[rows["learner"] == learner, "loss"]:
            place.axhline(loss, color="0.4", linewidth=0.8, linestyle=style, label=learner)
    losses = rows.set_index("learner")["loss"]
    if {"optimum", "shares"} <= set(losses.index):
        low, gap = losses["optimum"], losses["shares"] - losses["optimum"]
        drawn = max(
            (float(np.nanmax(each.get_ydata())) for each in place.lines if len(each.get_ydata()) > 2), default=low
        )
        place.set_ylim(low - 0.05 * gap, min(drawn, low + 1.3 * gap) + 0.05 * gap)
    place.legend(fontsize=7)
    place.grid(alpha=0.3)
