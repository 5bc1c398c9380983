"""Read a whole Kineto or Chrome trace: chunks in parallel, then corrections from the trailer."""

import contextlib
import io
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from tracelab.errors import ReaderBugError, SourceError
from tracelab.readers import decompress
from tracelab.readers.base import ReadResult
from tracelab.readers.kineto import mapping, probe
from tracelab.readers.kineto.chunk_reader import (
    ChunkReader,
    EventQueue,
    QueueKey,
    borrow_parser,
    compiled_parser_problem,
)
from tracelab.readers.kineto.chunker import (
    CHUNK_BYTES,
    CLEAN,
    Border,
    Chunk,
    ChunkBuffer,
    Chunker,
    Trace,
    decode_end,
    read_trailer,
)
from tracelab.readers.kineto.late_events import place_late_events
from tracelab.readers.kineto.launch_ranges import add_range_collectives
from tracelab.readers.kineto.mapper import (
    Connection,
    Mapper,
    Rows,
    borrow_connection,
    label_events,
    label_group,
    split_labels,
)
from tracelab.readers.kineto.metadata import TraceSummary, build_result, metadata_rows
from tracelab.readers.kineto.parser.types import ParsedChunk, ParserError
from tracelab.readers.kineto.probe import Assumptions
from tracelab.store.writer import Correction, Sink, put_together

if TYPE_CHECKING:
    from tracelab.readers.kineto.process_groups import CutGroup

VERSION = "kineto-10"
_FILE_ERRORS = (SourceError, ReaderBugError, OSError, duckdb.Error, pa.ArrowException)
_COMPRESSION_RATIO = 16  # how many times larger a decompressed trace is, roughly


@dataclass
class _Reading:
    """A trace between its events and its end: what was assumed, what was found."""

    path: Path
    sink: Sink
    assumptions: Assumptions
    cut_groups: "dict[str, CutGroup]" = field(default_factory=dict)
    """Members of process groups, of which the events list only the first ranks."""
    trace: Trace = field(default_factory=Trace)
    summary: TraceSummary = field(default_factory=TraceSummary)

    @property
    def rank(self) -> int | None:
        """The rank in the file, else the one in its name."""
        return probe.find_rank(self.path, self.trace.meta)


def read(path: Path, open_sink: Callable[[int], Sink], *, workers: int, progress: Callable[[int], None]) -> ReadResult:
    """Write the rows of a trace into a sink. Raises SourceError where the file has no list of events."""
    reading = _start(path, open_sink)
    threads = min(workers, _count_useful_threads(path))
    _read_events(reading, EventQueue(threads), threads=threads, progress=progress)
    _complete(reading)
    _name_collectives([reading])
    return _correct(reading)


def read_many(
    files: Sequence[tuple[Path, Callable[[int], Sink]]], *, progress: Callable[[int], None]
) -> list[ReadResult | None]:
    """Read small traces, each into a sink of its own, and map the events of all together: planning costs per query.

    The result of a file is None where anything is wrong with it: `read` reports what.
    """
    readings: list[_Reading | None] = []
    queued: dict[QueueKey, list[tuple[_Reading, pa.Table]]] = {}
    for path, open_sink in files:
        queue = EventQueue(1, is_kept=True)
        reading: _Reading | None = None
        with contextlib.suppress(*_FILE_ERRORS):
            started = _start(path, open_sink)
            if all(group.ranks is None for group in started.cut_groups.values()):  # lists are long in a query
                _read_events(started, queue, threads=1, progress=progress)
                reading = started
        readings.append(reading)
        if reading is not None:
            for key, tables in queue.take_all():
                queued.setdefault(key, []).extend((reading, events) for events in tables)
    with borrow_connection() as connection:
        for (kind, _), queued_tables in queued.items():
            _map_together(connection, kind, queued_tables)
    return _finish_all(readings)


def _finish_all(readings: Sequence[_Reading | None]) -> list[ReadResult | None]:
    """Finish what was read; the result is None where there is nothing, or where something is wrong."""
    completed: list[_Reading] = []
    for reading in readings:
        with contextlib.suppress(*_FILE_ERRORS):
            if reading is not None:
                _complete(reading)
                completed.append(reading)
    results: dict[Path, ReadResult] = {}
    with contextlib.suppress(*_FILE_ERRORS):
        _name_collectives(completed)
        for reading in completed:
            with contextlib.suppress(*_FILE_ERRORS):
                results[reading.path] = _correct(reading)
    return [results.get(reading.path) if reading else None for reading in readings]


def _map_together(connection: Connection, kind: int, tables: Sequence[tuple[_Reading, pa.Table]]) -> None:
    """Map events of one kind from several files, and put each file's rows into its sink."""
    if kind == mapping.COUNTERS:
        for reading, events in tables:
            counters = Rows()
            Mapper(connection, reading.assumptions.gpu_pid).add_rows(kind, [events], counters)
            _put_rows(reading, counters)
        return
    cut_groups = {
        label_group(number, name): group
        for number, (reading, _) in enumerate(tables)
        for name, group in reading.cut_groups.items()
    }
    mapped = Rows()
    labeled = [
        label_events(events, number, reading.assumptions.gpu_pid) for number, (reading, events) in enumerate(tables)
    ]
    Mapper.of_many_files(connection, _render_groups(cut_groups)).add_rows(kind, labeled, mapped)
    for table, rows in mapped.tables:
        if not rows.num_rows:
            continue
        unlabeled, numbers, counts = split_labels(rows)
        readings = [tables[number][0] for number in numbers]
        parts = put_together(table, unlabeled, [reading.sink for reading in readings], counts)
        for reading, part in zip(readings, parts, strict=True):
            reading.summary.add(Rows(tables=[(table, part)]))


def _put_rows(reading: _Reading, rows: Rows) -> None:
    reading.summary.add(rows)
    for table, part in rows.tables:
        reading.sink.put(table, part)


def _start(path: Path, open_sink: Callable[[int], Sink]) -> _Reading:
    assumptions = probe.read_assumptions(path)
    reading = _Reading(path, open_sink(assumptions.rank), assumptions)
    if problem := compiled_parser_problem():
        reading.summary.diagnostics.note("parsed_in_python", problem)
    if assumptions.large_groups:
        from tracelab.readers.kineto.process_groups import describe_groups

        reading.cut_groups = describe_groups(assumptions.large_groups)
    return reading


def _render_groups(groups: "dict[str, CutGroup]") -> str:
    if not groups:
        return mapping.NO_GROUPS
    from tracelab.readers.kineto.process_groups import render_groups

    return render_groups(groups)


def _read_events(reading: _Reading, queue: EventQueue, *, threads: int, progress: Callable[[int], None]) -> None:
    """Read all events of a trace."""
    with decompress.open_decompressed(reading.path, reading.trace.diagnostics, progress) as stream:
        try:
            _read_chunks(stream, reading, queue, threads=threads, progress=progress)
        except ParserError as error:
            problem = str(error).splitlines()[0]
            message = f"the parser failed ({problem}); free some memory, or report this file"
            raise SourceError(reading.path, message) from error


def _complete(reading: _Reading) -> None:
    """Close the sink once it has what the head and the end of the trace add to its events."""
    sink, trace, summary = reading.sink, reading.trace, reading.summary
    summary.diagnostics.merge(trace.diagnostics)
    summary.events_skipped += trace.events_skipped
    if not summary.events and (trace.array_form or not trace.has_events):
        raise probe.no_events_error(reading.path, trace, summary.diagnostics)
    for table, rows in metadata_rows(trace, reading.rank or 0).items():
        sink.put(table, rows)
    sink.close()
    if summary.late_kinds:
        place_late_events(sink, summary.late_kinds, summary.cpu_pids, summary.only_pid, summary.diagnostics)


def _name_collectives(readings: Sequence[_Reading]) -> None:
    named = [(each.sink, each.summary.only_pid) for each in readings if each.summary.needs_ranges]
    if named:
        add_range_collectives(named)


def _correct(reading: _Reading) -> ReadResult:
    """Apply trailer values that contradict the assumptions, and describe the trace."""
    sink, trace, summary, assumptions = reading.sink, reading.trace, reading.summary, reading.assumptions
    rank = reading.rank
    shift_ns = probe.find_base_ns(trace.meta) - assumptions.base_ns
    new_rank = (rank or 0) if (rank or 0) != assumptions.rank else None
    pids: dict[str, int | None] | None = None
    if summary.only_pid != assumptions.gpu_pid:
        pids = dict.fromkeys(mapping.GPU_TABLES, summary.only_pid)
    if shift_ns or pids or new_rank is not None:
        sink.correct(Correction(shift_ns=shift_ns, rank=new_rank, gpu_pid=pids))
    if shift_ns:
        summary.shift(shift_ns)
    if summary.copies_without_size:
        from tracelab.readers.kineto.copy_sizes import add_sizes_from_launches

        add_sizes_from_launches(sink, summary.diagnostics)
    return build_result(trace, summary, rank_known=rank is not None)


def _count_useful_threads(path: Path) -> int:
    """Return how many full chunks the file has, by its size; a single chunk keeps its order, repaired events last."""
    size_bytes = path.stat().st_size * (_COMPRESSION_RATIO if decompress.is_compressed(path) else 1)
    return max(1, round(size_bytes / CHUNK_BYTES))


def _read_chunks(
    stream: io.RawIOBase, reading: _Reading, queue: EventQueue, *, threads: int, progress: Callable[[int], None]
) -> None:
    """Read the chunks on several threads; parser, DuckDB and Arrow release the interpreter while they work."""
    assumptions = reading.assumptions
    pool = ReaderThreads(stream, reading.trace, reading.sink, reading.summary)
    cut_groups = _render_groups(reading.cut_groups)

    def make_readers() -> Iterator[ChunkReader]:
        missing = threads
        try:
            while missing:
                connection = stack.enter_context(borrow_connection())
                mapper = Mapper(connection, assumptions.gpu_pid, cut_groups)
                chunk_parser = stack.enter_context(borrow_parser())
                reader = ChunkReader(
                    connection,
                    chunk_parser,
                    queue,
                    mapper,
                    base_ns=assumptions.base_ns,
                    check_stop=lambda: progress(0),
                )
                missing -= 1
                yield reader
        finally:
            for _ in range(missing):  # the others do not wait for those that could not be made
                queue.finish_reader()

    with contextlib.ExitStack() as stack:
        pool.run(make_readers())


def _parse_chunk(reader: ChunkReader, chunk: Chunk) -> ParsedChunk | None:
    """Parse a chunk; None where it is damaged."""
    if not chunk.is_end_known or chunk.has_stray_commas:
        return None
    return reader.parse_chunk(chunk.events) if len(chunk.events) else ParsedChunk({}, [], [])


class ReaderThreads:
    """The threads that read one file: they share its chunks, and write their rows into one sink.

    All parse at the same time. But where a chunk begins is certain only once the one before has been parsed, and found
    to end with an event: from then on, one chunk after the other has its turn.
    """

    def __init__(self, stream: io.RawIOBase, trace: Trace, sink: Sink, summary: TraceSummary) -> None:
        self._failures: list[BaseException] = []
        self._sink, self._summary, self._trace = sink, summary, trace
        self._chunker = Chunker(stream, trace)
        self._chunker_lock, self._summary_lock = threading.Lock(), threading.Lock()
        self._turn, self._turn_changed, self._border = 0, threading.Condition(), CLEAN

    def run(self, readers: Iterable[ChunkReader]) -> None:
        """Read all chunks, one thread a reader, which starts as soon as that is made; raise the first failure."""
        threads: list[threading.Thread] = []
        try:
            for reader in readers:
                threads.append(threading.Thread(target=self._work, args=(reader,), daemon=True))
                threads[-1].start()
        except BaseException as error:  # noqa: BLE001 - raised below, once the threads have stopped
            self._stop(error)
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _work(self, reader: ChunkReader) -> None:
        """Read chunks until there are none, then map the queued events; a failure stops the other threads, too."""
        buffer = ChunkBuffer(reader.reserve_text)
        try:
            try:
                while (chunk := self._next_chunk(buffer)) is not None and self._read_chunk(reader, chunk):
                    pass
            finally:
                reader.finish()
            for rows in reader.drain():
                self._put(rows)
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread, and raised there
            self._stop(error)

    def _stop(self, error: BaseException) -> None:
        self._failures.append(error)
        with self._turn_changed:
            self._turn_changed.notify_all()

    def _next_chunk(self, buffer: ChunkBuffer) -> Chunk | None:
        with self._chunker_lock:
            return None if self._failures else self._chunker.next_chunk(buffer)

    def _read_chunk(self, reader: ChunkReader, chunk: Chunk) -> bool:
        """Parse a chunk and write its rows; returns False where another thread has failed."""
        parsed = _parse_chunk(reader, chunk)
        if chunk.is_end_guessed and (parsed is None or parsed.irregular):  # these may be damaged
            chunk = decode_end(chunk, array_form=self._trace.array_form)
            parsed = _parse_chunk(reader, chunk)
        border = self._await_turn(chunk)
        if border is None:
            return False
        rows = Rows()
        if parsed is None or border != CLEAN:
            parsed = None
            rows, border = reader.recover(border, chunk, self._trace)
        elif chunk.is_last:
            read_trailer(bytes(chunk.data[chunk.events_end :]), self._trace)
        with self._turn_changed:
            self._turn, self._border = self._turn + 1, border
            self._turn_changed.notify_all()
        if parsed is not None:
            reader.add_parsed(parsed, rows)
        self._put(rows)
        return True

    def _await_turn(self, chunk: Chunk) -> Border | None:
        """Return what the end of the chunk before means for this one; None where another thread has failed."""
        with self._turn_changed:
            self._turn_changed.wait_for(lambda: self._turn == chunk.number or self._failures)
            return None if self._failures else self._border

    def _put(self, rows: Rows) -> None:
        with self._summary_lock:
            self._summary.add(rows)
        for table, part in rows.tables:
            self._sink.put(table, part)
