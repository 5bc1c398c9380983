"""The rows of a scope as bits, and the views of a session that have these rows, or those left out."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass

from tracelab.store import session
from tracelab.store.scope.criteria import Criterion
from tracelab.store.scope.request import Bounds, Scope, Span


@dataclass(frozen=True)
class RowMask:
    """The rows of a scope: for each file of the tables a string of bits, the first one that of its first row.

    Files of other runs than the one that an answer is about stay whole: captures of its graphs, measured ceilings.
    """

    scope: Scope
    tables: frozenset[str]
    bits: Mapping[str, bytes]
    note: str
    recorded: frozenset[str] = frozenset()
    """The tables that have rows, in the scope or not."""
    of_runs: bool = False
    bounds: tuple[Bounds, ...] = ()
    """The bounds of each source, of a scope of times."""
    within: Criterion | None = None
    """The ranges, ops and modules of the scope."""

    def describe(self, answered: int) -> list[str]:
        """Return what the scope is, and that an answer of so many rows is empty, as sentences."""
        return [self.note, *([] if answered else ["The answer is empty: the scope has nothing that it lists."])]

    def render(self) -> str:
        """Render the statements that create the table of bits, which the views join."""
        rows = ",\n".join(
            f"({session.sql_literal(path)}, from_base64('{base64.b64encode(bits).decode()}')::bit)"
            for path, bits in self.bits.items()
        )
        values = f"(values\n{rows}\n) as scoped(path, bits)" if rows else "(select '', null::bit where false)"
        return (
            f"create schema if not exists {session.SCOPE};\n"
            f"create or replace table {session.SCOPE}.files(path, bits) as from {values};\n"
            f"create or replace macro {session.RECORDED}() as {sorted(self.recorded)}::varchar[];"
        )

    def render_window(self) -> str:
        """Render what decides where windows of devices and paths begin and end, and which rows paths choose."""
        begins_by_time = self.scope.from_ is not None or self.scope.after_start
        texts = [f"create or replace macro scope_has_first_gap() as {not begins_by_time};", self._render_path_scope()]
        if self.bounds:
            rows = ",\n".join(
                f"({session.sql_literal(each.run)}, {session.sql_literal(each.source)}, "
                f"{_bigint(each.from_ns)}, {_bigint(each.to_ns)})"
                for each in self.bounds
            )
            columns = "run, source, from_ns, to_ns"
            texts.append(f"create or replace view scope_times as from (values\n{rows}\n) as bounds({columns});")
            if self.scope.is_span:
                texts.append("create or replace view scope_bounds as from scope_times;")
        return "\n".join(texts)

    def _render_path_scope(self) -> str:
        scope, within = self.scope, self.within
        stretches = (within.of_process, within.of_thread, within.anywhere) if within else ()
        blobs = [f"from_base64('{base64.b64encode(each.to_bytes()).decode()}')" for each in stretches] or ["null"] * 3
        values = {
            "steps": _render_spans(scope.step_numbers),
            "streams": _render_spans(scope.stream_numbers),
            "is_timed": scope.is_timed,
            "is_linked": scope.linked,
            "is_after_start": scope.after_start,
            "is_by_launch": scope.by == "launch",
            "is_within": within is not None,
        } | {name: f"{blob}::blob" for name, blob in zip(("of_process", "of_thread", "anywhere"), blobs, strict=True)}
        columns = ",\n    ".join(f"{value} as {name}" for name, value in values.items())
        return f"create or replace view path_scope as\nselect\n    {columns};"


def _bigint(value: int | None) -> str:
    return f"{'null' if value is None else value}::bigint"


def _render_spans(spans: tuple[Span, ...]) -> str:
    listed = ", ".join(f"[{span.first}, {'null' if span.last is None else span.last}]" for span in spans)
    return f"[{listed}]::bigint[][]" if spans else "null::bigint[][]"


_HOLDS_BIT = (
    "case when stored.file_row_number < bit_length(scoped.bits)\n"
    "    then get_bit(scoped.bits, stored.file_row_number::integer) = 1 else false end"
)


class MaskedRows:
    """The stored rows of a scope; `StoredRows` of a session."""

    def __init__(self, rows: session.StoredRows, mask: RowMask) -> None:
        self._rows = rows
        self._tables = mask.tables
        self._join, self._held = ("left join", "true") if mask.of_runs else ("join", "false")

    @property
    def mixed(self) -> bool:
        """Whether some rows may lack columns of the schema, or have others."""
        return self._rows.mixed

    def has(self, table: str) -> bool:
        """Return whether there may be rows of the table."""
        return self._rows.has(table)

    def select(self, table: str) -> str:
        """Select all stored columns of the rows in the scope, and `filename`."""
        stored = self._rows.select(table)
        if table not in self._tables:
            return stored
        return (
            f"select stored.*\nfrom ({stored}) as stored\n"
            f"{self._join} {session.SCOPE}.files as scoped on stored.filename = scoped.path\n"
            f"where case when scoped.path is null then {self._held} else {_HOLDS_BIT} end"
        )


class LeftOutRows:
    """The rows of a store that a scope leaves out; `StoredRows` of a session."""

    def __init__(self, rows: session.StoredRows, mask: RowMask) -> None:
        self._rows = rows
        self._tables = mask.tables

    @property
    def mixed(self) -> bool:
        """Whether some rows may lack columns of the schema, or have others."""
        return self._rows.mixed

    def has(self, table: str) -> bool:
        """Return whether there may be rows of the table."""
        return table in self._tables and self._rows.has(table)

    def select(self, table: str) -> str:
        """Select all stored columns of the rows outside of the scope, and `filename`."""
        return (
            f"select stored.*\nfrom ({self._rows.select(table)}) as stored\n"
            f"join {session.SCOPE}.files as scoped on stored.filename = scoped.path\n"
            f"where not {_HOLDS_BIT}"
        )
