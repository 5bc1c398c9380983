"""Summarize runs of a store: what they are, five figures, and what costs most."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pyarrow as pa

from tracelab.output.commands import DEFAULT_STORE, StoreCommands
from tracelab.query import library
from tracelab.query.report_rules import LEAST_SHARE
from tracelab.query.spec import Query
from tracelab.report.answers import Answer, ReportSession, open_report_session
from tracelab.report.summary.description import describe_counters, describe_end, describe_run, describe_start
from tracelab.report.summary.figures import (
    FIGURE_QUERIES,
    GPU_NOT_RECORDED,
    SERVING,
    STEPS,
    TIMELINE,
    WITHOUT_GPU,
    WORK_QUERIES,
    Figure,
    Rows,
    compute_figures,
    compute_step_time,
    describe_work,
    has_timeline,
    measure_slowdown,
    name_latencies,
)
from tracelab.report.summary.lead import FoundLeads, Lead
from tracelab.report.summary.leads import SlowedSteps, find_leads
from tracelab.report.summary.losses import compute_losses, describe_balance
from tracelab.report.summary.settings import LEAST_COMPARABLE, fetch_settings
from tracelab.report.summary.utilization import submit_utilization
from tracelab.report.table_cache import cache_small_tables
from tracelab.report.windows import MeasuredTime, create_windows, measured_times
from tracelab.resources import QUERIES
from tracelab.store import execution
from tracelab.store.scope.request import Scope
from tracelab.store.scope.start_up import StartUp, find_start_ups

_LOSSES = ("exposed communication", "host-bound", "waiting for data")
_EVENTS = (*TIMELINE, "steps")
_NOTHING_RECORDED = "No timeline is recorded."
_ONLY_STEPS = "Only the times of steps are recorded, and no timeline: what they spend their time on is not known."
_SERVING_SQL = (QUERIES / "summary" / "serving.sql").read_text(encoding="utf-8")
_FIGURES = frozenset({*FIGURE_QUERIES, *WORK_QUERIES, "cpu_breakdown"})
"""Queries of the figures, of the work, and of the measured time."""


@dataclass(frozen=True)
class RunSummary:
    """What matters in one run; `leads` are the findings that cost 1 % or more, the largest first.

    `note` states why there is none, or no figure.
    """

    run: str
    description: str
    figures: tuple[Figure, ...]
    work: str
    """The classes of kernels, else the ops, with most of the time, and their shares of it."""
    leads: tuple[Lead, ...]
    note: str
    window_ns: float | None = None
    """The measured time, of which costs are shares: the windows of all GPUs, else of the ranks on the CPU, added up."""
    balance: str = ""
    """What the measured time is spent on, how much of what is lost the findings explain, and how many are left out."""
    has_all: bool = False
    """Whether a list of the findings is whole."""
    step_ns: float | None = None
    """The mean step, of which shares of replays and of whole steps are costs per step; None without steps."""
    next_commands: tuple[str, ...] = ()
    """What shows more where there is no finding."""
    settings: Hashable | None = None
    """What the run has in common with those whose step times should agree with its own; None among few runs."""
    commands: StoreCommands = DEFAULT_STORE
    """Commands on the store of the run."""
    unranked: tuple[Lead, ...] = ()
    """Findings that are noted and not ranked: the cause is not recorded, or they are no loss to mend."""
    start: str = ""
    """How long the recorded start of the program is, whether it counts, and how to change that; empty if unknown."""
    start_ns: int | None = None
    """How long it is."""
    lacks_start: bool = False
    """Whether the figures leave it out."""
    ended: tuple[str, ...] = ()
    """A status other than ok, how the recording differs from the request, and that threads waited for cores;
    `description` has it, too."""
    measured_step_ns: float | None = None
    """The part of the mean step that the windows cover, of which a share of the measured time is a cost per step."""

    def cost_per_step_ns(self, share: float, *, is_of_whole_steps: bool) -> int | None:
        """Return what a share of the measured time, or of whole steps, is per step; None without steps."""
        step_ns = self.step_ns if is_of_whole_steps else self.measured_step_ns
        return None if step_ns is None else round(share * step_ns)

    @property
    def lacks_timeline(self) -> bool:
        """Return whether no timeline is recorded, so that no finding can be made."""
        return not self.figures or self.note == _ONLY_STEPS

    @property
    def has_unrecorded_gpu(self) -> bool:
        """Return whether the run has a GPU of which no activity is recorded."""
        return any(each.text == GPU_NOT_RECORDED for each in self.figures)

    @property
    def has_gpu(self) -> bool:
        """Return whether the run has GPU activity, and the figures are those of its GPUs."""
        return not any(each.text in WITHOUT_GPU for each in self.figures)


def needed_queries() -> list[Query]:
    """Return the queries that a summary runs: those of the figures, and those with a finding that may lead."""
    return [
        each
        for name, each in library.library().items()
        if name in _FIGURES or any(f.cost and f.cost.leads for f in (each.report.findings if each.report else ()))
    ]


def summarize(
    store: Path,
    runs: tuple[str, ...] = (),
    *,
    aligned: bool = False,
    all_findings: bool = False,
    scope: Scope | None = None,
) -> list[RunSummary]:
    """Summarize runs, by default all of the store; with `all_findings` texts list more findings than the first.

    With `scope`, only that part of each recording counts, with an empty one all of it; without it, what follows the
    start of a program where that is recorded. Raises NoDataError if the store or the scope is empty, or the store lacks
    one of the runs.
    """
    with open_report_session(store, runs, aligned=aligned, scope=scope) as opened:
        session = replace(opened, all_findings=all_findings)
        cache_small_tables(session.con, store)
        with session.open_workers() as workers:
            queries = workers.submit_queries(needed_queries())
            shapes = submit_utilization(workers, queries)
            answers = {each.query.name: each for each in (query.result() for query in queries)}
            utilization = shapes.result()
        return summarize_answers(session, answers, utilization)


def summarize_answers(
    session: ReportSession, answers: Mapping[str, Answer], utilization: pa.Table | None, *, compared: bool = False
) -> list[RunSummary]:
    """Summarize the runs of a session from the answers of the needed queries, and of `submit_utilization`.

    With `compared`, the step time is of the steps that count where these runs are compared; else of those that count in
    each run by itself.
    """
    tables = {name: answer.table for name, answer in answers.items()}
    tables["mfu"] = utilization
    missing = {name: answer.missing_reason for name, answer in answers.items() if tables[name] is None}
    tables |= {
        name: each.unshown for name, each in answers.items() if name == "stragglers" and each.unshown is not None
    }
    steps = execution.fetch_table(
        session.con,
        _steps_sql(compared=compared),
        {"runs": list(session.runs), "step_name": library.default_step_name()},
    )
    tables[STEPS] = steps
    if set(session.run_names) - set(steps["run"].to_pylist()):
        tables[SERVING] = execution.fetch_table(session.con, _SERVING_SQL, {"runs": list(session.runs)})
    needed = {query.name for query in needed_queries()}
    known = {
        name: (answer.query, answer.table)
        for name, answer in answers.items()
        if name in needed and answer.table is not None
    }
    of_runs = _rows_by_run(tables)
    step_times = {run: each for run, rows in of_runs.items() if (each := compute_step_time(rows[STEPS]))}
    gpus, cpus, exposure = (tables.get(name) for name in ("gpu_breakdown", "cpu_breakdown", "recoverable_exposure"))
    create_windows(session.con, gpus, cpus, step_times, exposure)
    losses = {run: compute_losses(rows) for run, rows in of_runs.items()}
    ceilings = {run: each.ceilings for run, each in losses.items()}
    start_ups = find_start_ups(session.con, [run for run in session.run_names if not of_runs.get(run, {}).get(STEPS)])
    times = measured_times(session.con)
    slowed = {
        run: SlowedSteps(slow.text, slow.other_ns, times[run].measured_step_ns, losses[run].busy)
        for run, rows in of_runs.items()
        if (slow := measure_slowdown(rows[STEPS])) and run in times
    }
    found = find_leads(session, known, ceilings, slowed, start_ups)
    summaries = [
        _summarize_run(
            session,
            run,
            of_runs.get(run, {}),
            missing,
            found.get(run, FoundLeads((), 0)),
            times.get(run, MeasuredTime(None, None, None)),
            start_up=start_ups.get(run),
        )
        for run in session.run_names
    ]
    if len(summaries) < LEAST_COMPARABLE:
        return summaries
    settings = fetch_settings(session.con)
    return [replace(each, settings=settings.get(each.run)) for each in summaries]


@cache
def _steps_sql(*, compared: bool) -> str:
    text = (QUERIES / "summary" / "steps.sql").read_text(encoding="utf-8")
    return text.replace("counted_steps_alone(", "counted_steps(") if compared else text


def _rows_by_run(tables: Mapping[str, pa.Table | None]) -> dict[str, dict[str, Rows]]:
    """Return by run and query the rows that the figures are computed from."""
    of_runs: dict[str, dict[str, Rows]] = defaultdict(lambda: defaultdict(list))
    for name in (*FIGURE_QUERIES, STEPS, SERVING, *WORK_QUERIES):
        table = tables.get(name)
        if table is None:
            continue
        columns = ["run", *WORK_QUERIES[name]] if name in WORK_QUERIES else table.column_names
        for row in table.select(columns).to_pylist():
            of_runs[row["run"]][name].append(row)
    return of_runs


def _summarize_run(
    session: ReportSession,
    run: str,
    answers: Mapping[str, Rows],
    missing: Mapping[str, str],
    found: FoundLeads,
    measured: MeasuredTime,
    *,
    start_up: StartUp | None,
) -> RunSummary:
    """Summarize a run from its rows by query, its findings, and its measured time."""
    start, start_ns = describe_start(session, run, start_up)
    lacks_start = run in session.starts_out_ns
    figures = compute_figures(
        answers, missing, measured.window_ns, lacks_start=lacks_start, is_scoped=bool(session.scope)
    )
    if _has_answers_of_prompts(session, run):
        figures = name_latencies(figures)
    recorded = answers.get("recordings", [])
    ended = tuple(describe_end(session, run))
    description = describe_run(recorded, ended)
    if not figures_known(figures) and not any(row[kind] for row in recorded for kind in _EVENTS):
        counted = any(row["metrics"] for row in recorded)
        note, names = (_NOTHING_RECORDED, ("recordings",))
        if counted:
            note, names = describe_counters(session, run), ("roofline",)
        names = ("profiler_summary",) if _has_summaries(session, run) else names
        following = tuple(session.commands.query(name, run=run) for name in names)
        return RunSummary(
            *(run, description, (), "", (), note, measured.window_ns),
            next_commands=following,
            commands=session.commands,
            ended=ended,
        )
    work = describe_work(answers)
    note = "" if found.leads else _no_lead(figures) if has_timeline(recorded) else _ONLY_STEPS
    following = () if found.leads or not work else (session.commands.query(_query_of_work(work), run=run),)
    balance = describe_balance(compute_losses(answers), found)
    return RunSummary(
        *(run, description, tuple(figures), work, found.leads, note),
        *(measured.window_ns, balance, session.all_findings, measured.step_ns),
        next_commands=following,
        commands=session.commands,
        unranked=found.unranked,
        start=start,
        start_ns=start_ns,
        lacks_start=lacks_start,
        ended=ended,
        measured_step_ns=measured.measured_step_ns,
    )


def figures_known(figures: Sequence[Figure]) -> bool:
    """Return whether any figure has a value."""
    return any(each.value for each in figures)


def _has_summaries(session: ReportSession, run: str) -> bool:
    """Return whether a run has sums that a profiler computed itself."""
    return bool(session.con.execute("select 1 from summaries where run = $run limit 1", {"run": run}).fetchall())


def _has_answers_of_prompts(session: ReportSession, run: str) -> bool:
    """Return whether a workload of inference measured its prefills and decodes."""
    sql = "select 1 from steps where run = $run and phase in ('prefill', 'decode') limit 1"
    return bool(session.con.execute(sql, {"run": run}).fetchall())


def _query_of_work(work: str) -> str:
    """Return the query that has the kernels or ops that a text lists by class."""
    return "kernel_summary" if work.startswith("Time") else "op_summary"


def _no_lead(figures: Sequence[Figure]) -> str:
    least = f"No finding costs {100 * LEAST_SHARE:.0f} % of the measured time or more"
    if not any(each.text in WITHOUT_GPU for each in figures):
        known = ""  # the balance has all losses
    else:
        losses = [each for each in figures if each.name in _LOSSES and each.value]
        largest = max(losses, key=lambda each: each.value or 0, default=None)
        known = f" (the largest: {largest.name} {largest.text})" if largest else ""
    return f"{least}{known}."
