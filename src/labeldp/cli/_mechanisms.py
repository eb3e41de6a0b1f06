"""``labeldp mechanisms``: every installed mechanism, and who sees true labels with it."""

from __future__ import annotations

from labeldp import release as releases
from labeldp import render, results
from labeldp.cli._terminal import show

_AUTO = "auto"
_NOTES = (
    "'auto' takes one of these for the labels at hand. 'labeldp plan --detail' compares what they cost.",
    "With 'cluster', 'bins', 'optimal-counts' and the noisy answers you are a trusted curator: true labels are counted "
    "with noise, and labels or counts leave.",
    "'peer' simulates users who exchange labels inside clusters, and 'shuffle' a shuffler of the randomized labels of "
    "each cluster. Their guarantees do not hold against those who watch the exchange or the shuffling.",
    "'double' is for features that are private too and that disclose the label: it resamples the features of some "
    "rows. 'dummy' releases no features.",
)


def mechanisms() -> None:
    """List every installed mechanism: for classes, for numeric labels, and those of other packages."""
    known = [each for name, each in sorted(releases.table_mechanisms().items()) if name != _AUTO]
    titles = {False: "For classes (--classes)", True: "For numeric labels (--interval)"}
    rows = {kind: [(each.name, each.about) for each in known if each.numeric is kind] for kind in titles}
    grids = [results.Grid.of(titles[kind], ("--mechanism", "what it does"), rows[kind]) for kind in titles]
    part = results.Part("Mechanisms", "Mechanisms", sections=tuple(results.Section("", (grid,)) for grid in grids))
    show(*render.on_terminal(part), "", *_NOTES)
