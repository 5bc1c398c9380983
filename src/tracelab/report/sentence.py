"""What is said of an answer: the sentences of its question's header that hold for it, with the rows they are of."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from tracelab.header import Query
from tracelab.layout import cells
from tracelab.plot.labels import IDENTITY, named, varying
from tracelab.report.prose import prose, text, value
from tracelab.says import PLACEHOLDER, WHERE, Say
from tracelab.values import exact, plain

_SHARE = "\x1bshare "  # no column is called so
_HELD = "\x1bheld"


@dataclass(frozen=True)
class _Found:
    """The rows that a sentence is of: by column the exact values and what people read; and what tells rows apart."""

    exact: Mapping[str, list[str]]
    shown: Mapping[str, list[str]]
    places: list[str]


def sentences(con: duckdb.DuckDBPyConnection, query: Query, answer: pa.Table) -> str:
    """The sentences as a list, each with its rule and what to try; what is fine where none holds."""
    if query.report is None:
        return ""
    told = [said for say in query.report.says for said in _told(con, say, answer)]
    if not told and query.report.fine:
        told = [f"<li class=fine>{prose(query.report.fine)}"]
    return f"<ul class=says>{''.join(told)}</ul>" if told else ""


def _told(con: duckdb.DuckDBPyConnection, say: Say, answer: pa.Table) -> Iterator[str]:
    """The sentence of each of the first rows for which the rule holds."""
    con.register("answer", answer)
    rows = con.sql(_sql(say)).to_arrow_table()
    con.unregister("answer")
    if not rows.num_rows:
        return
    found = _Found(
        {name: [exact(each) for each in plain(rows.column(name))] for name in rows.column_names},
        {field.name: cells(field, rows.column(at)) for at, field in enumerate(rows.schema)},
        _places(answer, rows),
    )
    rule = f"{say.when}: {found.shown[_HELD][0]} of {answer.num_rows:,} row{'s' * (answer.num_rows != 1)}"
    for row in range(rows.num_rows):
        attempt = f" <span class=try>{_filled(say.attempt, found, row)}</span>" if say.attempt else ""
        yield f"<li>{_filled(say.text, found, row)}{attempt} <small>{text(rule)}</small>"


def _sql(say: Say) -> str:
    """The rows for which the rule holds, with the shares that the sentence names and how many rows there are."""
    wholes = {found[0]: found for found in PLACEHOLDER.finditer(say.text + (say.attempt or "")) if found["whole"]}
    shares = (f', {each["part"]} / nullif({each["whole"]}, 0) as "{_SHARE}{said}"' for said, each in wholes.items())
    return (
        f'select *, count(*) over () as "{_HELD}"{"".join(shares)}\nfrom answer\nwhere ({say.when})\n'
        f"order by ({say.by}) desc nulls last\nlimit {say.most}"
    )


def _places(answer: pa.Table, rows: pa.Table) -> list[str]:
    """Of which run, rank and device each row is, as far as the answer has several."""
    known = [name for name in IDENTITY if name in answer.column_names]
    telling = varying(answer.select(known).to_pylist(), known) if known else []
    if not telling:
        return ["it"] * rows.num_rows
    return [named(telling, list(row.values())) for row in rows.select(telling).to_pylist()]


def _filled(said: str, found: _Found, row: int) -> str:
    """The sentence with a row's values, each exact on hover; a share with what it is of."""

    def filled(match: re.Match[str]) -> str:
        part, whole = match["part"], match["whole"]
        if part == WHERE:
            return f"<b>{text(found.places[row])}</b>"
        if whole is None:
            return value(found.shown[part][row], found.exact[part][row])
        share = found.exact[_SHARE + match[0]][row]
        terms = " of ".join(value(found.shown[name][row], found.exact[name][row]) for name in (part, whole))
        return f"<b>{float(share):.1%}</b> ({terms})" if share else f"({terms})"

    parts, at = [], 0
    for match in PLACEHOLDER.finditer(said):
        parts += [prose(said[at : match.start()]), filled(match)]
        at = match.end()
    return "".join([*parts, prose(said[at:])])
