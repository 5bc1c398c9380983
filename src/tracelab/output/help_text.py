"""Format rows of names and descriptions in aligned, wrapped columns."""

from collections.abc import Sequence

import click

_WIDEST = 120
_WIDEST_NAME = 48


def format_definitions(rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Format rows whose last cell is a sentence. Without `width`, use the terminal's."""
    formatter = click.HelpFormatter(width=min(width or click.HelpFormatter().width + 2, _WIDEST), max_width=_WIDEST)
    first = max((len(row[0]) for row in rows), default=0)
    formatter.write_dl(
        [("  ".join([row[0].ljust(first), *row[1:-1]]).rstrip(), row[-1]) for row in rows], col_max=_WIDEST_NAME
    )
    return formatter.getvalue().rstrip()
