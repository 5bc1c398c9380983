"""Read the metadata of a recording: session, devices, processes, versions."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from tracelab import schema
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.export import Columns, Export, iter_rows, read_records

Record = dict[str, object]
EventKey = tuple[int, int, int]
"""Process, event, and number of the record."""

_VERSIONS = {"EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"}
_NO_UUID = re.compile(r"[0-]*")
_GPU: Columns = {
    "id": "int",
    "cuDevice": "int",
    "name": "text",
    "busLocation": "text",
    "uuid": "text",
    "l2CacheSize": "int",
    "totalMemory": "int",
    "memoryBandwidth": "int",
    "clockRate": "int",
    "smCount": "int",
    "asyncEngines": "int",
    "maxWarpsPerSm": "int",
    "threadsPerWarp": "int",
    "computeMajor": "int",
    "computeMinor": "int",
}
_PROCESSES = {
    "TARGET_INFO_CUDA_STREAM": "processId",
    "TARGET_INFO_CUDA_NULL_STREAM": "processId",
    "TARGET_INFO_CUDA_CONTEXT_INFO": "processId",
    "TARGET_INFO_CUDA_DEVICE": "pid",
}


def session_start_ns(export: Export, diagnostics: DiagnosticCounts) -> int | None:
    """Return the start of the session, in Unix ns."""
    rows = read_records(export, "TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": "int"}, diagnostics)
    starts = [row["utcEpochNs"] for row in rows if isinstance(row["utcEpochNs"], int)]
    return next((start for start in starts if 0 < start < 1 << 61), None)


def session_dur_ns(export: Export, diagnostics: DiagnosticCounts) -> int | None:
    """Return the duration of the session."""
    rows = read_records(export, "ANALYSIS_DETAILS", {"duration": "int"}, diagnostics)
    durations = [row["duration"] for row in rows if isinstance(row["duration"], int)]
    return max((dur for dur in durations if 0 < dur < 1 << 61), default=None)


def read_versions(export: Export, diagnostics: DiagnosticCounts) -> dict[str, str]:
    """Return the versions of nsys and of its schema.

    Skip the other rows of these tables: they name users and machines.
    """
    versions_by_name = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        for row in read_records(export, table, {"name": "text", "value": "text"}, diagnostics):
            if row["name"] in _VERSIONS and row["value"]:
                versions_by_name[str(row["name"])] = str(row["value"])
    return versions_by_name


def list_gpu_processes(export: Export) -> list[int]:
    """Return the processes that had a CUDA context according to the metadata tables, in order."""
    pids: set[int] = set()
    for table, column in _PROCESSES.items():
        rows = read_records(export, table, {column: "int"}, DiagnosticCounts())
        pids |= {row[column] for row in rows if isinstance(row[column], int) and row[column]}  # type: ignore[misc]
    return sorted(pids)


def read_event_records(export: Export) -> dict[EventKey, tuple[int, int]]:
    """Return stream and correlation of awaited event records, if the export numbers them (since 2025)."""
    keys: Columns = dict.fromkeys(("globalPid", "eventId", "eventSyncId"), "int")
    waits, records_of = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
    if any("eventSyncId" not in export.tables.get(table, {}) for table in (waits, records_of)):
        return {}
    awaited = {key for key, _ in _event_keys(export, waits, keys)}
    columns = {**keys, **dict.fromkeys(("streamId", "correlationId"), "int")}
    recorded = _event_keys(export, records_of, columns)  # type: ignore[arg-type]
    return {key: (row["streamId"], row["correlationId"]) for key, row in recorded if key in awaited}


def _event_keys(export: Export, table: str, columns: Columns) -> Iterator[tuple[EventKey, dict[str, Any]]]:
    for rows in iter_rows(export, table, columns, DiagnosticCounts(), "description_lost"):
        for row in rows.to_pylist():
            if row["globalPid"] is not None and row["eventSyncId"] and row["eventId"] is not None:
                yield ((row["globalPid"] >> 24) & 0xFFFFFF, row["eventId"], row["eventSyncId"]), row


def build_device_rows(
    export: Export, ranks: Mapping[int, int], used: set[int], diagnostics: DiagnosticCounts
) -> list[Record]:
    """Build rows of `devices`: those that each process uses, if the export lists them, else all GPUs of the machine."""
    cards = read_records(export, "TARGET_INFO_GPU", _GPU, diagnostics)
    records = read_records(
        export, "TARGET_INFO_CUDA_DEVICE", {"gpuId": "int", "cudaId": "int", "pid": "int"}, diagnostics
    )
    by_id = {card["id"]: card for card in cards}
    process_devices = [
        _build_device_row(by_id[row["gpuId"]], row["cudaId"]) | {"rank": ranks.get(row["pid"], 0)}  # type: ignore[call-overload]
        for row in records
        if row["gpuId"] in by_id and (row["pid"] in ranks or not ranks)
    ]
    if process_devices:
        return process_devices
    ordinals = _cuda_ordinals(cards)
    if cards and None in ordinals and used:
        diagnostics.note("device_unknown", count=len(cards))
    return [
        _build_device_row(card, ordinal) | {"rank": rank}
        for rank in sorted(set(ranks.values()) or {0})
        for card, ordinal in zip(cards, ordinals, strict=True)
    ]


def _cuda_ordinals(cards: list[Record]) -> list[object]:
    """Return the CUDA ordinal of each GPU; some versions write 0 for all, so only a single GPU's is then known."""
    ordinals = [card["cuDevice"] for card in cards]
    if len(cards) == 1:
        return [0 if ordinals[0] is None else ordinals[0]]
    return ordinals if len(set(ordinals)) == len(ordinals) else [None] * len(cards)


def _build_device_row(card: Record, ordinal: object) -> Record:
    major, minor = card["computeMajor"], card["computeMinor"]
    bandwidth, clock, uuid = card["memoryBandwidth"], card["clockRate"], str(card["uuid"] or "")
    warps, threads = card["maxWarpsPerSm"], card["threadsPerWarp"]
    return {
        "device": ordinal,
        "uuid": None if _NO_UUID.fullmatch(uuid) else f"GPU-{uuid.removeprefix('GPU-')}",
        "bus_id": card["busLocation"] or None,
        "name": str(card["name"]).strip() or None if card["name"] else None,
        "compute_capability": f"{major}.{minor}" if major is not None and minor is not None else None,
        "sm_count": card["smCount"] or None,
        "memory_bytes": card["totalMemory"] or None,
        "l2_bytes": card["l2CacheSize"] or None,
        "async_engines": card["asyncEngines"],
        "max_threads_per_sm": warps * threads
        if isinstance(warps, int) and isinstance(threads, int) and warps
        else None,
        "spec_bandwidth_gb_per_s": bandwidth / 1e9 if isinstance(bandwidth, int) and bandwidth else None,
        "spec_clock_hz": float(clock) if isinstance(clock, int) and clock else None,
    }


def build_table(name: str, rows: list[Record]) -> pa.Table:
    """Build a canonical table from rows with some of its columns."""
    columns = [column for column in schema.BY_NAME[name].columns if column.name not in ("run", "source")]
    if not any("rank" in row for row in rows):
        columns = [column for column in columns if column.name != "rank"]
    return pa.table(
        {c.name: pa.array([_null_beyond_int32(row.get(c.name), c.type) for row in rows], c.arrow.type) for c in columns}
    )


def _null_beyond_int32(value: Any, kind: str) -> object:  # noqa: ANN401 - of any column
    """Return the value; None if it overflows its column's type."""
    return None if kind == "int32" and isinstance(value, int) and not -(1 << 31) <= value < 1 << 31 else value
