"""Render summaries as HTML: the head of the report, and the answer of `Lab.summary` in a notebook."""

from collections.abc import Collection, Iterator, Sequence

from tracelab.report.html import count_in_file, escape_text, render_prose
from tracelab.report.summary.lead import Lead, largest_leads, order_with_losses
from tracelab.report.summary.overview import Outlier, find_outliers, order_runs
from tracelab.report.summary.summarize import RunSummary
from tracelab.report.summary.text import (
    MOST_LEADS,
    describe_shares,
    explain_short,
    format_per_step,
    format_recoverable,
    format_short,
)

_MOST_ROWS = 12
"""Rows of the table and outliers that are not folded or left out."""
MOST_WHOLE = 4
"""Of more runs there is one table, and the summary of the run that is selected."""


def render_summaries(
    summaries: Sequence[RunSummary], *, named: bool, drawn: Collection[str] = (), on_page: bool = True
) -> str:
    """Render the summaries one after another, of many runs as a table; with the names of the runs if `named`.

    `drawn` are the runs that have a timeline on the page, to which their findings link. Without `on_page`, as in a
    notebook, there are no sections to link to.
    """
    is_table = len(summaries) > MOST_WHOLE
    runs = "".join(
        part
        for at, each in enumerate(summaries)
        for part in _render_run(at, each, named=named, is_hidden=is_table, is_drawn=each.run in drawn, on_page=on_page)
    )
    return (_render_table(summaries, on_page=on_page) if is_table else "") + runs


def _render_table(summaries: Sequence[RunSummary], *, on_page: bool) -> str:
    """Render step times unlike others, and a row for each run: its figures, and the finding that costs most.

    The runs that lose the largest share to one finding come first, and many others are folded.
    """
    ordered = order_runs(summaries)
    parts = [
        _render_outliers(find_outliers(summaries)),
        "<p data-all>A row is a run. In bold: the share of its time that is lost to what costs it most; the runs with "
        "the largest share come first.</p>",
        _render_rows(ordered[:_MOST_ROWS], "What costs most, by run"),
    ]
    if meaning := explain_short(summaries):
        parts.append(f"<p data-all>{escape_text(meaning)}</p>")
    if others := ordered[_MOST_ROWS:]:
        rows = _render_rows(others, "What costs most, in the other runs")
        parts.append(f"<details class=more data-all><summary>{len(others):,} more runs</summary>{rows}</details>")
        parts.append(_paper_note(len(others), "run[s]", on_page=on_page))
    return "".join(parts)


def _paper_note(count: int, of: str, *, on_page: bool) -> str:
    """Return the note on what is folded above it, for a report on paper."""
    return f'<p class="paper cut" data-all>{count_in_file(count, of)}</p>' if on_page else ""


def _render_outliers(outliers: Sequence[Outlier]) -> str:
    if not outliers:
        return ""
    items = "".join(
        f"<li><b>{escape_text(each.summary.run)}</b>: {escape_text(each.sentence)} "
        f"<small>Next: <code>{escape_text(each.command)}</code></small>"
        for each in outliers[:_MOST_ROWS]
    )
    return f"<div data-all><p>Step times unlike those of the runs with the same settings:</p><ul>{items}</ul></div>"


def _render_rows(summaries: Sequence[RunSummary], caption: str) -> str:
    found = dict.fromkeys(figure.name for each in summaries for figure in each.figures)
    names = sorted(found, key=lambda name: name == "MFU")  # the figures of GPUs and of CPUs, then what both have
    heads = "".join(f"<th>{escape_text(name)}" for name in ("run", *names, "what costs most"))
    rows = []
    for each in summaries:
        figures = {figure.name: figure for figure in each.figures}
        cells = "".join(f"<td>{escape_text(figures[name].text) if name in figures else ''}" for name in names)
        leads = "<br>".join(
            [
                *map(escape_text, each.ended),
                *(f"<b>{format_short(lead)} of its time:</b> {lead.sentence}" for lead in largest_leads(each.leads)),
            ]
        )
        rows.append(f"<tr><th scope=row>{escape_text(each.run)}{cells}<td class=long>{leads}")
    return (
        f'<div class=scroll tabindex=0 role=region aria-label="{caption}" data-all><table class=runs>'
        f"<caption>{caption}</caption><thead><tr>{heads}</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _render_run(
    position: int, summary: RunSummary, *, named: bool, is_hidden: bool, is_drawn: bool, on_page: bool
) -> Iterator[str]:
    heading = f"<h3>{escape_text(summary.run)}</h3>" if named else ""
    of_run = (
        f' data-only="{position}" hidden' if is_hidden else f' data-run="{escape_text(summary.run)}"' if named else ""
    )
    yield f'<article class=summary id="summary-{position}"{of_run}>{heading}<p>{escape_text(summary.description)}</p>'
    yield "<dl class=figures>"
    for each in summary.figures:
        yield (
            f"<div><dt>{escape_text(each.name)}<dd{' class=unknown' * (each.value is None)}>{escape_text(each.text)} "
            f"<small>{render_prose(each.note)}</small></div>"
        )
    yield f"</dl><p>{escape_text(summary.work)}</p>" if summary.work else "</dl>"
    yield f"<p>{escape_text(summary.start)}</p>" if summary.start else ""
    if not summary.leads:
        yield _render_unranked(summary.unranked)
        yield f"<p>{escape_text(summary.balance)} {render_prose(summary.note)}</p>{_next_commands(summary)}"
        yield "</article>"
        return
    yield f"<p>{describe_shares(summary, [*summary.leads, *summary.unranked])}:</p>"
    drawn_run = summary.run if is_drawn else None
    rendered = [
        _render_lead(number, lead, summary, drawn_run, on_page=on_page) for number, lead in enumerate(summary.leads, 1)
    ]
    placed, notes = order_with_losses(summary.leads[:MOST_LEADS], summary.unranked)
    first = [
        f"<li class=note>{_describe_unranked(lead)}" if number is None else rendered[number - 1]
        for number, lead in placed
    ]
    yield f"<ol class=leads>{''.join(first)}</ol>"
    if others := rendered[MOST_LEADS:]:
        yield f"<details class=more{' open' * summary.has_all}><summary>{len(others)} more of 1 % or more</summary>"
        yield f"<ol class=leads>{''.join(others)}</ol></details>"
        yield _paper_note(len(others), "finding[s] of 1 % or more", on_page=on_page)
    yield f"{_render_unranked(notes)}<p>{escape_text(summary.balance)}</p></article>"


def _render_unranked(leads: Sequence[Lead]) -> str:
    return "".join(f"<p>{_describe_unranked(lead)}</p>" for lead in leads)


def _describe_unranked(lead: Lead) -> str:
    return f"Not ranked, {format_recoverable(lead)}: {lead.sentence} <span class=advice>{lead.advice}</span>"


def _next_commands(summary: RunSummary) -> str:
    commands = " or ".join(f"<code>{escape_text(each)}</code>" for each in summary.next_commands)
    return f"<p>Next: {commands}</p>" if commands else ""


def _render_lead(number: int, lead: Lead, summary: RunSummary, drawn_run: str | None, *, on_page: bool) -> str:
    amount = " · ".join(filter(None, (format_recoverable(lead), format_per_step(lead, summary))))
    advice = f" <span class=advice>{lead.advice}</span>" if lead.advice else ""
    notes = "".join(f"<p>{_describe_unranked(each)}</p>" for each in lead.notes)
    evidence = f' <a href="#{lead.query}">Evidence</a>' if on_page else ""
    sql = f' <a href="#sql-{lead.query}">SQL</a>' if on_page else ""
    return (
        f"<li value={number}><b class=share>{amount}</b> "
        f"{lead.sentence}{notes}{advice} "
        f"<small>Next: <code>{escape_text(lead.next_command)}</code>{_what_if(lead)}{evidence}"
        f"{_timeline_link(lead, drawn_run)}</small>"
        f"<details class=why><summary>Why?</summary> {render_prose(lead.evidence)}, "
        f"by the rule <code>{escape_text(lead.finding.rule or lead.finding.when)}</code>. {lead.details} "
        f"<code>{escape_text(lead.figures_command)}</code>{sql}</details>"
    )


def _what_if(lead: Lead) -> str:
    """Render the command that replays the run without the loss."""
    return f" Without it: <code>{escape_text(lead.what_if_command)}</code>" if lead.what_if_command else ""


def _timeline_link(lead: Lead, run: str | None) -> str:
    """Render a link to the rank and step of a finding in the timeline of its run."""
    if run is None:
        return ""
    values = {"place": run, "step": lead.step, "rank": lead.rank}
    data = "".join(f' data-{name}="{escape_text(value)}"' for name, value in values.items() if value is not None)
    return f' <a href="#timeline"{data}>Timeline</a>'
