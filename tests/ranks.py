"""Kernels of collectives, and what a profiler notes about them."""

from collections.abc import Mapping
from typing import Any

NAMES = {"all_reduce": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "all_gather": "ncclDevKernel_AllGather_RING_LL"}


def kernel(rank: int, start_ns: int, end_ns: int, collective: str = "all_reduce", **values: Any) -> dict[str, Any]:
    name = NAMES[collective]
    return {
        "rank": rank,
        "device": 0,
        "stream": 7,
        "start_ns": start_ns,
        "dur_ns": end_ns - start_ns,
        "name": name,
    } | values


def note(each: Mapping[str, Any], seq: int, ranks: int, **values: Any) -> dict[str, Any]:
    """Return the row of `collectives` of a kernel in a group of so many ranks."""
    placed = {name: each[name] for name in ("rank", "device", "stream", "start_ns", "dur_ns", "correlation")}
    noted = {"origin": "kernel", "collective": "all_reduce", "group_name": "0", "group_size": ranks, "seq": seq}
    return placed | noted | values
