"""Build the report: one HTML file on a store or some of its runs, which opens from disk and loads nothing.

    store ── queries (answers) ──▶ findings, charts, tables ──▶ sections ──▶ page (HTML, styles, scripts, JSON blocks)

A query enters by its header: `[report]` names the section and the findings (tracelab.query.report_rules).
A section beyond query results is a function in `SECTIONS`: it takes a `ReportSession` (an open store:
`run_named("gpu_breakdown")`, the connection `con`, the chosen `runs`), runs its queries, and returns a function that
takes the session and the findings of the summaries by run, and returns a `Section`, or None without data.
It escapes what it writes into `body` (`html.escape_text` for names). Values for its scripts go into `data`: the block
"timeline" is read with `tracelab.json("timeline")`. Its scripts are files in assets, named in `scripts`; they follow
the report's own, which define:

    echarts                          Apache ECharts: bar, line, scatter, heatmap, custom; zoom, tooltip, legend
    tracelab.json(name)              the section's JSON block
    tracelab.color(name)             a color of the theme: compute, comm, hidden, memory, idle, ink, faint, line,
                                     paper, and series 0 to 7; CSS has them as var(--compute), var(--c0) …
    tracelab.onTheme(redraw)         calls it when the theme changes, and before and after printing
    tracelab.onRun(show)             calls show(run) when the user selects a run; null: all runs
    tracelab.whenNear(element, draw) calls it once, when the element comes near the viewport, or is printed
    tracelab.chart(element, option)  a chart in the element, drawn when near, again when the theme or the width changes;
                                     option() gives ECharts' option; tooltips are elements (`tracelab.tip(title, rows)`)
    tracelab.readable(value, unit)   "12.35 µs" of ns, "1.235 GB" of B, "24.3 %" of %; others with four digits

Text reaches the page by `textContent` alone, so names are harmless; the page's policy forbids every other script.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tracelab.compare.comparison import Comparison
from tracelab.compare.kernel_groups import group_kernels
from tracelab.query import library as query
from tracelab.query.report_rules import SECTION_TITLES
from tracelab.query.spec import Query
from tracelab.report.answers import Answer, ReportSession, open_report_session
from tracelab.report.flame import render_flame
from tracelab.report.health import render_health
from tracelab.report.html import Section
from tracelab.report.page import render_head, render_page
from tracelab.report.part import render_missing, render_query
from tracelab.report.summary.html import render_summaries
from tracelab.report.summary.lead import RunLeads
from tracelab.report.summary.summarize import summarize_answers
from tracelab.report.summary.utilization import submit_utilization
from tracelab.report.table_cache import cache_small_tables
from tracelab.report.timeline import drawn_runs, prepare_timeline
from tracelab.report.verdict import compare_pair, render_verdict
from tracelab.store.scope.request import Scope

__all__ = ["Answer", "ReportSession", "Section", "report"]

Render = Callable[[ReportSession, RunLeads], Section | None]

SECTIONS: dict[str, Callable[[ReportSession], Render]] = {
    "health": lambda session: _made(render_health(session)),
    "when": prepare_timeline,
    "stacks": lambda session: _made(render_flame(session)),
}
"""Sections that a function builds, which runs its own queries and returns what renders their answers."""

_UNFOLDED = ("time", "comparison")
"""Sections whose first query is shown whole; of others a reader unfolds what the findings lead to."""
_COMPARED = 2
_FLEET = 20
"""With so many runs or more, the report has what they have in common behind the summary."""
_MOST_SUMMARIES = 200
"""With more runs, the report has the summaries of the first; `tracelab summary` prints all."""


def report(
    store: Path,
    runs: tuple[str, ...] = (),
    *,
    aligned: bool = False,
    all_findings: bool = False,
    scope: Scope | None = None,
) -> str:
    """Return the report as HTML, with the times of all ranks on one clock if `aligned`, of the scope alone if given.

    With `all_findings`, all findings that cost at least 1 % of the run's measured time are shown, also those within the
    thresholds of their rules.

    Raises NoDataError if the store or the scope is empty, or the store lacks one of the runs.
    """
    with open_report_session(store, runs, aligned=aligned, scope=scope) as opened:
        session = replace(opened, all_findings=all_findings)
        cache_small_tables(session.con, store)
        sections = list(_sections(session))
        missing = [line for section in sections for line in section.missing]
        filled = [section for section in sections if section.body]
        if missing:
            summary = f"<summary>{len(missing)} queries without data, and how to capture it</summary>"
            body = f"<details class=lacking>{summary}<ul>{''.join(missing)}</ul></details>"
            filled.append(Section("lacking", "No data", body))
        return render_page("tracelab report", render_head(session), filled)


def _made(section: Section | None) -> Render:
    return lambda _session, _leads: section


def _sections(session: ReportSession) -> Iterator[Section]:
    """Yield the sections in order: built by a function, or of the results of their queries.

    What functions build is computed while the answers of queries are summarized and rendered.
    """
    sections = _ordered_sections(session)
    with session.open_workers() as workers:
        queries = workers.submit_queries(_report_queries([name for name, _ in sections]))
        utilization = submit_utilization(workers, queries)
        built = {part: workers.submit(SECTIONS[part]) for part, _ in sections if part in SECTIONS}
        selected = [each.result() for each in queries]
        is_pair = len(session.run_names) == _COMPARED
        answers = {answer.query.name: answer for answer in selected}
        summaries = summarize_answers(session, answers, utilization.result(), compared=is_pair)
        leads = {each.run: (*each.leads, *each.unranked) for each in summaries}
        of_queries = {}
        for part, title in sections:
            if of_part := [each for each in selected if each.query.report and each.query.report.section == part]:
                of_queries[part] = _render_answers(session, part, title, of_part, leads)
        for part, title in sections:
            if part == "summary":
                drawn = frozenset(drawn_runs(session))
                listed = summaries[:_MOST_SUMMARIES]
                yield Section(part, title, render_summaries(listed, named=session.several, drawn=drawn))
            elif part in SECTIONS:
                if (section := built[part].result()(session, leads)) is not None:
                    yield section
            elif part in of_queries:
                yield of_queries[part]


def _render_answers(
    session: ReportSession, part: str, title: str, answers: Sequence[Answer], leads: RunLeads
) -> Section:
    """Render the section of queries."""
    filled = [answer for answer in answers if answer.table is not None]
    is_comparison = len(session.run_names) == _COMPARED and part == "comparison"
    compared = compare_pair(session) if is_comparison else None
    joined = group_kernels(compared) if isinstance(compared, Comparison) else None
    body = "\n".join(
        render_query(session, answer, leads, is_unfolded=at == 0 and part in _UNFOLDED, joined=joined)
        for at, answer in enumerate(filled)
    )
    if compared is not None:
        body = f"{render_verdict(session, compared)}\n{body}"
    missing = tuple(render_missing(answer) for answer in answers if answer.table is None)
    return Section(part, title, body, missing=missing)


def _ordered_sections(session: ReportSession) -> list[tuple[str, str]]:
    """Return name and title of the sections in their order; of two runs the comparison is first."""
    names = [name for name in SECTION_TITLES if name != "fleet" or len(session.run_names) >= _FLEET]
    if len(session.run_names) == _COMPARED:
        names.remove("comparison")
        names.insert(0, "comparison")
    return [(name, SECTION_TITLES[name]) for name in names]


def _report_queries(sections: Sequence[str]) -> list[Query]:
    """Return the queries whose header places them in one of the sections, in their order."""
    library = query.library().items()
    selected = [(each.report.order, name, each) for name, each in library if each.report]
    return [
        each
        for _, _, each in sorted(selected)
        if each.report and each.report.section in sections and each.report.section not in SECTIONS
    ]
