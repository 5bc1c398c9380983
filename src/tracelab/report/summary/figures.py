"""The five figures of a run, each with its denominator, or with what to record where it cannot be known."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tracelab.output.units import Quantity, format_scaled


@dataclass(frozen=True)
class Figure:
    """One figure of a run; `value` is in ns or a ratio, and None where `note` states what to record."""

    name: str
    value: float | None
    text: str
    note: str


_CLASSES = 4
Rows = list[dict[str, Any]]


def compute_figures(tables: Mapping[str, pa.Table | None], missing: Mapping[str, str], run: str) -> list[Figure]:
    """Compute the figures of a run from the answers by query, and the reasons why some have none."""

    def rows(name: str) -> Rows:
        table = tables.get(name)
        return [] if table is None else [row for row in table.to_pylist() if row["run"] == run]

    breakdown, causes = rows("gpu_breakdown"), rows("idle_causes")
    return [
        _step_time(rows("step_breakdown")),
        _gpu_busy(breakdown, missing),
        _exposed_communication(breakdown),
        _host_bound(causes),
        _mfu(rows("mfu"), missing),
    ]


def describe_kernels(table: pa.Table | None, run: str) -> str:
    """Return which classes of kernels take most of the kernel time of a run, communication apart; empty without any."""
    rows = [row for row in table.to_pylist() if row["run"] == run] if table is not None else []
    spent: dict[str, int] = {}
    for row in rows:
        if row["class"] != "communication" and row["dur_ns"]:
            spent[row["class"]] = spent.get(row["class"], 0) + row["dur_ns"]
    first = sorted(spent.items(), key=lambda each: -each[1])[:_CLASSES]
    total = sum(spent.values())
    return ", ".join(f"{name} {format_share(dur_ns / total)}" for name, dur_ns in first)


def format_share(ratio: float) -> str:
    """Format a ratio in percent, with one digit after the point."""
    return f"{100 * ratio:.1f} %"


def _time(ns: float) -> str:
    return format_scaled(ns, Quantity.DURATION)


def _step_time(rows: Rows) -> Figure:
    known = [row for row in rows if row["step"] is not None and row["step_ns"] is not None]
    if not known:
        note = "no step is marked; call profiler.step() in the loop, or put each step into an NVTX range `step N`"
        return Figure("step time", None, "unknown", note)
    lengths = [int(row["step_ns"]) for row in known]
    steps, ranks = len({row["step"] for row in known}), len({row["rank"] for row in known})
    spread = "" if len(lengths) == 1 else f", {_time(min(lengths))} to {_time(max(lengths))}"
    of = f"{_count(steps, 'step')}" + (f" on {_count(ranks, 'rank')}" if ranks > 1 else "")
    median = statistics.median(lengths)
    return Figure("step time", median, _time(median), f"median of {of}{spread}")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _gpu_busy(rows: Rows, missing: Mapping[str, str]) -> Figure:
    window_ns = sum(row["window_ns"] for row in rows)
    if not window_ns:
        return Figure("GPU busy", None, "unknown", missing.get("gpu_breakdown") or "no GPU activity is recorded")
    busy = [1 - row["idle_ns"] / row["window_ns"] for row in rows if row["window_ns"]]
    mean = 1 - sum(row["idle_ns"] for row in rows) / window_ns
    spread = f", {format_share(min(busy))} to {format_share(max(busy))}" if len(busy) > 1 else ""
    return Figure("GPU busy", mean, format_share(mean), f"of the windows of {_count(len(rows), 'GPU')}{spread}")


def _exposed_communication(rows: Rows) -> Figure:
    window_ns = sum(row["window_ns"] for row in rows)
    if not window_ns:
        return Figure("exposed communication", None, "unknown", "no GPU activity is recorded")
    if not any(row["comm_ns"] for row in rows):
        return Figure("exposed communication", 0.0, "none", "no kernel communicates")
    share = sum(row["exposed_comm_ns"] for row in rows) / window_ns
    all_ns = sum(row["comm_ns"] for row in rows)
    note = f"of the windows, the waiting for other ranks included; all communication {format_share(all_ns / window_ns)}"
    return Figure("exposed communication", share, format_share(share), note)


def _host_bound(rows: Rows) -> Figure:
    window_ns = sum(row["window_ns"] for row in rows)
    if not window_ns:
        note = "no GPU idles before work whose launch is known; record CPU and CUDA activities together"
        return Figure("host-bound", None, "unknown", note)
    host_ns, unknown_ns = (sum(row[name] for row in rows) for name in ("host_ns", "unknown_ns"))
    idle_ns = sum(row["idle_ns"] for row in rows)
    if idle_ns and unknown_ns == idle_ns:
        note = "no launch is recorded; record CPU and CUDA activities together"
        return Figure("host-bound", None, "unknown", note)
    unknown = f"; {format_share(unknown_ns / window_ns)} more idle for unknown causes" if unknown_ns else ""
    share = host_ns / window_ns
    return Figure("host-bound", share, format_share(share), f"of the windows idle until the CPU launches work{unknown}")


def _mfu(rows: Rows, missing: Mapping[str, str]) -> Figure:
    known = [row for row in rows if row["mfu_ratio"] is not None]
    if known:
        mean = sum(row["mfu_ratio"] for row in known) / len(known)
        peak = f"of {known[0]['peak_gflop_per_s'] / 1000:,.1f} TFLOP/s in {known[0]['precision']}"
        return Figure("MFU", mean, format_share(mean), f"{peak}, by the {known[0]['peak_source']} peak")
    refused = sorted({str(row["refused"]) for row in rows if row["refused"]})
    reason = "; ".join(refused) if refused and "mfu" not in missing else "no FLOPs are counted"
    return Figure("MFU", None, "unknown", f"{reason}; ingest ncu's counts, or tracelab query mfu --flop-per-step N")
