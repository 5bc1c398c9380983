"""Events of one kind to rows of tables."""

from collections.abc import Collection
from dataclasses import dataclass, field

import pyarrow as pa

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.kineto import arguments, mapping, select
from tracelab.readers.kineto.connection import Connection
from tracelab.readers.kineto.mapping import COUNTERS, KINDS


@dataclass
class Rows:
    """Rows of one table after the other, without `run`, `source` and `rank`, and what was noticed on the way."""

    tables: list[tuple[str, pa.Table]] = field(default_factory=list)
    events_kept: int = 0
    events_skipped: int = 0
    diagnostics: DiagnosticCounts = field(default_factory=DiagnosticCounts)


class Mapper:
    """Maps events of one kind after another."""

    def __init__(self, connection: Connection, gpu_pid: int | None) -> None:
        self._con = connection
        self._gpu_pid = "NULL" if gpu_pid is None else str(gpu_pid)

    def add_rows(self, kind: int, waiting: list[pa.Table], rows: Rows) -> None:
        """Add what some events of a kind become."""
        events = select.with_base_columns(pa.concat_tables(waiting, promote_options="default"))
        self._con.register("events", events)
        if kind == COUNTERS:
            rows.tables.append(("counters", self._con.arrow(_COUNTERS)))
            return
        present = [key for key in arguments.TYPES if arguments.column(key) in events.column_names]
        target = KINDS[kind]
        rows.tables.append((target.table, self._rows(target, present, "true", select.REST)))
        beside = arguments.collectives_of(target)
        carriers = [key for key in mapping.COLLECTIVE_KEYS if key in present]
        if beside and (carriers or events.column(select.REST_BESIDE).null_count < len(events)):
            columns = (*(arguments.column(key) for key in carriers), select.REST_BESIDE)
            where = " or ".join(f"{select.name(column)} is not null" for column in columns)
            rows.tables.append((beside.table, self._rows(beside, present, where, select.REST_BESIDE)))

    def _rows(self, target: mapping.Mapping, present: Collection[str], where: str, rest: str) -> pa.Table:
        return self._con.arrow(select.rows_query(target, present, where, rest, gpu_pid=self._gpu_pid))


_COUNTERS = f"""
    with entries as (
        select pid, name, start_ns, map_entries(json_transform(args, '"MAP(VARCHAR, VARCHAR)"')) as entries from events
    ), series as (
        select pid, name, start_ns, unnest(coalesce(nullif(entries, []), [null])) as entry from entries
    ), named as (
        select pid, name, start_ns, entry.key as key, entry.value as value from series
    )
    select {
    select.rows_of(
        "counters",
        {
            "pid": "try_cast(pid as bigint)",
            "time_ns": "start_ns",
            "name": "case when key is null or key in ('', name, 'value') then name else concat_ws('.', name, key) end",
            "value": "try_cast(value as double)",
        },
    )
} from named
"""
