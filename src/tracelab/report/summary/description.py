"""Describe a run of a summary: what it is, how it ended, and whether its program's start counts."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from tracelab.output.labels import Quantity, format_scaled
from tracelab.report.answers import ReportSession
from tracelab.store.scope.start_up import StartUp

_COUNTERS_ONLY = "Only counters of single kernels are recorded, and no timeline."
_MOST_OF_ERROR = 200
"""Characters of an error, or of a note, that the line about a run has; the doctor has all of them."""


def describe_run(rows: Sequence[Mapping[str, Any]], end: Sequence[str] = ()) -> str:
    """Return what a run is in one line, from its rows of recordings: workload, ranks, GPUs, hosts and profiler.

    `end` follows: a status other than ok and notes, because the figures are those of a run that ended early.
    """
    ranks = {row["rank"] for row in rows if row["rank"] is not None}
    parts = [
        *dict.fromkeys(str(row["workload"]) for row in rows if row["workload"]),
        f"{len(ranks):,} rank{'s' * (len(ranks) != 1)}" if ranks else "",
        " and ".join(dict.fromkeys(str(row["gpu"]) for row in rows if row["gpu"])) or _unnamed_gpus(rows),
        _hosts([str(row["host"]) for row in rows if row["host"]]),
        " and ".join(dict.fromkeys(str(row["producer"]) for row in rows if row["producer"])),
        *end,
    ]
    return " · ".join(part for part in parts if part)


def describe_counters(session: ReportSession, run: str) -> str:
    """Return that a run has counters alone, and which timelines of the same program take them."""
    rows = session.con.execute("select run from timed_pairs($run, null) order by run", {"run": run}).fetchall()
    timelines = ", ".join(str(timeline) for (timeline,) in rows)
    return f"{_COUNTERS_ONLY} Timelines of the same program take them: {timelines}." if timelines else _COUNTERS_ONLY


def describe_end(session: ReportSession, run: str) -> list[str]:
    """Return the status of a run that did not end well, how its recording differs, and whether threads lacked cores."""
    ended, notes, waits = (
        session.con.execute(sql, {"run": run}).fetchall()
        for sql in (
            "select status, rtrim(error, '. ') from runs where run = $run and status <> 'ok' limit 1",
            "select sentence from run_notes where run = $run order by ranks, note",
            "select sentence from host_load where run = $run and is_overloaded",
        )
    )
    failed = [f"status {status}" + (f": {_shorten(error)}" if error else "") for status, error in ended]
    return [*failed, *(_shorten(note) for (note,) in notes), *(wait for (wait,) in waits)]


def _shorten(text: str) -> str:
    return textwrap.shorten(text, _MOST_OF_ERROR, placeholder=" …")


def describe_start(session: ReportSession, run: str, start_up: StartUp | None) -> tuple[str, int | None]:
    """Return whether the figures include the start of a program and how to change that, and how long it is.

    Without steps its end is not known: then `start_up` is what the GPUs do of it.
    """
    if session.scope and not (session.scope.is_of_gpus or session.scope.after_start):
        return "", None
    start = session.starts.get(run)
    if start is None:
        return ("", None) if start_up is None else (start_up.sentence, start_up.start_up_ns)
    length = format_scaled(start.length_ns, Quantity.DURATION)
    if not start.precedes_step:
        option = "--from TIME leaves out what precedes a time." if start_up is None else start_up.sentence
        return (
            f"No step follows the program's start of {length}, so the figures include all of it, such as imports. "
            f"{option}"
        ), start.length_ns
    return _describe_recorded_start(session, run, length), start.length_ns


def _describe_recorded_start(session: ReportSession, run: str, length: str) -> str:
    """Return whether the figures include a start of some length that a step follows, and how to change that."""
    until = f"the program's start, {length} until its first step ended"
    if run in session.starts_out_ns:
        option = "omit --after-start" if session.scope else "add --whole"
        return f"The figures leave out {until}. To include it, {option}."
    option = "add --after-start" if session.scope else "omit --whole"
    return f"The figures include {until}. To leave it out, {option}."


def _unnamed_gpus(rows: Sequence[Mapping[str, Any]]) -> str:
    on_gpu = any(row["kernels"] or row["copies"] or row["metrics"] or row["gpus"] for row in rows)
    return "a GPU whose model is not recorded" if on_gpu else "no GPU"


def _hosts(names: list[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return f"{len(distinct):,} hosts" if len(distinct) > 1 else "".join(distinct)
