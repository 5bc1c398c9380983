"""Read the metadata of an nvprof database: devices, contexts, process, version of its layout."""

import sqlite3

import pyarrow as pa

from tracelab.readers.nvprof.activity_mapping import PREFIX

Tables = dict[str, dict[str, str]]
"""Columns of each table, with their declared types."""


def read_contexts(con: sqlite3.Connection, tables: Tables) -> pa.Table:
    """Read the device of each context."""
    rows = query_columns(con, tables, "CONTEXT", "contextId", "deviceId")
    complete = [row for row in rows if all(isinstance(value, int) for value in row)]
    return pa.table(
        {
            "context": pa.array([row[0] for row in complete], pa.int64()),
            "device": pa.array([row[1] for row in complete], pa.int64()),
        }
    )


def find_only_process(con: sqlite3.Connection, tables: Tables) -> int | None:
    """Return the process of GPU rows, which name none: the only one of the API calls, else of the file's names."""
    pids: set[object] = set()
    for kind in ("RUNTIME", "DRIVER"):
        if rows := query_columns(con, tables, kind, "min(processId)", "max(processId)", needs=("processId",)):
            pids |= {pid for pid in rows[0] if pid is not None}
    if not pids:
        names = query_columns(con, tables, "NAME", "objectKind", "objectId")
        pids = {int.from_bytes(key[:4], "little") for kind, key in names if kind == 1 and isinstance(key, bytes)}
    only = next(iter(pids)) if len(pids) == 1 else None
    return only if isinstance(only, int) else None


def read_version(con: sqlite3.Connection, tables: Tables) -> str | None:
    """Return the version of the file's layout; the file does not have nvprof's."""
    if "version" not in tables.get("Version", {}):
        return None
    try:
        row = con.execute("select version from Version").fetchone()
    except sqlite3.DatabaseError:
        return None
    return str(row[0]) if row else None


def query_columns(
    con: sqlite3.Connection, tables: Tables, kind: str, *columns: str, needs: tuple[str, ...] = ()
) -> list[tuple[object, ...]]:
    """Query columns of a small table; nothing if the table or a column is missing or unreadable."""
    if not set(needs or columns) <= set(tables.get(PREFIX + kind, {})):
        return []
    try:
        return con.execute(f"select {', '.join(columns)} from {PREFIX}{kind}").fetchall()
    except sqlite3.DatabaseError:
        return []


def read_devices(con: sqlite3.Connection, tables: Tables) -> list[dict[str, object]]:
    """Build rows of `devices`."""
    columns = tables.get(PREFIX + "DEVICE", {})
    if not columns:
        return []
    name = "(select value from StringTable s where s._id_ = t.name)" if "name" in columns else "null"
    try:
        cursor = con.execute(f"select t.*, {name} as device_name from {PREFIX}DEVICE t")
        keys = [column[0] for column in cursor.description]
        return [_build_device_row(dict(zip(keys, row, strict=True))) for row in cursor.fetchall()]
    except sqlite3.DatabaseError:
        return []


def _build_device_row(row: dict[str, object]) -> dict[str, object]:
    def number(key: str, *, most: int = 1 << 63) -> int | None:
        value = row.get(key)
        return value if isinstance(value, int) and abs(value) < most else None

    def kilo(key: str, *, per: float) -> float | None:
        value = number(key)
        return value * 1_000 / per if value else None

    major, minor = number("computeCapabilityMajor"), number("computeCapabilityMinor")
    warps, threads = number("maxWarpsPerMultiprocessor", most=1 << 20), number("numThreadsPerWarp", most=1 << 10)
    return {
        "device": number("id", most=1 << 31),
        "uuid": _format_uuid(row.get("uuid")),
        "name": row.get("device_name") if isinstance(row.get("device_name"), str) else None,
        "compute_capability": f"{major}.{minor}" if major is not None and minor is not None else None,
        "sm_count": number("numMultiprocessors", most=1 << 31),
        "memory_bytes": number("globalMemorySize"),
        "l2_bytes": number("l2CacheSize"),
        "async_engines": number("numMemcpyEngines", most=1 << 31),
        "max_threads_per_sm": warps * threads if warps and threads else None,
        "spec_bandwidth_gb_per_s": kilo("globalMemoryBandwidth", per=1e9),
        "spec_clock_hz": kilo("coreClockRate", per=1),
    }


def _format_uuid(value: object) -> str | None:
    """Format a UUID as nvidia-smi does."""
    if not isinstance(value, bytes) or len(value) != 16 or not any(value):  # noqa: PLR2004  a UUID's bytes
        return None
    text = value.hex()
    return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
