"""Render the section of flame graphs: what each stack of frames costs, for a script that draws and searches them."""

from collections import Counter
from itertools import product
from typing import Any

import pyarrow as pa

from tracelab.export.stacks import MEASURES
from tracelab.output.labels import Quantity, format_scaled
from tracelab.report.answers import ReportSession
from tracelab.report.html import Section, count_in_file, escape_text, render_prose
from tracelab.report.table import table_html

MOST_FRAMES = 65_536
"""A drawing holds at most so many frames, those that cost most; each takes some 20 bytes of the page."""
FRAMES_ON_PAPER = 24
"""The deepest frame of a stack on paper, as in report.css."""
_MOST_RUNS = 3
_TABLE_ROWS = 15
_TREE = ("names", "frames", "parents", "own", "merged")
_UNITS = {"nanoseconds": "ns", "bytes": "B"}
_EXPLAINED = (
    "Each bar is a frame below the frames that called it, and as wide as what it costs: time on the CPU, waiting "
    "included, GPU time that it launched, or bytes that it allocated; of all frames, or of modules alone. Click a bar "
    "to zoom to it, or press Enter; Escape zooms out. Arrow keys select the frame above, below or beside. `tracelab "
    "query stacks` has all figures, and `tracelab export --speedscope` writes them."
)


def render_flame(session: ReportSession) -> Section | None:
    """Render the section for the first rank of each run with Python frames; None where no run has any."""
    ranks = _recorded_ranks(session)
    figures = [_figure_data(session, run, rank) for run, rank in list(ranks.items())[:_MOST_RUNS]]
    figures = [figure for figure in figures if figure["measures"]]
    if not figures:
        return None
    body = [
        '<article class=part id="stacks"><h3>Stacks</h3>',
        f"<p>{render_prose(_EXPLAINED)}</p>",
        *(_figure(place, figure) + _waiting_note(figure) for place, figure in enumerate(figures)),
        _paper_note(len(figures) - 1),
        _omission_note(len(ranks)),
        *(_table(figure) for figure in figures),
        "</article>",
    ]
    return Section("stacks", "Flame graphs", "\n".join(filter(None, body)), embed_figures(figures), ("flame.js",))


def embed_figures(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the blocks of the page: the figures without their trees, and each tree, which the script reads to draw it.

    `rows` is the height of a tree, so that the page leaves its room to a drawing that is not near yet.
    """
    trees: dict[str, Any] = {}
    described = []
    for figure in figures:
        measures = []
        for measure in figure["measures"]:
            block = f"flame-{len(trees)}"
            trees[block] = {name: measure[name] for name in _TREE}
            words = {name: value for name, value in measure.items() if name not in _TREE}
            measures.append(words | {"block": block, "rows": _height(measure["parents"])})
        described.append(figure | {"measures": measures})
    return {"flame": described} | trees


def _height(parents: list[int]) -> int:
    """Return how many frames the deepest stack has; parents come before their children."""
    depths: list[int] = []
    for parent in parents:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return max(depths, default=0)


def _recorded_ranks(session: ReportSession) -> dict[str, int]:
    """Return the lowest rank with Python frames of each selected run that has any."""
    rows = session.con.execute(
        "select run, min(rank) from python_frames where $runs = [] or list_contains($runs, run) "
        "group by run order by run",
        {"runs": list(session.runs)},
    ).fetchall()
    return dict(rows)


def _figure_data(session: ReportSession, run: str, rank: int) -> dict[str, Any]:
    measures = []
    for by, measure in product(_views(session, run, rank), MEASURES):
        table = session.run_named("stacks", measure=measure, by=by, run=run, rank=rank).table
        if table is not None and any(table["own"].to_pylist()):
            words, unit = MEASURES[measure]
            title = words if by == "stack" else f"{words}, by {by}"
            measures.append({"measure": measure, "by": by, "title": title, "unit": _UNITS[unit]} | embed_tree(table))
            if (measure, by) == ("cpu", "stack"):
                measures[-1] |= {"waits": sum_waits(table)}
    return {"run": run, "rank": rank, "measures": measures}


def _views(session: ReportSession, run: str, rank: int) -> tuple[str, ...]:
    """Return by which frames a rank's stacks are drawn: all, and modules where any is recorded."""
    has_modules = session.con.execute(
        "select exists (from python_frames where run = $run and rank = $rank and starts_with(name, 'nn.Module: '))",
        {"run": run, "rank": rank},
    ).fetchone()
    return ("stack", "module") if has_modules == (True,) else ("stack",)


def embed_tree(table: pa.Table, most: int = MOST_FRAMES) -> dict[str, Any]:
    """Return the tree of one rank for the script: names, and of each frame the name's place, parent and own cost.

    Parents are positions, -1 for a root, and come before their children. Of more than `most` frames those that cost
    least become one frame below each frame that they are called from; `merged` counts them.
    """
    rows = table.select(["node", "parent", "frame", "own", "total"]).to_pylist()
    by_cost = sorted(rows, key=lambda row: (-row["total"], row["node"]))
    kept = sorted(by_cost[:most], key=lambda row: int(row["node"]))
    places = {row["node"]: place for place, row in enumerate(kept)}
    frames = [row["frame"] for row in kept]
    parents = [-1 if row["parent"] is None else places[row["parent"]] for row in kept]
    own = [row["own"] for row in kept]
    costs: Counter[int] = Counter()
    counts: Counter[int] = Counter()
    holders: dict[int, int] = {}
    for row in rows if len(kept) < len(rows) else ():
        if row["node"] not in places:
            above = row["parent"]
            holder = -1 if above is None else places.get(above, holders.get(above, -1))
            holders[row["node"]] = holder
            costs[holder] += row["own"]
            counts[holder] += 1
    for holder, count in counts.items():
        frames.append(f"({count:,} smaller frames)")
        parents.append(holder)
        own.append(costs[holder])
    names = {name: place for place, name in enumerate(dict.fromkeys(frames))}
    return {
        "names": list(names),
        "frames": [names[name] for name in frames],
        "parents": parents,
        "own": own,
        "merged": counts.total(),
    }


def _figure(place: int, figure: dict[str, Any]) -> str:
    title = f"{escape_text(figure['run'])}, rank {figure['rank']}"
    return (
        f'<figure class="flame{" screen" * (place > 0)}" data-flame="{place}" data-run="{escape_text(figure["run"])}" '
        f'role="group" aria-label="Flame graph of {title}"><h4>{title}</h4><div class="flame-drawing"></div>'
        f"{_depth_note(figure['measures'])}"
        "<figcaption class=hidden>The table below holds the frames that cost most.</figcaption></figure>"
    )


def _depth_note(measures: list[dict[str, Any]]) -> str:
    """Render the note of a drawing that is deeper than paper has it."""
    is_cut = any(_height(each["parents"]) > FRAMES_ON_PAPER for each in measures)
    return '<p class="paper cut">Deeper frames are in the file.</p>' if is_cut else ""


def _paper_note(figures: int) -> str:
    return f'<p class="paper cut" data-all>{count_in_file(figures, "flame graph[s]")}</p>' if figures else ""


def sum_waits(table: pa.Table) -> dict[str, int]:
    """Return the time of each frame that only waits, longest first, by its name."""
    waits: Counter[str] = Counter()
    for row in table.select(["frame", "own", "is_wait"]).to_pylist():
        if row["is_wait"]:
            waits[row["frame"]] += row["own"]
    return {frame: own for frame, own in waits.most_common() if own > 0}


def _waiting_note(figure: dict[str, Any]) -> str:
    """Render how much of the time on the CPU is that of threads that wait; the drawing has it, too."""
    measure = figure["measures"][0]
    waits: dict[str, int] = measure.get("waits", {})
    if not waits:
        return ""
    waited, whole = sum(waits.values()), sum(measure["own"])
    frame = next(iter(waits))
    note = (
        f"Of {format_scaled(whole, Quantity.DURATION)} on all threads, {format_scaled(waited, Quantity.DURATION)} "
        f"({100 * waited / whole:.0f} %) are waits for locks, times, processes, data and GPUs, most in {frame}. "
        "Threads that sleep, as those of data loaders, count like any other. Copies that wait, as those of .item(), "
        "count as work: sync_points has them."
    )
    return f"<p class=cut>{escape_text(note)}</p>"


def _omission_note(runs: int) -> str:
    if runs <= _MOST_RUNS:
        return ""
    note = f"{runs - _MOST_RUNS:,} of {runs:,} runs with Python frames are not drawn; choose runs with --run."
    return f"<p class=cut>{note}</p>"


def _table(figure: dict[str, Any]) -> str:
    """Render the frames with the highest cost of their own, of the first measure, wherever they are called."""
    tree = figure["measures"][0]
    costs: Counter[str] = Counter()
    for name, own in zip(tree["frames"], tree["own"], strict=True):
        costs[tree["names"][name]] += own
    column = "own_ns" if tree["unit"] == "ns" else "own_bytes"
    top = [{"frame": name, column: cost} for name, cost in costs.most_common(_TABLE_ROWS)]
    caption = f"{tree['title']} by frame: rank {figure['rank']} of {figure['run']}"
    summary = f"<summary>Table: {escape_text(caption)}</summary>"
    return f"<details class=data>{summary}{table_html(pa.Table.from_pylist(top), caption, {})}</details>"
