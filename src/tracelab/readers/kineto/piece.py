"""Pieces of a trace to canonical tables: loaded as events, told apart by kind, mapped some pieces at a time.

A healthy piece is loaded by DuckDB alone (`fast`). What is no clean JSON, or cannot be read exactly that way, is first
made so, event by event, by `clean`. From there on there is one way.
"""

from collections.abc import Iterator

import numpy as np
import numpy.ma  # at its first array pa.array imports it, which two threads at once can fail at
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.kineto import clean, kinds, select
from tracelab.readers.kineto.connection import Connection
from tracelab.readers.kineto.fast import OBJECT_BYTES, ExtraKeys, FastLoader, NotHealthyError
from tracelab.readers.kineto.mapped import Mapper, Rows
from tracelab.readers.kineto.room import Room
from tracelab.readers.kineto.waiting import Waiting

_SLICED_FROM = 1 / 8
"""The part of a piece's events from which on those of a kind are a slice of it, and no copy."""

_IDS = ("pid", "tid")
_NUMBER = "^-?[0-9]{1,18}$"


class PieceReader:
    """Reads pieces of one file, one after another; one reader a thread."""

    def __init__(
        self,
        connection: Connection,
        room: Room,
        extras: ExtraKeys,
        waiting: Waiting,
        mapper: Mapper,
        *,
        base_ns: int,
    ) -> None:
        self._con = connection
        self.room = room
        self._base_ns = base_ns
        self._fast = FastLoader(connection, room.path, extras, base_ns=base_ns)
        self._waiting = waiting
        self._mapper = mapper

    def read(self, piece: memoryview) -> Rows:
        """Load a piece that stands in the room, damaged or not; gives the rows of what kinds enough events wait of."""
        rows = Rows()
        try:
            events = self._fast.load(piece)
        except NotHealthyError:
            lines, rows.events_skipped = clean.events(bytes(piece), self._base_ns, rows.findings)
            events = self._loaded(lines)
        rows.events_kept = len(events)
        for kind, part in _by_kind(events).items():
            events_of_kind = _with_number_ids(part)
            enough = self._waiting.add((kind, _types_of_ids(events_of_kind)), events_of_kind)
            if enough:
                self._mapper.add_rows(*enough, rows)
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

    def _loaded(self, lines: list[bytes]) -> pa.Table:
        """Events that `clean` has made whole, one JSON object a line, times in ns."""
        with self.room.path.open("wb") as file:
            file.writelines(line + b"\n" for line in lines)
        columns = "ph: 'VARCHAR', cat: 'VARCHAR', name: 'VARCHAR', pid: 'VARCHAR', tid: 'VARCHAR', "
        columns += "start_ns: 'BIGINT', dur_ns: 'BIGINT', extras: 'JSON', args: 'JSON'"
        longest = max((len(line) for line in lines), default=0) + 2
        return self._con.arrow(
            f"""
            with read as (
                select * exclude (cat), cat as source_cat
                from read_json({select.literal(str(self.room.path))}, format = 'newline_delimited',
                               columns = {{{columns}}}, maximum_object_size = {max(OBJECT_BYTES, longest)})
            ), {kinds.categorised("read")}
            select {kinds.kind_of_event()} as kind, * exclude (cat, at_once) from categorised
            """,
        )


def _by_kind(events: pa.Table) -> dict[int, pa.Table]:
    """The events of each kind, in their order, with the columns that hold anything.

    The piece is put in order of kinds at once, and kinds of many events are slices of that. Of few, a slice would,
    while it waits, keep all of the piece in memory.
    """
    numbers = events.column("kind").to_numpy()
    ends = np.cumsum(np.bincount(numbers)).tolist()
    ordered = _without_empty(events.drop_columns(["kind"])).take(pa.array(np.argsort(numbers, kind="stable")))
    slices = {
        kind: _without_empty(ordered.slice(start, end - start))
        for kind, (start, end) in enumerate(zip((0, *ends), ends, strict=False))
        if end > start
    }
    many = len(events) * _SLICED_FROM
    return {kind: part if len(part) >= many else part.take(np.arange(len(part))) for kind, part in slices.items()}


def _with_number_ids(events: pa.Table) -> pa.Table:
    """The events with process and thread as numbers, where all of theirs are, though others of the piece are texts."""
    for at, column in enumerate(events.column_names):
        ids = events.column(column)
        if column in _IDS and pa.types.is_string(ids.type) and pc.all(pc.match_substring_regex(ids, _NUMBER)).as_py():
            events = events.set_column(at, column, ids.cast(pa.int64()))
    return events


def _types_of_ids(events: pa.Table) -> tuple[str, ...]:
    return tuple(str(events.schema.field(column).type) for column in _IDS if column in events.column_names)


def _without_empty(events: pa.Table) -> pa.Table:
    return events.select([c for c in events.column_names if c == "ph" or events.column(c).null_count < len(events)])
