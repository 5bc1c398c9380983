"""`tracelab collect noise`: record a command several times, to know what recordings of one version differ by."""

import shlex
from pathlib import Path
from typing import Any

import click

from tracelab.cli import collect_sweep, collect_train
from tracelab.collect.settings import Settings
from tracelab.foreign_text import print_lines

_EPILOG = """\b
Examples:
  tracelab collect noise transformer --steps 20 --profiler kineto --repeats 8 --run noise
  tracelab collect noise transformer --steps 20 --repeats 5 --run opt \\
      --against "transformer --steps 20 --compile"
  tracelab ingest runs
  tracelab compare --base-runs 'opt-base*' --candidate-runs 'opt-candidate*' --noise-runs 'noise*'
"""
_DEFAULT_NAME = "noise"
_REPLACED = ("run", "force", "sweep", "repeat")
"""Options of `collect train` that mean something else here, or are set here."""


def _options() -> list[click.Parameter]:
    return [each for each in collect_train.train_options() if each.name not in _REPLACED]


@click.command(epilog=_EPILOG, params=_options())
@click.argument("workload")
@click.option("--repeats", type=click.IntRange(min=2), default=5, show_default=True, help="Recordings of each command.")
@click.option(
    "--against",
    metavar="COMMAND",
    help="WORKLOAD and options of a second command, in quotes; its recordings alternate with those of the first.",
)
@click.option(
    "--run", default=_DEFAULT_NAME, show_default=True, help="Name of the recordings; repetitions end in -r1, -r2, …"
)
@click.option("--force", is_flag=True, help="Record again what was recorded with other settings.")
def command(*, repeats: int, against: str | None, run: str, force: bool, **values: Any) -> None:  # noqa: ANN401  one for each field of Settings
    """Record WORKLOAD several times with the same settings, one recording after another.

    `tracelab compare --noise-runs 'NAME*'` measures on them what recordings of one version differ by. With --against,
    the recordings of both commands alternate (A B B A A B …), so that a drift of the machine falls on both alike:
    NAME-base and NAME-candidate are the two sides of a comparison. Run folders go to OUT/NAME/. Run the same command
    again to resume.
    """
    from tracelab.collect.repeats import plan_repeats
    from tracelab.collect.sweep import progress_table, runner, settings_diff, state

    commands = [collect_train.parse_settings(values)]
    if against is not None:
        commands.append(parse_command(against))
    sweep = plan_repeats(run, commands, repeats, values["out"])
    states = {cell.run: state.cell_state(cell) for cell in sweep.cells}
    if not force:
        settings_diff.refuse_other_settings(sweep.cells[0].settings.out, state.find_other_settings(sweep.cells, states))
    state.write_planned_runs(sweep, Path("collect noise"))
    chosen = runner.select_cells(sweep.cells, states, (), ())
    interrupted = collect_sweep.run_with_progress(chosen, runner.RunnerOptions())
    states = {cell.run: state.cell_state(cell) for cell in sweep.cells}
    print_lines(progress_table.count_states(states), err=True)
    if interrupted is not None:
        raise click.exceptions.Exit(128 + interrupted)
    if set(states.values()) != {"ok"}:
        raise click.exceptions.Exit(1)


def parse_command(text: str) -> Settings:
    """Parse WORKLOAD and options as `collect train` takes them."""
    context = collect_train.command.make_context("--against", shlex.split(text))
    return collect_train.parse_settings(context.params)
