"""The fast path: DuckDB's JSON reader puts a healthy piece into columns in one pass, times exact.

DuckDB keeps numbers as doubles. Microseconds below 2^43 with three decimals survive that exactly when they are split
into whole and fraction; longer times have the leading digits that they share cut out of the raw bytes first.
Nothing is taken on trust: every time that was cut must come back, and every key of the piece must have a column, which
is counted on the bytes themselves. Where that, or anything else, does not hold, the piece is left to the careful path.
"""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from tracelab.readers.kineto import mapping, select

EXACT_BELOW_US = 1 << 43
"""A double below this holds microseconds with three decimals closely enough to give back the nanosecond."""

EXTRA_KEYS = ("id", "bp", "s")
"""Top-level keys of flows and instants; with what else a file's events carry, they are kept in `args`."""

OBJECT_BYTES = 16 << 20
_CUT = "ts~cut"  # the key under which times stand whose leading digits were cut
_KEPT_DIGITS = 9
_CUT_MARK = 10**_KEPT_DIGITS  # a 1 before the kept digits, so that leading zeros survive
# the copy that DuckDB warns of costs less than binding the query twice, as its sql() does
warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")

_TS = re.compile(rb'"ts": ?(\d{13,})')
_TEXT_KEYS = ("ph", "cat", "name", "pid", "tid")
_BASE_KEYS = (*_TEXT_KEYS, "ts", "dur", "args")
_LEARN_FROM = 20_000  # events whose keys are looked at before a file's columns are settled
_LONGEST_US = 10**18


class NotHealthyError(Exception):
    """The piece cannot be read this way, or not exactly."""


@dataclass(frozen=True)
class _Times:
    """How many of a piece's values there are, and how many came through exactly."""

    rows: int
    phases: int
    starts: int
    cuts: int
    exact_starts: int
    durations: int
    exact_durations: int
    longest_us: float | None


class FastLoader:
    """Reads healthy pieces of one file, one after another, into one Arrow table a kind of event."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, scratch: Path, *, base_ns: int) -> None:
        self._con = connection
        self._scratch = scratch
        self._base_ns = base_ns
        self._prefix = b""
        self._extras = EXTRA_KEYS
        self._learnt = False

    def load(self, piece: bytearray) -> None:
        """The events of a piece as the relation `events`, their arguments as JSON text. Raises NotHealthyError."""
        if not self._learnt:
            self._learn(piece)
        extras = ", ".join(
            f"{select.literal(f'{chr(34)}{key}{chr(34)}:')} || {select.name(key)}" for key in self._extras
        )

        def read() -> _Times:
            self._con.execute(f"""
                create or replace temp table events as
                with {self._timed()}
                select {select.kind_of_event()} as kind, ph, source_cat, name, pid, tid, start_ns, dur_ns,
                    ts, dur, cut, args, ('{{' || nullif(concat_ws(',', {extras}), '') || '}}')::json as extras
                from timed
            """)
            row = self._con.execute(
                "select count(*), count(ph), count(ts), count(cut), count(start_ns), count(dur), count(dur_ns), "
                "max(abs(ts)) from events"
            ).fetchall()[0]
            return _Times(*row)

        self._exactly(piece, read)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def _exactly(self, piece: bytearray, read: Callable[[], _Times]) -> None:
        """Read a piece such that all its times are exact: with another cut where the first was wrong."""
        for _ in range(2):
            cut, cuts = self._with_cut_times(piece)
            self._write(cut)
            try:
                times = read()
            except duckdb.Error as error:
                raise NotHealthyError(str(error)) from error
            if times.phases < times.rows or times.cuts != cuts or times.durations != times.exact_durations:
                raise NotHealthyError("events without phase, or times that are none")
            if times.exact_starts == times.starts + times.cuts:
                return
            prefix = _shared_digits(times.longest_us)
            if prefix is None or prefix == self._prefix:
                raise NotHealthyError("times that no cut makes exact")
            self._prefix = prefix
        raise NotHealthyError("times of several lengths")

    def _timed(self) -> str:
        """The part that both queries begin with: the piece as `timed`, with exact times."""
        columns = dict.fromkeys(_TEXT_KEYS, "VARCHAR") | {"ts": "DOUBLE", "dur": "DOUBLE", _CUT: "DOUBLE"}
        columns |= dict.fromkeys(self._extras, "JSON") | {"args": "JSON"}
        struct = ", ".join(f"{select.literal(key)}: {select.literal(kind)}" for key, kind in columns.items())
        cut_ok = f"cut >= {_CUT_MARK} and cut < {2 * _CUT_MARK}"
        moved_ns = (int(self._prefix or 0) - 1) * _CUT_MARK * mapping.US_PER_TICK
        return f"""
            raw as (
                select * exclude (cat, {select.name(_CUT)}), {select.name(_CUT)} as cut, cat as source_cat,
                    {select.todays_category("cat")} as cat
                from read_json({select.literal(str(self._scratch))}, format = 'array', columns = {{{struct}}},
                               maximum_object_size = {OBJECT_BYTES})
            ),
            timed as (
                select *, {exact_ns("dur")} as dur_ns,
                    coalesce(case when {cut_ok} then {exact_ns("cut")} + {moved_ns} end, {exact_ns("ts")})
                        + {self._base_ns} as start_ns
                from raw
            )
        """

    def _write(self, piece: bytes | bytearray) -> None:
        """Put the piece where DuckDB reads it; the file is written over, which spares its memory."""
        with self._scratch.open("r+b" if self._scratch.exists() else "wb") as file:
            file.writelines((b"[", piece, b"]"))
            file.truncate()

    def _with_cut_times(self, piece: bytearray) -> tuple[bytearray, int]:
        """The piece with the shared leading digits of its times cut out, and how many times were cut."""
        if not self._prefix:
            return piece, 0
        for colon in (b'"ts": ', b'"ts":'):
            long_form = colon + self._prefix
            if long_form in piece:
                short_form = f'"{_CUT}":1'.encode()
                cut = piece.replace(long_form, short_form)
                change = len(long_form) - len(short_form)
                return cut, (len(piece) - len(cut)) // change if change else piece.count(long_form)
        return piece, 0

    # ---- keys ------------------------------------------------------------------------------------------------------

    def _learn(self, piece: bytearray) -> None:
        """Learn from the first piece how long its times are, and which keys its events have."""
        found = _TS.search(piece)
        self._prefix = found[1][:-_KEPT_DIGITS] if found and int(found[1]) >= EXACT_BELOW_US else b""
        self._write(piece)
        try:
            rows = self._con.execute(
                f"select distinct unnest(json_keys(json)) from (from read_json({select.literal(str(self._scratch))}, "
                f"format = 'array', records = false, columns = {{'json': 'JSON'}}, "
                f"maximum_object_size = {OBJECT_BYTES}) limit {_LEARN_FROM})"
            ).fetchall()
        except duckdb.Error as error:
            raise NotHealthyError(str(error)) from error
        keys = sorted({row[0] for row in rows} - {*_BASE_KEYS, *EXTRA_KEYS})
        if not select.plain_keys((*_BASE_KEYS, *EXTRA_KEYS, *keys)):
            raise NotHealthyError("keys that differ by case only, or need quoting")
        self._extras = (*EXTRA_KEYS, *keys)
        self._learnt = True


def arrow(con: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """The result of a query as one Arrow table."""
    return con.execute(query).to_arrow_table()


def exact_ns(us: str) -> str:
    """SQL for microseconds in a double as whole nanoseconds; NULL where the double cannot be trusted."""
    return (
        f"case when abs({us}) < {EXACT_BELOW_US} then "
        f"floor({us})::bigint * {mapping.US_PER_TICK} + round(({us} - floor({us})) * {mapping.US_PER_TICK})::bigint end"
    )


def _shared_digits(longest: float | None) -> bytes | None:
    """The digits to cut of times as long as this; None where no cut helps."""
    if longest is None or not EXACT_BELOW_US <= longest < _LONGEST_US:
        return None
    return str(int(longest)).encode()[:-_KEPT_DIGITS]
