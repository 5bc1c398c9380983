"""Sentences about what a comparison rests on, and what limits it."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from tracelab.compare import metrics
from tracelab.compare.comparability import FactRow, Facts
from tracelab.compare.kernel_matching import Matching
from tracelab.compare.recordings import RECORDED, WHOLE
from tracelab.compare.verdicts import LEAST_RECORDINGS, MetricRow, Series
from tracelab.output.labels import Quantity, format_scaled
from tracelab.store.scope.start_up import StartUp

_LEAST_MATCHED = 0.5
_WIDE_SPREAD = 1.2
LEAST_UNASSIGNED = 0.001
"""Share of a recording's GPU time that no step launched, from which on it is stated."""

Sides = Sequence[Sequence[Series]]
"""The series of each recording, of base and candidate."""


def list_warnings(unit: str, matching: Matching, facts: Sequence[FactRow], metric: str, sides: Sides) -> list[str]:
    """Return what a reader must know before the figures; `metric` is that of the verdict."""
    warnings = []
    if matching.shares and min(matching.matched) < _LEAST_MATCHED:
        warnings.append(
            f"Only {min(matching.matched) * 100:.0f} % of the kernel time is matched: the sides may do different work."
        )
    if unit == WHOLE:
        warnings.append(
            "Not all recordings have steps, so whole recordings are compared, which means little unless all did the "
            "same work; mark steps with record_function('step 1') or NVTX ranges, or pass --step-name."
        )
    allowed = [each.label for each in facts if each.allowed]
    if allowed:
        warnings.append(
            f"Compared although the sides differ in {', '.join(allowed)}: effects include these differences."
        )
    for name, side in zip(("base", "candidate"), sides, strict=True):
        values = [metrics.median(each[metric]) for each in side if metric in each]
        if values and min(values) > 0 and (spread := max(values) / min(values)) > _WIDE_SPREAD:
            warnings.append(
                f"Recordings of the {name} differ by up to {(spread - 1) * 100:,.0f} % in {metric}: only larger "
                "effects can be proven. Record on a machine without other jobs, or with fixed clocks."
            )
    return warnings


def describe_core_waits(facts: Mapping[str, Facts], runs: Sequence[str]) -> list[str]:
    """Return how long threads waited for cores in the run where they did most, and how many other runs lacked cores."""
    lacking = [run for run in runs if facts[run].get("core_wait")]
    waited = sorted(lacking, key=lambda run: -facts[run]["core_wait_ratio"])
    if not waited:
        return []
    first, *others = waited
    more = f" So did those of {len(others):,} other run{'s' * (len(others) > 1)}." if others else ""
    return [f"{first}: {facts[first]['core_wait']}.{more} Times include these waits."]


def describe_recording_costs(costs: pl.DataFrame, base: Sequence[str], candidate: Sequence[str]) -> list[str]:
    """Return by how much a profiler slows the compared steps of a side, and how steps compare that it did not record.

    `costs` are rows of recording_costs() by run, whose other steps are the slower ones of those before and after the
    recording. Nothing where it slows less than half of the recordings of each side.
    """
    sides = {name: costs.filter(pl.col("run").is_in(runs)) for name, runs in (("base", base), ("candidate", candidate))}
    if not any(side.height and 2 * side["is_slower"].sum() >= side.height for side in sides.values()):
        return []
    known = {name: side for name, side in sides.items() if side.height}
    recorded, other = (
        {name: float(np.median(side[column])) for name, side in known.items()} for column in ("recorded_ns", "other_ns")
    )
    factors = [f"{recorded[name] / other[name]:.2f} times as long in the {name}" for name in known]
    first = (
        f"Recorded steps take {' and '.join(factors)} as the slower of the steps before and after them, waits for "
        "data left out"
    )
    included = "step time, idle time and ops on the CPU include what recording costs"
    if len(known) < len(sides):
        unknown = next(name for name in sides if name not in known)
        return [f"{first}: {included}. How much it costs the {unknown} is not known."]
    changes = [
        f"{100 * (each['candidate'] / each['base'] - 1):+,.1f} %".replace("-", "−") for each in (recorded, other)
    ]
    values = " → ".join(format_scaled(round(other[name]), Quantity.DURATION) for name in sides)
    return [
        f"{first}: {included}. By these recorded steps the change is {changes[0]}, by the other steps {values} "
        f"({changes[1]})."
    ]


def list_notes(
    unit: str, matching: Matching, facts: Sequence[FactRow], sides: Sides, rows: Sequence[MetricRow]
) -> list[str]:
    """Return what is not compared or not known."""
    notes = []
    has_intervals = any(row.low is not None for row in rows)
    if unit == RECORDED:
        notes.append(
            "The recordings have step times of their run folders and no traces of steps, so only these are compared."
        )
    if min(map(len, sides)) < LEAST_RECORDINGS:
        notes.append(
            f"Below {LEAST_RECORDINGS} recordings of each side no verdict is possible: how much recordings of one "
            "version differ is not known."
            + (
                " Intervals are those of blocks of steps, so they show what varies within the recordings."
                if has_intervals
                else ""
            )
        )
    if mixes_profilers(facts):
        notes.append(
            "Two profilers recorded the sides, and each slows down the host by its own measure: step time, idle time, "
            "exposed time and ops are not compared."
        )
    known = {each.fact: each.verdict for each in facts}
    if matching.shares and known.get("gpu", "unknown") == "unknown":
        notes.append("Whether both sides ran on one GPU model is not known: a recording does not name its GPU.")
    if _has_longer_gpu_time(rows):
        notes.append(
            "GPU time exceeds the step time where rows of a step run beside those of the step before, such as copies "
            "of its batch: they count in their own step, which lasts from the completion of the one before to its own."
        )
    if any(row.effect and row.effect * (row.candidate - row.base) < 0 for row in rows):
        notes.append(
            "A change is the median of the changes between every two recordings, and the values are medians of their "
            "side: where they are close, one may rise while the other falls."
        )
    return notes


def _has_longer_gpu_time(rows: Sequence[MetricRow]) -> bool:
    """Return whether GPUs work for a step longer than it lasts, on either side."""
    gpu, step = (
        [(row.base, row.candidate) for row in rows if row.metric == name] for name in ("gpu_time", "step_time")
    )
    return any(
        gpu_ns > step_ns
        for gpus, steps in zip(gpu, step, strict=False)
        for gpu_ns, step_ns in zip(gpus, steps, strict=True)
    )


def describe_starts(starts_ns: Mapping[str, int]) -> list[str]:
    """Return which program starts are left out, by run."""
    if not starts_ns:
        return []
    parts = [f"{run} ({format_scaled(length_ns, Quantity.DURATION)})" for run, length_ns in starts_ns.items()]
    return [f"The start of the program is left out of {', '.join(parts)}; --whole includes it."]


def describe_start_ups(start_ups: Mapping[str, StartUp]) -> list[str]:
    """Return which recordings without steps include a start in which the GPUs do next to nothing."""
    if not start_ups:
        return []
    parts = [f"{each.amount} of {run}" for run, each in start_ups.items()]
    return [
        "The values include how the recordings begin, before their GPUs have done 1 % of their work: "
        f"{', '.join(parts)}. Mark steps, and only these are compared."
    ]


def describe_unassigned(gpu_rows: pl.DataFrame, runs: Sequence[str]) -> list[str]:
    """Return the GPU work that no step launched, of which no metric has any, where a run has more than a little."""
    if not gpu_rows.height:
        return []
    parts = []
    for run in runs:
        of_run = gpu_rows.filter(pl.col("run") == run)
        outside = of_run.filter(pl.col("step_id").is_null())
        total_ns = outside["dur_ns"].sum()
        if total_ns < max(1, LEAST_UNASSIGNED * int(of_run["dur_ns"].sum())):
            continue
        name = pl.when(pl.col("kind") == "kernel").then(pl.col("class")).otherwise(pl.col("name"))
        largest, largest_ns = outside.group_by(name=name).agg(pl.col("dur_ns").sum()).sort("dur_ns", "name").rows()[-1]
        lengths = [format_scaled(int(each), Quantity.DURATION) for each in (total_ns, largest_ns)]
        rows = int(outside["executions"].sum())
        count = f"{rows:,} row{'s' * (rows != 1)}"
        parts.append(f"{count} of {lengths[0]} in {run} (most: {largest}, {lengths[1]})")
    if not parts:
        return []
    return [
        f"GPU work that was launched before, between or behind the ranges of steps is in no metric: {', '.join(parts)}."
    ]


def mixes_profilers(facts: Sequence[FactRow]) -> bool:
    """Return whether several profilers recorded the sides."""
    return any(each.fact == "profiler" and each.verdict == "different" for each in facts)
