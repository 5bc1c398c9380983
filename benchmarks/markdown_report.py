"""Render measurements as Markdown for the docs: ratios first, with the machine."""

from collections.abc import Iterable

from ingest_cost import Case
from machine import in_words
from nsys_export_cost import Export
from other_tools import Answer
from process_cost import median
from query_cost import Asked
from startup_cost import Start

Facts = dict[str, str | int | float]


def markdown(
    facts: Facts,
    cases: list[Case],
    exported: Export | None,
    asked: list[list[Asked]],
    start: Start | None,
) -> str:
    """Return all tables; of questions one for each number of events, of the stores that have as many."""
    parts = [_ingest(cases), _peers(cases), _export(exported), *map(_queries, asked), _start(start)]
    return "\n\n".join([*(part for part in parts if part), f"Measured on {in_words(facts)}."])


def _ingest(cases: list[Case]) -> str:
    if not cases:
        return ""
    header = ("trace", "text", "events", "rows", "`json.load`", "ingest", "faster", "processor time", "peak memory")
    return _table(header, (_ingest_row(case) for case in cases))


def _ingest_row(case: Case) -> tuple[str, ...]:
    slow = case.json_load
    return (
        f"{case.name}{', gzip' if case.gzip else ''}",
        f"{case.text_mb:,.0f} MB",
        f"{case.events:,}",
        f"{case.rows:,}",
        f"{median([run.wall_s for run in slow]):.1f} s" if slow else case.json_load_absent,
        f"{case.seconds:.2f} s",
        f"**{case.speedup:.1f}×**" if case.speedup else "",
        " : ".join(f"{median([run.cpu_s for run in runs]):.1f} s" for runs in (slow, case.tracelab) if runs),
        " : ".join(_gb(max(run.peak_bytes for run in runs)) for runs in (slow, case.tracelab) if runs),
    )


def _peers(cases: list[Case]) -> str:
    rows = [(case, name, peer) for case in cases for name, peer in case.peers.items()]
    if not rows:
        return ""
    header = ("trace", "peer", "whole process", "its call", "tracelab is", "memory", "rows", "remark")
    return _table(header, (_peer_row(*row) for row in rows))


def _peer_row(case: Case, name: str, peer: Answer | str) -> tuple[str, ...]:
    trace = f"{case.name}{', gzip' if case.gzip else ''}, {case.text_mb:,.0f} MB"
    if isinstance(peer, str):
        return trace, name, "–", "–", "–", "–", "–", peer
    return (
        trace,
        f"{name} {peer.version}",
        f"{peer.cost.wall_s:.1f} s",
        f"{peer.call_s:.1f} s",
        f"**{peer.cost.wall_s / case.seconds:.1f}× faster**",
        _gb(peer.cost.peak_bytes),
        f"{peer.held:,}",
        peer.remark,
    )


def _export(exported: Export | None) -> str:
    if exported is None:
        return ""
    return (
        f"An nsys export (SQLite, {exported.file_mb:,.0f} MB) of {exported.rows:,} kernels is ingested in "
        f"{exported.seconds:.2f} s: **{exported.rows_per_s / 1e6:.2f} million rows a second**, "
        f"{exported.cpu_us_a_row:.2f} µs of processor time a row, {_gb(exported.peak_bytes)} at most, "
        f"{exported.store_mb:,.0f} MB of Parquet."
    )


def _queries(asked: list[Asked]) -> str:
    names = sorted({name for one in asked for name in one.answers})
    unasked = {name: one.left_out[name] for one in asked for name in sorted(one.left_out) if name not in names}
    header = ("query", *(f"{one.name}: {what}" for one in asked for what in ("first", "again", "memory")))
    rows = ((f"`{name}`", *(cell for one in asked for cell in _cells(one, name))) for name in names)
    parts = [
        _table(header, rows),
        "\n".join(f"- {_range(one)}" for one in asked),
        *(f"Not asked: `{name}` ({why})." for name, why in unasked.items()),
    ]
    return "\n\n".join(parts)


def _range(asked: Asked) -> str:
    answers = asked.answers.values()
    first_s, again_s = [answer.first_s for answer in answers], [answer.again_s for answer in answers]
    return (
        f"{asked.held}. Each of {len(answers)} questions takes {min(first_s):.2f} to {max(first_s):.2f} s, asked again "
        f"{min(again_s):.2f} to {max(again_s):.2f} s, and at most {_gb(max(answer.peak_bytes for answer in answers))}."
    )


def _cells(asked: Asked, name: str) -> tuple[str, str, str]:
    answer = asked.answers.get(name)
    if answer is None:
        return "", "", ""
    return f"{answer.first_s:.2f} s", f"{answer.again_s:.2f} s", _gb(answer.peak_bytes)


def _start(start: Start | None) -> str:
    if start is None:
        return ""
    return (
        f"`tracelab --help` takes {start.help_s * 1e3:.0f} ms, of which bare Python takes {start.bare_s * 1e3:.0f}: "
        f"{start.above_s * 1e3:.0f} ms are tracelab's."
    )


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = list(header)
    lines = [header, ["---"] * len(header), *map(list, rows)]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.2f} GB"
