"""`tracelab summary`: what a run is, five figures, and what costs most."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tracelab.cli import options
from tracelab.cli.output import Output, emit_lines
from tracelab.cli.query import take_scope
from tracelab.errors import UsageError
from tracelab.foreign_text import print_lines

if TYPE_CHECKING:
    from pathlib import Path

_EPILOG = """\b
Examples:
  tracelab summary
  tracelab summary --run main
  tracelab summary 'main-*'
  tracelab summary --all-runs
  tracelab summary main --format json
"""


@click.command(
    epilog=_EPILOG,
    params=[options.STORE, options.RUNS, *options.TEXT_OUTPUT, options.ALIGNED, *options.SCOPE, options.WHOLE],
)
@click.argument("names", nargs=-1, metavar="[RUN]…")
@click.option(
    "--all-findings",
    is_flag=True,
    help="List all findings that cost, or by a replay gain, at least 1 % of the run; by default the first three.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="List at most N findings of each run; by default three, and all in data formats.",
)
@click.option("--all-runs", is_flag=True, help="List each run, also of many; by default those that matter.")
def command(
    names: tuple[str, ...],
    runs: tuple[str, ...],
    store: Path | None,
    *,
    all_findings: bool,
    limit: int | None,
    all_runs: bool,
    aligned: bool,
    **others: Any,  # noqa: ANN401  options have all types
) -> None:
    """Print what matters in each run: five figures, and the three findings that cost most of its time.

    Shares are of the run's measured time, the windows of all its GPUs added up (without a GPU, of the windows of
    its ranks, or of all steps). A symptom that a listed cause explains is not listed again. Where the query what_if
    can replay the run without a cause, such as a late rank, the share is what the run gains by that, and findings
    come in that order; "at most" where the replay removes more, such as all work of the CPU side. What a finding
    costs per step is its share of the mean step. Of more than three runs each has few lines. Of a store with more
    than twelve those are listed that lose most to a cause, or whose step time is unlike that of runs with the same
    settings. With --all-findings each run is listed whole.

    Where `collect run` recorded the start of a program, only what follows its first step counts; --whole includes all.

    """
    if names and runs:
        raise UsageError("runs were given both as arguments and as --run; use one of the two")
    answer = Output.of(others.pop("fmt"), others.pop("output"), force=others.pop("force"), piped="table")
    scope = take_scope(others)
    from tracelab.report.summary.rows import summary_rows
    from tracelab.report.summary.summarize import summarize
    from tracelab.report.summary.text import MOST_LEADS, summary_lines
    from tracelab.store.session import open_store

    summaries = summarize(open_store(store), names or runs, aligned=aligned, all_findings=all_findings, scope=scope)
    if scope:
        print_lines(f"Scope: {shlex.join(scope.options)}", err=True)
    if answer.fmt != "table":
        answer.emit(summary_rows([replace(each, leads=each.leads[:limit]) for each in summaries]))
    else:
        most = limit if limit is not None or all_findings else MOST_LEADS
        every = all_runs or bool(names or runs)
        emit_lines(
            answer,
            lambda width: summary_lines(summaries, width, most_leads=most, all_runs=every, is_whole=all_findings),
        )
