"""Turn chunks of a trace into rows: parse, queue the events by kind, map each kind in large batches.

The parser, in C where WebAssembly can run, takes a healthy chunk whole. `recovery` reads chunks that are damaged, and
`repair` rewrites single irregular events; from there on all events take the same path.
"""

import atexit
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from tracelab.readers.diagnostics import describe_value
from tracelab.readers.kineto.chunker import Border, Chunk, Trace
from tracelab.readers.kineto.damage_text import describe_damage
from tracelab.readers.kineto.mapper import Connection, Mapper, Rows, classify_shapes
from tracelab.readers.kineto.parser.types import ParsedChunk, Parser, ParserError, RefusedChunkError, Shape

if TYPE_CHECKING:
    from tracelab.readers.kineto.parser.compiled_parser import CompiledParser

_ID_COLUMNS = ("pid", "tid")

_MAX_KIND_BYTES = 16 << 20
"""How much memory queued events of one key may hold before they are mapped."""

_MAX_QUEUED_BYTES = 3 * _MAX_KIND_BYTES

_MIN_BATCH_EVENTS = 20_000
"""Mapping so many events takes longer than planning their query."""

QueueKey = tuple[int, tuple[str, ...]]
"""Events are mapped together when they share this: their kind, and the column types of their ids."""

Batch = tuple[int, list[pa.Table]]
"""A kind, and events of that kind."""

_MAX_KEPT_PARSER_BYTES = 32 << 20

_idle_parsers: "deque[CompiledParser]" = deque()
atexit.register(_idle_parsers.clear)  # wasmtime cannot free them once its modules are torn down


@contextlib.contextmanager
def borrow_parser() -> Iterator[Parser]:
    """Lend a parser while a file is read; the next file gets it again unless its memory has become large."""
    if compiled_parser_problem():
        from tracelab.readers.kineto.parser.python_parser import PythonParser

        yield PythonParser()
        return
    try:
        parser = _idle_parsers.pop()
    except IndexError:
        parser = _make_compiled_parser()
    yield parser
    if parser.memory_bytes() <= _MAX_KEPT_PARSER_BYTES:
        _idle_parsers.append(parser)


@cache
def compiled_parser_problem() -> str | None:
    """Return why the compiled parser cannot run in this environment; None where it can."""
    try:
        _idle_parsers.append(_make_compiled_parser())
    except (ImportError, OSError, RuntimeError, ParserError) as error:  # all are raised where wasmtime cannot be loaded
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return None


def _make_compiled_parser() -> "CompiledParser":
    from tracelab.readers.kineto.parser.compiled_parser import CompiledParser

    return CompiledParser()


class ChunkReader:
    """Reads chunks of one file, one after another; each thread has a reader of its own."""

    def __init__(
        self,
        connection: Connection,
        parser: Parser,
        queue: "EventQueue",
        mapper: Mapper,
        *,
        base_ns: int,
        check_stop: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._parser = parser
        self._queue = queue
        self._mapper = mapper
        self._base_ns = base_ns
        self._check_stop = check_stop

    def reserve_text(self, size: int) -> memoryview | None:
        """Return memory of the parser to read chunks into; None where it has none for them."""
        return self._parser.reserve_text(size)

    def parse_chunk(self, events: memoryview) -> ParsedChunk | None:
        """Parse events that are undamaged; None where they are not."""
        try:
            return self._parser.parse_chunk(events, self._classify, base_ns=self._base_ns)
        except RefusedChunkError:
            return None

    def add_parsed(self, parsed: ParsedChunk, rows: Rows) -> None:
        """Queue parsed events; add the rows of every kind that now has enough events queued."""
        self._add(parsed, rows)
        if parsed.irregular:
            from tracelab.readers.kineto.repair import EventRepair

            lines, skipped = EventRepair(self._base_ns, rows.diagnostics).rewrite_all(parsed.irregular)
            rows.events_skipped += skipped
            self.add_lines(lines, rows)

    def add_events(self, events: memoryview, rows: Rows) -> bool:
        """Parse and queue undamaged events; returns whether they are."""
        parsed = self.parse_chunk(events)
        if parsed is not None:
            self.add_parsed(parsed, rows)
        return parsed is not None

    def add_lines(self, lines: list[bytes], rows: Rows) -> None:
        """Parse and queue events that `repair` has written as JSON lines."""
        for parsed in self._parser.parse_repaired(lines, self._classify):
            self._add(parsed, rows)
            for event in parsed.irregular:
                rows.events_skipped += 1
                rows.diagnostics.note("event_lost", describe_damage(event))

    def recover(self, border: Border, chunk: Chunk, trace: Trace) -> tuple[Rows, Border]:
        """Return the rows of a damaged chunk, and what its end means for the next chunk."""
        from tracelab.readers.kineto import recovery

        chunk = replace(chunk, data=memoryview(bytes(chunk.data)))  # its memory gets the events that are repaired
        return recovery.recover(border, chunk, trace, self, self._base_ns, self._check_stop)

    def finish(self) -> None:
        """Announce that this reader gets no more chunks."""
        self._queue.finish_reader()

    def drain(self) -> Iterator[Rows]:
        """Yield the rows of queued events; the readers that drain share them."""
        while not self._queue.is_kept and (batch := self._queue.take()):
            rows = Rows()
            self._mapper.add_rows(*batch, rows)
            yield rows

    def _add(self, parsed: ParsedChunk, rows: Rows) -> None:
        """Queue events; map the batch that the queue hands out, if any."""
        for unfit in parsed.unfit:
            rows.diagnostics.note(
                "value_unfit", f"{unfit.table}, {unfit.key!r}: {describe_value(unfit.first)}", unfit.count
            )
        for kind, events in parsed.tables.items():
            rows.events_kept += len(events)
            batch = self._queue.add((kind, _id_types(events)), events)
            if batch:
                self._mapper.add_rows(*batch, rows)

    def _classify(self, shapes: Sequence[Shape]) -> list[int]:
        return classify_shapes(shapes, self._connection)


def _id_types(events: pa.Table) -> tuple[str, ...]:
    return tuple(str(events.schema.field(column).type) for column in _ID_COLUMNS if column in events.column_names)


@dataclass
class _QueuedEvents:
    """Queued events of one key."""

    tables: list[pa.Table] = field(default_factory=list)
    events: int = 0
    kept_bytes: int = 0

    def add(self, table: pa.Table) -> None:
        self.tables.append(table)
        self.events += len(table)
        self.kept_bytes += table.get_total_buffer_size()


class EventQueue:
    """Queues parsed events of all threads of a file, so that each mapping query runs on a large batch.

    Planning a query costs DuckDB the same for any number of rows.
    """

    def __init__(self, readers: int, *, is_kept: bool = False) -> None:
        """Make a queue for some readers; `is_kept` leaves the events to `take_all`."""
        self.is_kept = is_kept
        self._queued: dict[QueueKey, _QueuedEvents] = {}
        self._readers = readers
        self._changed = threading.Condition()

    def add(self, key: QueueKey, events: pa.Table) -> Batch | None:
        """Queue events; return the heaviest batch where one key, or all together, hold too much memory."""
        with self._changed:
            self._queued.setdefault(key, _QueuedEvents()).add(events)
            self._changed.notify()
            heaviest = max(self._queued, key=lambda key: self._queued[key].kept_bytes)
            all_bytes = sum(queued.kept_bytes for queued in self._queued.values())
            if self._queued[heaviest].kept_bytes >= _MAX_KIND_BYTES or all_bytes >= _MAX_QUEUED_BYTES:
                return self._pop(heaviest)
        return None

    def finish_reader(self) -> None:
        """Count one reader less: it has read its last chunk."""
        with self._changed:
            self._readers -= 1
            self._changed.notify_all()

    def take(self) -> Batch | None:
        """Return the largest batch; None when all readers have finished and the queue is empty.

        While a reader still reads, small batches wait to grow.
        """
        with self._changed:
            while self._queued or self._readers:
                largest = max(self._queued, key=lambda key: self._queued[key].events, default=None)
                if largest and (not self._readers or self._queued[largest].events >= _MIN_BATCH_EVENTS):
                    return self._pop(largest)
                self._changed.wait()
        return None

    def take_all(self) -> Iterator[tuple[QueueKey, list[pa.Table]]]:
        """Yield everything that is queued, by key."""
        for key in list(self._queued):
            yield key, self._pop(key)[1]

    def _pop(self, key: QueueKey) -> Batch:
        return key[0], self._queued.pop(key).tables
