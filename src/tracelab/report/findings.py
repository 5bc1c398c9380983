"""Render the findings of a query's header for the rows of its result, with values and shares."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tracelab.output.labels import escape_controls, shorten
from tracelab.output.plain_values import exact_text, to_plain
from tracelab.output.text_table import format_cells
from tracelab.output.units import column_unit
from tracelab.plot.labels import IDENTITY, LABEL_CELLS, varying_columns
from tracelab.query.report_rules import CLAUSE, PLACEHOLDER, WHERE, Finding, Report
from tracelab.query.spec import Query
from tracelab.report.answers import ReportSession
from tracelab.report.html import escape_text, render_prose, render_value
from tracelab.report.table import format_percent

SHARE = "\x1bshare "  # no column is called so
_CALLED = {"run": "{}", "before": "before: {}", "after": "after: {}", "rank": "rank {}", "device": "GPU {}"}
_ONE = re.compile(r"^ (call|block|cell|pair|event|kernel|launch|step|epoch|class)(?:es|s)\b")


@dataclass(frozen=True)
class FindingContext:
    """Rows of one finding: by column, exact values and formatted ones.

    `places` identifies each row where there are several; `nouns` names it otherwise.

    """

    exact: Mapping[str, Sequence[str | None]]
    shown: Mapping[str, Sequence[str]]
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
    known = [name for name in IDENTITY if name in answer.column_names]
    differ = varying_columns(answer.select(known).to_pylist(), known)
    telling = [name for name in known if name in differ or (name == "run" and several)]
    return [
        " · ".join(
            _CALLED[name].format(shorten(escape_controls(str(row[name])), LABEL_CELLS))
            if row[name] is not None
            else host
            for name in telling
            if row[name] is not None or (name == "device" and host)
        )
        or None
        for row in rows
    ]


def _noun(row: Mapping[str, object], host: str) -> str:
    if row.get("device") is not None:
        return "the GPU"
    return (f"the {host}" if host and "device" in row else "") or ("the process" if "rank" in row else "the run")


def fill_sentence(said: str, rows: FindingContext, row: int) -> str:
    """Render a sentence as HTML; a clause in [ ] is omitted if one of its values is NULL."""
    parts, at = [], 0
    for clause in CLAUSE.finditer(said):
        parts.append(_fill_text(said[at : clause.start()], rows, row))
        if all(_has_value(each, rows, row) for each in PLACEHOLDER.finditer(clause[1])):
            parts.append(_fill_text(clause[1], rows, row))
        at = clause.end()
    whole = "".join([*parts, _fill_text(said[at:], rows, row)])
    return whole[:1].upper() + whole[1:]


def _has_value(placeholder: re.Match[str], rows: FindingContext, row: int) -> bool:
    if placeholder["part"] == WHERE:
        return rows.places[row] is not None
    return all(rows.exact[name][row] is not None for name in (placeholder["part"], placeholder["whole"]) if name)


def _fill_text(said: str, rows: FindingContext, row: int) -> str:
    """Fill values into a text, with singular nouns after a count of one."""
    parts, at, is_one = [], 0, False
    for placeholder in PLACEHOLDER.finditer(said):
        parts += [
            _fix_singular(said[at : placeholder.start()], is_one=is_one),
            _render_placeholder(placeholder, rows, row),
        ]
        alone = placeholder["part"] != WHERE and not placeholder["whole"]
        at, is_one = placeholder.end(), alone and rows.exact[placeholder["part"]][row] == "1"
    return "".join([*parts, _fix_singular(said[at:], is_one=is_one)])


def _fix_singular(said: str, *, is_one: bool) -> str:
    return render_prose(_ONE.sub(lambda word: f" {word[1]}", said) if is_one else said)


def _render_placeholder(placeholder: re.Match[str], rows: FindingContext, row: int) -> str:
    part, whole = placeholder["part"], placeholder["whole"]
    if part == WHERE:
        place = rows.places[row]
        return rows.nouns[row] if place is None else f"<b>{escape_text(place)}</b>"
    if whole is not None:
        share = rows.exact[SHARE + placeholder[0]][row]
        terms = " of ".join(render_value(rows.shown[name][row], rows.exact[name][row] or "") for name in (part, whole))
        return f"{render_value(format_percent(float(share)), share)} ({terms})" if share else terms
    known = rows.exact[part][row] or ""
    shown = format_percent(float(known)) if placeholder["percent"] else _append_unit(part, rows.shown[part][row])
    return render_value(shown, known)


def _append_unit(column: str, shown: str) -> str:
    """Append the unit to a rate, which otherwise has it in the column's name only."""
    symbol = column_unit(column)
    return f"{shown} {symbol}" if symbol else shown


_RULE, _HELD, _ALL = "\x1brule", "\x1bheld", "\x1ball"
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


def render_findings(asking: ReportSession, query: Query, answer: pa.Table) -> str:
    """Render the findings of the whole result, and of each run for the run selector."""
    if query.report is None or not query.report.findings:
        return ""
    of_runs = "run" in answer.column_names and len(asking.shown) > 1
    by_run = of_runs and len(asking.shown) <= _MOST_RUNS
    asking.con.register("answer", answer)
    judged = _count_rules(asking, query.report, by_run=by_run)
    told: dict[str | None, list[str]] = {}
    for at, say in enumerate(query.report.findings):
        for scope in ("", "run") if by_run else ("",):
            rows = asking.con.sql(_matching_rows_sql(say, scope)).to_arrow_table() if judged[None].held[at] else None
            if rows is not None and rows.num_rows:
                runs = rows.column("run").to_pylist() if scope else [None] * rows.num_rows
                written = build_context(query, answer, rows, several=asking.several)
                for row, run in enumerate(runs):
                    told.setdefault(run, []).append(_render_item(at, say, written, row, is_whole=run is None))
    asking.con.unregister("answer")
    said = {run: "".join(told.get(run, [])) or _summarize_rules(query.report, each) for run, each in judged.items()}
    return _wrap_lists(asking, said, of_runs=of_runs) + (_ALONE if of_runs and not by_run else "")


def _wrap_lists(asking: ReportSession, said: Mapping[str | None, str], *, of_runs: bool) -> str:
    """Render the list of the whole, then those of runs by position in the selector; equal lists once."""
    whole = said[None]
    lists = [f"<ul class=query-findings{' data-all' * of_runs}>{whole}</ul>"] if whole else []
    places: dict[str, list[str]] = {}
    for place, run in enumerate(asking.shown):
        if of_runs and said.get(run):
            places.setdefault(said[run], []).append(str(place))
    lists += [
        f'<ul class=query-findings data-only="{" ".join(those)}" hidden>{each}</ul>' for each, those in places.items()
    ]
    return "".join(lists)


def _count_rules(asking: ReportSession, report: Report, *, by_run: bool) -> dict[str | None, _RuleCounts]:
    """Count the rules over all rows (None) and over the rows of each run."""
    many = len(report.findings)
    ruled = ", ".join(f"({say.when}) as rule_{at}" for at, say in enumerate(report.findings))
    counts = ", ".join(f"count(*) filter ({no}rule_{at})" for no in ("", "not ") for at in range(many))
    opened = " or ".join(f"rule_{at} is null" for at in range(many))
    scope, group = ("run", "group by grouping sets ((), (run))") if by_run else ("null", "")
    rows = asking.con.sql(
        f"with ruled as (select {scope} as run, {ruled} from answer)\n"
        f"select {scope}, count(*), count(*) filter ({opened}), {counts} from ruled {group}"
    ).fetchall()
    return {
        run: _RuleCounts(every, tuple(each[:many]), tuple(each[many:]), unknown) for run, every, unknown, *each in rows
    }


def _summarize_rules(report: Report, judged: _RuleCounts) -> str:
    """Return the text if no rule holds: all fine if each is false for some row, else what is unknown."""
    if any(judged.held):
        return ""
    undecided = [say.when for say, false in zip(report.findings, judged.false, strict=True) if not false]
    if undecided and report.unknown:
        rules = ", ".join(f"<code>{escape_text(when)}</code>" for when in undecided)
        return (
            f"<li class=unknown>{render_prose(report.unknown)} <small>No row has a value for the rule {rules}.</small>"
        )
    but = f" <small>Known of {judged.rows - judged.open:,} of {judged.rows:,} rows.</small>" if judged.open else ""
    return f"<li class=fine>{render_prose(report.ok_text)}{but}" if report.ok_text and not undecided else ""


def _render_item(at: int, say: Finding, rows: FindingContext, row: int, *, is_whole: bool) -> str:
    """Render a finding: sentence, advice, and rule with threshold and number of rows.

    Parts that the lists of all runs share appear in the whole's list only, where a script finds them.

    """
    if any(rows.exact[name][row] is None for name in say.required):  # no number, which SQL takes for a value
        return ""
    alike = f" where {escape_text(say.each)} is {escape_text(rows.shown[say.each][row])}" if say.each else ""
    held = f"{rows.shown[_HELD][row]} of {rows.shown[_ALL][row]} rows{alike}"
    said = fill_sentence(say.text, rows, row)
    attempt = f" <span class=try>{fill_sentence(say.advice, rows, row)}</span>" if say.advice else ""
    if is_whole:
        rule = f"<small>Rule: <code>{escape_text(say.when)}</code>, so in <span>{held}</span>.</small>"
        return f"<li data-say={at}>{said}{attempt} {rule}"
    own = attempt if PLACEHOLDER.search(say.advice or "") else ""
    return f'<li data-say={at} data-held="{held}">{said}{own}'


def _matching_rows_sql(say: Finding, scope: str) -> str:
    """Return SQL for the first matching rows, overall or per run, with counts and the shares in the text."""
    wholes = {found[0]: found for found in PLACEHOLDER.finditer(say.text + (say.advice or "")) if found["whole"]}
    shares = "".join(
        f', {each["part"]} / nullif({each["whole"]}, 0) as "{SHARE}{said}"' for said, each in wholes.items()
    )
    order = f"order by ({say.by}) desc nulls last"
    alike, within = (_partition_clause(*names) for names in ((scope, say.each or ""), (scope,)))
    tellable = "".join(f' and "{name}" is not null' for name in say.required)
    return (
        f'with rules as (\n    select *, coalesce(({say.when}), false) as "{_RULE}"{shares} from answer\n),\n'
        f'counted as (\n    select *, count(*) over ({alike}) as "{_ALL}",\n'
        f'        count(*) filter ("{_RULE}") over ({alike}) as "{_HELD}"\n    from rules\n),\n'
        f'firsts as (\n    from counted where "{_RULE}"{tellable} qualify row_number() over ({alike} {order}) <= '
        f"{1 if say.each else say.most}\n)\n"
        f"from firsts\nqualify row_number() over ({within} {order}) <= {say.most}\n{order}"
    )


def _partition_clause(*names: str) -> str:
    told = ", ".join(f'"{name}"' for name in names if name)
    return f"partition by {told}" if told else ""
