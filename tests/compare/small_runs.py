"""Recordings of some steps whose figures add up by hand."""

from collections.abc import Mapping
from typing import Any
from zlib import crc32

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
STEP_NS = 10_000
"""A step is as long as from one start to the next."""

Tables = dict[str, list[dict[str, Any]]]


def recording(
    run: str,
    *,
    steps: int = 5,
    gemm: str = "gemm_kernel",
    gemm_ns: int = 4_000,
    slower: int = 0,
    start_ns: int | None = None,
) -> Tables:
    """Return a recording of one GPU, of each step a matrix product, an all-reduce and a copy.

    Without `start_ns` each run begins at a time of its own, or it would be a copy. Of a step, `slower` ns longer,
    from the start of its first kernel on: 4,000 ns of matrix product, 1,000 ns of exposed and 1,000 ns of hidden
    communication, 500 ns of exposed copies, the rest idle. The op takes 1,000 ns, of which another one inside it
    takes 400.
    """
    begin = crc32(run.encode()) if start_ns is None else start_ns
    place = {"run": run, "pid": 1, "rank": 0}
    gpu = place | {"device": 0}
    tables: Tables = {name: [] for name in ("annotations", "ops", "api_calls", "kernels", "memcpys")}
    for number in range(steps):
        start, correlation = begin + number * (STEP_NS + slower), 10 * number
        mark = {"name": f"ProfilerStep#{number + 3}", "scope": "cpu", "start_ns": start, "dur_ns": 9_000}
        tables["annotations"].append(place | {"tid": 1} | mark)
        tables["ops"] += [
            place
            | {"tid": 1, "name": "aten::mm", "start_ns": start + 100, "dur_ns": 1_000, "input_shapes": "[[2, 3]]"},
            place | {"tid": 1, "name": "aten::empty", "start_ns": start + 200, "dur_ns": 400},
        ]
        calls = {1: 700, 2: 2_000, 3: 2_100}
        tables["api_calls"] += [
            place | {"tid": 1, "api": "runtime", "name": "cudaLaunchKernel", "start_ns": start + at, "dur_ns": 20}
            | {"correlation": correlation + call}
            for call, at in calls.items()
        ]  # fmt: skip
        product = {"name": gemm, "start_ns": start + 1_000, "dur_ns": gemm_ns, "correlation": correlation + 1}
        reduced = {"start_ns": start + gemm_ns, "dur_ns": 2_000, "correlation": correlation + 2}
        tables["kernels"] += [gpu | {"stream": 7} | product, gpu | {"stream": 9, "name": ALL_REDUCE} | reduced]
        copied = {"start_ns": start + gemm_ns + 3_000, "dur_ns": 500, "correlation": correlation + 3}
        tables["memcpys"].append(gpu | {"stream": 7, "direction": "HtoD"} | copied)
    return tables


def with_facts(tables: Tables, *, gpu: str = "A100", **facts: object) -> Tables:
    """Return the tables of one run with its GPU and its settings."""
    run = tables["annotations"][0]["run"]
    return tables | {
        "devices": [{"run": run, "rank": 0, "device": 0, "name": gpu}],
        "runs": [{"run": run} | facts],
    }


def together(*recordings: Mapping[str, list[dict[str, Any]]]) -> Tables:
    """Return the tables of several runs."""
    names = {name for each in recordings for name in each}
    return {name: [row for each in recordings for row in each.get(name, [])] for name in names}
