"""Render the findings of a query's header for the rows of its result, each with what it costs the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tracelab.output.labels import Quantity, format_percent, format_scaled
from tracelab.query.report_rules import LEAST_SHARE, PLACEHOLDER, Finding, Report
from tracelab.query.spec import Query
from tracelab.report.answers import ReportSession
from tracelab.report.costs import (
    ADDED,
    CHECKED,
    CHECKED_OF_RUN,
    COST_SHARE,
    MATCHING,
    MEASURED_STEP,
    OF,
    STEP,
    matching_rows_sql,
)
from tracelab.report.html import count_in_file, escape_text, render_prose, render_value
from tracelab.report.sentences import FindingContext, build_context, fill_finding, fill_sentence
from tracelab.report.summary.lead import Lead, RunLeads, report_of
from tracelab.report.summary.leads import what_if_command
from tracelab.report.summary.symptoms import relate
from tracelab.report.windows import ensure_windows
from tracelab.store import execution

_MINOR = (
    f"<li class=minor>Not shown: findings about {{rows}} that cost less than {100 * LEAST_SHARE:.0f} % of the measured "
    "time."
)
FINDINGS_ON_PAPER = 3
"""Findings of a query on paper."""
_MOST_RUNS = 200
"""With more runs, the page shows the findings of the whole only."""
_ALONE = (
    "<p class=cut data-picked hidden>Findings on this run alone are in its own report, which the option --run "
    "writes.</p>"
)


@dataclass(frozen=True)
class _RuleCounts:
    """Number of rows for which each rule holds and does not; `open`: rows where a rule has no value."""

    rows: int
    held: tuple[int, ...]
    false: tuple[int, ...]
    open: int


def render_findings(session: ReportSession, query: Query, answer: pa.Table, leads: RunLeads | None = None) -> str:
    """Render the findings of the whole result, and of each run for the run selector.

    `leads` are the findings of each run's summary, to which costs refer.
    """
    if query.report is None or not query.report.findings:
        return ""
    of_runs = "run" in answer.column_names and len(session.run_names) > 1
    by_run = of_runs and len(session.run_names) <= _MOST_RUNS
    ensure_windows(session.con)
    session.con.register("answer", answer)
    findings = session.findings_of(query)
    counts = _count_rules(session, findings, by_run=by_run)
    items: dict[str | None, list[str]] = {}
    for at, finding in enumerate(findings):
        for scope in ("", "run") if by_run else ("",):
            rows = (
                execution.fetch_table(
                    session.con,
                    matching_rows_sql(finding, scope, answer.column_names, row_key=query.report.row_key),
                )
                if counts[None].held[at]
                else None
            )
            if rows is not None and rows.num_rows:
                context = build_context(query, answer, rows, several=session.several)
                for row, place in enumerate(rows.to_pylist()):
                    run = place.get("run")
                    cost = render_cost(place, query, finding, (leads or {}).get(str(run), ()))
                    cost += _render_what_if(session, finding, place)
                    items.setdefault(run if scope else None, []).append(
                        _render_item(at, finding, context, row, cost, query, is_whole=not scope)
                    )
                if not scope and items[None][-1]:
                    items[None][-1] += _count_further(session, query, finding, rows)
    session.con.unregister("answer")
    lists = {
        run: limit_paper(items.get(run, [])) or _summarize_rules(query.report, findings, each)
        for run, each in counts.items()
    }
    return _wrap_lists(session, lists, of_runs=of_runs) + (_ALONE if of_runs and not by_run else "")


def limit_paper(items: Sequence[str]) -> str:
    """Render the items of a list, with a note on those that paper does not have."""
    shown = [item for item in items if item]
    if not (more := shown[FINDINGS_ON_PAPER:]):
        return "".join(shown)
    note = f"<li class=paper>{count_in_file(len(more), 'finding[s]')}"
    screen = [item.replace("<li ", "<li class=screen ", 1) for item in more]
    return "".join([*shown[:FINDINGS_ON_PAPER], *screen, note])


def _wrap_lists(session: ReportSession, lists: Mapping[str | None, str], *, of_runs: bool) -> str:
    """Render the list of the whole, then those of runs by position in the selector; equal lists once."""
    overall = lists[None]
    parts = [f"<ul class=query-findings{' data-all' * of_runs}>{overall}</ul>"] if overall else []
    positions: dict[str, list[str]] = {}
    for position, run in enumerate(session.run_names):
        if of_runs and lists.get(run):
            positions.setdefault(lists[run], []).append(str(position))
    parts += [
        f'<ul class=query-findings data-only="{" ".join(places)}" hidden>{each}</ul>'
        for each, places in positions.items()
    ]
    return "".join(parts)


def _count_rules(session: ReportSession, findings: Sequence[Finding], *, by_run: bool) -> dict[str | None, _RuleCounts]:
    """Count the rules over all rows (None) and over the rows of each run."""
    many = len(findings)
    ruled = ", ".join(f"({finding.when}) as rule_{at}" for at, finding in enumerate(findings))
    counts = ", ".join(f"count(*) filter ({no}rule_{at})" for no in ("", "not ") for at in range(many))
    opened = " or ".join(f"rule_{at} is null" for at in range(many))
    scope, group = ("run", "group by grouping sets ((), (run))") if by_run else ("null", "")
    rows = session.con.sql(
        f"with ruled as (select {scope} as run, {ruled} from answer)\n"
        f"select {scope}, count(*), count(*) filter ({opened}), {counts} from ruled {group}"
    ).fetchall()
    return {
        run: _RuleCounts(every, tuple(each[:many]), tuple(each[many:]), unknown) for run, every, unknown, *each in rows
    }


def _summarize_rules(report: Report, findings: Sequence[Finding], counts: _RuleCounts) -> str:
    """Return the text if no rule holds: all fine if each is false for some row, else what is unknown."""
    if any(counts.held):
        return (
            _MINOR.format(rows=report.count_rows(sum(counts.held)))
            if any(each.cost for each in report.findings)
            else ""
        )
    undecided = [each.when for each, false in zip(findings, counts.false, strict=True) if not (false or each.rule)]
    if undecided and report.unknown:
        rules = ", ".join(f"<code>{escape_text(when)}</code>" for when in undecided)
        return (
            f"<li class=unknown>{render_prose(report.unknown)} <small>No row has a value for the rule {rules}.</small>"
        )
    note = f" <small>Known of {counts.rows - counts.open:,} of {counts.rows:,} rows.</small>" if counts.open else ""
    return f"<li class=fine>{render_prose(report.ok_text)}{note}" if report.ok_text and not undecided else ""


def _render_item(
    at: int, finding: Finding, rows: FindingContext, row: int, cost: str, query: Query, *, is_whole: bool
) -> str:
    """Render a finding: sentence, advice, and rule with threshold and number of rows.

    Parts that the lists of all runs share appear in the whole's list only, where a script finds them.

    """
    if any(rows.exact[name][row] is None for name in finding.required):  # no number, which SQL takes for a value
        return ""
    group = (
        f" where {escape_text(finding.each)} is {escape_text(rows.formatted[finding.each][row])}"
        if finding.each
        else ""
    )
    report = report_of(query)
    matching, checked, of_run = (int(rows.exact[name][row] or 0) for name in (MATCHING, CHECKED, CHECKED_OF_RUN))
    count = f"{matching:,} of {report.count_rows(checked)}{group}"
    sentence = fill_finding(finding, rows, row, report, of_run)
    advice = f" <span class=advice>{fill_sentence(finding.advice, rows, row)}</span>" if finding.advice else ""
    advice = f"{cost}{advice}"
    if is_whole:
        rule, held = (
            (finding.when, "true for") if finding.rule is None else (finding.rule, "not true, with a cost, for")
        )
        why = (
            "<details class=why><summary>Why?</summary> "
            f"Rule: <code>{escape_text(rule)}</code>, {held} <span>{count}</span>. "
            f'<a href="#sql-{query.name}">SQL</a></details>'
        )
        return f"<li data-finding={at}>{sentence}{advice} {why}"
    own_advice = advice if PLACEHOLDER.search(finding.advice or "") else cost
    return f'<li data-finding={at} data-count="{count}">{sentence}{own_advice}'


def _count_further(session: ReportSession, query: Query, finding: Finding, rows: pa.Table) -> str:
    """Render how many rows match that a list of the first ones leaves out, and the command that has all."""
    more = int(rows.column(MATCHING)[0].as_py() or 0) - rows.num_rows
    if finding.most == 1 or finding.each or more <= 0:
        return ""
    command = escape_text(session.commands.query(query.name))
    return f"<p class=further>… and {report_of(query).count_rows(more)} more. All: <code>{command}</code></p>"


def render_cost(row: Mapping[str, Any], query: Query, finding: Finding, leads: Sequence[Lead]) -> str:
    """Render what a finding costs its run: as the summary has it, as a symptom of its findings, or by itself."""
    share = row[COST_SHARE]
    if share is None or finding.cost is None or query.report is None:
        return ""
    if not finding.cost.ranked:
        return f" <span class=cost>Noted, not ranked: {_amount(share, row)}.</span>"
    relation = relate(leads, query.name, finding, row.get("rank"))
    if relation.is_lead is not None:
        number, lead = relation.is_lead, leads[relation.is_lead - 1]
        if relation.part:
            amount = _amount(relation.part, row)
            return f" <span class=cost>Part of finding {number} of the summary: {amount}.</span>"
        amount = _amount(lead.recoverable, row, is_replayed=lead.is_replayed)
        return f" <span class=cost>Finding {number} of the summary: {amount}.</span>"
    if relation.is_symptom(share):
        return f" <span class=cost>Symptom of {relation.causes}: {_amount(share, row)}.</span>"
    added = f", in {query.report.count_rows(row[ADDED])} in total" if row[ADDED] > 1 else ""
    part = "is" if len(relation.numbers) + relation.has_unranked == 1 else "are"
    known = f"; {relation.causes} {part} part of it" if relation.causes else ""
    kind, rank = ("Cost:", "") if finding.cost.leads else ("Bound: at most", "; the summary does not rank it")
    return f" <span class=cost>{kind} {_amount(share, row)}{added}{known}{rank}.</span>"


def _render_what_if(session: ReportSession, finding: Finding, row: Mapping[str, Any]) -> str:
    """Render the command that replays the run without the loss, where a change of what_if removes it."""
    command = what_if_command(session, finding, str(row.get("run")), row.get("rank"))
    return f" <small>Without it: <code>{escape_text(command)}</code></small>" if command else ""


def _amount(share: float, row: Mapping[str, Any], *, is_replayed: bool = False) -> str:
    step_ns = row[STEP if is_replayed or row[OF] is not None else MEASURED_STEP]
    of = "by a replay" if is_replayed else "of the run's measured time"
    of_run = f"{render_value(format_percent(share), str(share))} {of}"
    if step_ns is None:
        return of_run
    per_step_ns = round(share * step_ns)
    per_step = render_value(format_scaled(per_step_ns, Quantity.DURATION), f"{per_step_ns} ns")
    return f"{of_run}, {per_step} a step on average"
