"""The command line: the list of commands, each a module imported on use, and the exit codes of errors."""

import errno
import gc
import importlib
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType
from typing import IO, Any

import click

from tracelab import __version__
from tracelab.errors import TracelabError, is_interrupt, suggest_name, wants_tracebacks
from tracelab.foreign_text import escape_lines, escape_path, print_lines
from tracelab.interrupts import INTERRUPTED, exit_interrupted
from tracelab.temp_folders import delete_process_folder

COMMANDS = {
    "collect": "Run training on a GPU node, and profile it.",
    "ingest": "Store trace files, so that you can query them.",
    "summary": "Print what costs most in a run, and five figures of it.",
    "query": "Run a query of the library, or one in a file of yours.",
    "sql": "Run one SELECT over the store; without arguments, start a shell.",
    "compare": "Compare two versions: faster, slower or the same, as a gate for CI.",
    "doctor": "Report what may be wrong with the data, and what is missing.",
    "export": "Write a run as a trace for Perfetto's interface.",
    "view": "Show a run in Perfetto's interface, in a browser.",
    "study": "Compare published studies with the data at hand, row by row.",
    "report": "Write the store into one HTML file, with charts.",
    "compact": "Make few large files of the many small ones in the store.",
    "drop": "Remove runs from the store.",
    "schema": "Print the tables, or one table's columns.",
    "completion": "Print a shell's completion script.",
}
"""Every command with its line of help; the module of the same name holds its `command`."""

_OF_GROUPS = {"run": "collect run", "record": "collect run", "train": "collect train"}
"""Commands of a group that one may take for commands of their own."""

_MIN_OBJECTS_TO_COLLECT = 50_000
"""Imports create a hundred thousand objects and no garbage; by default Python would search for some 150 times."""

_REMEDIES = {
    errno.EACCES: "make it readable and writable, or choose another place",
    errno.EROFS: "make its disk writable, or choose another place",
    errno.ENOSPC: "free space on its disk, and run the command again",
    errno.EDQUOT: "free space in the quota of its disk, and run the command again",
}
"""What to do about an error of a file that a command does not explain itself."""

_EPILOG = """\b
Examples:
  tracelab ingest traces/
  tracelab query
  tracelab query kernel_summary
  tracelab query nccl_share --format csv -o nccl.csv
  tracelab sql "select name, dur_ns from kernels order by dur_ns desc limit 5"
"""


def run() -> None:
    """Run the command line as a process of its own, which exits as soon as its command has finished.

    Python would tear down every imported module, 0.05 s with DuckDB and Arrow; a command has closed its files and
    removed its folders by then. Torch and threads may have work left, so with them the process exits the usual way.

    Arrow imports pandas at its first conversion of a Python value, 0.2 s, and takes longer over each. No command has
    values of pandas, so here it is as if it were not installed.
    """
    gc.set_threshold(_MIN_OBJECTS_TO_COLLECT)
    sys.meta_path.insert(0, _PandasRefusal())
    _exit_on_signals()
    try:
        main(prog_name="tracelab")
    except SystemExit as exit_request:
        if isinstance(exit_request.code, str) or "torch" in sys.modules or threading.active_count() > 1:
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is _exit_process:  # Python prints what is raised while it exits
                    signal.signal(number, _exit_at_once)
            raise
        sys.stderr.flush()
        delete_process_folder()
        os._exit(exit_request.code or 0)


class _PandasRefusal:
    """Refuses to import pandas, as if it were not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG002
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def _exit_on_signals() -> None:
    """Exit as at an error on Ctrl-C, SIGTERM and on a closed terminal, so that temporary files are deleted.

    An ignored signal stays ignored, as `nohup` wants it for a closed terminal.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit_process)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)


def _exit_process(number: int, frame: FrameType | None) -> None:
    if _is_importing(frame):
        _exit_at_once(number, frame)
    sys.exit(128 + number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _is_importing(frame):
        delete_process_folder()
        exit_interrupted(number, frame)
    raise KeyboardInterrupt


def _exit_at_once(number: int, _frame: FrameType | None) -> None:
    """Exit without an exception: an import may abort on one, or replace it by another with a traceback."""
    delete_process_folder()
    os._exit(128 + number)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


class StoreType(click.Path):
    """A folder, or the URL of a store in object storage."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | str:
        """Return a URL as it is, and any other value as the path of a folder."""
        if isinstance(value, str) and "://" in value:
            return value
        return Path(os.fsdecode(super().convert(value, param, ctx)))


class ExpectedError(click.ClickException):
    """An expected error as click reports it: one sentence on stderr, and an exit code."""

    def __init__(self, error: TracelabError) -> None:
        super().__init__(str(error))
        self.exit_code = error.exit_code  # type: ignore[misc]  # click declares it for the class, and reads the instance

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence."""
        click.echo(f"tracelab: {escape_lines(self.message)}", file=file, err=file is None)


class LazyGroup(click.Group):
    """A group that knows the names and help of its commands without importing them.

    `lines` are the lines of help by command, and `modules` is the name of a command's module, {} being the command.
    """

    def __init__(self, *args: Any, lines: Mapping[str, str], modules: str, **kwargs: Any) -> None:  # noqa: ANN401  as click
        super().__init__(*args, **kwargs)
        self.lines, self.modules = lines, modules

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands, in the order in which people need them."""
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of a command."""
        if cmd_name not in self.lines:
            return None
        command: click.Command = importlib.import_module(self.modules.format(cmd_name)).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands with their lines of help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.lines.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; suggest the nearest for a misspelled one."""
        if args and args[0] not in self.lines and not args[0].startswith("-"):
            ctx.fail(suggest_name("command", args[0], list(self.lines)))
        return super().resolve_command(ctx, args)


class CommandLine(LazyGroup):
    """The commands of tracelab, and what becomes of their errors."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command, for which numpy starts no threads: they are not used, and wait busily.

        `collect` records the environment, and runs training in it.
        """
        if cmd_name != "collect":
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return super().get_command(ctx, cmd_name)

    def main(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as click declares it
        """Run the command line; report without a traceback that stdout lacks a character, or is closed."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                sys.stdout.flush()
        except OSError as error:
            if error.filename is not None or error.errno is None:  # not a stream's
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python fails to flush it once more
            if error.errno != errno.EPIPE:
                print_lines(f"tracelab: the output cannot be written: {error.strerror}", err=True)
            sys.exit(1)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; name the group of one that is in a group."""
        if args and args[0] in _OF_GROUPS:
            ctx.fail(f"no command {args[0]!r}; did you mean 'tracelab {_OF_GROUPS[args[0]]}'?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; the only place where expected errors become a sentence and an exit code."""
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            return super().invoke(ctx)
        except TracelabError as error:
            if wants_tracebacks():
                traceback.print_exc()
            raise ExpectedError(error) from error
        except click.ClickException as error:  # its message may quote a file name
            error.message = escape_lines(error.message)  # type: ignore[misc]  # click declares it final for subclasses
            raise
        except (OSError, ModuleNotFoundError) as error:
            problem = _explain_file_error(error) if isinstance(error, OSError) else _explain_missing_package(error)
            if problem is None:
                raise
            raise ExpectedError(TracelabError(problem)) from error
        except (KeyboardInterrupt, RuntimeError) as error:
            if not is_interrupt(error):
                raise
            print_lines("tracelab: interrupted", err=True)
            ctx.exit(INTERRUPTED)


def _explain_file_error(error: OSError) -> str | None:
    if error.errno not in _REMEDIES or error.filename is None:
        return None
    return f"{escape_path(Path(error.filename))}: {error.strerror}; {_REMEDIES[error.errno]}"


def _explain_missing_package(error: ModuleNotFoundError) -> str | None:
    """Explain what is missing in a bare checkout, in which only `collect` works."""
    if error.name is None or error.name.partition(".")[0] == "tracelab":
        return None
    package = error.name.partition(".")[0].replace("_", "-")
    return f"{package} is not installed, but this command needs it; run `pip install .` in the checkout"


@click.group(
    cls=CommandLine,
    lines=COMMANDS,
    modules="tracelab.cli.{}",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="COMMAND [ARGS]…",
    options_metavar="",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Profiler traces of GPU training in one exact SQL schema, and a library of queries over it."""
