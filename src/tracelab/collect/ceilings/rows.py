"""Convert times to rows of `ceilings`; the only place that counts bytes and FLOPs."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """One stream kernel over arrays of N bytes: its name, and how many arrays it reads and writes."""

    metric: str
    reads: int
    writes: int

    def moved(self, array_bytes: int) -> int:
        """Return the bytes that one repetition moves."""
        return (self.reads + self.writes) * array_bytes


STREAMS = (
    Stream("dram_copy", 1, 1),
    Stream("dram_scale", 1, 1),
    Stream("dram_add", 2, 1),
    Stream("dram_triad", 2, 1),
    Stream("dram_dot", 2, 0),
)
"""The five kernels of BabelStream, with its byte counts."""


def bus_factor(metric: str, ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth, as nccl-tests defines it."""
    return {"broadcast": 1.0, "all_reduce": 2 * (ranks - 1) / ranks}[metric]


def gemm_flop(n: int) -> int:
    """Return the FLOPs of a product of two square matrices: n³ multiply-adds, two each."""
    return 2 * n**3


def rate(metric: str, amount: int, times_ns: Sequence[float], unit: str, counting: str) -> Row:
    """Return a row of best and median; bytes per ns are GB/s, FLOPs per ns are GFLOP/s."""
    return {
        "metric": metric,
        "best": amount / min(times_ns),
        "median": amount / statistics.median(times_ns),
        "repeats": len(times_ns),
        "unit": unit,
        "counting": counting,
    }


def stream(kernel: Stream, array_bytes: int, times_ns: Sequence[float]) -> Row:
    """Return the bandwidth of a stream kernel."""
    counting = f"read + write, {kernel.reads}N + {kernel.writes}N of doubles"
    moved = kernel.moved(array_bytes)
    return rate(kernel.metric, moved, times_ns, "gb_per_s", counting) | {"size_bytes": moved}


def gemm(precision: str, n: int, element_bytes: int, times_ns: Sequence[float]) -> Row:
    """Return the FLOP rate of a matrix product."""
    row = rate(f"gemm_{precision}", gemm_flop(n), times_ns, "gflop_per_s", f"2n³, n = {n}")
    return row | {"size_bytes": 3 * n * n * element_bytes}


def copy(metric: str, size_bytes: int, times_ns: Sequence[float]) -> Row:
    """Return the bandwidth of a copy."""
    return rate(metric, size_bytes, times_ns, "gb_per_s", "bytes copied, once") | {"size_bytes": size_bytes}


def collective(metric: str, size_bytes: int, ranks: int, backend: str, times_ns: Sequence[float]) -> list[Row]:
    """Return algorithm and bus bandwidth of a collective; each time is that of the slowest rank."""
    counting = f"S / t of the slowest of {ranks} ranks, {backend}"
    algorithm = rate(f"{metric}_algbw", size_bytes, times_ns, "gb_per_s", counting)
    factor = bus_factor(metric, ranks)
    bus = algorithm | {
        "metric": f"{metric}_busbw",
        "best": algorithm["best"] * factor,
        "median": algorithm["median"] * factor,
        "counting": f"{factor:.4g} × {counting}",
    }
    return [row | {"size_bytes": size_bytes} for row in (algorithm, bus)]


def fitted_rows(metric: str, medians_ns: Mapping[int, float]) -> list[Row]:
    """Return latency, bandwidth, and the size that reaches half of it, fitted to all copies of a kind.

    Time is latency + size / bandwidth, by least squares of relative errors, so that every size has equal weight.
    """
    line = fit_copy_times(medians_ns)
    if line is None:
        return []
    latency_ns, gb_per_s = line
    counting = f"time = latency + size / bandwidth, fitted to {len(medians_ns)} sizes"
    rows = [_one(f"{metric}_fit", gb_per_s, "gb_per_s", counting, None)]
    if latency_ns > 0:
        half = round(latency_ns * gb_per_s)
        rows.append(_one(f"{metric}_latency", latency_ns, "ns", counting, None))
        rows.append(_one(f"{metric}_half", gb_per_s / 2, "gb_per_s", f"the size that reaches half; {counting}", half))
    return rows


def fit_copy_times(times_ns: Mapping[int, float]) -> tuple[float, float] | None:
    """Return latency and bandwidth; None for fewer than two sizes, or if larger copies take no longer."""
    points = [(size, time) for size, time in times_ns.items() if time > 0]
    total = sum(1 / time**2 for _, time in points)
    if len(points) <= 1:
        return None
    mean_size = sum(size / time**2 for size, time in points) / total
    mean_time = sum(1 / time for _, time in points) / total
    spread = sum((size - mean_size) ** 2 / time**2 for size, time in points)
    slope = sum((size - mean_size) * (time - mean_time) / time**2 for size, time in points) / spread if spread else 0.0
    return (mean_time - slope * mean_size, 1 / slope) if slope > 0 else None


def _one(metric: str, value: float, unit: str, counting: str, size_bytes: int | None) -> Row:
    return {
        "metric": metric,
        "size_bytes": size_bytes,
        "best": value,
        "median": value,
        "repeats": None,
        "unit": unit,
        "counting": counting,
    }
