"""Map NVTX: ranges and marks to annotations, payloads of NCCL to collectives; read domains and categories."""

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
from tracelab.readers.nsys.combinations import map_combinations
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
"""Event types that are annotations, and their `style` in args; the others name things."""

_NAMING_TYPES = ("NvtxDomainCreate", "NvtxCategory", "NvtxtCategory", "NvtxThread")
_NAMING: Columns = {
    **dict.fromkeys(("eventType", "globalTid", "domainId", "category", "textId"), "int"),
    "text": "text",
}
"""Columns of the events that name things."""

_VALUES = ("uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue")
KINDS: Columns = {
    **dict.fromkeys(("start", "end", "eventType", "globalTid", "textId", "domainId", "category", "jsonTextId"), "int"),
    **dict.fromkeys(("text", "jsonText"), "text"),
    **dict.fromkeys(("uint64Value", "int64Value", "uint32Value", "int32Value"), "int"),
    **dict.fromkeys(("doubleValue", "floatValue"), "real"),
}
"""Columns with a canonical column."""


@dataclass(frozen=True)
class NvtxNames:
    """Names and MPI ranks in the events of all processes that name things."""

    domains: dict[tuple[int | None, int], str]
    categories: dict[tuple[int | None, int, int], str]
    mpi_ranks: dict[int, int]


def read_names(export: Export, strings: StringTable, types: Mapping[int, str]) -> NvtxNames:
    """Read the names of domains and categories, and the MPI ranks in names of threads."""
    nvtx_names = NvtxNames({}, {}, {})
    codes = pa.array([code for code, name in types.items() if name in _NAMING_TYPES], pa.int64())
    for table in TABLES:
        columns = {name: kind for name, kind in _NAMING.items() if name in export.tables.get(table, {})}
        if "eventType" not in columns:
            continue
        for part in export.parts(table):  # most parts have none, so their texts are not read
            if any(
                _select_naming_rows(rows, codes).num_rows for rows in _iter_rows(export, part, {"eventType": "int"})
            ):
                for rows in _iter_rows(export, part, columns):
                    for row in _select_naming_rows(rows, codes).to_pylist():
                        _store_name(row, types[row["eventType"]], strings, nvtx_names)
    return nvtx_names


def _iter_rows(export: Export, part: Part, columns: Columns) -> Iterator[pa.Table]:
    """Yield rows that are read again as events, which is when their problems are counted."""
    return export.batches(part, columns, DiagnosticCounts(), "rows_lost")


def _select_naming_rows(rows: pa.Table, codes: Array) -> pa.Table:
    return rows.filter(pc.is_in(rows.column("eventType"), value_set=codes))


def _store_name(row: dict[str, object], kind: str, strings: StringTable, nvtx_names: NvtxNames) -> None:
    text, thread, domain = row.get("text"), row.get("globalTid"), row.get("domainId") or 0
    if text is None and isinstance(row.get("textId"), int):
        text = strings.look_up(pa.array([row["textId"]], pa.int64()), DiagnosticCounts())[0].as_py()
    if not isinstance(text, str) or not isinstance(domain, int):
        return
    process = (thread >> 24) & 0xFFFFFF if isinstance(thread, int) else None
    category = row.get("category")
    if kind == "NvtxDomainCreate":
        nvtx_names.domains[process, domain] = text
    elif kind == "NvtxThread" and text.startswith("MPI Rank ") and text[9:].isdecimal() and process is not None:
        nvtx_names.mpi_ranks[process] = int(text[9:])
    elif kind != "NvtxThread" and isinstance(category, int):
        nvtx_names.categories[process, domain, category] = text


def map_batch(batch: Batch, extras: list[str]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of a batch by canonical table."""
    types = batch.session.enums["ENUM_NSYS_EVENT_TYPE"]
    codes = pa.array([code for code, name in types.items() if name in RANGES], pa.int64())
    is_annotation = pc.is_in(batch.column("eventType"), value_set=codes)
    ranges, others = (
        Batch(batch.table, batch.rows.filter(mask), batch.session, batch.diagnostics)
        for mask in (is_annotation, pc.invert(is_annotation))
    )
    if ranges.rows.num_rows:
        batch.diagnostics.note("outside_session", count=count_outside_session(ranges))
        annotations = _map_annotations(ranges, extras)
        yield "annotations", annotations
        if (from_nccl := build_collectives(annotations)) is not None:
            yield "collectives", from_nccl
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
    """Add a column with the style of each range: without it, an open range looks like a mark."""
    types = batch.session.enums["ENUM_NSYS_EVENT_TYPE"]

    def styles(codes: Array) -> Array:
        return pa.array([RANGES.get(types.get(code, "")) for code in codes.to_pylist()], pa.string())

    return replace(batch, rows=batch.rows.append_column("style", map_distinct(batch.column("eventType"), styles)))


def _map_other_events(batch: Batch, extras: list[str], types: Mapping[int, str]) -> pa.Table:
    """Map names of threads, ends of domains, and event types of newer versions."""
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
    """Return the text of the event, else the registered one."""
    texts = batch.column("text", "text")
    if not texts.null_count:
        return texts
    if texts.null_count == len(texts):
        return batch.session.strings.coded_texts(batch.column("textId"), batch.diagnostics, is_user_text=True)
    return pc.coalesce(texts, batch.session.strings.look_up(batch.column("textId"), batch.diagnostics))


def _domain_names(batch: Batch) -> Array:
    """Return the name of the domain, else its number; the default domain, 0, has none."""
    known = batch.session.domains

    def look_up(process: int | None, domain: int) -> str | None:
        return known.get((process, domain)) or (str(domain) if domain else None)

    return _look_up_by_keys(batch, ("domainId",), look_up)


def _category_names(batch: Batch) -> Array:
    """Return the name of the category, else its number."""
    known = batch.session.categories

    def look_up(process: int | None, domain: int, category: int) -> str | None:
        return known.get((process, domain, category)) or (str(category) if category else None)

    return _look_up_by_keys(batch, ("domainId", "category"), look_up)


def _look_up_by_keys(batch: Batch, columns: tuple[str, ...], find: Callable[..., str | None]) -> Array:
    """Look up process and ids once per combination."""
    ids = [pc.coalesce(batch.column(name), pa.scalar(0, pa.int64())) for name in columns]
    if not pc.any(pc.not_equal(ids[-1], 0)).as_py():
        return pa.nulls(batch.rows.num_rows, pa.string())
    return map_combinations([pid("globalTid")(batch), *ids], find, pa.string())


def _payload_json(batch: Batch) -> Array:
    """Return the payload as JSON: the decoded object, else the number."""
    payloads = batch.column("jsonText", "text")
    if "jsonTextId" in batch.rows.column_names:
        payloads = pc.coalesce(payloads, batch.session.strings.look_up(batch.column("jsonTextId"), batch.diagnostics))
    for name in _VALUES:
        values = batch.column(name)
        if values.null_count < len(values):
            texts = [None if value is None else json.dumps(value) for value in values.to_pylist()]
            payloads = pc.coalesce(payloads, pa.array(texts, pa.string()))
    return payloads


def list_extra_columns(columns: Columns) -> list[str]:
    """Return the columns that go into args."""
    return [name for name in columns if name not in KINDS]


def add_names(session: Session, nvtx_names: NvtxNames) -> Session:
    """Add the names in NVTX events to the session."""
    return replace(session, domains=nvtx_names.domains, categories=nvtx_names.categories)
