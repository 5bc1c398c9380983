"""Read a whole Kineto or Chrome trace: chunks in parallel, then corrections from the trailer."""

import contextlib
import io
import threading
from collections.abc import Callable
from pathlib import Path

from tracelab.errors import SourceError
from tracelab.readers import decompress
from tracelab.readers.base import ReadResult
from tracelab.readers.kineto import mapping, probe
from tracelab.readers.kineto.chunk_reader import ChunkReader, EventQueue
from tracelab.readers.kineto.chunker import CHUNK_BYTES, CLEAN, Border, Chunk, ChunkBuffer, Chunker, Trace, read_trailer
from tracelab.readers.kineto.late_events import place_late_events
from tracelab.readers.kineto.launch_ranges import add_range_collectives
from tracelab.readers.kineto.mapper import Mapper, Rows, borrow_connection
from tracelab.readers.kineto.metadata import TraceSummary, build_result, metadata_rows
from tracelab.readers.kineto.parser import borrow_parser, compiled_parser_problem
from tracelab.readers.kineto.parser.types import ParsedChunk, ParserError
from tracelab.readers.kineto.probe import Assumptions
from tracelab.store.writer import Correction, Sink

VERSION = "kineto-9"
_GZIP_RATIO = 16  # how many times larger a decompressed trace is, roughly


def read(path: Path, open_sink: Callable[[int], Sink], *, workers: int, progress: Callable[[int], None]) -> ReadResult:
    """Write the rows of a trace into a sink. Raises SourceError where the file has no events."""
    assumptions = probe.read_assumptions(path)
    sink = open_sink(assumptions.rank)
    trace, summary = Trace(), TraceSummary()
    if problem := compiled_parser_problem():
        summary.diagnostics.note("parsed_in_python", problem)
    with decompress.open_decompressed(path, trace.diagnostics, progress) as stream:
        try:
            threads = min(workers, _count_useful_threads(path))
            _read_chunks(stream, trace, sink, summary, assumptions, threads=threads, progress=progress)
        except ParserError as error:
            problem = str(error).splitlines()[0]
            raise SourceError(path, f"the parser failed ({problem}); free some memory, or report this file") from error
    summary.diagnostics.merge(trace.diagnostics)
    summary.events_skipped += trace.events_skipped
    if not summary.events and (trace.array_form or not trace.has_events):
        raise probe.no_events_error(path, trace, summary.diagnostics)
    rank = probe.find_rank(path, trace.meta)
    for table, rows in metadata_rows(trace, rank or 0).items():
        sink.put(table, rows)
    sink.close()
    if summary.late_kinds:
        place_late_events(sink, summary.late_kinds, summary.cpu_pids, summary.only_pid, summary.diagnostics)
    if summary.needs_ranges:
        add_range_collectives(sink, summary.only_pid)
    _correct(sink, trace, summary, assumptions, rank or 0)
    if summary.copies_without_size:
        from tracelab.readers.kineto.copy_sizes import add_sizes_from_launches

        add_sizes_from_launches(sink, summary.diagnostics)
    return build_result(trace, summary, rank_known=rank is not None)


def _count_useful_threads(path: Path) -> int:
    """Return how many full chunks the file has, by its size; a single chunk keeps its order, repaired events last."""
    size_bytes = path.stat().st_size * (_GZIP_RATIO if decompress.is_gzip(path) else 1)
    return max(1, round(size_bytes / CHUNK_BYTES))


def _read_chunks(
    stream: io.RawIOBase,
    trace: Trace,
    sink: Sink,
    summary: TraceSummary,
    assumptions: Assumptions,
    *,
    threads: int,
    progress: Callable[[int], None],
) -> None:
    """Read the chunks on several threads; parser, DuckDB and Arrow release the interpreter while they work."""
    pool = ReaderThreads(stream, trace, sink, summary)
    queue = EventQueue(threads)
    cut_groups = mapping.NO_GROUPS
    if assumptions.large_groups:
        from tracelab.readers.kineto.process_groups import render_groups

        cut_groups = render_groups(assumptions.large_groups)
    with contextlib.ExitStack() as stack:
        readers = []
        for _ in range(threads):
            connection = stack.enter_context(borrow_connection())
            mapper = Mapper(connection, assumptions.gpu_pid, cut_groups)
            chunk_parser = stack.enter_context(borrow_parser())
            readers.append(
                ChunkReader(
                    connection,
                    chunk_parser,
                    queue,
                    mapper,
                    base_ns=assumptions.base_ns,
                    check_stop=lambda: progress(0),
                )
            )
        pool.run(readers)


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

    def run(self, readers: list[ChunkReader]) -> None:
        """Read all chunks, one thread a reader; raise the first failure."""
        threads = [threading.Thread(target=self._work, args=(reader,), daemon=True) for reader in readers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _work(self, reader: ChunkReader) -> None:
        """Read chunks until there are none, then map the queued events; a failure stops the other threads, too."""
        buffer = ChunkBuffer()
        try:
            try:
                while (chunk := self._next_chunk(buffer)) is not None and self._read_chunk(reader, chunk):
                    pass
            finally:
                reader.finish()
            for rows in reader.drain():
                self._put(rows)
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread, and raised there
            self._failures.append(error)
            with self._turn_changed:
                self._turn_changed.notify_all()

    def _next_chunk(self, buffer: ChunkBuffer) -> Chunk | None:
        with self._chunker_lock:
            return None if self._failures else self._chunker.next_chunk(buffer)

    def _read_chunk(self, reader: ChunkReader, chunk: Chunk) -> bool:
        """Parse a chunk and write its rows; returns False where another thread has failed."""
        parsed = None
        if chunk.is_end_known and not chunk.has_stray_commas:
            parsed = reader.parse_chunk(chunk.events) if len(chunk.events) else ParsedChunk({}, [], [])
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


def _correct(sink: Sink, trace: Trace, summary: TraceSummary, assumptions: Assumptions, rank: int) -> None:
    """Apply trailer values that contradict the assumptions."""
    shift_ns = probe.find_base_ns(trace.meta) - assumptions.base_ns
    new_rank = rank if rank != assumptions.rank else None
    pids: dict[str, int | None] | None = None
    if summary.only_pid != assumptions.gpu_pid:
        pids = dict.fromkeys(mapping.GPU_TABLES, summary.only_pid)
    if shift_ns or pids or new_rank is not None:
        sink.correct(Correction(shift_ns=shift_ns, rank=new_rank, gpu_pid=pids))
    if shift_ns:
        summary.shift(shift_ns)
