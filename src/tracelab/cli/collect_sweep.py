"""`tracelab collect sweep`: run every cell of a matrix of settings, resuming where the last call ended."""

import fnmatch
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracelab.enumerations import RUN_STATUSES
from tracelab.errors import NoDataError
from tracelab.foreign_text import print_lines
from tracelab.resources import COLLECTORS

if TYPE_CHECKING:
    from tracelab.collect.sweep.matrix import Cell
    from tracelab.collect.sweep.runner import RunnerOptions

CLEAR_LINE = "\r\033[K"
"""Control sequence that returns to the start of a terminal line and erases it."""

_EPILOG = """\b
Examples:
  tracelab collect sweep S0-smoke --dry-run
  tracelab collect sweep S4 --fixed data=cifar10 --fixed data_root=/data
  tracelab collect sweep my.toml --redo failed --redo timeout
  tracelab collect sweep my.toml --fixed steps=20 --force
  tracelab ingest runs
"""


@click.command(epilog=_EPILOG)
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Print the cells and their states; run nothing.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Folder for the folder of the sweep.",
)
@click.option(
    "--only", type=click.Choice(RUN_STATUSES), multiple=True, help="Run only cells in this state; repeatable."
)
@click.option(
    "--redo", type=click.Choice(RUN_STATUSES), multiple=True, help="Rerun cells with this status; repeatable."
)
@click.option("--force", is_flag=True, help="Rerun cells that ran with other settings.")
@click.option("--fixed", metavar="NAME=VALUE", multiple=True, help="Set an option in every cell: data_root=DIR.")
@click.option("--match", metavar="PATTERN", help="Select cells by name, such as '*-b128-*'.")
@click.option("--repeats", type=click.IntRange(min=1), help="Runs per cell.  [default: from the file, or 1]")
@click.option("--launcher", default="", metavar="WORDS", help="Command that starts each run, such as 'srun --nodes 2'.")
def command(  # noqa: PLR0913 - one for each option
    file: str, *, dry_run: bool, out: Path, only: tuple[str, ...], redo: tuple[str, ...], force: bool,
    fixed: tuple[str, ...],
    match: str | None, repeats: int | None, launcher: str,
) -> None:  # fmt: skip
    """Run a workload with every combination of settings that FILE lists, one run after another.

    FILE is a TOML file or the name of a shipped sweep: S0 to S4, S0-smoke to S4-smoke. Run folders go to OUT/<sweep>/.
    Run the same command again to resume; interrupted runs start over. A failed run does not end the sweep: its status
    is a result. If a cell already ran with other settings, nothing runs without --force.
    """
    from tracelab.collect.sweep import matrix, progress_table, runner, settings_diff, state, values

    path = matrix.find_sweep_file(COLLECTORS / "sweeps", file)
    sweep = matrix.load_sweep(path, out, repeats, values.parse_fixed(fixed))
    for sentence in sweep.idle:
        print_lines(f"{path}: {sentence}", err=True)
    cells = [cell for cell in sweep.cells if match is None or fnmatch.fnmatchcase(cell.run, match)]
    if not cells:
        raise NoDataError(f"{path}: no cell is left; check --match, and [[exclude]] in the file")
    states = {cell.run: state.cell_state(cell) for cell in cells}
    if dry_run:
        print_lines(progress_table.render_cells(sweep, cells, states))
        print_lines(progress_table.count_states(states), err=True)
    if not force:
        settings_diff.refuse_other_settings(cells[0].settings.out, state.find_other_settings(cells, states))
    if dry_run:
        return
    state.write_planned_runs(sweep, path)
    chosen = runner.select_cells(cells, states, only, redo)
    interrupted = run_with_progress(chosen, runner.RunnerOptions(tuple(shlex.split(launcher))))
    states = {cell.run: state.cell_state(cell) for cell in cells}  # other processes may have run some of them
    again = "; interrupted; run the same command again to resume" if interrupted is not None else ""
    print_lines(f"{progress_table.count_states(states)}{again}", err=True)
    if interrupted is not None:
        raise click.exceptions.Exit(128 + interrupted)
    if {"failed", state.NOT_RUN, state.OTHER_SETTINGS} & set(states.values()):
        raise click.exceptions.Exit(1)


def run_with_progress(cells: "list[Cell]", means: "RunnerOptions") -> int | None:
    """Run cells and print the result of each; returns the signal that interrupted it, or None."""
    from tracelab.collect.process.launch import Interrupted
    from tracelab.collect.sweep import progress_table, runner

    spent: list[float] = []
    clear = CLEAR_LINE if sys.stderr.isatty() else ""

    def report_progress(run: str, seconds: float) -> None:
        if clear:
            click.echo(f"{clear}[{len(spent) + 1}/{len(cells)}] {run}  {seconds:.0f} s", err=True, nl=False)

    def done(result: runner.CellResult) -> None:
        spent.append(result.seconds)
        error = f" ({result.error})" if result.error else ""
        took = progress_table.format_duration(result.seconds) + progress_table.format_time_left(
            spent, len(cells) - len(spent)
        )
        click.echo(clear, err=True, nl=False)
        print_lines(f"[{len(spent)}/{len(cells)}] {result.cell.run}: {result.status}{error}, {took}", err=True)

    try:
        runner.run_cells(cells, replace(means, report_progress=report_progress), done)
    except Interrupted as signal:
        click.echo(clear, err=True, nl=False)
        return signal.number
    return None
