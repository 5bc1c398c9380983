"""Read names of enum values from the export's ENUM tables, with current values as a fallback."""

from collections.abc import Mapping

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.export import Export, read_records

_FALLBACK: Mapping[str, tuple[str, Mapping[int, str]]] = {
    "ENUM_CUDA_MEMCPY_OPER": (
        "CUDA_MEMCPY_KIND_",
        dict(
            enumerate(
                (
                    *("UNKNOWN", "HTOD", "DTOH", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA", "DTOD", "HTOH", "PTOP"),
                    *("UVM_HTOD", "UVM_DTOH", "UVM_DTOD"),
                )
            )
        ),
    ),
    "ENUM_CUDA_MEM_KIND": (
        "CUDA_MEMOPR_MEMORY_KIND_",
        dict(
            enumerate(
                ("PAGEABLE", "PINNED", "DEVICE", "ARRAY", "MANAGED", "DEVICE_STATIC", "MANAGED_STATIC", "UNKNOWN")
            )
        ),
    ),
    "ENUM_CUPTI_SYNC_TYPE": (
        "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_",
        dict(
            enumerate(
                ("UNKNOWN", "EVENT_SYNCHRONIZE", "STREAM_WAIT_EVENT", "STREAM_SYNCHRONIZE", "CONTEXT_SYNCHRONIZE")
            )
        ),
    ),
    "ENUM_NSYS_EVENT_CLASS": ("TRACE_PROCESS_EVENT_", {0: "CUDA_RUNTIME", 1: "CUDA_DRIVER"}),
    "ENUM_NSYS_EVENT_TYPE": (
        "",
        {
            33: "NvtxCategory",
            34: "NvtxMark",
            39: "NvtxThread",
            59: "NvtxPushPopRange",
            60: "NvtxStartEndRange",
            75: "NvtxDomainCreate",
            76: "NvtxDomainDestroy",
        },
    ),
    "ENUM_DIAGNOSTIC_SEVERITY_LEVEL": ("", {0: "UnknownLevel", 1: "Info", 2: "Warning", 3: "Error", 4: "Verbose"}),
}
"""By table: prefix of its names, and the names by number."""

Enums = Mapping[str, Mapping[int, str]]
"""By table and number: the name without its prefix."""


def read_enums(export: Export, diagnostics: DiagnosticCounts) -> Enums:
    """Read the names of the tables that are used."""
    names_by_table = {}
    for table, (prefix, fallback) in _FALLBACK.items():
        rows = read_records(export, table, {"id": "int", "name": "text"}, diagnostics)
        exported = {
            row["id"]: row["name"].removeprefix(prefix)
            for row in rows
            if isinstance(row["id"], int) and isinstance(row["name"], str)
        }
        names_by_table[table] = {**fallback, **exported}
    return names_by_table


_DIRECTIONS = ("HTOD", "DTOH", "DTOD", "HTOH", "PTOP", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA")
_UVM_DIRECTIONS = ("UVM_HTOD", "UVM_DTOH", "UVM_DTOD")

_SYNCS = {  # as Kineto names them
    "EVENT_SYNCHRONIZE": "Event Sync",
    "STREAM_WAIT_EVENT": "Stream Wait Event",
    "STREAM_SYNCHRONIZE": "Stream Sync",
    "CONTEXT_SYNCHRONIZE": "Context Sync",
}


def copy_direction(name: str | None) -> str:
    """Convert DTOH to DtoH, UVM_HTOD to UVM HtoD."""
    if name in _DIRECTIONS:
        return _format_direction(name)
    return f"UVM {_format_direction(name.removeprefix('UVM_'))}" if name in _UVM_DIRECTIONS else "unknown"


def memory_kind(name: str | None) -> str | None:
    """Convert DEVICE_STATIC to Device Static; None if the kind is unknown."""
    return None if name is None or name == "UNKNOWN" else name.replace("_", " ").title()


def sync_kind(name: str | None) -> str | None:
    """Convert a type of synchronization to Kineto's name."""
    return _SYNCS.get(name, name.replace("_", " ").title()) if name is not None else None


def _format_direction(name: str) -> str:
    return f"{name[0]}to{name[-1]}"
