"""Find the runs that begin with the start of a program, which summary, report and comparison leave out by default."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import duckdb

from tracelab.output.labels import Quantity, format_scaled
from tracelab.store.scope.request import Scope
from tracelab.store.session import sql_literal

AFTER_START = Scope(after_start=True)

_RANGES = """\
select run, max(end_ns - start_ns)::bigint as length_ns
from program_start_ranges('unscoped_annotations')
where {of_runs}
group by run
order by run"""

_BEFORE_STEPS = """\
with marks as not materialized (
    select run, source, rank, pid, name, scope, start_ns, end_ns
    from unscoped_annotations
    where {of_runs}
)
select run, max(end_ns - start_ns)::bigint as length_ns
from program_starts('marks', $step_name)
group by run"""

REFERENCED = _RANGES + _BEFORE_STEPS
"""The SQL that `find_program_starts` needs in a session."""


@dataclass(frozen=True)
class ProgramStart:
    """The recorded start of a run's program: of several processes the longest."""

    length_ns: int
    precedes_step: bool
    """Whether a step follows, so that the start has an end; else it lasts as long as the recording."""


def find_program_starts(
    con: duckdb.DuckDBPyConnection, step_name: str, runs: Collection[str] = ()
) -> dict[str, ProgramStart]:
    """Return the program starts by run, of `runs` or of all, in a scope or not.

    Most runs have none, so the steps are only looked for where there is one: that search reads each name.
    """
    ranges: dict[str, int] = dict(con.execute(_RANGES.format(of_runs=_render_condition(runs))).fetchall())
    if not ranges:
        return {}
    sql = _BEFORE_STEPS.format(of_runs=_render_condition(ranges))
    before_steps: dict[str, int] = dict(con.execute(sql, {"step_name": step_name}).fetchall())
    return {
        run: ProgramStart(before_steps.get(run, length_ns), precedes_step=run in before_steps)
        for run, length_ns in ranges.items()
    }


def lengths_before_steps(starts: Mapping[str, ProgramStart]) -> dict[str, int]:
    """Return how long those starts are, by run, that a scope can leave out."""
    return {run: start.length_ns for run, start in starts.items() if start.precedes_step}


def describe_included(starts: Mapping[str, ProgramStart]) -> list[str]:
    """Return which runs begin with a start that a scope can leave out, as a sentence."""
    lengths_ns = lengths_before_steps(starts)
    if not lengths_ns:
        return []
    longest = max(lengths_ns, key=lengths_ns.__getitem__)
    runs = f"of {len(lengths_ns):,} runs, the longest of {longest}" if len(lengths_ns) > 1 else f"of {longest}"
    length = format_scaled(lengths_ns[longest], Quantity.DURATION)
    return [f"The answer includes the program's start {runs}, {length}; --after-start leaves it out."]


def _render_condition(runs: Collection[str]) -> str:
    """Render the condition in literals, by which DuckDB skips the files of other runs."""
    return f"run in ({', '.join(map(sql_literal, runs))})" if runs else "true"
