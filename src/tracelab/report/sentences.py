"""Fill the sentence of a finding with the values, shares and places of a row."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tracelab.foreign_text import escape_controls
from tracelab.output.labels import IDENTITY, column_unit, format_percent, shorten, strip_signature
from tracelab.output.plain_values import exact_text, to_plain
from tracelab.output.text_table import format_cells
from tracelab.plot.labels import LABEL_CELLS, varying_columns
from tracelab.query.report_rules import CLAUSE, PLACEHOLDER, WHERE, Finding, Report
from tracelab.query.spec import Query
from tracelab.report.html import escape_text, render_prose, render_value
from tracelab.report.outliers import ALIKE, OUTLIERS, SUMMED, range_columns, sum_column

SHARE = "\x1bshare "
"""With a placeholder, the column of its share among the rows of a finding; no column of an answer has such a name."""
_CALLED = {"run": "{}", "before": "before: {}", "after": "after: {}", "rank": "rank {}", "device": "GPU {}"}
_PLURALS = {"rank": "ranks", "device": "GPUs"}
_MOST_NAMED = 4
"""More outliers are counted."""
_NAME_COLUMNS = frozenset({"name", "op", "kernel", "longest_kernel", "annotation"})
_NAME_CELLS = 80
"""A signature of C++ takes several lines, and its ends identify the kernel."""
_RANK_FIRST = re.compile(r"^(<b>)r(?=anks? \d)")
"""A place at the beginning of a sentence."""
_ONE = re.compile(r"^ (call|block|cell|pair|event|kernel|launch|step|epoch|class)(?:es|s)\b")


@dataclass(frozen=True)
class FindingContext:
    """Rows of one finding: by column, exact values and formatted ones.

    `places` identifies each row where there are several; `nouns` names it otherwise. With `counted`, the sentence is
    about that many rows in words.
    """

    exact: Mapping[str, Sequence[str | None]]
    formatted: Mapping[str, Sequence[str]]
    places: Sequence[str | None]
    nouns: Sequence[str]
    runs: Sequence[str | None] = ()
    """The run of each row where the page has several."""
    counted: str | None = None
    outliers: Sequence[tuple[int, str | None] | None] = ()
    """Where the sentence is about several outliers, their number, and their names if ranks or GPUs identify them."""


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
        [_label_place("run", row["run"]) if several and row.get("run") else None for row in identities],
        outliers=_name_outliers(answer, rows),
    )


def _name_outliers(answer: pa.Table, rows: pa.Table) -> list[tuple[int, str | None] | None]:
    """Return for each row the number of several outliers, with their names if rank and device name them."""
    if OUTLIERS not in rows.column_names:
        return [None] * rows.num_rows
    identity = [name for name in IDENTITY if name in answer.column_names and name != "run"]
    varying = varying_columns(answer.select(identity).to_pylist(), identity)
    return [outliers and _name_places(varying, outliers) for outliers in rows.column(OUTLIERS).to_pylist()]


def _name_places(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> tuple[int, str | None]:
    """Return the number of rows, and their places in words: ranks 2 and 6, or rank 2 · GPU 0 and rank 2 · GPU 1."""
    for names in (*([each] for each in columns), columns):
        places = sorted({tuple(each[name] for name in names) for each in rows}, key=_order_place)
        if len(places) < len(rows) or len(places) > _MOST_NAMED:
            continue
        if len(names) == 1:
            values = [str(value) for (value,) in places]
            return len(rows), f"{_PLURALS[names[0]]} {', '.join(values[:-1])} and {values[-1]}"
        labels = [" · ".join(map(_label_place, names, place)) for place in places]
        return len(rows), f"{', '.join(labels[:-1])} and {labels[-1]}"
    return len(rows), None


def _order_place(place: Sequence[Any]) -> list[tuple[bool, Any]]:
    """Return a key that sorts places by their values, the unknown ones last."""
    return [(value is None, value) for value in place]


def _identify_rows(
    answer: pa.Table, rows: Sequence[dict[str, object]], host: str, *, several: bool
) -> list[str | None]:
    """Return run, rank and device of each row, where there are several."""
    identity = [name for name in IDENTITY if name in answer.column_names]
    differ = varying_columns(answer.select(identity).to_pylist(), identity)
    columns = [name for name in identity if name in differ or (name == "run" and several)]
    return [
        " · ".join(
            _label_place(name, row[name]) if row[name] is not None else host
            for name in columns
            if row[name] is not None or (name == "device" and host)
        )
        or None
        for row in rows
    ]


def _label_place(column: str, value: object) -> str:
    return _CALLED[column].format(shorten(escape_controls(str(value)), LABEL_CELLS))


def _noun(row: Mapping[str, object], host: str) -> str:
    if row.get("device") is not None:
        return "the GPU"
    return (f"the {host}" if host and "device" in row else "") or ("the process" if "rank" in row else "the run")


def fill_finding(finding: Finding, rows: FindingContext, row: int, report: Report, checked: int) -> str:
    """Render the sentence about a row, or about several of `checked`: outliers, else all that it sums."""
    if finding.every is None or rows.exact[ALIKE][row] != "true":
        return fill_sentence(finding.text, rows, row)
    number, names = rows.outliers[row] or (int(rows.exact[SUMMED][row] or 0), None)
    return fill_sentence(finding.every, replace(rows, counted=names or report.share_of_rows(number, checked)), row)


def fill_sentence(text: str, rows: FindingContext, row: int) -> str:
    """Render a sentence as HTML; a clause in [ ] is omitted if one of its values is NULL."""
    parts, at = [], 0
    for clause in CLAUSE.finditer(text):
        parts.append(_fill_text(text[at : clause.start()], rows, row))
        if all(_has_value(each, rows, row) for each in PLACEHOLDER.finditer(clause[1])):
            parts.append(_fill_text(clause[1], rows, row))
        at = clause.end()
    sentence = "".join([*parts, _fill_text(text[at:], rows, row)])
    return _RANK_FIRST.sub(r"\1R", sentence[:1].upper() + sentence[1:])


def _has_value(placeholder: re.Match[str], rows: FindingContext, row: int) -> bool:
    if placeholder["part"] == WHERE:
        return rows.counted is not None or rows.places[row] is not None
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
        if rows.counted is not None:
            run, counted = rows.runs[row], rows.counted
            return f"<b>{escape_text(counted[0].upper() + counted[1:] if run is None else f'{run} · {counted}')}</b>"
        return rows.nouns[row] if place is None else f"<b>{escape_text(place)}</b>"
    if total is not None and rows.counted is not None:
        return _render_sum(placeholder, rows, row)
    if total is not None:
        share = rows.exact[SHARE + placeholder[0]][row]
        terms = " of ".join(
            render_value(rows.formatted[name][row], rows.exact[name][row] or "") for name in (part, total)
        )
        return f"{render_value(format_percent(float(share)), share)} ({terms})" if share else terms
    exact = rows.exact[part][row] or ""
    text = format_percent(float(exact)) if placeholder["percent"] else _append_unit(part, rows.formatted[part][row])
    if part in _NAME_COLUMNS:
        text = shorten(strip_signature(text) if part.endswith("kernel") else text, _NAME_CELLS)
    return render_value(text, exact)


def _render_sum(placeholder: re.Match[str], rows: FindingContext, row: int) -> str:
    """Render the share of sums over rows with both sums and the range of the rows."""
    names = [sum_column(placeholder[0], placeholder[name]) for name in ("part", "whole")]
    terms = " of ".join(render_value(rows.formatted[name][row], rows.exact[name][row] or "") for name in names)
    part, whole, least, largest = (
        float(rows.exact[name][row] or 0) for name in (*names, *range_columns(placeholder[0]))
    )
    if not whole:
        return terms
    low, high = (format_percent(each) for each in (least, largest))
    each = f"; each {low}" if low == high else f"; each {low} to {high}"
    return f"{render_value(format_percent(part / whole), str(part / whole))} ({terms}{each})"


def _append_unit(column: str, text: str) -> str:
    """Append the unit to a rate, which otherwise has it in the column's name only."""
    symbol = column_unit(column)
    return f"{text} {symbol}" if symbol else text
