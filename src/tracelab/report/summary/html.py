"""Render summaries as HTML: the head of the report, and the answer of `Lab.summary` in a notebook."""

from collections.abc import Iterator, Sequence

from tracelab.output.units import Quantity, format_scaled
from tracelab.report.html import escape_text, render_prose
from tracelab.report.summary.figures import format_share
from tracelab.report.summary.leads import Lead
from tracelab.report.summary.summarize import RunSummary
from tracelab.report.summary.text import MOST_LEADS


def render_summaries(summaries: Sequence[RunSummary], *, named: bool) -> str:
    """Render the summaries one after another, with the names of the runs if `named`."""
    return "".join(part for at, each in enumerate(summaries) for part in _render_run(at, each, named=named))


def _render_run(position: int, summary: RunSummary, *, named: bool) -> Iterator[str]:
    heading = f"<h3>{escape_text(summary.run)}</h3>" if named else ""
    of_run = f' data-runs="{position}"' if named else ""
    yield f'<article class=summary id="summary-{position}"{of_run}>{heading}<p>{escape_text(summary.description)}</p>'
    yield "<dl class=figures>"
    for each in summary.figures:
        yield (
            f"<div><dt>{escape_text(each.name)}<dd{' class=unknown' * (each.value is None)}>{escape_text(each.text)}"
            f"<small>{render_prose(each.note)}</small></div>"
        )
    yield f"</dl><p>{escape_text(summary.work)}</p>" if summary.work else "</dl>"
    if not summary.leads:
        yield f"<p>{render_prose(summary.note)}</p></article>"
        return
    yield "<ol class=leads>"
    for lead in summary.leads[:MOST_LEADS]:
        yield _render_lead(lead, summary.step_ns)
    yield "</ol>"
    if len(summary.leads) > MOST_LEADS:
        yield f"<p>{len(summary.leads) - MOST_LEADS} more of 1 % or more, in the sections below.</p>"
    yield "</article>"


def _render_lead(lead: Lead, step_ns: float | None) -> str:
    per_step = "" if step_ns is None else f" · {format_scaled(lead.rest * step_ns, Quantity.DURATION)} of a step"
    advice = f" <span class=advice>{lead.advice}</span>" if lead.advice else ""
    return (
        f"<li><b class=share>{format_share(lead.rest)}{per_step}</b> {lead.sentence}{advice} "
        f'<small><a href="#{lead.query}">Evidence</a>: {render_prose(lead.evidence)}. '
        f"Next: <code>{escape_text(lead.next_command)}</code></small>"
    )
