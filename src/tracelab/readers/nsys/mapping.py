"""Map the tables of an export to canonical tables: one mapping per table, one line per canonical column."""

import re
from collections.abc import Mapping as Dict
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.nsys import enums
from tracelab.readers.nsys.column_builders import (
    Batch,
    Value,
    constant,
    device,
    duration,
    id_or_null,
    int32,
    label,
    link,
    number,
    pid,
    text_of_id,
    tid,
    time,
)
from tracelab.readers.nsys.combinations import map_combinations
from tracelab.readers.nsys.dedup_api_calls import APIS
from tracelab.readers.nsys.export import Array, Columns
from tracelab.readers.nsys.string_table import map_distinct


@dataclass(frozen=True)
class Mapping:
    """Mapping of an export's table to a canonical one; columns that no line reads go into `args`."""

    table: str
    columns: Dict[str, Value]
    mapped: frozenset[str] = frozenset()
    """Columns of the export that the lines read, or that repeat them."""
    keep_zero: bool = False
    """Whether arguments of 0 are kept."""
    dropped: frozenset[str] = frozenset({"callchainId", "gridId", "mangledName"})
    """Call stacks are not stored.

    GridId numbers the launches of a process in order; demangledName replaces mangledName.
    """


_TIMES = {"start_ns": time("start"), "dur_ns": duration("start", "end")}
_GPU = {
    "pid": pid("globalPid"),
    "device": device("deviceId"),
    "context": id_or_null("contextId"),
    "stream": id_or_null("streamId"),
    **_TIMES,
    "correlation": link("correlationId"),
    "graph": link("graphId"),
    "graph_node": link("graphNodeId"),
}
_GPU_MAPPED = frozenset(
    {
        *("globalPid", "deviceId", "contextId", "streamId", "start", "end", "correlationId"),
        *("graphId", "graphNodeId"),
    }
)
_CPU = {"pid": pid("globalTid"), "tid": tid("globalTid"), **_TIMES}
_CPU_MAPPED = frozenset({"globalTid", "start", "end", "nameId", "textId"})

_VERSION = re.compile(r"(?:_ptsz|_ptds)?_v\d{3,}(?:_ptsz|_ptds)?$")  # cudaMalloc_v3020; cuMemAlloc_v2 keeps its own
_DRIVER = re.compile(r"cu(?!da)[A-Z]")


def strip_api_version(name: str) -> str:
    """Remove the version of the function table from a function's name."""
    return _VERSION.sub("", name)


def _cuda_api_kind(batch: Batch) -> Array:
    """Return the API of each call by its class; for other classes (a call with its stack, for example) by its name."""
    names = batch.session.enums["ENUM_NSYS_EVENT_CLASS"]

    def apis_of_classes(classes: Array) -> Array:
        return pa.array([APIS.get(names.get(value, "")) for value in classes.to_pylist()], pa.string())

    def apis_of_names(texts: Array) -> Array:
        return pa.array(["driver" if _DRIVER.match(text) else "runtime" for text in texts.to_pylist()], pa.string())

    by_class = map_distinct(batch.column("eventClass"), apis_of_classes)
    if not by_class.null_count:
        return by_class
    return pc.coalesce(by_class, map_distinct(text_of_id("nameId")(batch), apis_of_names), pa.scalar("runtime"))


def _signed_bytes(batch: Batch) -> Array:
    """Return bytes allocated; below 0, released."""
    released = pc.equal(batch.column("memoryOperationType"), 1)
    return pc.if_else(pc.fill_null(released, False), pc.negate(batch.column("bytes")), batch.column("bytes"))  # noqa: FBT003


def _event_record_field(position: int) -> Value:
    """Return stream or correlation of the event record that a sync waited for, if the export numbers them."""

    def look_up(batch: Batch) -> Array:
        records = batch.session.records
        if not records:
            return pa.nulls(batch.rows.num_rows, pa.int64())
        keys = (pid("globalPid")(batch), batch.column("eventId"), batch.column("eventSyncId"))
        return map_combinations(keys, lambda *key: records.get(key, (None, None))[position], pa.int64())

    return look_up


_MEMORY = ("ENUM_CUDA_MEM_KIND", enums.memory_kind)

MAPPINGS: Dict[str, Mapping] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": Mapping(
        "kernels",
        {
            **_GPU,
            "name": text_of_id("demangledName", "shortName"),
            **{f"grid_{axis}": int32(f"grid{axis.upper()}") for axis in "xyz"},
            **{f"block_{axis}": int32(f"block{axis.upper()}") for axis in "xyz"},
            "registers": int32("registersPerThread"),
            "shared_static_bytes": number("staticSharedMemory"),
            "shared_dynamic_bytes": number("dynamicSharedMemory"),
        },
        _GPU_MAPPED
        | {"demangledName", "shortName", "registersPerThread", "staticSharedMemory"}
        | {"dynamicSharedMemory", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"},
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": Mapping(
        "memcpys",
        {
            **_GPU,
            "direction": label("copyKind", "ENUM_CUDA_MEMCPY_OPER", enums.copy_direction),
            "src_memory": label("srcKind", *_MEMORY),
            "dst_memory": label("dstKind", *_MEMORY),
            "src_device": device("srcDeviceId"),
            "dst_device": device("dstDeviceId"),
            "size_bytes": number("bytes"),
        },
        _GPU_MAPPED | {"copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId", "bytes"},
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": Mapping(
        "memsets",
        {
            **_GPU,
            "memory": label("memKind", *_MEMORY),
            "size_bytes": number("bytes"),
            "value": number("value"),
        },
        _GPU_MAPPED | {"memKind", "bytes", "value"},
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": Mapping(
        "graph_launches",
        {**_GPU, "name": text_of_id("nameId")},
        _GPU_MAPPED | {"nameId"},
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": Mapping(
        "syncs",
        {
            **_GPU,
            "kind": label("syncType", "ENUM_CUPTI_SYNC_TYPE", enums.sync_kind),
            "event_id": id_or_null("eventId"),
            "waits_for_stream": _event_record_field(0),
            "waits_for_correlation": _event_record_field(1),
        },
        _GPU_MAPPED | {"syncType", "deprecatedSyncType", "eventId", "eventSyncId"},
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": Mapping(
        "api_calls",
        {
            **_CPU,
            "api": _cuda_api_kind,
            "name": text_of_id("nameId", change=strip_api_version),
            "correlation": link("correlationId"),
            "return_value": number("returnValue"),
        },
        _CPU_MAPPED | {"correlationId", "returnValue", "eventClass"},
    ),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": Mapping(
        "memory_events",
        {
            "pid": pid("globalPid"),
            "time_ns": time("start"),
            "device": device("deviceId"),
            "address": number("address"),
            "size_bytes": _signed_bytes,
        },
        frozenset({"globalPid", "start", "deviceId", "address", "bytes"}),
    ),
}
"""By table of the export."""

_LIBRARY = re.compile(
    r"(?:CUPTI_ACTIVITY_KIND_)?((?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CUFFT|CURAND|MPI|UCP|UCX|NVSHMEM|OPENSHMEM|OPENACC)"
    r"(?=_)|[A-Z0-9_]+(?=_API$))"
)
_SHARED_KEYS = ("globalTid", "start", "end")


def find_mapping(table: str, columns: Columns) -> Mapping | None:
    """Return the mapping of a table; None if it has no events."""
    if table in MAPPINGS:
        return MAPPINGS[table]
    if table == "CUPTI_ACTIVITY_KIND_RUNTIME_V2":
        return MAPPINGS["CUPTI_ACTIVITY_KIND_RUNTIME"]
    library = _LIBRARY.match(table)
    if library and all(key in columns for key in _SHARED_KEYS):
        return _map_library_calls("osrt" if table == "OSRT_API" else library[1].lower())
    return (
        map_other_events(columns)
        if {"start", "timestamp", "rawTimestamp"} & set(columns) or table in _UNTIMED
        else None
    )


_UNTIMED = ("CUPTI_ACTIVITY_KIND_CUDA_EVENT",)
"""Tables of events without times in older versions."""


def _map_library_calls(api: str) -> Mapping:
    return Mapping(
        "api_calls",
        {
            **_CPU,
            "api": constant(api),
            "name": text_of_id("nameId", "textId", change=strip_api_version),
            "correlation": link("correlationId"),
            "return_value": number("returnValue"),
        },
        _CPU_MAPPED | {"correlationId", "returnValue", "eventClass"},
    )


def map_other_events(columns: Columns) -> Mapping:
    """Map events without a canonical table to `other_events`."""
    start = next((name for name in ("start", "timestamp", "rawTimestamp") if name in columns), "start")
    id_column = "globalTid" if "globalTid" in columns else "globalPid"
    has_end = "end" in columns and columns["end"] == "int"
    return Mapping(
        "other_events",
        {
            "pid": pid(id_column),
            "category": lambda batch: constant(batch.table)(batch),
            "phase": constant("X" if has_end else "i"),
            "name": text_of_id("nameId", "textId"),
            **({"tid": tid(id_column)} if id_column == "globalTid" else {}),
            "start_ns": time(start),
            **({"dur_ns": duration(start, "end")} if has_end else {}),
        },
        frozenset({id_column, start, "end", "nameId", "textId", "callchainId"}),
        keep_zero=True,
    )
