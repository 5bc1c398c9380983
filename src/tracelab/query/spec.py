"""Parse a query file: prose, a TOML header in comments, and SQL."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

from tracelab import schema
from tracelab.errors import UsageError, suggest_close
from tracelab.query.report_rules import SECTION_TITLES, Report, parse_report
from tracelab.resources import QUERIES
from tracelab.store import shared_relations

ParamType = Literal["text", "run", "integer", "number", "flag"]
"""`run` is text that names a run; if omitted, a query's parameters of this type are the store's runs, if as many."""
ChartKind = Literal["bars", "stacked", "pairs", "scatter", "line", "steps", "roofline", "curves", "grid", "timeline"]
Value = str | int | float | bool | None

PARAMETER = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(?P<name>[A-Za-z_]\w*)""", re.DOTALL | re.VERBOSE
)
"""Matches `$name` in SQL: the group `name` is empty where a string, a quoted name or a comment matched."""

_HEADER = re.compile(r"^-- /// (?P<kind>\w+)\n(?P<toml>.*?)^-- ///$\n?", re.MULTILINE | re.DOTALL)
KEPT = "kept"
"""The name of blocks for where the store keeps the relations of the query (`true`), and for elsewhere (`false`)."""
ORDERED = "ordered"
"""The name of blocks for a session, where computed tables are in order (`true`), and for SQL alone (`false`)."""
_BLOCK = re.compile(
    r"^ *-- /// if (?P<name>\w+) = (?P<values>[^\n]+)\n(?P<sql>.*?)^ *-- /// end$\n?", re.MULTILINE | re.DOTALL
)
_PYTHON_TYPES: dict[ParamType, tuple[type, ...]] = {
    "text": (str,),
    "run": (str,),
    "integer": (int,),
    "number": (int, float),
    "flag": (bool,),
}
MOST_SHOWN = 8
"""At most so many columns of an answer are in a table, unless others are requested."""
MOST_LISTED = MOST_SHOWN + 6
"""At most so many columns are in `show`: a table has the first `MOST_SHOWN` of them that have values."""

_KEYS = {"title", "needs", "chart", "like", "params", "columns", "report", "show", "subject", "hints", "on_cpu"}
_COMMON = "common"
"""In [params] and [columns] `common = ["run", …]` inserts entries of common.toml, and `name = "common"` inserts one."""


@dataclass(frozen=True)
class Param:
    """One parameter: `$name` in the SQL, `--name` on the command line; a default of None means no restriction.

    `example` is the value that the help shows, by default the default. `choices`, if any, are the only valid values.
    `needs` maps choices to the tables that they need in place of those of the query.
    """

    name: str
    type: ParamType
    default: Value
    about: str
    example: Value = None
    choices: tuple[str, ...] = ()
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_pattern(self) -> bool:
        """Return whether its values are regular expressions, as `about` then names them."""
        return self.type == "text" and "regular expression" in self.about


@dataclass(frozen=True)
class Chart:
    """What to draw: `y` columns over `x`, one panel or series per value of `by`.

    bars: one bar a row and y column; stacked: the y columns on top of each other; pairs: two y columns that are orders
    of magnitude apart, with their ratio; scatter and line: points over x; steps: a value that holds from one point to
    the next; roofline: the answer's kernels under its ceilings; curves: lines over x, a panel for each value of the
    `panel` columns; grid: x across, `by` down, y written into the cells, in panels as well; timeline: the parts y of
    each time bin, stacked, from x on for `bin_ns`. With `host` a device of NULL is the host, else it is unknown.
    `labels` replaces the names of x and y columns that do not explain themselves; in a label the clause
    `[: {column}]` is the value of a column that has the same value in all rows. The header lists the labels of y, or
    names columns in a table. Bars use `panel` to separate panels, too. With `signed`, bars above 0 are losses and those
    below are gains: they differ by color, hatch and sign, and all panels have one scale. `joined` is the value of `by`
    whose bars are kernels: those of two runs that replace each other are one bar.
    """

    kind: ChartKind
    x: str
    y: tuple[str, ...]
    by: str | None
    host: bool = False
    panel: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    signed: bool = False
    joined: str | None = None


@dataclass(frozen=True)
class Query:
    """One query file, parsed. `columns` maps each column of the answer to its meaning, in order.

    `like` maps other tools to the queries of the library that this one answers as they define it. `report` places the
    answer in the report; without it the report omits the query.
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
    sql_line: int = 1
    """The line of the file that the SQL begins on."""
    show: tuple[str, ...] = ()
    """The columns that a table has, of those of the answer; none: a table chooses."""
    subject: str | None = None
    """What the query is about: a section of the report, of SECTION_TITLES."""
    hints: tuple["Hint", ...] = ()
    on_cpu: str | None = None
    """The query that answers the same of ops, where nothing on a GPU is recorded."""


@dataclass(frozen=True)
class Hint:
    """What to record for a fuller answer: `text`, where `when`, SQL with the parameters of the query, is true.

    With `empty`, the answer then has no row, or none with a figure, and the list of queries does not mark the query.
    """

    when: str
    text: str
    empty: bool = False


@dataclass(frozen=True)
class HeaderFile:
    """A file with a header, split: prose, the header's text and its values, and SQL."""

    prose: str
    toml: str
    first_line: int
    fields: Mapping[str, object]
    sql: str
    sql_line: int


class _HeaderError(Exception):
    """What is wrong in a header; `key` locates its line."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


def parse(path: Path) -> Query:
    """Parse a query file; raise UsageError with file and line where the header is invalid."""
    file = split_header(path, "query")
    try:
        return _parse_fields(path, file)
    except _HeaderError as error:
        line = _key_line(error.key, file.toml, file.first_line)
        raise UsageError(f"{path}:{line}: {error}") from error


def split_header(path: Path, kind: str) -> HeaderFile:
    """Split a file at its header of this kind; raise UsageError with file and line where it has none."""
    text = _read_text(path)
    header = next((match for match in _HEADER.finditer(text) if match["kind"] == kind), None)
    if header is None:
        raise UsageError(
            f"{path}:1: no header; write one between the lines `-- /// {kind}` and `-- ///`, as the files in {QUERIES}"
        )
    first_line = text.count("\n", 0, header.start("toml")) + 1
    sql = text[header.end() :]
    return HeaderFile(
        prose=_uncomment(text[: header.start()]),
        toml=header["toml"],
        first_line=first_line,
        fields=_parse_toml(path, header["toml"], first_line),
        sql=sql.strip(),
        sql_line=text.count("\n", 0, header.end() + len(sql) - len(sql.lstrip())) + 1,
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not valid UTF-8 at byte {error.start}; re-save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def _parse_fields(path: Path, file: HeaderFile) -> Query:
    fields = file.fields
    for key in fields:
        if key not in _KEYS:
            hint = suggest_close("", key, _KEYS)
            raise _HeaderError(key, f"unknown key {key!r}{hint}; a header has {', '.join(sorted(_KEYS))}")
    columns = _columns(_field(fields, "columns", dict))
    needs = tuple(cast("list[str]", _field(fields, "needs", list)))
    for table in needs:
        if table not in schema.BY_NAME:
            raise _HeaderError("needs", f"needs names {table!r}, which is not a table; `tracelab schema` lists them")
    params = _params(fields.get("params", {}))
    _check_params_used(path, params, file)
    _check_blocks(params, file.sql)
    report = _report(fields["report"], columns) if "report" in fields else None
    return Query(
        name=path.stem,
        path=path,
        title=cast("str", _field(fields, "title", str)),
        prose=file.prose,
        needs=needs,
        chart=_chart(fields["chart"], columns) if "chart" in fields else None,
        params=params,
        columns=columns,
        sql=file.sql,
        like=_like(fields.get("like", {})),
        report=report,
        sql_line=file.sql_line,
        show=_show(fields.get("show", []), columns),
        subject=_subject(fields.get("subject"), report),
        hints=_hints(fields.get("hints", []), params),
        on_cpu=cast("str", _field(fields, "on_cpu", str)) if "on_cpu" in fields else None,
    )


def _field(fields: Mapping[str, object], key: str, kind: type) -> object:
    value = fields.get(key)
    if not isinstance(value, kind):
        expected = {"str": "text", "list": "a list", "dict": "a table"}[kind.__name__]
        raise _HeaderError(key, f"the header needs {key!r} ({expected})")
    return value


@cache
def _common() -> dict[str, dict[str, Any]]:
    """Parse common.toml: parameters, columns and report settings that several queries share."""
    return tomllib.loads((QUERIES / "common.toml").read_text(encoding="utf-8"))


def _with_common(entries: object, kind: Literal["params", "columns"]) -> dict[str, object]:
    """Replace references to common.toml by its entries, in place; a parameter without `about` overrides one."""
    common: dict[str, Any] = _common()[kind]
    merged: dict[str, object] = {}
    for key, entry in cast("dict[str, object]", entries).items():
        if isinstance(entry, dict) and "about" not in entry and key in common:
            merged[key] = {**common[key], **entry}
        elif entry != _COMMON and not (key == _COMMON and isinstance(entry, list)):
            merged[key] = entry
        else:
            for name in entry if isinstance(entry, list) else [key]:
                if name not in common:
                    hint = suggest_close("", name, common)
                    raise _HeaderError(
                        name, f"{name!r} is not in [{kind}] of {QUERIES / 'common.toml'}{hint}; describe it here"
                    )
                merged[name] = common[name]
    return merged


def _columns(entries: object) -> dict[str, str]:
    columns = cast("dict[str, str]", _with_common(entries, "columns"))
    for name, meaning in columns.items():
        if not isinstance(meaning, str) or not meaning:
            raise _HeaderError(name, f"column {name!r} needs its meaning as text")
    return columns


def _params(entries: object) -> tuple[Param, ...]:
    if not isinstance(entries, dict):
        raise _HeaderError("params", "params needs a table, [params]")
    return tuple(_param(name, entry) for name, entry in _with_common(entries, "params").items())


def _check_params_used(path: Path, params: tuple[Param, ...], file: HeaderFile) -> None:
    used = {match["name"]: match.start() for match in PARAMETER.finditer(file.sql) if match["name"]}
    declared = {param.name for param in params}
    for name in sorted(used.keys() - declared):
        line = file.sql_line + file.sql.count("\n", 0, used[name])
        hint = suggest_close("$", name, declared - used.keys())
        raise UsageError(f"{path}:{line}: the SQL uses ${name}, which [params] does not declare{hint}")
    for name in sorted(declared - used.keys() - shared_relations.kept_values(file.sql).keys()):
        raise _HeaderError(name, f"[params] declares {name!r}, which the SQL does not use")


@dataclass(frozen=True)
class Block:
    """Lines between `-- /// if NAME = VALUE, VALUE` and `-- /// end`: a part of the query with one of these values.

    NAME is a parameter, KEPT or ORDERED.
    """

    name: str
    values: tuple[str, ...]


def list_blocks(sql: str) -> Iterator[Block]:
    """Yield the blocks of a query's SQL."""
    return map(_parse_block, _BLOCK.finditer(sql))


def prune_blocks(sql: str, values: Mapping[str, object]) -> str:
    """Return SQL without the blocks that these values make idle; the other lines keep their numbers.

    Blocks of a name without a value stay.
    DuckDB plans each part of a query, also one that yields no rows.
    """

    def prune(match: re.Match[str]) -> str:
        block = _parse_block(match)
        value = values.get(block.name)
        if block.name not in values:
            return match[0]
        text = str(value).lower() if isinstance(value, bool) else value
        return match[0] if text in block.values else "\n" * match[0].count("\n")

    return _BLOCK.sub(prune, sql)


def _parse_block(match: re.Match[str]) -> Block:
    return Block(match["name"], tuple(value.strip() for value in match["values"].split(",")))


def _check_blocks(params: tuple[Param, ...], sql: str) -> None:
    choices = {param.name: ("false", "true") if param.type == "flag" else param.choices for param in params}
    choices |= dict.fromkeys((KEPT, ORDERED), ("false", "true"))
    for block in list_blocks(sql):
        if not block.values or not set(block.values) <= set(choices.get(block.name, ())):
            raise _HeaderError(
                "params", f"the SQL has a block for {block.name} = {', '.join(block.values)}, not choices"
            )


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
    if unknown := set(entry) - {"type", "default", "about", "example", "choices", "needs"}:
        raise _HeaderError(name, f"parameter {name!r} has an unknown key {sorted(unknown)[0]!r}")
    choices = tuple(entry.get("choices", ()))
    if choices and (kind != "text" or not {default, example} <= {None, *choices}):
        raise _HeaderError(name, f"parameter {name!r} has choices, so it must be text, and its default one of them")
    return Param(name, kind, default, entry["about"], example, choices, _needs_of_choices(name, entry, choices))


def _needs_of_choices(name: str, entry: Mapping[str, Any], choices: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    needs = {choice: tuple(tables) for choice, tables in entry.get("needs", {}).items()}
    if not set(needs) <= set(choices) or not {table for tables in needs.values() for table in tables} <= set(
        schema.BY_NAME
    ):
        raise _HeaderError(name, f"parameter {name!r} has needs, so they must map its choices to lists of tables")
    return needs


def _chart(entry: object, columns: Mapping[str, str]) -> Chart:
    if not isinstance(entry, dict) or entry.get("kind") not in get_args(ChartKind):
        raise _HeaderError("chart", f"chart needs a kind, one of {', '.join(get_args(ChartKind))}")
    x, y, by, labels = entry.get("x"), entry.get("y"), entry.get("by"), entry.get("labels", [])
    if not isinstance(y, list):
        raise _HeaderError("chart", "chart needs y as a list of columns")
    if isinstance(labels, dict):
        if unknown := set(labels) - {x, *y}:
            raise _HeaderError("chart", f"chart has a label for {sorted(unknown)[0]!r}, which is not its x or in its y")
        by_column = labels
    elif not isinstance(labels, list) or (labels and len(labels) != len(y)):
        raise _HeaderError("chart", "chart needs labels as a list with one label for each column of y, or as a table")
    else:
        by_column = dict(zip(y, labels, strict=bool(labels)))
    panel = entry.get("panel", [])
    if not isinstance(panel, list):
        raise _HeaderError("chart", "chart needs panel as a list of columns")
    for name in (x, *y, *(() if by is None else (by,)), *panel):
        if name not in columns:
            raise _HeaderError("chart", f"chart names {name!r}, which is not a column of the query")
    flags = {name: entry.get(name) is True for name in ("host", "signed")}
    joined = entry.get("joined")
    if joined is not None and not (isinstance(joined, str) and by):
        raise _HeaderError("chart", "chart needs joined as a value of its column `by`")
    return Chart(entry["kind"], str(x), tuple(y), by, panel=tuple(panel), labels=by_column, joined=joined, **flags)


def _like(entry: object) -> dict[str, str]:
    if not isinstance(entry, dict) or not all(isinstance(name, str) for name in entry.values()):
        raise _HeaderError("like", 'like needs a table of tools and queries, as { nsys = "kernel_summary" }')
    return entry


def _show(entry: object, columns: Mapping[str, str]) -> tuple[str, ...]:
    if not isinstance(entry, list) or len(entry) > MOST_LISTED or len(set(map(str, entry))) < len(entry):
        raise _HeaderError("show", f"show needs a list of at most {MOST_LISTED} different columns")
    for name in entry:
        if name not in columns:
            hint = suggest_close("", str(name), columns)
            raise _HeaderError("show", f"show names {name!r}, which is not a column of the query{hint}")
    return tuple(entry)


def _hints(entries: object, params: tuple[Param, ...]) -> tuple[Hint, ...]:
    valid = isinstance(entries, list) and all(
        isinstance(entry, dict)
        and {"when", "text"} <= set(entry) <= {"when", "text", "empty"}
        and all(isinstance(entry[name], str) for name in ("when", "text"))
        and isinstance(entry.get("empty", False), bool)
        for entry in entries
    )
    if not valid:
        raise _HeaderError("hints", "hints needs a list of tables with when and text, each as text, and maybe empty")
    hints = tuple(Hint(**entry) for entry in cast("list[dict[str, Any]]", entries))
    used = {match["name"] for hint in hints for match in PARAMETER.finditer(hint.when) if match["name"]}
    if unknown := used - {param.name for param in params}:
        raise _HeaderError("hints", f"hints use ${min(unknown)}, which [params] does not declare")
    return hints


def _subject(entry: object, report: Report | None) -> str | None:
    if entry is None:
        return None if report is None else report.section
    if report is not None:
        raise _HeaderError("subject", "a query with [report] has its section as subject; omit subject")
    if entry not in SECTION_TITLES:
        raise _HeaderError("subject", f"subject needs one of {', '.join(SECTION_TITLES)}")
    return str(entry)


def _report(entry: object, columns: Mapping[str, str]) -> Report:
    if not isinstance(entry, dict):
        raise _HeaderError("report", "report needs a table, [report]")
    shared = _common()["report"] if entry.get("show_if") == _COMMON else {}
    try:
        return parse_report({**entry, **shared}, columns)
    except ValueError as error:
        raise _HeaderError("report", str(error)) from error


def _parse_toml(path: Path, commented: str, first_line: int) -> dict[str, object]:
    for number, line in enumerate(commented.splitlines(), first_line):
        if not line.startswith("--"):
            raise UsageError(f"{path}:{number}: a header line must begin with `--`")
    try:
        return tomllib.loads(_uncomment(commented))
    except tomllib.TOMLDecodeError as error:
        position = re.search(r"at line (\d+)", str(error))
        number = first_line + (int(position[1]) - 1 if position else 0)
        raise UsageError(f"{path}:{number}: the header is not valid TOML: {error}") from error


def _key_line(key: str, commented: str, first_line: int) -> int:
    """The line of the header that has a key, else the one that names it; else the line before the header's first."""
    name = re.escape(key)
    for pattern in (rf'--\s*(?:("?){name}\1\s*=|\[{name}\])', rf'.*"{name}"'):
        for number, line in enumerate(commented.splitlines(), first_line):
            if re.match(pattern, line):
                return number
    return first_line - 1


def _uncomment(text: str) -> str:
    return "\n".join(re.sub(r"^-- ?", "", line) for line in text.strip().splitlines())
