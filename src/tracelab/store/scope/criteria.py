"""Find the stretches of time that a scope consists of: on each thread, in each process, or in each source."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from tracelab.errors import NoDataError, UsageError
from tracelab.output.labels import Quantity, format_scaled
from tracelab.output.spans import format_spans
from tracelab.paths.stretches import Flags, Keys, Stretches, Times
from tracelab.store import execution
from tracelab.store.scope.request import Bounds, Scope, Span, holds_number

SOURCE = "hash(run, source)"
PROCESS = "process_key(run, source, rank, pid)"
THREAD = "thread_key(run, source, rank, pid, tid)"
NO_THREAD = np.uint64(0)
"""Of a row that runs on no thread, or on one that is not known."""

_EARLIEST_NS, _LATEST_NS = -(1 << 62), 1 << 62
_MOST_NAMED = 5

_STEPS = f"""\
select coalesce(step, -1) as step, {PROCESS} as process, hash(run, source, rank) as of_rank, start_ns, end_ns
from steps_of('annotations', $step_name)"""

_SERVING_STEPS = f"""\
select step, {PROCESS} as process, hash(run, source, rank) as of_rank, start_ns, end_ns
from serving_steps('annotations')
where step is not null"""

_PROGRAM_STARTS = f"""\
select {PROCESS} as process, hash(run, source, rank) as of_rank, start_ns, end_ns
from program_starts('annotations', $step_name)"""

_NAMES = """\
select
    kind, name,
    regexp_matches(name, $within) or (kind = 'module' and regexp_matches('nn.Module: ' || name, $within)) as matches
from (
    select distinct 'range' as kind, name from annotations where scope = 'cpu'
    union all
    select distinct 'op', name from ops
    union all
    select distinct 'module', substr(name, 12) from python_frames where starts_with(name, 'nn.Module: ')
)
where name is not null"""

_MATCHES = f"""\
with matched as (
    select 'range' as kind, name, run, source, rank, pid, tid, start_ns, end_ns
    from annotations
    where scope = 'cpu' and list_contains($range, name)
    union all
    select 'op', name, run, source, rank, pid, tid, start_ns, end_ns
    from ops
    where list_contains($op, name)
    union all
    select 'module', substr(name, 12), run, source, rank, pid, tid, start_ns, end_ns
    from python_frames
    where starts_with(name, 'nn.Module: ') and list_contains($module, substr(name, 12))
)
select
    kind, {PROCESS} as process, {THREAD} as thread, hash(run, source, rank) as of_rank,
    start_ns, end_ns
from matched
where has_valid_interval(start_ns, end_ns)"""

_AXIS = f"""\
with events as (
    select run, source, start_ns, end_ns from gpu_activity
    union all
    select run, source, start_ns, end_ns from api_calls
    union all
    select run, source, start_ns, end_ns from ops
    union all
    select run, source, start_ns, end_ns from annotations
)
select run, source as name, {SOURCE} as source, shift_ns, length_ns from axis_of('events')"""

_RECOMPUTED = f"""\
with frames as materialized (
    from module_frames(null, null)
),
alone as materialized (
    select id from nesting('frames') where parent is null
)
select
    'recomputed' as kind, {PROCESS} as process, {THREAD} as thread, hash(run, source, rank) as of_rank,
    start_ns, end_ns
from module_places('frames') as p
join frames using (id)
semi join alone using (id)
where p.path <> names and list_has_any(p.path, $module)"""

_BACKWARD = f"""\
with host_ops as materialized (
    from filtered_ops(null, null)
),
forward as (
    select id, tid as forward_tid, at_ns as forward_ns from forward_ops('host_ops')
)
select
    {PROCESS} as process, {THREAD} as thread, hash(run, source, rank) as of_rank, start_ns, end_ns,
    hash(run, source, rank, pid, forward_tid) as forward_thread, forward_ns
from host_ops
join forward using (id)
where has_valid_interval(start_ns, end_ns)"""

_MODULE_FRAMES = f"""\
select {THREAD} as thread, start_ns, end_ns
from python_frames
where starts_with(name, 'nn.Module: ') and has_valid_interval(start_ns, end_ns)"""

REFERENCED = {
    "steps": _STEPS + _SERVING_STEPS,
    "within": _NAMES + _MATCHES + _RECOMPUTED + _BACKWARD + _MODULE_FRAMES,
    "from_": _AXIS,
    "to": _AXIS,
    "after_start": _PROGRAM_STARTS,
}
"""The SQL that the conditions of a scope need."""


_NOWHERE = Stretches(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True)
class Rows:
    """Rows of one table: where and when each counts, and the numbers of its source, process and thread."""

    at_ns: Times
    source: Keys
    process: Keys
    thread: Keys


@dataclass(frozen=True)
class Criterion:
    """One condition: a row meets it in a stretch of its source, its process or its thread.

    A row without a thread meets it in a stretch of any thread of its process, `anywhere`, unless another thread
    launched it at a time that is not known. With `is_of_some`, rows of processes without a stretch meet it, too.
    """

    of_source: Stretches = field(default=_NOWHERE)
    of_process: Stretches = field(default=_NOWHERE)
    of_thread: Stretches = field(default=_NOWHERE)
    anywhere: Stretches = field(default=_NOWHERE)
    is_of_some: bool = False

    def hold(self, rows: Rows, unlinked: Flags) -> Flags:
        """Return for each row whether it meets the condition; `unlinked` rows were launched, by a thread not known."""
        threadless = (rows.thread == NO_THREAD) & ~unlinked
        held = self.of_source.hold(rows.source, rows.at_ns) | self.of_process.hold(rows.process, rows.at_ns)
        held |= self.of_thread.hold(rows.thread, rows.at_ns)
        if self.is_of_some:
            held |= ~self.of_process.know(rows.process)
        if threadless.any():
            held[threadless] |= self.anywhere.hold(rows.process[threadless], rows.at_ns[threadless])
        return held


@dataclass(frozen=True)
class Conditions:
    """The conditions of a scope but streams and launches: each as a criterion and in words.

    `within` is the one of ranges, ops and modules, `bounds` the times of each source.
    """

    criteria: tuple[Criterion, ...]
    words: tuple[str, ...]
    within: Criterion | None
    bounds: tuple[Bounds, ...]


def find_conditions(con: duckdb.DuckDBPyConnection, scope: Scope, step_name: str) -> Conditions:
    """Return the conditions of a scope. Raises NoDataError where one finds nothing."""
    found = []
    bounds: tuple[Bounds, ...] = ()
    within = None
    if scope.after_start:
        found.append(_find_program_starts(con, step_name))
    if scope.steps is not None:
        found.append(_find_steps(con, scope.step_numbers, step_name))
    if scope.within is not None:
        found.append(_find_within(con, scope.within))
        within, _ = found[-1]
    if (stretch := scope.stretch) is not None:
        text = _describe_stretch(scope)
        criterion, bounds = _find_stretch(con, stretch, text)
        found.append((criterion, text))
    return Conditions(tuple(each for each, _ in found), tuple(words for _, words in found), within, bounds)


def _find_steps(con: duckdb.DuckDBPyConnection, numbers: tuple[Span, ...], step_name: str) -> tuple[Criterion, str]:
    rows = _fetch(con, _STEPS, {"step_name": step_name})
    served = _fetch(con, _SERVING_STEPS, {})  # of processes without other steps
    others = ~np.isin(served["process"], rows["process"])
    rows = {name: np.concatenate([values, served[name][others]]) for name, values in rows.items()}
    known = np.unique(rows["step"][rows["step"] >= 0]).tolist()
    wanted = [step for step in known if holds_number(numbers, step)]
    if not known:
        raise NoDataError(
            "no range marks a step: use --step-name where the query has it to name their ranges, or --within, or "
            "--from and --to"
        )
    if not wanted:
        raise NoDataError(f"the scope has no step; there are steps {format_spans(known)}")
    stretches = _gather(rows, ("process", "of_rank"), np.isin(rows["step"], wanted))
    return Criterion(of_process=stretches), f"steps {format_spans(wanted)} of {format_spans(known)}"


def _find_program_starts(con: duckdb.DuckDBPyConnection, step_name: str) -> tuple[Criterion, str]:
    rows = _fetch(con, _PROGRAM_STARTS, {"step_name": step_name})
    lengths_ns = rows["end_ns"] - rows["start_ns"]
    after = rows | {"start_ns": rows["end_ns"], "end_ns": np.full_like(rows["end_ns"], _LATEST_NS)}
    stretches = _gather(after, ("process", "of_rank"), np.ones(len(lengths_ns), np.bool_))
    return Criterion(of_process=stretches, is_of_some=True), _describe_starts(lengths_ns)


def _describe_starts(lengths_ns: Times) -> str:
    if not len(lengths_ns):
        return "after the program's start (none precedes a recorded step)"
    lengths = dict.fromkeys(
        format_scaled(int(each), Quantity.DURATION) for each in (lengths_ns.min(), lengths_ns.max())
    )
    what = "the program's start" if len(lengths_ns) == 1 else f"the starts of {len(lengths_ns):,} programs"
    return f"after {what} of {' to '.join(lengths)}"


def _find_within(con: duckdb.DuckDBPyConnection, pattern: str) -> tuple[Criterion, str]:
    try:
        named = con.execute(_NAMES, {"within": pattern}).fetchall()
    except duckdb.InvalidInputException as error:
        reason = str(error).removeprefix("Invalid Input Error: ")
        raise UsageError(f"--within {pattern!r} is no regular expression: {reason}") from error
    names: dict[str, list[str]] = {
        kind: sorted(name for each, name, matches in named if each == kind and matches) for kind in _KINDS
    }
    if not any(names.values()):
        known = sorted({str(name) for _, name, _ in named})
        near = difflib.get_close_matches(pattern, known, n=_MOST_NAMED, cutoff=0.0)
        hint = f"nearest: {', '.join(near)}" if near else "none is recorded"
        raise NoDataError(f"the name of no range, op or module matches {pattern!r}; {hint}")
    rows = _fetch(con, _MATCHES, names)
    if names["module"]:
        recomputed = _fetch(con, _RECOMPUTED, {"module": names["module"]})
        rows = _add_backward(con, {name: np.concatenate([values, recomputed[name]]) for name, values in rows.items()})
    in_process = rows["kind"] == "range"
    criterion = Criterion(
        of_process=_gather(rows, ("process", "of_rank"), in_process),
        of_thread=_gather(rows, ("thread",), ~in_process & (rows["thread"] != NO_THREAD)),
        anywhere=_gather(rows, ("process", "of_rank"), np.ones_like(in_process)),
    )
    return criterion, "within " + " and ".join(_list_names(kind, names[kind]) for kind in _KINDS if names[kind])


def _add_backward(con: duckdb.DuckDBPyConnection, rows: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Add the ops that compute the backward pass of the modules: their forward ops begin within one, on its thread.

    What lies within such an op, backward ops of others and modules that are recomputed, is no part of it.
    """
    are_modules = np.isin(rows["kind"], ["module", "recomputed"])
    modules = _gather(rows, ("thread",), are_modules & (rows["thread"] != NO_THREAD))
    ops = _fetch(con, _BACKWARD, {})
    answering = modules.hold(ops.pop("forward_thread"), ops.pop("forward_ns"))
    others = {name: values[~answering] for name, values in ops.items()}
    frames = _fetch(con, _MODULE_FRAMES, {})
    inner = {name: np.concatenate([others[name], values]) for name, values in frames.items()}
    added = _subtract({name: values[answering] for name, values in ops.items()}, inner)
    added["kind"] = np.full(len(added["start_ns"]), "backward", rows["kind"].dtype)
    return {name: np.concatenate([values, added[name]]) for name, values in rows.items()}


def _subtract(
    rows: Mapping[str, npt.NDArray[Any]], inner: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """Return the pieces of stretches outside of those that begin within them on the same thread."""
    order = np.lexsort((inner["start_ns"], inner["thread"]))
    threads, starts, ends = (inner[name][order] for name in ("thread", "start_ns", "end_ns"))
    places, piece_starts, piece_ends = [], [], []
    for place, (thread, begin, end) in enumerate(zip(rows["thread"], rows["start_ns"], rows["end_ns"], strict=True)):
        first, last = np.searchsorted(threads, thread, "left"), np.searchsorted(threads, thread, "right")
        within = slice(*(first + np.searchsorted(starts[first:last], [begin, end])))
        at = begin
        for inner_start, inner_end in (*zip(starts[within], ends[within], strict=True), (end, end)):
            if inner_start > at:
                places.append(place)
                piece_starts.append(at)
                piece_ends.append(inner_start)
            at = max(at, inner_end)
    pieces = {name: values[np.array(places, np.int64)] for name, values in rows.items()}
    times = {"start_ns": np.array(piece_starts, np.int64), "end_ns": np.array(piece_ends, np.int64)}
    return pieces | times


_KINDS = ("range", "op", "module")


def _find_stretch(con: duckdb.DuckDBPyConnection, stretch: Span, text: str) -> tuple[Criterion, tuple[Bounds, ...]]:
    rows = _fetch(con, _AXIS, {})
    longest = max(map(int, rows["length_ns"]), default=0)
    if stretch.first >= longest:
        raise NoDataError(f"no event is {text}: the longest run lasts {longest / 1e9:.6g} s")
    starts = stretch.first - rows["shift_ns"] if stretch.first else np.full_like(rows["shift_ns"], _EARLIEST_NS)
    ends = np.full_like(starts, _LATEST_NS) if stretch.last is None else stretch.last - rows["shift_ns"]
    bounds = tuple(
        Bounds(run, name, int(key), int(start) if stretch.first else None, None if stretch.last is None else int(end))
        for run, name, key, start, end in zip(rows["run"], rows["name"], rows["source"], starts, ends, strict=True)
    )
    return Criterion(of_source=Stretches(rows["source"], starts, ends)), bounds


def _describe_stretch(scope: Scope) -> str:
    return " ".join(f"{word} {time}" for word, time in (("from", scope.from_), ("to", scope.to)) if time is not None)


def _gather(rows: Mapping[str, npt.NDArray[Any]], keys: Sequence[str], which: Flags) -> Stretches:
    """Return the stretches of some rows, each under its key of every kind."""
    starts, ends = (np.tile(rows[time][which], len(keys)) for time in ("start_ns", "end_ns"))
    return Stretches(np.concatenate([rows[key][which] for key in keys]), starts, ends)


def _fetch(con: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, object]) -> dict[str, npt.NDArray[Any]]:
    """Run a statement and return its columns, which have no NULL."""
    table = execution.fetch_table(con, sql, values)
    return {name: table[name].to_numpy() for name in table.column_names}


def _list_names(kind: str, names: list[str]) -> str:
    listed = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
    if kind == "module":
        listed += "; with their backward pass, and recomputation"
    return f"{len(names)} {kind}{'s' * (len(names) > 1)} ({listed})"
