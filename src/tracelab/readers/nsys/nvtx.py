"""NVTX: ranges and marks as annotations; NCCL's payloads as collectives; the names of domains and categories."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.column_builders import (
    Batch,
    Session,
    build_args,
    count_outside_session,
    duration,
    pid,
    tid,
    time,
)
from tracelab.readers.nsys.export import Array, Columns, Export, Part
from tracelab.readers.nsys.nccl import build_collectives
from tracelab.readers.nsys.string_table import StringTable, map_distinct

TABLES = ("NVTX_EVENTS", "NVTX_EVENTS_V2", "NVTX_EVENTS_V3")
RANGES = {
    "NvtxMark": "mark",
    "NvtxPushPopRange": "push_pop",
    "NvtxStartEndRange": "start_end",
    "NvtxtMark": "mark",
    "NvtxtPushPopRange": "push_pop",
    "NvtxtStartEndRange": "start_end",
}
"""Types of events that are annotations, and their `style` in args; the others name things."""

_NAMING_TYPES = ("NvtxDomainCreate", "NvtxCategory", "NvtxtCategory", "NvtxThread")
_NAMING: Columns = {
    **dict.fromkeys(("eventType", "globalTid", "domainId", "category", "textId"), "int"),
    "text": "text",
}
"""What the events that name things are read of."""

_VALUES = ("uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue")
_HELD = {
    *("start", "end", "eventType", "globalTid", "text", "textId", "domainId", "category", "jsonText", "jsonTextId"),
    *_VALUES,
}


@dataclass(frozen=True)
class NvtxNames:
    """What the events that name things say, over all processes."""

    domains: dict[tuple[int | None, int], str]
    categories: dict[tuple[int | None, int, int], str]
    mpi_ranks: dict[int, int]


def read_names(export: Export, strings: StringTable, types: Mapping[int, str]) -> NvtxNames:
    """The names of domains and categories, and the MPI ranks after which threads are named."""
    found = NvtxNames({}, {}, {})
    codes = pa.array([code for code, name in types.items() if name in _NAMING_TYPES], pa.int64())
    for table in TABLES:
        columns = {name: kind for name, kind in _NAMING.items() if name in export.tables.get(table, {})}
        if "eventType" not in columns:
            continue
        for part in export.parts(table):  # most have none, and their texts need not be read for that
            if any(
                _select_naming_rows(rows, codes).num_rows for rows in _iter_rows(export, part, {"eventType": "int"})
            ):
                for rows in _iter_rows(export, part, columns):
                    for row in _select_naming_rows(rows, codes).to_pylist():
                        _store_name(row, types[row["eventType"]], strings, found)
    return found


def _iter_rows(export: Export, part: Part, columns: Columns) -> Iterator[pa.Table]:
    """Rows that are read again as events, and what is wrong with them is noted then."""
    return export.batches(part, columns, DiagnosticCounts(), "rows_lost")


def _select_naming_rows(rows: pa.Table, codes: Array) -> pa.Table:
    return rows.filter(pc.is_in(rows.column("eventType"), value_set=codes))


def _store_name(row: dict[str, object], kind: str, strings: StringTable, found: NvtxNames) -> None:
    text, where, domain = row.get("text"), row.get("globalTid"), row.get("domainId") or 0
    if text is None and isinstance(row.get("textId"), int):
        text = strings.of(pa.array([row["textId"]], pa.int64()), DiagnosticCounts())[0].as_py()
    if not isinstance(text, str) or not isinstance(domain, int):
        return
    process = (where >> 24) & 0xFFFFFF if isinstance(where, int) else None
    category = row.get("category")
    if kind == "NvtxDomainCreate":
        found.domains[process, domain] = text
    elif kind == "NvtxThread" and text.startswith("MPI Rank ") and text[9:].isdecimal() and process is not None:
        found.mpi_ranks[process] = int(text[9:])
    elif kind != "NvtxThread" and isinstance(category, int):
        found.categories[process, domain, category] = text


def map_batch(batch: Batch, extras: list[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of a batch by the canonical table that they belong into."""
    types = batch.session.enums["ENUM_NSYS_EVENT_TYPE"]
    codes = pa.array([code for code, name in types.items() if name in RANGES], pa.int64())
    ranged = pc.is_in(batch.column("eventType"), value_set=codes)
    ranges, others = (
        Batch(batch.table, batch.rows.filter(mask), batch.session, batch.diagnostics)
        for mask in (ranged, pc.invert(ranged))
    )
    if ranges.rows.num_rows:
        batch.diagnostics.note("outside_session", count=count_outside_session(ranges))
        annotations = _map_annotations(ranges, extras)
        yield "annotations", annotations
        if (noted := build_collectives(annotations)) is not None:
            yield "collectives", noted
    if others.rows.num_rows:
        yield "other_events", _map_other_events(others, extras, types)


def _map_annotations(batch: Batch, extras: list[str]) -> pa.Table:
    return pa.table(
        {
            "name": _event_texts(batch),
            "domain": _domain_names(batch),
            "category": _category_names(batch),
            "scope": pa.repeat(pa.scalar("cpu"), batch.rows.num_rows),
            "pid": pid("globalTid")(batch),
            "tid": tid("globalTid")(batch),
            "start_ns": time("start")(batch),
            "dur_ns": duration("start", "end")(batch),
            "payload": _payload_json(batch),
            "args": build_args(_with_style(batch), ["style", *extras], keep_zero=False),
        }
    )


def _with_style(batch: Batch) -> Batch:
    """The batch with a column that says what kind of range each is: without it an open range looks like a mark."""
    types = batch.session.enums["ENUM_NSYS_EVENT_TYPE"]

    def styles(codes: Array) -> Array:
        return pa.array([RANGES.get(types.get(code, "")) for code in codes.to_pylist()], pa.string())

    return replace(batch, rows=batch.rows.append_column("style", map_distinct(batch.column("eventType"), styles)))


def _map_other_events(batch: Batch, extras: list[str], types: Mapping[int, str]) -> pa.Table:
    """Names of threads, ends of domains, and whatever newer versions add."""
    kinds = [types.get(code, f"NVTX event type {code}") for code in batch.column("eventType").to_pylist()]
    return pa.table(
        {
            "category": pa.array(kinds, pa.string()),
            "phase": pa.repeat(pa.scalar("M"), batch.rows.num_rows),
            "name": _event_texts(batch),
            "pid": pid("globalTid")(batch),
            "tid": tid("globalTid")(batch),
            "start_ns": time("start")(batch),
            "dur_ns": duration("start", "end")(batch),
            "args": build_args(batch, [*extras, "domainId", "category"], keep_zero=False),
        }
    )


def _event_texts(batch: Batch) -> Array:
    """The event's own text, else the registered one."""
    own = batch.column("text", "text")
    if not own.null_count:
        return own
    return pc.coalesce(own, batch.session.strings.of(batch.column("textId"), batch.diagnostics))


def _domain_names(batch: Batch) -> Array:
    """The domain's name, else its number; the default domain, 0, has none."""
    known = batch.session.domains

    def found(process: int | None, domain: int) -> str | None:
        return known.get((process, domain)) or (str(domain) if domain else None)

    return _look_up_by_keys(batch, ("domainId",), found)


def _category_names(batch: Batch) -> Array:
    """The category's name, else its number."""
    known = batch.session.categories

    def found(process: int | None, domain: int, category: int) -> str | None:
        return known.get((process, domain, category)) or (str(category) if category else None)

    return _look_up_by_keys(batch, ("domainId", "category"), found)


def _look_up_by_keys(batch: Batch, columns: tuple[str, ...], find: Callable[..., str | None]) -> Array:
    """What a process and some ids stand for, looked up once for each combination."""
    keys = pa.table(
        {
            "process": pid("globalTid")(batch),
            **{name: pc.coalesce(batch.column(name), pa.scalar(0, pa.int64())) for name in columns},
        }
    )
    if not pc.any(pc.not_equal(keys.column(columns[-1]), 0)).as_py():
        return pa.nulls(batch.rows.num_rows, pa.string())
    rows = list(zip(*(column.to_pylist() for column in keys.columns), strict=True))
    names = {row: find(*row) for row in set(rows)}
    return pa.array([names[row] for row in rows], pa.string())


def _payload_json(batch: Batch) -> Array:
    """The payload as JSON: the decoded object, else the number."""
    written = batch.column("jsonText", "text")
    if "jsonTextId" in batch.rows.column_names:
        written = pc.coalesce(written, batch.session.strings.of(batch.column("jsonTextId"), batch.diagnostics))
    for name in _VALUES:
        values = batch.column(name)
        if values.null_count < len(values):
            texts = [None if value is None else json.dumps(value) for value in values.to_pylist()]
            written = pc.coalesce(written, pa.array(texts, pa.string()))
    return written


def list_extra_columns(columns: Columns) -> list[str]:
    """The columns that go into args."""
    return [name for name in columns if name not in _HELD]


def add_names(session: Session, found: NvtxNames) -> Session:
    """The session with the names that NVTX events gave."""
    return replace(session, domains=found.domains, categories=found.categories)
