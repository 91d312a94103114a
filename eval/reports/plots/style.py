"""Colours and sizes of plots. Lengths are points, of which a figure has 72 an inch."""

from __future__ import annotations

# Okabe and Ito's colours, which the colour-blind can distinguish; without yellow, which is faint on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
GAIN, LOSS = COLOURS[:2]
LINES = ("-", "--", "-.", ":")
MARKERS = "os^DvPX"
INK, FAINT, GRID, BAND, PAPER = "#222222", "#666666", "#dddddd", "#eeeeee", "#ffffff"

# Small and with large letters, to be read on a phone without scrolling.
WIDTH, HEIGHT = 460.8, 295.2
ROW = 20.0  # of a name, a bar, or a system
LABEL, LEGEND, NAME, SMALL = 12.0, 11.0, 10.5, 9.5  # sizes of letters
LEFT = 0.42 * WIDTH  # at most, of names beside bars

STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.formatter.useoffset": False,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": LABEL,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": LABEL,
    "figure.dpi": 72,
    "font.size": 11.5,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.fontsize": LEGEND,
    "legend.frameon": False,
    "legend.handlelength": 3,
    # Texts stay texts, to be searched; a dollar in them begins no formula.
    "svg.fonttype": "none",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


def sign_colour(value: float) -> str:
    """Of a gain, or of a loss."""
    return LOSS if value < 0 else GAIN
