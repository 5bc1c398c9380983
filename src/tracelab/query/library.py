"""The library of queries: found by name, bound to values, run on a session or shown as plain SQL."""

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from tracelab.errors import NoDataError, UsageError
from tracelab.query.spec import PARAMETER, Chart, Param, Query, Value, parse
from tracelab.resources import QUERIES
from tracelab.schema import BY_NAME

__all__ = [
    "CAPTURE",
    "Chart",
    "Param",
    "Query",
    "Value",
    "bind",
    "find",
    "is_shipped",
    "library",
    "parse",
    "referenced_sql",
    "render_sql",
    "run",
    "titled",
    "variants",
]

_GPU = "profile with the PyTorch profiler and ProfilerActivity.CUDA, on a machine with a GPU"
MOST_RUNS_TOLD = 12
_COLLECT = "record a run with `tracelab collect train`, and ingest its folder"

CAPTURE: dict[str, str] = {
    "runs": "ingest a trace",
    "sources": "ingest a trace",
    "devices": _GPU,
    "kernels": _GPU,
    "memcpys": _GPU,
    "memsets": _GPU,
    "graph_launches": _GPU,
    "collectives": "profile a distributed job with the PyTorch profiler (2.1 or newer), which notes them by itself",
    "api_calls": _GPU,
    "ops": "profile with the PyTorch profiler and ProfilerActivity.CPU; record_shapes=True adds their shapes",
    "annotations": "mark ranges with torch.profiler.record_function while the PyTorch profiler records",
    "python_frames": "profile with the PyTorch profiler and with_stack=True",
    "memory_events": "profile with the PyTorch profiler and profile_memory=True",
    "syncs": "profile with the PyTorch profiler (2.2 or newer) and ProfilerActivity.CUDA",
    "counters": "ingest a Chrome trace that has counter events",
    "kernel_metrics": "profile single kernels with ncu, and ingest its report or what `ncu --csv --page raw` prints",
    "summaries": "ingest a summary that nvprof printed, or a run folder recorded with `tracelab collect train --flops`",
    "ceilings": "run `tracelab collect ceilings` on the machine, and ingest its folder",
    "steps": _COLLECT,
    "memory_peaks": _COLLECT,
    "host_samples": _COLLECT,
    "other_events": "ingest a Chrome trace that has events of other tools",
    "diagnostics": "nothing needs doing: no reader noticed anything",
}
"""What to do when a store has no rows of a table."""


_SUMMED = {"kernels", "memcpys", "memsets", "api_calls", "annotations", "ops", "kernel_metrics"}
"""Tables of single events whose sums a profiler's own summary may hold."""

RUN_PARAMS = ("run", "ncu", "timeline", "ceilings_run")
"""Parameters that restrict an answer to a run, or take something from one; it must be in the store."""

SETTING_PARAM = "setting"
"""The parameter that names a setting of runs."""


@cache
def library() -> dict[str, Query]:
    """The queries that tracelab ships, by name; the folder is the registry."""
    return {path.stem: parse(path) for path in sorted(QUERIES.glob("*.sql"))}


@cache
def variants() -> dict[str, dict[str, Query]]:
    """By question and tool: the same question as that tool defines it.

    These are the files like/<tool>/<question>.sql, and those of the library whose header says it of itself.
    """
    found: dict[str, dict[str, Query]] = {}
    for each in [*map(_variant, sorted(QUERIES.glob("like/*/*.sql"))), *library().values()]:
        for tool, name in each.like.items():
            found.setdefault(name, {})[tool] = each
    return {name: dict(sorted(found[name].items())) for name in library() if name in found}


def _variant(path: Path) -> Query:
    tool, question = path.parent.name, path.stem
    return replace(parse(path), name=f"{question} --like {tool}", like={tool: question})


def titled(name: str) -> str:
    """The title of a question of the library, and like which tools it can be asked."""
    tools = variants().get(name)
    return library()[name].title + (f"; --like {', '.join(tools)}" if tools else "")


def is_shipped(query: Query) -> bool:
    """Whether the query is of the library, and no file of the user's."""
    known = [library().get(query.name), *(variants().get(name, {}).get(tool) for tool, name in query.like.items())]
    return query in known


def find(name_or_path: str, like: str | None = None) -> Query:
    """A query by its name, or from a file ending in .sql; `like` another tool: in that tool's definition."""
    query = _find(name_or_path)
    if like is None:
        return query
    tools = variants().get(query.name, {}) if is_shipped(query) else {}
    if like in tools:
        return tools[like]
    if tools:
        raise UsageError(f"{query.name} has no definition like {like!r}; it has one like {', '.join(tools)}")
    raise UsageError(f"{query.name} is defined in one way only; like other tools there are {', '.join(variants())}")


def _find(name_or_path: str) -> Query:
    known = library()
    if name_or_path in known:
        return known[name_or_path]
    path = Path(name_or_path)
    if path.suffix == ".sql":
        if not path.is_file():
            raise UsageError(f"there is no file {path}; `tracelab query` lists the queries")
        return parse(path)
    near = difflib.get_close_matches(name_or_path, known, n=1, cutoff=0.0)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UsageError(f"there is no query {name_or_path!r}; {hint}`tracelab query` lists them all")


def run(con: duckdb.DuckDBPyConnection, query: Query, values: Mapping[str, Value]) -> pa.Table:
    """Answer a query on a session. `values` are those that differ from the defaults, typed or as text."""
    bound = bind(query, values)
    _check_needs(con, query)
    _check_runs(con, query, bound)
    answer: pa.Table = con.sql(query.sql.rstrip(";"), params=bound).to_arrow_table()
    if not answer.num_rows:
        _check_filters(con, query, bound)
        if SETTING_PARAM in bound and SETTING_PARAM in values:
            _check_setting(con, str(bound[SETTING_PARAM]))
    return answer


def referenced_sql(query: Query) -> str:
    """What `run` asks of a session: the query, and of tables what it says where they have no answer."""
    return "\n".join((query.sql, *query.needs, "sources", "summaries"))


def render_sql(query: Query, values: Mapping[str, Value]) -> str:
    """The query with its values filled in: it runs in any DuckDB shell that has read `tracelab sql --init`."""
    bound = bind(query, values)

    def literal(match: re.Match[str]) -> str:
        return _literal(bound[match["name"]]) if match["name"] else match[0]

    prose = "".join(f"-- {line}".rstrip() + "\n" for line in query.prose.splitlines())
    return prose + PARAMETER.sub(literal, query.sql).rstrip(";") + ";\n"


def bind(query: Query, values: Mapping[str, Value]) -> dict[str, Value]:
    """A value for every parameter: the one given, else the default; UsageError for a wrong name or type."""
    params = {param.name: param for param in query.params}
    for name in values:
        if name not in params:
            raise UsageError(f"{query.name} has no parameter {name!r}; it has {', '.join(params) or 'none'}")
    return {name: _typed(query, param, values.get(name)) for name, param in params.items()}


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
    wanted = f"one of {', '.join(param.choices)}" if param.choices else f"of type {param.type}"
    raise UsageError(f"{query.name}: {param.name} = {value!r} is not {wanted} ({param.about})")


def _check_needs(con: duckdb.DuckDBPyConnection, query: Query) -> None:
    """Raise NoDataError when the store has no row in any of the tables the query needs."""
    for table in query.needs:
        if con.execute(f"select 1 from {table} limit 1").fetchall():
            return
    if query.needs:
        needs, ways = " or ".join(query.needs), ways_to_get(query.needs)
        told = _told_of_summaries(con, query, None)
        raise NoDataError(f"{query.name} needs {needs}, and the store has none{told}; to get them: {ways}")


def _told_of_summaries(con: duckdb.DuckDBPyConnection, query: Query, run: Value) -> str:
    """Where the sums of what is missing stand in a profiler's own summary: which question shows it."""
    if not _SUMMED & set(query.needs):
        return ""
    found = con.sql("select 1 from summaries where $run is null or run = $run limit 1", params={"run": run})
    option = f" --run {run}" if run is not None else ""
    return f" but sums of a profiler's own: `tracelab query profiler_summary{option}`" if found.fetchall() else ""


def ways_to_get(tables: Sequence[str]) -> str:
    """How rows of the tables are captured, each way once."""
    return "; ".join(dict.fromkeys(CAPTURE[table] for table in tables))


def _check_runs(con: duckdb.DuckDBPyConnection, query: Query, bound: Mapping[str, Value]) -> None:
    """Raise where a run is named that the store lacks, or where a question of several runs leaves open which."""
    wanted = {param.name: bound[param.name] for param in query.params if param.type == "run"}
    named = [name for name in (*map(bound.get, RUN_PARAMS), *wanted.values()) if name is not None]
    if not named and not wanted:
        return
    runs = [str(run) for (run,) in con.execute("select distinct run from sources order by run").fetchall()]
    for name in named:
        check_run(runs, str(name))
    if None not in wanted.values() or len(runs) == len(wanted):
        return
    if len(runs) < len(wanted):
        raise NoDataError(f"{query.name} takes {len(wanted)} runs, and the store has {', '.join(runs)}; ingest another")
    options = " and ".join(f"--{name.replace('_', '-')}" for name in wanted)
    shown = ", ".join([*runs[:MOST_RUNS_TOLD], *(["…"] if len(runs) > MOST_RUNS_TOLD else [])])
    raise UsageError(f"{query.name} takes {len(wanted)} of the store's {len(runs)} runs, so name {options}: {shown}")


def check_run(runs: Sequence[str], name: str) -> None:
    """Raise NoDataError, with the nearest names, where no run is called so."""
    if name not in runs:
        near = difflib.get_close_matches(name, runs, n=3, cutoff=0.0)
        raise NoDataError(f"the store has no run {name!r}; near to it: {', '.join(near)}")


def _check_setting(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Raise NoDataError, with the settings there are, where no run has one that is called so."""
    found = [str(row[0]) for row in con.execute("select distinct name from run_settings order by name").fetchall()]
    if name not in found:
        raise NoDataError(f"no run has a setting {name!r}; there are {', '.join(found) or 'none'}")


def _check_filters(con: duckdb.DuckDBPyConnection, query: Query, bound: Mapping[str, Value]) -> None:
    """Raise NoDataError when an answer is empty because no needed row is of the run, rank or device asked for."""
    filters = [name for name in ("run", "rank", "device") if bound.get(name) is not None]
    tables = [table for table in query.needs if {column.name for column in BY_NAME[table].columns} >= set(filters)]
    if not filters or not tables:
        return
    columns = ", ".join(filters)
    rows = con.sql(" union ".join(f"select distinct {columns} from {table}" for table in tables)).fetchall()
    asked = ""
    for place, name in enumerate(filters):
        left = [row for row in rows if row[place] == bound[name]]
        if not left:
            found = sorted({row[place] for row in rows if row[place] is not None})
            if not found:  # rows of the host name no device; those of the GPU that the question joins may
                return
            told = _told_of_summaries(con, query, bound[name]) if name == "run" else ""
            raise NoDataError(
                f"{query.name}: {' or '.join(tables)} have no row of {name} {bound[name]}{asked}; "
                f"there {'is' if len(found) == 1 else 'are'} {name}{'s' * (len(found) != 1)} {_spans(found)}"
                + (told and f"; of {bound[name]} there are{told.removeprefix(' but')}")
            )
        asked, rows = f"{asked or ' in'} {name} {bound[name]}", left


def _spans(values: Sequence[str | int]) -> str:
    """Sorted values in words, whole numbers that follow each other as a span: 0–3, 5."""
    spans: list[list[str | int]] = []
    for value in values:
        if spans and isinstance(value, int) and value - 1 == spans[-1][-1]:
            spans[-1][1:] = [value]
        else:
            spans.append([value])
    return ", ".join("–".join(map(str, span)) for span in spans)


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
