"""Measure how long `tracelab --help` takes beyond a bare Python."""

from dataclasses import dataclass

from process_cost import cost, median, python

PAIRS = 15


@dataclass
class Start:
    """Medians over pairs, each of which ran one after the other."""

    help_s: float
    bare_s: float
    above_s: float


def measure(pairs: int = PAIRS) -> Start:
    """Run both, in turn. The first pair warms the disk's cache and does not count."""
    runs = [
        (cost(python("-m", "tracelab", "--help")).wall_s, cost(python("-c", "pass")).wall_s) for _ in range(1 + pairs)
    ][1:]
    return Start(
        help_s=median([helped for helped, _ in runs]),
        bare_s=median([bare for _, bare in runs]),
        above_s=median([helped - bare for helped, bare in runs]),
    )
