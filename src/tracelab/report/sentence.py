"""What is said of an answer: the sentences of its question's header that hold for it, with the rows they are of."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tracelab.header import Query
from tracelab.layout import cells
from tracelab.plot.labels import IDENTITY, named, varying
from tracelab.report.asking import Asking
from tracelab.report.prose import prose, text, value
from tracelab.report.table import percent
from tracelab.says import PLACEHOLDER, WHERE, Say
from tracelab.units import unit
from tracelab.values import exact, plain

_SHARE = "\x1bshare "  # no column is called so
_RULE, _HELD, _ALL = "\x1brule", "\x1bheld", "\x1ball"
_MOST_RUNS = 40
"""Of a store with more runs only the whole is told."""


@dataclass(frozen=True)
class _Found:
    """The rows that a sentence is of: by column the exact values and what people read; and what tells rows apart."""

    exact: Mapping[str, list[str]]
    shown: Mapping[str, list[str]]
    places: list[str]


def sentences(asking: Asking, query: Query, answer: pa.Table) -> str:
    """What is said of the whole answer, and of each run for when it is picked; what is fine where no rule holds."""
    if query.report is None:
        return ""
    runs = list(dict.fromkeys(answer.column("run").to_pylist())) if "run" in answer.column_names else []
    several = runs if 1 < len(runs) <= _MOST_RUNS else []
    asking.con.register("answer", answer)
    told = [_told(asking, say, answer, by_run=bool(several)) for say in query.report.says]
    asking.con.unregister("answer")
    fine = f"<li class=fine>{prose(query.report.fine)}" if query.report.fine else ""
    lists = [_list([item for items in told for item in items.get(None, [])] or [fine], "data-all")]
    for run in several:
        items = [item for items in told for item in items.get(run, [])]
        lists.append(_list(items or [fine], f'data-only="{text(run)}" hidden'))
    return "".join(lists)


def _list(items: list[str], kind: str) -> str:
    return f"<ul class=says {kind}>{''.join(items)}</ul>" if any(items) else ""


def _told(asking: Asking, say: Say, answer: pa.Table, *, by_run: bool) -> Mapping[str | None, Sequence[str]]:
    """The sentences of the first rows for which the rule holds: of all rows (None), and of each run's."""
    rows = asking.con.sql(_sql(say, "")).to_arrow_table()
    told: dict[str | None, Sequence[str]] = {
        None: list(_items(say, _places(answer, rows, several=asking.several), rows))
    }
    if by_run and rows.num_rows:
        rows = asking.con.sql(_sql(say, "run")).to_arrow_table()
        runs = rows.column("run").to_pylist()
        for run, item in zip(runs, _items(say, _places(answer, rows, several=asking.several), rows), strict=True):
            told[run] = [*told.get(run, []), item]
    return told


def _items(say: Say, places: list[str], rows: pa.Table) -> Iterator[str]:
    if not rows.num_rows:
        return
    found = _Found(
        {name: [exact(each) for each in plain(rows.column(name))] for name in rows.column_names},
        {field.name: cells(field, rows.column(at)) for at, field in enumerate(rows.schema)},
        places,
    )
    for row in range(rows.num_rows):
        attempt = f" <span class=try>{_filled(say.attempt, found, row)}</span>" if say.attempt else ""
        yield f"<li>{_filled(say.text, found, row)}{attempt} <small>{_rule(say, found, row)}</small>"


def _rule(say: Say, found: _Found, row: int) -> str:
    """The rule with its threshold, and of how many rows it holds for how many."""
    alike = f" where {text(say.each)} is {text(found.shown[say.each][row])}" if say.each else ""
    return (
        f"Rule: <code>{text(say.when)}</code>, so in {found.shown[_HELD][row]} of {found.shown[_ALL][row]} rows{alike}."
    )


def _sql(say: Say, scope: str) -> str:
    """The first rows for which the rule holds, in all or of each run, with counts and the shares that are named."""
    wholes = {found[0]: found for found in PLACEHOLDER.finditer(say.text + (say.attempt or "")) if found["whole"]}
    shares = "".join(
        f', {each["part"]} / nullif({each["whole"]}, 0) as "{_SHARE}{said}"' for said, each in wholes.items()
    )
    order = f"order by ({say.by}) desc nulls last"
    alike, within = (_partition(*names) for names in ((scope, say.each or ""), (scope,)))
    return (
        f'with rules as (\n    select *, coalesce(({say.when}), false) as "{_RULE}"{shares} from answer\n),\n'
        f'counted as (\n    select *, count(*) over ({alike}) as "{_ALL}",\n'
        f'        count(*) filter ("{_RULE}") over ({alike}) as "{_HELD}"\n    from rules\n),\n'
        f'firsts as (\n    from counted where "{_RULE}" qualify row_number() over ({alike} {order}) <= '
        f"{1 if say.each else say.most}\n)\n"
        f"from firsts\nqualify row_number() over ({within} {order}) <= {say.most}\n{order}"
    )


def _partition(*names: str) -> str:
    told = ", ".join(f'"{name}"' for name in names if name)
    return f"partition by {told}" if told else ""


def _places(answer: pa.Table, rows: pa.Table, *, several: bool) -> list[str]:
    """Of which run, rank and device each row is, as far as there are several."""
    known = [name for name in IDENTITY if name in answer.column_names]
    differ = varying(answer.select(known).to_pylist(), known) if known else []
    telling = [name for name in known if name in differ or (name == "run" and several)]
    if not telling:
        return ["it"] * rows.num_rows
    return [named(telling, list(row.values())) for row in rows.select(telling).to_pylist()]


def _with_unit(column: str, shown: str) -> str:
    """A rate with its unit, which stands in the column's name alone."""
    symbol = unit(column)
    return f"{shown} {symbol}" if symbol and shown != "NULL" else shown


def _filled(said: str, found: _Found, row: int) -> str:
    """The sentence with a row's values, each exact on hover; a share with what it is of."""

    def filled(match: re.Match[str]) -> str:
        part, whole = match["part"], match["whole"]
        if part == WHERE:
            return f"<b>{text(found.places[row])}</b>"
        if whole is None:
            return value(_with_unit(part, found.shown[part][row]), found.exact[part][row])
        share = found.exact[_SHARE + match[0]][row]
        terms = " of ".join(value(found.shown[name][row], found.exact[name][row]) for name in (part, whole))
        return f"{value(percent(float(share)), share)} ({terms})" if share else f"({terms})"

    parts, at = [], 0
    for match in PLACEHOLDER.finditer(said):
        parts += [prose(said[at : match.start()]), filled(match)]
        at = match.end()
    return "".join([*parts, prose(said[at:])])
