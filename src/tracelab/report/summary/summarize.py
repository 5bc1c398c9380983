"""Summarize runs of a store: what they are, five figures, and what costs most."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from tracelab.query import library
from tracelab.query.spec import Query
from tracelab.report.answers import Answer, ReportSession, open_report_session
from tracelab.report.summary.figures import MEASURED_STEPS, Figure, compute_figures, describe_work
from tracelab.report.summary.leads import Lead, find_leads
from tracelab.report.table_cache import cache_small_tables
from tracelab.report.windows import create_windows

MOST_LEADS = 3
_FIGURES = (
    *("recordings", "gpu_breakdown", "step_breakdown", "idle_causes", "mfu"),
    *("kernel_class_share", "op_summary", "cpu_communication", "data_loader_wait"),
)


@dataclass(frozen=True)
class RunSummary:
    """What matters in one run; `leads` are the findings that cost most, and `more` counts the others."""

    run: str
    description: str
    figures: tuple[Figure, ...]
    work: str
    """The classes of kernels, else the ops, with most of the time, and their shares of it."""
    leads: tuple[Lead, ...]
    more: int

    @property
    def step_ns(self) -> float | None:
        """Return the median step, or None where no step is known."""
        return self.figures[0].value


def needed_queries() -> list[Query]:
    """Return the queries that a summary runs: those of the figures, and those with a finding that may lead."""
    return [
        each
        for name, each in library.library().items()
        if name in _FIGURES or any(f.cost and f.cost.topics for f in (each.report.findings if each.report else ()))
    ]


def summarize(
    store: Path, runs: tuple[str, ...] = (), *, aligned: bool = False, least_share: float | None = None
) -> list[RunSummary]:
    """Summarize runs, by default all of the store.

    Raises NoDataError if the store is empty or lacks one of the runs.
    """
    with open_report_session(store, runs, aligned=aligned) as opened:
        session = opened if least_share is None else replace(opened, least_share=least_share)
        cache_small_tables(session.con, store)
        answers = {each.query.name: each for each in session.run_all(needed_queries())}
        return summarize_answers(session, answers)


def summarize_answers(session: ReportSession, answers: Mapping[str, Answer]) -> list[RunSummary]:
    """Summarize the runs of a session from the answers of the needed queries."""
    tables = {name: answer.table for name, answer in answers.items()}
    missing = {name: answer.missing_reason for name, answer in answers.items() if answer.table is None}
    create_windows(session.con, tables.get("gpu_breakdown"), tables.get("step_breakdown"))
    tables[MEASURED_STEPS] = session.con.sql(
        "select run, rank, step, dur_ns as step_ns from steps where phase = 'train'"
    ).to_arrow_table()
    needed = {query.name for query in needed_queries()}
    known = {
        name: (answer.query, answer.table)
        for name, answer in answers.items()
        if name in needed and answer.table is not None
    }
    return [_summarize_run(session, run, tables, missing, known) for run in session.run_names]


def _summarize_run(
    session: ReportSession,
    run: str,
    tables: Mapping[str, pa.Table | None],
    missing: Mapping[str, str],
    known: Mapping[str, tuple[Query, pa.Table]],
) -> RunSummary:
    leads = find_leads(session, run, known)
    return RunSummary(
        run,
        describe_run(tables.get("recordings"), run),
        tuple(compute_figures(tables, missing, run)),
        describe_work(tables, run),
        tuple(leads[:MOST_LEADS]),
        max(0, len(leads) - MOST_LEADS),
    )


def describe_run(recordings: pa.Table | None, run: str) -> str:
    """Return what the run is in one line: workload, ranks, GPUs, hosts and profiler."""
    rows = [row for row in recordings.to_pylist() if row["run"] == run] if recordings is not None else []
    ranks = {row["rank"] for row in rows if row["rank"] is not None}
    gpus = sum(row["gpus"] or 0 for row in rows)
    parts = [
        *dict.fromkeys(str(row["workload"]) for row in rows if row["workload"]),
        f"{len(ranks):,} rank{'s' * (len(ranks) != 1)}" if ranks else "",
        " and ".join(dict.fromkeys(str(row["gpu"]) for row in rows if row["gpu"])) or ("" if gpus else "no GPU"),
        _hosts([str(row["host"]) for row in rows if row["host"]]),
        " and ".join(dict.fromkeys(str(row["producer"]) for row in rows if row["producer"])),
    ]
    return " · ".join(part for part in parts if part)


def _hosts(names: list[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return f"{len(distinct):,} hosts" if len(distinct) > 1 else "".join(distinct)
