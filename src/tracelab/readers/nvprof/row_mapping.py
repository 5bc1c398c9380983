"""Map rows of nvprof's printed tables to canonical tables: one mapping per kind of row, one line per column."""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from tracelab.exact_json import json_text
from tracelab.readers.nvprof.cell_values import RowCells, parse_count, parse_device
from tracelab.readers.nvprof.summary_mapping import LETTERS, SUMMARIES, Row, TableContext
from tracelab.readers.nvprof.table_layout import TRACE_COLUMNS, TableLayout

_INT32 = 1 << 31
_BYTES_PER_GB = 10**9

_SPECIAL = re.compile(r"\[(CUDA memcpy|CUDA memset|Unified Memory)\s*+([^\]]*)\]")
_DIRECTIONS = {*("HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA")}
_API = re.compile(r"(cuda|cu|nvml|acc)([A-Z_]\w*)")
_APIS = {"cuda": "runtime", "cu": "driver", "nvml": "nvml", "acc": "openacc"}
_CORRELATED = re.compile(r"(.*\S) \[(\d+)\]")  # consoles: the correlation follows the kernel's name
_INSTANCE = re.compile(r"(.*\S)\s+\((\d+)\)")
_TRIPLE = re.compile(r"\((\d+) (\d+) (\d+)\)")

_MAPPED_OF_ALL = {"Start", "Duration", "Device", "Context", "Stream", "Name", "Kernel", "Correlation_ID"}
_MAPPED_OF_KERNEL = _MAPPED_OF_ALL | {
    *("Grid X", "Grid Y", "Grid Z", "Block X", "Block Y", "Block Z", "Grid Size", "Block Size"),
    *("Registers Per Thread", "Static SMem", "Dynamic SMem"),
}
_MAPPED_OF_COPY = _MAPPED_OF_ALL | {"SrcMemType", "DstMemType", "Src Dev", "Dst Dev", "Size"}
_MAPPED_OF_MEMSET = _MAPPED_OF_ALL | {"SrcMemType", "DstMemType", "Size"}


@dataclass
class LaunchCounter:
    """Counter of the launches of a report."""

    count: int = 0
    devices: set[tuple[int | None, int, str]] = field(default_factory=set)

    def next(self) -> int:
        """Return the number of the next launch, from 0."""
        self.count += 1
        return self.count - 1


def map_row(
    layout: TableLayout, context: TableContext, cells: RowCells, launches: LaunchCounter
) -> Iterator[tuple[str, Row]]:
    """Yield the rows, and their tables, of one row of a printed table."""
    name, ordinal = parse_device(cells.text("Device") or context.device or "")
    if name is not None and ordinal is not None:
        launches.devices.add((context.pid, ordinal, name))
    if layout.kind in ("trace", "launches"):
        yield from _map_trace_row(layout, context, cells, launches)
    else:
        row = SUMMARIES[layout.kind](context, cells)
        yield "summaries", {"pid": context.pid, "device": ordinal, "device_name": name} | row


def _map_trace_row(
    layout: TableLayout, context: TableContext, cells: RowCells, launches: LaunchCounter
) -> Iterator[tuple[str, Row]]:
    metrics = layout.metrics
    if layout.kind == "trace":
        yield _map_activity(context, cells)
    if metrics and (name := cells.text("Name", "Kernel")) and not name.startswith("["):
        launch = _map_launch(context, cells) | {"launch": launches.next(), "kernel": name}
        for column in metrics:
            if cells.text(column) is not None:
                yield "kernel_metrics", launch | _map_metric(column, cells)


def _map_activity(context: TableContext, cells: RowCells) -> tuple[str, Row]:
    """Map one activity of a trace."""
    name = cells.text("Name", "Kernel") or ""
    if special := _SPECIAL.match(name):
        return _map_bracketed(special[1], special[2], context, cells)
    if cells.text("Device", "Stream") is not None:
        return "kernels", _map_kernel(context, cells)
    if api := _API.fullmatch(name):
        return "api_calls", {
            "pid": context.pid,
            "api": _APIS[api[1]],
            "name": re.sub(r"_v\d+$", "", name),
            **_map_times(cells),
            "correlation": cells.count("Correlation_ID"),
        }
    return _map_other("trace", context, cells)


def _map_bracketed(activity: str, detail: str, context: TableContext, cells: RowCells) -> tuple[str, Row]:
    """Map an activity that nvprof names in brackets: a copy, a memset, or unified memory."""
    if activity == "CUDA memset":
        return "memsets", _map_memset(context, cells)
    if activity == "CUDA memcpy":
        return "memcpys", _map_copy(context, cells) | {"direction": detail if detail in _DIRECTIONS else "unknown"}
    if detail.startswith("Memcpy "):
        direction = f"UVM {detail.removeprefix('Memcpy ')}"
        known = direction in ("UVM HtoD", "UVM DtoH", "UVM DtoD")
        return "memcpys", _map_migration(context, cells) | {"direction": direction if known else "unknown"}
    is_place = (cells.text("Unified Memory") or "").startswith("PC")  # a CPU page fault has its instruction here
    mapped = _MAPPED_OF_ALL if is_place else _MAPPED_OF_ALL | {"Unified Memory"}
    return "counters", {
        "pid": context.pid,
        "device": parse_device(cells.text("Device") or "")[1],
        "time_ns": cells.integer("Start", "ns"),
        "name": f"unified_memory_{detail.lower().replace(' ', '_')}",
        "value": None if is_place else cells.number("Unified Memory"),
        "args": _build_args(cells, mapped, also={"dur_ns": cells.integer("Duration", "ns")}),
    }


def _map_times(cells: RowCells) -> Row:
    return {"start_ns": cells.integer("Start", "ns"), "dur_ns": cells.integer("Duration", "ns")}


def _map_launch(context: TableContext, cells: RowCells) -> Row:
    """Map the device, stream and shape of a kernel."""
    return {
        "pid": context.pid,
        "device": parse_device(cells.text("Device") or "")[1],
        "context": cells.count("Context"),
        "stream": cells.count("Stream"),
        **_map_shape("grid", "Grid", cells),
        **_map_shape("block", "Block", cells),
    }


def _map_gpu(context: TableContext, cells: RowCells) -> Row:
    return {
        "pid": context.pid,
        "device": parse_device(cells.text("Device") or "")[1],
        "context": cells.count("Context"),
        "stream": cells.count("Stream"),
        **_map_times(cells),
        "correlation": cells.count("Correlation_ID"),
    }


def _map_shape(prefix: str, heading: str, cells: RowCells) -> Row:
    if triple := cells.cells.get(f"{heading} Size"):  # consoles: (8 8 1)
        parsed = _TRIPLE.fullmatch(triple)
        sizes = [parse_count(size, _INT32) for size in parsed.groups()] if parsed else [None] * 3
    else:
        sizes = [cells.count(f"{heading} {axis}", most=_INT32) for axis in "XYZ"]
    return {f"{prefix}_x": sizes[0], f"{prefix}_y": sizes[1], f"{prefix}_z": sizes[2]}


def _map_kernel(context: TableContext, cells: RowCells) -> Row:
    name = cells.text("Name", "Kernel")
    correlated = (
        _CORRELATED.fullmatch(name) if name and name[-1] == "]" and "Correlation_ID" not in cells.cells else None
    )
    row = _map_gpu(context, cells)
    return row | {
        "name": correlated[1] if correlated else name,
        "correlation": int(correlated[2]) if correlated and len(correlated[2]) < 19 else row["correlation"],  # noqa: PLR2004
        **_map_shape("grid", "Grid", cells),
        **_map_shape("block", "Block", cells),
        "registers": cells.count("Registers Per Thread", most=_INT32),
        "shared_static_bytes": cells.integer("Static SMem", "byte"),
        "shared_dynamic_bytes": cells.integer("Dynamic SMem", "byte"),
        "args": _build_args(cells, _MAPPED_OF_KERNEL),
    }


def _map_copy(context: TableContext, cells: RowCells) -> Row:
    return _map_gpu(context, cells) | {
        "src_memory": cells.text("SrcMemType"),
        "dst_memory": cells.text("DstMemType"),
        "src_device": parse_device(cells.text("Src Dev") or "")[1],
        "dst_device": parse_device(cells.text("Dst Dev") or "")[1],
        "size_bytes": cells.integer("Size", "byte"),
        "args": _build_args(cells, _MAPPED_OF_COPY),
    }


def _map_migration(context: TableContext, cells: RowCells) -> Row:
    size = "Unified Memory" if cells.text("Unified Memory") else "Size"
    return _map_gpu(context, cells) | {
        "src_device": parse_device(cells.text("Src Dev") or "")[1],
        "dst_device": parse_device(cells.text("Dst Dev") or "")[1],
        "size_bytes": cells.integer(size, "byte"),
        "args": _build_args(cells, _MAPPED_OF_COPY | {size}),
    }


def _map_memset(context: TableContext, cells: RowCells) -> Row:
    return _map_gpu(context, cells) | {
        "memory": cells.text("SrcMemType", "DstMemType"),
        "size_bytes": cells.integer("Size", "byte"),
        "args": _build_args(cells, _MAPPED_OF_MEMSET),
    }


def _map_other(category: str, context: TableContext, cells: RowCells) -> tuple[str, Row]:
    return "other_events", {
        "pid": context.pid,
        "category": category,
        "name": cells.text("Name", "Kernel"),
        **_map_times(cells),
        "args": _build_args(cells, _MAPPED_OF_ALL),
    }


def _build_args(cells: RowCells, mapped: Set[str], also: Row | None = None) -> str | None:
    """Return the unmapped columns as JSON; a throughput in 1e9 bytes per second, as nvprof's GB is 1024³."""
    unmapped: dict[str, object] = {name: value for name, value in (also or {}).items() if value is not None}
    for column in sorted((cells.cells.keys() & TRACE_COLUMNS) - mapped):
        rate = cells.amount(column) if column == "Throughput" else None
        if rate and rate.unit == "byte/s":
            unmapped["throughput_gb_per_s"] = float(rate.number / _BYTES_PER_GB)
        else:
            unmapped[column] = cells.cells[column]
    return json_text(unmapped) if unmapped else None


def _map_metric(column: str, cells: RowCells) -> Row:
    text, instance = cells.text(column) or "", _INSTANCE.fullmatch(column)
    parsed = cells.amount(column)
    correlation = cells.count("Correlation_ID")
    return {
        "metric": instance[1] if instance else column,
        "instance": instance[2] if instance else None,
        "value": float(parsed.number) if parsed else None,
        "text": None if parsed and text[:1] not in LETTERS else text,
        "unit": parsed.unit if parsed else None,
        "args": None if correlation is None else json_text({"correlation": correlation}),
    }
