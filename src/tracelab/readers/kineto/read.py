"""A whole Kineto or Chrome trace into a sink: pieces read in parallel, corrected at the end."""

import contextlib
import io
import threading
from collections.abc import Callable
from pathlib import Path

from tracelab.errors import SourceError
from tracelab.readers import decompress
from tracelab.readers.base import ReadResult
from tracelab.readers.kineto import chunker, copy_sizes, mapping, probe
from tracelab.readers.kineto.chunk_reader import PieceReader
from tracelab.readers.kineto.chunker import Trace
from tracelab.readers.kineto.connection import connection
from tracelab.readers.kineto.mapper import Mapper, Rows
from tracelab.readers.kineto.metadata import TraceSummary, build_result, described
from tracelab.readers.kineto.parser import FAILURES, parser
from tracelab.readers.kineto.probe import Assumed
from tracelab.readers.kineto.room import Room
from tracelab.readers.kineto.waiting import Waiting
from tracelab.store.writer import Correction, Sink

VERSION = "kineto-5"
_PACKED_TO = 16  # how much longer a packed trace gets, about


def read(path: Path, open_sink: Callable[[int], Sink], *, workers: int, progress: Callable[[int], None]) -> ReadResult:
    """Put the rows of a trace into a sink. Raises SourceError where there are no events in it."""
    assumed = probe.assumed(path)
    sink = open_sink(assumed.rank)
    trace, whole = Trace(), TraceSummary()
    with decompress.open_decompressed(path, trace.diagnostics, progress) as stream:
        try:
            _read_pieces(stream, trace, sink, whole, assumed, min(workers, _worth_threads(path)))
        except FAILURES as error:
            problem = str(error).splitlines()[0]
            raise SourceError(
                path, f"could not be parsed ({problem}); give more memory, or report this file"
            ) from error
    whole.diagnostics.merge(trace.diagnostics)
    if not whole.events and (trace.array_form or not trace.has_events):
        raise probe.no_events(path, whole.diagnostics)
    rank = probe.rank_of(path, trace.meta)
    for table, rows in described(trace, rank or 0).items():
        sink.put(table, rows)
    sink.close()
    _correct(sink, trace, whole, assumed, rank or 0)
    if whole.copies_without_size:
        copy_sizes.add_sizes_from_launches(sink, whole.diagnostics)
    return build_result(trace, whole, rank_known=rank is not None)


def _worth_threads(path: Path) -> int:
    """As many threads as the file has full pieces, by its size; one piece keeps its order, odd events behind."""
    size_bytes = path.stat().st_size * (_PACKED_TO if decompress.is_gzip(path) else 1)
    return max(1, round(size_bytes / chunker.CHUNK_BYTES))


def _read_pieces(
    stream: io.RawIOBase, trace: Trace, sink: Sink, whole: TraceSummary, assumed: Assumed, workers: int
) -> None:
    """Read the pieces on several threads; parser, DuckDB and Arrow let go of the interpreter while they work."""
    crew = _Crew(stream, trace, sink, whole)
    waiting = Waiting(workers)
    with contextlib.ExitStack() as stack:
        readers = []
        for _ in range(workers):
            con = stack.enter_context(connection())
            mapper = Mapper(con, assumed.gpu_pid)
            readers.append(PieceReader(con, stack.enter_context(parser()), waiting, mapper, base_ns=assumed.base_ns))
        threads = [threading.Thread(target=crew.work, args=(reader,), daemon=True) for reader in readers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if crew.failures:
        raise crew.failures[0]


class _Crew:
    """The threads that read one file: they share its pieces, and put their rows into one sink."""

    def __init__(self, stream: io.RawIOBase, trace: Trace, sink: Sink, whole: TraceSummary) -> None:
        self.failures: list[BaseException] = []
        self._sink, self._whole = sink, whole
        self._pieces = chunker.Pieces(stream, trace)
        self._taking, self._adding = threading.Lock(), threading.Lock()

    def work(self, reader: PieceReader) -> None:
        """Read pieces until there are none, then what still waits; a failure stops the others too."""
        room = Room()
        try:
            try:
                while (piece := self._next_piece(room)) is not None:
                    self._put(reader.read(piece))
            finally:
                reader.end()
            for rows in reader.rest():
                self._put(rows)
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread, and raised there
            self.failures.append(error)

    def _next_piece(self, room: Room) -> memoryview | None:
        with self._taking:
            return None if self.failures else self._pieces.next_in(room)

    def _put(self, rows: Rows) -> None:
        with self._adding:
            self._whole.add(rows)
        for table, part in rows.tables:
            self._sink.put(table, part)


def _correct(sink: Sink, trace: Trace, whole: TraceSummary, assumed: Assumed, rank: int) -> None:
    """Put right what the end of the file says otherwise than was assumed at its beginning."""
    shift_ns = probe.base_of(trace.meta) - assumed.base_ns
    only_pid = next(iter(whole.cpu_pids)) if len(whole.cpu_pids) == 1 else None
    new_rank = rank if rank != assumed.rank else None
    pids: dict[str, int | None] | None = None
    if only_pid != assumed.gpu_pid:
        pids = dict.fromkeys(mapping.GPU_TABLES, only_pid)
    if shift_ns or pids or new_rank is not None:
        sink.correct(Correction(shift_ns=shift_ns, rank=new_rank, gpu_pid=pids))
    if shift_ns:
        whole.shift(shift_ns)
