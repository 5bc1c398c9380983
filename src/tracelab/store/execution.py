"""Run the statements of a session: Ctrl-C and a time limit stop them, and large answers stream."""

import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TypeVar

import duckdb
import pyarrow as pa

from tracelab.errors import TracelabError, UsageError

BATCH_ROWS = 10_240
"""Rows of a batch: five vectors of DuckDB, and a few MB where a row has some hundred bytes."""

_INTERRUPT_AGAIN_S = 0.05
_REUSED_MEMORY = "2GB"
"""Address space of a session for freed blocks that it uses again; what needs more is allocated as ever."""
_MEMORY_LIMIT = re.compile(r"\s*\d+(\.\d+)?\s*([KMGT]i?B)\s*", re.IGNORECASE)
_MESSAGE_KIND = re.compile(r"(?P<kind>[\w ]+) Error: ")

# For `fetch_table`, where that copy costs less than to bind the statement again.
warnings.filterwarnings("ignore", message="Arrow output on a DB-API result", category=UserWarning)

NEEDLESS_PASSES = "projection_pullup"
"""DuckDB 2.0 takes a fifth of the time to plan a query for this pass, which gains these queries nothing."""
_PASSES_FOR_MANY_ROWS = "join_order,statistics_propagation"
"""An eighth of the time of a query of the library on few rows. Its joins are in a good order as they are written."""
_FEW_ROWS = "few_rows"
"""A macro, not a variable, since cursors of a session have its macros."""

_Answer = TypeVar("_Answer")
_thread = threading.local()
"""Of a thread of `run_interruptible` the event that stops it."""


LONGEST_TIMEOUT_S = 31_536_000
"""Longest time limit: a year, which the clocks of all platforms can wait for."""


class TimeLimitError(TracelabError):
    """A statement ran longer than its time limit."""


def check_timeout(timeout_s: float | None) -> None:
    """Check a time limit; None is no limit. Raises UsageError for a wrong one."""
    if timeout_s is None:
        return
    is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if not is_number or not 0 < timeout_s <= LONGEST_TIMEOUT_S:
        raise UsageError(
            f"{timeout_s!r} is not a time limit; write a number of seconds above 0, of at most {LONGEST_TIMEOUT_S:,}"
        )


class Deadline:
    """The time limit of one statement, which starts now; None for no limit."""

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = limit_s
        self._end_s = None if limit_s is None else time.monotonic() + limit_s

    @property
    def remaining_s(self) -> float | None:
        """Return the seconds that remain, at least 0; None for no limit."""
        return None if self._end_s is None else max(0.0, self._end_s - time.monotonic())


def run_interruptible(
    con: duckdb.DuckDBPyConnection, work: Callable[[], _Answer], deadline: Deadline | None = None
) -> _Answer:
    """Run `work` on a thread so that Ctrl-C stops it: DuckDB 2.0.0 by itself notices the signal only sometimes.

    Raises TimeLimitError at the deadline.
    """
    result: Future[_Answer] = Future()
    gate, stop, is_running = threading.Lock(), threading.Event(), threading.Event()

    def run() -> None:
        with gate:
            if stop.is_set():
                return
            is_running.set()
        _thread.stop = stop
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            result.set_exception(error)

    def cancel() -> None:
        with gate:  # Ctrl-C comes at any instruction, also while the thread starts: then it does not begin
            stop.set()
        if is_running.is_set():
            _interrupt(con, result)

    try:
        threading.Thread(target=run, daemon=True).start()  # an interrupted start must not keep the process
        return result.result(None if deadline is None else deadline.remaining_s)
    except TimeoutError as error:
        if result.done() or deadline is None:  # the error of the work itself
            raise
        cancel()
        raise TimeLimitError(
            f"stopped at the time limit of {deadline.limit_s:g} s; raise it (--timeout), or select less"
        ) from error
    except BaseException:
        cancel()
        raise


def check_interrupted() -> None:
    """Raise if the work of this thread is to stop: for work in Python, which DuckDB does not interrupt."""
    stop: threading.Event | None = getattr(_thread, "stop", None)
    if stop is not None and stop.is_set():
        raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")


def _interrupt(con: duckdb.DuckDBPyConnection, work: "Future[_Answer]") -> None:
    """Interrupt the work until it has ended; DuckDB forgets an interrupt that comes before a statement starts."""
    while not work.done():
        with suppress(Exception, KeyboardInterrupt):  # of the work, which is abandoned; Ctrl-C again changes nothing
            con.interrupt()
            work.exception(_INTERRUPT_AGAIN_S)


def plan_for_few_rows(con: duckdb.DuckDBPyConnection) -> None:
    """Mark the session as one of few rows, and leave out passes of DuckDB that only many rows need."""
    con.execute(f"create macro {_FEW_ROWS}() as true")
    con.execute(f"set disabled_optimizers = '{NEEDLESS_PASSES},{_PASSES_FOR_MANY_ROWS}'")


def plan_for_any_rows(con: duckdb.DuckDBPyConnection) -> None:
    """Undo `plan_for_few_rows`: SQL of users may join in any order, and answer more rows than the store has."""
    con.execute(f"drop macro if exists {_FEW_ROWS}")
    con.execute(f"set disabled_optimizers = '{NEEDLESS_PASSES}'")


def has_few_rows(con: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the session is marked as one of few rows."""
    try:
        return bool(con.execute(f"select {_FEW_ROWS}()").fetchall())
    except duckdb.CatalogException:
        return False


class Answer:
    """The rows of a reader, which DuckDB may compute as they are read; errors are DuckDB's, also late ones.

    An answer that is not read to its end must be closed before the next statement of its session.
    """

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        """Wait for the first row."""
        self._reader = reader
        self.schema: pa.Schema = self._reader.schema
        try:
            self._first = self._read_batch()
        except BaseException:
            self.close()
            raise

    @property
    def is_empty(self) -> bool:
        """Return whether there is no row."""
        return self._first is None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows once, in batches that have some."""
        batch = self._first
        while batch is not None:
            yield batch
            batch = self._read_batch()

    def read_all(self) -> pa.Table:
        """Return the rows as one table, and close."""
        with closing(self):
            return pa.Table.from_batches(self.batches(), self.schema)

    def close(self) -> None:
        """Discard the rows that were not read."""
        self._reader.close()

    def _read_batch(self) -> pa.RecordBatch | None:
        """Return the next batch with rows. Arrow reports an error of DuckDB as an OSError with its text."""
        try:
            while (batch := next(self._reader, None)) is not None and not batch.num_rows:
                pass
        except (OSError, pa.ArrowException) as error:
            raise _duckdb_error(str(error)) from error
        return batch


def start_relation(relation: duckdb.DuckDBPyRelation) -> Answer:
    """Start a relation: DuckDB computes its rows as they are read."""
    return Answer(relation.to_arrow_reader(BATCH_ROWS))


def fetch_table(con: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, object] | None = None) -> pa.Table:
    """Run one statement and return all rows; they are in memory twice for a moment.

    DuckDB binds it once. A relation is bound when it is made and again when it runs, and binding is a third of the time
    that a query on few rows takes.
    """
    rows = con.execute(sql, dict(values or {})).to_arrow_table()
    assert rows is not None  # noqa: S101 - a query always has a result; the stub also covers statements
    return rows


@contextmanager
def stream(
    con: duckdb.DuckDBPyConnection, start: Callable[[], Answer], timeout_s: float | None = None
) -> Iterator[pa.RecordBatchReader]:
    """Yield a reader of the answer that `start` returns; Ctrl-C and a time limit stop it at any time.

    Raises, as `translate_errors` does, here or while the rows are read.
    """
    deadline = Deadline(timeout_s)
    answers: list[Answer] = []  # closed also where Ctrl-C comes after the start

    def open_answer() -> None:
        answers.append(start())

    def batches(answer: Answer) -> Iterator[pa.RecordBatch]:
        rest = answer.batches()
        while True:
            with translate_errors():
                batch = run_interruptible(con, partial(next, rest, None), deadline)
            if batch is None:
                return
            yield batch

    try:
        with translate_errors():
            run_interruptible(con, open_answer, deadline)
        yield pa.RecordBatchReader.from_batches(answers[0].schema, batches(answers[0]))
    finally:
        for answer in answers:
            answer.close()


def _duckdb_error(message: str) -> duckdb.Error:
    """Return the exception that DuckDB raises for a message: `Conversion Error: …` is a ConversionException."""
    kind = _MESSAGE_KIND.match(message)
    name = kind["kind"].replace(" ", "").lower() + "exception" if kind else ""
    classes = {each.lower(): getattr(duckdb, each) for each in dir(duckdb) if each.endswith("Exception")}
    error: duckdb.Error = classes.get(name, duckdb.Error)(message)
    return error


def limit_memory(con: duckdb.DuckDBPyConnection, size: str | None) -> None:
    """Set how much memory DuckDB may use, such as 2GB; None keeps its default. Raises UsageError for a wrong size."""
    check_memory_limit(size)
    if size is not None:
        with translate_errors():
            con.execute("set memory_limit = ?", [size.strip()]).fetchall()


def reuse_memory(con: duckdb.DuckDBPyConnection) -> None:
    """Keep the blocks that queries free for the next ones of a session that soon ends.

    To return their pages to the system and take them again is a tenth of the CPU time of a report on millions of rows.
    """
    with suppress(duckdb.Error):  # a system with less memory
        con.execute("set global block_allocator_memory = ?", [_REUSED_MEMORY]).fetchall()


def check_memory_limit(size: str | None) -> None:
    """Raise UsageError for a wrong size, without the time that it takes to open a session."""
    if size is not None and not _MEMORY_LIMIT.fullmatch(size):
        raise UsageError(f"{size!r} is not a size of memory; write a number and a unit, such as 500MB or 2GB")


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate DuckDB errors: UsageError for a statement that does not bind, TracelabError for one that fails."""
    try:
        yield
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        raise UsageError(_strip_install_hints(error)) from error
    except duckdb.PermissionException as error:
        raise UsageError(f"the sandbox reads only the store: {_first_line(error)}") from error
    except duckdb.OutOfMemoryException as error:
        raise TracelabError(f"{_first_line(error)}; raise the limit (--memory-limit), or select less") from error
    except duckdb.Error as error:
        raise TracelabError(_strip_install_hints(error)) from error


def _strip_install_hints(error: Exception) -> str:
    """Return DuckDB's message without its advice to install extensions, which the sandbox refuses."""
    message, *advice = re.split(
        r"\s*^(?:Please try installing|Alternatively, consider)", str(error), flags=re.MULTILINE
    )
    return f"{message.strip()} The sandbox loads no extensions." if advice else message.strip()


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
