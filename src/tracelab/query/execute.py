"""Execute a query on a session: bind its parameters, check that the store can answer, run it."""

import contextlib
import difflib
import fnmatch
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from keyword import iskeyword

import duckdb
import pyarrow as pa

from tracelab.errors import NoDataError, TracelabError, UsageError, suggest_close
from tracelab.output.spans import format_spans
from tracelab.query.spec import KEPT, ORDERED, PARAMETER, Hint, Param, Query, Value, prune_blocks
from tracelab.schema import BY_NAME
from tracelab.store import execution, session, shared_relations

CAPTURES_PARAM = "captures_from"
"""The parameter that names the run with the captures of graphs; without it a query of one run reads no other."""
RUN_PARAMS = ("run", "ncu", "timeline", "ceilings_run", "capture_run", CAPTURES_PARAM)
"""Parameters that restrict an answer to a run, or take something from one; it must be in the store."""

SETTING_PARAM = "setting"
"""The parameter that names a setting of runs."""

_MOST_RUNS_LISTED = 12
_WILDCARD = re.compile(r"[*?[]")
_ERROR_LINE = re.compile(r"^LINE (?P<line>\d+):", re.MULTILINE)


def run(con: duckdb.DuckDBPyConnection, query: Query, values: Mapping[str, Value]) -> pa.Table:
    """Run a query on a session and return all rows; of many, `start` holds fewer at a time.

    `values` are those that differ from the defaults, typed or as text.
    """
    bound, sql = _prepare(con, query, values)
    table = execution.fetch_table(con, sql, _select_used(sql, bound))
    _check_columns(query, table.column_names)
    if not table.num_rows:
        _explain_empty(con, query, bound, values)
    return table


def start(con: duckdb.DuckDBPyConnection, query: Query, values: Mapping[str, Value]) -> execution.Answer:
    """Start a query on a session; its rows are computed when they are read, or at once on a small store."""
    bound, sql = _prepare(con, query, values)
    if execution.has_few_rows(con):  # a relation is bound twice, which takes longer than its rows do
        reader = execution.fetch_table(con, sql, _select_used(sql, bound)).to_reader(execution.BATCH_ROWS)
        _check_columns(query, reader.schema.names)
        answer = execution.Answer(reader)
    else:
        relation = _bind_sql(con, sql, _select_used(sql, bound))
        _check_columns(query, relation.columns)
        answer = execution.start_relation(relation)
    if answer.is_empty:
        _explain_empty(con, query, bound, values)
    return answer


def _prepare(con: duckdb.DuckDBPyConnection, query: Query, values: Mapping[str, Value]) -> tuple[dict[str, Value], str]:
    """Check that the store can answer a query, compute the tables that it reads, and return its values and SQL."""
    bound = bind(query, values)
    _check_patterns(con, query, bound)
    _check_run_names(con, query, bound)
    _check_needs(con, query, bound)
    _check_run_count(con, query, bound)
    return bound, _provide_tables(con, query, bound)


def fetch_unchecked(con: duckdb.DuckDBPyConnection, query: Query, values: Mapping[str, Value]) -> pa.Table:
    """Return the rows of a query, also where the store cannot answer it: then there are none."""
    bound = bind(query, values)
    sql = _provide_tables(con, query, bound)
    return execution.fetch_table(con, sql, _select_used(sql, bound))


def _provide_tables(con: duckdb.DuckDBPyConnection, query: Query, bound: Mapping[str, Value]) -> str:
    """Compute the tables that a query reads, and return its SQL."""
    sql = prune_blocks(query.sql, {**bound, ORDERED: True}).rstrip(";")
    if not shared_relations.names_computed(sql):
        return sql
    open_kept = cache(partial(_open_kept, con))
    is_kept = _keeps_own(con, sql, bound, open_kept)
    sql = prune_blocks(sql, {KEPT: is_kept})
    sql, needed = (sql, sql) if is_kept else shared_relations.write_unkept(sql)
    if shared_relations.named_computations(needed):
        from tracelab.store import computed_tables

        computed_tables.provide(con, needed, bound)
    else:
        run, rank = bound.get("run"), bound.get("rank")
        shared_relations.provide(
            con, needed, None if run is None else [str(run)], open_kept, None if rank is None else int(rank)
        )
    return sql


def _open_kept(con: duckdb.DuckDBPyConnection) -> shared_relations.Kept | None:
    from tracelab.store import kept_relations

    return kept_relations.open_kept(con)


def _keeps_own(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    bound: Mapping[str, Value],
    open_kept: Callable[[], shared_relations.Kept | None],
) -> bool:
    """Return whether the store keeps the relations that only this query names, of one run of many rows, as they are."""
    if not shared_relations.names_own(sql) or not shared_relations.kept_values(sql).items() <= bound.items():
        return False
    if execution.has_few_rows(con) or session.plain_store(con) is None:
        return False
    run = bound.get("run")
    if not shared_relations.follows_from_many_rows(con, sql, None if run is None else str(run)):
        return False  # and the modules that keep relations need not be imported
    kept = open_kept()
    is_of_one = run is not None and not shared_relations.reads_other_runs(sql)
    return kept is not None and (is_of_one or len(kept.keys) == 1)


def _explain_empty(
    con: duckdb.DuckDBPyConnection, query: Query, bound: Mapping[str, Value], values: Mapping[str, Value]
) -> None:
    """Raise NoDataError if an answer is empty because of a parameter: the run, rank, device or setting has no rows."""
    _check_filters(con, query, bound)
    if SETTING_PARAM in bound and SETTING_PARAM in values:
        _check_setting(con, str(bound[SETTING_PARAM]))


@contextlib.contextmanager
def locate_errors(query: Query) -> Iterator[None]:
    """Put the file and, where DuckDB names it, the line before an error of the query's SQL."""
    try:
        yield
    except TracelabError as error:
        if not isinstance(error.__cause__, duckdb.Error):
            raise
        located = _ERROR_LINE.search(str(error))
        line = f":{query.sql_line + int(located['line']) - 1}" if located else ""
        raise type(error)(f"{query.path}{line}: {error}") from error.__cause__


def referenced_sql(query: Query, values: Mapping[str, Value] | None = None) -> str:
    """All names that `run` needs in a session: those of the SQL with these values, and of the tables that it checks."""
    of_cpu = ("ops", "gpu_activity") if query.on_cpu else ()
    if values is None:
        return "\n".join((query.sql, *query.needs, *of_cpu, "sources", "summaries"))
    bound = bind(query, values)
    hints = (hint.when for hint in query.hints)
    others = (table for param in query.params for tables in param.needs.values() for table in tables)
    needed = (*needed_tables(query, bound), *others)
    sql = prune_blocks(query.sql, bound)
    return "\n".join((sql, *hints, *needed, *of_cpu, "sources", "summaries"))


def read_runs(query: Query, values: Mapping[str, Value]) -> list[str] | None:
    """Return the runs whose rows a query reads; None where these may be all.

    A query that takes a run reads no other, unless it has a parameter for that, as for counters of another run.
    """
    bound = bind(query, values)
    named = (name for name in dict.fromkeys((*RUN_PARAMS, *_run_params(query))) if name in bound)
    given = [bound[name] for name in named if name != CAPTURES_PARAM or bound[name] is not None]
    return None if not given or None in given else [str(run) for run in given]


def answered_runs(query: Query, values: Mapping[str, Value]) -> list[str] | None:
    """Return the runs whose times an answer has; None where these may be all.

    A query of one run may read the counters and shapes of others, which have no times of their own in its answer.
    """
    run = bind(query, values).get("run")
    return read_runs(query, values) if run is None else [str(run)]


def find_hints(con: duckdb.DuckDBPyConnection, query: Query, values: Mapping[str, Value]) -> list[str]:
    """Return what to record for a fuller answer, by the hints in the query's header."""
    bound = bind(query, values)
    return [hint.text for hint in query.hints if _holds(con, hint, bound)]


def find_empty_reason(con: duckdb.DuckDBPyConnection, query: Query, values: Mapping[str, Value]) -> str | None:
    """Return what to record where an answer has no figure, by the hints in the query's header; None where it may."""
    bound = bind(query, values)
    return next((hint.text for hint in query.hints if hint.empty and _holds(con, hint, bound)), None)


def _holds(con: duckdb.DuckDBPyConnection, hint: Hint, bound: Mapping[str, Value]) -> bool:
    sql = f"select {hint.when}"
    return con.execute(sql, _select_used(sql, bound)).fetchall() == [(True,)]


def render_sql(query: Query, values: Mapping[str, Value]) -> str:
    """The query with its values written in: it runs in any DuckDB shell that has read `tracelab sql --init`."""
    bound = bind(query, values)

    def literal(match: re.Match[str]) -> str:
        return _literal(bound[match["name"]]) if match["name"] else match[0]

    prose = "".join(f"-- {line}".rstrip() + "\n" for line in query.prose.splitlines())
    sql = prune_blocks(query.sql, bound | {KEPT: False, ORDERED: False})
    if shared_relations.names_computed(sql):
        sql = shared_relations.write_into(sql)
    return prose + PARAMETER.sub(literal, sql).rstrip(";") + ";\n"


def bind(query: Query, values: Mapping[str, Value]) -> dict[str, Value]:
    """Return a value for every parameter, else its default; raise UsageError for a wrong name or type.

    A keyword of Python may end in an underscore: `lab.query("mfu", from_="shapes")`.
    """
    params = {param.name: param for param in query.params}
    values = {name.removesuffix("_") if iskeyword(name[:-1]) else name: value for name, value in values.items()}
    for name in values:
        if name not in params:
            raise UsageError(f"{query.name} has no parameter {name!r}; it has {', '.join(params) or 'none'}")
    return {name: _typed(query, param, values.get(name)) for name, param in params.items()}


def answerable(con: duckdb.DuckDBPyConnection, queries: Iterable[Query]) -> set[str]:
    """Return the names of the queries that the store can answer: by the tables with rows, and the number of runs."""
    runs = len(stored_runs(con))
    listed = list(queries)
    tables = sorted({table for query in listed for table in query.needs})
    filled = {table for table in tables if con.execute(f"select 1 from {table} limit 1").fetchall()}
    return {
        query.name
        for query in listed
        if (not query.needs or filled & set(query.needs)) and len(_run_params(query)) <= runs
    }


def empty_answers(con: duckdb.DuckDBPyConnection, queries: Iterable[Query]) -> set[str]:
    """Return the names of the queries whose answers about the whole store have no figure, by their hints."""
    return {query.name for query in queries if find_empty_reason(con, query, {}) is not None}


def capture_hints(tables: Sequence[str]) -> str:
    """How to capture rows of the tables, each way once."""
    return "; ".join(dict.fromkeys(BY_NAME[table].capture_hint for table in tables))


def check_run(runs: Sequence[str], name: str) -> None:
    """Raise NoDataError, with the nearest names, if none of the store's runs has this name."""
    if name not in runs:
        if matching := fnmatch.filter(runs, name):
            raise NoDataError(
                f"no run is named {name!r}, and a pattern is not read here; name one of {list_first(matching)}"
            )
        near = difflib.get_close_matches(name, runs, n=3, cutoff=0.0)
        raise NoDataError(f"the store has no run {name!r}; nearest: {', '.join(near)}")


def is_pattern(name: str) -> bool:
    """Return whether a name may be a shell pattern of several."""
    return _WILDCARD.search(name) is not None


def expand_runs(stored: Sequence[str], patterns: Sequence[str], option: str) -> tuple[str, ...]:
    """Return the runs of names and shell patterns, in order. Raises NoDataError for one that no run has."""
    found: dict[str, None] = {}
    for pattern in patterns:
        is_name = pattern in stored or not is_pattern(pattern)
        matching = [pattern] if is_name else fnmatch.filter(stored, pattern)
        if not matching:
            raise NoDataError(f"{option} {pattern}: the store has no such run; it has {list_first(stored)}")
        for run in matching:
            check_run(stored, run)
        found |= dict.fromkeys(matching)
    return tuple(found)


def _select_used(sql: str, bound: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values of the parameters that the SQL has; DuckDB refuses others."""
    used = {match["name"] for match in PARAMETER.finditer(sql)}
    return {name: value for name, value in bound.items() if name in used}


def _bind_sql(con: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, Value]) -> duckdb.DuckDBPyRelation:
    try:
        return con.sql(sql, params=dict(values))
    except (duckdb.BinderException, duckdb.CatalogException):
        con.execute(f"explain {sql}", dict(values))  # the same error, with its line
        raise


def _check_columns(query: Query, answered: Sequence[str]) -> None:
    """Raise UsageError if the header describes a column that the SQL does not return."""
    for name in query.columns:
        if name not in answered:
            hint = suggest_close("", name, set(answered) - set(query.columns))
            raise UsageError(f"{query.path}: [columns] describes {name!r}, which the SQL does not return{hint}")


def _typed(query: Query, param: Param, value: Value) -> Value:
    if value is None:
        return param.default
    try:
        match param.type, value:
            case "text" | "run", str() if not param.choices or value in param.choices:
                return value
            case "flag", bool():
                return value
            case "flag", "true" | "false":
                return value == "true"
            case "integer", (str() | int()) if not isinstance(value, bool):
                return int(value)
            case "number", (str() | int() | float()) if not isinstance(value, bool) and math.isfinite(float(value)):
                return float(value)
    except ValueError:
        pass
    expected = f"one of {', '.join(param.choices)}" if param.choices else f"of type {param.type}"
    raise UsageError(f"{query.name}: {param.name} = {value!r} is not {expected} ({param.about})")


def _check_patterns(con: duckdb.DuckDBPyConnection, query: Query, bound: Mapping[str, Value]) -> None:
    """Raise UsageError, with the option's name, for a parameter that is not a valid regular expression.

    DuckDB's own error names neither the option nor the expression, and comes only where a row is compared with it.

    """
    for param in query.params:
        pattern = bound[param.name]
        if not param.is_pattern or pattern in (None, param.default):
            continue
        check_pattern(con, param.name.replace("_", "-"), str(pattern))


def check_pattern(con: duckdb.DuckDBPyConnection, option: str, pattern: str) -> None:
    """Raise UsageError, with the option's name, for text that is not a valid regular expression."""
    try:
        con.execute("select regexp_matches('', $pattern)", {"pattern": pattern}).fetchall()
    except duckdb.InvalidInputException as error:
        reason = str(error).removeprefix("Invalid Input Error: ")
        raise UsageError(f"--{option} {pattern!r} is no regular expression: {reason}") from error


def needed_tables(query: Query, bound: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the tables that a query with these values needs, each or one of them."""
    return tuple(dict.fromkeys(table for tables in _alternatives(query, bound) for table in tables))


def _alternatives(query: Query, bound: Mapping[str, Value]) -> list[tuple[str, ...]]:
    """Return groups of tables of which a query needs one each: those of the query, or each of a chosen value."""
    chosen = [param.needs[value] for param in query.params if (value := str(bound[param.name])) in param.needs]
    return [(table,) for tables in chosen for table in tables] or [query.needs]


def _check_needs(con: duckdb.DuckDBPyConnection, query: Query, bound: Mapping[str, Value]) -> None:
    """Raise NoDataError if the store has no row of what the query needs, in a scope or not."""
    for tables in _alternatives(query, bound):
        if any(con.execute(f"select 1 from {table} limit 1").fetchall() for table in tables):
            continue
        if tables and (session.scoped_tables(con) or frozenset()).isdisjoint(tables):
            needs, hints = " or ".join(tables), capture_hints(tables)
            summary = _summary_hint(con, query, None)
            other = _other_choice_hint(con, query, bound) or _cpu_hint(con, query, None)
            raise NoDataError(
                f"{query.name} needs {needs}, and the store has none{summary}; to get them: {hints}{other}"
            )


def _other_choice_hint(con: duckdb.DuckDBPyConnection, query: Query, bound: Mapping[str, Value]) -> str:
    """Name a choice of a parameter that needs other tables, if the store has all of them."""
    for param in query.params:
        for choice, tables in param.needs.items():
            if choice != bound[param.name] and all(con.execute(f"from {table} limit 1").fetchall() for table in tables):
                return f"; without them: --{param.name.replace('_', '-')} {choice}, of {' and '.join(tables)}"
    return ""


def _cpu_hint(con: duckdb.DuckDBPyConnection, query: Query, run: Value) -> str:
    """Name the query of ops that answers the same, where a run, or any, has ops and nothing on a GPU."""
    if query.on_cpu is None:
        return ""
    of_run = "where $run is null or run = $run"
    sql = f"select exists (from ops {of_run}) and not exists (from gpu_activity {of_run})"
    option = f" --run {run}" if run is not None else ""
    holds = con.execute(sql, {"run": run}).fetchall() == [(True,)]
    return f"; of the CPU alone: `tracelab query {query.on_cpu}{option}`" if holds else ""


def _summary_hint(con: duckdb.DuckDBPyConnection, query: Query, run: Value) -> str:
    """Name the query that shows a profiler's own summary, if that has the sums of the missing events."""
    if not any(BY_NAME[table].summarized_by for table in query.needs):
        return ""
    rows = con.sql("select 1 from summaries where $run is null or run = $run limit 1", params={"run": run}).fetchall()
    option = f" --run {run}" if run is not None else ""
    return f" but sums of a profiler's own: `tracelab query profiler_summary{option}`" if rows else ""


def _check_run_names(con: duckdb.DuckDBPyConnection, query: Query, bound: Mapping[str, Value]) -> None:
    """Raise NoDataError if a parameter names a run that the store lacks."""
    run_names = [bound.get(name) for name in dict.fromkeys((*RUN_PARAMS, *_run_params(query)))]
    if given := [str(name) for name in run_names if name is not None]:
        runs = stored_runs(con)
        for name in given:
            check_run(runs, name)


def _check_run_count(con: duckdb.DuckDBPyConnection, query: Query, bound: Mapping[str, Value]) -> None:
    """Raise if a query of several runs leaves open which."""
    run_params = _run_params(query)
    if not any(bound[name] is None for name in run_params):
        return
    runs = stored_runs(con)
    if len(runs) == len(run_params):
        return
    if len(runs) < len(run_params):
        raise NoDataError(
            f"{query.name} takes {len(run_params)} runs, and the store has {', '.join(runs)}; ingest another"
        )
    options = " and ".join(f"--{name.replace('_', '-')}" for name in run_params)
    raise UsageError(
        f"{query.name} takes {len(run_params)} of the store's {len(runs)} runs, so name {options}: {list_first(runs)}"
    )


def _run_params(query: Query) -> list[str]:
    return [param.name for param in query.params if param.type == "run"]


def stored_runs(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the names of all runs of the store, in order."""
    return [str(run) for (run,) in con.execute("select distinct run from sources order by run").fetchall()]


def list_first(runs: Sequence[str]) -> str:
    """Return the first names of a list of runs, and an ellipsis if it is longer."""
    return ", ".join([*runs[:_MOST_RUNS_LISTED], *(["…"] if len(runs) > _MOST_RUNS_LISTED else [])])


def _check_setting(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Raise NoDataError, with the settings of the store, if no run has this one."""
    known = [str(row[0]) for row in con.execute("select distinct name from run_settings order by name").fetchall()]
    if name not in known:
        raise NoDataError(f"no run has a setting {name!r}; there are {', '.join(known) or 'none'}")


def _check_filters(con: duckdb.DuckDBPyConnection, query: Query, bound: Mapping[str, Value]) -> None:
    """Raise NoDataError if an answer is empty because no needed row is of the given run, rank or device."""
    filters = [name for name in ("run", "rank", "device") if bound.get(name) is not None]
    for needed in _alternatives(query, bound):
        tables = [table for table in needed if {column.name for column in BY_NAME[table].columns} >= set(filters)]
        if filters and tables:
            _check_filter(con, query, {name: bound[name] for name in filters}, tables)


def _check_filter(
    con: duckdb.DuckDBPyConnection, query: Query, filters: Mapping[str, Value], tables: Sequence[str]
) -> None:
    columns = ", ".join(filters)
    rows = con.sql(" union ".join(f"select distinct {columns} from {table}" for table in tables)).fetchall()
    scope = ""
    for place, name in enumerate(filters):
        remaining = [row for row in rows if row[place] == filters[name]]
        if not remaining:
            known = sorted({row[place] for row in rows if row[place] is not None})
            if not known:  # rows of the CPU side name no device; those of the GPU that the query joins may
                return
            summary = _summary_hint(con, query, filters[name]) if name == "run" else ""
            cpu = _cpu_hint(con, query, filters.get("run"))
            raise NoDataError(
                f"{query.name}: {' or '.join(tables)} have no row of {name} {filters[name]}{scope}{cpu}; "
                f"there {'is' if len(known) == 1 else 'are'} {name}{'s' * (len(known) != 1)} "
                + (list_first(known) if name == "run" else format_spans(known))
                + (summary and f"; of {filters[name]} there are{summary.removeprefix(' but')}")
            )
        scope, rows = f"{scope or ' in'} {name} {filters[name]}", remaining


def _literal(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            return repr(value)
