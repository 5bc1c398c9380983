"""Render the timeline section: zoomable time bins, embedded exactly at the finest level."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tracelab.errors import NoDataError
from tracelab.output.labels import Quantity, format_scaled
from tracelab.query import execute, library
from tracelab.report.answers import Answer, ReportSession
from tracelab.report.findings import render_findings
from tracelab.report.html import Section, count_in_file, escape_text, render_prose
from tracelab.report.summary.lead import Lead, RunLeads
from tracelab.report.table import table_html

if TYPE_CHECKING:
    import polars

MOST_BINS = 4096
FEWEST_BINS = 256
_BINS_IN_ALL = 16_384
"""Maximum over all devices: a bin takes some 25 bytes of the page."""
MOST_DEVICES = 48
DEVICES_ON_PAPER = 8
"""Devices of a run on paper, and about as many of all runs together: with their tracks they fill two pages."""
_TABLE_BINS = 8
_TABLE_ROWS = 160
_MOST_STEPS = 400
PARTS = {
    "compute_alone_ns": ("compute", "computing alone"),
    "overlapped_comm_ns": ("hidden", "communicating, hidden behind compute"),
    "exposed_comm_ns": ("comm", "communicating, exposed"),
    "exposed_memory_ns": ("memory", "copying, exposed"),
    "idle_ns": ("idle", "idle"),
}
"""Parts that fill a bin together with `outside_ns`: color and label."""
_TRACKS = ("kernel_ns", "max_kernels", "copy_bytes", "allocated_bytes", "max_allocated_bytes", "reserved_bytes")
_LEVELS = ("allocated_bytes", "max_allocated_bytes", "reserved_bytes")
"""Columns with long constant stretches: embedded as differences."""
_Key = tuple[str, int, int | None]


def render_timeline(session: ReportSession, leads: RunLeads | None = None) -> Section | None:
    """Render the section, if there is any GPU activity; `leads` are the findings of each run's summary."""
    return prepare_timeline(session)(session, leads or {})


def prepare_timeline(session: ReportSession) -> Callable[[ReportSession, RunLeads], Section | None]:
    """Run the queries of the section, and return what renders their answers."""
    devices = _devices(session)
    if not devices:
        return lambda _session, _leads: None
    only = {"most_devices": MOST_DEVICES} if len(devices) > MOST_DEVICES else {}
    answer = session.run_named("timeline", bins=_max_bins(len(devices[:MOST_DEVICES])), **only)
    if answer.table is None:
        return lambda _session, _leads: None
    embedded = _embed_bins(answer.table, devices[:MOST_DEVICES])
    for run in embedded:
        run["steps"] = _steps(session, run["run"])
    coarse = session.run_named("timeline", bins=_table_bins(len(devices[:MOST_DEVICES]))).table
    return partial(_render, devices, replace(answer, table=None), embedded, coarse)


def _render(
    devices: Sequence[_Key],
    answer: Answer,
    embedded: list[dict[str, Any]],
    coarse: pa.Table | None,
    session: ReportSession,
    leads: RunLeads,
) -> Section:
    """Render the bins of `embedded`, of the table of `coarse` ones; `answer` is without its rows."""
    for run in embedded:
        run["onPaper"] = _choose_bands(run, leads.get(run["run"], ()))
    printed = _choose_runs(embedded, leads)
    body = [
        f'<article class="part" id="{answer.query.name}"><h3>{escape_text(answer.query.title)}</h3>',
        render_findings(session, answer.query, coarse, leads) if coarse is not None else "",
        f"<p>{render_prose(_EXPLAINED)}</p>",
        _legend(embedded),
        *(_figure(number, run, is_on_paper=run["run"] in printed) for number, run in enumerate(embedded)),
        _paper_note(len(embedded) - len(printed)),
        _omission_note(session, devices),
        _table(coarse, _table_bins(len(devices[:MOST_DEVICES]))),
        f"<details class=definition><summary>Definition</summary><p>{render_prose(answer.query.prose)}</p></details>",
        f'<details class=sql id="sql-{answer.query.name}"><summary>SQL</summary>'
        f"<p>Full result: <code>{escape_text(answer.command)}</code></p>"
        f"<pre tabindex=0>{render_sql_lines(answer.sql)}</pre></details></article>",
    ]
    colors = [[name, color, label] for name, (color, label) in PARTS.items()]
    data = {"timeline": {"parts": colors, "levels": _LEVELS, "runs": embedded}}
    return Section("when", "Timeline", "\n".join(filter(None, body)), data, ("bins.js", "timeline.js"))


_EXPLAINED = (
    "Each band is one device: its height is 100 % of each time bin, its colors are the shares. Blank is time in "
    "which nothing was recorded of the device, or only rows outside of the scope ran. Of kernels in flight the "
    "pale part is the most at once, the full one the mean. All devices of a run share the axis. Zoom with the "
    "wheel while holding Ctrl, with two fingers, the buttons, or + and −; move by dragging, or with the arrow "
    "keys. For single events run `tracelab view`."
)


def render_sql_lines(sql: str) -> str:
    """Escape SQL and keep its lines."""
    return "\n".join(escape_text(line) for line in sql.splitlines())


def _devices(session: ReportSession) -> list[_Key]:
    rows = session.con.execute(
        "select distinct run, rank, device from gpu_activity where $runs = [] or list_contains($runs, run) "
        "order by run, rank, device",
        {"runs": list(session.runs)},
    ).fetchall()
    return [(run, rank, device) for run, rank, device in rows]


def drawn_runs(session: ReportSession) -> list[str]:
    """Return the runs that the section draws."""
    return list(dict.fromkeys(run for run, _, _ in _devices(session)[:MOST_DEVICES]))


def _max_bins(devices: int) -> int:
    """Return a power of two, so that bins merge in pairs when zooming out."""
    bins = MOST_BINS
    while bins > FEWEST_BINS and bins * devices > _BINS_IN_ALL:
        bins //= 2
    return bins


def _table_bins(devices: int) -> int:
    """Return how many bins per device the table shows."""
    bins = _TABLE_BINS
    while bins > 1 and bins * devices > _TABLE_ROWS:
        bins //= 2
    return bins


def _embed_bins(answer: pa.Table, devices: Sequence[_Key]) -> list[dict[str, Any]]:
    """Return, by run, the edges of the bins and the columns of each device; constant 0 or NULL columns are omitted.

    Edges and levels are stored as differences, which have few digits.

    """
    import polars

    runs: dict[str, dict[str, Any]] = {}
    groups = polars.DataFrame(answer).partition_by("run", "rank", "device", maintain_order=True, as_dict=True)
    for (run, rank, device), rows in groups.items():
        if (run, rank, device) not in devices:
            continue
        edges = polars.concat([rows["at_ns"], (rows["at_ns"] + rows["bin_ns"])[-1:]])
        entry = runs.setdefault(run, {"run": run, "edges": differences(edges).to_list(), "devices": []})
        columns = {
            column.name: (differences(column) if column.name in _LEVELS else column).to_list()
            for column in rows.select(*PARTS, *_TRACKS)
            if any(column)
        }
        entry["devices"].append({"rank": rank, "device": device, "columns": columns})
    return list(runs.values())


def differences(values: "polars.Series") -> "polars.Series":
    """Return each value minus the previous known one, the first minus 0; NULL stays NULL."""
    return values - values.fill_null(strategy="forward").shift().fill_null(0)


def _steps(session: ReportSession, run: str) -> list[list[object]]:
    """Return the steps of the run's first rank with any, as [number, start, length]; empty if there are too many."""
    try:
        table = execute.run(session.con, library.find("timeline_steps"), {"run": run})
    except NoDataError:  # nothing is marked
        return []
    rows = [row for row in table.to_pylist() if row["at_ns"] is not None]
    rows = [row for row in rows if row["rank"] == rows[0]["rank"]]
    return [[row["step"], row["at_ns"], row["step_ns"]] for row in rows] if len(rows) <= _MOST_STEPS else []


def _choose_bands(run: Mapping[str, Any], leads: Sequence[Lead]) -> list[int]:
    """Return the positions of the devices on paper: those of ranks that findings name, then the first ones."""
    named = [lead.rank for lead in leads]
    places = {rank: -place for place, rank in enumerate(reversed(named), 1)}
    order = sorted(range(len(run["devices"])), key=lambda at: places.get(run["devices"][at]["rank"], 0))
    return sorted(order[:DEVICES_ON_PAPER])


def _choose_runs(runs: Sequence[Mapping[str, Any]], leads: RunLeads) -> frozenset[str]:
    """Return the runs on paper: those that lose the largest share to one finding, as many as there is room for."""
    losses = {run: max((lead.recoverable for lead in of_run), default=0.0) for run, of_run in leads.items()}
    room = DEVICES_ON_PAPER
    chosen: list[str] = []
    for run in sorted(runs, key=lambda run: -losses.get(run["run"], 0.0)):
        if chosen and len(run["onPaper"]) > room:
            break
        room -= len(run["onPaper"])
        chosen.append(run["run"])
    return frozenset(chosen)


def _legend(runs: Sequence[dict[str, Any]]) -> str:
    """Render the legend of the parts that any device spends time on."""
    seen = {name for run in runs for device in run["devices"] for name in device["columns"]}
    shown = [part for name, part in PARTS.items() if name in seen] or PARTS.values()
    items = "".join(f'<li><i style="background:var(--{color})"></i>{label}' for color, label in shown)
    return f'<ul class="timeline-legend">{items}</ul>'


def _figure(number: int, run: dict[str, Any], *, is_on_paper: bool) -> str:
    """Render the placeholder of one run's timeline; screen readers read the table instead."""
    _, *lengths = run["edges"]
    total, length = format_scaled(sum(lengths), Quantity.DURATION), format_scaled(lengths[0], Quantity.DURATION)
    name, devices = escape_text(run["run"]), len(run["devices"])
    counted = f"{devices} device{'s' * (devices > 1)}"
    return (
        f'<figure class="timeline{"" if is_on_paper else " screen"}" data-timeline="{number}" data-run="{name}" '
        f'role="group" aria-label="Timeline of {name}"><h4>{name}</h4>'
        f"<p class=brand>{total} in {len(lengths):,} bins of {length} for {counted}</p>"
        '<div class="timeline-drawing"></div>'
        "<figcaption class=hidden>The table below holds the same figures.</figcaption></figure>"
    )


def _paper_note(runs: int) -> str:
    return f'<p class="paper cut" data-all>{count_in_file(runs, "timeline[s]")}</p>' if runs else ""


def _omission_note(session: ReportSession, devices: Sequence[_Key]) -> str:
    """State how many devices are not drawn, with the command that draws the first of them."""
    if len(devices) <= MOST_DEVICES:
        return ""
    run, rank, _ = devices[MOST_DEVICES]
    command = session.commands.query("timeline", run=run, rank=rank, plot=f"{run}-rank{rank}.svg")
    return (
        f"<p class=cut>{len(devices) - MOST_DEVICES:,} of {len(devices):,} devices are not drawn; "
        f"such as this one: <code>{escape_text(command)}</code></p>"
    )


def _table(coarse: pa.Table | None, bins: int) -> str:
    if coarse is None:
        return ""
    names = ["run", "rank", "device", "at_ns", "bin_ns", *PARTS, "outside_ns", "mean_kernels", "copy_bytes"]
    names += [name for name in ("max_allocated_bytes",) if any(coarse.column(name).to_pylist())]
    rows = coarse.select(names).slice(0, MOST_DEVICES * bins)
    caption = f"Timeline in {bins} bin{'s' * (bins != 1)} of each run"
    return f"<details class=data><summary>Table: {caption}</summary>{table_html(rows, caption, {})}</details>"
