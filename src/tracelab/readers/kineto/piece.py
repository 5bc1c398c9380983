"""Pieces of a trace to canonical tables: loaded as events, told apart by kind, mapped some pieces at a time.

A healthy piece is loaded by DuckDB alone (`fast`). What is no clean JSON, or cannot be read exactly that way, is first
made so, event by event, by `clean`. From there on there is one way.
"""

import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tracelab.readers.kineto import clean, kinds, select
from tracelab.readers.kineto.connection import Connection
from tracelab.readers.kineto.fast import OBJECT_BYTES, FastLoader, NotHealthyError
from tracelab.readers.kineto.mapped import Mapper, Rows
from tracelab.readers.kineto.room import Room

_WORTH_MAPPING = 100_000
"""Events of one kind that are mapped at once: a query costs the same to plan however many it has."""


Alike = tuple[int, str]
"""What events have in common that are mapped together: their kind, and the type of pid and tid."""


class Waiting:
    """Events that wait, of all threads of a file, until enough are alike."""

    def __init__(self) -> None:
        self._events: dict[Alike, list[pa.Table]] = {}
        self._lock = threading.Lock()

    def add(self, alike: Alike, events: pa.Table) -> list[pa.Table] | None:
        """Let these events wait; gives all that are like them when they have become enough."""
        with self._lock:
            waiting = self._events.setdefault(alike, [])
            waiting.append(events)
            enough = sum(len(part) for part in waiting) >= _WORTH_MAPPING
            return self._events.pop(alike) if enough else None

    def take(self) -> tuple[int, list[pa.Table]] | None:
        """The most numerous events that still wait, with their kind; None when there are no more."""
        with self._lock:
            if not self._events:
                return None
            alike = max(self._events, key=lambda key: sum(len(part) for part in self._events[key]))
            return alike[0], self._events.pop(alike)


class PieceReader:
    """Reads pieces of one file, one after another; one reader a thread."""

    def __init__(
        self,
        connection: Connection,
        room: Room,
        waiting: Waiting,
        mapper: Mapper,
        *,
        base_ns: int,
    ) -> None:
        self._con = connection
        self.room = room
        self._base_ns = base_ns
        self._fast = FastLoader(connection, room.path, base_ns=base_ns)
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
            enough = self._waiting.add((kind, str(events.schema.field("pid").type)), part)
            if enough:
                self._mapper.add_rows(kind, enough, rows)
        return rows

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

    Each is a table of its own, not a slice of one: a slice that waits would keep the whole piece in memory.
    """
    numbers = events.column("kind").to_numpy()
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers))
    chosen = _without_empty(events.drop_columns(["kind"]))
    parts = {kind: order[start:end] for kind, (start, end) in enumerate(zip((0, *ends), ends, strict=False))}
    return {kind: _without_empty(chosen.take(pa.array(places))) for kind, places in parts.items() if len(places)}


def _without_empty(events: pa.Table) -> pa.Table:
    return events.select([c for c in events.column_names if c == "ph" or events.column(c).null_count < len(events)])
