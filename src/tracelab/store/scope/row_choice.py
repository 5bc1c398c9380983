"""Choose the rows of a scope: one bit for each row of each file."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracelab import schema
from tracelab.errors import NoDataError, UsageError
from tracelab.output.labels import Quantity, format_scaled
from tracelab.output.spans import format_spans
from tracelab.paths.stretches import Flags, Keys, Times
from tracelab.store import execution, integrity, session, shared_relations
from tracelab.store.alignment import Alignment
from tracelab.store.scope.criteria import (
    PROCESS,
    REFERENCED,
    SOURCE,
    THREAD,
    Criterion,
    Rows,
    find_conditions,
)
from tracelab.store.scope.request import Scope, holds_number
from tracelab.store.scope.row_mask import RowMask
from tracelab.table_types import Table

_NEVER = np.iinfo(np.int64).min
"""In place of NULL."""
_BATCH_ROWS = 122_880
_NUMBERED = "numbered_"
_NO_GPU = "The answer reads no rows of GPUs, which alone have streams and launches."
_CALLS = f"""\
select
    {PROCESS} as process, {THREAD} as thread, correlation,
    start_ns as at_ns
from api_calls
where correlation is not null and has_valid_interval(start_ns, end_ns)"""


def _time_column(table: Table) -> str | None:
    names = {column.name for column in table.columns}
    return next((name for name in ("start_ns", "time_ns") if name in names), None)


_OUTSIDE_OF_RECORDINGS = frozenset({"steps", "host_samples"})
"""Tables with times that no profiler recorded: a collector wrote them."""
SCOPED_TABLES = tuple(
    table.name
    for table in schema.TABLES
    if table.kind != "plain" and _time_column(table) and table.name not in _OUTSIDE_OF_RECORDINGS
)
"""The tables whose rows lie inside or outside of a scope; it leaves the others whole."""


_TABLES_OF_GPUS = tuple(
    name for name in SCOPED_TABLES if schema.BY_NAME[name].kind == "gpu" or name in {"annotations", "collectives"}
)


@dataclass
class _Counts:
    """How many rows of a table are in the scope."""

    kept: int = 0
    all: int = 0


@dataclass
class _Tally:
    """What the rows turned out to be."""

    tables: dict[str, _Counts] = field(default_factory=dict)
    streams: set[int] = field(default_factory=set)
    on_gpu: int = 0
    """Rows of GPUs, in the scope or not."""
    unlinked: int = 0
    """Rows of GPUs in the scope whose launch was not recorded."""
    overrun_ns: int = 0
    """How long rows of GPUs in a scope of times run after its end."""


def select_rows(  # noqa: PLR0913  one for each thing that a session depends on
    store: Path,
    scope: Scope,
    *,
    step_name: str,
    referenced: str | None = None,
    needs: Sequence[str] = (),
    runs: Sequence[str] | None = None,
    alignment: Alignment | None = None,
    memory_limit: str | None = None,
    deadline: execution.Deadline | None = None,
) -> RowMask:
    """Choose the rows of a scope: of the tables that the SQL `referenced` reads, else of all; of `runs`, else of all.

    `step_name` is the regular expression that finds the names of steps. `needs` are tables of which one must have a row
    in the scope. Raises NoDataError where the scope is empty, with what there is, and UsageError where it cannot apply.
    """
    if not has_place(needs):
        raise UsageError(f"no scope applies to {' and '.join(needs)}: only rows of a recording have a place in one")
    may_differ = _TABLES_OF_GPUS if scope.is_of_gpus else SCOPED_TABLES
    read = None if referenced is None else session.referenced_tables(store, referenced)
    named = [] if referenced is None else shared_relations.required_computations(referenced)
    of_paths = any(each.scope_relations for each in named)
    if of_paths and needs:  # a query of the library: it reads all rows, and only whether there are such streams is open
        may_differ = tuple(name for name in schema.GPU_ACTIVITY if scope.stream is not None)
    chosen = [table for table in may_differ if read is None or table in read]
    names = [*(REFERENCED[name] for name in REFERENCED if getattr(scope, name) not in (None, False)), _CALLS, *chosen]
    with (
        session.connect(
            store, referenced="\n".join(names), alignment=alignment, runs=runs, numbered=tuple(chosen)
        ) as con,
        integrity.explain_read_errors(store),
        execution.translate_errors(),
    ):
        con.execute("set enable_progress_bar = false").fetchall()
        execution.limit_memory(con, memory_limit)
        chooser = _Chooser(con, scope, step_name, chosen, tuple(needs), of_paths=of_paths)
        return replace(execution.run_interruptible(con, chooser.choose, deadline), of_runs=runs is not None)


def has_place(needs: Collection[str]) -> bool:
    """Return whether a query that needs one of these tables reads rows with a place in a recording."""
    return not needs or not set(needs).isdisjoint(SCOPED_TABLES)


def _reads_gpus(tables: Iterable[str]) -> bool:
    return any(schema.BY_NAME[table].kind == "gpu" or table == "collectives" for table in tables)


class _Chooser:
    """One pass over the tables of a session."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        scope: Scope,
        step_name: str,
        tables: list[str],
        needs: tuple[str, ...],
        *,
        of_paths: bool,
    ) -> None:
        self._con = con
        self._scope = scope
        self._step_name = step_name
        self._tables = tables
        self._needs = needs
        self._of_paths = of_paths
        self._tally = _Tally()
        self._ends: dict[int, int] = {}

    def choose(self) -> RowMask:
        """Return the mask. Raises NoDataError where the scope is empty."""
        found = find_conditions(self._con, self._scope, self._step_name)
        if self._scope.is_span:
            self._ends = {each.key: each.to_ns for each in found.bounds if each.to_ns is not None}
        calls = _read_calls(self._con) if self._reads_calls() else None
        bits: dict[str, bytes] = {}
        for table in self._tables:
            bits |= self._choose_rows(table, found.criteria, calls)
        self._check_streams()
        note = self._describe(found.words)
        counted = self._counted()
        is_recorded = any(not self._needs or table in self._needs for table in counted)
        if is_recorded and not self._of_paths and not any(each.kept for each in counted.values()):
            raise NoDataError(f"no row lies in the scope: {note.removeprefix('Scope: ')}")
        recorded = frozenset(table for table, each in self._tally.tables.items() if each.all)
        return RowMask(
            self._scope, frozenset(self._tables), bits, note, recorded, bounds=found.bounds, within=found.within
        )

    def _counted(self) -> dict[str, _Counts]:
        """Return the counts of the tables with rows that the answer needs, else of all.

        Where all that it needs are rows of CPUs, and none is in the scope, rows of GPUs do as well: those that an op
        before the scope launched, or a graph, whose kernels have the ops of its capture.
        """
        tables = {name: each for name, each in self._tally.tables.items() if each.all}
        needed = {name: tables[name] for name in self._needs if name in tables}
        if not needed:
            return tables
        of_gpus = {name: each for name, each in tables.items() if schema.BY_NAME[name].kind == "gpu" and each.kept}
        takes_others = not any(each.kept for each in needed.values()) and not _reads_gpus(self._needs)
        return needed | of_gpus if takes_others else needed

    def _reads_calls(self) -> bool:
        return _reads_gpus(self._tables) and (self._scope.linked or self._scope.by == "launch")

    def _choose_rows(self, table: str, criteria: Sequence[Criterion], calls: "_Calls | None") -> dict[str, bytes]:
        """Return the bits of each file of a table, and count its rows."""
        files = self._con.execute(
            f"select hash(filename), filename, max(file_row_number) from {_NUMBERED}{table} group by filename"
        ).fetchall()
        chosen = {number: np.zeros(int(last) + 1, np.bool_) for number, _, last in files}
        counts = self._tally.tables.setdefault(table, _Counts())
        for batch in self._read_batches(table):
            kept = self._hold(batch, criteria, calls)
            counts.all += len(kept)
            counts.kept += int(kept.sum())
            for number in np.unique(batch.file[kept]):
                chosen[int(number)][batch.row[kept & (batch.file == number)]] = True
        return {path: np.packbits(_pad(chosen[number])).tobytes() for number, path, _ in files}

    def _hold(self, batch: "_Batch", criteria: Sequence[Criterion], calls: "_Calls | None") -> Flags:
        """Return for each row whether it is in the scope."""
        rows, on_gpu = batch.rows, batch.on_gpu
        self._tally.on_gpu += int(on_gpu.sum())
        kept = np.ones(len(on_gpu), np.bool_)
        linked = np.zeros(len(on_gpu), np.bool_)
        if calls is not None and on_gpu.any():
            rows, linked = calls.place(batch, by_launch=self._scope.by == "launch")
            if self._scope.linked:
                kept &= linked | ~batch.has_launch
        unlinked = batch.has_launch & ~linked
        for criterion in criteria:
            kept &= criterion.hold(rows, unlinked if self._scope.by == "launch" else np.zeros_like(unlinked))
        if self._scope.stream is not None:
            streams = np.unique(batch.stream[on_gpu & kept])
            self._tally.streams |= set(streams[streams != _NEVER].tolist())
            wanted = [each for each in streams.tolist() if holds_number(self._scope.stream_numbers, each)]
            kept &= ~on_gpu | np.isin(batch.stream, wanted)
        self._tally.unlinked += int((kept & unlinked).sum())
        self._measure_overrun(batch, kept & on_gpu)
        return kept

    def _measure_overrun(self, batch: "_Batch", kept: Flags) -> None:
        """Note how long these rows of GPUs run after the end of a scope of times: none is cut."""
        for key, to_ns in self._ends.items():
            last_ns = batch.end_ns[kept & (batch.rows.source == key)].max(initial=to_ns)
            self._tally.overrun_ns = max(self._tally.overrun_ns, int(last_ns) - to_ns)

    def _read_batches(self, table: str) -> Iterator["_Batch"]:
        reader = self._con.sql(_render_places(schema.BY_NAME[table])).to_arrow_reader(_BATCH_ROWS)
        for batch in reader:
            execution.check_interrupted()
            yield _Batch.of(batch)

    def _check_streams(self) -> None:
        streams = sorted(self._tally.streams)
        if self._scope.stream is None or not self._tally.on_gpu:
            return
        if any(holds_number(self._scope.stream_numbers, each) for each in streams):
            return
        there = f"there are streams {format_spans(streams)}" if streams else "no such row has a stream"
        raise NoDataError(f"no row of a GPU in the scope is on stream {self._scope.stream}; {there}")

    def _describe(self, found: Sequence[str]) -> str:
        """Return what the scope is, and how many rows it has, as a sentence."""
        scope = self._scope
        parts = list(found)
        if scope.stream is not None:
            parts.append(f"stream {scope.stream}")
        if scope.linked:
            parts.append("with a recorded launch")
        if self._of_paths and self._needs:  # a query of the library, which reads all rows
            by = f"; rows of GPUs by the time of their {scope.by}" if scope.within is not None else ""
            return f"Scope: {', '.join(parts)}{by}. {scope.path_note}"
        rows = ", ".join(f"{each.kept:,} of {each.all:,} {table}" for table, each in self._counted().items())
        whole = [table for table in self._needs if table not in SCOPED_TABLES and schema.BY_NAME[table].kind != "plain"]
        if whole:
            rows += f", and all {' and '.join(whole)}"
        by = f"rows of GPUs by the time of their {scope.by}" if found else ""
        unlinked = ""
        if self._tally.unlinked and found and scope.by == "launch":
            unlinked = f" {self._tally.unlinked:,} rows of GPUs without a recorded launch count by their own start."
        needless = f" {_NO_GPU}" if (scope.stream is not None or scope.linked) and not self._tally.on_gpu else ""
        overrun = ""
        if self._tally.overrun_ns and not self._of_paths:
            length = format_scaled(self._tally.overrun_ns, Quantity.DURATION)
            overrun = f" Rows of GPUs in it run up to {length} past its end, and so does its window: no row is cut."
        named = "; ".join(part for part in (", ".join(parts), by, rows) if part)
        paths = f" {scope.path_note}" if self._of_paths else ""
        return f"Scope: {named}.{unlinked}{needless}{overrun}{paths}"


@dataclass(frozen=True)
class _Batch:
    """Some rows of a table, with what decides whether they are in a scope."""

    file: Keys
    row: Times
    rows: Rows
    on_gpu: Flags
    has_launch: Flags
    stream: Times
    correlation: Times
    end_ns: Times
    """Of what occupies a GPU; else, and without a valid duration, NULL."""

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> "_Batch":
        columns = {
            name: column.to_numpy(zero_copy_only=False)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        rows = Rows(*(columns.pop(name) for name in ("at_ns", "source", "process", "thread")))
        return cls(rows=rows, **columns)


def _render_places(table: Table) -> str:
    """Render the statement that reads where and when each row of a table counts."""
    names = {column.name for column in table.columns}
    is_gpu = table.kind == "gpu"
    on_gpu, has_launch = {
        "annotations": ("coalesce(scope = 'gpu', false)", "false"),
        "collectives": ("coalesce(origin = 'kernel', false)",) * 2,
    }.get(table.name, ("true", "true") if is_gpu else ("false", "false"))
    thread = f"case when {on_gpu} then 0 else {THREAD} end" if "tid" in names else "0"

    def value(column: str | None) -> str:
        return f"cast({f'coalesce({column}, {_NEVER})' if column in names else _NEVER} as bigint)"

    end = "case when has_valid_interval(start_ns, try(start_ns + dur_ns)) then start_ns + dur_ns end"
    end = f"coalesce({end if table.name in schema.GPU_ACTIVITY else 'null'}, {_NEVER})"
    return (
        f"select hash(filename) as file, file_row_number as row, {value(_time_column(table))} as at_ns,\n"
        f"    {SOURCE} as source, {PROCESS} as process, ({thread})::ubigint as thread,\n"
        f"    {on_gpu} as on_gpu, {has_launch} as has_launch,\n"
        f"    {value('stream')} as stream, {value('correlation')} as correlation,\n"
        f"    cast({end} as bigint) as end_ns\nfrom {_NUMBERED}{table.name}"
    )


def _pad(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the flags with as many more as fill the last byte."""
    return np.pad(flags, (0, -len(flags) % 8))


class _Calls:
    """The calls that launch: of each process in the order of their correlations, the first one of each."""

    def __init__(self, process: Keys, thread: Keys, correlation: Times, at_ns: Times) -> None:
        order = np.lexsort((at_ns, correlation, process))
        process, correlation = process[order], correlation[order]
        first = np.r_[True, (process[1:] != process[:-1]) | (correlation[1:] != correlation[:-1])][: len(process)]
        self._correlation, self._process = correlation[first], process[first]
        self._thread, self._at_ns = thread[order][first], at_ns[order][first]

    def place(self, batch: _Batch, *, by_launch: bool) -> tuple[Rows, Flags]:
        """Return where the rows of a batch count, and which have a launch: of these, time and thread of the launch."""
        rows = batch.rows
        at_ns, thread = rows.at_ns.copy(), rows.thread.copy()
        linked = np.zeros(len(at_ns), np.bool_)
        for process in np.unique(rows.process[batch.has_launch]):
            first, last = np.searchsorted(self._process, [process, process], side="left")
            last = np.searchsorted(self._process, process, side="right")
            mine = np.flatnonzero(batch.has_launch & (rows.process == process) & (batch.correlation != _NEVER))
            place = first + np.searchsorted(self._correlation[first:last], batch.correlation[mine])
            known = place < last
            known[known] = self._correlation[place[known]] == batch.correlation[mine[known]]
            mine, place = mine[known], place[known]
            linked[mine] = True
            if by_launch:
                at_ns[mine], thread[mine] = self._at_ns[place], self._thread[place]
        return Rows(at_ns, rows.source, rows.process, thread), linked


def _read_calls(con: duckdb.DuckDBPyConnection) -> _Calls:
    table = execution.fetch_table(con, _CALLS)
    return _Calls(*(table[name].to_numpy() for name in ("process", "thread", "correlation", "at_ns")))
