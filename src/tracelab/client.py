"""The Python client: the commands that read a store, as methods that return results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from tracelab import table_lookup
from tracelab.errors import NoDataError, UsageError
from tracelab.output.result import Result, Titles
from tracelab.query import execute, library, spec
from tracelab.sql import sandbox
from tracelab.store import execution, integrity, session

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracelab.compare.result import ComparisonResult
    from tracelab.report.page import Page
    from tracelab.report.summary.text import Summaries
    from tracelab.store.alignment import Alignment
    from tracelab.store.scope.request import By, Scope
    from tracelab.store.scope.row_mask import RowMask


_INGESTED = pa.schema([(name, pa.string()) for name in ("path", "status", "run", "message")])


@dataclass(frozen=True)
class Lab:
    """An open store. Each call reads the store as it is at that moment, within the limits of memory and time.

    With `aligned`, the times of all ranks are on the clock of the lowest: each call measures the offsets of the clocks,
    or applies those of an `Alignment`. With `scope`, answers are about that part of each recording: see `scoped`.
    """

    store: Path
    memory_limit: str | None = None
    timeout_s: float | None = None
    aligned: "bool | Alignment" = False
    scope: "Scope | RowMask | None" = None

    def __post_init__(self) -> None:
        """Check the time limit."""
        execution.check_timeout(self.timeout_s)

    def scoped(  # noqa: PLR0913  one for each condition
        self,
        *,
        steps: str | None = None,
        within: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        stream: str | None = None,
        linked: bool = False,
        after_start: bool = False,
        by: "By" = "launch",
    ) -> "Lab":
        """Return the store restricted to a part of each recording: `lab.scoped(steps="3-5").query("kernel_summary")`.

        `steps` and `stream` are numbers such as "3-5,8" or "10-"; `within` is a regular expression that finds the names
        of ranges, ops and nn.Modules; `from_` and `to` are times since the first event of the run, such as "350ms";
        `linked` leaves out rows of GPUs whose launch was not recorded, `after_start` the start of a program that
        `collect run` recorded, to the end of its first step. Rows of GPUs count `by` the time of their launch
        or of their execution. Raises UsageError for what cannot be read.
        """
        from tracelab.store.scope.request import Scope

        scope = Scope(steps, within, from_, to, stream, linked, after_start, by)
        return replace(self, scope=scope if scope else None)

    def query(self, name: str, *, like: str | None = None, **params: spec.Value) -> Result:
        """Run a query of the library (`queries()` lists them) or an .sql file: `lab.query("nccl_share", rank=0).pl()`.

        `like="hta"` applies the definition of another tool, where the library has it.
        """
        query = library.find(name, like)
        _check_scope_words(query, params)
        mask = self.row_mask(query, params)
        table = replace(self, scope=mask).run_query(query, params)
        return Result(table, query.title, query.show, notes=tuple(mask.describe(table.num_rows)) if mask else ())

    def run_query(self, query: spec.Query, params: Mapping[str, spec.Value]) -> pa.Table:
        """Run a loaded query and return its rows as an Arrow table, in the sandbox where it is not the library's."""
        return integrity.repeat_if_changed(lambda: self._run_query(query, params))

    def _run_query(self, query: spec.Query, params: Mapping[str, spec.Value]) -> pa.Table:
        if not library.is_shipped(query):
            with self.open_query(query, params) as reader:
                return reader.read_all()
        with self._library_session(query, params) as con, execution.translate_errors():
            deadline = execution.Deadline(self.timeout_s)
            return execution.run_interruptible(con, lambda: execute.run(con, query, params), deadline)

    @contextmanager
    def open_query(self, query: spec.Query, params: Mapping[str, spec.Value]) -> Iterator[pa.RecordBatchReader]:
        """Start a loaded query and yield a reader that computes its rows when they are read."""

        def start(con: duckdb.DuckDBPyConnection) -> AbstractContextManager[pa.RecordBatchReader]:
            return execution.stream(con, lambda: execute.start(con, query, params), self.timeout_s)

        def start_checked(con: duckdb.DuckDBPyConnection) -> AbstractContextManager[pa.RecordBatchReader]:
            sandbox.check(con, query.sql)
            return start(con)

        if library.is_shipped(query):
            with self._library_session(query, params) as con, start(con) as rows:
                yield rows
            return
        with execute.locate_errors(query):
            alignment, mask = self.alignment(params.get("run")), self.row_mask(query, params)
            with self._open_sandbox(execute.referenced_sql(query), alignment, mask, start_checked) as rows:
                yield rows

    @contextmanager
    def _library_session(
        self, query: spec.Query, params: Mapping[str, spec.Value]
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a session with the tables and macros that a query of the library needs."""
        alignment, mask = self.alignment(params.get("run")), self.row_mask(query, params)
        referenced, read_runs = execute.referenced_sql(query, params), execute.read_runs(query, params)
        with session.connect(
            self.store, referenced=referenced, alignment=alignment, mask=mask, read_runs=read_runs
        ) as con:
            con.execute("set enable_progress_bar = false").fetchall()  # DuckDB draws it on stdout, among the data
            execution.limit_memory(con, self.memory_limit)
            with integrity.explain_read_errors(self.store):
                yield con

    def find_hints(self, query: spec.Query, params: Mapping[str, spec.Value]) -> list[str]:
        """Return what to record for a fuller answer of a library query; whole recordings decide, not the scope."""
        if not query.hints or not library.is_shipped(query):
            return []
        with replace(self, scope=None)._library_session(query, params) as con, execution.translate_errors():
            return execute.find_hints(con, query, params)

    def describe_starts(self, query: spec.Query, params: Mapping[str, spec.Value]) -> list[str]:
        """Return which program starts the answer of a query includes that a scope can leave out, of runs with steps."""
        if self.scope is not None:
            return []
        read = execute.answered_runs(query, params)
        recorded = integrity.list_runs_with(self.store, ("steps", "annotations"))
        runs = recorded if read is None else sorted(set(read) & set(recorded))
        if not runs or not _takes_scope(query, params):
            return []
        from tracelab.store.scope import program_start

        with (
            session.connect(self.store, referenced=program_start.REFERENCED, read_runs=runs) as con,
            integrity.explain_read_errors(self.store),
            execution.translate_errors(),
        ):
            starts = program_start.find_program_starts(con, library.default_step_name(), runs)
        return program_start.describe_included(starts)

    def sql(self, text: str) -> Result:
        """Run one SELECT over the store, in the sandbox of `tracelab sql`: `lab.sql("from runs").pl()`."""

        def read() -> Result:
            mask = self.row_mask_of_sql(text)
            with replace(self, scope=mask).open_sql(text) as reader:
                return Result(reader.read_all(), notes=(mask.note,) if mask else ())

        return integrity.repeat_if_changed(read)

    @contextmanager
    def open_sql(self, text: str) -> Iterator[pa.RecordBatchReader]:
        """Start one SELECT in the sandbox and yield a reader that computes its rows when they are read."""
        start = partial(sandbox.stream, text=text, timeout_s=self.timeout_s)
        with self._open_sandbox(text, self.alignment(), self.row_mask_of_sql(text), start) as rows:
            yield rows

    @contextmanager
    def _open_sandbox(
        self,
        text: str,
        alignment: "Alignment | None",
        mask: "RowMask | None",
        start: Callable[[duckdb.DuckDBPyConnection], AbstractContextManager[pa.RecordBatchReader]],
    ) -> Iterator[pa.RecordBatchReader]:
        """Start a statement in a sandbox with the tables and macros that a text names, else in one with all of them."""
        with ExitStack() as stack:

            def open_rows(referenced: str | None) -> pa.RecordBatchReader:
                with ExitStack() as opened:
                    con = opened.enter_context(
                        sandbox.connect(
                            self.store,
                            memory_limit=self.memory_limit,
                            alignment=alignment,
                            mask=mask,
                            referenced=referenced,
                        )
                    )
                    rows = opened.enter_context(start(con))
                    stack.push(opened.pop_all())
                    return rows

            try:
                rows = open_rows(None if sandbox.reads_catalog(text) else text)
            except UsageError:  # the full session suggests names that are like a wrong one
                rows = open_rows(None)
            yield rows

    def alignment(self, run: spec.Value = None) -> "Alignment | None":
        """Return what moves the times of ranks; None where times are as recorded. A run alone is faster than all."""
        if not isinstance(self.aligned, bool):
            return self.aligned
        if not self.aligned:
            return None
        from tracelab.store import alignment

        deadline = execution.Deadline(self.timeout_s)
        runs = [] if run is None else [str(run)]
        return alignment.measure(self.store, runs, memory_limit=self.memory_limit, deadline=deadline)

    def row_mask(self, query: spec.Query, params: Mapping[str, spec.Value]) -> "RowMask | None":
        """Return the rows of the scope that a query reads; None without a scope.

        Raises NoDataError where the scope is empty, and UsageError for a query that reads nothing with a place in it.
        """
        run, step_name = params.get("run"), params.get("step_name")
        return self._choose_rows(
            execute.referenced_sql(query, params),
            needs=execute.needed_tables(query, execute.bind(query, params)),
            runs=None if run is None else [str(run)],
            step_name=None if step_name is None else str(step_name),
        )

    def row_mask_of_sql(self, text: str | None = None) -> "RowMask | None":
        """Return the rows of the scope in the tables that a SQL text names, else in all; None without a scope."""
        return self._choose_rows(None if text is None else text.lower())

    def _choose_rows(
        self,
        referenced: str | None,
        *,
        needs: Sequence[str] = (),
        runs: Sequence[str] | None = None,
        step_name: str | None = None,
    ) -> "RowMask | None":
        if self.scope is None:
            return None
        from tracelab.store.scope import row_choice
        from tracelab.store.scope.request import Scope

        if not isinstance(self.scope, Scope):
            return self.scope
        return row_choice.select_rows(
            self.store,
            self.scope,
            step_name=step_name or library.default_step_name(),
            referenced=referenced,
            needs=needs,
            runs=runs,
            alignment=self.alignment(None if runs is None else runs[0]),
            memory_limit=self.memory_limit,
            deadline=execution.Deadline(self.timeout_s),
        )

    def _scope(self, *, whole: bool) -> "Scope | None":
        """Return the scope as it was given; an empty one for whole recordings. Raises UsageError for both."""
        from tracelab.store.scope.request import Scope

        if whole and self.scope is not None:
            raise UsageError("whole=True includes all of a recording; open the store without a scope")
        if whole:
            return Scope()
        return self.scope if self.scope is None or isinstance(self.scope, Scope) else self.scope.scope

    def _refuse_scope(self, method: str) -> None:
        if self.scope is not None:
            raise UsageError(f"{method} reads whole recordings; open the store without a scope")

    def summary(self, *runs: str | Sequence[str], run: str | Sequence[str] = (), whole: bool = False) -> "Summaries":
        """Summarize the store, or some runs of it: five figures, and the findings that cost most of the time.

        A name may be a shell pattern: `lab.summary("main-*")`. A list of names is as good as the names, and `run=` as
        either. The start of a program that `collect run` recorded, to the end of its first step, is left out,
        unless the store has a scope, or `whole`.
        """
        from tracelab.report.summary import summarize, text

        names = _check_run_names(*runs, run)
        scope = self._scope(whole=whole)
        return text.Summaries(summarize.summarize(self.store, names, aligned=bool(self.aligned), scope=scope))

    def report(
        self,
        *runs: str | Sequence[str],
        run: str | Sequence[str] = (),
        all_findings: bool = False,
        whole: bool = False,
    ) -> "Page":
        """Build the report of the store, or of some runs: shows in a notebook, and `.save("report.html")` writes it.

        Runs are named, and program starts left out, as by `summary`.
        """
        names = _check_run_names(*runs, run)
        from tracelab.report.document import report
        from tracelab.report.page import Page

        aligned, scope = bool(self.aligned), self._scope(whole=whole)
        try:
            return Page(report(self.store, names, aligned=aligned, all_findings=all_findings, scope=scope))
        except NoDataError as error:
            if file := next((name for name in names if name.lower().endswith((".html", ".htm"))), None):
                problem = f"{file!r} is the name of a file and of no run; write the report by"
                raise UsageError(f"{problem} lab.report().save({file!r})") from error
            raise

    def plot(self, name: str, *, like: str | None = None, **params: spec.Value) -> "Figure":
        """Draw the chart of a query as a Matplotlib figure: `lab.plot("gpu_breakdown").savefig("breakdown.svg")`.

        Raises UsageError for a query without a chart, and NoDataError where no row has a value.
        """
        from tracelab import plot

        query = library.find(name, like)
        table = self.run_query(query, params)
        return plot.figure(table, query, self.joined_kernels(query, table, params))

    def joined_kernels(
        self, query: spec.Query, table: pa.Table, params: Mapping[str, spec.Value]
    ) -> dict[str, frozenset[str]]:
        """Return the kernels of an answer's two runs that replace each other, by label, where its chart joins them."""
        if query.chart is None or query.chart.joined is None or not table.num_rows:
            return {}
        from tracelab.compare import fetch, kernel_groups

        before, after = (str(table.column(name)[0].as_py()) for name in ("before", "after"))
        step_name = params.get("step_name")
        name = None if step_name is None else str(step_name)
        with fetch.open_source(
            self.store,
            [before, after],
            step_name=name,
            whole=True,
            memory_limit=self.memory_limit,
            timeout_s=self.timeout_s,
        ) as source:
            return kernel_groups.fetch_groups(source, before, after, name)

    def ingest(self, *paths: str | Path, run: str | None = None, replace: bool = False, match: bool = True) -> Result:
        """Store files, folders or patterns as `tracelab ingest` does, and return a row for each file.

        With `match`, the ranks of large new runs are matched now, not by the first query that needs it.
        Raises UsageError for a wrong run name, and StoreError for a store that cannot be written.
        """
        from tracelab.collect.folder_lock import find_locks
        from tracelab.ingest import pipeline
        from tracelab.store import remote
        from tracelab.store.files import find_address, is_copy

        if locks := find_locks(paths):
            from tracelab.collect.killed_run import finish_killed_runs

            list(finish_killed_runs(locks))
        stored = pipeline.ingest(paths, find_address(self.store), run=run, replace=replace, match=match)
        if is_copy(self.store):
            remote.refresh(self.store)
        rows = [
            {"path": str(file.path), "status": file.status, "run": file.run, "message": file.message}
            for file in stored.files
        ]
        return Result(pa.Table.from_pylist(rows, _INGESTED), "Files")

    def schema(self, table: str | None = None) -> Result:
        """Return the tables with what a row of each is, or the columns of one table with types and meanings."""
        described = table_lookup.describe_tables(table)
        return Result(described, f"{table}: a row is {table_lookup.find_table(table).row}" if table else "")

    def files(self, table: str) -> list[Path]:
        """Return the Parquet files that hold the rows of a table, for other engines: `pl.scan_parquet(lab.files(…))`.

        They are those of this moment; a later compaction deletes some.
        """
        self._refuse_scope("files")
        parts = session.list_parts(self.store).parts.values()
        return integrity.table_paths(self.store.resolve(), parts, table_lookup.find_stored_table(table).name)

    def queries(self) -> Titles:
        """Return the names of the library's queries with their titles."""
        return Titles({name: query.title for name, query in library.library().items()})

    def answerable_queries(self) -> set[str]:
        """Return the names of the library's queries that the store has the data for: their answers have figures."""
        queries = list(library.library().values())
        tables = {table for query in queries for table in (*query.needs, "sources")}
        conditions = {hint.when for query in queries for hint in query.hints if hint.empty}
        referenced = "\n".join(tables | conditions)
        with session.connect(self.store, referenced=referenced) as con, integrity.explain_read_errors(self.store):
            names = execute.answerable(con, queries)
            return names - execute.empty_answers(con, (each for each in queries if each.name in names))

    def compare(  # noqa: PLR0913  one for each option of the command
        self,
        base: str | Sequence[str],
        candidate: str | Sequence[str],
        *,
        noise_runs: str | Sequence[str] = (),
        fail_on: str | Sequence[str] = (),
        strict: bool = False,
        noise_floor: float | None = None,
        allow_different: Sequence[str] = (),
        step_name: str | None = None,
        whole: bool = False,
    ) -> "ComparisonResult":
        """Compare recordings of two versions: `lab.compare("main-*", "branch-*", fail_on="step_time > 3%").verdict`.

        A side is a run, a shell pattern of run names, or several of these. `noise_runs` are recordings of one version
        that measure the noise floor; `noise_floor` is a ratio that replaces 0.02 where there are none. The result has a
        row for each metric, and the `.exit_code` of the command, with `strict` 4 where a gate is undecided. Program
        starts are left out as by `summary`, unless `whole`. Raises
        NotComparableError where the sides differ in what `allow_different` does not name.
        """
        self._refuse_scope("compare")
        from tracelab.compare import comparison, fetch, gates
        from tracelab.compare import noise as noise_floors
        from tracelab.compare.result import ComparisonResult

        stored = fetch.list_runs(self.store)

        def expand(patterns: str | Sequence[str], option: str) -> tuple[str, ...]:
            return execute.expand_runs(stored, [patterns] if isinstance(patterns, str) else patterns, option)

        request = comparison.Request(
            expand(base, "--base-runs"),
            expand(candidate, "--candidate-runs"),
            expand(noise_runs, "--noise-runs"),
            tuple(map(gates.parse_gate, [fail_on] if isinstance(fail_on, str) else fail_on)),
            noise_floors.ASSUMED_FLOOR if noise_floor is None else noise_floor,
            tuple(allow_different),
            step_name,
            whole,
        )
        compared = comparison.compare_runs(
            self.store, request, memory_limit=self.memory_limit, timeout_s=self.timeout_s
        )
        return ComparisonResult(compared, strict=strict)

    def doctor(self, run: str | None = None, *, verify: bool = False) -> Result:
        """Check the store, or one run of it: what may be wrong and what to do, the worst first.

        With `verify`, read every file instead, and compare it with the hash that ingest recorded.
        """
        self._refuse_scope("doctor")
        from tracelab import doctor

        if verify:
            return Result(doctor.verify(self.store, run)[0], "What may be wrong")
        deadline = execution.Deadline(self.timeout_s)
        findings = doctor.examine_store(self.store, run, memory_limit=self.memory_limit, deadline=deadline)
        return Result(findings, "What may be wrong")


def _check_run_names(*names: object) -> tuple[str, ...]:
    """Return names of runs, those in lists, too. Raises UsageError for what is none, such as the path of a file."""
    checked: list[str] = []
    for name in chain.from_iterable(each if isinstance(each, list | tuple) else [each] for each in names):
        if not isinstance(name, str):
            raise UsageError(
                f"{name!r} is no name of a run; name runs as text, and write a report by lab.report().save(PATH)"
            )
        checked.append(name)
    return tuple(checked)


def _check_scope_words(query: spec.Query, params: Mapping[str, spec.Value]) -> None:
    """Raise UsageError for a word of `scoped` among the parameters of a query that has no such parameter."""
    from tracelab.store.scope.request import Scope

    own = {name for each in query.params for name in (each.name, f"{each.name}_")}
    if words := {each.name for each in fields(Scope)} & params.keys() - own:
        given = ", ".join(f"{name}={params[name]!r}" for name in sorted(words))
        raise UsageError(
            f"{query.name} has no parameter {min(words)!r}; choose rows with lab.scoped({given}).query(...)"
        )


def _takes_scope(query: spec.Query, params: Mapping[str, spec.Value]) -> bool:
    """Return whether a query with these values reads rows that a scope may leave out."""
    from tracelab.store.scope.row_choice import has_place

    return has_place(execute.needed_tables(query, execute.bind(query, params)))
