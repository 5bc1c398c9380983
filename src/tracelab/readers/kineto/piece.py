"""One piece of a trace to canonical tables, on the first of three paths that can read it whole.

The fast path takes healthy pieces. The careful path is DuckDB too, but looks at every value: arguments with duplicate
keys, NaN, or values that do not fit their column. What is no JSON at all is first made so, event by event, by `clean`.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from tracelab.readers.kineto import clean, mapping, select
from tracelab.readers.kineto.fast import OBJECT_BYTES, FastLoader, NotHealthyError, arrow
from tracelab.readers.kineto.findings import Findings
from tracelab.readers.kineto.mapping import MAPPINGS, Mapping
from tracelab.readers.kineto.select import COUNTERS, OTHER

_SUSPECT = "(contains(args, 'NaN') or contains(args, 'Infinity') or not starts_with(args, '{'))"


@dataclass
class PieceRows:
    """The rows of one piece: tables without `run`, `source` and `rank`; what it held, and what was noticed."""

    tables: dict[str, pa.Table]
    events_kept: int
    events_skipped: int
    findings: Findings


class PieceReader:
    """Reads the pieces of one file, one after another; one reader a thread."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, scratch: Path, *, base_ns: int, gpu_pid: int | None
    ) -> None:
        self._con = connection
        self._scratch = scratch
        self._base_ns = base_ns
        self._gpu_pid = "NULL" if gpu_pid is None else str(gpu_pid)
        self._fast = FastLoader(connection, scratch, base_ns=base_ns)

    def read(self, piece: bytearray) -> PieceRows:
        """Rows of a piece, which is events separated by commas, damaged or not."""
        findings = Findings()
        skipped = 0
        try:
            self._fast.load(piece)
        except NotHealthyError:
            lines, skipped = clean.events(piece, self._base_ns, findings)
            self._load(lines)
        shapes = self._shapes()
        if any(suspect or len(set(keys or ())) < len(keys or ()) for _, keys, _, suspect, _ in shapes):
            self._mend(findings)
            shapes = self._shapes()
        kinds: Counter[int] = Counter()
        present: dict[int, Counter[str]] = {}
        with_extras: Counter[int] = Counter()
        for kind, keys, rows, _, extras in shapes:
            kinds[kind] += rows
            with_extras[kind] += extras
            held = present.setdefault(kind, Counter())
            for key in keys or ():
                held[key] += rows
        parts: dict[str, list[pa.Table]] = {}
        for kind in sorted(kinds):
            for target, condition in _targets(kind, present[kind]):
                where = f"kind = {kind} and ({condition})"
                rows = self._mapped(target, present[kind], where, findings, extras=with_extras[kind] > 0)
                parts.setdefault(target.table, []).append(rows)
        if kinds[COUNTERS]:
            parts.setdefault("counters", []).append(self._counters())
        return PieceRows(
            tables={name: pa.concat_tables(tables, promote_options="default") for name, tables in parts.items()},
            events_kept=kinds.total(),
            events_skipped=skipped,
            findings=findings,
        )

    def _load(self, lines: list[bytes]) -> None:
        """Load events that `clean` has made whole, one JSON object a line, times in ns, as the relation `events`."""
        with self._scratch.open("wb") as file:
            file.writelines(line + b"\n" for line in lines)
        columns = "ph: 'VARCHAR', cat: 'VARCHAR', name: 'VARCHAR', pid: 'VARCHAR', tid: 'VARCHAR', "
        columns += "start_ns: 'BIGINT', dur_ns: 'BIGINT', extras: 'JSON', args: 'JSON'"
        longest = max((len(line) for line in lines), default=0) + 2
        self._con.execute(f"""
            create or replace temp table events as
            with timed as (
                select * exclude (cat), cat as source_cat, {select.todays_category("cat")} as cat
                from read_json({select.literal(str(self._scratch))}, format = 'newline_delimited',
                               columns = {{{columns}}}, maximum_object_size = {max(OBJECT_BYTES, longest)})
            )
            select * exclude (cat), {select.kind_of_event()} as kind from timed
        """)

    def _shapes(self) -> list[tuple[int, list[str] | None, int, int, int]]:
        """(kind, argument keys, events, events whose arguments need mending, events with extras)."""
        return self._con.execute(
            f"select kind, json_keys(args), count(*), count(*) filter (where {_SUSPECT}), count(extras) "
            "from events group by all"
        ).fetchall()

    def _mend(self, findings: Findings) -> None:
        """Rewrite arguments with duplicate keys, NaN or infinity, or that are no object."""
        rows = self._con.execute(
            f"select rowid, args from events where {_SUSPECT} "
            "or len(json_keys(args)) > len(list_distinct(json_keys(args)))"
        ).fetchall()
        mended = [(rowid, clean.whole_arguments(text, findings)) for rowid, text in rows]
        table = pa.table({"row": [row for row, _ in mended], "args": [args for _, args in mended]})
        self._con.register("mended", table)
        self._con.execute("update events set args = mended.args from mended where events.rowid = mended.row")
        self._con.unregister("mended")

    def _mapped(
        self, target: Mapping, present: Counter[str], where: str, findings: Findings, *, extras: bool
    ) -> pa.Table:
        """The rows of one table; arguments that do not fit their column stay in `args`, and are counted."""

        def rows(unfit: list[str]) -> pa.Table:
            return arrow(
                self._con, select.rows_query(target, present, unfit, where, gpu_pid=self._gpu_pid, extras=extras)
            )

        found = rows([])
        unfit = self._unfit(target, found, present, where, findings)
        return rows(unfit) if unfit else found

    def _unfit(
        self, target: Mapping, rows: pa.Table, present: Counter[str], where: str, findings: Findings
    ) -> list[str]:
        """Argument keys some of whose values do not fit their column's type; each such value is counted."""
        unfit: list[str] = []
        for column, value in target.columns.items():
            for keys, kind in value.arguments:
                for key in (key for key in keys if key in present and kind not in ("VARCHAR", "JSON")):
                    if len(rows) - rows.column(column).null_count >= min(present[key], len(rows)) or key in unfit:
                        continue
                    bad, sample = self._con.execute(
                        f"select count(*), any_value(json_extract_string(args, {select.path(key)})) from events "
                        f"where {where} and coalesce(json_type(args, {select.path(key)}), 'NULL') <> 'NULL' "
                        f"and (json_transform(args, {select.spec({key: kind})})).{select.name(key)} is null"
                    ).fetchall()[0]
                    if bad:
                        unfit.append(key)
                        findings.note("value_unfit", f"{target.table}.{column} from {key!r}: {sample}", bad)
        return unfit

    def _counters(self) -> pa.Table:
        """Counter events (phase C): one row for each series."""
        columns = {
            "pid": "try_cast(pid as bigint)",
            "time_ns": "start_ns",
            "name": "case when key is null or key in (name, 'value') then name else concat_ws('.', name, key) end",
            "value": """try_cast(json_extract_string(args, '$."' || key || '"') as double)""",
        }
        return arrow(
            self._con,
            f"""
            with series as (
                select pid, name, start_ns, args, unnest(coalesce(nullif(json_keys(args), []), [null])) as key
                from events where kind = {COUNTERS}
            )
            select {select.rows_of("counters", columns)} from series
            """,
        )


def _targets(kind: int, present: Counter[str]) -> list[tuple[Mapping, str]]:
    """The mappings that events of a kind go through, each with the condition for it."""
    if kind == COUNTERS:
        return []
    if kind == OTHER:
        return [(mapping.OTHER, "true")]
    target = MAPPINGS[kind]
    targets = [(target, "true")]
    carriers = [f"contains(args, '\"{key}\":')" for key in mapping.COLLECTIVE_KEYS if key in present]
    also = select.collectives_of(target)
    if also and carriers:
        named = f"name = '{mapping.COLLECTIVE_OP}' and " if also is mapping.OP_COLLECTIVES else ""
        targets.append((also, f"{named}({' or '.join(carriers)})"))
    return targets
