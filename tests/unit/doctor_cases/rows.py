"""Rows of stores that the checks of the doctor read."""

DAY_NS = 1_700_000_000_000_000_000
MS = 1_000_000
KERNEL = {"name": "volta_sgemm_128x32_nt", "pid": 1, "device": 0, "context": 1, "stream": 7}
CALL = {"api": "runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 2}
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
Case = tuple[str, dict[str, list[dict[str, object]]], list[tuple[object, ...]]]
"""A check, the tables of a store, and the severity, rank, count, and message of each finding."""


def source(label: str, **columns: object) -> dict[str, object]:
    return {"source": label, "path": f"traces/{label}.json", "clock": "unix", "complete": True} | columns


def kernel(start: int, duration: int | None = 10, **columns: object) -> dict[str, object]:
    return KERNEL | {"start_ns": DAY_NS + start, "dur_ns": duration} | columns


def call(start: int, **columns: object) -> dict[str, object]:
    return CALL | {"start_ns": DAY_NS + start, "dur_ns": 5} | columns


def mark(name: str, start: int, duration: int, **columns: object) -> dict[str, object]:
    return {"name": name, "scope": "cpu", "pid": 1, "tid": 2, "start_ns": start, "dur_ns": duration} | columns
