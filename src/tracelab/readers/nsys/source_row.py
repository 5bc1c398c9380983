"""Build the row in `sources` and the diagnostics of an export."""

from tracelab.readers.base import ReadResult
from tracelab.readers.diagnostics import DiagnosticCounts, build_diagnostics
from tracelab.readers.nsys import connection, metadata, parquet_export, sqlite_export
from tracelab.readers.nsys.column_builders import Session
from tracelab.readers.nsys.diagnostics import DAMAGE, MESSAGES
from tracelab.readers.nsys.export import Export, read_records
from tracelab.readers.tool_messages import quote_message

_SEVERE = {"Warning": "profiler_warning", "Error": "profiler_error"}


def note_table_problems(export: Export, diagnostics: DiagnosticCounts) -> None:
    """Count tables that are skipped or unreadable."""
    stacks = [table for table in export.tables if table.endswith("_CALLCHAINS") and export.parts(table)]
    diagnostics.note("call_stacks", count=len(stacks))
    if isinstance(export, sqlite_export.SqliteExport) and export.cut:
        diagnostics.note("cut_off")
    elif isinstance(export, sqlite_export.SqliteExport) and not any(diagnostics.counts[code] for code in DAMAGE):
        diagnostics.note("structure_damaged", count=sqlite_export.fails_quick_check(export.path))
    if isinstance(export, sqlite_export.SqliteExport) and connection.has_unmerged_rows(export.path):
        diagnostics.note("log_beside", f"{export.path.name}-wal")
    if isinstance(export, parquet_export.FolderExport):
        for table in export.broken:
            diagnostics.note("table_lost", table)


def note_profiler_messages(export: Export, session: Session, diagnostics: DiagnosticCounts) -> None:
    """Count warnings and errors of nsys."""
    levels = session.enums["ENUM_DIAGNOSTIC_SEVERITY_LEVEL"]
    for row in read_records(export, "DIAGNOSTIC_EVENT", {"severity": "int", "text": "text"}, diagnostics):
        level = levels.get(row["severity"]) if isinstance(row["severity"], int) else None
        if level in _SEVERE:
            diagnostics.note(_SEVERE[level], quote_message("nsys", str(row["text"] or "")))


def build_result(
    export: Export, session: Session, diagnostics: DiagnosticCounts, events_kept: int, *, start_known: bool
) -> ReadResult:
    """Return the row in `sources` and the diagnostics."""
    note_profiler_messages(export, session, diagnostics)
    if not start_known:
        diagnostics.note("session_start_unknown")
    if not events_kept:
        diagnostics.note("no_events")
    versions = metadata.read_versions(export, diagnostics)
    version, schema = versions.get("EXPORT_PRODUCT_VERSION"), versions.get("EXPORT_SCHEMA_VERSION")
    skipped = diagnostics.counts["rows_lost"]
    return ReadResult(
        source={
            "producer": "Nsight Systems",
            "producer_version": version and (f"{version} (schema {schema})" if schema else version),
            "events_read": events_kept + skipped,
            "events_kept": events_kept,
            "events_skipped": skipped,
            "complete": not any(diagnostics.counts[code] for code in DAMAGE),
            "clock": "unix" if start_known else "session",
            "window_start_ns": session.shift_ns if session.dur_ns is not None else None,
            "window_dur_ns": session.dur_ns,
        },
        diagnostics=build_diagnostics(diagnostics, MESSAGES),
    )
