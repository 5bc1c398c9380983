"""A sentence filled with a row's values: exact on hover, shares with their terms, no clause without its values."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tracelab.output.labels import escape_controls, shorten
from tracelab.output.plain_values import exact_text, to_plain
from tracelab.output.text_table import format_cells
from tracelab.output.units import column_unit
from tracelab.plot.labels import IDENTITY, LABEL_CELLS, varying_columns
from tracelab.query.report_rules import CLAUSE, PLACEHOLDER, WHERE
from tracelab.query.spec import Query
from tracelab.report.prose import prose, text, value
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
