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
from tracelab.report.answers import Asking
from tracelab.report.html import prose, text, value
from tracelab.report.table import percent

SHARE = "\x1bshare "  # no column is called so
_CALLED = {"run": "{}", "before": "before: {}", "after": "after: {}", "rank": "rank {}", "device": "GPU {}"}
_ONE = re.compile(r"^ (call|block|cell|pair|event|kernel|launch|step|epoch|class)(?:es|s)\b")


@dataclass(frozen=True)
class Found:
    """The rows that a sentence is of: by column the exact values and what people read.

    `places` tells the rows apart where there are several to tell apart; `nouns` says what a row is about otherwise.
    """

    exact: Mapping[str, Sequence[str | None]]
    shown: Mapping[str, Sequence[str]]
    places: Sequence[str | None]
    nouns: Sequence[str]


def found(query: Query, answer: pa.Table, rows: pa.Table, *, several: bool) -> Found:
    """What there is to say of some rows of an answer; `several`: the page has several runs."""
    host = "host" if query.chart and query.chart.host else ""
    identities = rows.select([name for name in IDENTITY if name in rows.column_names]).to_pylist()
    return Found(
        {
            name: [None if each is None else exact_text(each) for each in to_plain(rows.column(name))]
            for name in rows.column_names
        },
        {field.name: format_cells(field, rows.column(at)) for at, field in enumerate(rows.schema)},
        _places(answer, identities, host, several=several),
        [_noun(row, host) for row in identities] or ["it"] * rows.num_rows,
    )


def _places(answer: pa.Table, rows: Sequence[dict[str, object]], host: str, *, several: bool) -> list[str | None]:
    """Of which run, rank and device each row is, as far as there are several."""
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


def filled(said: str, rows: Found, row: int) -> str:
    """The sentence as HTML; a clause in [ ] is left out where a value in it is missing."""
    parts, at = [], 0
    for clause in CLAUSE.finditer(said):
        parts.append(_written(said[at : clause.start()], rows, row))
        if all(_is_there(each, rows, row) for each in PLACEHOLDER.finditer(clause[1])):
            parts.append(_written(clause[1], rows, row))
        at = clause.end()
    whole = "".join([*parts, _written(said[at:], rows, row)])
    return whole[:1].upper() + whole[1:]


def _is_there(placeholder: re.Match[str], rows: Found, row: int) -> bool:
    if placeholder["part"] == WHERE:
        return rows.places[row] is not None
    return all(rows.exact[name][row] is not None for name in (placeholder["part"], placeholder["whole"]) if name)


def _written(said: str, rows: Found, row: int) -> str:
    """Prose with values in it; of what is counted, one is spoken of as one."""
    parts, at, is_one = [], 0, False
    for placeholder in PLACEHOLDER.finditer(said):
        parts += [_literal(said[at : placeholder.start()], is_one=is_one), _value(placeholder, rows, row)]
        alone = placeholder["part"] != WHERE and not placeholder["whole"]
        at, is_one = placeholder.end(), alone and rows.exact[placeholder["part"]][row] == "1"
    return "".join([*parts, _literal(said[at:], is_one=is_one)])


def _literal(said: str, *, is_one: bool) -> str:
    return prose(_ONE.sub(lambda word: f" {word[1]}", said) if is_one else said)


def _value(placeholder: re.Match[str], rows: Found, row: int) -> str:
    part, whole = placeholder["part"], placeholder["whole"]
    if part == WHERE:
        place = rows.places[row]
        return rows.nouns[row] if place is None else f"<b>{text(place)}</b>"
    if whole is not None:
        share = rows.exact[SHARE + placeholder[0]][row]
        terms = " of ".join(value(rows.shown[name][row], rows.exact[name][row] or "") for name in (part, whole))
        return f"{value(percent(float(share)), share)} ({terms})" if share else terms
    known = rows.exact[part][row] or ""
    shown = percent(float(known)) if placeholder["percent"] else _with_unit(part, rows.shown[part][row])
    return value(shown, known)


def _with_unit(column: str, shown: str) -> str:
    """A rate with its unit, which stands in the column's name alone."""
    symbol = column_unit(column)
    return f"{shown} {symbol}" if symbol else shown


_RULE, _HELD, _ALL = "\x1brule", "\x1bheld", "\x1ball"
_MOST_RUNS = 200
"""Of a page with more runs only the whole is told."""
_ALONE = (
    "<p class=cut data-picked hidden>What is said of this run alone stands in its own report: "
    "<code>tracelab report --run</code> and its name.</p>"
)


@dataclass(frozen=True)
class _Judged:
    """For how many rows each rule holds and is false, of how many rows; in `open` of them one has no value."""

    rows: int
    held: tuple[int, ...]
    false: tuple[int, ...]
    open: int


def sentences(asking: Asking, query: Query, answer: pa.Table) -> str:
    """What is said of the whole answer, and of each run for when it is picked."""
    if query.report is None or not query.report.findings:
        return ""
    of_runs = "run" in answer.column_names and len(asking.shown) > 1
    by_run = of_runs and len(asking.shown) <= _MOST_RUNS
    asking.con.register("answer", answer)
    judged = _judged(asking, query.report, by_run=by_run)
    told: dict[str | None, list[str]] = {}
    for at, say in enumerate(query.report.findings):
        for scope in ("", "run") if by_run else ("",):
            rows = asking.con.sql(_sql(say, scope)).to_arrow_table() if judged[None].held[at] else None
            if rows is not None and rows.num_rows:
                runs = rows.column("run").to_pylist() if scope else [None] * rows.num_rows
                written = found(query, answer, rows, several=asking.several)
                for row, run in enumerate(runs):
                    told.setdefault(run, []).append(_item(at, say, written, row, is_whole=run is None))
    asking.con.unregister("answer")
    said = {run: "".join(told.get(run, [])) or _verdict(query.report, each) for run, each in judged.items()}
    return _lists(asking, said, of_runs=of_runs) + (_ALONE if of_runs and not by_run else "")


def _lists(asking: Asking, said: Mapping[str | None, str], *, of_runs: bool) -> str:
    """The list of the whole, and behind it those of runs, by their places in the control; alike ones once."""
    whole = said[None]
    lists = [f"<ul class=says{' data-all' * of_runs}>{whole}</ul>"] if whole else []
    places: dict[str, list[str]] = {}
    for place, run in enumerate(asking.shown):
        if of_runs and said.get(run):
            places.setdefault(said[run], []).append(str(place))
    lists += [f'<ul class=says data-only="{" ".join(those)}" hidden>{each}</ul>' for each, those in places.items()]
    return "".join(lists)


def _judged(asking: Asking, report: Report, *, by_run: bool) -> dict[str | None, _Judged]:
    """How the rules judge all rows (None), and those of each run."""
    many = len(report.findings)
    ruled = ", ".join(f"({say.when}) as rule_{at}" for at, say in enumerate(report.findings))
    counts = ", ".join(f"count(*) filter ({no}rule_{at})" for no in ("", "not ") for at in range(many))
    opened = " or ".join(f"rule_{at} is null" for at in range(many))
    scope, group = ("run", "group by grouping sets ((), (run))") if by_run else ("null", "")
    rows = asking.con.sql(
        f"with ruled as (select {scope} as run, {ruled} from answer)\n"
        f"select {scope}, count(*), count(*) filter ({opened}), {counts} from ruled {group}"
    ).fetchall()
    return {run: _Judged(every, tuple(each[:many]), tuple(each[many:]), unknown) for run, every, unknown, *each in rows}


def _verdict(report: Report, judged: _Judged) -> str:
    """What is said where no rule holds: that all is fine, where each is false of some row; else what is not known."""
    if any(judged.held):
        return ""
    undecided = [say.when for say, false in zip(report.findings, judged.false, strict=True) if not false]
    if undecided and report.unknown:
        rules = ", ".join(f"<code>{text(when)}</code>" for when in undecided)
        return f"<li class=unknown>{prose(report.unknown)} <small>No row has a value for the rule {rules}.</small>"
    but = f" <small>Known of {judged.rows - judged.open:,} of {judged.rows:,} rows.</small>" if judged.open else ""
    return f"<li class=fine>{prose(report.ok_text)}{but}" if report.ok_text and not undecided else ""


def _item(at: int, say: Finding, rows: Found, row: int, *, is_whole: bool) -> str:
    """A sentence, what to try, and its rule with the threshold and the rows for which it holds.

    What is the same in the sentences of all runs stands in those of the whole alone, where a script finds it.
    """
    if any(rows.exact[name][row] is None for name in say.required):  # no number, which SQL takes for a value
        return ""
    alike = f" where {text(say.each)} is {text(rows.shown[say.each][row])}" if say.each else ""
    held = f"{rows.shown[_HELD][row]} of {rows.shown[_ALL][row]} rows{alike}"
    said = filled(say.text, rows, row)
    attempt = f" <span class=try>{filled(say.advice, rows, row)}</span>" if say.advice else ""
    if is_whole:
        rule = f"<small>Rule: <code>{text(say.when)}</code>, so in <span>{held}</span>.</small>"
        return f"<li data-say={at}>{said}{attempt} {rule}"
    own = attempt if PLACEHOLDER.search(say.advice or "") else ""
    return f'<li data-say={at} data-held="{held}">{said}{own}'


def _sql(say: Finding, scope: str) -> str:
    """The first rows for which the rule holds, in all or of each run, with counts and the shares that are named."""
    wholes = {found[0]: found for found in PLACEHOLDER.finditer(say.text + (say.advice or "")) if found["whole"]}
    shares = "".join(
        f', {each["part"]} / nullif({each["whole"]}, 0) as "{SHARE}{said}"' for said, each in wholes.items()
    )
    order = f"order by ({say.by}) desc nulls last"
    alike, within = (_partition(*names) for names in ((scope, say.each or ""), (scope,)))
    tellable = "".join(f' and "{name}" is not null' for name in say.required)
    return (
        f'with rules as (\n    select *, coalesce(({say.when}), false) as "{_RULE}"{shares} from answer\n),\n'
        f'counted as (\n    select *, count(*) over ({alike}) as "{_ALL}",\n'
        f'        count(*) filter ("{_RULE}") over ({alike}) as "{_HELD}"\n    from rules\n),\n'
        f'firsts as (\n    from counted where "{_RULE}"{tellable} qualify row_number() over ({alike} {order}) <= '
        f"{1 if say.each else say.most}\n)\n"
        f"from firsts\nqualify row_number() over ({within} {order}) <= {say.most}\n{order}"
    )


def _partition(*names: str) -> str:
    told = ", ".join(f'"{name}"' for name in names if name)
    return f"partition by {told}" if told else ""
