"""Rank the findings of a run by the share of its time that they could recover, each time counted once."""

import html
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote

import pyarrow as pa

from tracelab.query import library
from tracelab.query.report_rules import Finding
from tracelab.query.spec import Query
from tracelab.report.answers import ReportSession
from tracelab.report.findings import COST, COST_SHARE, HELD_ROWS, build_context, fill_sentence, matching_rows_sql
from tracelab.store import execution

_MOST_ROWS = 8
"""Rows of one finding that may lead: as many ranks may be late."""
_MOST_EXPLAINED = 0.5
"""A symptom of which causes explain a larger part is not shown beside them."""


@dataclass(frozen=True)
class Ceiling:
    """The largest share that findings of these topics can recover together."""

    topics: frozenset[str]
    share: float


@dataclass(frozen=True)
class Lead:
    """A finding about one run with the share of its time that it could recover at most.

    `rest` is the share that no finding with more detail explains.
    """

    query: str
    finding: Finding
    share: float
    rest: float
    rank: int | None
    step: int | None
    sentence: str
    """As HTML; `plain_text` strips it."""
    advice: str
    evidence: str
    next_command: str


def plain_text(rendered: str) -> str:
    """Return a rendered sentence without its markup."""
    text = html.unescape(re.sub(r"<[^>]+>", "", rendered)).replace("\u00a0", " ")
    return f"R{text[1:]}" if text.startswith("rank ") else text


def find_leads(
    session: ReportSession, run: str, answers: Mapping[str, tuple[Query, pa.Table]], ceilings: Sequence[Ceiling] = ()
) -> list[Lead]:
    """Return the findings about a run that cost at least the session's least share, the largest rest first.

    `ceilings` bound what findings of some topics cost together: waiting that computing hides costs nothing.
    """
    found: list[Lead] = []
    for query, table in answers.values():
        if query.report is None or "run" not in table.column_names:
            continue
        session.con.register("every_run", table)
        session.con.register("wanted", pa.table({"run": pa.array([run], pa.string())}))
        own = execution.fetch_table(session.con, "from every_run where run in (select run from wanted)")
        session.con.unregister("every_run")
        session.con.unregister("wanted")
        if not own.num_rows:
            continue
        session.con.register("answer", own)
        for finding in query.report.findings:
            if finding.cost and finding.cost.topics:
                found += _leads_of(session, run, query, finding, own)
        session.con.unregister("answer")
    return limit(explain(found, session.least_share), ceilings, session.least_share)


def limit(leads: Sequence[Lead], ceilings: Sequence[Ceiling], least_share: float) -> list[Lead]:
    """Scale down findings that together cost more than the figure that they are part of."""
    limited = list(leads)
    for ceiling in ceilings:
        inside = [lead for lead in limited if set(_topics(lead)) <= ceiling.topics]
        total = sum(lead.rest for lead in inside)
        if total > ceiling.share:
            limited = [
                replace(lead, rest=lead.rest * ceiling.share / total) if lead in inside else lead for lead in limited
            ]
    return sorted((lead for lead in limited if lead.rest >= least_share), key=lambda lead: -lead.rest)


def explain(found: Sequence[Lead], least_share: float) -> list[Lead]:
    """Subtract from each finding what others of its topics with more detail explain, and drop explained symptoms."""
    explained: dict[str, float] = defaultdict(float)
    leads = []
    details = sorted({_detail(lead) for lead in found}, reverse=True)
    for detail in details:
        level = [lead for lead in found if _detail(lead) == detail]
        kept = []
        for lead in level:
            rest = lead.share - sum(explained[topic] for topic in _topics(lead))
            if rest >= max(least_share, (1 - _MOST_EXPLAINED) * lead.share):
                kept.append(replace(lead, rest=rest))
        for lead in kept:
            for topic in _topics(lead):
                explained[topic] += lead.rest / len(_topics(lead))
        leads += kept
    return sorted(leads, key=lambda lead: -lead.rest)


def _detail(lead: Lead) -> int:
    return lead.finding.cost.detail if lead.finding.cost else 0


def _topics(lead: Lead) -> tuple[str, ...]:
    return lead.finding.cost.topics if lead.finding.cost else ()


def _leads_of(session: ReportSession, run: str, query: Query, finding: Finding, table: pa.Table) -> Iterator[Lead]:
    """Yield the leads of one finding: one of rows whose costs add up, else one for each rank."""
    cost = finding.cost
    adds = cost is not None and cost.adds
    every = replace(finding, most=1 if adds else _MOST_ROWS, each=None)
    rows = execution.fetch_table(
        session.con, matching_rows_sql(every, "", table.column_names, least_share=0 if adds else session.least_share)
    )
    if not rows.num_rows:
        return
    context = build_context(query, table, rows, several=False)
    for at, row in enumerate(rows.to_pylist()):
        share = _run_share(session, run, finding, table) if adds else row[COST_SHARE]
        if share is None or not session.least_share <= share <= 1:  # more than the window is no part of it
            continue
        others = row[HELD_ROWS] - 1 if adds else 0
        rank = None if others else row.get("rank")
        next_query = finding.next_query or query.name
        yield Lead(
            query.name,
            finding,
            share,
            share,
            row.get("rank"),
            row.get("step"),
            fill_sentence(finding.text, context, at) + _scope(others, query.name),
            fill_sentence(finding.advice, context, at) if finding.advice else "",
            f"`{finding.when}` holds for {row[HELD_ROWS]:,} of {table.num_rows:,} rows of {query.name}",
            next_command(next_query, run, rank),
        )


def _scope(others: int, query: str) -> str:
    return f" It is the largest of {others + 1:,} such rows of {query}, and the share is that of all." if others else ""


def next_command(name: str, run: str, rank: int | None) -> str:
    """Return the command that runs a query on the run, and on the rank where it takes one."""
    params = {param.name for param in library.find(name).params}
    options = f" --run {quote(run)}" if "run" in params else ""
    options += f" --rank {rank}" if "rank" in params and rank is not None and name != "rank_balance" else ""
    return f"tracelab query {name}{options}"


def _run_share(session: ReportSession, run: str, finding: Finding, table: pa.Table) -> float | None:
    """Return the cost of all matching rows as a share of what it is of, else of the windows of the run's devices."""
    rows = matching_rows_sql(replace(finding, most=table.num_rows, each=None), "", table.column_names, least_share=0)
    ((cost_ns,),) = session.con.sql(f'select sum("{COST}") from ({rows})').fetchall()
    if finding.cost is not None and finding.cost.of is not None:
        whole = session.con.sql(f"select sum({finding.cost.of})::double from answer").fetchall()
    else:
        whole = session.con.execute(
            "select window_ns from report.windows where run = ? and rank is null and device is null", [run]
        ).fetchall()
    return cost_ns / whole[0][0] if cost_ns is not None and whole and whole[0][0] else None
