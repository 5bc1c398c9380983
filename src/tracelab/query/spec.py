"""The header of a query file: prose, then TOML in comments, read into frozen values."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast, get_args

from tracelab import schema
from tracelab.errors import UsageError
from tracelab.query.report_rules import Report
from tracelab.query.report_rules import report as report_of
from tracelab.resources import QUERIES

ParamType = Literal["text", "run", "integer", "number", "flag"]
"""`run` is text that names a run; left out, a query's parameters of this type are the store's runs, if as many."""
ChartKind = Literal["bars", "stacked", "pairs", "scatter", "line", "steps", "roofline", "curves", "grid", "timeline"]
Value = str | int | float | bool | None

PARAMETER = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(?P<name>[A-Za-z_]\w*)""", re.DOTALL | re.VERBOSE
)
"""Finds `$name` in SQL: the group `name` is empty where a string, a quoted name or a comment matched."""

_HEADER = re.compile(r"^-- /// (?P<kind>\w+)\n(?P<toml>.*?)^-- ///$\n?", re.MULTILINE | re.DOTALL)
_PYTHON_TYPES: dict[ParamType, tuple[type, ...]] = {
    "text": (str,),
    "run": (str,),
    "integer": (int,),
    "number": (int, float),
    "flag": (bool,),
}
_KEYS = {"title", "needs", "chart", "like", "params", "columns", "report"}


@dataclass(frozen=True)
class Param:
    """One parameter: `$name` in the SQL, `--name` on the command line; a default of None means no restriction.

    `example` is the value that the help shows; the default where the header names none. Where there are `choices`,
    only they can be given.
    """

    name: str
    type: ParamType
    default: Value
    about: str
    example: Value = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chart:
    """What to draw: `y` columns over `x`, one panel or series per value of `by`.

    bars: one bar a row and y column; stacked: the y columns on top of each other; pairs: two y columns that are orders
    of magnitude apart, and how many times; scatter and line: points over x; steps: what holds from one point to the
    next; roofline: the answer's kernels under its ceilings; curves: lines over x, a panel for each value of the `panel`
    columns; grid: x across, `by` down, y written into the cells, in panels as well; timeline: the
    parts y of each bin of time, stacked, from x on for `bin_ns`. With `host` a device of NULL is the
    host, else it is not known. `said` are words for y columns whose names do not speak for themselves; in them a clause
    `[: {column}]` is the value of a column that holds one in all rows. Of bars `panel` tells panels apart, too.
    """

    kind: ChartKind
    x: str
    y: tuple[str, ...]
    by: str | None
    host: bool = False
    panel: tuple[str, ...] = ()
    said: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Query:
    """One question: everything its file says. `columns` maps each column of the answer to its meaning, in order.

    `like` names questions that this one answers too, each as the tool that is its key defines it. `report` says where
    the answer stands in the report; without it the question is not asked there.
    """

    name: str
    path: Path
    title: str
    prose: str
    needs: tuple[str, ...]
    chart: Chart | None
    params: tuple[Param, ...]
    columns: Mapping[str, str]
    sql: str
    like: Mapping[str, str] = field(default_factory=dict)
    report: Report | None = None


@dataclass(frozen=True)
class Parts:
    """What a file with a header consists of: prose, the header's text and its values, and SQL."""

    prose: str
    toml: str
    first_line: int
    fields: Mapping[str, object]
    sql: str


def parts(path: Path, kind: str) -> Parts:
    """Take a file with a header of this kind apart; where there is none, a UsageError with file and line."""
    text = _text(path)
    header = next((found for found in _HEADER.finditer(text) if found["kind"] == kind), None)
    if header is None:
        raise UsageError(f"{path}:1: no header between `-- /// {kind}` and `-- ///`; see the files in {QUERIES}")
    first_line = text.count("\n", 0, header.start("toml")) + 1
    return Parts(
        prose=_uncommented(text[: header.start()]),
        toml=header["toml"],
        first_line=first_line,
        fields=_toml(path, header["toml"], first_line),
        sql=text[header.end() :].strip(),
    )


def parse(path: Path) -> Query:
    """Read a query file; a header that is not as it must be is a UsageError with file and line."""
    found = parts(path, "query")
    try:
        return _query(path, found.fields, prose=found.prose, sql=found.sql)
    except _HeaderError as error:
        line = _line_of(error.key, found.toml, found.first_line)
        raise UsageError(f"{path}:{line}: {error}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: no text in UTF-8 (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


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
    needs = tuple(cast("list[str]", _field(fields, "needs", list)))
    for table in needs:
        if table not in schema.BY_NAME:
            raise _HeaderError("needs", f"there is no table {table!r}; `tracelab schema` lists them")
    params = tuple(
        _param(name, entry) for name, entry in dict(cast("dict[str, object]", fields.get("params", {}))).items()
    )
    used = {match["name"] for match in PARAMETER.finditer(sql) if match["name"]}
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
        like=_like(fields.get("like", {})),
        report=_report(fields["report"], columns) if "report" in fields else None,
    )


def _report(entry: object, columns: Mapping[str, str]) -> Report:
    if not isinstance(entry, dict):
        raise _HeaderError("report", "report needs a table, [report]")
    try:
        return report_of(entry, columns)
    except ValueError as error:
        raise _HeaderError("report", str(error)) from error


def _like(entry: object) -> dict[str, str]:
    if not isinstance(entry, dict) or not all(isinstance(name, str) for name in entry.values()):
        raise _HeaderError("like", 'like needs a table of tools and questions, as { nsys = "kernel_summary" }')
    return entry


def _field(fields: Mapping[str, object], key: str, kind: type) -> object:
    value = fields.get(key)
    if not isinstance(value, kind):
        expected = {"str": "text", "list": "a list", "dict": "a table"}[kind.__name__]
        raise _HeaderError(key, f"the header needs {key!r} ({expected})")
    return value


def _param(name: str, entry: object) -> Param:
    if not isinstance(entry, dict) or not isinstance(entry.get("about"), str):
        raise _HeaderError(name, f'parameter {name!r} needs a table, as {{ default = 1, about = "…" }}')
    default = entry.get("default")
    kind = entry.get("type") or next((kind for kind, types in _PYTHON_TYPES.items() if type(default) in types), None)
    if kind not in _PYTHON_TYPES or (default is not None and type(default) not in _PYTHON_TYPES[kind]):
        raise _HeaderError(name, f"parameter {name!r} needs a default, or a type of {', '.join(_PYTHON_TYPES)}")
    example = entry.get("example", default)
    if example is not None and type(example) not in _PYTHON_TYPES[kind]:
        raise _HeaderError(name, f"parameter {name!r} has an example that is not of type {kind}")
    if unknown := set(entry) - {"type", "default", "about", "example", "choices"}:
        raise _HeaderError(name, f"parameter {name!r} has an unknown key {sorted(unknown)[0]!r}")
    choices = tuple(entry.get("choices", ()))
    if choices and (kind != "text" or not {default, example} <= {None, *choices}):
        raise _HeaderError(name, f"parameter {name!r} has choices, so it must be text, and its default one of them")
    return Param(name, kind, default, entry["about"], example, choices)


def _chart(entry: object, columns: Mapping[str, str]) -> Chart:
    if not isinstance(entry, dict) or entry.get("kind") not in get_args(ChartKind):
        raise _HeaderError("chart", f"chart needs a kind, one of {', '.join(get_args(ChartKind))}")
    x, y, by, said = entry.get("x"), entry.get("y"), entry.get("by"), entry.get("said", [])
    if not isinstance(y, list):
        raise _HeaderError("chart", "chart needs y as a list of columns")
    if said and (not isinstance(said, list) or len(said) != len(y)):
        raise _HeaderError("chart", "chart has said, so it must be a list of words, one for each column of y")
    panel = entry.get("panel", [])
    if not isinstance(panel, list):
        raise _HeaderError("chart", "chart needs panel as a list of columns")
    for name in (x, *y, *(() if by is None else (by,)), *panel):
        if name not in columns:
            raise _HeaderError("chart", f"chart names {name!r}, which is no column of the query")
    words = dict(zip(y, said, strict=bool(said)))
    return Chart(entry["kind"], str(x), tuple(y), by, entry.get("host") is True, tuple(panel), words)


def _toml(path: Path, commented: str, first_line: int) -> dict[str, object]:
    for number, line in enumerate(commented.splitlines(), first_line):
        if not line.startswith("--"):
            raise UsageError(f"{path}:{number}: a header line must begin with `--`")
    try:
        return tomllib.loads(_uncommented(commented))
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        number = first_line + (int(found[1]) - 1 if found else 0)
        raise UsageError(f"{path}:{number}: the header is no TOML: {error}") from error


def _line_of(key: str, commented: str, first_line: int) -> int:
    """The line of the header that names a key; the line before the header's first when none does."""
    for number, line in enumerate(commented.splitlines(), first_line):
        if re.match(rf'--\s*(?:("?){re.escape(key)}\1\s*=|\[{re.escape(key)}\])', line):
            return number
    return first_line - 1


def _uncommented(text: str) -> str:
    return "\n".join(re.sub(r"^-- ?", "", line) for line in text.strip().splitlines())
