"""Fetch what is compared of some runs with SQL: steps, GPU rows, ops, memory, and the facts of each recording."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from tracelab.errors import NoDataError
from tracelab.query import execute, library
from tracelab.resources import QUERIES
from tracelab.store import execution, integrity, session
from tracelab.store.scope import start_up
from tracelab.store.scope.program_start import AFTER_START, REFERENCED, find_program_starts, lengths_before_steps

_FOLDER = QUERIES / "compare"
_LIBRARY = ("gpu_breakdown", "memory_peak")
_MEMORY_PEAKS = """\
select run, max(allocated_bytes) as peak_bytes, max(device is not null) as has_device
from memory_peaks
group by run"""

_FAILED_RUNS = "select run, any_value(status) as status from runs where status <> 'ok' group by run"
_KERNEL_CLASSES = "select distinct class from kernel_rules union select 'unclassified'"


@dataclass(frozen=True)
class Answers:
    """The rows of all runs, from the queries of the library and from queries/compare."""

    steps: pl.DataFrame
    windows: pl.DataFrame
    gpu_breakdown: pl.DataFrame
    gpu_rows: pl.DataFrame
    gpu_windows: pl.DataFrame
    cpu_exposed: pl.DataFrame
    host_ops: pl.DataFrame
    recorded_steps: pl.DataFrame
    memory: pl.DataFrame
    memory_peaks: pl.DataFrame


class Source:
    """A session with the rows of the compared runs, and how to run its statements."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        step_name: str | None = None,
        timeout_s: float | None = None,
        starts_ns: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.starts_ns = starts_ns
        """How long the program starts are that are left out, by run."""
        self._con = con
        self._deadline = execution.Deadline(timeout_s)
        self._step_name = step_name if step_name is not None else library.default_step_name()

    def facts(self) -> dict[str, dict[str, Any]]:
        """Fetch what decides whether runs can be compared, by run."""
        return {str(row["run"]): row for row in self._own("facts").to_dicts()}

    def failed_runs(self) -> dict[str, str]:
        """Fetch the status of each run that did not end well."""
        rows = self._run(lambda: execution.fetch_table(self._con, _FAILED_RUNS))
        return dict(rows.rows())

    def op_shapes(self) -> pl.DataFrame:
        """Fetch how often each op of a run has inputs of each shape."""
        return self._own("op_shapes")

    def product_precisions(self) -> pl.DataFrame:
        """Fetch how long matrix products and convolutions of a run multiply in each precision, by kernel names."""
        return self._own("product_precisions")

    def recording_costs(self) -> pl.DataFrame:
        """Fetch how long steps of a run take while a profiler records, and otherwise, where its folder has both."""
        return self._own("recording_costs")

    def kernel_classes(self) -> frozenset[str]:
        """Fetch the classes that a kernel may have, by the rules of the store."""
        classes = self._run(lambda: execution.fetch_table(self._con, _KERNEL_CLASSES))
        return frozenset(classes["class"])

    def answers(self) -> Answers:
        """Fetch everything that is compared."""
        return Answers(
            steps=self._own("steps"),
            windows=self._own("windows"),
            gpu_breakdown=self._library("gpu_breakdown"),
            gpu_rows=self._own("gpu_rows"),
            gpu_windows=self._own("gpu_windows"),
            cpu_exposed=self._own("cpu_exposed"),
            host_ops=self._own("host_ops"),
            recorded_steps=self._own("recorded_steps"),
            memory=self._library("memory_peak"),
            memory_peaks=self._run(lambda: execution.fetch_table(self._con, _MEMORY_PEAKS)),
        )

    def start_ups(self, runs: Sequence[str]) -> dict[str, start_up.StartUp]:
        """Fetch how the recordings of runs without steps begin, where that takes a tenth of them or more."""
        with execution.translate_errors():
            return start_up.find_start_ups(self._con, runs)

    def launches(self, run: str, rank: int, device: int | None, step_id: int) -> pl.DataFrame:
        """Fetch the kernels of one step of a rank and device in the order of their starts."""
        return self._own("launches", run=run, rank=rank, device=device, step_id=step_id)

    def _own(self, name: str, **params: object) -> pl.DataFrame:
        text = _own_sql(name)
        values = {"step_name": self._step_name, **params}
        bound = {key: value for key, value in values.items() if f"${key}" in text}
        return self._run(lambda: execution.fetch_table(self._con, text, bound))

    def _library(self, name: str) -> pl.DataFrame:
        query = library.find(name)

        def run() -> pa.Table:
            try:
                return execute.run(self._con, query, {})
            except NoDataError:  # nothing of this kind is recorded
                return pa.table({column: pa.nulls(0) for column in query.columns})

        return self._run(run)

    def _run(self, work: Callable[[], pa.Table]) -> pl.DataFrame:
        with execution.translate_errors():
            return pl.DataFrame(execution.run_interruptible(self._con, work, self._deadline))


@contextmanager
def open_source(
    store: Path,
    runs: Sequence[str],
    *,
    step_name: str | None = None,
    whole: bool = False,
    memory_limit: str | None = None,
    timeout_s: float | None = None,
) -> Iterator[Source]:
    """Open a store with the rows of these runs only, without the starts of programs unless `whole`."""
    texts = [_own_sql(path.stem) for path in sorted(_FOLDER.glob("*.sql"))]
    texts += [execute.referenced_sql(library.find(name)) for name in _LIBRARY]
    referenced = "\n".join([*texts, _MEMORY_PEAKS, _KERNEL_CLASSES, _FAILED_RUNS, REFERENCED, start_up.REFERENCED])
    with ExitStack() as opened:
        con = opened.enter_context(session.connect(store, referenced=referenced, runs=runs))
        if step_name is not None:
            execute.check_pattern(con, "step-name", step_name)
        names = step_name if step_name is not None else library.default_step_name()
        starts_ns = {} if whole else lengths_before_steps(find_program_starts(con, names, runs))
        if starts_ns:
            from tracelab.store.scope.row_choice import select_rows

            con.close()
            started = list(starts_ns)
            mask = select_rows(
                store, AFTER_START, step_name=names, referenced=referenced, runs=started, memory_limit=memory_limit
            )
            con = opened.enter_context(session.connect(store, referenced=referenced, runs=runs, mask=mask))
        con.execute("set enable_progress_bar = false").fetchall()
        execution.limit_memory(con, memory_limit)
        with integrity.explain_read_errors(store):
            yield Source(con, step_name, timeout_s, starts_ns)


def list_runs(store: Path) -> list[str]:
    """Return the names of all runs of a store."""
    with session.connect(store, referenced="sources") as con, integrity.explain_read_errors(store):
        return execute.stored_runs(con)


@cache
def _own_sql(name: str) -> str:
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")
