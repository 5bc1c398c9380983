"""Pieces of a trace to canonical tables: loaded as events, told apart by kind, mapped some pieces at a time.

A healthy piece is loaded by DuckDB alone (`fast`). What is no clean JSON, or cannot be read exactly that way, is first
made so, event by event, by `clean`. From there on there is one way.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from tracelab.readers.findings import Findings
from tracelab.readers.kineto import clean, mapping, select
from tracelab.readers.kineto.fast import OBJECT_BYTES, FastLoader, NotHealthyError, arrow
from tracelab.readers.kineto.mapping import MAPPINGS, Mapping
from tracelab.readers.kineto.select import COUNTERS, OTHER, Arguments

_SUSPECT = "(contains(args, 'NaN') or contains(args, 'Infinity') or not starts_with(args, '{'))"


_WORTH_MAPPING = 100_000
"""Events of one kind that are mapped at once: a query costs the same to plan however many it has."""


@dataclass
class Rows:
    """Rows of one table after the other, without `run`, `source` and `rank`, and what was noticed on the way."""

    tables: list[tuple[str, pa.Table]] = field(default_factory=list)
    events_kept: int = 0
    events_skipped: int = 0
    findings: Findings = field(default_factory=Findings)


@dataclass(frozen=True)
class _Shape:
    """Events whose arguments have the same keys, and the same types of integers."""

    keys: tuple[str, ...]
    doubtful: tuple[str, ...]
    """Keys of integers whose values are fractions or booleans."""
    events: int
    suspect: int
    """Those of the events whose arguments need mending."""


Alike = tuple[int, str]
"""What events have in common that are mapped together: their kind, and the type of pid and tid."""


class Waiting:
    """Events that wait, of all threads of a file, until enough are alike."""

    def __init__(self) -> None:
        self._events: dict[Alike, list[pa.Table]] = {}
        self._lock = threading.Lock()

    def add(self, alike: Alike, events: pa.Table) -> list[pa.Table] | None:
        """Let these events wait; gives all that are like them when they have become enough."""
        with self._lock:
            waiting = self._events.setdefault(alike, [])
            waiting.append(events)
            enough = sum(len(part) for part in waiting) >= _WORTH_MAPPING
            return self._events.pop(alike) if enough else None

    def take(self) -> tuple[int, list[pa.Table]] | None:
        """The most numerous events that still wait, with their kind; None when there are no more."""
        with self._lock:
            if not self._events:
                return None
            alike = max(self._events, key=lambda key: sum(len(part) for part in self._events[key]))
            return alike[0], self._events.pop(alike)


class PieceReader:
    """Reads pieces of one file, one after another; one reader a thread."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        scratch: Path,
        waiting: Waiting,
        *,
        base_ns: int,
        gpu_pid: int | None,
    ) -> None:
        self._con = connection
        self._scratch = scratch
        self._base_ns = base_ns
        self._gpu_pid = "NULL" if gpu_pid is None else str(gpu_pid)
        self._fast = FastLoader(connection, scratch, base_ns=base_ns)
        self._waiting = waiting

    def read(self, piece: memoryview) -> Rows:
        """Load a piece, damaged or not; gives the rows of those kinds of event of which enough wait."""
        rows = Rows()
        try:
            events = self._fast.load(piece)
        except NotHealthyError:
            lines, rows.events_skipped = clean.events(bytes(piece), self._base_ns, rows.findings)
            events = self._loaded(lines)
        rows.events_kept = len(events)
        for kind, part in _by_kind(events).items():
            enough = self._waiting.add((kind, str(events.schema.field("pid").type)), part)
            if enough:
                self._map(kind, enough, rows)
        return rows

    def rest(self) -> Iterator[Rows]:
        """The rows of the events that still wait, shared among the threads that ask."""
        while taken := self._waiting.take():
            rows = Rows()
            self._map(*taken, rows)
            yield rows

    def _map(self, kind: int, waiting: list[pa.Table], rows: Rows) -> None:
        events = pa.concat_tables(waiting, promote_options="default")
        self._con.register("events", select.with_base_columns(events))
        target = MAPPINGS[kind] if kind < OTHER else mapping.OTHER
        shapes = self._shapes(target)
        if any(shape.suspect or len(set(shape.keys)) < len(shape.keys) for shape in shapes):
            self._con.register("events", select.with_base_columns(self._mended(events, rows.findings)))
            shapes = self._shapes(target)
        if kind == COUNTERS:
            rows.tables.append(("counters", self._counters()))
            return
        present: Counter[str] = Counter()
        for shape in shapes:
            present.update(dict.fromkeys(shape.keys, shape.events))
        doubtful = {key for shape in shapes for key in shape.doubtful}
        extras = select.extras_of(events.column_names)
        for to, where in _targets(kind, present):
            rows.tables.append((to.table, self._mapped(to, present, doubtful, where, extras, rows.findings)))

    def _loaded(self, lines: list[bytes]) -> pa.Table:
        """Events that `clean` has made whole, one JSON object a line, times in ns."""
        with self._scratch.open("wb") as file:
            file.writelines(line + b"\n" for line in lines)
        columns = "ph: 'VARCHAR', cat: 'VARCHAR', name: 'VARCHAR', pid: 'VARCHAR', tid: 'VARCHAR', "
        columns += "start_ns: 'BIGINT', dur_ns: 'BIGINT', extras: 'JSON', args: 'JSON'"
        longest = max((len(line) for line in lines), default=0) + 2
        return arrow(
            self._con,
            f"""
            with timed as (
                select * exclude (cat), cat as source_cat, {select.todays_category("cat")} as cat
                from read_json({select.literal(str(self._scratch))}, format = 'newline_delimited',
                               columns = {{{columns}}}, maximum_object_size = {max(OBJECT_BYTES, longest)})
            )
            select {select.kind_of_event()} as kind, * exclude (cat) from timed
            """,
        )

    def _shapes(self, target: Mapping) -> list[_Shape]:
        """What the arguments of the events are like."""
        types = select.types_of_integers(target)
        rows = self._con.execute(
            f"select any_value(json_keys(args)), any_value({types}), count(*), count(*) filter (where {_SUSPECT}) "
            f"from events group by hash(json_keys(args), {types})"  # grouping the lists themselves takes twice as long
        ).fetchall()
        integers = select.integer_arguments(target)
        return [
            _Shape(
                tuple(keys or ()),
                tuple(key for key, kind in zip(integers, kinds or (), strict=False) if kind in ("DOUBLE", "BOOLEAN")),
                events,
                suspect,
            )
            for keys, kinds, events, suspect in rows
        ]

    def _mended(self, events: pa.Table, findings: Findings) -> pa.Table:
        """The events with arguments rewritten that have duplicate keys, NaN or infinity, or are no object."""
        self._con.register("numbered", pa.table({"place": np.arange(len(events)), "args": events.column("args")}))
        rows = self._con.execute(
            f"select place, args from numbered where {_SUSPECT} "
            "or len(json_keys(args)) > len(list_distinct(json_keys(args)))"
        ).fetchall()
        self._con.unregister("numbered")
        args = events.column("args").to_pylist()
        for place, text in rows:
            args[place] = clean.whole_arguments(text, findings)
        return events.set_column(events.column_names.index("args"), "args", pa.array(args, pa.string()))

    def _mapped(
        self,
        target: Mapping,
        present: Counter[str],
        doubtful: set[str],
        where: str,
        extras: list[str],
        findings: Findings,
    ) -> pa.Table:
        """The rows of one table; arguments that do not fit their column stay in `args`, and are counted."""
        arguments = Arguments(present, doubtful)

        def rows(arguments: Arguments) -> pa.Table:
            return arrow(self._con, select.rows_query(target, arguments, where, extras, gpu_pid=self._gpu_pid))

        found = rows(arguments)
        unfit = self._unfit(target, found, present, arguments, where, findings)
        if unfit:
            found = rows(Arguments(present, doubtful, unfit))
        return found.select([column for column in found.column_names if not column.startswith("? ")])

    def _unfit(
        self,
        target: Mapping,
        rows: pa.Table,
        present: Counter[str],
        arguments: Arguments,
        where: str,
        findings: Findings,
    ) -> list[str]:
        """Argument keys some of whose values do not fit their column's type; each such value is counted."""
        unfit: list[str] = []
        for key, kind in select.narrow_arguments(target).items():
            column = select.check_column(key)
            if column not in rows.column_names:
                continue
            if len(rows) - rows.column(column).null_count >= min(present[key], len(rows)):
                continue
            value = f"(json_transform(args, {select.spec({key: kind})})).{select.name(key)}"
            bad, sample = self._con.execute(
                f"select count(*), any_value(json_extract_string(args, {select.path(key)})) from events "
                f"where {where} and coalesce(json_type(args, {select.path(key)}), 'NULL') <> 'NULL' "
                f"and ({select.fitting(key, kind, value, arguments)}) is null "
                f"and json_extract_string(args, {select.path(key)}) not in ('-1', '4294967295')"
            ).fetchall()[0]
            if bad:
                unfit.append(key)
                findings.note("value_unfit", f"{target.table}, {key!r}: {sample}", bad)
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
                from events
            )
            select {select.rows_of("counters", columns)} from series
            """,
        )


def _by_kind(events: pa.Table) -> dict[int, pa.Table]:
    """The events of each kind, in their order, with the columns that hold anything.

    Each is a table of its own, not a slice of one: a slice that waits would keep the whole piece in memory.
    """
    kinds = events.column("kind").to_numpy()
    order = np.argsort(kinds, kind="stable")
    ends = np.cumsum(np.bincount(kinds))
    chosen = _without_empty(events.drop_columns(["kind"]))
    parts = {kind: order[start:end] for kind, (start, end) in enumerate(zip((0, *ends), ends, strict=False))}
    return {kind: _without_empty(chosen.take(pa.array(places))) for kind, places in parts.items() if len(places)}


def _without_empty(events: pa.Table) -> pa.Table:
    return events.select([c for c in events.column_names if c == "ph" or events.column(c).null_count < len(events)])


def _targets(kind: int, present: Counter[str]) -> list[tuple[Mapping, str]]:
    """The mappings that events of a kind go through, each with the condition for it."""
    if kind == OTHER:
        return [(mapping.OTHER, "true")]
    target = MAPPINGS[kind]
    targets = [(target, "true")]
    carriers = [f"contains(args, '\"{key}\":')" for key in mapping.COLLECTIVE_KEYS if key in present]
    also = select.collectives_of(target)
    if also and carriers:
        targets.append((also, f"({' or '.join(carriers)})"))
    return targets
