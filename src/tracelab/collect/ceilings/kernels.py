"""Measure streams, matrix products and copies on one device, with random data: zeros draw less power."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tracelab.collect.ceilings import rows
from tracelab.collect.ceilings.sizes import LEAST_REPEATS, MOST_REPEATS, Sizes
from tracelab.collect.training.model_setup import set_precision

_DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
_AMPERE = 8
_SCALAR = 0.4


@dataclass(frozen=True)
class Bench:
    """One device and the sizes to measure on it."""

    torch: Any
    device: Any
    """A torch.device."""
    sizes: Sizes

    @property
    def cuda(self) -> bool:
        """Whether that is a GPU."""
        return bool(self.device.type == "cuda")

    def random(self, *shape: int, dtype: Any) -> Any:  # noqa: ANN401  torch carries no types here
        """Return random numbers, generated on the device in a precision that every device supports."""
        wide = self.torch.float64 if dtype == self.torch.float64 else self.torch.float32
        return self.torch.randn(*shape, dtype=wide, device=self.device).to(dtype)


Measured = tuple[str, Callable[[], list[rows.Row]]]
"""Name of a measurement, and the function that performs it."""


def measurements(bench: Bench, parts: tuple[str, ...]) -> Iterator[Measured]:
    """Yield every measurement of the parts."""
    if "stream" in parts:
        yield "stream", partial(measure_streams, bench)
    if "gemm" in parts:
        for precision in supported_precisions(bench):
            yield f"gemm_{precision}", partial(measure_gemm, bench, precision)
    if "copies" in parts:
        for metric in ("h2d_pinned", "h2d_pageable", "d2h_pinned", "d2h_pageable") if bench.cuda else ("h2h_pageable",):
            yield metric, partial(measure_copies, bench, metric)


def measure_streams(bench: Bench) -> list[rows.Row]:
    """Measure copy, scale, add, triad and dot over arrays larger than any cache."""
    torch, length = bench.torch, bench.sizes.array_bytes // 8
    a, b, c = (bench.random(length, dtype=torch.float64) for _ in range(3))
    works = {
        "dram_copy": lambda: c.copy_(a),
        "dram_scale": lambda: torch.mul(c, _SCALAR, out=b),
        "dram_add": lambda: torch.add(a, b, out=c),
        "dram_triad": lambda: torch.add(b, c, alpha=_SCALAR, out=a),
        "dram_dot": lambda: torch.dot(a, b),
    }
    times = {metric: times_ns(bench, work, bench.sizes.stream_s) for metric, work in works.items()}
    return [rows.stream(each, 8 * length, times[each.metric]) for each in rows.STREAMS]


def measure_gemm(bench: Bench, precision: str) -> list[rows.Row]:
    """Measure a product of square matrices."""
    torch, n = bench.torch, bench.sizes.gemm
    dtype = getattr(torch, _DTYPES[precision])
    a, b = (bench.random(n, n, dtype=dtype) for _ in range(2))
    c = torch.empty_like(a)
    set_precision(torch, precision)
    try:
        times = times_ns(bench, lambda: torch.matmul(a, b, out=c), bench.sizes.gemm_s)
        return [rows.gemm(precision, n, a.element_size(), times)]
    finally:
        set_precision(torch, "fp32")


def supported_precisions(bench: Bench) -> list[str]:
    """Return the precisions the device computes natively; fp16 on a CPU is excluded because it takes seconds."""
    if not bench.cuda:
        return ["fp32", "bf16", "fp64"]
    modern = bench.torch.cuda.get_device_capability(bench.device)[0] >= _AMPERE
    return ["fp32", "tf32", "bf16", "fp16", "fp64"] if modern else ["fp32", "fp16", "fp64"]


def measure_copies(bench: Bench, metric: str) -> list[rows.Row]:
    """Measure copies of all sizes, and fit latency and bandwidth to them."""
    measured, medians = [], {}
    for size_bytes in bench.sizes.copies:
        source, target = _ends(bench, metric, size_bytes)
        times = times_ns(bench, lambda: target.copy_(source, non_blocking=True))  # noqa: B023  used at once
        measured.append(rows.copy(metric, size_bytes, times))
        medians[size_bytes] = statistics.median(times)
    return [*measured, *rows.fitted_rows(metric, medians)]


def _ends(bench: Bench, metric: str, size_bytes: int) -> tuple[Any, Any]:
    """Return source and target of a copy: h2d_pinned copies from pinned memory to the device."""
    torch, (way, kind) = bench.torch, metric.split("_")
    there = bench.random(size_bytes // 4, dtype=torch.float32)
    host = torch.randn(size_bytes // 4, pin_memory=kind == "pinned")
    return {"h2d": (host, there), "d2h": (there, host), "h2h": (host, there)}[way]


def times_ns(bench: Bench, work: Callable[[], object], least_s: float = 0.0) -> list[float]:
    """Return times of single repetitions over at least `least_s`: on a GPU between two events, else by the clock."""
    sizes, clock = bench.sizes, time.perf_counter_ns
    for _ in range(sizes.warmups):
        work()
    _wait(bench)
    begun = clock()
    work()
    _wait(bench)
    repeats = count_repetitions(sizes, (clock() - begun) / 1e9, least_s)
    if not bench.cuda:
        return [float(max(1, _clocked(work))) for _ in range(repeats)]
    pairs = [[bench.torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    for start, end in pairs:
        start.record()
        work()
        end.record()
    _wait(bench)
    return [max(start.elapsed_time(end) * 1e6, 1.0) for start, end in pairs]  # milliseconds


def count_repetitions(sizes: Sizes, one_s: float, least_s: float) -> int:
    """Return the number of repetitions of work that takes `one_s` once."""
    one_s = max(one_s, 1e-9)
    repetitions = min(max(sizes.repeats, math.ceil(least_s / one_s)), MOST_REPEATS)
    return max(LEAST_REPEATS, min(repetitions, int(sizes.most_s / one_s)))


def _clocked(work: Callable[[], object]) -> int:
    begun = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begun


def _wait(bench: Bench) -> None:
    if bench.cuda:
        bench.torch.cuda.synchronize(bench.device)
