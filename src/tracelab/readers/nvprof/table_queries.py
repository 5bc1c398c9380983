"""What to ask each table of an nvprof database: all its columns, with texts in place of ids and blobs in hex."""

import sqlite3

from tracelab.readers.nvprof.activity_mapping import FILE_NAMES, MAPPINGS, PREFIX, TEXT_IDS
from tracelab.readers.nvprof.sqlite_scan import SelectField, TableQuery, quote_name

_KEPT_BLOB = 64
"""Bytes of the longest blob that is kept: ids and values are shorter, machine code is longer."""

_START, _END = 2, 4  # flags of a marker that begins a range, and of one that ends it

_KERNEL_OF_METRIC = {
    "kernel_device": "deviceId",
    "kernel_context": "contextId",
    "kernel_stream": "streamId",
    "gX": "gridX",
    "gY": "gridY",
    "gZ": "gridZ",
    "bX": "blockX",
    "bY": "blockY",
    "bZ": "blockZ",
}


def build_queries(con: sqlite3.Connection, tables: dict[str, dict[str, str]], kind: str) -> tuple[TableQuery, ...]:
    """The questions that together read one kind of activity."""
    table = PREFIX + kind
    fields = tuple(
        _select_field(column, declared, named=column in TEXT_IDS or (kind, column) == ("MARKER", "domain"))
        for column, declared in tables[table].items()
        if column != "_id_"
    )
    if kind == "MARKER" and {"id", "flags", "timestamp"} <= set(tables[table]):
        return _marker_queries(tables, fields)
    if kind in ("METRIC", "METRIC_INSTANCE", "EVENT", "EVENT_INSTANCE") and "correlationId" in tables[table]:
        return (_join_kernels(con, tables, TableQuery(table, fields)),)
    if kind == "NAME" and "objectKind" in tables[table]:
        return (TableQuery(table, fields, where="t.objectKind <> 1"),)  # a process's name is its command line
    return (TableQuery(table, fields),)


def _select_field(column: str, declared: str, *, named: bool) -> SelectField:
    own = f"t.{quote_name(column)}"
    if named and "INT" in declared:
        text = f"coalesce((select value from StringTable where _id_ = {own} and _id_ > 0), '')"
        if column in FILE_NAMES:  # SQLite has no function for it: cut off all that is no slash, then what is left
            text = f"replace({text}, rtrim({text}, replace({text}, '/', '')), '')"
        return SelectField(column, text, "text")
    if "INT" in declared:
        return SelectField(column, own)
    if "BLOB" in declared:
        kept = f"case when typeof({own}) = 'integer' then cast({own} as text) when length({own}) <= {_KEPT_BLOB} "
        return SelectField(column, f"{kept} then hex({own}) else length({own}) || ' bytes' end", "text")
    if declared in ("REAL", "DOUBLE", "FLOAT"):
        return SelectField(column, own, "double")
    return SelectField(column, f"coalesce({own}, '')", "text")


def _marker_queries(tables: dict[str, dict[str, str]], fields: tuple[SelectField, ...]) -> tuple[TableQuery, ...]:
    """Markers with the end of their range and their data; then the ends whose beginning is not there."""
    table = PREFIX + "MARKER"
    ends = f"(select id, min(timestamp) as at from {table} where flags & {_END} group by id)"
    joined = f"left join {ends} as ends on ends.id = t.id and t.flags & {_START}"
    more: tuple[SelectField, ...] = (SelectField("end_timestamp", "ends.at"),)
    if PREFIX + "MARKER_DATA" in tables:
        data_table = f"(select id, category, payloadKind, payload from {PREFIX}MARKER_DATA group by id)"
        joined += f" left join {data_table} as data on data.id = t.id"
        more += (
            SelectField("marker_category", "data.category"),
            SelectField("payload_kind", "data.payloadKind"),
            SelectField("payload", "coalesce(hex(data.payload), '')", "text"),
        )
    begun = f"(select id from {table} where flags & {_START} group by id)"
    return (
        TableQuery(table, fields + more, joined, where=f"not t.flags & {_END}"),
        TableQuery(
            table, fields, f"left join {begun} as begun on begun.id = t.id", f"t.flags & {_END} and begun.id is null"
        ),
    )


def _join_kernels(con: sqlite3.Connection, tables: dict[str, dict[str, str]], question: TableQuery) -> TableQuery:
    """Values of counters with the kernel of their correlation: metrics make nvprof run kernels one by one."""
    for kind in ("KERNEL", "CONCURRENT_KERNEL"):
        columns = tables.get(PREFIX + kind, {})
        if not {"correlationId", "name", *_KERNEL_OF_METRIC.values()} <= set(columns):
            continue
        if con.execute(f"select 1 from {PREFIX}{kind} limit 1").fetchone():
            wanted = ", ".join(("correlationId", "name", *_KERNEL_OF_METRIC.values()))
            kernels = f"(select min(_id_), {wanted} from {PREFIX}{kind} group by correlationId)"
            more = [SelectField(name, f"k.{column}") for name, column in _KERNEL_OF_METRIC.items()]
            named = "coalesce((select value from StringTable where _id_ = k.name), '')"
            return TableQuery(
                question.table,
                (*question.fields, *more, SelectField("kernel_name", named, "text")),
                f"left join {kernels} as k on k.correlationId = t.correlationId",
            )
    return question


def list_kinds(tables: dict[str, dict[str, str]]) -> list[str]:
    """The kinds of activity that the file has tables of, those that are mapped first."""
    present = [table.removeprefix(PREFIX) for table in tables if table.startswith(PREFIX)]
    return sorted(present, key=lambda kind: (kind not in MAPPINGS, kind))
