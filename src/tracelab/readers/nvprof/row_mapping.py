"""Rows of nvprof's printed tables to rows of canonical tables: one mapping a kind of row, one line a column."""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from tracelab.output.plain_values import json_text
from tracelab.readers.nvprof.cell_values import Cells, count_of, device_of
from tracelab.readers.nvprof.summary_mapping import LETTERS, SUMMARIES, Row, Where
from tracelab.readers.nvprof.table_layout import TRACE_COLUMNS, Layout

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
_HELD_OF_FILL = _PLACE | {"SrcMemType", "DstMemType", "Size"}


@dataclass
class Launches:
    """Numbers the launches of a report."""

    so_far: int = 0
    devices: set[tuple[int | None, int, str]] = field(default_factory=set)

    def next(self) -> int:
        """The number of one more launch, from 0."""
        self.so_far += 1
        return self.so_far - 1


def rows_of(layout: Layout, where: Where, cells: Cells, launches: Launches) -> Iterator[tuple[str, Row]]:
    """The rows, and their tables, that one row of a printed table makes."""
    name, ordinal = device_of(cells.text("Device") or where.device or "")
    if name is not None and ordinal is not None:
        launches.devices.add((where.pid, ordinal, name))
    if layout.kind in ("trace", "launches"):
        yield from _of_trace(layout, where, cells, launches)
    else:
        row = SUMMARIES[layout.kind](where, cells)
        yield "summaries", {"pid": where.pid, "device": ordinal, "device_name": name} | row


def _of_trace(layout: Layout, where: Where, cells: Cells, launches: Launches) -> Iterator[tuple[str, Row]]:
    metrics = layout.metrics
    if layout.kind == "trace":
        yield _traced(where, cells)
    if metrics and (name := cells.text("Name", "Kernel")) and not name.startswith("["):
        launch = _launch(where, cells) | {"launch": launches.next(), "kernel": name}
        for column in metrics:
            if cells.text(column) is not None:
                yield "kernel_metrics", launch | _metric(column, cells)


def _traced(where: Where, cells: Cells) -> tuple[str, Row]:
    """The row of one thing that happened."""
    name = cells.text("Name", "Kernel") or ""
    if special := _SPECIAL.match(name):
        return _special(special[1], special[2], where, cells)
    if cells.text("Device", "Stream") is not None:
        return "kernels", _kernel(where, cells)
    if api := _API.fullmatch(name):
        return "api_calls", {
            "pid": where.pid,
            "api": _APIS[api[1]],
            "name": re.sub(r"_v\d+$", "", name),
            **_times(cells),
            "correlation": cells.count("Correlation_ID"),
        }
    return _other("trace", where, cells)


def _special(what: str, detail: str, where: Where, cells: Cells) -> tuple[str, Row]:
    """The row of what nvprof names in brackets: a copy, a fill, or what unified memory did."""
    if what == "CUDA memset":
        return "memsets", _fill(where, cells)
    if what == "CUDA memcpy":
        return "memcpys", _copy(where, cells) | {"direction": detail if detail in _DIRECTIONS else "unknown"}
    if detail.startswith("Memcpy "):
        direction = f"UVM {detail.removeprefix('Memcpy ')}"
        known = direction in ("UVM HtoD", "UVM DtoH", "UVM DtoD")
        return "memcpys", _migration(where, cells) | {"direction": direction if known else "unknown"}
    is_place = (cells.text("Unified Memory") or "").startswith("PC")  # of a fault of the processor: its instruction
    held = _PLACE if is_place else _PLACE | {"Unified Memory"}
    return "counters", {
        "pid": where.pid,
        "device": device_of(cells.text("Device") or "")[1],
        "time_ns": cells.whole("Start", "ns"),
        "name": f"unified_memory_{detail.lower().replace(' ', '_')}",
        "value": None if is_place else cells.number("Unified Memory"),
        "args": _args(cells, held, also={"dur_ns": cells.whole("Duration", "ns")}),
    }


def _times(cells: Cells) -> Row:
    return {"start_ns": cells.whole("Start", "ns"), "dur_ns": cells.whole("Duration", "ns")}


def _launch(where: Where, cells: Cells) -> Row:
    """Where a kernel ran, and with what shape."""
    return {
        "pid": where.pid,
        "device": device_of(cells.text("Device") or "")[1],
        "context": cells.count("Context"),
        "stream": cells.count("Stream"),
        **_shape("grid", "Grid", cells),
        **_shape("block", "Block", cells),
    }


def _gpu(where: Where, cells: Cells) -> Row:
    return {
        "pid": where.pid,
        "device": device_of(cells.text("Device") or "")[1],
        "context": cells.count("Context"),
        "stream": cells.count("Stream"),
        **_times(cells),
        "correlation": cells.count("Correlation_ID"),
    }


def _shape(ours: str, theirs: str, cells: Cells) -> Row:
    if triple := cells.held.get(f"{theirs} Size"):  # consoles: (8 8 1)
        found = _TRIPLE.fullmatch(triple)
        sizes = [count_of(size, _INT32) for size in found.groups()] if found else [None] * 3
    else:
        sizes = [cells.count(f"{theirs} {axis}", most=_INT32) for axis in "XYZ"]
    return {f"{ours}_x": sizes[0], f"{ours}_y": sizes[1], f"{ours}_z": sizes[2]}


def _kernel(where: Where, cells: Cells) -> Row:
    name = cells.text("Name", "Kernel")
    correlated = (
        _CORRELATED.fullmatch(name) if name and name[-1] == "]" and "Correlation_ID" not in cells.held else None
    )
    row = _gpu(where, cells)
    return row | {
        "name": correlated[1] if correlated else name,
        "correlation": int(correlated[2]) if correlated and len(correlated[2]) < 19 else row["correlation"],  # noqa: PLR2004
        **_shape("grid", "Grid", cells),
        **_shape("block", "Block", cells),
        "registers": cells.count("Registers Per Thread", most=_INT32),
        "shared_static_bytes": cells.whole("Static SMem", "byte"),
        "shared_dynamic_bytes": cells.whole("Dynamic SMem", "byte"),
        "args": _args(cells, _HELD_OF_KERNEL),
    }


def _copy(where: Where, cells: Cells) -> Row:
    return _gpu(where, cells) | {
        "src_memory": cells.text("SrcMemType"),
        "dst_memory": cells.text("DstMemType"),
        "src_device": device_of(cells.text("Src Dev") or "")[1],
        "dst_device": device_of(cells.text("Dst Dev") or "")[1],
        "size_bytes": cells.whole("Size", "byte"),
        "args": _args(cells, _HELD_OF_COPY),
    }


def _migration(where: Where, cells: Cells) -> Row:
    size = "Unified Memory" if cells.text("Unified Memory") else "Size"
    return _gpu(where, cells) | {
        "src_device": device_of(cells.text("Src Dev") or "")[1],
        "dst_device": device_of(cells.text("Dst Dev") or "")[1],
        "size_bytes": cells.whole(size, "byte"),
        "args": _args(cells, _HELD_OF_COPY | {size}),
    }


def _fill(where: Where, cells: Cells) -> Row:
    return _gpu(where, cells) | {
        "memory": cells.text("SrcMemType", "DstMemType"),
        "size_bytes": cells.whole("Size", "byte"),
        "args": _args(cells, _HELD_OF_FILL),
    }


def _other(category: str, where: Where, cells: Cells) -> tuple[str, Row]:
    return "other_events", {
        "pid": where.pid,
        "category": category,
        "name": cells.text("Name", "Kernel"),
        **_times(cells),
        "args": _args(cells, _PLACE),
    }


def _args(cells: Cells, held: Set[str], also: Row | None = None) -> str | None:
    """What no column holds, in the source's words; a throughput in 1e9 bytes a second, for nvprof's GB has 1024³."""
    left: dict[str, object] = {name: value for name, value in (also or {}).items() if value is not None}
    for column in sorted((cells.held.keys() & TRACE_COLUMNS) - held):
        rate = cells.amount(column) if column == "Throughput" else None
        if rate and rate.unit == "byte/s":
            left["throughput_gb_per_s"] = float(rate.number / _BYTES_PER_GB)
        else:
            left[column] = cells.held[column]
    return json_text(left) if left else None


def _metric(column: str, cells: Cells) -> Row:
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
