"""Collect the findings of all queries about each run, and rank them."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.output.commands import StoreCommands
from tracelab.output.labels import IDENTITY, Quantity, format_percent, format_scaled
from tracelab.query import library
from tracelab.query.report_rules import LEAST_SHARE, Finding
from tracelab.query.spec import Query
from tracelab.report.answers import ReportSession, findings_and_within
from tracelab.report.costs import ADDED, CHECKED_OF_RUN, COST, COST_SHARE, KEPT, MATCHING, OF, WHOLE, matching_rows_sql
from tracelab.report.sentences import FindingContext, build_context, fill_finding, fill_sentence
from tracelab.report.summary.lead import Ceiling, FoundLeads, Lead, report_of
from tracelab.report.summary.ranking import rank_leads
from tracelab.report.summary.replays import change_of, replay_leads
from tracelab.report.windows import mean_windows_ns
from tracelab.store import execution
from tracelab.store.scope.start_up import StartUp

_SLOWED_TOPICS = frozenset({"host", "launches", "dependency"})
"""What time is lost to where recording makes the CPU side slower: waits for launches, and for synchronizations."""
_LARGE_PART = 0.5
"""A finding names the start of a program that may be this part of its time."""
_COMPARES_RANKS = frozenset({"rank_balance"})
"""Queries that compare the ranks of a run, so that the row of one rank alone shows little."""


@dataclass(frozen=True)
class SlowedSteps:
    """That recording slows the steps of a run, in words, and how long one takes that is not recorded.

    Of the mean recorded step, as far as the windows cover it, `busy` is the share in which a GPU works.
    """

    text: str
    other_ns: float
    measured_step_ns: float | None
    busy: float | None

    @property
    def work(self) -> str:
        """Return how long GPUs work for a recorded step; empty where that is not known."""
        if self.measured_step_ns is None or self.busy is None:
            return ""
        return f", of which GPU work takes {format_scaled(round(self.busy * self.measured_step_ns), Quantity.DURATION)}"


def find_leads(
    session: ReportSession,
    answers: Mapping[str, tuple[Query, pa.Table]],
    ceilings: Mapping[str, Sequence[Ceiling]],
    slowed: Mapping[str, SlowedSteps],
    start_ups: Mapping[str, StartUp],
) -> dict[str, FoundLeads]:
    """Return by run the findings that cost at least the least share, the largest rest first, and count the others.

    `ceilings` bound by run what findings of some topics cost together: waiting that computing hides costs nothing.
    `slowed` has by run how much recording slows its steps, and `start_ups` how long its GPUs do little at first:
    findings about a late CPU side state it.
    Findings within the thresholds of their rules are among them and change no share of the others. Runs without any
    finding are left out.
    """
    ruled: dict[str, list[Lead]] = defaultdict(list)
    within: dict[str, list[Lead]] = defaultdict(list)
    small: dict[str, list[Lead]] = defaultdict(list)
    below: Counter[str] = Counter()
    devices_ns = mean_windows_ns(session.con)
    for query, table in answers.values():
        if query.report is None or "run" not in table.column_names:
            continue
        session.con.register("answer", table)
        leading = [each for each in findings_and_within(query) if each.cost and each.cost.leads]
        for finding in _select_costly(session, leading):
            leads, few = _leads_of(session, query, finding, table, devices_ns)
            for run, found in leads:
                each = replace(
                    found,
                    caveat=_describe_caveat(found, slowed.get(run), start_ups.get(run)),
                    is_slowed=run in slowed,
                    unrecorded=_describe_unrecorded(found, slowed.get(run)),
                )
                (small if each.share < LEAST_SHARE else ruled if finding.rule is None else within)[run].append(each)
            below += few
        session.con.unregister("answer")
    return {
        run: rank_leads(
            ruled[run],
            within[run],
            ceilings.get(run, ()),
            below[run],
            partial(replay_leads, session, run),
            small[run],
        )
        for run in {*ruled, *within, *below}
    }


def _describe_unrecorded(lead: Lead, slowed: SlowedSteps | None) -> str:
    """Return what a finding costs of a step that is not recorded; empty where that is not known."""
    if slowed is None or slowed.measured_step_ns is None or lead.is_of_steps:
        return ""
    cost_ns = lead.share * slowed.measured_step_ns
    cost, step = (format_scaled(round(each), Quantity.DURATION) for each in (cost_ns, slowed.other_ns))
    return f"{cost} of the {step} of a step that is not recorded, {format_percent(cost_ns / slowed.other_ns)}"


def _describe_caveat(lead: Lead, slowed: SlowedSteps | None, start_up: StartUp | None) -> str:
    """Return what time that is lost to a late CPU side includes: what recording costs, or the start of a program."""
    if not _SLOWED_TOPICS & set(lead.topics):
        return ""
    if slowed:
        costs = f"{slowed.text}{slowed.work}"
        return f"The loss includes what recording costs: {costs}, so that it is less without the profiler."
    if start_up and start_up.start_up_ns >= _LARGE_PART * lead.cost_ns:
        return f"Up to {start_up.describe(round(lead.cost_ns))}."
    return ""


def _select_costly(session: ReportSession, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that hold for some row of the answer at some cost.

    One statement for all of them: half are left out, and to plan the statement of each takes longer than its rows.
    """
    costs = ", ".join(
        f"case when ({each.when}) then {each.cost.ns} end as cost_{at}" for at, each in enumerate(findings) if each.cost
    )
    if not costs:
        return []
    some = ", ".join(f"count(*) filter (cost_{at} > 0)" for at in range(len(findings)))
    ((*rows,),) = session.con.execute(f"select {some} from (select {costs} from answer)").fetchall()
    return [finding for finding, count in zip(findings, rows, strict=True) if count]


def _leads_of(
    session: ReportSession, query: Query, finding: Finding, table: pa.Table, devices_ns: Mapping[str, float]
) -> tuple[list[tuple[str, Lead]], Counter[str]]:
    """Return the leads of one finding with their runs, and by run the number of those below the least share.

    Of these, the ones that a replay may show to gain more are leads, too: what they cost, added up over the devices, is
    the least share of the mean window of a device. A lead is for all rows whose costs add up. One statement covers all
    runs: planning it takes longer than its rows.
    """
    every = replace(finding, most=table.num_rows, each=None)
    rows = execution.fetch_table(
        session.con,
        matching_rows_sql(
            every, "run", table.column_names, least_share=0, by_cost=True, row_key=report_of(query).row_key
        ),
    )
    shares = [share or 0 for share in rows.column(COST_SHARE).to_pylist()]
    runs = [*map(str, rows.column("run").to_pylist())]
    below = Counter(run for run, share in zip(runs, shares, strict=True) if 0 < share < LEAST_SHARE)
    # more than the measured time is no part of it
    least = {run: LEAST_SHARE * window_ns for run, window_ns in devices_ns.items()} if _may_gain(finding) else {}
    costly = rows.filter(
        pa.array(
            [
                LEAST_SHARE <= share <= 1 or (0 < share < LEAST_SHARE and (cost or 0) >= least.get(run, math.inf))
                for run, share, cost in zip(runs, shares, rows.column(COST).to_pylist(), strict=True)
            ],
            pa.bool_(),
        )
    )
    leads = []
    for run in dict.fromkeys(costly.column("run").to_pylist()):
        own, all_rows = (each.filter(pc.equal(each.column("run"), run)) for each in (costly, table))
        context = build_context(query, all_rows, own, several=False)
        leads += [
            (str(run), _build_lead(session, query, finding, context, at, row)) for at, row in enumerate(own.to_pylist())
        ]
    return leads, below


def _may_gain(finding: Finding) -> bool:
    """Return whether a replay may show that a ranked finding gains more than it costs."""
    what_if = finding.what_if
    return what_if is not None and not what_if.is_bound and finding.cost is not None and finding.cost.ranked


def _build_lead(
    session: ReportSession,
    query: Query,
    finding: Finding,
    context: FindingContext,
    at: int,
    row: Mapping[str, Any],
) -> Lead:
    """Build the lead of a row, the one `at` a place in its context."""
    run, rank, share, added = str(row["run"]), row.get("rank"), row[COST_SHARE], row[ADDED]
    matching, checked = row[MATCHING], row[CHECKED_OF_RUN]
    following = _choose_next(session, query, finding, run)
    is_of_rank = added == 1 or (finding.cost is not None and "rank" in (finding.cost.adds or ()))
    figures = figures_command(session.commands, query, finding, run, rank if is_of_rank else None)
    return Lead(
        query=query.name,
        finding=finding,
        cost_ns=row[COST],
        whole_ns=row[WHOLE],
        added=added,
        share=share,
        hidden=row[COST] * (1 - row[KEPT]) / row[WHOLE],
        unexplained=share,
        rest=share,
        rank=rank,
        step=row.get(finding.step),
        sentence=fill_finding(finding, context, at, report_of(query), checked),
        brief=fill_finding(finding.without_details(), context, at, report_of(query), checked),
        advice=fill_sentence(finding.advice, context, at) if finding.advice else "",
        matching=matching,
        checked=checked,
        added_rows=report_of(query).count_rows(added),
        next_command=figures
        if following == query.name
        else next_command(session.commands, following, run, rank if is_of_rank else None),
        figures_command=figures,
        what_if_command=what_if_command(session, finding, run, rank),
        is_of_steps=row[OF] is not None,
    )


def _choose_next(session: ReportSession, query: Query, finding: Finding, run: str) -> str:
    """Return the first query that shows more of a finding and has rows of the run to read, else the finding's own."""
    for name in finding.next_queries:
        if len(finding.next_queries) == 1 or _has_rows(session, library.find(name).needs, run):
            return name
    return query.name


def _has_rows(session: ReportSession, tables: Sequence[str], run: str) -> bool:
    """Return whether one of the tables has rows of the run."""
    sql = " union all ".join(f"(select 1 from {table} where run = $run limit 1)" for table in tables)
    return bool(session.con.execute(sql, {"run": run}).fetchall())


def figures_command(commands: StoreCommands, query: Query, finding: Finding, run: str, rank: int | None) -> str:
    """Return the command that shows the figures of a finding on the run, and on the rank where it is about one."""
    places = [name for name in (*IDENTITY, finding.step) if name != "run" and name in query.columns]
    ruled = [name for name in query.columns if re.search(rf"\b{re.escape(name)}\b", finding.rule or finding.when)]
    columns = list(dict.fromkeys([*places, *ruled, *finding.figures]))
    sort = finding.cost.ns if finding.cost and finding.cost.ns in query.columns else None
    if sort is not None and sort not in columns:
        columns.append(sort)
    of_rank = rank if any(param.name == "rank" for param in query.params) else None
    return commands.query(
        query.name, run=run, rank=of_rank, columns=",".join(columns), sort=None if sort is None else f"-{sort}"
    )


def next_command(commands: StoreCommands, name: str, run: str, rank: int | None) -> str:
    """Return the command that runs a query on the run, and on the rank where it takes one."""
    params = {param.name for param in library.find(name).params}
    values = {"run": run, "rank": None if name in _COMPARES_RANKS else rank}
    return commands.query(name, **{param: value for param, value in values.items() if param in params})


def what_if_command(session: ReportSession, finding: Finding, run: str, rank: int | None) -> str | None:
    """Return the command that replays the run without the loss of a finding, None where no change removes it.

    The changes are of kernels, so there is none for a run on the CPU.
    """
    change = change_of(finding, rank)
    if change is None or not _has_rows(session, ("kernels",), run):
        return None
    return session.commands.query("what_if", run=run, **dict(change))
