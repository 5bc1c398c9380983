"""Copy sizes from launches: on HIP the runtime call has the bytes, not the copy."""

import pyarrow as pa

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.kineto.mapper import open_cursor
from tracelab.store.writer import Sink


def add_sizes_from_launches(sink: Sink, diagnostics: DiagnosticCounts) -> None:
    """Set the size of copies without one to the bytes of their launch, matched by (pid, correlation)."""
    copies, calls = sink.staged("memcpys"), sink.staged("api_calls")
    if copies is None or calls is None:
        return
    with open_cursor() as con:
        con.execute(
            """
            create temp table launches as
            select pid, correlation, any_value(try_cast(args->>'$.bytes' as bigint)) as size_bytes
            from read_parquet($1) where args like '%"bytes"%' and correlation is not null group by all
            """,
            [str(calls)],
        )

        def add_sizes(rows: pa.Table) -> pa.Table:
            con.register("copies", rows)
            sizes = con.sql(
                "select coalesce(copies.size_bytes, launches.size_bytes) as size_bytes from "
                "(select *, row_number() over () as position from copies) copies "
                "left join launches using (pid, correlation) order by position"
            ).to_arrow_table()
            at = rows.schema.get_field_index("size_bytes")
            diagnostics.note("size_from_launch", count=rows.column(at).null_count - sizes.column(0).null_count)
            return rows.set_column(at, rows.schema.field(at), sizes.column(0).cast(pa.int64()))

        sink.rewrite("memcpys", add_sizes)
