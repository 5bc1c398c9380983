"""Events of one kind to rows of tables: with arguments that are only counted where that is enough, else looked at.

To ask every event for the keys of its arguments costs as much as to map it. So the keys that a kind of event has are
learnt from some, and of the others it is enough to know that the values found are as many as there are keys.
"""

import threading
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.findings import Findings
from tracelab.readers.kineto import clean, counting, mapping, select
from tracelab.readers.kineto.connection import Connection
from tracelab.readers.kineto.kinds import COUNTERS, OTHER
from tracelab.readers.kineto.mapping import MAPPINGS, Mapping
from tracelab.readers.kineto.select import Arguments

_SUSPECT = "(contains(args, 'NaN') or contains(args, 'Infinity') or not starts_with(args, '{'))"
_TWICE = "len(json_keys(args)) > len(list_distinct(json_keys(args)))"
_LEARN_FROM = 5_000
"""Events whose keys are looked at before those of others are counted."""


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


class Known:
    """The keys that the arguments of each kind of event have been seen to have, by all threads of a file."""

    def __init__(self) -> None:
        self._keys: dict[int, frozenset[str]] = {}
        self._hopeless: set[int] = set()
        self._lock = threading.Lock()

    def keys(self, kind: int) -> frozenset[str] | None:
        """The keys of a kind; None where nothing of it has been seen."""
        return self._keys.get(kind)

    def may_count(self, kind: int) -> bool:
        """Whether counting may be enough: not where it was not, though all keys were known."""
        return kind not in self._hopeless

    def add(self, kind: int, keys: Iterable[str]) -> bool:
        """Take note of the keys of some events; whether there was one among them that was not known."""
        with self._lock:
            known = self._keys.get(kind, frozenset())
            self._keys[kind] = known | frozenset(keys)
            return len(self._keys[kind]) > len(known)

    def give_up(self, kind: int) -> None:
        """Count no more for this kind."""
        self._hopeless.add(kind)


class Mapper:
    """Maps events of one file, those of one kind at a time; one mapper a thread."""

    def __init__(self, connection: Connection, known: Known, gpu_pid: int | None) -> None:
        self._con = connection
        self._known = known
        self._gpu_pid = "NULL" if gpu_pid is None else str(gpu_pid)

    def add_rows(self, kind: int, waiting: list[pa.Table], rows: Rows) -> None:
        """Add the rows that some events of a kind become."""
        events = select.with_base_columns(pa.concat_tables(waiting, promote_options="default"))
        self._con.register("events", events)
        found = self._by_counting(kind, events)
        if found is None:
            self._closely(kind, events, rows)
        else:
            rows.tables.append((_target(kind).table, found))

    def _by_counting(self, kind: int, events: pa.Table) -> pa.Table | None:
        """The rows of events whose arguments are all as expected; None where they are not, or that cannot be told."""
        if kind == COUNTERS or not self._known.may_count(kind):
            return None
        at_most = counting.at_most(events.column("args"))
        if at_most is None:
            return None
        target, keys = _target(kind), self._known.keys(kind)
        if keys is None:
            keys = frozenset(key for shape in self._shapes(target, _LEARN_FROM) for key in shape.keys)
            self._known.add(kind, keys)
        extras = select.extras_of(events.column_names)
        if not select.countable(target, keys, extras) or len(_targets(kind, keys)) > 1:
            return None
        arguments = Arguments(keys, counted=True, booleans=at_most.booleans > 0)
        found = self._con.arrow(select.rows_query(target, arguments, "true", extras, gpu_pid=self._gpu_pid))
        if at_most.booleans and _total(found, select.BOOLEANS) < at_most.booleans:
            return None
        missing = at_most.keys - _total(found, select.KEYS)
        return _without_checks(found) if not missing or self._all_null(missing, events) else None

    def _all_null(self, missing: int, events: pa.Table) -> bool:
        """Whether as many keys as were not found have no value; none of them may be a key that also has one."""
        if missing > counting.nulls(events.column("args")):
            return False
        return not self._con.rows(f"select 1 from events where contains(args, '\":null') and {_TWICE} limit 1")

    def _closely(self, kind: int, events: pa.Table, rows: Rows) -> None:
        """Add the rows of events whose arguments may be anything."""
        target = _target(kind)
        shapes = self._shapes(target)
        if any(shape.suspect or len(set(shape.keys)) < len(shape.keys) for shape in shapes):
            self._con.register("events", self._mended(events, rows.findings))
            shapes = self._shapes(target)
        if kind == COUNTERS:
            rows.tables.append(("counters", self._counters()))
            return
        present: Counter[str] = Counter()
        for shape in shapes:
            present.update(dict.fromkeys(shape.keys, shape.events))
        if not self._known.add(kind, present):
            self._known.give_up(kind)
        doubtful = {key for shape in shapes for key in shape.doubtful}
        extras = select.extras_of(events.column_names)
        for to, where in _targets(kind, present):
            rows.tables.append((to.table, self._mapped(to, present, doubtful, where, extras, rows.findings)))

    def _shapes(self, target: Mapping, most: int | None = None) -> list[_Shape]:
        """What the arguments of the events, or the first of them, are like."""
        types = select.types_of_integers(target)
        first = f"from events limit {most}" if most else "from events"
        # of lists their hash is grouped by: to group the lists themselves takes twice as long
        rows = self._con.rows(
            f"select any_value(json_keys(args)), any_value({types}), count(*), count(*) filter (where {_SUSPECT}) "
            f"from ({first}) group by hash(json_keys(args), {types})"
        )
        integers = select.integer_arguments(target)
        return [
            _Shape(
                tuple(keys or ()),
                tuple(key for key, kind in zip(integers, found or (), strict=False) if kind in ("DOUBLE", "BOOLEAN")),
                events,
                suspect,
            )
            for keys, found, events, suspect in rows
        ]

    def _mended(self, events: pa.Table, findings: Findings) -> pa.Table:
        """The events with arguments rewritten that have duplicate keys, NaN or infinity, or are no object."""
        self._con.register("numbered", pa.table({"place": np.arange(len(events)), "args": events.column("args")}))
        rows = self._con.rows(f"select place, args from numbered where {_SUSPECT} or {_TWICE}")
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
            return self._con.arrow(select.rows_query(target, arguments, where, extras, gpu_pid=self._gpu_pid))

        found = rows(arguments)
        unfit = self._unfit(target, found, present, arguments, where, findings)
        if unfit:
            found = rows(Arguments(present, doubtful, unfit))
        return _without_checks(found)

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
            bad, sample = self._con.rows(
                f"select count(*), any_value(json_extract_string(args, {select.path(key)})) from events "
                f"where {where} and coalesce(json_type(args, {select.path(key)}), 'NULL') <> 'NULL' "
                f"and ({select.fitting(key, kind, value, arguments)}) is null "
                f"and json_extract_string(args, {select.path(key)}) not in ('-1', '4294967295')"
            )[0]
            if bad:
                unfit.append(key)
                findings.note("value_unfit", f"{target.table}, {key!r}: {sample}", bad)
        return unfit

    def _counters(self) -> pa.Table:
        """Counter events (phase C): one row for each series."""
        columns = {
            "pid": "try_cast(pid as bigint)",
            "time_ns": "start_ns",
            "name": "case when key is null or key in ('', name, 'value') then name else concat_ws('.', name, key) end",
            "value": "try_cast(value as double)",
        }
        return self._con.arrow(
            f"""
            with entries as (
                select pid, name, start_ns, map_entries(json_transform(args, '"MAP(VARCHAR, VARCHAR)"')) as entries
                from events
            ), series as (
                select pid, name, start_ns, unnest(coalesce(nullif(entries, []), [null])) as entry from entries
            ), named as (
                select pid, name, start_ns, entry.key as key, entry.value as value from series
            )
            select {select.rows_of("counters", columns)} from named
            """,
        )


def _without_checks(rows: pa.Table) -> pa.Table:
    return rows.select([column for column in rows.column_names if not column.startswith("? ")])


def _total(rows: pa.Table, column: str) -> int:
    return pc.sum(rows.column(column)).as_py() or 0


def _target(kind: int) -> Mapping:
    return MAPPINGS[kind] if kind < OTHER else mapping.OTHER


def _targets(kind: int, present: Collection[str]) -> list[tuple[Mapping, str]]:
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
