"""Render one query in the report: findings, chart, table, definition and SQL."""

import json
from collections.abc import Mapping
from html import escape

from tracelab.output.labels import IDENTITY
from tracelab.plot.joined import join_table
from tracelab.query.spec import Query
from tracelab.report.answers import Answer, ReportSession
from tracelab.report.charts.chart import build_chart
from tracelab.report.findings import render_findings
from tracelab.report.html import escape_text, render_prose
from tracelab.report.page import runs_attribute
from tracelab.report.summary.lead import RunLeads
from tracelab.report.table import row_count_note, select_rows, table_html

_NOT_BY_RUN = "<p class=cut data-picked hidden>Each row covers several runs, so all rows are shown.</p>"
_OPEN_ROWS = 12
"""Tables of at most this many rows are open initially."""


def render_query(
    session: ReportSession,
    answer: Answer,
    leads: RunLeads | None = None,
    *,
    is_unfolded: bool = False,
    joined: Mapping[str, frozenset[str]] | None = None,
) -> str:
    """Render the article of a result with rows: findings, and the rest folded unless `is_unfolded`.

    `leads` are the findings of each run's summary, `joined` groups of kernels by label that are one bar of a chart that
    joins them.
    """
    query, table = answer.query, answer.table
    if table is None:
        raise ValueError(f"{query.name} has no result")
    indices = select_rows(table, query.chart.kind if query.chart else None)
    rows = table.take(indices)
    devices = [name for name in IDENTITY if name in table.column_names]
    count = row_count_note(table.num_rows, rows.num_rows, devices)
    is_open = " open" if query.chart is None or (rows.num_rows <= _OPEN_ROWS and not is_unfolded) else ""
    parts = [
        f'<article class=part id="{query.name}"{runs_attribute(session, answer)}><h3>{escape_text(query.title)}</h3>',
        _NOT_BY_RUN if session.several and "run" not in table.column_names else "",
        render_findings(session, query, join_table(table, query.chart, joined), leads),
        f"<details class=fold{' open' * is_unfolded}><summary>{_folded_parts(query)}</summary>",
        _chart_place(query, build_chart(query, table, indices, several=session.several, joined=joined)),
        f"<details class=data{is_open}><summary>Table: {count}</summary>",
        _full_result_note(answer, table.num_rows, rows.num_rows),
        table_html(rows, f"{query.title}: {count}", dict(query.columns)),
        "</details>",
        _render_definition(query),
        f'<details class=sql id="sql-{query.name}"><summary>SQL</summary>'
        f"<p>Full result: <code>{escape_text(answer.command)}</code></p>"
        f"<pre tabindex=0>{escape(answer.sql)}</pre></details></details></article>",
    ]
    return "\n".join(part for part in parts if part)


def _folded_parts(query: Query) -> str:
    return "Chart, table and definition" if query.chart else "Table and definition"


def _chart_place(query: Query, spec: dict[str, object] | None) -> str:
    """Render the placeholder of a chart; screen readers read the table instead."""
    if spec is None:
        return ""
    text = json.dumps(spec, separators=(",", ":"), ensure_ascii=False)
    for sign, spelled in (("&", "&amp;"), ("'", "&#39;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, spelled)  # quotes are frequent, so they stay unescaped
    return (
        f"<figure data-chart='{text}' "
        f'role=group aria-label="Chart: {escape(query.title)}">'
        "<figcaption class=hidden>The table below holds the same figures.</figcaption></figure>"
    )


def _render_definition(query: Query) -> str:
    columns = "".join(f"<dt>{escape_text(name)}<dd>{render_prose(meaning)}" for name, meaning in query.columns.items())
    body = f"<p>{render_prose(query.prose)}</p><dl>{columns}</dl>"
    return f"<details class=definition><summary>Definition</summary>{body}</details>"


def _full_result_note(answer: Answer, rows: int, listed: int) -> str:
    if rows == listed:
        return ""
    return f"<p class=cut>{rows - listed:,} rows are not shown; all: <code>{escape_text(answer.command)}</code></p>"


def render_missing(answer: Answer) -> str:
    """Render the line on a query without data: why, and how to capture what it needs."""
    return (
        f"<li><b>{escape_text(answer.query.title)}</b> <code>{answer.query.name}</code>: "
        f"{render_prose(answer.missing_reason)}"
    )
