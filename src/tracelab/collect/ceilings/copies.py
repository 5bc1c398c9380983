"""Measure copies between host and GPU, one way and both ways at once, and between two GPUs."""

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tracelab.collect.ceilings import rows
from tracelab.collect.ceilings.kernels import Measured
from tracelab.collect.ceilings.timing import Bench, Times, measure_times

HOST_COPIES = ("h2d_pinned", "h2d_pageable", "d2h_pinned", "d2h_pageable", "bidir_pinned", "bidir_pageable")
CPU_COPIES = ("h2h_pageable",)


def copy_measurements(bench: Bench) -> Iterator[Measured]:
    """Yield a measurement for each kind of copy between host and device."""
    for metric in HOST_COPIES if bench.cuda else CPU_COPIES:
        yield metric, partial(measure_copies, bench, metric)


def measure_copies(bench: Bench, metric: str) -> Iterator[rows.Row]:
    """Measure copies of all sizes, and fit latency and bandwidth to them."""
    medians = {}
    direction, memory = metric.split("_")
    for size_bytes in bench.sizes.copies:
        if direction == "bidir":
            times = _time_both_ways(bench, size_bytes, pinned=memory == "pinned")
            moved, counting = 2 * size_bytes, "bytes copied in both directions at once"
        else:
            target, source = _buffers(bench, direction, size_bytes, pinned=memory == "pinned")
            work = partial(target.copy_, source, non_blocking=True)
            # A copy from pageable memory goes through a buffer of the driver and cannot be part of a graph.
            times = _timed(bench, work, graph=memory == "pinned")
            moved, counting = size_bytes, "bytes copied, once"
        yield rows.copy(metric, size_bytes, moved, counting, times)
        medians[moved] = statistics.median(times.all_ns)
    yield from rows.fitted_rows(metric, medians)


def measure_peer_copies(bench: Bench, source: int, target: int) -> Iterator[rows.Row]:
    """Measure copies from one GPU to another, and both ways at once for the pair's lower ordinal."""
    torch = bench.torch
    if not torch.cuda.can_device_access_peer(source, target):
        how = "through host memory: the GPUs cannot access each other"
    else:
        how = "peer access"
    for size_bytes in bench.sizes.peer_copies:
        copy = _peer_copy(torch, source, target, size_bytes)
        # Streams of two GPUs wait for each other, which a capture on one of them cannot hold.
        yield rows.copy("p2p", size_bytes, size_bytes, f"bytes copied, once; {how}", _timed(bench, copy, graph=False))
        if source < target:
            # A copy waits for the current streams of both GPUs: on the same stream, one direction waits for the other.
            ways = [copy, _peer_copy(torch, target, source, size_bytes)]
            exchange = _fork_join(bench, [_on_own_stream(torch, target, each) for each in ways])
            counting = f"bytes copied in both directions at once; {how}"
            yield rows.copy("p2p_bidir", size_bytes, 2 * size_bytes, counting, _timed(bench, exchange, graph=False))


def _peer_copy(torch: Any, source: int, target: int, size_bytes: int) -> Callable[[], object]:  # noqa: ANN401
    there, here = (torch.randn(size_bytes // 4, device=torch.device("cuda", each)) for each in (target, source))
    return partial(there.copy_, here, non_blocking=True)


def _on_own_stream(torch: Any, ordinal: int, work: Callable[[], object]) -> Callable[[], None]:  # noqa: ANN401
    """Return a work during which the current stream of another GPU is one of its own."""
    stream = torch.cuda.Stream(torch.device("cuda", ordinal))

    def unit() -> None:
        with torch.cuda.stream(stream):
            work()

    return unit


def _timed(bench: Bench, work: Callable[[], object], *, graph: bool = True) -> Times:
    return measure_times(bench, work, window_s=bench.sizes.window_s / 2, warmup_s=bench.sizes.warmup_s / 4, graph=graph)


def _buffers(bench: Bench, direction: str, size_bytes: int, *, pinned: bool) -> tuple[Any, Any]:
    """Return target and source of a copy."""
    there = bench.random(size_bytes // 4, dtype=bench.torch.float32)
    host = bench.torch.randn(size_bytes // 4, pin_memory=pinned)
    return (host, there) if direction == "d2h" else (there, host)


def _time_both_ways(bench: Bench, size_bytes: int, *, pinned: bool) -> Times:
    works = []
    for direction in ("h2d", "d2h"):
        target, source = _buffers(bench, direction, size_bytes, pinned=pinned)
        works.append(partial(target.copy_, source, non_blocking=True))
    if pinned:
        return _timed(bench, _fork_join(bench, works))
    return _time_in_threads(bench, works)


def _fork_join(bench: Bench, works: Sequence[Callable[[], object]]) -> Callable[[], None]:
    """Return a work that does several at once, each on a stream of its own between two points of the current one."""
    torch = bench.torch
    streams = [torch.cuda.Stream(bench.device) for _ in works]

    def unit() -> None:
        current = torch.cuda.current_stream(bench.device)
        for stream, work in zip(streams, works, strict=True):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                work()
        for stream in streams:
            current.wait_stream(stream)

    return unit


def _time_in_threads(bench: Bench, works: Sequence[Callable[[], object]]) -> Times:
    """Time works that block their thread, one thread each, by the clock of the host.

    An event on one stream cannot cover them: the driver copies pageable memory while the thread waits.
    """
    torch, repeats = bench.torch, bench.sizes.repeats
    begins, ends = ([[0] * len(works) for _ in range(repeats)] for _ in range(2))
    ready = threading.Barrier(len(works))
    errors: list[BaseException] = []

    def run(number: int) -> None:
        stream = torch.cuda.Stream(bench.device)
        try:
            with torch.cuda.stream(stream):
                for repeat in range(-bench.sizes.warmups, repeats):
                    stream.synchronize()
                    ready.wait()
                    begun = time.perf_counter_ns()
                    works[number]()
                    stream.synchronize()
                    if repeat >= 0:
                        begins[repeat][number], ends[repeat][number] = begun, time.perf_counter_ns()
        except BaseException as error:  # noqa: BLE001  raised by the caller's thread
            errors.append(error)
            ready.abort()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise errors[0]
    times = [float(max(1, max(ended) - min(begun))) for begun, ended in zip(begins, ends, strict=True)]
    return Times(times, [], 0.0)
