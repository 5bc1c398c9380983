"""The report: one HTML file about a store or some of its runs, which opens from disk and loads nothing.

    store ── questions of the library (asking) ──▶ answers ──▶ sections ──▶ page (HTML, styles, scripts, JSON blocks)

A query enters by its header: `[report]` names the section and the findings (tracelab.query.report_rules).
A section that is more than answers is a function in `SECTIONS`: it takes an `Asking` (an open store:
`ask("gpu_breakdown")`, the connection `con`, the chosen `runs`) and gives a `Section`, or None where there is no data.
What it writes into `body` is escaped by it (`prose.text` for names). Values for its scripts go into `data`: the block
"timeline" is read with `tracelab.json("timeline")`. Its scripts lie in assets, are named in `scripts`, and come behind
the report's own, which give:

    echarts                          Apache ECharts: bar, line, scatter, heatmap, custom; zoom, tooltip, legend
    tracelab.json(name)              the section's JSON block
    tracelab.color(name)             a colour of the theme now: compute, comm, hidden, memory, idle, ink, faint, line,
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
from tracelab.report.answers import Answer, Asking, opened
from tracelab.report.health import health
from tracelab.report.html import Section
from tracelab.report.page import head, page
from tracelab.report.part import lacking, part_html
from tracelab.report.table_cache import load
from tracelab.report.timeline import timeline

__all__ = ["Answer", "Asking", "Section", "report"]

SECTIONS: dict[str, Callable[[Asking], Section | None]] = {"health": health, "when": timeline}
"""Parts that a function makes, which asks what it needs in its own way."""


def report(store: Path, runs: tuple[str, ...] = ()) -> str:
    """The report as HTML; NoDataError where the store is empty or lacks one of the runs."""
    with opened(store, runs) as asking:
        load(asking.con, store)
        sections = list(_sections(asking))
        lacks = [line for section in sections for line in section.lacking]
        shown = [section for section in sections if section.body]
        if lacks:
            summary = f"<summary>{len(lacks)} questions have no data here, and how to capture them</summary>"
            told = f"<details class=lacking>{summary}<ul>{''.join(lacks)}</ul></details>"
            shown.append(Section("lacking", "Not answered", told))
        return page("tracelab report", head(asking), shown)


def _sections(asking: Asking) -> Iterator[Section]:
    """A section for each part, in their order: made by its function, or of the answers of its questions."""
    entering = asking.entering(_questions())
    for part, title in SECTION_TITLES.items():
        if part in SECTIONS:
            if (made := SECTIONS[part](asking)) is not None:
                yield made
            continue
        answers = [each for each in entering if each.query.report and each.query.report.section == part]
        body = "\n".join(part_html(asking, answer) for answer in answers if answer.table is not None)
        lacks = tuple(lacking(answer) for answer in answers if answer.table is None)
        if answers:
            yield Section(part, title, body, lacking=lacks)


def _questions() -> list[Query]:
    """The questions that enter the report by themselves, in the order of their places."""
    library = query.library().items()
    entering = [(each.report.order, name, each) for name, each in library if each.report]
    return [each for _, _, each in sorted(entering) if each.report and each.report.section not in SECTIONS]
