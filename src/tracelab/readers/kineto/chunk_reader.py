"""Pieces of a trace to canonical tables: parsed into events, told apart by kind, mapped some pieces at a time.

A healthy piece is parsed at once (`parser`). What is no clean JSON, and single events that are odd, are first made so,
event by event, by `clean`. From there on there is one way.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tracelab.readers.kineto import repair
from tracelab.readers.kineto.connection import Connection
from tracelab.readers.kineto.kinds import kinds_of
from tracelab.readers.kineto.mapper import Mapper, Rows
from tracelab.readers.kineto.parser import NotHealthyError, Parsed, Parser, Shape
from tracelab.readers.kineto.waiting import Waiting

_IDS = ("pid", "tid")


class PieceReader:
    """Reads pieces of one file, one after another; one reader a thread."""

    def __init__(
        self, connection: Connection, parser: Parser, waiting: Waiting, mapper: Mapper, *, base_ns: int
    ) -> None:
        self._con = connection
        self._parser = parser
        self._waiting = waiting
        self._mapper = mapper
        self._base_ns = base_ns

    def read(self, piece: memoryview) -> Rows:
        """Parse a piece, damaged or not; gives the rows of what kinds enough events wait of."""
        rows = Rows()
        try:
            parsed = self._parser.events(piece, self._kinds_of, base_ns=self._base_ns)
        except NotHealthyError:
            self._add_mended(*repair.events(bytes(piece), self._base_ns, rows.diagnostics), rows)
        else:
            self._add(parsed, rows)
            self._add_mended(*repair.whole_events(parsed.odd, self._base_ns, rows.diagnostics), rows)
        return rows

    def end(self) -> None:
        """Say that there are no more pieces."""
        self._waiting.reader_ended()

    def rest(self) -> Iterator[Rows]:
        """The rows of the events that still wait, shared among the threads that ask."""
        while taken := self._waiting.take():
            rows = Rows()
            self._mapper.add_rows(*taken, rows)
            yield rows

    def _add_mended(self, lines: list[bytes], skipped: int, rows: Rows) -> None:
        rows.events_skipped += skipped
        for parsed in self._parser.mended_events(lines, self._kinds_of):
            self._add(parsed, rows)
            for event in parsed.odd:
                rows.events_skipped += 1
                rows.diagnostics.note("event_lost", event)

    def _add(self, parsed: Parsed, rows: Rows) -> None:
        """Let events wait; those of a kind that enough now wait of are mapped."""
        for unfit in parsed.unfit:
            rows.diagnostics.note("value_unfit", f"{unfit.table}, {unfit.key!r}: {unfit.first}", unfit.count)
        for kind, events in parsed.tables.items():
            rows.events_kept += len(events)
            enough = self._waiting.add((kind, _types_of_ids(events)), events)
            if enough:
                self._mapper.add_rows(*enough, rows)

    def _kinds_of(self, shapes: Sequence[Shape]) -> list[int]:
        return kinds_of(shapes, self._con)


def _types_of_ids(events: pa.Table) -> tuple[str, ...]:
    return tuple(str(events.schema.field(column).type) for column in _IDS if column in events.column_names)
