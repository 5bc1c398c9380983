"""Gates: a metric that may not grow by more than some percent, as `--fail-on "step_time > 3%"`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tracelab.compare.verdicts import FASTER, LEAST_EFFECT, SLOWER, MetricRow
from tracelab.errors import UsageError

PASSED, FAILED, UNDECIDED = "passed", "failed", "undecided"
_GATE = re.compile(r"\s*(?P<metric>\S.*?)\s*>\s*(?P<percent>\d+(?:\.\d+)?)\s*%?\s*")


@dataclass(frozen=True)
class Gate:
    """A metric, and the growth in percent above which the gate fails."""

    metric: str
    percent: float

    def __str__(self) -> str:
        return f"{self.metric} > {self.percent:g}%"


@dataclass(frozen=True)
class GateResult:
    """A gate with its verdict, and the row that it follows from: None where it is 0 on both sides, or unknown."""

    gate: Gate
    verdict: str
    row: MetricRow | None
    reason: str | None = None
    """Why the metric is unknown."""


def parse_gate(text: str) -> Gate:
    """Parse METRIC > PERCENT, with or without the sign. Raises UsageError for anything else."""
    match = _GATE.fullmatch(text)
    if match is None:
        raise UsageError(f"--fail-on {text!r}: expected METRIC > PERCENT%, such as 'step_time > 3%'")
    return Gate(match["metric"], float(match["percent"]))


def check_gate(gate: Gate, rows: Sequence[MetricRow], reason: str | None = None) -> GateResult:
    """Return whether a growth beyond the gate is proven (failed), excluded (passed), or neither (undecided).

    It is proven where the metric is slower and its whole interval lies above the percentage. It is excluded where the
    metric is faster, or where recordings decide and the whole interval lies at or below the percentage (0.5 % for a
    smaller one: smaller effects are no difference). With a `reason` why the metric is not known it is neither.
    """
    if reason is not None:
        return GateResult(gate, UNDECIDED, None, reason)
    row = next((each for each in rows if each.metric == gate.metric), None)
    if row is None:
        return GateResult(gate, PASSED, None)
    limit = gate.percent / 100
    low, high = _interval(row)
    if row.verdict == SLOWER and low is not None and low > limit:
        return GateResult(gate, FAILED, row)
    bounded = row.evidence == "recordings" and high is not None and high <= max(limit, LEAST_EFFECT)
    return GateResult(gate, PASSED if row.verdict == FASTER or bounded else UNDECIDED, row)


def _interval(row: MetricRow) -> tuple[float | None, float | None]:
    """Return the interval as ratios. From 0, any growth is infinite."""
    if row.effect is not None:
        return row.low, row.high
    if row.difference_low is None or row.difference_high is None:
        return None, None
    if row.base > 0:
        return row.difference_low / row.base, row.difference_high / row.base
    return tuple(float("inf") if each > 0 else 0.0 for each in (row.difference_low, row.difference_high))  # type: ignore[return-value]  # two of two
