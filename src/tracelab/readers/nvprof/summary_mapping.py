"""Rows of nvprof's summaries: times by name, counters by kernel, what unified memory moved."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracelab.output.plain_values import json_text
from tracelab.readers.nvprof.cell_values import RowCells

Row = dict[str, Any]
LETTERS = frozenset(map(chr, range(ord("A"), ord("z") + 1)))


@dataclass(frozen=True)
class TableContext:
    """What stands above a table: its process and device, its kernel, and which of nvprof's results it is."""

    pid: int | None = None
    device: str | None = None
    kernel: str | None = None
    heading: str = "gpu_activities"
    scope: str | None = None  # the NVTX range that a summary is of


def _map_times(where: TableContext, cells: RowCells) -> Row:
    kind = re.sub(r"\W+", "_", (cells.text("Type") or where.heading).lower()).strip("_")
    return {
        "kind": kind if where.scope is None else f"nvtx_{kind}",
        "name": cells.text("Name"),
        "calls": cells.count("Calls"),
        "dur_ns": cells.whole("Time", "ns"),
        "mean_ns": cells.number("Avg"),
        "min_ns": cells.whole("Min", "ns"),
        "max_ns": cells.whole("Max", "ns"),
        "args": _build_args(cells, "Time(%)", scope=where.scope),
    }


def _map_counters(where: TableContext, cells: RowCells) -> Row:
    is_event = where.heading == "events" or "Metric Description" not in cells.held
    return {
        "kind": "events" if is_event else "metrics",
        "name": cells.text("Kernel") or where.kernel,
        "calls": cells.count("Invocations"),
        "metric": cells.text("Metric Name"),
        "value": cells.number("Avg"),
        "min_value": cells.number("Min"),
        "max_value": cells.number("Max"),
        "unit": cells.unit("Avg", "Max", "Min"),
        "args": _build_args(cells, "Metric Description", "Total", *_columns_in_words(cells)),
    }


def _columns_in_words(cells: RowCells) -> tuple[str, ...]:
    """Columns whose values are more than numbers: Low (2)."""
    return tuple(name for name in ("Avg", "Min", "Max") if (cells.text(name) or "-")[0] in LETTERS | {"<"})


def _map_migrations(_: TableContext, cells: RowCells) -> Row:
    total = cells.whole("Total Size", "byte")
    return {
        "kind": "unified_memory",
        "name": cells.text("Name"),
        "calls": cells.count("Count"),
        "dur_ns": cells.whole("Total Time", "ns"),
        "metric": "size" if cells.text("Avg Size") else None,
        "value": cells.number("Avg Size"),
        "min_value": cells.number("Min Size"),
        "max_value": cells.number("Max Size"),
        "unit": cells.unit("Avg Size"),
        "args": None if total is None else json_text({"total_bytes": total}),
    }


def _map_critical_path(_: TableContext, cells: RowCells) -> Row:
    return {
        "kind": "critical_path",
        "name": cells.text("Name"),
        "dur_ns": cells.whole("Critical path", "ns"),
        "args": _build_args(cells, "Critical path(%)", "Waiting time"),
    }


def _build_args(cells: RowCells, *columns: str, scope: str | None = None) -> str | None:
    """Columns as JSON: numbers where they are some."""
    said: dict[str, object] = {"nvtx_range": scope} if scope else {}
    for column in columns:
        if (text := cells.text(column)) is not None:
            words = column in ("Metric Description", "Waiting time") or text[:1] in LETTERS | {"<"}
            found = None if words else cells.amount(column)
            said[column] = float(found.number) if found else text
    return json_text(said) if said else None


SUMMARIES: dict[str, Callable[[TableContext, RowCells], Row]] = {
    "summary": _map_times,
    "metrics": _map_counters,
    "migrations": _map_migrations,
    "path": _map_critical_path,
}
