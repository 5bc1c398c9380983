"""Run the queries of a report, over the whole store or over selected runs."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.errors import NoDataError, UsageError
from tracelab.output.commands import StoreCommands
from tracelab.query import execute, library
from tracelab.query.report_rules import Finding
from tracelab.query.spec import Query, Value
from tracelab.store import execution, integrity, session
from tracelab.store.alignment import Alignment, measure
from tracelab.store.files import find_address, store_address
from tracelab.store.scope.program_start import (
    AFTER_START,
    ProgramStart,
    find_program_starts,
    lengths_before_steps,
)
from tracelab.store.scope.request import Scope

if TYPE_CHECKING:
    from tracelab.store.scope.row_mask import RowMask

_AT_ONCE = 2
_Result = TypeVar("_Result")
_COUNTS = "kernel_metrics"
"""The table of counts, which the runs of a program share."""
_NO_SWEEP = "none of the runs is a cell of a sweep: record one with `tracelab collect sweep`, and ingest its folder"


@dataclass(frozen=True)
class Answer:
    """A query and its result; without data `table` is None and `lacks` states why and what to do."""

    query: Query
    table: pa.Table | None
    missing_reason: str
    command: str
    sql: str
    unshown: pa.Table | None = None
    """The rows, where the query's section shows none of them."""


@dataclass(frozen=True)
class ReportSession:
    """An open store and the selected runs; `runs` is empty for all.

    `run_names` lists the runs in either case, in the order of the run selector.

    """

    con: duckdb.DuckDBPyConnection
    store: Path
    runs: tuple[str, ...]
    run_names: tuple[str, ...]
    alignment: Alignment | None = None
    """What moves the times of ranks; None where they are as recorded."""
    mask: "RowMask | None" = None
    """The rows of the scope that the report is about; None for whole recordings."""
    scope: Scope | None = None
    """The scope that was requested, an empty one for whole recordings; None for all but program starts."""
    starts: Mapping[str, ProgramStart] = field(default_factory=dict)
    """The recorded starts of programs by run."""
    has_all_runs: bool = False
    """Whether the selected runs are all of the store: then a query runs once for all of them."""
    all_findings: bool = False
    """Whether rows within the threshold of a rule have findings, too, from the least share of the measured time on."""

    @property
    def several(self) -> bool:
        """Return whether several runs are selected, so that figures must name theirs."""
        return len(self.run_names) > 1

    @property
    def commands(self) -> StoreCommands:
        """Return the commands that read the same store with the same clocks and the same scope."""
        address = find_address(self.store)
        is_default = self.scope is None and self.mask is not None
        return StoreCommands(
            None if address == store_address(None) else address,
            aligned=self.alignment is not None,
            scope_options=self.scope.options if self.scope else (),
            unscoped_queries=_unscoped_queries() if self.mask else frozenset(),
            started_runs=frozenset(self.starts_out_ns if is_default else ()),
            is_whole=self.scope is not None and not self.scope and bool(self.starts),
        )

    @property
    def notes(self) -> list[str]:
        """Return sentences about all answers: how clocks were aligned, and the scope."""
        of_runs = f"Scope of {', '.join(self.starts_out_ns)}:"
        is_of_some = self.scope is None and self.several
        aligned = self.alignment.notes if self.alignment else ()
        if self.mask is None:
            return [*aligned]
        note = self.mask.note.replace("Scope:", of_runs, 1) if is_of_some else self.mask.note
        return [*aligned, f"{note} {self.mask.scope.path_note}"]

    @property
    def starts_out_ns(self) -> dict[str, int]:
        """Return how long the program starts are that are out of scope because a first step follows, by run."""
        return lengths_before_steps(self.starts) if self.mask is not None and self.mask.scope.after_start else {}

    def findings_of(self, query: Query) -> tuple[Finding, ...]:
        """Return the findings of a query's header; if all are requested, then those within their thresholds, too."""
        return findings_and_within(query) if self.all_findings else query.report.findings if query.report else ()

    def run_named(self, name: str, **values: Value) -> Answer:
        """Run a query of the library; `values` are parameters other than the run."""
        return self.run(library.library()[name], values)

    def run(self, query: Query, values: Mapping[str, Value]) -> Answer:
        """Run a loaded query, once per selected run if it has a run parameter and the store has other runs."""
        run_params = [param.name for param in query.params if param.type == "run"]
        if run_params and self.runs and len(self.runs) != len(run_params):
            reason = f"{query.name} takes {len(run_params)} runs; name so many with --run"
            return Answer(query, None, reason, self._full_command(query, {}), "")
        choices = [{**values, **choice} for choice in self._choices(query)]
        if not choices:
            return Answer(query, None, _NO_SWEEP, self._full_command(query, {}), "")
        tables: list[pa.Table] = []
        problems: list[str] = []
        for choice in choices:
            try:
                tables.append(
                    _drop_shown_runs(execute.run(self.con, query, choice), choice.get("run"), self.runs, tables)
                )
            except (NoDataError, UsageError) as error:  # a query of two runs, and there are more
                problems.append(str(error))
        filled = [table for table in tables if table.num_rows]
        return Answer(
            query,
            pa.concat_tables(filled, promote_options="permissive") if filled else None,
            "" if filled else (problems or [f"{query.name} has no row for these data"])[0],
            self._full_command(query, choices[0]),
            execute.render_sql(query, choices[0]) + _other_choices(choices),
        )

    def run_all(self, queries: Sequence[Query]) -> list[Answer]:
        """Run queries for their sections, two at a time."""
        with self.open_workers() as workers:
            return [each.result() for each in workers.submit_queries(queries)]

    @contextmanager
    def open_workers(self) -> "Iterator[Workers]":
        """Yield what runs tasks two at a time: few queries keep every core busy throughout. An error stops them all."""
        opened = [self.con.cursor() for _ in range(_AT_ONCE)]
        for cursor in opened:
            cursor.execute("set enable_progress_bar = false").fetchall()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            try:
                yield Workers(self, pool, opened)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for cursor in opened:  # Ctrl-C reaches this thread alone
                    cursor.interrupt()
                raise

    def run_for_section(self, query: Query) -> Answer:
        """Run a query for its section; without data if the tables that its header names are empty.

        A query whose hints know that the answer has no figure does not run: to plan stragglers takes as long as ten
        others.
        """
        needs = query.report.needs if query.report else ()
        if not self.has_rows(needs):
            hints = execute.capture_hints(needs)
            reason = f"{query.name} is shown where {' or '.join(needs)} has rows; to get them: {hints}"
            return Answer(query, None, reason, self._full_command(query, {}), "")
        if empty_reason := self._empty_reason(query):
            without = query.report.without if query.report else ""
            return Answer(query, None, without or f"{query.name}: {empty_reason}", self._full_command(query, {}), "")
        answer = self.run(query, {})
        condition = query.report.show_if if query.report else None
        if answer.table is None or condition is None:
            return answer
        self.con.register("answer", answer.table)
        has_match = self.con.sql(f"select 1 from answer where {condition} limit 1").fetchall()
        self.con.unregister("answer")
        without = query.report.without if query.report else ""
        return answer if has_match else replace(answer, table=None, missing_reason=without, unshown=answer.table)

    def _empty_reason(self, query: Query) -> str | None:
        """Return why the answers about all selected runs have no figure; None where one may."""
        reasons = [execute.find_empty_reason(self.con, query, choice) for choice in self._choices(query)]
        return None if not reasons or None in reasons else reasons[0]

    def has_rows(self, tables: tuple[str, ...]) -> bool:
        """Return whether one of the tables has a row, or counts of the same program; True for no tables."""
        runs = list(self.runs)
        if runs and _COUNTS in tables:
            pairs = (
                "select distinct ncu_run from paired_runs(null) where list_contains($runs, run) and ncu_run is not null"
            )
            runs += [run for (run,) in self.con.sql(pairs, params={"runs": runs}).fetchall()]
        return not tables or any(
            self.con.sql(
                f"select 1 from {table} where len($runs) = 0 or list_contains($runs, run) limit 1",
                params={"runs": runs},
            ).fetchall()
            for table in tables
        )

    def _full_command(self, query: Query, values: Mapping[str, Value]) -> str:
        """Return the command that prints the complete result."""
        return self.commands.query(query.name, **values, format="csv")

    def _choices(self, query: Query) -> list[dict[str, Value]]:
        """Return the values of the parameters that name runs."""
        names = {param.name for param in query.params}
        run_params = [param.name for param in query.params if param.type == "run"]
        if run_params and len(self.runs) == len(run_params):
            return [dict(zip(run_params, self.runs, strict=True))]
        if "run" in names and self.runs and not self.has_all_runs:
            return [{"run": run} for run in self.runs]
        if "sweep" in names and self.runs:
            return [{"sweep": sweep} for sweep in self._sweeps()]
        return [{}]

    def _sweeps(self) -> list[str]:
        """Return the sweeps of the selected runs, for queries over whole sweeps."""
        rows = self.con.execute(
            "select distinct sweep from runs where list_contains($runs, run) and sweep is not null order by sweep",
            {"runs": list(self.runs)},
        ).fetchall()
        return [sweep for (sweep,) in rows]


class Workers:
    """Threads of a report, each with a cursor of its session."""

    def __init__(
        self, session: ReportSession, pool: ThreadPoolExecutor, cursors: Iterable[duckdb.DuckDBPyConnection]
    ) -> None:
        self._session = session
        self._pool = pool
        self._cursors: SimpleQueue[duckdb.DuckDBPyConnection] = SimpleQueue()
        for cursor in cursors:
            self._cursors.put(cursor)

    def submit(self, task: Callable[[ReportSession], _Result]) -> "Future[_Result]":
        """Run a task when a thread is free, with the session on the thread's cursor."""

        def run() -> _Result:
            cursor = self._cursors.get()
            try:
                return task(replace(self._session, con=cursor))
            finally:
                self._cursors.put(cursor)

        return self._pool.submit(run)

    def submit_queries(self, queries: Iterable[Query]) -> "list[Future[Answer]]":
        """Run queries for their sections."""

        def run(query: Query, session: ReportSession) -> Answer:
            return session.run_for_section(query)

        return [self.submit(partial(run, query)) for query in queries]


def findings_and_within(query: Query) -> tuple[Finding, ...]:
    """Return the findings of a query's header, and those about rows within their thresholds."""
    findings = query.report.findings if query.report else ()
    within = (each.within_threshold() for each in findings)
    return (*findings, *(each for each in within if each))


@contextmanager
def open_report_session(
    store: Path, runs: tuple[str, ...], *, aligned: bool = False, scope: Scope | None = None
) -> Iterator[ReportSession]:
    """Open the store, its clocks aligned on request, restricted to a scope on request.

    A run may be a shell pattern. Without a scope, the starts of programs that precede a step are left out; with an
    empty one, nothing is. Raises NoDataError if the store lacks one of the runs, and where the scope is empty.
    """
    if any(map(execute.is_pattern, runs)):
        with session.connect(store, referenced="sources") as con, integrity.explain_read_errors(store):
            runs = execute.expand_runs(execute.stored_runs(con), runs, "run")
    alignment = measure(store, runs) if aligned else None
    mask = _choose_rows(store, runs, scope, alignment)
    with ExitStack() as opened:
        con = opened.enter_context(session.connect(store, alignment=alignment, mask=mask))
        opened.enter_context(integrity.explain_read_errors(store))
        opened.enter_context(execution.translate_errors())
        known = execute.stored_runs(con)
        for run in runs:
            execute.check_run(known, run)
        starts = find_program_starts(con, library.default_step_name(), runs)
        started = tuple(lengths_before_steps(starts))
        if scope is None and started:
            con.close()
            mask = _choose_rows(store, started, AFTER_START, alignment)
            con = opened.enter_context(session.connect(store, alignment=alignment, mask=mask))
        con.execute("set enable_progress_bar = false").fetchall()  # DuckDB draws it on stdout, among the data
        if not execution.has_few_rows(con):
            execution.reuse_memory(con)
        names = tuple(sorted(set(runs) or known))
        selected = tuple(dict.fromkeys(runs))
        has_all_runs = selected == tuple(known)  # in another order answers list the first named run first
        yield ReportSession(con, store, selected, names, alignment, mask, scope, starts, has_all_runs)


def _drop_shown_runs(answer: pa.Table, run: Value, selected: Collection[str], before: Iterable[pa.Table]) -> pa.Table:
    """Return the rows of a run, and of others of its program that neither are selected nor were in an answer before."""
    if run is None or "run" not in answer.column_names:
        return answer
    shown = {str(each) for table in before for each in table["run"].unique().to_pylist()}
    others = pa.array(sorted({*selected, *shown} - {str(run)}), pa.string())
    return answer.filter(pc.invert(pc.is_in(answer["run"], value_set=others)))


def _choose_rows(
    store: Path, runs: tuple[str, ...], scope: Scope | None, alignment: Alignment | None
) -> "RowMask | None":
    if not scope:
        return None
    from tracelab.store.scope.row_choice import select_rows

    return select_rows(store, scope, step_name=library.default_step_name(), runs=runs or None, alignment=alignment)


@cache
def _unscoped_queries() -> frozenset[str]:
    from tracelab.store.scope.row_choice import has_place

    return frozenset(name for name, each in library.library().items() if not has_place(each.needs))


def _other_choices(choices: Sequence[Mapping[str, Value]]) -> str:
    """Return a SQL comment with the other parameter choices."""
    return "".join(f"-- and the same for {choice.get('run', choice.get('sweep'))!r}\n" for choice in choices[1:])
