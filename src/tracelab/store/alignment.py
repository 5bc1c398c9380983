"""Align the clocks of ranks in a session: its views move the times of stored rows, and the files stay as they are."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import duckdb

from tracelab import schema
from tracelab.output.labels import Quantity, format_scaled
from tracelab.output.spans import list_spans
from tracelab.store import execution, integrity, session

_SHIFTS = """\
select run, source, rank, reference_rank, verdict, offset_ns, drift_ppb, offset_time_ns, agrees, moves, reference_clock
from clock_shifts('matched_collectives', 'rank_clocks')
order by run, rank, source"""
_TIMES = ("start_ns", "time_ns", "window_start_ns")
_MOST_LISTED = 8


@dataclass(frozen=True)
class ClockShift:
    """What moves the times of one rank and source to the reference rank's clock: a row of clock_shifts()."""

    run: str
    source: str
    rank: int
    reference_rank: int
    verdict: str
    offset_ns: int | None
    drift_ppb: float | None
    offset_time_ns: int | None
    agrees: bool
    moves: bool
    reference_clock: str


@dataclass(frozen=True)
class Alignment:
    """The clock shifts of the ranks of some runs."""

    shifts: tuple[ClockShift, ...] = ()

    @property
    def notes(self) -> list[str]:
        """Return a sentence for each run: which ranks were moved, and which could not be."""
        return [_describe_run(run, list(shifts)) for run, shifts in groupby(self._ranks(), lambda each: each.run)] or [
            "Not aligned: no collective of several ranks was recorded."
        ]

    @property
    def metadata(self) -> list[dict[str, object]]:
        """Return run, rank, reference rank, offset, drift and verdict of each rank."""
        names = ("run", "rank", "reference_rank", "verdict", "offset_ns", "drift_ppb", "offset_time_ns", "moves")
        return [{name: value for name, value in asdict(each).items() if name in names} for each in self._ranks()]

    def _ranks(self) -> list[ClockShift]:
        """Return one shift for each rank: its sources are moved alike."""
        return list({(each.run, each.rank): each for each in self.shifts}.values())


class AlignedRows:
    """Stored rows with their times moved; `StoredRows` of a session."""

    def __init__(self, rows: session.StoredRows, alignment: Alignment) -> None:
        self._rows = rows
        self._shifts = [each for each in alignment.shifts if each.moves]
        self._agreeing = {(each.run, each.source): each.reference_clock for each in alignment.shifts if each.agrees}
        self._moved_runs = {each.run for each in self._shifts}

    @property
    def mixed(self) -> bool:
        """Whether some rows may lack columns of the schema, or have others."""
        return self._rows.mixed

    def has(self, table: str) -> bool:
        """Return whether there may be rows of the table."""
        return self._rows.has(table)

    def select(self, table: str) -> str:
        """Select all stored columns of a table, with its times moved, and `filename`."""
        stored = self._rows.select(table)
        columns = {column.name for column in schema.BY_NAME[table].columns}
        (time,) = columns.intersection(_TIMES) or (None,)
        if time is None or not self._shifts:
            return stored
        if table == "sources":
            return self._select_sources(stored)
        moved = _moved_time(f"aligned_rows.{time}")
        return (
            f"select aligned_rows.* replace ({moved} as {time})\nfrom ({stored}) as aligned_rows\n"
            f"left join {_shift_values(self._shifts)}\n"
            "on aligned_rows.run = shift.run and aligned_rows.source = shift.source and aligned_rows.rank = shift.rank"
        )

    def _select_sources(self, stored: str) -> str:
        """Move the recording window, and name the clock that the source is now on."""
        one = {(each.run, each.source): each for each in self._shifts}
        clocks = "".join(
            f" when ({session.sql_literal(run)}, {session.sql_literal(source)}) then {session.sql_literal(clock)}"
            for (run, source), clock in self._agreeing.items()
            if run in self._moved_runs
        )
        clock = f"case (aligned_rows.run, aligned_rows.source){clocks} else aligned_rows.clock end"
        moved = _moved_time("aligned_rows.window_start_ns")
        return (
            f"select aligned_rows.* replace ({moved} as window_start_ns, {clock} as clock)\n"
            f"from ({stored}) as aligned_rows\nleft join {_shift_values(list(one.values()))}\n"
            "on aligned_rows.run = shift.run and aligned_rows.source = shift.source"
        )


def measure(
    store: Path,
    runs: Sequence[str] = (),
    *,
    memory_limit: str | None = None,
    deadline: execution.Deadline | None = None,
) -> Alignment:
    """Measure the clock shifts of the runs of a store; of all runs where none is named."""
    with (
        session.connect(store, referenced=_SHIFTS) as con,
        integrity.explain_read_errors(store),
        execution.translate_errors(),
    ):
        con.execute("set enable_progress_bar = false").fetchall()
        execution.limit_memory(con, memory_limit)
        return execution.run_interruptible(con, lambda: measure_on(con, runs), deadline)


def measure_on(con: duckdb.DuckDBPyConnection, runs: Sequence[str] = ()) -> Alignment:
    """Measure the clock shifts on an open session."""
    from tracelab.store import computed_tables

    computed_tables.provide(con, _SHIFTS, runs=list(runs) or None)
    rows = con.execute(_SHIFTS).fetchall()
    return Alignment(tuple(ClockShift(*row) for row in rows))


def _moved_time(time: str) -> str:
    drifted = f"coalesce(round(shift.drift * ({time} - shift.from_ns)::double)::bigint, 0)"
    return f"case when shift.run is null then {time} else try({time} + shift.offset_ns + {drifted}) end"


def _shift_values(shifts: Sequence[ClockShift]) -> str:
    rows = ", ".join(
        f"({session.sql_literal(each.run)}, {session.sql_literal(each.source)}, {each.rank}, {each.offset_ns}::bigint, "
        f"{'null' if each.drift_ppb is None else repr(each.drift_ppb / 1e9)}::double, "
        f"{'null' if each.offset_time_ns is None else each.offset_time_ns}::bigint)"
        for each in shifts
    )
    return f"(values {rows}) as shift(run, source, rank, offset_ns, drift, from_ns)"


def _describe_run(run: str, ranks: list[ClockShift]) -> str:
    moved = [each for each in ranks if each.moves]
    reference = min(each.rank for each in ranks)
    if moved:
        offsets = sorted(each.offset_ns or 0 for each in moved)
        spans = " to ".join(dict.fromkeys(_signed(each) for each in (offsets[0], offsets[-1])))
        parts = [
            f"Aligned: {_list_ranks(moved)} of {run} {_be(moved)} on the clock of rank {reference}, moved by {spans}"
        ]
    else:
        parts = [f"Aligned: no rank of {run} had to be moved to the clock of rank {reference}"]
    if weak := [each for each in moved if each.verdict == "weak"]:
        parts.append(f"{_list_ranks(weak)} by a weak estimate")
    if apart := [each for each in ranks if not each.agrees]:
        parts.append(f"{_list_ranks(apart)} {_be(apart)} not aligned, so compare no times with theirs")
    return "; ".join(parts) + "."


def _be(ranks: Sequence[ClockShift]) -> str:
    return "is" if len(ranks) == 1 else "are"


def _list_ranks(ranks: Sequence[ClockShift]) -> str:
    """Return the ranks in words, consecutive ones as a span: ranks 1–3, 6."""
    spans = list_spans(sorted(each.rank for each in ranks))
    if len(spans) > _MOST_LISTED:
        return f"{len(ranks)} ranks"
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(spans)}"


def _signed(offset_ns: int) -> str:
    return ("+" if offset_ns > 0 else "") + format_scaled(offset_ns, Quantity.DURATION)
