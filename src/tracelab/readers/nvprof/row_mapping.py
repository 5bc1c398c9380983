"""Rows of nvprof's printed tables to rows of canonical tables: one mapping a kind of row, one line a column."""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from tracelab.output.plain_values import json_text
from tracelab.readers.nvprof.cell_values import RowCells, parse_count, parse_device
from tracelab.readers.nvprof.summary_mapping import LETTERS, SUMMARIES, Row, TableContext
from tracelab.readers.nvprof.table_layout import TRACE_COLUMNS, TableLayout

_INT32 = 1 << 31
_BYTES_PER_GB = 10**9

_SPECIAL = re.compile(r"\[(CUDA memcpy|CUDA memset|Unified Memory)\s*([^\]]*)\]")
_DIRECTIONS = {*("HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA")}
_API = re.compile(r"(cuda|cu|nvml|acc)([A-Z_]\w*)")
_APIS = {"cuda": "runtime", "cu": "driver", "nvml": "nvml", "acc": "openacc"}
_CORRELATED = re.compile(r"(.*\S) \[(\d+)\]")  # consoles: the correlation stands behind a kernel's name
_INSTANCE = re.compile(r"(.*\S)\s+\((\d+)\)")
_TRIPLE = re.compile(r"\((\d+) (\d+) (\d+)\)")

_PLACE = {"Start", "Duration", "Device", "Context", "Stream", "Name", "Kernel", "Correlation_ID"}
_HELD_OF_KERNEL = _PLACE | {
    *("Grid X", "Grid Y", "Grid Z", "Block X", "Block Y", "Block Z", "Grid Size", "Block Size"),
    *("Registers Per Thread", "Static SMem", "Dynamic SMem"),
}
_HELD_OF_COPY = _PLACE | {"SrcMemType", "DstMemType", "Src Dev", "Dst Dev", "Size"}
_HELD_OF_MEMSET = _PLACE | {"SrcMemType", "DstMemType", "Size"}


@dataclass
class LaunchCounter:
    """Numbers the launches of a report."""

    so_far: int = 0
    devices: set[tuple[int | None, int, str]] = field(default_factory=set)

    def next(self) -> int:
        """The number of one more launch, from 0."""
        self.so_far += 1
        return self.so_far - 1


def map_row(
    layout: TableLayout, where: TableContext, cells: RowCells, launches: LaunchCounter
) -> Iterator[tuple[str, Row]]:
    """The rows, and their tables, that one row of a printed table makes."""
    name, ordinal = parse_device(cells.text("Device") or where.device or "")
    if name is not None and ordinal is not None:
        launches.devices.add((where.pid, ordinal, name))
    if layout.kind in ("trace", "launches"):
        yield from _map_trace_row(layout, where, cells, launches)
    else:
        row = SUMMARIES[layout.kind](where, cells)
        yield "summaries", {"pid": where.pid, "device": ordinal, "device_name": name} | row


def _map_trace_row(
    layout: TableLayout, where: TableContext, cells: RowCells, launches: LaunchCounter
) -> Iterator[tuple[str, Row]]:
    metrics = layout.metrics
    if layout.kind == "trace":
        yield _map_activity(where, cells)
    if metrics and (name := cells.text("Name", "Kernel")) and not name.startswith("["):
        launch = _map_launch(where, cells) | {"launch": launches.next(), "kernel": name}
        for column in metrics:
            if cells.text(column) is not None:
                yield "kernel_metrics", launch | _map_metric(column, cells)


def _map_activity(where: TableContext, cells: RowCells) -> tuple[str, Row]:
    """The row of one thing that happened."""
    name = cells.text("Name", "Kernel") or ""
    if special := _SPECIAL.match(name):
        return _map_bracketed(special[1], special[2], where, cells)
    if cells.text("Device", "Stream") is not None:
        return "kernels", _map_kernel(where, cells)
    if api := _API.fullmatch(name):
        return "api_calls", {
            "pid": where.pid,
            "api": _APIS[api[1]],
            "name": re.sub(r"_v\d+$", "", name),
            **_map_times(cells),
            "correlation": cells.count("Correlation_ID"),
        }
    return _map_other("trace", where, cells)


def _map_bracketed(what: str, detail: str, where: TableContext, cells: RowCells) -> tuple[str, Row]:
    """The row of what nvprof names in brackets: a copy, a fill, or what unified memory did."""
    if what == "CUDA memset":
        return "memsets", _map_memset(where, cells)
    if what == "CUDA memcpy":
        return "memcpys", _map_copy(where, cells) | {"direction": detail if detail in _DIRECTIONS else "unknown"}
    if detail.startswith("Memcpy "):
        direction = f"UVM {detail.removeprefix('Memcpy ')}"
        known = direction in ("UVM HtoD", "UVM DtoH", "UVM DtoD")
        return "memcpys", _map_migration(where, cells) | {"direction": direction if known else "unknown"}
    is_place = (cells.text("Unified Memory") or "").startswith("PC")  # of a fault of the processor: its instruction
    held = _PLACE if is_place else _PLACE | {"Unified Memory"}
    return "counters", {
        "pid": where.pid,
        "device": parse_device(cells.text("Device") or "")[1],
        "time_ns": cells.whole("Start", "ns"),
        "name": f"unified_memory_{detail.lower().replace(' ', '_')}",
        "value": None if is_place else cells.number("Unified Memory"),
        "args": _build_args(cells, held, also={"dur_ns": cells.whole("Duration", "ns")}),
    }


def _map_times(cells: RowCells) -> Row:
    return {"start_ns": cells.whole("Start", "ns"), "dur_ns": cells.whole("Duration", "ns")}


def _map_launch(where: TableContext, cells: RowCells) -> Row:
    """Where a kernel ran, and with what shape."""
    return {
        "pid": where.pid,
        "device": parse_device(cells.text("Device") or "")[1],
        "context": cells.count("Context"),
        "stream": cells.count("Stream"),
        **_map_shape("grid", "Grid", cells),
        **_map_shape("block", "Block", cells),
    }


def _map_gpu(where: TableContext, cells: RowCells) -> Row:
    return {
        "pid": where.pid,
        "device": parse_device(cells.text("Device") or "")[1],
        "context": cells.count("Context"),
        "stream": cells.count("Stream"),
        **_map_times(cells),
        "correlation": cells.count("Correlation_ID"),
    }


def _map_shape(ours: str, theirs: str, cells: RowCells) -> Row:
    if triple := cells.held.get(f"{theirs} Size"):  # consoles: (8 8 1)
        found = _TRIPLE.fullmatch(triple)
        sizes = [parse_count(size, _INT32) for size in found.groups()] if found else [None] * 3
    else:
        sizes = [cells.count(f"{theirs} {axis}", most=_INT32) for axis in "XYZ"]
    return {f"{ours}_x": sizes[0], f"{ours}_y": sizes[1], f"{ours}_z": sizes[2]}


def _map_kernel(where: TableContext, cells: RowCells) -> Row:
    name = cells.text("Name", "Kernel")
    correlated = (
        _CORRELATED.fullmatch(name) if name and name[-1] == "]" and "Correlation_ID" not in cells.held else None
    )
    row = _map_gpu(where, cells)
    return row | {
        "name": correlated[1] if correlated else name,
        "correlation": int(correlated[2]) if correlated and len(correlated[2]) < 19 else row["correlation"],  # noqa: PLR2004
        **_map_shape("grid", "Grid", cells),
        **_map_shape("block", "Block", cells),
        "registers": cells.count("Registers Per Thread", most=_INT32),
        "shared_static_bytes": cells.whole("Static SMem", "byte"),
        "shared_dynamic_bytes": cells.whole("Dynamic SMem", "byte"),
        "args": _build_args(cells, _HELD_OF_KERNEL),
    }


def _map_copy(where: TableContext, cells: RowCells) -> Row:
    return _map_gpu(where, cells) | {
        "src_memory": cells.text("SrcMemType"),
        "dst_memory": cells.text("DstMemType"),
        "src_device": parse_device(cells.text("Src Dev") or "")[1],
        "dst_device": parse_device(cells.text("Dst Dev") or "")[1],
        "size_bytes": cells.whole("Size", "byte"),
        "args": _build_args(cells, _HELD_OF_COPY),
    }


def _map_migration(where: TableContext, cells: RowCells) -> Row:
    size = "Unified Memory" if cells.text("Unified Memory") else "Size"
    return _map_gpu(where, cells) | {
        "src_device": parse_device(cells.text("Src Dev") or "")[1],
        "dst_device": parse_device(cells.text("Dst Dev") or "")[1],
        "size_bytes": cells.whole(size, "byte"),
        "args": _build_args(cells, _HELD_OF_COPY | {size}),
    }


def _map_memset(where: TableContext, cells: RowCells) -> Row:
    return _map_gpu(where, cells) | {
        "memory": cells.text("SrcMemType", "DstMemType"),
        "size_bytes": cells.whole("Size", "byte"),
        "args": _build_args(cells, _HELD_OF_MEMSET),
    }


def _map_other(category: str, where: TableContext, cells: RowCells) -> tuple[str, Row]:
    return "other_events", {
        "pid": where.pid,
        "category": category,
        "name": cells.text("Name", "Kernel"),
        **_map_times(cells),
        "args": _build_args(cells, _PLACE),
    }


def _build_args(cells: RowCells, held: Set[str], also: Row | None = None) -> str | None:
    """What no column holds, in the source's words; a throughput in 1e9 bytes a second, for nvprof's GB has 1024³."""
    left: dict[str, object] = {name: value for name, value in (also or {}).items() if value is not None}
    for column in sorted((cells.held.keys() & TRACE_COLUMNS) - held):
        rate = cells.amount(column) if column == "Throughput" else None
        if rate and rate.unit == "byte/s":
            left["throughput_gb_per_s"] = float(rate.number / _BYTES_PER_GB)
        else:
            left[column] = cells.held[column]
    return json_text(left) if left else None


def _map_metric(column: str, cells: RowCells) -> Row:
    text, instance = cells.text(column) or "", _INSTANCE.fullmatch(column)
    found = cells.amount(column)
    correlation = cells.count("Correlation_ID")
    return {
        "metric": instance[1] if instance else column,
        "instance": instance[2] if instance else None,
        "value": float(found.number) if found else None,
        "text": None if found and text[:1] not in LETTERS else text,
        "unit": found.unit if found else None,
        "args": None if correlation is None else json_text({"correlation": correlation}),
    }
