"""CREATE TEMP TABLE, VIEW and MACRO: what the prompt allows beside a SELECT, each checked like one."""

import itertools
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from tracelab.errors import UsageError
from tracelab.sql import sandbox

_KINDS = {"table": "table", "view": "view", "macro": "macro", "function": "macro"}
_USAGE = "write create [or replace] temp table|view|macro NAME [(…)] as …"


@dataclass(frozen=True)
class Definition:
    """What a CREATE TEMP makes: `select` is the SELECT in it, or one of its expression."""

    kind: str
    name: str
    select: str


def create(con: duckdb.DuckDBPyConnection, text: str) -> Definition:
    """Check a CREATE TEMP and run it. Raises UsageError for any other CREATE, and for names that are taken."""
    definition = _parse_definition(text)
    sandbox.check(con, definition.select)
    _check_name(con, definition)
    with sandbox.translate_errors():
        sandbox.run_interruptible(con, lambda: _execute(con, text))
    return definition


def _execute(con: duckdb.DuckDBPyConnection, text: str) -> pa.Table:
    con.execute(text).fetchall()
    return pa.table({})


def _parse_definition(text: str) -> Definition:
    """Take a CREATE TEMP apart; whatever is not of the one form that is allowed is refused.

    Nothing but names may stand before AS: a default of a macro's parameter could hold any statement.
    """
    found = sandbox.tokenize(text)
    if found[-1][0] == ";":
        text = text.removesuffix(found[-2][1])
        found = sandbox.tokenize(text)
    words = [word for word, _ in found]
    at = 3 if words[1:3] == ["or", "replace"] else 1
    if words[0] != "create" or words[at : at + 1] not in (["temp"], ["temporary"]):
        raise UsageError(f"CREATE is refused where it is not temporary: {_USAGE}")
    kind = _KINDS.get(words[at + 1] if len(words) > at + 1 else "")
    if kind is None:
        raise UsageError(f"CREATE TEMP of this kind is refused: {_USAGE}")
    at += 2
    if words[at : at + 3] == ["if", "not", "exists"]:
        at += 3
    before = list(itertools.takewhile(lambda word: word != "as", words[at:]))
    end = at + len(before)
    if end + 1 >= len(words) or not _only_names(before):
        raise UsageError(f"this CREATE TEMP is refused: {_USAGE}")
    if kind != "macro":
        return Definition(kind, _unquote(before[0]), found[end][1])
    if words[end + 1] == "table":
        return Definition(kind, _unquote(before[0]), found[end + 1][1])
    return Definition(kind, _unquote(before[0]), f"select ({found[end][1]}\n)")


def _only_names(before: list[str]) -> bool:
    """Whether this is a name, and behind it nothing or names and constants in one pair of parentheses."""
    return len(before) == 1 or (
        len(before) > 2 and before[1] == "(" and before[-1] == ")" and not {"(", ")"} & set(before[2:-1])  # noqa: PLR2004
    )


def _check_name(con: duckdb.DuckDBPyConnection, definition: Definition) -> None:
    """Refuse the names of tracelab and DuckDB: every later question would mean something else by them."""
    with con.cursor() as apart:  # sees no temporary names, which may be replaced
        taken = apart.execute(
            "select view_name from duckdb_views() union all select function_name from duckdb_functions()"
        ).fetchall()
    if definition.name in {str(name).lower() for (name,) in taken}:
        raise UsageError(f"{definition.name} is a name of tracelab or DuckDB; choose another")


def _unquote(word: str) -> str:
    return word[1:-1].replace('""', '"') if word.startswith('"') else word
