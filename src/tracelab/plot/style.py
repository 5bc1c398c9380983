"""Style of all figures: palette, sizes, fonts and the maximum height."""

from typing import Any

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
"""Eight colors that color-blind readers can distinguish (Okabe and Ito, 2008), darker ones first."""
REST = "#BBBBBB"
ZERO = "#555555"

DARK = {"#0072B2", "#009E73", "#D55E00", "#000000"}

MAX_INCHES = 20.0
"""A taller figure fits neither a screen nor a page."""

STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.edgecolor": "#555555",
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "text.parse_math": False,  # a kernel may be named $x$
    "text.usetex": False,
    "svg.hashsalt": "tracelab",  # the same result gives the same file
    "pdf.fonttype": 42,
    "figure.dpi": 100,
    "savefig.dpi": 200,
}
