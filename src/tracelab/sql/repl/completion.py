"""Completion of names: tables, columns, macros, functions, keywords, queries and dot commands."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import duckdb
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from tracelab import schema
from tracelab.query import library
from tracelab.sql.repl.commands import COMMANDS, list_relations

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_WORD = re.compile(r"[\w.\"]*$")
_NAME = re.compile(r"\w+")


@dataclass(frozen=True)
class SessionNames:
    """Names of a session with a description each; `columns` by table."""

    relations: dict[str, str]
    columns: dict[str, dict[str, str]]
    functions: dict[str, str]
    keywords: dict[str, str]


def load_names(con: duckdb.DuckDBPyConnection) -> SessionNames:
    """Read all names that the session currently has."""
    columns: dict[str, dict[str, str]] = {}
    for table, column, kind in con.execute(
        "select table_name, column_name, data_type from duckdb_columns() where not internal order by column_index"
    ).fetchall():
        columns.setdefault(str(table), {})[str(column)] = str(kind).lower()
    functions = con.execute(
        "select function_name, any_value(case when internal then function_type else 'macro' end), "
        "any_value(array_to_string(parameters, ', ')) from duckdb_functions() "
        "where function_type <> 'pragma' and regexp_full_match(function_name, '[a-z][a-z0-9_]*') "
        "group by function_name order by bool_or(internal), function_name"
    ).fetchall()
    keywords = con.execute("select keyword_name from duckdb_keywords() order by keyword_name").fetchall()
    return SessionNames(
        relations={table.name: table.row for table in schema.TABLES} | dict(list_relations(con)),
        columns=columns,
        functions={str(name): f"{kind} ({parameters})" for name, kind, parameters in functions},
        keywords={str(name): "keyword" for (name,) in keywords},
    )


class NameCompleter(Completer):
    """Completes the word before the cursor; columns of tables in the statement first, keywords last."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self.words = load_names(con)

    def refresh(self) -> None:
        """Read the names again after a CREATE."""
        self.words = load_names(self._con)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002
        """Yield completions of the word before the cursor."""
        text_before = document.text_before_cursor
        prefix = text_before.lstrip()
        if prefix.startswith("."):
            yield from _complete_command(prefix, self.words)
            return
        match = _WORD.search(text_before)
        word = (match[0] if match else "").replace('"', "")
        _, dot, last = word.rpartition(".")
        mentioned = {name.lower() for name in _NAME.findall(document.text)}
        for name, description in _candidates(self.words, mentioned, only_columns=bool(dot)):
            if (last or dot) and name.lower().startswith(last.lower()):
                yield Completion(
                    _quote_identifier(name, self.words), -len(last), display=name, display_meta=description
                )


def _candidates(session_names: SessionNames, mentioned: set[str], *, only_columns: bool) -> Iterator[tuple[str, str]]:
    """Yield each name once: columns of tables in the statement first, columns of other tables after the tables."""
    tables = {table for table in session_names.columns if table.lower() in mentioned}
    groups: list[Iterable[tuple[str, str]]] = [
        (
            (column, f"{kind}, {table}")
            for table in sorted(tables)
            for column, kind in session_names.columns[table].items()
        )
    ]
    if not only_columns:
        groups.append(session_names.relations.items())
    if not tables:
        groups.append(
            (column, f"{kind}, {table}")
            for table, columns in session_names.columns.items()
            for column, kind in columns.items()
        )
    if not only_columns:
        groups += [session_names.functions.items(), session_names.keywords.items()]
    seen: set[str] = set()
    for group in groups:
        for name, description in group:
            if name not in seen:
                seen.add(name)
                yield name, description


def _complete_command(prefix: str, session_names: SessionNames) -> Iterator[Completion]:
    """Complete a command, then its arguments."""
    command, blank, rest = prefix.partition(" ")
    if not blank:
        names = {f".{name}": each.help for name, each in COMMANDS.items()}
        yield from _completions_with_prefix(names, command)
    elif command == ".schema":
        yield from _completions_with_prefix(session_names.relations, rest)
    elif command == ".query":
        name, more, options = rest.partition(" ")
        if not more:
            yield from _completions_with_prefix({name: each.title for name, each in library.library().items()}, rest)
        elif name in library.names():
            tools = library.variants_of(name)
            queries = [each for tool, each in tools.items() if tool in options.split()]
            about = {"--like": f"the definition of {', '.join(tools)}"} if tools else {}
            params = (queries[0] if queries else library.shipped(name)).params
            about |= {f"--{param.name.replace('_', '-')}": param.about for param in params}
            yield from _completions_with_prefix(about, options.rpartition(" ")[2])


def _completions_with_prefix(names: dict[str, str], prefix: str) -> Iterator[Completion]:
    for name, description in names.items():
        if name.startswith(prefix):
            yield Completion(name, -len(prefix), display_meta=description)


def _quote_identifier(name: str, session_names: SessionNames) -> str:
    """Quote an identifier if it is a reserved word or not a plain name."""
    reserved = name in session_names.keywords and name in {"group", "order", "end", "table", "select", "from", "when"}
    is_column = any(name in columns for columns in session_names.columns.values())
    return f'"{name}"' if is_column and (reserved or not _PLAIN.fullmatch(name)) else name
