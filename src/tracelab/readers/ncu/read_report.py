"""Read a whole report into a sink, from text or through NVIDIA's module."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.errors import NotProfilerDataError
from tracelab.readers import decompress
from tracelab.readers.base import ReadResult
from tracelab.readers.diagnostics import build_diagnostics, rank_from_name
from tracelab.readers.ncu import binary_report
from tracelab.readers.ncu.console import ConsoleParser
from tracelab.readers.ncu.csv_pages import PageParser
from tracelab.readers.ncu.diagnostics import MESSAGES, explain_empty_report
from tracelab.readers.ncu.probe import is_report
from tracelab.readers.ncu.report_builder import ReportBuilder
from tracelab.readers.ncu.session_page import SessionPageParser
from tracelab.readers.text_lines import iter_lines
from tracelab.store.writer import Sink


def read(
    path: Path,
    open_sink: Callable[[int], Sink],
    *,
    workers: int,  # noqa: ARG001 - one thread: what a row means hangs on the rows before it
    progress: Callable[[int], None],
) -> ReadResult:
    """Put the metrics of a report into a sink. Raises NotProfilerDataError if it has no launch."""
    rank_of_name = rank_from_name(path)
    sink = open_sink(rank_of_name or 0)
    report = ReportBuilder(sink.put)
    if is_report(decompress.read_head(path)):
        binary_report.read_report(path, report, progress)
    else:
        with decompress.open_decompressed(path, report.diagnostics, progress) as stream:
            parse_lines(iter_lines(stream, report.diagnostics), report)
    if not report.kept:
        raise NotProfilerDataError(
            path, explain_empty_report(set(report.diagnostics.counts), report.error, has_header=report.has_header)
        )
    ranks = _assign_ranks(report, rank_of_name)
    if (devices := report.devices.table(lambda pid: ranks.get(pid, rank_of_name or 0))) is not None:
        sink.put("devices", devices)
    sink.close()
    if len(ranks) > 1:
        sink.rewrite("kernel_metrics", partial(_set_ranks, ranks=ranks))
    return _facts(report)


def parse_lines(lines: Iterable[str], report: ReportBuilder) -> None:
    """Pass each line to the parser it belongs to: CSV page, session page, console; others are stray."""
    pages, session, console = PageParser(report), SessionPageParser(report), ConsoleParser(report)
    for line in lines:
        report.line += 1
        if not (pages.parse_line(line) or session.parse_line(line) or console.parse_line(line)):
            report.handle_stray(line)
    pages.finish()
    console.finish()
    report.rows.flush()


def _assign_ranks(report: ReportBuilder, rank_of_name: int | None) -> Mapping[int | None, int]:
    """Assign a rank to each process: by process id if there are several, else the rank in the file's name."""
    pids = sorted(pid for pid in report.rows.pids if pid is not None)
    if len(pids) > 1:
        report.diagnostics.note("ranks_by_pid", f"{len(pids):,}")
        return {pid: rank for rank, pid in enumerate(pids)}
    if rank_of_name is None:
        report.diagnostics.note("rank_assumed")
    return dict.fromkeys(pids, rank_of_name or 0)


def _set_ranks(rows: pa.Table, *, ranks: Mapping[int | None, int]) -> pa.Table:
    keys = pa.array(list(ranks), pa.int64())
    by_key = pa.array([*ranks.values()], pa.int32())
    ranks_of_rows = pc.fill_null(by_key.take(pc.index_in(rows.column("pid"), keys).combine_chunks()), 0)
    return rows.set_column(rows.schema.get_field_index("rank"), rows.schema.field("rank"), ranks_of_rows)


def _facts(report: ReportBuilder) -> ReadResult:
    """Return the row in `sources`.

    Events are rows of the report: launches of a raw page, metrics and advice of others, device attributes.
    """
    noted = build_diagnostics(report.diagnostics, MESSAGES)
    return ReadResult(
        source={
            "format": "ncu",
            "producer": "Nsight Compute",
            "producer_version": report.version,
            "events_read": report.kept + report.skipped,
            "events_kept": report.kept,
            "events_skipped": report.skipped,
            "complete": not any(row.severity == "error" for row in noted),
        },
        diagnostics=(*noted, *report.advised.messages),
    )
