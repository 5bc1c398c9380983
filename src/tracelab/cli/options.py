"""Options that several commands share."""

from pathlib import Path

import click

from tracelab.output.formats import FORMATS

STORE = click.Option(
    ["--store"],
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The store.  [default: $TRACELAB_STORE, else ./lab]",
)
OUTPUT: tuple[click.Option, ...] = (
    click.Option(
        ["--format", "fmt"],
        type=click.Choice(FORMATS),
        help="Format of the output.  [default: by the suffix of -o; table on a terminal, csv in a pipe]",
    ),
    click.Option(
        ["-o", "--output"],
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write to a file instead of the terminal.",
    ),
    click.Option(["--force"], is_flag=True, help="Overwrite existing files."),
)
ALIGNED = click.Option(
    ["--aligned"],
    is_flag=True,
    help="Put the times of all ranks on one clock, by the collectives that end at once; see clock_offsets.",
)
LIMITS: tuple[click.Option, ...] = (
    click.Option(
        ["--memory-limit"],
        metavar="SIZE",
        help="Memory for the query, such as 2GB; DuckDB spills what does not fit.  [default: 80% of the machine's]",
    ),
    click.Option(
        ["--timeout", "timeout_s"],
        type=float,
        metavar="SECONDS",
        help="Stop the query after this time, with exit code 1.",
    ),
)
