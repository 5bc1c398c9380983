"""Compute the exact figures of a generated timeline in whole ns by brute force over its boundary points."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise

from kineto_writer import Event

Key = Callable[[Event], Hashable]
COLLECTIVES = {"allreduce": "all_reduce", "broadcast": "broadcast"}


def truth(rows: Iterable[Event]) -> dict[str, object]:
    """Return the plain figures of one rank's GPU rows; definitions are those of the queries of the same names."""
    rows = list(rows)
    kernels = [row for row in rows if row.category == "kernel"]
    return {
        "kernels": len(kernels),
        "kernel_sum_ns": sum(row.dur_ns for row in kernels),
        "gpu_activity_ns": sum(row.dur_ns for row in rows),
        **_times(rows),
        "collectives": _grouped(kernels, rows, _collective),
        "copies": _grouped([row for row in rows if row.category == "gpu_memcpy"], rows, lambda row: row.name),
        "memsets": _sums([row for row in rows if row.category == "gpu_memset"]),
        "kernel_summary": {name: _sums(same) for name, same in _by(kernels, lambda row: row.name).items()},
    }


def _times(rows: list[Event]) -> dict[str, int]:
    found = dict.fromkeys(
        ("busy_ns", "concurrent_ns", "compute_ns", "comm_ns", "overlapped_comm_ns", "exposed_comm_ns"), 0
    ) | {"memory_ns": 0, "exposed_memory_ns": 0, "idle_ns": 0, "max_concurrent": 0}
    for span_ns, active in _spans(rows):
        kernels = [row for row in active if row.category == "kernel"]
        comm = any(_collective(row) for row in kernels)
        compute = any(not _collective(row) for row in kernels)
        memory = len(active) > len(kernels)
        found["max_concurrent"] = max(found["max_concurrent"], len(kernels))
        for name, holds in (
            ("busy_ns", bool(kernels)),
            ("concurrent_ns", len(kernels) >= 2),
            ("compute_ns", compute),
            ("comm_ns", comm),
            ("overlapped_comm_ns", comm and compute),
            ("exposed_comm_ns", comm and not compute),
            ("memory_ns", memory),
            ("exposed_memory_ns", memory and not kernels),
            ("idle_ns", not active),
        ):
            found[name] += span_ns * holds
    return {"window_ns": max(row.end_ns for row in rows) - min(row.start_ns for row in rows), **found}


def _spans(rows: list[Event]) -> Iterable[tuple[int, list[Event]]]:
    """Yield each stretch between two neighbouring boundary points with the rows that are active all through it."""
    points = sorted({row.start_ns for row in rows} | {row.end_ns for row in rows})
    starting = _by(rows, lambda row: row.start_ns)
    active: list[Event] = []
    for start_ns, end_ns in pairwise(points):
        active = [row for row in active + starting.get(start_ns, []) if row.end_ns > start_ns]
        yield end_ns - start_ns, active


def _grouped(chosen: list[Event], rows: list[Event], key: Key) -> dict[Hashable, dict[str, int]]:
    groups = _by([row for row in chosen if key(row)], key)
    return {name: _sums(same) | _union(same, rows) for name, same in groups.items()}


def _sums(rows: list[Event]) -> dict[str, int]:
    size_bytes = [row.args["bytes"] for row in rows if "bytes" in row.args]
    sums = {"calls": len(rows), "dur_ns": sum(row.dur_ns for row in rows)}
    return sums | ({"size_bytes": sum(size_bytes)} if size_bytes else {})


def _union(same: list[Event], rows: list[Event]) -> dict[str, int]:
    """Return how long any of `same` was active, and for communication how long with no compute kernel beside it."""
    busy_ns = sum(span_ns for span_ns, active in _spans(same) if active)
    if same[0].category != "kernel":
        return {"busy_ns": busy_ns}
    mine = {id(row) for row in same}
    compute = [row for row in rows if row.category == "kernel" and not _collective(row)]
    exposed_ns = sum(
        span_ns
        for span_ns, active in _spans(compute + same)
        if any(id(row) in mine for row in active) and all(id(row) in mine for row in active)
    )
    return {"busy_ns": busy_ns, "exposed_ns": exposed_ns}


def _collective(row: Event) -> str | None:
    return COLLECTIVES.get(str(row.args.get("Collective name")))


def _by(rows: list[Event], key: Key) -> dict[Hashable, list[Event]]:
    groups = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(groups)
