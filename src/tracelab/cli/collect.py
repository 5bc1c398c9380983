"""`tracelab collect`: the verb of those who run on GPU nodes; a module a command, imported when it is used."""

import importlib
import importlib.util

import click

from tracelab.errors import unknown

COMMANDS = {
    "train": "Run one workload, and write down what it did.",
    "sweep": "Run a workload with every combination of settings.",
    "ceilings": "Measure what this machine can do at most.",
}
"""Every command with its line of help; `tracelab.cli.collect_<name>` holds its `command`."""

_EPILOG = """\b
Examples:
  tracelab collect train image_classification --model resnet18 --device cpu
  tracelab collect train transformer --parallel ddp --gpus 2 --profiler kineto
  tracelab ingest runs
"""


class Commands(click.Group):
    """The group; it knows its commands' names and help without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Name the commands in the order in which people need them."""
        return [name for name in COMMANDS if importlib.util.find_spec(f"tracelab.cli.collect_{name}")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"tracelab.cli.collect_{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their lines of help."""
        if known := self.list_commands(ctx):
            with formatter.section("Commands"):
                formatter.write_dl([(name, COMMANDS[name]) for name in known])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a misspelt one is answered with the nearest."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            ctx.fail(unknown("command", args[0], known))
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, epilog=_EPILOG, subcommand_metavar="COMMAND [ARGS]…", options_metavar="")
def command() -> None:
    """Run training on this machine, profile it, and write a run folder that tracelab ingests.

    It needs Python, click and torch, and none of what tracelab otherwise needs: a checkout without an installation
    will do (`PYTHONPATH=src python3 -m tracelab collect …`).
    """
