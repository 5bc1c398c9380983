"""Compare query results on a repeated trace with the multiplied ground truth of one repetition."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Figures = Mapping[str, Any]
Answered = Mapping[str, list[Figures]]
"""The rows of each query's answer."""

ONE_ROW = {
    "kernel_concurrency": ("kernels", "busy_ns", "concurrent_ns", "window_ns"),
    "gpu_breakdown": (
        *("window_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns"),
        *("comm_ns", "overlapped_comm_ns"),
    ),
}
"""Queries with one row a device, and the columns that grow with the repetitions; the truth names them the same."""


def differences(truth: Figures, times: int, rank: int, answers: Answered) -> Iterator[str]:
    """Say what the answers have otherwise for one rank."""
    mine = {name: [row for row in rows if row.get("rank") == rank] for name, rows in answers.items()}
    for query, columns in ONE_ROW.items():
        (row,) = mine[query]
        yield from _compare(query, {key: row[key] for key in columns}, {key: truth[key] * times for key in columns})
    columns = {"kernels": "calls", "dur_ns": "dur_ns", "busy_ns": "busy_ns", "exposed_ns": "exposed_ns"}
    rows = [row for row in mine["nccl_share"] if row["collective"] != "all"]
    yield from _compare(
        "nccl_share",
        _sums(rows, lambda row: row["collective"], columns),
        _times(truth["collectives"], lambda name: name, columns, times),
    )
    columns = {"copies": "calls", "size_bytes": "size_bytes", "dur_ns": "dur_ns"}
    yield from _compare(
        "memcpy_throughput",
        _sums(mine["memcpy_throughput"], lambda row: row["direction"], columns),
        _times(truth["copies"], lambda name: name.split()[1], columns, times),
    )
    columns = {"calls": "calls", "dur_ns": "dur_ns"}
    yield from _compare(
        "kernel_summary",
        _sums(mine["kernel_summary"], lambda row: row["kernel"], columns),
        _times(truth["kernel_summary"], lambda name: name, columns, times),
    )


def _sums(rows: Iterable[Figures], key: Callable[[Figures], str], columns: Mapping[str, str]) -> Figures:
    found: Counter[str] = Counter()
    for row in rows:
        found.update({f"{column} of {key(row)}": row[column] for column in columns})
    return found


def _times(figures: Figures, key: Callable[[str], str], columns: Mapping[str, str], times: int) -> Figures:
    found: Counter[str] = Counter()
    for name, of_name in figures.items():
        found.update({f"{column} of {key(name)}": of_name[theirs] * times for column, theirs in columns.items()})
    return found


def _compare(query: str, got: Figures, must: Figures) -> Iterator[str]:
    for column in sorted({*got, *must}):
        if got.get(column) != must.get(column):
            yield f"{query}: {column} is {got.get(column)}, not {must.get(column)}"
