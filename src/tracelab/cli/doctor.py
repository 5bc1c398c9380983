"""`tracelab doctor`: check a store, a run or trace files, worst findings first."""

from __future__ import annotations

import contextlib
import itertools
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelab.cli import options
from tracelab.cli.ingest import progress_bar
from tracelab.cli.output import Output, emit_lines
from tracelab.errors import NoDataError, TracelabError, UsageError
from tracelab.foreign_text import escape_controls, print_exact, print_lines
from tracelab.temp_folders import process_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_EPILOG = """\b
Examples:
  tracelab doctor
  tracelab doctor --run mordred --format json
  tracelab doctor trace.json.gz --strict
  tracelab doctor --check kernel_before_launch --show-sql
  tracelab doctor --verify
"""
_COLORS = {"error": "red", "warning": "yellow", "info": None}
_MOST_RANKS = 15
_ONE_BY_ONE = "damaged_file"
_INDENT = " " * 9


class Doctor(click.Command):
    """A command whose help lists the checks."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the checks after the options."""
        from tracelab import doctor

        super().format_options(ctx, formatter)
        with formatter.section("Checks"):
            formatter.write_dl(
                [*((check.code, check.title) for check in doctor.checks()), *doctor.BUILT_IN_CHECKS.items()]
            )


@click.command(cls=Doctor, epilog=_EPILOG, params=[options.STORE, *options.TEXT_OUTPUT])
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option("--run", metavar="NAME", help="Only this run.")
@click.option("--check", "codes", multiple=True, metavar="CODE", help="Only findings with this code; repeatable.")
@click.option("--verify", is_flag=True, help="Read every file and compare it with the hash of ingest; run no check.")
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.option("--show-sql", is_flag=True, help="Print the checks as SQL, and run nothing.")
def command(paths: tuple[str, ...], store: Path | None, **selection: Any) -> None:  # noqa: ANN401  options have all types
    """Check data for errors and gaps, and print what to do about each.

    PATH is a store, a trace file, a folder or a pattern; files are ingested into a temporary store. Without PATH: the
    default store. Exit code 0: no error found; 1: an error; 3: no data.

    """
    from tracelab import doctor

    codes = selection["codes"]
    verifies = selection["verify"] or (bool(codes) and doctor.FILE_CHECKS.issuperset(codes))
    if selection["verify"] and (codes or selection["show_sql"]):
        raise UsageError("--verify runs no check; omit --check and --show-sql")
    selected = doctor.find_checks(codes) if codes else doctor.checks()
    if selection["show_sql"]:
        if without_sql := [code for code in codes if code in doctor.BUILT_IN_CHECKS]:
            raise UsageError(f"--check {without_sql[0]} has no SQL; omit --show-sql")
        statements = (doctor.render_sql(check, selection["run"], codes) for check in selected)
        print_exact("\n".join(statements).removesuffix("\n"))
        return
    answer = Output.of(selection["fmt"], selection["output"], force=selection["force"], piped="table")
    with _store(paths, store) as (examined, unread):
        if verifies:
            findings, read = doctor.verify(examined, selection["run"], codes)
            scope = f"Read {read.files:,} files of {read.sources:,} sources, {read.size_bytes / 1e6:,.1f} MB: "
            passed = f"{scope}all are as ingest wrote them."
        else:
            findings = doctor.examine_store(examined, selection["run"], codes)
            scope, passed = "", "Every check passed: no findings."
    if answer.fmt != "table":
        answer.emit(findings)
    else:
        is_colored = answer.path is None and sys.stdout.isatty()
        emit_lines(answer, lambda width: _lines(findings.to_pylist(), width, color=is_colored))
    severities = [str(severity) for severity in findings.column("severity").to_pylist()]
    print_lines(scope + _sum_line(severities) if severities else passed, err=True)
    if unread or "error" in severities or (selection["strict"] and "warning" in severities):
        raise click.exceptions.Exit(1)


@contextlib.contextmanager
def _store(paths: tuple[str, ...], store: Path | None) -> Iterator[tuple[Path, bool]]:
    """Return the store, or a temporary one made of the files, and whether a file was unreadable."""
    from tracelab.store import integrity
    from tracelab.store.session import open_store

    if not paths:
        yield open_store(store), False
        return
    if store is not None:
        raise UsageError("--store and a PATH were given; name one of them")
    if len(paths) == 1 and integrity.is_store(Path(paths[0])):
        yield Path(paths[0]), False
        return
    with tempfile.TemporaryDirectory(dir=process_folder(), ignore_cleanup_errors=True) as folder:
        yield Path(folder), _ingested(paths, Path(folder))


def _ingested(paths: tuple[str, ...], store: Path) -> bool:
    """Ingest the files; return whether some were unreadable. Raises TracelabError if none could be stored."""
    from tracelab.ingest.pipeline import ingest

    with progress_bar(visible=sys.stderr.isatty()) as progress:
        report = ingest(paths, store, progress=progress)
    refused = [item for item in report.files if item.status in ("failed", "not_profiler_data")]
    failed = any(item.status == "failed" for item in refused)
    if len(refused) < len(report.files):
        for item in refused:
            print_lines(item.message, err=True)
        return failed
    raise (TracelabError if failed else NoDataError)("; ".join(item.message for item in refused) or "there is no file")


def _lines(findings: Iterable[dict[str, Any]], width: int, *, color: bool) -> Iterator[str]:
    """Format the findings; several ranks with the same finding share one line, and each damaged file has its own."""

    def shared(row: dict[str, Any]) -> tuple[str, ...]:
        own = row["message"] if row["code"] == _ONE_BY_ONE else ""
        return row["severity"], row["code"], row["run"], own

    for (severity, code, run, _), group in itertools.groupby(findings, shared):
        first, *others = group
        label = f"{severity:<8}"
        if color:
            label = click.style(label, fg=_COLORS[severity], bold=severity != "info")
        yield f"{label} {code}{_place(run, first['rank'], [each['rank'] for each in others])}"
        yield from _wrapped(first["message"], width)
        if first["how_to_fix"]:
            yield from _wrapped("→ " + first["how_to_fix"], width)


def _place(run: str | None, rank: int | None, others: Sequence[int | None]) -> str:
    """Return what a finding is about; of others like it the ranks, else their number and where they are listed."""
    parts = [escape_controls(run or ""), f"rank {rank}" if rank is not None else ""]
    ranks = [str(each) for each in others if each is not None]
    more = ""
    if ranks and len(ranks) == len(others):
        listed = ", ".join([*ranks[:_MOST_RANKS], *["…"] * (len(ranks) > _MOST_RANKS)])
        more = f" (and {'rank' if len(ranks) == 1 else 'ranks'} {listed})"
    elif others:
        more = f" (and {len(others):,} more; --format csv lists each)"
    return "".join(f"  {part}" for part in parts if part) + more


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        escape_controls(text), max(width, 40), initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
    )


def _sum_line(severities: Sequence[str]) -> str:
    counts = [(severities.count(name), name) for name in _COLORS]
    return ", ".join(f"{count:,} {name}{'s' * (count != 1 and name != 'info')}" for count, name in counts if count)
