"""The group of verbs, and the one place where expected errors become a sentence and an exit code."""

import errno
import importlib
import io
import os
import sys
from typing import IO, Any

import click

from tracelab import __version__
from tracelab.errors import TracelabError, is_interrupt, unknown

VERBS = {
    "collect": "Run training on a GPU node, and profile it.",
    "ingest": "Store trace files, so that they can be asked.",
    "query": "Answer a question of the library, or one in a file of yours.",
    "sql": "Run one SELECT over the store; alone: a prompt.",
    "doctor": "Say what may be wrong with the data, and what is missing.",
    "export": "Write a run as a trace for Perfetto's interface.",
    "view": "Show a run in Perfetto's interface, in a browser.",
    "study": "Put published studies beside the data at hand, row by row.",
    "report": "Write the store into one HTML file, with charts.",
    "schema": "Print the tables, or one table's columns.",
    "completion": "Print a shell's completion script.",
}
"""Every verb with its line of help; the module of the same name holds its `command`."""

INTERRUPTED = 130

_EPILOG = """\b
Examples:
  tracelab ingest traces/
  tracelab query
  tracelab query kernel_summary
  tracelab query nccl_share --format csv -o nccl.csv
  tracelab sql "select name, dur_ns from kernels order by dur_ns desc limit 5"
"""


class ExpectedError(click.ClickException):
    """An expected error on its way to the exit: one sentence on stderr."""

    def __init__(self, error: TracelabError) -> None:
        super().__init__(str(error))
        self.exit_code = error.exit_code  # type: ignore[misc]  # click declares it for the class, and reads the instance

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence."""
        click.echo(f"tracelab: {self.message}", file=file, err=file is None)


def _missing(module: str) -> TracelabError:
    package = module.partition(".")[0].replace("_", "-")
    return TracelabError(f"{package} is not installed, which this needs; `pip install .` in the checkout brings all")


class Verbs(click.Group):
    """A group that knows its verbs' names and help without importing them."""

    def main(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as click declares it
        """Run the command line; a stdout that lacks a character, or takes no more, is no reason for a traceback."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                sys.stdout.flush()
        except OSError as error:
            if error.filename is not None:  # not a stream's
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python fails to flush it once more
            if error.errno != errno.EPIPE:
                click.echo(f"tracelab: the output cannot be written: {error.strerror}", err=True)
            sys.exit(1)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Name the verbs in the order in which people need them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the verb's module."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"tracelab.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the verbs with their lines of help."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; a misspelt one is answered with the nearest."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            ctx.fail(unknown("verb", args[0], list(VERBS)))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb; here, and nowhere else, every expected error ends."""
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            return super().invoke(ctx)
        except TracelabError as error:
            raise ExpectedError(error) from error
        except ModuleNotFoundError as error:  # a bare checkout, which can collect alone
            if error.name is None or error.name.partition(".")[0] == "tracelab":
                raise
            raise ExpectedError(_missing(error.name)) from error
        except (KeyboardInterrupt, RuntimeError) as error:
            if not is_interrupt(error):
                raise
            click.echo("tracelab: interrupted", err=True)
            ctx.exit(INTERRUPTED)


@click.group(
    cls=Verbs,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="VERB [ARGS]…",
    options_metavar="",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Profiler traces of GPU training in one exact SQL schema, and a library of questions over it."""
