"""What was measured as Markdown, ready for a README: ratios first, with the machine named."""

from collections.abc import Iterable

from answers import QUERIES, Answers
from exports import Export
from hosting import QUERIES as HOST_QUERIES
from hosting import HostAnswers
from ingesting import Case
from machine import in_words
from peers import Answer
from process import median
from starting import Start

Facts = dict[str, str | int | float]


def markdown(
    facts: Facts,
    cases: list[Case],
    exported: Export | None,
    asked: list[Answers],
    hosted: HostAnswers | None,
    start: Start | None,
) -> str:
    """Return all tables."""
    parts = [_ingest(cases), _peers(cases), _export(exported), _queries(asked), _hosted(hosted), _start(start)]
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


def _queries(asked: list[Answers]) -> str:
    if not asked:
        return ""
    header = ("query", *(f"{_many(one.ranks, 'rank')}: {what}" for one in asked for what in ("first", "again")))
    rows = [("connect", *(cell for one in asked for cell in (f"{one.connect_s:.2f} s", "")))]
    for name in QUERIES:
        times = (seconds for one in asked for seconds in (one.first_s(name), one.again_s(name)))
        rows.append((f"`{name}`", *(f"{seconds:.2f} s" for seconds in times)))
    held = (
        f"{_many(one.ranks, 'rank')}: {one.kernels:,} kernels on {one.streams} streams, {one.copies:,} copies, "
        f"ingested from {one.text_mb:,.0f} MB in {one.ingested.wall_s:.1f} s and {_gb(one.ingested.peak_bytes)}"
        for one in asked
    )
    return f"{_table(header, rows)}\n\n{'; '.join(held)}."


def _hosted(hosted: HostAnswers | None) -> str:
    if hosted is None:
        return ""
    rows = [(f"`{name}`", f"{hosted.first_s(name):.2f} s", f"{hosted.again_s(name):.2f} s") for name in HOST_QUERIES]
    held = (
        f"{hosted.events:,} events, {hosted.ops:,} of them ops, ingested from {hosted.text_mb:,.0f} MB "
        f"in {hosted.ingested.wall_s:.1f} s."
    )
    return f"{_table(('query about the host', 'first', 'again'), rows)}\n\n{held}"


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


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.2f} GB"
