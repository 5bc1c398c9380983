"""Time repeated work on a device under continuous load: every repetition, and those after the warm-up apart."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tracelab.collect.ceilings.sizes import LEAST_REPEATS, MOST_REPEATS, Sizes

_PAIR_S = 200e-6
"""Device time between two events: an event costs about a microsecond."""
_MOST_IN_PAIR = 1_000
_FIRST_TIMES = 3
_BATCH_S = 0.05
"""Work that is queued at once: the next batch follows before the last one ends, so that the load has no gaps."""
_MOST_IN_BATCH = 256


@dataclass(frozen=True)
class Times:
    """Times of one unit of work in nanoseconds, each the mean of `per_pair` units."""

    all_ns: list[float]
    sustained_ns: list[float]
    """Those that began at least `warmup_s` after the first; empty where the time limit ended the load before."""
    warmup_s: float
    per_pair: int = 1
    """Units between two readings of the clock."""
    graphed: bool = False
    """Whether a CUDA graph launched them, so that no time of PyTorch's dispatch is in between."""

    @property
    def sustained_s(self) -> float:
        """Return the seconds that the sustained repetitions took."""
        return sum(self.sustained_ns) * self.per_pair / 1e9

    def counting(self) -> str:
        """Return what a repetition is, for the column `counting`; "" for a single unit of work."""
        if self.per_pair == 1:
            return ""
        return f"; mean of {self.per_pair} in a row" + (", launched by a CUDA graph" if self.graphed else "")


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

    def wait(self) -> None:
        """Wait until the device is idle."""
        if self.cuda:
            self.torch.cuda.synchronize(self.device)


def measure_times(
    bench: Bench, work: Callable[[], object], *, window_s: float = 0.0, warmup_s: float = 0.0, graph: bool = True
) -> Times:
    """Repeat work for `warmup_s` and then `window_s` without a break, on a GPU between events, else by the clock.

    Work of a GPU that is shorter than the pair of events needs is repeated between them, by a CUDA graph if it can be
    captured; `graph=False` is for work that cannot.
    """
    for _ in range(bench.sizes.warmups):
        work()
    one_s = min(_time_once(bench, work) for _ in range(_FIRST_TIMES))
    per_pair = min(_MOST_IN_PAIR, math.ceil(_PAIR_S / one_s)) if bench.cuda else 1
    repeated = _capture(bench, work, per_pair) if graph and per_pair > 1 else None
    unit = repeated or _loop(work, per_pair)
    one_s = _time_once(bench, unit)
    batch = max(1, min(_MOST_IN_BATCH, math.ceil(_BATCH_S / one_s)))
    pairs = _event_batches(bench, unit, batch) if bench.cuda else _clocked(unit)
    before_ns, sustained_ns = _split(pairs, bench.sizes, warmup_s, window_s)
    all_ns = [pair_ns / per_pair for pair_ns in (*before_ns, *sustained_ns)]
    in_window = [pair_ns / per_pair for pair_ns in sustained_ns] if window_s else []
    return Times(all_ns, in_window, warmup_s, per_pair, repeated is not None)


def _split(pairs: Iterator[float], sizes: Sizes, warmup_s: float, window_s: float) -> tuple[list[float], list[float]]:
    """Return the times of the warm-up and those after it, until these fill the window or the time limit has passed."""
    before: list[float] = []
    after: list[float] = []
    warming_ns, window_ns, begun = 0.0, 0.0, time.monotonic()
    for pair_ns in pairs:
        if warming_ns < warmup_s * 1e9:
            before.append(pair_ns)
            warming_ns += pair_ns
        else:
            after.append(pair_ns)
            window_ns += pair_ns
        repeats = len(before) + len(after)
        filled = repeats >= sizes.repeats and len(after) >= LEAST_REPEATS and window_ns >= window_s * 1e9
        expired = time.monotonic() - begun > max(sizes.most_s, warmup_s + window_s) and repeats >= LEAST_REPEATS
        if filled or expired or repeats >= MOST_REPEATS:
            break
    return before, after


def _event_batches(bench: Bench, unit: Callable[[], object], batch: int) -> Iterator[float]:
    """Yield the times between pairs of events forever, with a batch queued while the one before is read."""
    with bench.torch.cuda.device(bench.device):
        queued = _queue_batch(bench, unit, batch)
        while True:
            following = _queue_batch(bench, unit, batch)
            queued[-1][1].synchronize()
            for start, end in queued:
                yield max(start.elapsed_time(end) * 1e6, 1.0)  # milliseconds
            queued = following


def _queue_batch(bench: Bench, unit: Callable[[], object], batch: int) -> list[tuple[Any, Any]]:
    pairs = []
    for _ in range(batch):
        start, end = (bench.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        unit()
        end.record()
        pairs.append((start, end))
    return pairs


def _clocked(unit: Callable[[], object]) -> Iterator[float]:
    while True:
        begun = time.perf_counter_ns()
        unit()
        yield float(max(1, time.perf_counter_ns() - begun))


def _time_once(bench: Bench, work: Callable[[], object]) -> float:
    """Return the seconds of one repetition, launch and wait included."""
    bench.wait()
    begun = time.perf_counter_ns()
    work()
    bench.wait()
    return max(time.perf_counter_ns() - begun, 1) / 1e9


def _loop(work: Callable[[], object], times: int) -> Callable[[], object]:
    if times == 1:
        return work

    def unit() -> None:
        for _ in range(times):
            work()

    return unit


def _capture(bench: Bench, work: Callable[[], object], times: int) -> Callable[[], object] | None:
    """Return the replay of a CUDA graph with the work so many times; None where it cannot be captured."""
    torch = bench.torch
    with contextlib.suppress(RuntimeError):  # work that waits, or a torch without graphs
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(bench.device)  # torch's own is one of the GPU that captured first
        with torch.cuda.device(bench.device), torch.cuda.graph(graph, stream=stream):
            for _ in range(times):
                work()
        graph.replay()
        bench.wait()
        replay: Callable[[], object] = graph.replay
        return replay
    return None
