"""Build the report: one HTML file on a store or some of its runs, which opens from disk and loads nothing.

    store ── queries (answers) ──▶ findings, charts, tables ──▶ sections ──▶ page (HTML, styles, scripts, JSON blocks)

A query enters by its header: `[report]` names the section and the findings (tracelab.query.report_rules).
A section beyond query results is a function in `SECTIONS`: it takes a `ReportSession` (an open store:
`ask("gpu_breakdown")`, the connection `con`, the chosen `runs`) and returns a `Section`, or None without data.
It escapes what it writes into `body` (`html.escape_text` for names). Values for its scripts go into `data`: the block
"timeline" is read with `tracelab.json("timeline")`. Its scripts are files in assets, named in `scripts`; they follow
the report's own, which define:

    echarts                          Apache ECharts: bar, line, scatter, heatmap, custom; zoom, tooltip, legend
    tracelab.json(name)              the section's JSON block
    tracelab.color(name)             a color of the theme: compute, comm, hidden, memory, idle, ink, faint, line,
                                     paper, and series 0 to 7; CSS has them as var(--compute), var(--c0) …
    tracelab.onTheme(redraw)         calls it when the theme turns light or dark, and before and after printing
    tracelab.onRun(show)             calls show(run) when the reader picks a run; null: all runs
    tracelab.whenNear(element, draw) calls it once, when the element is about to be seen, or printed
    tracelab.chart(element, option)  a chart in the element, drawn when near, again when the theme or the width changes;
                                     option() gives ECharts' option; tooltips are elements (`tracelab.tip(title, rows)`)
    tracelab.readable(value, unit)   "12.35 µs" of ns, "1.235 GB" of B, "24.3 %" of %; others with four digits

Text reaches the page by `textContent` alone, so names are harmless; the page's policy forbids every other script.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from tracelab.query import library as query
from tracelab.query.report_rules import SECTION_TITLES
from tracelab.query.spec import Query
from tracelab.report.answers import Answer, ReportSession, open_report_session
from tracelab.report.health import render_health
from tracelab.report.html import Section
from tracelab.report.page import render_head, render_page
from tracelab.report.part import render_missing, render_query
from tracelab.report.table_cache import cache_small_tables
from tracelab.report.timeline import render_timeline

__all__ = ["Answer", "Asking", "Section", "report"]

SECTIONS: dict[str, Callable[[ReportSession], Section | None]] = {"health": render_health, "when": render_timeline}
"""Parts that a function makes, which asks what it needs in its own way."""


def report(store: Path, runs: tuple[str, ...] = ()) -> str:
    """The report as HTML; NoDataError where the store is empty or lacks one of the runs."""
    with open_report_session(store, runs) as asking:
        cache_small_tables(asking.con, store)
        sections = list(_sections(asking))
        lacks = [line for section in sections for line in section.lacking]
        shown = [section for section in sections if section.body]
        if lacks:
            summary = f"<summary>{len(lacks)} questions have no data here, and how to capture them</summary>"
            told = f"<details class=lacking>{summary}<ul>{''.join(lacks)}</ul></details>"
            shown.append(Section("lacking", "Not answered", told))
        return render_page("tracelab report", render_head(asking), shown)


def _sections(asking: ReportSession) -> Iterator[Section]:
    """A section for each part, in their order: made by its function, or of the answers of its questions."""
    entering = asking.entering(_report_queries())
    for part, title in SECTION_TITLES.items():
        if part in SECTIONS:
            if (made := SECTIONS[part](asking)) is not None:
                yield made
            continue
        answers = [each for each in entering if each.query.report and each.query.report.section == part]
        body = "\n".join(render_query(asking, answer) for answer in answers if answer.table is not None)
        lacks = tuple(render_missing(answer) for answer in answers if answer.table is None)
        if answers:
            yield Section(part, title, body, lacking=lacks)


def _report_queries() -> list[Query]:
    """The questions that enter the report by themselves, in the order of their places."""
    library = query.library().items()
    entering = [(each.report.order, name, each) for name, each in library if each.report]
    return [each for _, _, each in sorted(entering) if each.report and each.report.section not in SECTIONS]
