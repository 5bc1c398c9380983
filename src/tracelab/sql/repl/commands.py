"""The prompt's commands, which begin with a dot: one line each, and the function that carries it out."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracelab import schema
from tracelab.errors import UsageError, suggest_name
from tracelab.output.help_text import definitions
from tracelab.output.labels import visible
from tracelab.query import library
from tracelab.sql import sandbox

if TYPE_CHECKING:
    from tracelab.sql.repl.shell import Shell


@dataclass(frozen=True)
class Command:
    """One command: what it takes, what it does, and its function, which is given the rest of the line."""

    takes: str
    about: str
    carry_out: Callable[["Shell", str], None]


def run_command(talk: "Shell", line: str) -> None:
    """Carry out a line that begins with a dot. Raises UsageError where no command has its name."""
    name, _, rest = line.strip().rstrip(";")[1:].partition(" ")
    name = {"exit": "quit", "q": "quit", "h": "help"}.get(name, name)
    if name not in COMMANDS:
        raise UsageError(suggest_name("command", f".{name}", [f".{known}" for known in COMMANDS]))
    COMMANDS[name].carry_out(talk, rest.strip())


def _help(talk: "Shell", _rest: str) -> None:
    rows = [(f".{name} {each.takes}".rstrip(), each.about) for name, each in COMMANDS.items()]
    talk.tell(
        "A statement ends with a semicolon: one SELECT, EXPLAIN of one, or CREATE TEMP TABLE, VIEW or MACRO.\n"
        "Tab completes, Ctrl-C clears the line or stops the statement, Ctrl-D leaves.\n\n" + definitions(rows)
    )


def _tables(talk: "Shell", _rest: str) -> None:
    counts = " union all ".join(
        f"select {place} as place, '{table.name}' as name, count(*) as rows from {table.name}"
        for place, table in enumerate(schema.TABLES)
    )
    found = talk.con.execute(f"select name, rows from ({counts}) order by place").fetchall()
    rows = [(name, f"{count:>13,}", schema.BY_NAME[name].row) for name, count in found]
    others = talk.con.execute(
        "select view_name, coalesce(comment, 'a view of this prompt') from duckdb_views() where not internal "
        "union all select table_name, 'a table of this prompt' from duckdb_tables() order by all"
    ).fetchall()
    rows += [(visible(name), " " * 13, visible(said)) for name, said in others if name not in schema.BY_NAME]
    talk.tell(definitions(rows))


def _schema(talk: "Shell", rest: str) -> None:
    name = rest.strip('"')
    if not name:
        talk.tell(definitions([(table.name, table.row) for table in schema.TABLES]))
        return
    columns = talk.con.execute(
        "select column_name, lower(data_type), coalesce(comment, '') from duckdb_columns() "
        "where not internal and lower(table_name) = lower($1) order by column_index",
        [name],
    ).fetchall()
    if not columns:
        known = talk.con.execute("select distinct table_name from duckdb_columns() where not internal").fetchall()
        raise UsageError(suggest_name("table", name, [str(each) for (each,) in known]))
    if name.lower() in schema.BY_NAME:
        talk.tell(f"{name.lower()}: a row is {schema.BY_NAME[name.lower()].row}.\n")
    talk.tell(definitions([tuple(visible(str(cell)) for cell in column) for column in columns]))


def _queries(talk: "Shell", _rest: str) -> None:
    talk.tell(definitions([(name, library.titled(name)) for name in library.library()]))


def _query(talk: "Shell", rest: str) -> None:
    try:
        name, *words = shlex.split(rest) or [""]
    except ValueError as error:
        raise UsageError(f".query {rest}: a quote is not closed") from error
    if not name:
        raise UsageError(".query takes a NAME; .queries lists them")
    values = _parse_options(name, words)
    like = values.pop("like", None)
    question = library.find(name, None if like is None else str(like))
    if not library.is_shipped(question):
        sandbox.check(talk.con, question.sql)
    with sandbox.translate_errors():
        talk.show(sandbox.run_interruptible(talk.con, lambda: library.run(talk.con, question, values)))


def _parse_options(name: str, words: list[str]) -> dict[str, library.Value]:
    """Values given as on the command line: --top 5, or --top=5."""
    values: dict[str, library.Value] = {}
    waiting = iter(words)
    for word in waiting:
        option, equals, value = word.partition("=")
        if not option.startswith("--"):
            raise UsageError(f"{name}: {word!r} is no option; write --name value")
        given = value if equals else next(waiting, None)
        if given is None:
            raise UsageError(f"{name}: {option} needs a value")
        values[option[2:].replace("-", "_")] = given
    return values


def _rows(talk: "Shell", rest: str) -> None:
    if rest and not (rest.isdecimal() and int(rest)):
        raise UsageError(f".rows takes a whole number above 0, not {rest!r}")
    if rest:
        talk.most_rows = int(rest)
    talk.tell(f"At most {talk.most_rows:,} rows of an answer are shown.")


def _quit(_talk: "Shell", _rest: str) -> None:
    raise EOFError


COMMANDS = {
    "help": Command("", "This.", _help),
    "tables": Command("", "The tables and views, with the rows there are and what a row is.", _tables),
    "schema": Command("[TABLE]", "What a row of each table is, or TABLE's columns with their meanings.", _schema),
    "queries": Command("", "The questions of the library.", _queries),
    "query": Command("NAME [--option value]…", "Answer a question of the library.", _query),
    "rows": Command("[N]", "How many rows of an answer are shown at most; N changes it.", _rows),
    "quit": Command("", "Leave, as Ctrl-D does.", _quit),
}
"""Every command by its name."""
