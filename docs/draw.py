"""Draws images/collections.svg from figures/collections.csv: `python docs/draw.py` (extra `report`)."""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib
from matplotlib import pyplot

DOCS = Path(__file__).parent
MODEL = "all-MiniLM-L6-v2"
COLLECTIONS = (
    *("scifact", "nfcorpus", "cranfield", "cacm", "cisi", "lisa", "npl", "demo", "en", "limit"),
    *("relic", "arguana", "wtb", "filings", "de", "es", "zh", "ar", "ru"),
)
# A colour and a marker each, so that no reader depends on the colours.
STYLES = {"cosine": ("#777777", "o"), "bm25": ("#b8860b", "s"), "auto": ("#1f5fa8", "D")}


def main() -> None:
    """Write the picture, with the same bytes each time."""
    pyplot.switch_backend("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "1", "svg.fonttype": "none", "font.size": 10}
    with (DOCS / "figures" / "collections.csv").open(newline="") as file:
        rows = {row["system"]: row for row in csv.DictReader(file) if row["model"] == MODEL}
    figure, axes = pyplot.subplots(figsize=(6.4, 5.6), layout="constrained")
    for place, name in enumerate(COLLECTIONS):
        values = [float(rows[system][name]) for system in STYLES]
        axes.plot([min(values), max(values)], [place, place], color="#cccccc", zorder=1)
    for system, (colour, marker) in STYLES.items():
        values = [float(rows[system][name]) for name in COLLECTIONS]
        axes.scatter(values, range(len(values)), color=colour, marker=marker, s=30, label=system, zorder=2)
    axes.set_yticks(range(len(COLLECTIONS)), COLLECTIONS)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel(f"nDCG@10, {MODEL}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower left")
    figure.savefig(DOCS / "images" / "collections.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
