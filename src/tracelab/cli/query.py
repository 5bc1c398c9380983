"""`tracelab query`: every query is a command whose options and help come from the header of its file."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelab.cli import options
from tracelab.cli.output import Output, check_writable, write_atomically
from tracelab.errors import NoDataError, TracelabError, UsageError
from tracelab.foreign_text import escape_controls, escape_lines, print_exact, print_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from tracelab.output import table_view
    from tracelab.query.spec import Param, Query
    from tracelab.store.scope.request import Scope

_MARK = "✓"
PLOT_SUFFIXES = (".png", ".svg", ".pdf")

_EPILOG = """\b
Examples:
  tracelab query
  tracelab query kernel_summary --help
  tracelab query kernel_summary --format json -o kernels.json
  tracelab query gpu_breakdown --plot breakdown.svg
  tracelab query gpu_breakdown --like hta
  tracelab query mine.sql
"""


class QueryGroup(click.Group):
    """The query library as a group of commands; a path to an .sql file is a command too."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the library's queries."""
        from tracelab.query import library

        return list(library.names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Make the command of one query."""
        from tracelab.query import library

        return QueryCommand(library.find(cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the query; with `--like TOOL` among its options, as that tool defines it."""
        name, command, rest = super().resolve_command(ctx, args)
        tool = _selected_tool(rest)
        if isinstance(command, QueryCommand) and tool is not None:
            from tracelab.query import library

            command = QueryCommand(library.find(args[0], tool), tools=command.tools)
        return name and escape_controls(name), command, rest  # usage lines quote it

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the queries with their titles, by subject, behind the line that names the help of one."""
        formatter.write_paragraph()
        formatter.write_text("More options: tracelab query NAME --help")
        _write_subjects(formatter, None)


class QueryCommand(click.Command):
    """One query: its parameters are options, its columns a section of its help."""

    def __init__(self, query: "Query", tools: tuple[str, ...] | None = None) -> None:
        from tracelab.query.library import is_shipped, variants_of

        self.query = query
        self.tools = tools if tools is not None else tuple(variants_of(query.name) if is_shipped(query) else ())
        super().__init__(
            query.name,
            callback=partial(_run, query),
            help=f"{query.title}\n\n{query.prose}",
            params=[
                *map(_option, query.params),
                *_like_option(self.tools),
                *_selection_options(query),
                *_query_options(),
                *_scope_options(query),
                *_shared_options(),
            ],
            epilog=_examples(query),
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options. One that the query has only as another tool defines it is an error that names the tool."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            tools = self._find_tools(error.option_name)
            if not tools:
                raise
            names = " or ".join(f"--like {tool}" for tool in tools)
            text = f"No such option {error.option_name!r}; {self.query.name} has it with {names}."
            raise click.UsageError(text, ctx) from error

    def _find_tools(self, option: str) -> list[str]:
        from tracelab.query.library import variants_of

        by_tool = variants_of(self.query.name) if self.tools else {}
        return [tool for tool, query in by_tool.items() if option in map(_option_name, query.params)]

    def get_help(self, ctx: click.Context) -> str:
        """Return the help; the header of the file may contain anything."""
        return escape_lines(super().get_help(ctx))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print parameters, columns and needs before the options that all queries have."""
        names = {param.name for param in self.query.params}
        scope = {option.name for option in _scope_options(self.query)}
        records: dict[str, list[tuple[str, str]]] = {"own": [], "scope": [], "shared": []}
        for option in self.get_params(ctx):
            if record := option.get_help_record(ctx):
                kind = "own" if option.name in names else "scope" if option.name in scope else "shared"
                records[kind].append(record)
        sections = [
            ("Parameters", records["own"]),
            ("Columns of the answer", list(self.query.columns.items())),
            ("Needs rows in one of", [(table, _describe_row(table)) for table in self.query.needs]),
            ("Scope: the part of each recording that the answer is about", records["scope"]),
            ("Options", records["shared"]),
        ]
        for title, rows in sections:
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


_SELECTION = ("everything", "columns", "limit", "sort")
_SHARED = ("store", "fmt", "output", "force", "aligned", "memory_limit", "timeout_s")


def _shared_options() -> list[click.Parameter]:
    return [options.STORE, *options.OUTPUT, options.ALIGNED, *options.LIMITS]


@click.command(
    cls=QueryGroup,
    epilog=_EPILOG,
    params=_shared_options(),
    invoke_without_command=True,
    subcommand_metavar="[NAME|FILE.sql] [PARAMETERS]…",
)
@click.pass_context
def command(ctx: click.Context, /, fmt: str | None, output: Path | None, *, force: bool, **inherited: Any) -> None:  # noqa: ANN401  options have all types
    """Run a query of the library or of an .sql file; without arguments, list the queries by subject.

    `tracelab query` alone marks those that the store has data for.

    `tracelab query NAME --help` describes a row of the answer, its columns and the parameters. A terminal shows the
    first 500 rows and at most eight columns; --all shows all columns. Files and pipes get all rows, and data formats
    all columns.
    """
    if ctx.invoked_subcommand is not None:
        return
    import pyarrow as pa

    answer = Output.of(fmt, output, force=force)
    answerable, note = _find_answerable(inherited["store"])
    if answer.fmt == "table" and answer.path is None:
        formatter = click.HelpFormatter(max_width=120)
        _write_subjects(formatter, answerable)
        print_lines(f"{formatter.getvalue().strip()}\n\n{note}")
    else:
        columns: dict[str, pa.DataType] = dict.fromkeys(("query", "title", "like", "subject"), pa.string())
        columns["can_answer"] = pa.bool_()
        answer.emit(pa.Table.from_pylist(_list_rows(answerable), schema=pa.schema(columns)))


def _query_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--plot"],
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="Draw the answer into a .png, .svg or .pdf; --format or -o write the table too.",
        ),
        click.Option(
            ["--show-sql"],
            is_flag=True,
            help="Print the SQL with its parameters, and do not run it; `tracelab sql --init` prints the views.",
        ),
    ]


def _selection_options(query: "Query") -> list[click.Parameter]:
    """Return the options that choose rows and columns; a parameter of the query with such a name replaces one."""
    own = {param.name for param in query.params}
    selection: list[click.Option] = [
        click.Option(["--all", "everything"], is_flag=True, help="Every column in a table, also those without values."),
        click.Option(["--columns"], metavar="A,B,…", help="Exactly these columns, in this order."),
        click.Option(["--sort"], metavar="COLUMN", help="Sort by a column; --sort=-COLUMN: largest first."),
        click.Option(["--limit"], type=click.IntRange(min=0), metavar="N", help="Only the first N rows."),
    ]
    return [option for option in selection if option.opts[0].removeprefix("--") not in own]


def _scope_options(query: "Query") -> list[click.Parameter]:
    """Return the options of the scope but those that a parameter of the query has, too: see `_SharedOption`."""
    own = {_option_name(param) for param in query.params}
    return [option for option in options.SCOPE if option.opts[0] not in own]


class _SharedOption(click.Option):
    """A parameter with choices whose option is also one of the scope: `roofline --from shapes --from 350ms`.

    A value that is a choice is the parameter's; a time is the scope's.
    """

    def __init__(self, param: "Param", of_scope: click.Option) -> None:
        self.param, self.of_scope = param, of_scope
        super().__init__(
            [_option_name(param), param.name],
            multiple=True,
            metavar=f"[{'|'.join(param.choices)}|{of_scope.metavar}]",
            help=f"{param.about}  [default: {param.default}]  A {of_scope.metavar}: {of_scope.help}",
        )

    def take(self, values: dict[str, Any]) -> dict[str, str]:
        """Replace the option's values by the parameter's, and return those of the scope."""
        given = values.pop(self.param.name)
        values[self.param.name] = next((each for each in reversed(given) if each in self.param.choices), None)
        times = [each for each in given if each not in self.param.choices]
        for each in times:
            if not each[:1].isdecimal():
                choices = ", ".join(self.param.choices)
                raise UsageError(f"{self.opts[0]} {each!r} is neither {choices} nor a time, such as 350ms")
        return {str(self.of_scope.name): times[-1]} if times else {}


def take_scope(values: dict[str, Any]) -> "Scope | None":
    """Remove the options of the scope from the values of a command, and return the scope that they make.

    With --whole that is an empty one. Raises UsageError for that beside a scope.
    """
    given = {str(option.name): values.pop(str(option.name), None) for option in options.SCOPE}
    is_whole = values.pop(str(options.WHOLE.name), False)
    is_scoped = any(given[name] for name in given if name != "scope_by")
    if not is_whole and not is_scoped:
        return None
    if is_whole and is_scoped:
        raise UsageError("--whole includes all of a recording, and other options restrict it; omit one of them")
    from tracelab.store.scope.request import Scope

    return Scope(**{"by" if name == "scope_by" else name: value for name, value in given.items() if value is not None})


def _run(query: "Query", **values: Any) -> None:  # noqa: ANN401  options have all types
    """Run one query; `values` are its parameters and the shared options."""
    context = click.get_current_context()
    inherited = context.parent
    values.pop("like", None)  # it chose the query
    given = {name: values.pop(name) for name in (*_SHARED, "plot", "show_sql")}
    own = {param.name for param in query.params}
    given |= {name: None if name in own else values.pop(name, None) for name in _SELECTION}
    scope = {str(each.name): values.pop(str(each.name), None) for each in _scope_options(query)}
    for option in context.command.params:
        if isinstance(option, _SharedOption):
            scope |= option.take(values)
    given["scope"] = take_scope(scope)
    for name in _SHARED:  # `query --format json NAME` means the same
        if given[name] is None or given[name] is False:
            given[name] = inherited.params.get(name) if inherited else None
    _run_query(query, values, given)


def _run_query(query: "Query", values: dict[str, Any], options: dict[str, Any]) -> None:
    from tracelab.query import execute

    if options["show_sql"]:
        print_exact(execute.render_sql(query, values))
        return
    picture: Path | None = options["plot"]
    force = bool(options["force"])
    if picture is not None:
        _check_plot(query, picture, force=force)
    answer = None
    if picture is None or options["fmt"] or options["output"]:
        answer = Output.of(options["fmt"], options["output"], force=force)
    selection, answer = _select(query, options, answer)

    from tracelab.client import Lab
    from tracelab.store.session import open_store

    limits = options["memory_limit"], options["timeout_s"]
    lab = Lab(open_store(options["store"]), *limits, bool(options["aligned"]), options["scope"])
    notes: list[str] = []
    if alignment := lab.alignment(values.get("run")):
        lab, notes = replace(lab, aligned=alignment), alignment.notes
    if mask := lab.row_mask(query, values):
        lab, notes = replace(lab, scope=mask), [*notes, mask.note]
    if picture is not None:
        table = lab.run_query(query, values)
        if answer is not None:
            _emit_selected(table, selection, answer)
        _draw(table, query, picture, notes, lab.joined_kernels(query, table, values), force=force)
    elif answer is not None:
        with lab.open_query(query, values) as rows:
            answered = _emit_selected(rows, selection, answer)
        notes = notes if mask is None else [*notes[:-1], *mask.describe(answered)]
    for note in [*notes, *lab.find_hints(query, values), *lab.describe_starts(query, values)]:
        print_lines(note, err=True)


def _select(
    query: "Query", options: dict[str, Any], answer: Output | None
) -> "tuple[table_view.Selection, Output | None]":
    """Return the requested rows and columns, and the output with the columns that a table has."""
    from tracelab.output import table_view

    columns = tuple(name.strip() for name in (options["columns"] or "").split(",") if name.strip())
    if options["everything"] and columns:
        raise UsageError("--all and --columns were given; use one of them")
    if answer is None:
        if any(options[name] not in (None, False) for name in _SELECTION):
            raise UsageError("--plot draws the whole answer; add --format or -o FILE to write the selected rows")
        return table_view.Selection(), None
    selection = table_view.Selection(columns, options["sort"], options["limit"])
    if options["limit"] is not None:
        answer = replace(answer, terminal_rows=options["limit"])
    return selection, replace(answer, show=None if options["everything"] or columns else query.show)


def _emit_selected(rows: "pa.Table | pa.RecordBatchReader", selection: "table_view.Selection", answer: Output) -> int:
    """Write the selected rows, and print how many there are if that is more; return how many were read."""
    import pyarrow as pa

    read = 0

    def count(batches: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        nonlocal read
        for batch in batches:
            read += batch.num_rows
            yield batch

    if isinstance(rows, pa.Table):
        read = rows.num_rows
    else:
        rows = pa.RecordBatchReader.from_batches(rows.schema, count(rows))
    selected, total = selection.apply(rows)
    answer.emit(selected)
    if total is not None and selection.limit is not None and total > selection.limit:
        print_lines(f"The first {selection.limit:,} of {total:,} rows.", err=True)
    return read


def _draw(
    table: "pa.Table",
    query: "Query",
    picture: Path,
    notes: list[str],
    joined: dict[str, frozenset[str]],
    *,
    force: bool,
) -> None:
    """Write the picture, with the notes in its caption."""
    from tracelab import plot

    figure = plot.picture(table, query, notes, joined)
    draw: Callable[[Any], None] = partial(plot.save, figure.figure, fmt=picture.suffix[1:].lower())
    write_atomically(picture, draw, force=force)
    if figure.not_drawn:
        print_lines(f"{picture}: {'; '.join(figure.not_drawn)}", err=True)


def _check_plot(query: "Query", path: Path, *, force: bool) -> None:
    if path.suffix.lower() not in PLOT_SUFFIXES:
        raise UsageError(f"{path}: unsupported plot format; use a name that ends with {', '.join(PLOT_SUFFIXES)}")
    if not query.chart:
        raise UsageError(f"{query.name} has no chart in its header; add one to plot it")
    check_writable(path, force=force)


_KINDS: dict[str, "click.ParamType[Any]"] = {
    "text": click.STRING,
    "run": click.STRING,
    "integer": click.INT,
    "number": click.FLOAT,
    "flag": click.BOOL,
}


def _selected_tool(args: list[str]) -> str | None:
    """Return the value of `--like`. It decides which options exist, so it is read before click parses them."""
    waiting = iter(args)
    tools = [word[7:] if word[6:] else next(waiting, None) for word in waiting if word.partition("=")[0] == "--like"]
    return tools[-1] if tools else None


def _like_option(tools: tuple[str, ...]) -> list[click.Parameter]:
    if not tools:
        return []
    text = "Run it as another tool defines it; --help explains the difference."
    return [click.Option(["--like"], type=click.Choice(tools), help=text)]


def _option_name(param: "Param") -> str:
    return "--" + param.name.replace("_", "-")


def _option(param: "Param") -> click.Option:
    of_scope = next((option for option in options.SCOPE if option.opts[0] == _option_name(param)), None)
    if of_scope is not None and param.choices:
        return _SharedOption(param, of_scope)
    return click.Option(
        [_option_name(param), param.name],
        is_flag=False,
        flag_value="true" if param.type == "flag" else None,  # alone it means true
        type=click.Choice(param.choices) if param.choices else _KINDS[param.type],
        default=param.default,
        show_default=param.default is not None,
        help=param.about,
    )


def _find_answerable(store: Path | None) -> tuple[set[str] | None, str]:
    """Return the queries that the store can answer, None if it cannot be read, and a sentence about them."""
    from tracelab.client import Lab
    from tracelab.query import library
    from tracelab.store.session import open_store

    path = open_store(store)
    try:
        answerable = Lab(path).answerable_queries()
    except NoDataError:
        return None, f"No query is marked: there is no store at {path}; ingest traces, or name one with --store."
    except TracelabError as error:
        return None, f"No query is marked: {error}"
    return answerable, f"{_MARK} {path} has data for {len(answerable)} of {len(library.names())} queries."


def _write_subjects(formatter: click.HelpFormatter, answerable: set[str] | None) -> None:
    """Write the queries with their titles under their subjects, each that can be answered with a mark."""
    from tracelab.query import library

    widest = max(map(len, library.names()), default=0)
    for title, queries in library.by_subject().items():
        with formatter.section(title):
            rows = [(f"{each.name:<{widest}}", library.title_with_tools(each.name)) for each in queries]
            if answerable is not None:
                rows = [(f"{_MARK if name.strip() in answerable else ' '} {name}", title) for name, title in rows]
            formatter.write_dl(rows, col_max=widest + len(_MARK) + 3)


def _list_rows(answerable: set[str] | None) -> list[dict[str, str | bool | None]]:
    from tracelab.query import library
    from tracelab.query.report_rules import SECTION_TITLES

    tools = library.variants()
    return [
        {
            "query": name,
            "title": each.title,
            "like": ", ".join(tools.get(name, ())) or None,
            "subject": SECTION_TITLES[each.subject] if each.subject else None,
            "can_answer": None if answerable is None else name in answerable,
        }
        for name, each in library.library().items()
    ]


def _describe_row(table: str) -> str:
    from tracelab import schema

    return f"a row is {schema.BY_NAME[table].row}" if table in schema.BY_NAME else ""


def _examples(query: "Query") -> str:
    from tracelab.query.library import is_shipped

    first = f"  tracelab query {query.name if is_shipped(query) else query.path.name}"
    second = f"{first} --plot {query.path.stem}.svg" if query.chart else f"{first} -o {query.path.stem}.parquet"
    with_example = [param for param in query.params if param.example is not None]
    example = min(with_example, key=lambda param: param.name == "rank", default=None)  # its own parameters first
    if example is not None:
        value = shlex.quote(str(example.example).lower() if isinstance(example.example, bool) else str(example.example))
        second = f"{first} --{example.name.replace('_', '-')} {value} --format json"
    return f"\b\nExamples:\n{first}\n{second}"
