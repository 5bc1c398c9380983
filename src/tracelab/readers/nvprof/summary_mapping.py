"""Map rows of nvprof's summaries: times by name, counters by kernel, migrations of unified memory."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracelab.exact_json import json_text
from tracelab.readers.nvprof.cell_values import RowCells

Row = dict[str, Any]
LETTERS = frozenset(map(chr, range(ord("A"), ord("z") + 1)))


@dataclass(frozen=True)
class TableContext:
    """Context of a table: process, device, kernel, heading, NVTX range."""

    pid: int | None = None
    device: str | None = None
    kernel: str | None = None
    heading: str = "gpu_activities"
    scope: str | None = None  # NVTX range of a summary


def _map_times(context: TableContext, cells: RowCells) -> Row:
    kind = re.sub(r"\W+", "_", (cells.text("Type") or context.heading).lower()).strip("_")
    return {
        "kind": kind if context.scope is None else f"nvtx_{kind}",
        "name": cells.text("Name"),
        "calls": cells.count("Calls"),
        "dur_ns": cells.integer("Time", "ns"),
        "mean_ns": cells.number("Avg"),
        "min_ns": cells.integer("Min", "ns"),
        "max_ns": cells.integer("Max", "ns"),
        "args": _build_args(cells, "Time(%)", scope=context.scope),
    }


def _map_counters(context: TableContext, cells: RowCells) -> Row:
    is_event = context.heading == "events" or "Metric Description" not in cells.cells
    return {
        "kind": "events" if is_event else "metrics",
        "name": cells.text("Kernel") or context.kernel,
        "calls": cells.count("Invocations"),
        "metric": cells.text("Metric Name"),
        "value": cells.number("Avg"),
        "min_value": cells.number("Min"),
        "max_value": cells.number("Max"),
        "unit": cells.unit("Avg", "Max", "Min"),
        "args": _build_args(cells, "Metric Description", "Total", *_columns_in_words(cells)),
    }


def _columns_in_words(cells: RowCells) -> tuple[str, ...]:
    """Return columns whose values are words: Low (2)."""
    return tuple(name for name in ("Avg", "Min", "Max") if (cells.text(name) or "-")[0] in LETTERS | {"<"})


def _map_migrations(_: TableContext, cells: RowCells) -> Row:
    total = cells.integer("Total Size", "byte")
    return {
        "kind": "unified_memory",
        "name": cells.text("Name"),
        "calls": cells.count("Count"),
        "dur_ns": cells.integer("Total Time", "ns"),
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
        "dur_ns": cells.integer("Critical path", "ns"),
        "args": _build_args(cells, "Critical path(%)", "Waiting time"),
    }


def _build_args(cells: RowCells, *columns: str, scope: str | None = None) -> str | None:
    """Return columns as JSON, as numbers if they are some."""
    args_by_name: dict[str, object] = {"nvtx_range": scope} if scope else {}
    for column in columns:
        if (text := cells.text(column)) is not None:
            is_text = column in ("Metric Description", "Waiting time") or text[:1] in LETTERS | {"<"}
            parsed = None if is_text else cells.amount(column)
            args_by_name[column] = float(parsed.number) if parsed else text
    return json_text(args_by_name) if args_by_name else None


SUMMARIES: dict[str, Callable[[TableContext, RowCells], Row]] = {
    "summary": _map_times,
    "metrics": _map_counters,
    "migrations": _map_migrations,
    "path": _map_critical_path,
}
