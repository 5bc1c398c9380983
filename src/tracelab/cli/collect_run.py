"""`tracelab collect run`: run any program and record it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tracelab.cli.collect_train import exit_with_results, parse_pairs
from tracelab.collect.kineto_flags import KINETO_FLAGS
from tracelab.foreign_text import print_lines

_EPILOG = """\b
Examples:
  tracelab collect run -- python train.py --epochs 1
  tracelab collect run --wait 50 --active 10 --run resnet -- torchrun --nproc-per-node 4 train.py
  tracelab collect run --after-s 60 --for-s 5 -- python serve.py
  tracelab collect run --on-demand --active 5 --run llm -- srun python train.py
  tracelab collect run --profiler kineto --profiler nsys --profiler ncu -- python train.py
"""


_NAMED_ELSEWHERE = {
    "--steps": "--active",
    "--window": "--wait and --active",
    "--warmup": "--wait",
    "--skip": "--wait",
    "--name": "--run",
}
"""Options of other commands and profilers, with those that mean the same here."""


class _RunCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if (meant := _NAMED_ELSEWHERE.get(error.option_name)) is None:
                raise
            raise click.UsageError(f"no option {error.option_name!r}; did you mean {meant}?", ctx) from error


def _kineto_flags(command: Callable[..., None]) -> Callable[..., None]:
    for name, about in reversed(KINETO_FLAGS.items()):
        command = click.option(f"--{name.replace('_', '-')}", is_flag=True, help=about)(command)
    return command


@click.command(
    cls=_RunCommand,
    epilog=_EPILOG,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    options_metavar="[OPTIONS] --",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND…")
@click.option(
    "--profiler",
    "profilers",
    type=click.Choice(("kineto", "nsys", "ncu", "none")),
    multiple=True,
    help="Profiler; repeat it to run the program once under each, for queries to join.  [default: kineto]",
)
@click.option("--wait", type=click.IntRange(min=0), help="Optimizer steps to skip before recording.")
@click.option("--active", type=click.IntRange(min=1), help="Optimizer steps to record.")
@click.option("--after-s", type=click.FloatRange(min=0), help="Seconds to wait before recording.")
@click.option("--for-s", type=click.FloatRange(min=0, min_open=True), help="Seconds to record.")
@click.option(
    "--cycles", type=click.IntRange(min=1), default=1, show_default=True, help="How often to wait and record."
)
@click.option(
    "--on-demand", is_flag=True, help="Record on each SIGUSR1, or touch of the file `record` in the run folder."
)
@_kineto_flags
@click.option("--metrics", multiple=True, metavar="NAME", help="Additional ncu metric; repeatable.")
@click.option(
    "--sample-s",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="Seconds between samples of GPUs and host; 0 disables sampling.",
)
@click.option("--timeout-s", type=click.FloatRange(min=0), help="Time limit in seconds; keeps what was recorded.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder for run folders."
)
@click.option("--run", help="Name of the run.  [default: script and time]")
@click.option("--force", is_flag=True, help="Replace an existing run of this name.")
@click.option("--tag", multiple=True, metavar="NAME=VALUE", help="Additional note for run.json; repeatable.")
def command(*, command: tuple[str, ...], profilers: tuple[str, ...], tag: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401  one for each option
    """Run COMMAND, any program, and write a run folder: status, steps, samples of the machine, and traces.

    The program needs no change: a start-up hook records each of its Python processes that trains. Without options
    for the window, the recording begins with the program and ends with it, but after 20 optimizer steps or 30 s at
    the latest. --wait, --active and --cycles count steps of the first optimizer.

    The exit code is that of COMMAND; where it is 0 and the recording failed, 1. Ctrl-C interrupts COMMAND, which has
    20 s to end; a second one terminates it. SIGUSR1 without --on-demand, SIGUSR2 and others go to COMMAND.
    """
    from tracelab.collect.program.run import run_program
    from tracelab.collect.program.settings import ProgramSettings
    from tracelab.collect.recording.profilers import KinetoOptions
    from tracelab.collect.recording.window import Window

    window = Window(**{name: options.pop(name) for name in Window.__dataclass_fields__})
    kineto = KinetoOptions(**{name: options.pop(name) for name in KINETO_FLAGS})
    settings = ProgramSettings(
        command, profilers or ("kineto",), window, kineto, tag=parse_pairs("tag", tag), **options
    )
    exit_with_results(run_program(settings, _report_line), _report_line)


def _report_line(line: str) -> None:
    """Print a line that begins with the command's name, because the program prints, too."""
    print_lines(f"tracelab: {line}", err=True)
