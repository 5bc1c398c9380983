"""Render the findings of a query's header for the rows of its result, with values and shares."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tracelab.foreign_text import escape_controls
from tracelab.output.labels import IDENTITY, shorten
from tracelab.output.plain_values import exact_text, to_plain
from tracelab.output.text_table import format_cells
from tracelab.output.units import Quantity, column_unit, format_percent, format_scaled
from tracelab.plot.labels import LABEL_CELLS, varying_columns
from tracelab.query.report_rules import CLAUSE, LEAST_SHARE, PLACEHOLDER, WHERE, Finding, Report
from tracelab.query.spec import Query
from tracelab.report.answers import ReportSession
from tracelab.report.html import escape_text, render_prose, render_value
from tracelab.report.windows import ensure_windows
from tracelab.store import execution

SHARE = "\x1bshare "  # no column has this name
_CALLED = {"run": "{}", "before": "before: {}", "after": "after: {}", "rank": "rank {}", "device": "GPU {}"}
_ONE = re.compile(r"^ (call|block|cell|pair|event|kernel|launch|step|epoch|class)(?:es|s)\b")


@dataclass(frozen=True)
class FindingContext:
    """Rows of one finding: by column, exact values and formatted ones.

    `places` identifies each row where there are several; `nouns` names it otherwise.

    """

    exact: Mapping[str, Sequence[str | None]]
    formatted: Mapping[str, Sequence[str]]
    places: Sequence[str | None]
    nouns: Sequence[str]


def build_context(query: Query, answer: pa.Table, rows: pa.Table, *, several: bool) -> FindingContext:
    """Build the context of some rows of a result; `several`: the page has several runs."""
    host = "host" if query.chart and query.chart.host else ""
    identities = rows.select([name for name in IDENTITY if name in rows.column_names]).to_pylist()
    return FindingContext(
        {
            name: [None if each is None else exact_text(each) for each in to_plain(rows.column(name))]
            for name in rows.column_names
        },
        {field.name: format_cells(field, rows.column(at)) for at, field in enumerate(rows.schema)},
        _identify_rows(answer, identities, host, several=several),
        [_noun(row, host) for row in identities] or ["it"] * rows.num_rows,
    )


def _identify_rows(
    answer: pa.Table, rows: Sequence[dict[str, object]], host: str, *, several: bool
) -> list[str | None]:
    """Return run, rank and device of each row, where there are several."""
    identity = [name for name in IDENTITY if name in answer.column_names]
    differ = varying_columns(answer.select(identity).to_pylist(), identity)
    columns = [name for name in identity if name in differ or (name == "run" and several)]
    return [
        " · ".join(
            _CALLED[name].format(shorten(escape_controls(str(row[name])), LABEL_CELLS))
            if row[name] is not None
            else host
            for name in columns
            if row[name] is not None or (name == "device" and host)
        )
        or None
        for row in rows
    ]


def _noun(row: Mapping[str, object], host: str) -> str:
    if row.get("device") is not None:
        return "the GPU"
    return (f"the {host}" if host and "device" in row else "") or ("the process" if "rank" in row else "the run")


def fill_sentence(text: str, rows: FindingContext, row: int) -> str:
    """Render a sentence as HTML; a clause in [ ] is omitted if one of its values is NULL."""
    parts, at = [], 0
    for clause in CLAUSE.finditer(text):
        parts.append(_fill_text(text[at : clause.start()], rows, row))
        if all(_has_value(each, rows, row) for each in PLACEHOLDER.finditer(clause[1])):
            parts.append(_fill_text(clause[1], rows, row))
        at = clause.end()
    sentence = "".join([*parts, _fill_text(text[at:], rows, row)])
    return sentence[:1].upper() + sentence[1:]


def _has_value(placeholder: re.Match[str], rows: FindingContext, row: int) -> bool:
    if placeholder["part"] == WHERE:
        return rows.places[row] is not None
    return all(rows.exact[name][row] is not None for name in (placeholder["part"], placeholder["whole"]) if name)


def _fill_text(text: str, rows: FindingContext, row: int) -> str:
    """Fill values into a text, with singular nouns after a count of one."""
    parts, at, is_one = [], 0, False
    for placeholder in PLACEHOLDER.finditer(text):
        parts += [
            _fix_singular(text[at : placeholder.start()], is_one=is_one),
            _render_placeholder(placeholder, rows, row),
        ]
        is_plain = placeholder["part"] != WHERE and not placeholder["whole"]
        at, is_one = placeholder.end(), is_plain and rows.exact[placeholder["part"]][row] == "1"
    return "".join([*parts, _fix_singular(text[at:], is_one=is_one)])


def _fix_singular(text: str, *, is_one: bool) -> str:
    return render_prose(_ONE.sub(lambda word: f" {word[1]}", text) if is_one else text)


def _render_placeholder(placeholder: re.Match[str], rows: FindingContext, row: int) -> str:
    part, total = placeholder["part"], placeholder["whole"]
    if part == WHERE:
        place = rows.places[row]
        return rows.nouns[row] if place is None else f"<b>{escape_text(place)}</b>"
    if total is not None:
        share = rows.exact[SHARE + placeholder[0]][row]
        terms = " of ".join(
            render_value(rows.formatted[name][row], rows.exact[name][row] or "") for name in (part, total)
        )
        return f"{render_value(format_percent(float(share)), share)} ({terms})" if share else terms
    exact = rows.exact[part][row] or ""
    text = format_percent(float(exact)) if placeholder["percent"] else _append_unit(part, rows.formatted[part][row])
    return render_value(text, exact)


def _append_unit(column: str, text: str) -> str:
    """Append the unit to a rate, which otherwise has it in the column's name only."""
    symbol = column_unit(column)
    return f"{text} {symbol}" if symbol else text


_OF_WINDOWS = ("run", "rank", "device")
HELD_ROWS = "\x1bheld"
_RULE, _HELD, _ALL, _OF = "\x1brule", HELD_ROWS, "\x1ball", "\x1bof"
COST, COST_SHARE, STEP = "\x1bcost", "\x1bcost share", "\x1bstep"
"""Columns of matching rows: the cost in ns, its share of the window, and the length of a step in ns."""
_MINOR = (
    f"<li class=minor>What the rules find costs less than {LEAST_SHARE:.0%} of the window and is not shown; "
    "<code>tracelab report --all-findings</code> shows it."
)
_MOST_RUNS = 200
"""With more runs, the page shows the findings of the whole only."""
_ALONE = (
    "<p class=cut data-picked hidden>Findings on this run alone are in its own report: "
    "<code>tracelab report --run</code> and its name.</p>"
)


@dataclass(frozen=True)
class _RuleCounts:
    """Number of rows for which each rule holds and does not; `open`: rows where a rule has no value."""

    rows: int
    held: tuple[int, ...]
    false: tuple[int, ...]
    open: int


def render_findings(session: ReportSession, query: Query, answer: pa.Table) -> str:
    """Render the findings of the whole result, and of each run for the run selector."""
    if query.report is None or not query.report.findings:
        return ""
    of_runs = "run" in answer.column_names and len(session.run_names) > 1
    by_run = of_runs and len(session.run_names) <= _MOST_RUNS
    ensure_windows(session.con)
    session.con.register("answer", answer)
    counts = _count_rules(session, query.report, by_run=by_run)
    items: dict[str | None, list[str]] = {}
    sql = f"#sql-{query.name}"
    for at, finding in enumerate(query.report.findings):
        for scope in ("", "run") if by_run else ("",):
            rows = (
                execution.fetch_table(
                    session.con,
                    matching_rows_sql(finding, scope, answer.column_names, least_share=session.least_share),
                )
                if counts[None].held[at]
                else None
            )
            if rows is not None and rows.num_rows:
                runs = rows.column("run").to_pylist() if scope else [None] * rows.num_rows
                context = build_context(query, answer, rows, several=session.several)
                for row, run in enumerate(runs):
                    items.setdefault(run, []).append(_render_item(at, finding, context, row, sql, is_whole=run is None))
    session.con.unregister("answer")
    lists = {run: "".join(items.get(run, [])) or _summarize_rules(query.report, each) for run, each in counts.items()}
    return _wrap_lists(session, lists, of_runs=of_runs) + (_ALONE if of_runs and not by_run else "")


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


def _count_rules(session: ReportSession, report: Report, *, by_run: bool) -> dict[str | None, _RuleCounts]:
    """Count the rules over all rows (None) and over the rows of each run."""
    many = len(report.findings)
    ruled = ", ".join(f"({finding.when}) as rule_{at}" for at, finding in enumerate(report.findings))
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


def _summarize_rules(report: Report, counts: _RuleCounts) -> str:
    """Return the text if no rule holds: all fine if each is false for some row, else what is unknown."""
    if any(counts.held):
        return _MINOR if any(finding.cost for finding in report.findings) else ""
    undecided = [finding.when for finding, false in zip(report.findings, counts.false, strict=True) if not false]
    if undecided and report.unknown:
        rules = ", ".join(f"<code>{escape_text(when)}</code>" for when in undecided)
        return (
            f"<li class=unknown>{render_prose(report.unknown)} <small>No row has a value for the rule {rules}.</small>"
        )
    note = f" <small>Known of {counts.rows - counts.open:,} of {counts.rows:,} rows.</small>" if counts.open else ""
    return f"<li class=fine>{render_prose(report.ok_text)}{note}" if report.ok_text and not undecided else ""


def _render_item(at: int, finding: Finding, rows: FindingContext, row: int, sql: str, *, is_whole: bool) -> str:
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
    count = f"{rows.formatted[_HELD][row]} of {rows.formatted[_ALL][row]} rows{group}"
    sentence = fill_sentence(finding.text, rows, row)
    advice = f" <span class=advice>{fill_sentence(finding.advice, rows, row)}</span>" if finding.advice else ""
    cost = render_cost(rows.exact[COST_SHARE][row], rows.exact[STEP][row])
    advice = f"{cost}{advice}"
    if is_whole:
        rule = (
            "<details class=why><summary>Why?</summary> "
            f"Rule: <code>{escape_text(finding.when)}</code>, true for <span>{count}</span>. "
            f'<a href="{sql}">SQL</a></details>'
        )
        return f"<li data-finding={at}>{sentence}{advice} {rule}"
    own_advice = advice if PLACEHOLDER.search(finding.advice or "") else cost
    return f'<li data-finding={at} data-count="{count}">{sentence}{own_advice}'


def render_cost(share: str | None, step_ns: str | None) -> str:
    """Render a cost as a share of the window, and as time of a step where steps are known."""
    if share is None:
        return ""
    value = float(share)
    of_window = f"{render_value(format_percent(value), share)} of the window"
    if step_ns is None:
        return f" <span class=cost>At stake: at most {of_window}.</span>"
    per_step_ns = round(value * float(step_ns))
    per_step = render_value(format_scaled(per_step_ns, Quantity.DURATION), f"{per_step_ns} ns")
    return f" <span class=cost>At stake: at most {per_step} of a step, {of_window}.</span>"


def matching_rows_sql(finding: Finding, scope: str, columns: Sequence[str], *, least_share: float = LEAST_SHARE) -> str:
    """Return SQL for the first matching rows, overall or per run, with counts, costs and the shares in the text.

    `columns` are those of the answer. Rows with a cost of a smaller share than `least_share` are left out.
    """
    ratios = {
        match[0]: match for match in PLACEHOLDER.finditer(finding.text + (finding.advice or "")) if match["whole"]
    }
    shares = "".join(
        f', {each["part"]} / nullif({each["whole"]}, 0) as "{SHARE}{placeholder}"'
        for placeholder, each in ratios.items()
    )
    group, partition = (_partition_clause(*names) for names in ((scope, finding.each or ""), (scope,)))
    cost = finding.cost
    return _MATCHING_ROWS.format(
        when=finding.when,
        shares=shares,
        cost_ns=cost.ns if cost else "null",
        of_ns=(cost and cost.of) or "null",
        same=" and ".join(
            f"w.{name} is not distinct from " + (f'r."{name}"' if name in columns else "null") for name in _OF_WINDOWS
        ),
        group=group,
        partition=partition,
        has_values="".join(f' and "{name}" is not null' for name in finding.required),
        least_share=least_share,
        order=f'order by "{COST_SHARE}" desc nulls last, ({finding.by}) desc nulls last',
        most_in_group=1 if finding.each else finding.most,
        most=finding.most,
    )


_MATCHING_ROWS = f"""\
with rules as (
    select *, coalesce(({{when}}), false) as "{_RULE}", ({{cost_ns}})::double as "{COST}",
        ({{of_ns}})::double as "{_OF}"{{shares}}
    from answer
),
costed as (
    select r.*, "{COST}" / nullif(coalesce("{_OF}", w.window_ns), 0) as "{COST_SHARE}", w.step_ns as "{STEP}"
    from rules as r
    left join report.windows as w on {{same}}
),
counted as (
    select *, count(*) over ({{group}}) as "{_ALL}", count(*) filter ("{_RULE}") over ({{group}}) as "{_HELD}"
    from costed
),
firsts as (
    from counted
    where "{_RULE}"{{has_values}} and coalesce("{COST_SHARE}", 1) >= {{least_share}}
    qualify row_number() over ({{group}} {{order}}) <= {{most_in_group}}
)
from firsts
qualify row_number() over ({{partition}} {{order}}) <= {{most}}
{{order}}"""


def _partition_clause(*names: str) -> str:
    columns = ", ".join(f'"{name}"' for name in names if name)
    return f"partition by {columns}" if columns else ""
