"""Build the queries of nvprof's tables: all columns, with texts in place of ids and blobs in hex."""

import re
import sqlite3

from tracelab.readers.nvprof.activity_mapping import FILE_NAMES, MAPPINGS, PREFIX, TEXT_IDS
from tracelab.readers.nvprof.sqlite_scan import SelectField, TableQuery, quote_name

_KEPT_BLOB = 64
"""Longest blob that is kept, in bytes: ids and values are shorter, machine code is longer."""

_ARGUMENTS = re.compile(r"[\s/]")
"""What makes the name of a process a command line: it has arguments, or a folder."""

LONGEST_TEXT = 16_384
"""Most characters of a text that are kept: each row has a copy of its texts."""
_CUT_VALUE = f"substr(value, 1, {LONGEST_TEXT})"

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
    """Return the queries that read one kind of activity."""
    table, text_ids = PREFIX + kind, _public_text_ids(con, tables)
    fields = tuple(
        _select_field(column, declared, text_ids=text_ids if _is_text_id(kind, column) else None)
        for column, declared in tables[table].items()
        if column != "_id_"
    )
    if kind == "MARKER" and {"id", "flags", "timestamp"} <= set(tables[table]):
        return _marker_queries(tables, fields)
    if kind in ("METRIC", "METRIC_INSTANCE", "EVENT", "EVENT_INSTANCE") and "correlationId" in tables[table]:
        return (_join_kernels(con, tables, TableQuery(table, fields), text_ids),)
    if kind == "NAME" and "objectKind" in tables[table]:
        # the name of a process is its command line, which is not stored, also if damage changed the kind
        name = "(select value from StringTable where _id_ = t.name)"
        looks_private = " or ".join(f"{name} like '{pattern}'" for pattern in ("/%", "./%", "% --%"))
        return (TableQuery(table, fields, where=f"t.objectKind <> 1 and ({looks_private}) is not true"),)
    return (TableQuery(table, fields),)


def count_long_texts(con: sqlite3.Connection) -> int:
    """Count the texts that are cut; those of a damaged table only as far as it is readable."""
    try:
        row = con.execute(f"select count(*) from StringTable where length(value) > {LONGEST_TEXT}").fetchone()
    except sqlite3.DatabaseError:
        return 0
    return int(row[0])


def _is_text_id(kind: str, column: str) -> bool:
    return column in TEXT_IDS or (kind, column) == ("MARKER", "domain")


def _public_text_ids(con: sqlite3.Connection, tables: dict[str, dict[str, str]]) -> str:
    """Return a condition on string ids: none of a command line, to which a damaged id may refer."""
    if not {"objectKind", "name"} <= set(tables.get(PREFIX + "NAME", {})):
        return "_id_ > 0"
    query = f"select name, value from {PREFIX}NAME join StringTable on StringTable._id_ = name where objectKind = 1"
    try:
        named = con.execute(query).fetchall()
    except sqlite3.DatabaseError:
        return "_id_ > 0"
    ids = {int(text_id) for text_id, text in named if _ARGUMENTS.search(str(text))}
    return f"_id_ > 0 and _id_ not in ({', '.join(map(str, sorted(ids)))})"


def _select_field(column: str, declared: str, *, text_ids: str | None) -> SelectField:
    column_sql = f"t.{quote_name(column)}"
    if text_ids and "INT" in declared:
        text = f"coalesce((select {_CUT_VALUE} from StringTable where _id_ = {column_sql} and {text_ids}), '')"
        # SQLite has no function for a path's last part: trim all but slashes, then remove that prefix
        if column in FILE_NAMES:
            text = f"replace({text}, rtrim({text}, replace({text}, '/', '')), '')"
        return SelectField(column, text, "text")
    if "INT" in declared:
        return SelectField(column, column_sql)
    if "BLOB" in declared:
        kept_sql = (
            f"case when typeof({column_sql}) = 'integer' then cast({column_sql} as text) "
            f"when length({column_sql}) <= {_KEPT_BLOB} "
        )
        return SelectField(
            column, f"{kept_sql} then hex({column_sql}) else length({column_sql}) || ' bytes' end", "text"
        )
    if declared in ("REAL", "DOUBLE", "FLOAT"):
        return SelectField(column, column_sql, "double")
    return SelectField(column, f"coalesce({column_sql}, '')", "text")


def _marker_queries(tables: dict[str, dict[str, str]], fields: tuple[SelectField, ...]) -> tuple[TableQuery, ...]:
    """Query markers with the end of their range and their data, then ends without a beginning."""
    table = PREFIX + "MARKER"
    ends = f"(select id, min(timestamp) as at from {table} where flags & {_END} group by id)"
    joined = f"left join {ends} as ends on ends.id = t.id and t.flags & {_START}"
    extra_fields: tuple[SelectField, ...] = (SelectField("end_timestamp", "ends.at"),)
    if PREFIX + "MARKER_DATA" in tables:
        data_table = f"(select id, category, payloadKind, payload from {PREFIX}MARKER_DATA group by id)"
        joined += f" left join {data_table} as data on data.id = t.id"
        extra_fields += (
            SelectField("marker_category", "data.category"),
            SelectField("payload_kind", "data.payloadKind"),
            SelectField("payload", "coalesce(hex(data.payload), '')", "text"),
        )
    begins = f"(select id from {table} where flags & {_START} group by id)"
    return (
        TableQuery(table, fields + extra_fields, joined, where=f"not t.flags & {_END}"),
        TableQuery(
            table,
            fields,
            f"left join {begins} as begins on begins.id = t.id",
            f"t.flags & {_END} and begins.id is null",
        ),
    )


def _join_kernels(
    con: sqlite3.Connection, tables: dict[str, dict[str, str]], query: TableQuery, text_ids: str
) -> TableQuery:
    """Join values of counters to the kernel of their correlation: with metrics, nvprof runs kernels one by one."""
    for kind in ("KERNEL", "CONCURRENT_KERNEL"):
        columns = tables.get(PREFIX + kind, {})
        if not {"correlationId", "name", *_KERNEL_OF_METRIC.values()} <= set(columns):
            continue
        if con.execute(f"select 1 from {PREFIX}{kind} limit 1").fetchone():
            selected = ", ".join(("correlationId", "name", *_KERNEL_OF_METRIC.values()))
            kernels = f"(select min(_id_), {selected} from {PREFIX}{kind} group by correlationId)"
            extra_fields = [SelectField(name, f"k.{column}") for name, column in _KERNEL_OF_METRIC.items()]
            text = f"coalesce((select {_CUT_VALUE} from StringTable where _id_ = k.name and {text_ids}), '')"
            return TableQuery(
                query.table,
                (*query.fields, *extra_fields, SelectField("kernel_name", text, "text")),
                f"left join {kernels} as k on k.correlationId = t.correlationId",
            )
    return query


def list_kinds(tables: dict[str, dict[str, str]]) -> list[str]:
    """Return the kinds of activity in the file, mapped ones first."""
    present = [table.removeprefix(PREFIX) for table in tables if table.startswith(PREFIX)]
    return sorted(present, key=lambda kind: (kind not in MAPPINGS, kind))
