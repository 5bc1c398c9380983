"""Convert times to rows of `ceilings`; the only place that counts bytes and FLOPs."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracelab.collect.ceilings.sizes import MIB
from tracelab.collect.ceilings.timing import Times

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
    share = (ranks - 1) / ranks
    factors = {"all_reduce": 2 * share, "all_gather": share, "reduce_scatter": share, "all_to_all": share}
    return {"broadcast": 1.0, **factors}[metric]


def gemm_flop(n: int) -> int:
    """Return the FLOPs of a product of two square matrices: n³ multiply-adds, two each."""
    return 2 * n**3


def rate(metric: str, amount: int, times: Times, unit: str, counting: str) -> Row:
    """Return a row of best, median and sustained median; bytes per ns are GB/s, FLOPs per ns are GFLOP/s."""
    row = {
        "metric": metric,
        "best": amount / min(times.all_ns),
        "median": amount / statistics.median(times.all_ns),
        "repeats": len(times.all_ns),
        "unit": unit,
        "counting": counting + times.counting(),
    }
    return row | _sustained(times, lambda time_ns: amount / time_ns)


def _sustained(times: Times, rate_of: Callable[[float], float]) -> Row:
    """Return the columns of the sustained window; none where nothing was measured in it."""
    if not times.sustained_ns:
        return {}
    median_ns = statistics.median(times.sustained_ns)
    return {"sustained": rate_of(median_ns), "sustained_s": times.sustained_s, "warmup_s": times.warmup_s}


def skipped(metric: str, reason: str) -> Row:
    """Return the row of a measurement that was skipped."""
    return {"metric": metric, "skipped": reason}


def stream(kernel: Stream, array_bytes: int, times: Times) -> Row:
    """Return the bandwidth of a stream kernel."""
    counting = f"read + write, {kernel.reads}N + {kernel.writes}N of doubles"
    moved = kernel.moved(array_bytes)
    return rate(kernel.metric, moved, times, "gb_per_s", counting) | {"size_bytes": moved}


def cache_stream(kernel: Stream, cache_bytes: int, array_bytes: Sequence[int], times: Sequence[Times]) -> Iterator[Row]:
    """Yield the bandwidth of a stream kernel in a cache: the difference of two sizes, which launches do not slow down.

    Yields nothing where the larger arrays take no longer.
    """
    moved = [kernel.moved(each) for each in array_bytes]
    kinds = {
        "best": [min(each.all_ns) for each in times],
        "median": [statistics.median(each.all_ns) for each in times],
        "sustained": [statistics.median(each.sustained_ns) for each in times if each.sustained_ns],
    }
    gained = {name: each[1] - each[0] for name, each in kinds.items() if len(each) == len(moved)}
    if min(gained["best"], gained["median"]) <= 0:
        return
    sizes = " and ".join(f"{each / MIB:.3g}" for each in moved)
    counting = (
        f"read + write, {kernel.reads}N + {kernel.writes}N of doubles; difference of {sizes} MiB moved, "
        f"in a cache of {cache_bytes / MIB:.3g} MiB"
    )
    yield {
        "metric": kernel.metric.replace("dram", "l2"),
        "size_bytes": moved[1],
        **{name: (moved[1] - moved[0]) / each for name, each in gained.items() if each > 0},
        "repeats": len(times[1].all_ns),
        "unit": "gb_per_s",
        "counting": counting + times[1].counting(),
        "sustained_s": times[1].sustained_s,
        "warmup_s": times[1].warmup_s,
    }


def gemm(precision: str, n: int, layout: str, element_bytes: int, times: Times) -> Row:
    """Return the rate of a matrix product: FLOPs, or operations of integers."""
    what = {"int8": "2n³ integer operations", "fp8": "2n³, e4m3"}.get(precision, "2n³")
    row = rate(f"gemm_{precision}", gemm_flop(n), times, "gflop_per_s", f"{what}, n = {n}")
    return row | {"size_bytes": 3 * n * n * element_bytes, "layout": layout}


def copy(metric: str, size_bytes: int, moved_bytes: int, counting: str, times: Times) -> Row:
    """Return the bandwidth of a copy; `size_bytes` is that of one direction."""
    return rate(metric, moved_bytes, times, "gb_per_s", counting) | {"size_bytes": size_bytes}


def collective(
    metric: str, size_bytes: int, ranks: int, backend: str, calls: int, times_ns: Sequence[float]
) -> list[Row]:
    """Return algorithm and bus bandwidth of a collective; a time is the mean of some calls on the slowest rank."""
    counting = f"S / t of the slowest of {ranks} ranks, {backend}, mean of {calls} calls"
    algorithm = rate(f"{metric}_algbw", size_bytes, Times(list(times_ns), [], 0.0), "gb_per_s", counting)
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
