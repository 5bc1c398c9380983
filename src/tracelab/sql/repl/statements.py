"""Where a statement ends: what Enter asks, and how several that were pasted together are taken apart."""

import re

import duckdb

_QUOTED = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ | --[^\n]*(?:\n|$) | /\*.*?\*/""",
    re.DOTALL | re.VERBOSE,
)
_OPEN = re.compile(r"""'|"|/\*|\$\w*\$""")


def is_complete(text: str) -> bool:
    """Whether Enter sends the text: a command, nothing at all, or SQL that ends with a semicolon outside quotes."""
    bare = text.strip()
    if not bare or bare.startswith("."):
        return True
    rest = _QUOTED.sub(lambda match: " " if match[0].startswith(("-", "/")) else "x", bare)
    return rest.rstrip().endswith(";") and not _OPEN.search(rest)


def split_statements(con: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    """The statements of a text; the text itself where DuckDB cannot take it apart, for the box to say why."""
    try:
        return [statement.query for statement in con.extract_statements(text)] or [text]
    except (duckdb.Error, ValueError):
        return [text]
