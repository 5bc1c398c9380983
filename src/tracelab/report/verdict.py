"""Render the verdict on two runs, which a report of two runs begins with."""

from collections.abc import Iterator, Sequence

from tracelab.compare import comparison, fetch, sentences, writers
from tracelab.compare.comparability import NotComparableError
from tracelab.compare.verdicts import FASTER, SLOWER, MetricRow
from tracelab.errors import NoDataError, UsageError
from tracelab.query import execute
from tracelab.report.answers import ReportSession
from tracelab.report.html import escape_text, render_prose

_SIGNS = {SLOWER: "▲", FASTER: "▼"}
"""Slower and faster differ by sign and color."""


def compare_pair(session: ReportSession) -> comparison.Comparison | str:
    """Compare the session's two runs; return the reason where they cannot be compared.

    The base is the run that was named first, else the first in order.
    """
    if session.scope:
        return "A verdict needs whole recordings; write the report without a scope."
    base, candidate = session.runs or session.run_names
    request = comparison.Request((base,), (candidate,), whole=session.scope is not None)
    try:
        if len(execute.stored_runs(session.con)) == len(session.run_names):
            return comparison.compare_source(fetch.Source(session.con, starts_ns=session.starts_out_ns), request)
        return comparison.compare_runs(session.store, request)
    except (NotComparableError, NoDataError, UsageError) as error:
        return str(error)


def render_verdict(session: ReportSession, compared: comparison.Comparison | str) -> str:
    """Render the comparison of the session's two runs, or why there is none."""
    base, candidate = session.runs or session.run_names
    command = session.commands.compare(base, candidate)
    body = f"<p>{render_prose(compared)}</p>" if isinstance(compared, str) else "".join(_render(compared))
    heading = f"<h3>{escape_text(base)} → {escape_text(candidate)}</h3>"
    return f"<article id=verdict data-all>{heading}{body}<p class=cut><code>{escape_text(command)}</code></p></article>"


def _render(compared: comparison.Comparison) -> Iterator[str]:
    """Yield the verdict, what explains it, and tables, the details folded."""
    verdict = escape_text(_signed(compared.main, opens_sentence=True))
    sentence = escape_text(sentences.verdict_sentence(compared))
    yield f'<p class="verdict {compared.verdict}"><b>{verdict}:</b> {sentence}</p>'
    for line in writers.opening_lines(compared):
        yield f"<p>{render_prose(line)}</p>"
    yield _table("Metrics of a step", sentences.headline_rows(compared))
    for details in sentences.list_details(compared):
        yield f"<details><summary>{escape_text(details.title)}</summary>{_table(details.title, details.rows)}</details>"
    notes = "".join(f"<li>{render_prose(line)}" for line in writers.closing_lines(compared))
    yield f"<details><summary>What the verdict rests on</summary><ul>{notes}</ul></details>"


def _table(caption: str, rows: Sequence[MetricRow]) -> str:
    heads = "".join(f"<th>{escape_text(name)}" for name in sentences.HEADINGS)
    lines = []
    for row in rows:
        *cells, _ = sentences.table_cells(row)
        values = "".join(
            f'<td data-label="{escape_text(name)}">{escape_text(cell)}'
            for name, cell in zip(sentences.HEADINGS[:-1], cells, strict=True)
        )
        lines.append(f'<tr class="{row.verdict}">{values}<td class=verdict>{escape_text(_signed(row))}')
    return (
        f'<div class=scroll tabindex=0 role=region aria-label="{escape_text(caption)}"><table class=verdicts>'
        f"<caption>{escape_text(caption)}</caption><thead><tr>{heads}</thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _signed(row: MetricRow, *, opens_sentence: bool = False) -> str:
    """Return a verdict with the sign of slower and faster."""
    verdict = sentences.format_verdict(row)
    sign = _SIGNS.get(row.verdict) or _SIGNS.get(str(row.tendency), "")
    return f"{sign} {verdict.capitalize() if opens_sentence else verdict}".strip()
