"""The fast path: DuckDB's JSON reader puts a healthy piece into columns, times exact, arguments as JSON text.

DuckDB keeps numbers as doubles. Microseconds below 2^43 with three decimals survive that exactly when they are split
into whole and fraction; longer times are cut before (`cut.py`). Every time that was cut must come back, and every time
that is there must come through: where that does not hold, or the piece is no clean JSON, it is not taken.
"""

import re
import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.kineto import cut as cuts
from tracelab.readers.kineto import kinds, mapping, select
from tracelab.readers.kineto.connection import Connection
from tracelab.readers.kineto.cut import EXACT_BELOW_US

OBJECT_BYTES = 2 << 20
EXTRA_KEYS = ("id", "bp", "s")
"""Top-level keys of flows and instants; with what else a file's events carry, they are kept in `args`."""

_TEXT_KEYS = ("ph", "cat", "name")
_ID_KEYS = ("pid", "tid")
_GIVE_UP_NUMBERS = 2
_BASE_KEYS = (*_TEXT_KEYS, *_ID_KEYS, "ts", "dur", "args")
_BOOLEAN = re.compile(rb'"ts"\s*:\s*[tf]')  # DuckDB takes true and false for 1 and 0
_PRODUCT_EXACT_BELOW_US = 1 << 40
"""Below this a thousand times the double is less than half a nanosecond off, too, and need not be split."""
_LEARN_FROM = 5_000  # events of the piece that is read first; their keys settle the columns of the file


class NotHealthyError(Exception):
    """The piece cannot be read this way, or not exactly."""


class ExtraKeys:
    """The keys of a file's events that no table has a column for, learnt once by all threads that read it."""

    def __init__(self) -> None:
        self._keys: tuple[str, ...] | None = None
        self._lock = threading.Lock()

    def keys(self, learn: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """The keys; `learn` is asked for them where no thread has been yet."""
        with self._lock:
            if self._keys is None:
                self._keys = learn()
            return self._keys


class FastLoader:
    """Reads healthy pieces of one file, one after another, each from where it stands as a file: `path`."""

    def __init__(self, connection: Connection, path: Path, learnt: ExtraKeys, *, base_ns: int) -> None:
        self._con = connection
        self._path = path
        self._base_ns = base_ns
        self._prefix: bytes | None = None
        self._learnt = learnt
        self._extras: tuple[str, ...] = EXTRA_KEYS
        self._pieces_with_text_ids = 0

    def load(self, piece: memoryview) -> pa.Table:
        """The events of a piece: kind, ph, source_cat, name, pid, tid, start_ns, dur_ns, args, and `extra …` columns.

        Long times are cut in the piece itself. Raises NotHealthyError; the piece is then as it was.
        """
        if self._prefix is None:
            self._extras = self._learnt.keys(self._learn)
            self._prefix = cuts.prefix_of(piece)
        for _ in range(2):
            done = cuts.cut(piece, self._prefix) if self._prefix else None
            try:
                return self._read(piece, len(done.places) if done else 0)
            except (_OtherPrefixError, NotHealthyError, duckdb.Error, UnicodeDecodeError) as error:
                if done:
                    done.undo(piece)
                if not isinstance(error, _OtherPrefixError):
                    raise NotHealthyError(str(error)) from error
                if error.prefix == self._prefix:
                    raise NotHealthyError("times that no cut makes exact") from error
                self._prefix = error.prefix
        raise NotHealthyError("times of several lengths")

    def _read(self, piece: memoryview, cut_times: int) -> pa.Table:
        rows = self._rows()

        def valid(column: str) -> int:
            return len(rows) - rows.column(column).null_count

        if valid("ph") < len(rows) or valid("cut") != cut_times or valid("dur") != valid("dur_ns"):
            raise NotHealthyError("events without phase, or times that are none")
        if pc.any(pc.less_equal(pc.abs(rows.column("ts")), 1)).as_py() and _BOOLEAN.search(piece):
            raise NotHealthyError("true or false for a time")
        if valid("start_ns") != valid("ts") + valid("cut"):
            prefix = cuts.prefix_for(pc.max(pc.abs(rows.column("ts"))).as_py())
            if prefix is None:
                raise NotHealthyError("times that no cut makes exact")
            raise _OtherPrefixError(prefix)
        return rows.drop_columns(["ts", "dur", "cut"])

    def _rows(self) -> pa.Table:
        """The piece as a table; process and thread are read as numbers, which is faster, where all of them are."""
        if self._pieces_with_text_ids < _GIVE_UP_NUMBERS:
            try:
                return self._con.arrow(self._query("BIGINT"))
            except duckdb.InvalidInputException as error:
                if "cast value to numerical" not in str(error):
                    raise
                self._pieces_with_text_ids += 1
        return self._con.arrow(self._query("VARCHAR"))

    def _query(self, ids: str) -> str:
        columns = (
            dict.fromkeys(_TEXT_KEYS, "VARCHAR")
            | dict.fromkeys(_ID_KEYS, ids)
            | {"ts": "DOUBLE", "dur": "DOUBLE", cuts.KEY: "DOUBLE"}
        )
        columns |= dict.fromkeys(self._extras, "JSON") | {"args": "JSON"}
        struct = ", ".join(f"{select.literal(key)}: {select.literal(kind)}" for key, kind in columns.items())
        extras = "".join(f", {select.name(key)} as {select.name(select.extra_column(key))}" for key in self._extras)
        moved_ns = (int(self._prefix or 0) - 1) * cuts.MARK * mapping.US_PER_TICK
        cut_ok = f"cut >= {cuts.MARK} and cut < {2 * cuts.MARK}"
        return f"""
            with read as (
                select * exclude (cat, {select.name(cuts.KEY)}), {select.name(cuts.KEY)} as cut, cat as source_cat
                from read_json({select.literal(str(self._path))}, format = 'array', columns = {{{struct}}},
                               maximum_object_size = {OBJECT_BYTES})
            ), {kinds.categorised("read")}
            select {kinds.kind_of_event()} as kind, ph, source_cat, name, pid, tid,
                case when {cut_ok} then {_whole_ns("cut")} + {moved_ns} else {_exact_ns("ts")} end
                    + {self._base_ns} as start_ns,
                {_exact_ns("dur")} as dur_ns, ts, dur, cut, args {extras}
            from categorised
        """

    def _learn(self) -> tuple[str, ...]:
        """The keys of the first events of the piece that no table has a column for."""
        try:
            rows = self._con.rows(
                f"select distinct unnest(json_keys(json)) from (from read_json({select.literal(str(self._path))}, "
                f"format = 'array', records = false, columns = {{'json': 'JSON'}}, "
                f"maximum_object_size = {OBJECT_BYTES}) limit {_LEARN_FROM})"
            )
        except (duckdb.Error, UnicodeDecodeError) as error:
            raise NotHealthyError(str(error)) from error
        keys = sorted({row[0] for row in rows} - {*_BASE_KEYS, *EXTRA_KEYS})
        if not select.plain_keys((*_BASE_KEYS, *EXTRA_KEYS, *keys)):
            raise NotHealthyError("keys that differ by case only, or need quoting")
        return (*EXTRA_KEYS, *keys)


class _OtherPrefixError(Exception):
    """The times share other leading digits than those that were cut."""

    def __init__(self, prefix: bytes) -> None:
        super().__init__(prefix)
        self.prefix = prefix


def _exact_ns(us: str) -> str:
    """Microseconds in a double as whole nanoseconds; NULL where the double cannot be trusted."""
    return (
        f"case when abs({us}) < {_PRODUCT_EXACT_BELOW_US} then {_whole_ns(us)} when abs({us}) < {EXACT_BELOW_US} then "
        f"floor({us})::bigint * {mapping.US_PER_TICK} + {_whole_ns(f'({us} - floor({us}))')} end"
    )


def _whole_ns(us: str) -> str:
    return f"round({us} * {mapping.US_PER_TICK})::bigint"
