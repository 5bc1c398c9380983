"""`tracelab collect`: group of the commands that run on GPU nodes; each module is imported on use."""

import importlib
import importlib.util

import click

from tracelab.errors import suggest_name

_LINES = {
    "run": "Record any program: your own script, torchrun, srun.",
    "train": "Train one workload and record its run.",
    "noise": "Record one workload several times, or two in turn.",
    "sweep": "Run a workload with every combination of settings.",
    "ceilings": "Measure the peak rates of this machine.",
}
COMMANDS = {name: line for name, line in _LINES.items() if importlib.util.find_spec(f"tracelab.cli.collect_{name}")}
"""One-line help by command; `tracelab.cli.collect_<name>` defines its `command`."""

_EPILOG = """\b
Examples:
  tracelab collect run -- python train.py
  tracelab collect train image_classification --model resnet18 --device cpu
  tracelab collect train transformer --parallel ddp --gpus 2 --profiler kineto
  tracelab ingest runs
"""


class Commands(click.Group):
    """Command group that lists its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the command names in order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command's module."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"tracelab.cli.collect_{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands with their lines of help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command name; an unknown one fails with the nearest name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(suggest_name("command", args[0], list(COMMANDS)))
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, epilog=_EPILOG, subcommand_metavar="COMMAND [ARGS]…", options_metavar="")
def command() -> None:
    """Run and profile training on this machine, and write a run folder for `tracelab ingest`.

    Needs only Python, click and torch; a checkout without installation works
    (`PYTHONPATH=src python3 -m tracelab collect …`).
    """
