"""What an export as a whole tells: its row in `sources`, and what was noticed."""

from tracelab.readers.base import ReadResult
from tracelab.readers.diagnostics import Findings, diagnostics
from tracelab.readers.nsys import connection, folder, metadata, sqlite
from tracelab.readers.nsys.column_builders import Session
from tracelab.readers.nsys.diagnostics import DAMAGE, SENTENCES
from tracelab.readers.nsys.export import Export, records

_SEVERE = {"Warning": "profiler_warning", "Error": "profiler_error"}


def note_tables(export: Export, findings: Findings) -> None:
    """Note what was left where it is, and what cannot be read."""
    stacks = [table for table in export.tables if table.endswith("_CALLCHAINS") and export.parts(table)]
    findings.note("call_stacks", count=len(stacks))
    if isinstance(export, sqlite.SqliteExport) and export.cut:
        findings.note("cut_off")
    elif isinstance(export, sqlite.SqliteExport) and not any(findings.counts[code] for code in DAMAGE):
        findings.note("structure_damaged", count=sqlite.seems_damaged(export.path))
    if isinstance(export, sqlite.SqliteExport) and connection.has_unmerged_rows(export.path):
        findings.note("log_beside", f"{export.path.name}-wal")
    if isinstance(export, folder.FolderExport):
        for table in export.broken:
            findings.note("table_lost", table)


def note_profiler(export: Export, session: Session, findings: Findings) -> None:
    """Note what nsys itself warned of."""
    levels = session.enums["ENUM_DIAGNOSTIC_SEVERITY_LEVEL"]
    for row in records(export, "DIAGNOSTIC_EVENT", {"severity": "int", "text": "text"}, findings):
        level = levels.get(row["severity"]) if isinstance(row["severity"], int) else None
        if level in _SEVERE:
            findings.note(_SEVERE[level], str(row["text"] or "").strip().split("\n", 1)[0].rstrip(". "))


def facts_of(
    export: Export, session: Session, findings: Findings, events_kept: int, *, start_known: bool
) -> ReadResult:
    """The columns of the source's row, and what was noticed."""
    note_profiler(export, session, findings)
    if not start_known:
        findings.note("session_start_unknown")
    if not events_kept:
        findings.note("no_events")
    told = metadata.versions(export, findings)
    version, schema = told.get("EXPORT_PRODUCT_VERSION"), told.get("EXPORT_SCHEMA_VERSION")
    skipped = findings.counts["rows_lost"]
    return ReadResult(
        source={
            "producer": "Nsight Systems",
            "producer_version": version and (f"{version} (schema {schema})" if schema else version),
            "events_read": events_kept + skipped,
            "events_kept": events_kept,
            "events_skipped": skipped,
            "complete": not any(findings.counts[code] for code in DAMAGE),
            "clock": "unix" if start_known else "session",
            "window_start_ns": session.shift_ns if session.dur_ns is not None else None,
            "window_dur_ns": session.dur_ns,
        },
        diagnostics=diagnostics(findings, SENTENCES),
    )
