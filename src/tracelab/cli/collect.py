"""`tracelab collect`: the verb of those who run on GPU nodes; a module a command, imported when it is used."""

import importlib
import importlib.util

import click

from tracelab.errors import suggest_name

_LINES = {
    "train": "Run one workload, and write down what it did.",
    "sweep": "Run a workload with every combination of settings.",
    "ceilings": "Measure what this machine can do at most.",
}
COMMANDS = {name: line for name, line in _LINES.items() if importlib.util.find_spec(f"tracelab.cli.collect_{name}")}
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
        """Find the command; a misspelt one is answered with the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(suggest_name("command", args[0], list(COMMANDS)))
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, epilog=_EPILOG, subcommand_metavar="COMMAND [ARGS]…", options_metavar="")
def command() -> None:
    """Run training on this machine, profile it, and write a run folder that tracelab ingests.

    It needs Python, click and torch, and none of what tracelab otherwise needs: a checkout without an installation
    will do (`PYTHONPATH=src python3 -m tracelab collect …`).
    """
