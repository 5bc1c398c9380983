"""Check and run CREATE TEMP TABLE, VIEW and MACRO, which the shell accepts besides SELECT."""

import itertools
from dataclasses import dataclass

import duckdb

from tracelab.errors import UsageError
from tracelab.sql import sandbox
from tracelab.store import execution

_KINDS = {"table": "table", "view": "view", "macro": "macro", "function": "macro"}
_USAGE = "write create [or replace] temp table|view|macro NAME [(…)] as …"


@dataclass(frozen=True)
class Definition:
    """A parsed CREATE TEMP; `select` is its SELECT, or a SELECT of its expression."""

    kind: str
    name: str
    select: str


def create(con: duckdb.DuckDBPyConnection, text: str, timeout_s: float | None = None) -> Definition:
    """Check and run a CREATE TEMP. Raises UsageError for any other CREATE and for a name already taken."""
    definition = _parse_definition(text)
    sandbox.check(con, definition.select)
    _check_name(con, definition)

    def run() -> None:
        sandbox.provide_computed(con, definition.select)
        con.execute(text).fetchall()

    with execution.translate_errors():
        execution.run_interruptible(con, run, execution.Deadline(timeout_s))
    return definition


def _parse_definition(text: str) -> Definition:
    """Parse a CREATE TEMP and refuse every other form.

    Only names are allowed before AS: a default of a macro parameter could contain any statement.
    """
    tokens = sandbox.tokenize(text)
    if tokens[-1][0] == ";":
        text = text.removesuffix(tokens[-2][1])
        tokens = sandbox.tokenize(text)
    words = [word for word, _ in tokens]
    at = 3 if words[1:3] == ["or", "replace"] else 1
    if words[0] != "create" or words[at : at + 1] not in (["temp"], ["temporary"]):
        raise UsageError(f"refusing a CREATE that is not TEMP: {_USAGE}")
    kind = _KINDS.get(words[at + 1] if len(words) > at + 1 else "")
    if kind is None:
        raise UsageError(f"refusing this kind of CREATE TEMP: {_USAGE}")
    at += 2
    if words[at : at + 3] == ["if", "not", "exists"]:
        at += 3
    before = list(itertools.takewhile(lambda word: word != "as", words[at:]))
    end = at + len(before)
    if end + 1 >= len(words) or not _only_names(before):
        raise UsageError(f"refusing this CREATE TEMP: {_USAGE}")
    if kind != "macro":
        return Definition(kind, _unquote(before[0]), tokens[end][1])
    if words[end + 1] == "table":
        return Definition(kind, _unquote(before[0]), tokens[end + 1][1])
    return Definition(kind, _unquote(before[0]), f"select ({tokens[end][1]}\n)")


def _only_names(before: list[str]) -> bool:
    """Return whether the tokens are a name, optionally followed by names and constants in parentheses."""
    return len(before) == 1 or (
        len(before) > 2 and before[1] == "(" and before[-1] == ")" and not {"(", ")"} & set(before[2:-1])  # noqa: PLR2004
    )


def _check_name(con: duckdb.DuckDBPyConnection, definition: Definition) -> None:
    """Refuse names that tracelab or DuckDB use: later queries would silently change their meaning."""
    with con.cursor() as clean:  # a cursor has no temporary names, which may be replaced
        existing = clean.execute(
            "select view_name from duckdb_views() union all select function_name from duckdb_functions()"
        ).fetchall()
    if definition.name in {str(name).lower() for (name,) in existing}:
        raise UsageError(f"{definition.name} is already a name in tracelab or DuckDB; choose another")


def _unquote(word: str) -> str:
    return word[1:-1].replace('""', '"') if word.startswith('"') else word
