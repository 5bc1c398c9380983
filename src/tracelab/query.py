"""A query is one file: prose, a TOML header in comments, SQL; here it is read, bound, run and shown."""

import difflib
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, cast, get_args

import duckdb
import pyarrow as pa

from tracelab import schema
from tracelab.errors import NoDataError, UsageError
from tracelab.resources import QUERIES

ParamType = Literal["text", "integer", "number", "flag"]
ChartKind = Literal["bars", "stacked", "scatter", "line"]
Value = str | int | float | bool | None

CAPTURE: dict[str, str] = {
    "runs": "ingest a run folder that `tracelab collect` wrote",
    "sources": "ingest a trace",
    "devices": "ingest a trace of a program that used a GPU",
    "kernels": "record GPU activity: the PyTorch profiler with ProfilerActivity.CUDA, or `nsys profile -t cuda`",
    "memcpys": "record GPU activity: the PyTorch profiler with ProfilerActivity.CUDA, or `nsys profile -t cuda`",
    "memsets": "record GPU activity: the PyTorch profiler with ProfilerActivity.CUDA, or `nsys profile -t cuda`",
    "graph_launches": "record whole CUDA graphs with `nsys profile -t cuda --cuda-graph-trace=graph`",
    "collectives": "profile a distributed job with the PyTorch profiler (2.1 or newer), which notes them by itself",
    "api_calls": "record API calls: the PyTorch profiler with ProfilerActivity.CUDA, or `nsys profile -t cuda,osrt`",
    "ops": "record framework ops: the PyTorch profiler with ProfilerActivity.CPU",
    "annotations": "mark ranges with torch.profiler.record_function, or with NVTX and `nsys profile -t nvtx`",
    "python_frames": "profile with the PyTorch profiler's with_stack=True",
    "memory_events": "profile with the PyTorch profiler's profile_memory=True",
    "syncs": "profile with the PyTorch profiler of 2.2 or newer, which records synchronisations with its CUDA events",
    "counters": "sample counters, for example with `nsys profile --gpu-metrics-devices=all`",
    "kernel_metrics": "profile kernels with `ncu --csv --page raw`",
    "summaries": "ingest an nvprof summary or a table of `nsys stats`",
    "ceilings": "measure the machine with `tracelab collect ceilings`",
    "steps": "collect the run with `tracelab collect train`",
    "memory_peaks": "collect the run with `tracelab collect train`",
    "host_samples": "collect the run with `tracelab collect train`",
    "other_events": "ingest a Chrome trace that has events of other tools",
    "diagnostics": "nothing needs doing: no reader noticed anything",
}
"""What to do when a store has no rows of a table."""

_HEADER = re.compile(r"^-- /// query\n(?P<toml>.*?)^-- ///$\n?", re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(?P<name>[A-Za-z_]\w*)""", re.DOTALL | re.VERBOSE
)
_NAMES: dict[ParamType, tuple[type, ...]] = {"text": (str,), "integer": (int,), "number": (int, float), "flag": (bool,)}
_KEYS = {"title", "needs", "chart", "params", "columns"}


@dataclass(frozen=True)
class Param:
    """One parameter: `$name` in the SQL, `--name` on the command line; a default of None means no restriction."""

    name: str
    type: ParamType
    default: Value
    about: str


@dataclass(frozen=True)
class Chart:
    """What to draw: `y` columns over `x`, one panel or series per value of `by`.

    bars: one bar a row and y column; stacked: the y columns on top of each other; scatter and line: points over x.
    """

    kind: ChartKind
    x: str
    y: tuple[str, ...]
    by: str | None


@dataclass(frozen=True)
class Query:
    """One question: everything its file says. `columns` maps each column of the answer to its meaning, in order."""

    name: str
    path: Path
    title: str
    prose: str
    needs: tuple[str, ...]
    chart: Chart | None
    params: tuple[Param, ...]
    columns: Mapping[str, str]
    sql: str


@cache
def library() -> dict[str, Query]:
    """The queries that tracelab ships, by name; the folder is the registry."""
    return {path.stem: parse(path) for path in sorted(QUERIES.glob("*.sql"))}


def find(name_or_path: str) -> Query:
    """A query by its name, or from a file ending in .sql."""
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


def parse(path: Path) -> Query:
    """Read a query file; a header that is not as it must be is a UsageError with file and line."""
    text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    header = _HEADER.search(text)
    if header is None:
        raise UsageError(f"{path}:1: no header between `-- /// query` and `-- ///`; see the files in {QUERIES}")
    first_line = text.count("\n", 0, header.start("toml")) + 1
    fields = _toml(path, header["toml"], first_line)
    try:
        return _query(path, fields, prose=_uncommented(text[: header.start()]), sql=text[header.end() :].strip())
    except _HeaderError as error:
        line = _line_of(error.key, header["toml"], first_line)
        raise UsageError(f"{path}:{line}: {error}") from error


def run(con: duckdb.DuckDBPyConnection, query: Query, values: Mapping[str, Value]) -> pa.Table:
    """Answer a query on a session. `values` are those that differ from the defaults, typed or as text."""
    bound = bind(query, values)
    _check_needs(con, query)
    _check_run(con, bound.get("run"))
    return con.sql(query.sql.rstrip(";"), params=bound).to_arrow_table()


def shown_sql(query: Query, values: Mapping[str, Value]) -> str:
    """The query with its values filled in: it runs in any DuckDB shell that has read `tracelab sql --init`."""
    bound = bind(query, values)

    def literal(match: re.Match[str]) -> str:
        return _literal(bound[match["name"]]) if match["name"] else match[0]

    prose = "".join(f"-- {line}".rstrip() + "\n" for line in query.prose.splitlines())
    return prose + _PARAMETER.sub(literal, query.sql).rstrip(";") + ";\n"


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
            case "text", str():
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
    raise UsageError(f"{query.name}: {param.name} = {value!r} is not of type {param.type} ({param.about})")


def _check_needs(con: duckdb.DuckDBPyConnection, query: Query) -> None:
    """Raise NoDataError when the store has no row in any of the tables the query needs."""
    for table in query.needs:
        if con.execute(f"select 1 from {table} limit 1").fetchall():
            return
    if query.needs:
        ways = "; ".join(dict.fromkeys(CAPTURE[table] for table in query.needs))
        raise NoDataError(f"{query.name} needs {' or '.join(query.needs)}, and the store has none; to get them: {ways}")


def _check_run(con: duckdb.DuckDBPyConnection, name: Value) -> None:
    if name is None:
        return
    runs = [str(run) for (run,) in con.execute("select distinct run from sources order by run").fetchall()]
    if name not in runs:
        near = difflib.get_close_matches(str(name), runs, n=3, cutoff=0.0)
        raise NoDataError(f"the store has no run {name!r}; near to it: {', '.join(near)}")


class _HeaderError(Exception):
    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


def _query(path: Path, fields: Mapping[str, object], *, prose: str, sql: str) -> Query:
    for key in fields:
        if key not in _KEYS:
            raise _HeaderError(key, f"unknown key {key!r}; a header has {', '.join(sorted(_KEYS))}")
    columns = cast("dict[str, str]", _field(fields, "columns", dict))
    for name, meaning in columns.items():
        if not isinstance(meaning, str) or not meaning:
            raise _HeaderError(name, f"column {name!r} needs its meaning as text")
    needs = tuple(_field(fields, "needs", list))
    for table in needs:
        if table not in schema.BY_NAME:
            raise _HeaderError("needs", f"there is no table {table!r}; `tracelab schema` lists them")
    params = tuple(
        _param(name, entry) for name, entry in dict(cast("dict[str, object]", fields.get("params", {}))).items()
    )
    used = {match["name"] for match in _PARAMETER.finditer(sql) if match["name"]}
    declared = {param.name for param in params}
    for name in sorted(used ^ declared):
        raise _HeaderError(
            name, f"parameter {name!r} is {'used, not declared' if name in used else 'declared, not used'}"
        )
    return Query(
        name=path.stem,
        path=path,
        title=cast("str", _field(fields, "title", str)),
        prose=prose,
        needs=needs,
        chart=_chart(fields["chart"], columns) if "chart" in fields else None,
        params=params,
        columns=columns,
        sql=sql,
    )


def _field(fields: Mapping[str, object], key: str, kind: type) -> object:
    value = fields.get(key)
    if not isinstance(value, kind):
        raise _HeaderError(key, f"the header needs {key!r} ({ {str: 'text', list: 'a list', dict: 'a table'}[kind] })")
    return value


def _param(name: str, entry: object) -> Param:
    if not isinstance(entry, dict) or not isinstance(entry.get("about"), str):
        raise _HeaderError(name, f'parameter {name!r} needs a table, as {{ default = 1, about = "…" }}')
    default = entry.get("default")
    type_ = entry.get("type") or next((name for name, types in _NAMES.items() if type(default) in types), None)
    if type_ not in get_args(ParamType) or (default is not None and type(default) not in _NAMES[type_]):
        raise _HeaderError(name, f"parameter {name!r} needs a default, or a type of {', '.join(get_args(ParamType))}")
    if unknown := set(entry) - {"type", "default", "about"}:
        raise _HeaderError(name, f"parameter {name!r} has an unknown key {sorted(unknown)[0]!r}")
    return Param(name, type_, default, entry["about"])


def _chart(entry: object, columns: Mapping[str, str]) -> Chart:
    if not isinstance(entry, dict) or entry.get("kind") not in get_args(ChartKind):
        raise _HeaderError("chart", f"chart needs a kind, one of {', '.join(get_args(ChartKind))}")
    x, y, by = entry.get("x"), entry.get("y"), entry.get("by")
    if not isinstance(y, list):
        raise _HeaderError("chart", "chart needs y as a list of columns")
    for name in (x, *y, *(() if by is None else (by,))):
        if name not in columns:
            raise _HeaderError("chart", f"chart names {name!r}, which is no column of the query")
    return Chart(entry["kind"], str(x), tuple(y), by)


def _toml(path: Path, commented: str, first_line: int) -> dict[str, object]:
    for number, line in enumerate(commented.splitlines(), first_line):
        if not line.startswith("--"):
            raise UsageError(f"{path}:{number}: a header line must begin with `--`")
    try:
        return tomllib.loads(_uncommented(commented))
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = first_line + int(found[1]) - 1 if found else first_line
        raise UsageError(f"{path}:{line}: the header is no TOML: {error}") from error


def _line_of(key: str, commented: str, first_line: int) -> int:
    """The line of the header that names a key; the line before the header's first when none does."""
    for number, line in enumerate(commented.splitlines(), first_line):
        if re.match(rf"--\s*(?:{re.escape(key)}\s*=|\[{re.escape(key)}\])", line):
            return number
    return first_line - 1


def _uncommented(text: str) -> str:
    return "\n".join(re.sub(r"^-- ?", "", line) for line in text.strip().splitlines())


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
