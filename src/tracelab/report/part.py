"""One question in the report: what its answer says, the chart, the table, the definition and the SQL."""

import json
from html import escape

from tracelab.plot.labels import IDENTITY
from tracelab.query.spec import Query
from tracelab.report.answers import Answer, Asking
from tracelab.report.charts.chart import chart
from tracelab.report.findings import sentences
from tracelab.report.html import prose, text
from tracelab.report.page import runs_of
from tracelab.report.table import shown_rows, table_html, told

_NOT_BY_RUN = "<p class=cut data-picked hidden>Rows here are of several runs each, so that all of them are shown.</p>"
_OPEN_ROWS = 12
"""A table of at most so many rows is open from the beginning."""


def part_html(asking: Asking, answer: Answer) -> str:
    """The article about an answer that has rows."""
    query, table = answer.query, answer.table
    if table is None:
        raise ValueError(f"{query.name} has no answer")
    kept = shown_rows(table, query.chart.kind if query.chart else None)
    shown = table.take(kept)
    devices = [name for name in IDENTITY if name in table.column_names]
    count = told(table.num_rows, shown.num_rows, devices)
    opened = " open" if shown.num_rows <= _OPEN_ROWS or query.chart is None else ""
    parts = [
        f'<article class=part id="{query.name}"{runs_of(asking, answer)}><h3>{text(query.title)}</h3>',
        _NOT_BY_RUN if asking.several and "run" not in table.column_names else "",
        sentences(asking, query, table),
        _figure(query, chart(query, table, kept, several=asking.several)),
        f"<details class=data{opened}><summary>Table: {count}</summary>",
        _all(answer, table.num_rows, shown.num_rows),
        table_html(shown, f"{query.title}: {count}", dict(query.columns)),
        "</details>",
        _definition(query),
        f"<details class=sql><summary>SQL</summary><p>The whole answer: <code>{text(answer.command)}</code></p>"
        f"<pre tabindex=0>{escape(answer.sql)}</pre></details></article>",
    ]
    return "\n".join(part for part in parts if part)


def _figure(query: Query, spec: dict[str, object] | None) -> str:
    """The place where a script draws the chart; what is read aloud instead is the table."""
    if spec is None:
        return ""
    written = json.dumps(spec, separators=(",", ":"), ensure_ascii=False)
    for sign, spelled in (("&", "&amp;"), ("'", "&#39;"), ("<", "&lt;"), (">", "&gt;")):
        written = written.replace(sign, spelled)  # quotes are many, and stay as they are
    return (
        f"<figure data-chart='{written}' "
        f'role=group aria-label="Chart: {escape(query.title)}">'
        "<figcaption class=hidden>The table below holds the same figures.</figcaption></figure>"
    )


def _definition(query: Query) -> str:
    columns = "".join(f"<dt>{text(name)}<dd>{prose(meaning)}" for name, meaning in query.columns.items())
    said = f"<p>{prose(query.prose)}</p><dl>{columns}</dl>"
    return f"<details class=definition><summary>Definition</summary>{said}</details>"


def _all(answer: Answer, rows: int, shown: int) -> str:
    if rows == shown:
        return ""
    return f"<p class=cut>{rows - shown:,} rows are not shown; all: <code>{text(answer.command)}</code></p>"


def lacking(answer: Answer) -> str:
    """The line about a question that the data do not answer: why, and how to capture what it needs."""
    return f"<li><b>{text(answer.query.title)}</b> <code>{answer.query.name}</code>: {prose(answer.lacks)}"
