"""Options that several verbs share, each declared once."""

from pathlib import Path

import click

from tracelab.output.formats import FORMATS


def store() -> click.Option:
    """`--store DIR`."""
    return click.Option(
        ["--store"],
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="The store.  [default: $TRACELAB_STORE, else ./lab]",
    )


def output() -> list[click.Parameter]:
    """`--format`, `-o` and `--force`."""
    return [
        click.Option(
            ["--format", "fmt"],
            type=click.Choice(FORMATS),
            help="How to print.  [default: by the suffix of -o; table on a terminal, csv in a pipe]",
        ),
        click.Option(
            ["-o", "--output"],
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="Write to a file instead of the terminal.",
        ),
        click.Option(["--force"], is_flag=True, help="Overwrite files that exist."),
    ]
