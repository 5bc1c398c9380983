"""Options that several commands share."""

from pathlib import Path

import click

from tracelab.cli import StoreType
from tracelab.output.formats import FORMATS

STORE = click.Option(
    ["--store"],
    type=StoreType(file_okay=False),
    metavar="DIR|URL",
    help="The store.  [default: $TRACELAB_STORE, else ./lab]",
)

RUNS = click.Option(
    ["--run", "runs"],
    multiple=True,
    metavar="NAME",
    help="Only this run, or runs of a pattern such as 'main-*'; repeatable.",
)

_FORMAT_NAMES, _FORMATS = ["--format", "fmt"], click.Choice(FORMATS)
_TO_FILE: tuple[click.Option, ...] = (
    click.Option(
        ["-o", "--output"],
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write to a file instead of the terminal.",
    ),
    click.Option(["--force"], is_flag=True, help="Overwrite existing files."),
)
_DEFAULT = "Format of the output.  [default: by the suffix of -o; {}]"
OUTPUT = (
    click.Option(_FORMAT_NAMES, type=_FORMATS, help=_DEFAULT.format("table on a terminal, csv in a pipe")),
    *_TO_FILE,
)
TEXT_OUTPUT = (click.Option(_FORMAT_NAMES, type=_FORMATS, help=_DEFAULT.format("table, in a pipe too")), *_TO_FILE)
"""Those of commands that print text for people, also where it is piped."""
ALIGNED = click.Option(
    ["--aligned"],
    is_flag=True,
    help="Put the times of all ranks on one clock, by the collectives that end at once; see clock_offsets.",
)
SCOPE: tuple[click.Option, ...] = (
    click.Option(["--steps"], metavar="N-M", help="Only these steps, such as 3-5,8 or 10-."),
    click.Option(
        ["--within"], metavar="REGEX", help="Only what starts in a range, an op or a module whose name REGEX finds."
    ),
    click.Option(
        ["--from", "from_"],
        metavar="TIME",
        help="Only what starts at this time since the first event of the run, or later: 1.5s, 20ms, 300us, or in ns.",
    ),
    click.Option(["--to"], metavar="TIME", help="Only what starts before this time."),
    click.Option(["--stream"], metavar="N", help="Only rows of the GPU on these streams, such as 7 or 7,20-24."),
    click.Option(["--linked"], is_flag=True, help="Only rows of the GPU whose launch was recorded."),
    click.Option(
        ["--after-start"],
        is_flag=True,
        help="Only what follows the first step of a program, where `collect run` recorded its start.",
    ),
    click.Option(
        ["--scope-by"],
        type=click.Choice(("launch", "execution")),
        default="launch",
        show_default=True,
        help="The time at which a row of the GPU counts for --steps, --within, --from, --to and --after-start.",
    ),
)
"""The part of each recording that an answer is about; names of the fields of `Scope`, but for scope_by."""
WHOLE = click.Option(
    ["--whole"],
    is_flag=True,
    help="Include the start of a program that `collect run` recorded; by default only what follows its first step.",
)
MEMORY_LIMIT = click.Option(
    ["--memory-limit"],
    metavar="SIZE",
    help="Memory for the query, such as 2GB; DuckDB spills what does not fit.  [default: 80% of the machine's]",
)
LIMITS: tuple[click.Option, ...] = (
    MEMORY_LIMIT,
    click.Option(
        ["--timeout", "timeout_s"],
        type=float,
        metavar="SECONDS",
        help="Stop the query after this time, with exit code 1.",
    ),
)
