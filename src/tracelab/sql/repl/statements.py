"""Find where statements end, for the Enter key and for pasted text."""

import re

import duckdb

_QUOTED = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ | --[^\n]*(?:\n|$) | /\*.*?\*/""",
    re.DOTALL | re.VERBOSE,
)
_OPEN = re.compile(r"""'|"|/\*|\$\w*\$""")


def is_complete(text: str) -> bool:
    """Return whether Enter submits the text: a dot command, nothing, or SQL that ends with an unquoted semicolon."""
    bare = text.strip()
    if not bare or bare.startswith("."):
        return True
    rest = _QUOTED.sub(lambda match: " " if match[0].startswith(("-", "/")) else "x", bare)
    return rest.rstrip().endswith(";") and not _OPEN.search(rest)


def split_statements(con: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    """Split a text into statements; return an invalid text whole, so that the sandbox reports the error."""
    try:
        return [statement.query for statement in con.extract_statements(text)] or [text]
    except (duckdb.Error, ValueError):
        return [text]
